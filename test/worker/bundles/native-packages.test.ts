/**
 * Native packages of bundles: what an uploader may send, the comparison with the live bundle, and
 * channels that refuse bundles which do not fit, checked by the offers to a device.
 */

import { beforeEach, describe, expect, test } from "vitest";
import { readThenWrite } from "../support/interleave";
import { REPORTS, reportsOf } from "../support/reports";
import { signIn, signInByPasskey } from "../support/sessions";
import {
	createTestApp,
	createTestKey,
	createTestMember,
	createWorld,
	setTestChannel,
	type TestApp,
	uploadTestBundle,
	type World,
} from "../support/world";

let world: World;
let app: TestApp;
beforeEach(async () => {
	world = await createWorld();
	app = await createTestApp(world);
});

type Packages = readonly { readonly name: string; readonly version: string; readonly [field: string]: string }[];
const CAMERA = { name: "@capacitor/camera", version: "7.0.2" };
const IOS = "a".repeat(64);

const upload = (version: string, native_packages?: Packages, more: Record<string, unknown> = {}) =>
	uploadTestBundle(world, app, version, world.adminKey, undefined, {
		...(native_packages === undefined ? {} : { native_packages }),
		...more,
	});
const register = (body: Record<string, unknown>) =>
	world.request("POST", "/bundle", { key: world.adminKey, body: { app_id: app.appId, version: "3.0.0", ...body } });
const shown = async (version: string) =>
	(await world.request("GET", "/bundle", { key: world.adminKey, query: { app_id: app.appId, version } })).body[0];
const compare = async (version: string, channel = "production", key = world.adminKey) =>
	world.request("GET", "/bundle/compatibility", { key, query: { app_id: app.appId, version, channel } });
const set = (body: Record<string, unknown>, key = world.adminKey, via: Pick<World, "request"> = world) =>
	via.request("POST", "/channel", { key, body: { app_id: app.appId, channel: "production", ...body } });
const live = async () =>
	(await world.request("GET", "/channel", { key: world.adminKey, query: { app_id: app.appId, channel: "production" } }))
		.body;

describe("POST /bundle", () => {
	test("stores native packages by name without unknown fields, and GET /bundle shows them for one version", async () => {
		const packages = [
			{ name: "z-plugin", version: "^1.0.0", requested_version: "^1.0.0", other: "dropped" },
			{ ...CAMERA, ios_checksum: IOS },
		];
		const kept = [
			{ ...CAMERA, ios_checksum: IOS },
			{ name: "z-plugin", version: "^1.0.0", requested_version: "^1.0.0" },
		];
		expect((await register({ version: "1.0.0", native_packages: packages })).body.native_packages).toEqual(kept);
		await upload("1.1.0", packages);
		await upload("1.2.0");
		expect((await shown("1.1.0")).native_packages).toEqual(kept);
		expect((await shown("1.2.0")).native_packages).toBeNull();
		const list = await world.request("GET", "/bundle", { key: world.adminKey, query: { app_id: app.appId } });
		expect(list.body.every((bundle: object) => !("native_packages" in bundle))).toBe(true);
	});

	test.each<[string, unknown, string]>([
		["something else than a list", "camera", "native_packages"],
		["a package without a version", [{ name: "x" }], "native_packages.0.version"],
		["an empty name", [{ name: "", version: "1.0.0" }], "native_packages.0.name"],
		["a checksum that is none", [{ ...CAMERA, ios_checksum: "abc" }], "native_packages.0.ios_checksum"],
		["a package twice", [CAMERA, CAMERA], "native_packages"],
		["too many", Array.from({ length: 501 }, (_, index) => ({ name: `p${index}`, version: "1" })), "native_packages"],
		[
			"too much text",
			Array.from({ length: 300 }, (_, index) => ({
				name: `p${index}`,
				version: "1",
				requested_version: "x".repeat(500),
			})),
			"native_packages",
		],
	])("names the field for %s", async (_, native_packages, path) => {
		const { status, body } = await register({ native_packages });
		expect([status, body.error, body.moreInfo.issues[0].path]).toEqual([400, "invalid_request", path]);
	});
});

