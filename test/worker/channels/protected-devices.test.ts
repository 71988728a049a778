/**
 * The devices of a protected channel, which a channel of the name that they send would take from
 * it: opening such a channel is for administrators, by every door.
 */

import { beforeEach, expect, test } from "vitest";
import { reportsOf } from "../support/reports";
import { signIn } from "../support/sessions";
import { createTestKey, createTestMember } from "../support/world";
import { admin, app, type Caller, keyed, prepareChannel, protect, send, world } from "./protected-scene";

let developer: Caller;
beforeEach(async () => {
	await prepareChannel();
	developer = keyed((await createTestKey(world, "app_developer", app)).text);
	const reports = await reportsOf(app.uuid);
	await reports
		.prepare(
			"INSERT INTO devices (app_id, device_id, default_channel, created_at_ms, updated_at_ms) VALUES (?, ?, 'stable', 0, 0)",
		)
		.bind(app.uuid, crypto.randomUUID())
		.run();
});

const served = async (defaultChannel = "stable") =>
	(
		await world.request("POST", "/updates", {
			body: {
				app_id: app.appId,
				device_id: crypto.randomUUID(),
				platform: "android",
				version_name: "builtin",
				version_build: "1.0.0",
				plugin_version: "8.51.23",
				defaultChannel,
			},
		})
	).body.version;
const set = (by: Caller, body: Record<string, unknown>) => send("POST", "/channel", by, { channel: "stable", ...body });
const patch = (by: Caller, body: Record<string, unknown>) =>
	world.request("PATCH", "/compat/capgo-cli/rest/v1/channels", {
		...by,
		query: { app_id: `eq.${app.appId}`, name: "eq.stable" },
		body: { app_id: app.appId, name: "stable", ...body },
	});
const REFUSED = { status: 403, body: { moreInfo: { permission: "app.update_user_roles" } } };

test("stay with it when a developer creates or opens a channel of their name, by every door and in every order", async () => {
	await protect({ requires_approval: true });
	const whole = await set(developer, { version: "1.2.0", allow_device_self_set: true });
	expect(whole).toMatchObject(REFUSED);
	expect(whole.body.message).toContain("propose the bundle for production");
	expect(await set(developer, { allow_device_self_set: true }), "an empty one").toMatchObject(REFUSED);
	const created = await set(developer, { version: "1.2.0" });
	expect(created.status, "a closed one").toBe(201);
	expect(await set(developer, { allow_device_self_set: true })).toMatchObject(REFUSED);
	expect(await patch(developer, { allow_device_self_set: true })).toMatchObject(REFUSED);
	expect(await served()).toBe("1.1.0");
});

test("stay with it when an open channel gets a platform", async () => {
	await protect();
	const off = { ios: false, android: false, electron: false };
	expect((await set(developer, { version: "1.2.0", allow_device_self_set: true, ...off })).status).toBe(201);
	expect(await set(developer, { android: true })).toMatchObject(REFUSED);
	expect(await served()).toBe("1.1.0");
});

test("move with an administrator, who has signed in lately", async () => {
	await protect();
	const person = await createTestMember(world, "org_admin");
	const session = await signIn(world, person.email);
	expect((await set(session, { version: "1.2.0", allow_device_self_set: true })).status).toBe(201);
	world.clock.nowMs += 3 * 3_600_000;
	await set(admin(), { allow_device_self_set: false });
	expect((await set(session, { allow_device_self_set: true })).status, "long ago").toBe(403);
	expect((await set(admin(), { allow_device_self_set: true })).status).toBe(200);
	expect(await served()).toBe("1.2.0");
});

test("are no matter for other names, for an app without protection and for changes of an open channel", async () => {
	expect((await set(developer, { version: "1.2.0", allow_device_self_set: true })).status, "unprotected").toBe(201);
	await protect();
	expect((await set(developer, { allow_emulator: false })).status, "it is open already").toBe(200);
	expect((await set(developer, { allow_device_self_set: true })).status, "no change").toBe(200);
	const beta = await send("POST", "/channel", developer, {
		channel: "beta",
		version: "1.2.0",
		allow_device_self_set: true,
	});
	expect(beta.status, "no device sends it").toBe(201);
	expect(await served("beta")).toBe("1.2.0");
});
