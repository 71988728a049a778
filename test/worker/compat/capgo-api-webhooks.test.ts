/**
 * Webhooks by Capgo's paths, names, headers and events: the whole life of one, as a receiver and a
 * script see it.
 */

import { beforeEach, describe, expect, test } from "vitest";
import { installTriggers } from "../../../src/db/triggers";
import { verified } from "../support/receiver";
import { createTestApp, createTestMember, setTestChannel, type TestApp, uploadTestBundle } from "../support/scene";
import { addWebhook, createScene, type WebhookScene } from "../support/webhook-scene";
import { testEnv } from "../support/world";

let scene: WebhookScene;
let app: TestApp;
beforeEach(async () => {
	scene = await createScene();
	app = await createTestApp(scene.world);
});

const send = (method: string, path: string, fields: Record<string, unknown> = {}) => {
	const { world } = scene;
	const all = { orgId: world.orgId, ...fields };
	const headers = { "x-api-key": world.adminKey };
	return method === "GET"
		? world.request(method, path, { headers, query: all as Record<string, string> })
		: world.request(method, path, { headers, body: all });
};
const create = async (fields: Record<string, unknown> = {}) => {
	const answer = await send("POST", "/webhooks", {
		...{ name: "Log", url: "https://hooks.example.com/log", events: ["channels"], ...fields },
	});
	scene.world.deps.woken.length = 0;
	return answer;
};
const hex = async (secret: string, text: string) => {
	const bytes = (value: string) => new TextEncoder().encode(value);
	const algorithm = { name: "HMAC", hash: "SHA-256" };
	const key = await crypto.subtle.importKey("raw", bytes(secret), algorithm, false, ["sign"]);
	const signed = new Uint8Array(await crypto.subtle.sign("HMAC", key, bytes(text)));
	return [...signed].map((byte) => byte.toString(16).padStart(2, "0")).join("");
};