describe("GET /bundle/compatibility", () => {
	test("compares with the live bundle, and names the store builds that run the same packages", async () => {
		await upload("1.0.0", [CAMERA, { name: "gone", version: "1.0.0" }]);
		await upload("1.1.0", [
			{ ...CAMERA, version: "7.1.0" },
			{ name: "fresh", version: "2.0.0" },
		]);
		await upload("1.0.1", [{ ...CAMERA, version: "7.0.2+build" }]);
		await upload("1.0.2", [CAMERA]);
		await setTestChannel(world, app, "production", { version: "1.0.0" });
		expect((await compare("1.1.0")).body).toEqual({
			channel: "production",
			required: false,
			version: "1.1.0",
			live_version: "1.0.0",
			verdict: "incompatible",
			not_compared: null,
			store_builds: [],
			packages: [
				{ name: "@capacitor/camera", version: "7.1.0", live_version: "7.0.2", problem: "version" },
				{ name: "fresh", version: "2.0.0", live_version: null, problem: "added" },
				{ name: "gone", version: null, live_version: "1.0.0", problem: null },
			],
		});
		expect((await compare("1.0.1")).body.verdict).toBe("compatible");
		const insert = (await reportsOf(app.uuid)).prepare(
			"INSERT INTO devices (app_id, device_id, version_name, version_build, created_at_ms, updated_at_ms) VALUES (?, ?, ?, ?, 1, 1)",
		);
		const { uuid } = app;
		await REPORTS.batch(
			[
				["1.0.2", "2.10.0"],
				["1.0.2", "2.9.0"],
				["1.0.2", "2.9.0"],
				["1.1.0", "3.0.0"],
			].map(([version, build]) => insert.bind(uuid, crypto.randomUUID(), version, build)),
		);
		expect((await compare("1.0.2")).body.store_builds).toEqual(["2.10.0", "2.9.0"]);
	});

	test("gives the reason if nothing can be compared", async () => {
		await upload("1.0.0");
		await upload("1.1.0", [CAMERA]);
		await setTestChannel(world, app, "production");
		expect((await compare("1.1.0")).body).toMatchObject({ verdict: "unknown", not_compared: "store_build_live" });
		await set({ version: "1.0.0" });
		expect((await compare("1.1.0")).body).toMatchObject({ verdict: "unknown", not_compared: "live_bundle_lists_none" });
		await set({ version: "1.1.0" });
		expect((await compare("1.0.0")).body).toMatchObject({ verdict: "unknown", not_compared: "bundle_lists_none" });
		expect((await compare("9.0.0")).body.error).toBe("bundle_not_found");
		expect((await compare("1.0.0", "none")).body.error).toBe("channel_not_found");
	});

	test("does not compare a bundle with store builds older than its minimum", async () => {
		await upload("1.0.0", [], { min_update_version: "1.0.0" });
		await upload("2.0.0", [CAMERA], { min_update_version: "2.0.0" });
		await upload("2.0.1", [CAMERA], { min_update_version: "1.0.0" });
		await setTestChannel(world, app, "production", { version: "1.0.0", disableAutoUpdate: "version_number" });
		expect((await compare("2.0.0")).body).toMatchObject({
			verdict: "compatible",
			not_compared: "newer_store_builds_only",
		});
		expect((await compare("2.0.1")).body.verdict).toBe("incompatible");
		await set({ disableAutoUpdate: "none" });
		expect((await compare("2.0.0")).body.verdict).toBe("incompatible");
	});
});

