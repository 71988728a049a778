/**
 * `POST /channel` that changes nothing needs `channel.read` on that channel and nothing else.
 * Permissions elsewhere do not help, and a request that changes anything needs the permission of
 * the change.
 */
import { beforeAll, describe, expect, test } from "vitest";
import {
	createTestApp,
	createTestKey,
	createWorld,
	setTestChannel,
	type TestApp,
	uploadTestBundle,
	type World,
} from "../support/world";

const SETTINGS = { version: "1.0.0", public: true, allow_dev: true, disableAutoUpdate: "major", rolloutPaused: false };

let world: World;
let app: TestApp;
let otherApp: TestApp;
beforeAll(async () => {
	world = await createWorld();
	app = await createTestApp(world);
	otherApp = await createTestApp(world, "other");
	for (const of of [app, otherApp]) {
		await uploadTestBundle(world, of, "1.0.0");
		await setTestChannel(world, of, "production", { version: "1.0.0", public: true });
	}
});

const post = (key: string, fields: Record<string, unknown>, channel = "production") =>
	world.request("POST", "/channel", { key, body: { app_id: app.appId, channel, ...fields } });
const revision = async () =>
	JSON.stringify(
		(
			await world.request("GET", "/channel", {
				key: world.adminKey,
				query: { app_id: app.appId, channel: "production" },
			})
		).body,
	);
const refused = (permission: string, scope: string) => ({
	status: 403,
	body: { error: "permission_denied", moreInfo: { permission, scope } },
});

describe("POST /channel that changes nothing", () => {
	test.each([["app_reader"], ["app_uploader"], ["app_developer"], ["app_admin"], ["org_member"]] as const)(
		"is answered to %s, who reads the channel, and writes nothing",
		async (role) => {
			const key = await createTestKey(world, role, role.startsWith("app") ? app : undefined);
			const before = await revision();
			for (const fields of [SETTINGS, {}]) {
				const answer = await post(key.text, fields);
				expect(answer, JSON.stringify(answer.body)).toMatchObject({
					status: 200,
					body: { status: "ok", public: true },
				});
			}
			expect(await revision()).toBe(before);
		},
	);

	test.each([[SETTINGS], [{}], [{ version: "1.0.0" }], [{ version: "9.9.9" }], [{ rolloutVersion: "9.9.9" }]])(
		"is refused to a preview key on a channel that it did not create: %j",
		async (fields) => {
			const preview = await createTestKey(world, "app_preview", app);
			const isKnown = !JSON.stringify(fields).includes("9.9.9");
			expect(await post(preview.text, fields)).toMatchObject(
				refused(isKnown ? "channel.read" : "channel.promote_bundle", "channel"),
			);
		},
	);

	test("is answered to a preview key for the channel that it created, and hides every other channel", async () => {
		const preview = await createTestKey(world, "app_preview", app);
		const other = await createTestKey(world, "app_preview", app);
		expect((await post(preview.text, { allow_device_self_set: true }, "pr-1")).status).toBe(201);
		expect(await post(preview.text, { allow_device_self_set: true }, "pr-1")).toMatchObject({ status: 200 });
		expect(await post(preview.text, { allow_device_self_set: false }, "pr-1")).toMatchObject(
			refused("channel.update_settings", "channel"),
		);
		expect(await post(other.text, { allow_device_self_set: true }, "pr-1")).toMatchObject(
			refused("channel.read", "channel"),
		);
	});

	test.each([["app_reader"], ["app_admin"], ["app_preview"]] as const)(
		"is answered to %s of another app as if there were no such app",
		async (role) => {
			const key = await createTestKey(world, role, otherApp);
			const absent = await world.request("POST", "/channel", {
				key: key.text,
				body: { app_id: "com.example.absent", channel: "production", ...SETTINGS },
			});
			const answer = await post(key.text, SETTINGS);
			const { requestId: _, ...body } = answer.body;
			expect(answer.status).toBe(404);
			expect(absent.body).toMatchObject(body);
		},
	);
});

test.each([
	[{ version: null }, "channel.promote_bundle"],
	[{ rolloutPaused: true }, "channel.promote_bundle"],
	[{ allow_dev: false }, "channel.update_settings"],
	[{ rolloutStepMinutes: 5 }, "channel.update_settings"],
	[{ ...SETTINGS, allow_dev: false }, "channel.update_settings"],
])("POST /channel needs the permission of the change: %j", async (fields, permission) => {
	const reader = await createTestKey(world, "app_reader", app);
	expect(await post(reader.text, fields)).toMatchObject(refused(permission, "channel"));
});

test("POST /channel without a setting does not create a channel for a reader", async () => {
	const reader = await createTestKey(world, "app_reader", app);
	expect(await post(reader.text, {}, "absent")).toMatchObject(refused("app.create_channel", "app"));
});
