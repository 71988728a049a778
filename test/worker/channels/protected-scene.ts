/**
 * A public channel with a bundle, a newer bundle of an uploader, and another administrator who may
 * approve: the set-up of the tests of protected channels and proposals.
 */
import { expect } from "vitest";
import { signIn, signInByPasskey, type TestSession } from "../support/sessions";
import {
	createTestApp,
	createTestKey,
	createTestMember,
	createWorld,
	type RequestOptions,
	setTestChannel,
	type TestApp,
	type TestKey,
	type TestMember,
	uploadTestBundle,
	type World,
} from "../support/world";

export let world: World;
export let app: TestApp;
/** Its account is the administrator's. */
export let uploader: TestKey;
export let other: TestMember;
export let approver: TestSession;
export let channelId: number;
export let nextId: number;

/** For `beforeEach`. */
export async function prepareChannel(): Promise<void> {
	world = await createWorld();
	app = await createTestApp(world);
	uploader = await createTestKey(world, "app_uploader", app);
	other = await createTestMember(world, "org_admin");
	approver = await signInByPasskey(world, await signIn(world, other.email));
	await uploadTestBundle(world, app, "1.0.1");
	await uploadTestBundle(world, app, "1.1.0");
	channelId = await setTestChannel(world, app, "production", { version: "1.0.1" });
	await setTestChannel(world, app, "production", { version: "1.1.0", public: true });
	nextId = await uploadTestBundle(world, app, "1.2.0", uploader.text);
}

export type Caller = Pick<RequestOptions, "key" | "headers">;
export const keyed = (key: string): Caller => ({ key });
export const send = (
	method: string,
	path: string,
	by: Caller,
	body: Record<string, unknown>,
	via: Pick<World, "request"> = world,
) => via.request(method, path, { ...by, body: { app_id: app.appId, ...body } });
export const set = (by: Caller, body: Record<string, unknown>, via?: Pick<World, "request">) =>
	send("POST", "/channel", by, { channel: "production", ...body }, via);
export const admin = () => keyed(world.adminKey);
export const protect = async (rules: Record<string, unknown> = {}) => {
	const { status, body } = await set(admin(), { protected: true, ...rules });
	if (status !== 200) throw new Error(`not protected: ${JSON.stringify(body)}`);
};
export const decide = (verb: "approve" | "reject", by: Caller, id: string, via?: Pick<World, "request">) =>
	send("POST", `/proposal/${verb}`, by, { id }, via);
export const proposals = async (query: Record<string, string> = {}, by = admin()) =>
	(await world.request("GET", "/proposal", { ...by, query: { app_id: app.appId, ...query } })).body;
export const served = async () => {
	const { body } = await world.request("POST", "/updates", {
		body: {
			app_id: app.appId,
			device_id: crypto.randomUUID(),
			platform: "android",
			version_name: "builtin",
			version_build: "1.0.0",
			plugin_version: "8.51.23",
			defaultChannel: "",
		},
	});
	return body.version;
};
export const shown = async (channel = "production") =>
	(await world.request("GET", "/channel", { ...admin(), query: { app_id: app.appId, channel } })).body;
export const propose = async (by = keyed(uploader.text), body: Record<string, unknown> = { version: "1.2.0" }) => {
	const answer = await set(by, body);
	expect(answer, JSON.stringify(answer.body)).toMatchObject({ status: 202, body: { status: "pending_approval" } });
	return answer.body.proposal_id as string;
};
export const PROTECTED = { status: 403, body: { error: "channel_protected" } };
export const needs = (permission: string) => ({
	status: 403,
	body: { error: "permission_denied", moreInfo: { permission } },
});