describe("a channel that requires compatible bundles", () => {
	let nextId: number;
	let channelId: number;
	beforeEach(async () => {
		await upload("1.0.0", [CAMERA]);
		await upload("1.1.0", [CAMERA]);
		nextId = await upload("2.0.0", [CAMERA, { name: "fresh", version: "2.0.0" }]);
		await upload("3.0.0");
		channelId = await setTestChannel(world, app, "production", { version: "1.0.0" });
		await set({ version: "1.1.0", requireCompatibleBundle: true });
		expect(await live()).toMatchObject({ version: { name: "1.1.0" }, requireCompatibleBundle: true });
	});
	const REFUSED = [409, "bundle_incompatible"];
	const result = ({ status, body }: { status: number; body: unknown }) => [status, (body as { error?: string }).error];

	test("refuses an incompatible bundle by every way to promote, and names the packages and the remedy", async () => {
		const refused = await set({ version: "2.0.0" });
		expect(result(refused)).toEqual(REFUSED);
		expect(refused.body.message).toMatch(
			/2\.0\.0 .*production.*1\.1\.0: fresh 2\.0\.0 \(not in the live bundle\).*requireCompatibleBundle: false/,
		);
		expect(refused.body.moreInfo).toEqual({
			channel: "production",
			version: "2.0.0",
			live_version: "1.1.0",
			not_compared: null,
			packages: [{ name: "fresh", version: "2.0.0", live_version: null, problem: "added" }],
		});
		const key = world.adminKey;
		const ids = { app_id: app.appId, version_id: nextId, channel_id: channelId };
		expect(result(await world.request("PUT", "/bundle", { key, body: ids }))).toEqual(REFUSED);
		expect(result(await set({ rolloutVersion: "2.0.0", rolloutPercentage: 5, rolloutEnabled: true }))).toEqual(REFUSED);
		const planned = { app_id: app.appId, channel: "production", version: "2.0.0" };
		expect(result(await world.request("POST", "/channel/what_if", { key, body: planned }))).toEqual(REFUSED);
		const patched = await world.request("PATCH", "/compat/capgo-cli/rest/v1/channels", {
			key,
			query: { app_id: `eq.${app.appId}`, name: "eq.production" },
			body: { app_id: app.appId, name: "production", version: nextId },
		});
		expect(result(patched)).toEqual(REFUSED);
		expect((await set({ version: "3.0.0" })).body).toMatchObject({
			error: "bundle_incompatible",
			moreInfo: { not_compared: "bundle_lists_none" },
		});
		const neverLive = { app_id: app.appId, channel: "production", version: "2.0.0" };
		expect(result(await world.request("POST", "/channel/rollback", { key, body: neverLive }))).toEqual(REFUSED);
		expect((await live()).version.name).toBe("1.1.0");
		expect(result(await set({ version: "1.0.0" }))).toEqual([200, undefined]);
	});

	test("lets only callers that may change its settings turn the rule off, also in the promoting request", async () => {
		const uploader = await createTestKey(world, "app_uploader", app);
		const turnedOff = { version: "2.0.0", requireCompatibleBundle: false };
		expect(result(await set(turnedOff, uploader.text))).toEqual([403, "permission_denied"]);
		expect(result(await set(turnedOff))).toEqual([200, undefined]);
		expect((await live()).version.name).toBe("2.0.0");
	});

	test("never refuses a rollback to a bundle that was live, a continued rollout or an empty channel", async () => {
		await set({ requireCompatibleBundle: false });
		await set({ rolloutVersion: "2.0.0", rolloutPercentage: 5, rolloutEnabled: true, require_compatible_bundle: true });
		expect(await live()).toMatchObject({ rolloutEnabled: false, requireCompatibleBundle: false });
		await set({ rolloutVersion: "2.0.0", rolloutPercentage: 5, rolloutEnabled: true });
		await set({ requireCompatibleBundle: true });
		expect(result(await set({ rolloutPercentage: 50 }))).toEqual([200, undefined]);
		expect(result(await set({ promoteToStable: true }))).toEqual([200, undefined]);
		expect((await live()).version.name).toBe("2.0.0");
		// Nothing is missing in 1.1.0, and a rollback would be fine even if it were.
		await set({ requireCompatibleBundle: false, version: "1.1.0" });
		await set({ requireCompatibleBundle: true });
		const back = { app_id: app.appId, channel: "production", version: "2.0.0" };
		expect((await world.request("POST", "/channel/rollback", { key: world.adminKey, body: back })).status).toBe(200);
		expect(result(await set({ version: null }))).toEqual([200, undefined]);
		expect(result(await set({ version: "3.0.0" }))).toEqual([200, undefined]);
	});

	test("compares with the bundle that is live when the change is written", async () => {
		await upload("2.1.0", [CAMERA, { name: "fresh", version: "2.0.0" }]);
		await set({ requireCompatibleBundle: false });
		await set({ version: "2.0.0" });
		await set({ requireCompatibleBundle: true });
		const raced = await readThenWrite(
			world,
			(racing) => set({ version: "2.0.0", rolloutVersion: "2.1.0" }, world.adminKey, racing),
			() => set({ version: "1.1.0" }),
		);
		expect(result(raced)).toEqual([409, "channel_changed"]);
		await set({ requireCompatibleBundle: false });
		const turnedOn = await readThenWrite(
			world,
			(racing) => set({ version: "2.0.0" }, world.adminKey, racing),
			() => set({ requireCompatibleBundle: true }),
		);
		expect(result(turnedOn)).toEqual([409, "channel_changed"]);
	});

	test("refuses a proposal, and the approval of one that is older than the rule", async () => {
		const member = await createTestMember(world, "org_admin");
		const approver = await signInByPasskey(world, await signIn(world, member.email));
		await set({ protected: true, requires_approval: true });
		expect(result(await set({ version: "2.0.0" }))).toEqual(REFUSED);
		await set({ requireCompatibleBundle: false });
		const { body } = await set({ version: "2.0.0" });
		await set({ requireCompatibleBundle: true });
		const approve = () =>
			world.request("POST", "/proposal/approve", {
				headers: approver.headers,
				body: { app_id: app.appId, id: body.proposal_id },
			});
		expect(result(await approve())).toEqual(REFUSED);
		await set({ requireCompatibleBundle: false });
		expect(result(await approve())).toEqual([200, undefined]);
		expect((await live()).version.name).toBe("2.0.0");
	});
});