describe("a webhook for records", () => {
	test("is created, listed, changed and deleted by those names", async () => {
		const { status, body } = await create({ deliveryVersion: "legacy" });
		expect({ status, body }).toMatchObject({
			status: 201,
			body: {
				status: "Webhook created",
				webhook: { name: "Log", events: ["channels"], enabled: true, secret: expect.stringMatching(/^whsec_/) },
				ignored: ["deliveryVersion"],
			},
		});
		const { secret: _, ...shown } = body.webhook;
		const ours = await addWebhook(scene.world, { events: ["channel.promoted"] });
		const { body: listed } = await send("GET", "/webhooks");
		expect(listed).toContainEqual(shown);
		expect(listed).toContainEqual(expect.objectContaining({ id: ours.id, events: ["channel.promoted"] }));
		const one = await send("GET", "/webhooks", { webhookId: shown.id });
		expect(one.body).toEqual({ ...shown, stats_24h: { success: 0, failed: 0, pending: 0 } });
		const changed = await send("PUT", "/webhooks", { webhookId: shown.id, name: "Renamed", enabled: false });
		expect(changed.body).toMatchObject({ status: "Webhook updated", webhook: { name: "Renamed", enabled: false } });
		const removed = await send("DELETE", "/webhooks", { webhookId: shown.id });
		expect(removed.body).toEqual({ status: "Webhook deleted", webhookId: shown.id });
		expect((await send("GET", "/webhooks", { webhookId: shown.id })).status).toBe(404);
	});

	test.each<[string, Record<string, unknown>, string]>([
		["no name", { name: "" }, "name"],
		["no event", { events: [] }, "events"],
		["an unknown event", { events: ["devices"] }, "events.0"],
		["an address without https", { url: "http://hooks.example.com" }, "url"],
		["an unknown version", { deliveryVersion: "3" }, "deliveryVersion"],
	])("with %s is refused by that name", async (_, fields, path) => {
		const { status, body } = await create(fields);
		expect({ status, path: body.moreInfo.issues[0].path }).toEqual({ status: 400, path });
	});

	test("gets each record of its tables once, signed in both ways", async () => {
		const { world, receiver, deliver } = scene;
		const { secret, id } = (await create({ events: ["channels", "app_versions", "org_users", "apps", "orgs"] })).body
			.webhook;
		await uploadTestBundle(world, app, "1.0.0");
		await setTestChannel(world, app, "production", { version: "1.0.0" });
		await setTestChannel(world, app, "production", { public: true });
		await createTestMember(world, "org_member");
		await send("PUT", "/organization", { name: "Renamed" });
		await world.request("PUT", `/app/${app.appId}`, { key: world.adminKey, body: { name: "Renamed" } });
		await world.request("DELETE", "/channel", {
			key: world.adminKey,
			query: { app_id: app.appId, channel: "production" },
		});
		await deliver();
		const types = receiver.received.map(({ headers }) => headers["x-capgo-event"]).sort();
		expect(types).toEqual([
			"app_versions.INSERT",
			"app_versions.UPDATE",
			"apps.UPDATE",
			"channels.DELETE",
			"channels.INSERT",
			"channels.UPDATE",
			"org_users.INSERT",
			"orgs.UPDATE",
		]);
		for (const delivery of receiver.received) {
			const { headers, text, body } = delivery;
			const timestamp = headers["x-capgo-timestamp"];
			expect(headers["x-capgo-signature"]).toBe(`v1=${timestamp}.${await hex(secret, `${timestamp}.${text}`)}`);
			expect(verified(secret, delivery, scene.world.clock.nowMs)).toEqual(body);
			const [table, operation] = (headers["x-capgo-event"] ?? "").split(".");
			expect(body).toMatchObject({
				event: headers["x-capgo-event"],
				event_id: headers["webhook-id"],
				org_id: world.orgId,
				data: { table, operation, record_id: expect.any(String), changed_fields: expect.any(Array) },
			});
			expect(headers["x-capgo-event-id"]).toBe(headers["webhook-id"]);
		}
		const { body } = await send("GET", "/webhooks/deliveries", { webhookId: id, status: "success" });
		expect(body.pagination).toEqual({ page: 0, per_page: 50, total: types.length, has_more: false });
		expect(body.deliveries.map((each: { event_type: string }) => each.event_type).sort()).toEqual(types);
		const stats = await send("GET", "/webhooks", { webhookId: id });
		expect(stats.body.stats_24h).toEqual({ success: types.length, failed: 0, pending: 0 });
	});

	test("changes nothing for webhooks of this server's events, and costs no event without one", async () => {
		const { world, receiver, deliver } = scene;
		await addWebhook(world);
		await setTestChannel(world, app, "beta");
		await uploadTestBundle(world, app, "1.0.0");
		await setTestChannel(world, app, "beta", { version: "1.0.0" });
		await deliver();
		expect(receiver.received.map(({ body }) => (body as { type: string }).type)).toEqual(["channel.promoted"]);
		expect(receiver.received[0]?.headers).not.toHaveProperty("x-capgo-event");
		const { results } = await testEnv.DB.prepare("SELECT type FROM webhook_events WHERE org_id = ?")
			.bind(world.orgId)
			.all();
		expect(results).toEqual([{ type: "channel.promoted" }]);
	});

	test("is tested, and its deliveries are sent again", async () => {
		const { receiver, deliver } = scene;
		const { id } = (await create()).body.webhook;
		const tested = await send("POST", "/webhooks/test", { webhookId: id });
		expect(tested.body).toMatchObject({ success: true, delivery_id: expect.any(String) });
		await deliver();
		expect(receiver.received[0]?.headers["x-capgo-event"]).toBe("webhook.test");
		const retried = await send("POST", "/webhooks/deliveries/retry", { deliveryId: tested.body.delivery_id });
		expect(retried.body).toEqual({ status: "Delivery queued for retry", deliveryId: tested.body.delivery_id });
		await deliver();
		expect(receiver.received).toHaveLength(2);
	});

	test("gets events after the triggers of an earlier release are replaced", async () => {
		const { world, receiver, deliver } = scene;
		await create();
		const earlier = await testEnv.DB.prepare(
			"SELECT name FROM sqlite_schema WHERE type = 'trigger' AND name GLOB 'webhook_events_of_audit_*'",
		).first("name");
		await testEnv.DB.prepare(`DROP TRIGGER ${earlier}`).run();
		await installTriggers(world.deps);
		await setTestChannel(world, app, "late");
		await deliver();
		expect(receiver.received).toHaveLength(1);
	});
});
