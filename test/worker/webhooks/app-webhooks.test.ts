/**
 * A webhook of one app is managed by those who may change the settings of that app, and reaches
 * nothing beyond it: no other app, no event of the organization, no webhook of the organization.
 */
import { beforeEach, describe, expect, test } from "vitest";
import { createTestApp, createTestKey, createTestMember, type TestApp, type TestKey } from "../support/scene";
import { addWebhook, createScene, promote, URL_OF_HOOK, type WebhookScene } from "../support/webhook-scene";
import { testEnv } from "../support/world";

let scene: WebhookScene;
let app: TestApp;
let other: TestApp;
let key: TestKey;

beforeEach(async () => {
	scene = await createScene();
	app = await createTestApp(scene.world);
	other = await createTestApp(scene.world);
	key = await createTestKey(scene.world, "app_admin", app);
});

const ask = (method: "GET" | "POST" | "PUT" | "DELETE", path: string, fields: object, by = key.text) => {
	const named = { orgId: scene.world.orgId, ...fields };
	const sent = method === "GET" || method === "DELETE" ? { query: named } : { body: named };
	return scene.world.request(method, path, { key: by, ...sent });
};
const add = (fields: object = {}, by = key.text) =>
	ask("POST", "/webhook", { app_id: app.appId, url: URL_OF_HOOK, ...fields }, by);

interface WebhookBody {
	readonly type: string;
	readonly data: { readonly app_id: string | null };
}

/** Every request about one webhook. */
const requestsAbout = (id: string, delivery: string) =>
	[
		["PUT", "/webhook", { id, description: "Mine" }],
		["POST", "/webhook/rotate", { id }],
		["POST", "/webhook/test", { id }],
		["GET", "/webhook/delivery", { id }],
		["POST", "/webhook/delivery/replay", { id: delivery }],
		["DELETE", "/webhook", { id }],
	] as const;

describe("a key with app.update_settings", () => {
	test("lists, creates, changes, rotates, tests, replays and deletes webhooks of its app", async () => {
		const created = await add({ description: "Releases", events: ["channel.promoted"] });
		expect([created.status, created.body.app_id]).toEqual([201, app.appId]);
		const { id } = created.body;
		const { body: tested } = await ask("POST", "/webhook/test", { id });
		await scene.deliver();
		expect(scene.receiver.received).toHaveLength(1);
		expect(scene.receiver.received[0]?.body).toMatchObject({ type: "webhook.test", data: { app_id: app.appId } });
		await addWebhook(scene.world);
		await addWebhook(scene.world, { app_id: other.appId });
		const { body: listed } = await ask("GET", "/webhook", { app_id: app.appId });
		expect(listed.map((hook: { id: string }) => hook.id)).toEqual([id]);
		const statuses = [];
		for (const [method, path, fields] of requestsAbout(id, tested.delivery_id)) {
			statuses.push((await ask(method, path, fields)).status);
		}
		expect(statuses).toEqual([200, 200, 202, 200, 202, 200]);
		const { body: audit } = await scene.world.request("GET", `/app/${app.appId}/audit`, {
			key: key.text,
			query: { action: "webhook" },
		});
		expect(audit.map(({ action }: { action: string }) => action).reverse()).toEqual([
			"webhook.create",
			"webhook.test",
			"webhook.update",
			"webhook.rotate",
			"webhook.test",
			"webhook.replay",
			"webhook.delete",
		]);
	});

	test("reaches no webhook of the organization and none of another app", async () => {
		for (const [fields, status] of [
			[{}, 403],
			[{ app_id: other.appId }, 404],
		] as const) {
			const hook = await addWebhook(scene.world, fields);
			const { body: tested } = await ask("POST", "/webhook/test", { id: hook.id }, scene.world.adminKey);
			for (const [method, path, about] of requestsAbout(hook.id, tested.delivery_id)) {
				const refused = await ask(method, path, about);
				expect([method, path, refused.status]).toEqual([method, path, status]);
				// An app beside the webhook changes nothing: the webhook decides.
				const named = await ask(method, path, { ...about, app_id: app.appId });
				expect([method, path, named.status]).toEqual([method, path, status]);
			}
		}
	});

	test("lists and adds none beyond its app", async () => {
		const secret = await createTestApp((await createScene({ isOperator: false })).world);
		for (const [app_id, status, error] of [
			[undefined, 403, "permission_denied"],
			[other.appId, 404, "app_not_found"],
			[secret.appId, 404, "app_not_found"],
			["com.example.nothing", 404, "app_not_found"],
			[app.uuid, 404, "app_not_found"],
		] as const) {
			const fields = app_id === undefined ? {} : { app_id };
			for (const refused of [
				await ask("GET", "/webhook", fields),
				await ask("POST", "/webhook", { url: URL_OF_HOOK, ...fields }),
			]) {
				expect([app_id, refused.status, refused.body.error]).toEqual([app_id, status, error]);
			}
		}
	});

	test("moves no webhook to the organization or to another app", async () => {
		const { id } = (await add()).body;
		for (const app_id of [null, "", other.appId]) {
			await ask("PUT", "/webhook", { id, app_id, description: "Moved" });
			const { body } = await ask("GET", "/webhook", {}, scene.world.adminKey);
			expect(body).toMatchObject([{ id, app_id: app.appId }]);
		}
	});

	test("does not use up the webhooks of the organization", async () => {
		for (let count = 0; count < 10; count += 1) expect((await add()).status).toBe(201);
		const refused = await add();
		expect([refused.status, refused.body.error, refused.body.moreInfo]).toEqual([
			409,
			"webhook_limit_reached",
			{ limit: 10 },
		]);
		// An app's webhooks are not counted there, however many apps there are.
		await testEnv.DB.prepare(
			`INSERT INTO webhooks SELECT 'copy-' || value, org_id, app_id, user_id, format, description, shown_url, sealed, public_key,
				previous_until_ms, events, failing_since_ms, disabled_at_ms, disabled_reason, created_at_ms, updated_at_ms
			FROM webhooks, json_each(?) WHERE org_id = ? GROUP BY value`,
		)
			.bind(JSON.stringify([...Array(60).keys()]), scene.world.orgId)
			.run();
		expect((await ask("POST", "/webhook", { url: URL_OF_HOOK }, scene.world.adminKey)).status).toBe(201);
	});
});

describe("a webhook of an app", () => {
	test("gets events of its app only, none about keys, members and other apps", async () => {
		const { world, receiver, deliver } = scene;
		await add();
		await addWebhook(world);
		world.deps.woken.length = 0;
		await createTestKey(world, "app_admin", app);
		await createTestMember(world, "org_member");
		await world.request("DELETE", `/apikey/${key.id}`, { key: world.adminKey });
		await promote(world, other, "production");
		await promote(world, app, "production");
		await deliver();
		const bodies = receiver.received.map(({ body }) => body as WebhookBody);
		const [ofApp, all] = [
			bodies.filter(({ data }) => data.app_id === app.appId).map(({ type }) => type),
			bodies.map(({ type }) => type),
		];
		expect(all, "the control: the organization's webhook gets them").toEqual(
			expect.arrayContaining(["key.created", "key.deleted", "member.added"]),
		);
		expect(ofApp).toEqual(["channel.promoted", "channel.promoted"]);
		const { body: hooks } = await ask("GET", "/webhook", { app_id: app.appId }, world.adminKey);
		const { body: deliveries } = await ask("GET", "/webhook/delivery", { id: hooks[0].id }, world.adminKey);
		expect(deliveries.map(({ type }: { type: string }) => type)).toEqual(["channel.promoted"]);
	});

	test("cannot choose events of the organization", async () => {
		const refused = await add({ events: ["channel.promoted", "key.created"] });
		expect([refused.status, refused.body.moreInfo?.issues[0].path]).toEqual([400, "events"]);
		const { id } = (await add({ events: ["channel.promoted"] })).body;
		expect((await ask("PUT", "/webhook", { id, events: ["member.added"] })).status).toBe(400);
		const open = await ask("POST", "/webhook", { url: URL_OF_HOOK, events: ["key.created"] }, scene.world.adminKey);
		expect(open.status).toBe(201);
	});

	test("ends when the app moves to another organization", async () => {
		const { world } = scene;
		await add();
		const all = await addWebhook(world);
		const { world: taker } = await createScene({ isOperator: false });
		const offer = { app_id: app.appId, to_org: taker.orgId };
		expect((await world.request("POST", "/app/transfer", { key: world.adminKey, body: offer })).status).toBe(201);
		const accepted = await taker.request("POST", "/app/transfer/accept", {
			key: taker.adminKey,
			body: { app_id: app.appId },
		});
		expect(accepted.status).toBe(200);
		const { body } = await ask("GET", "/webhook", {}, world.adminKey);
		expect(body.map(({ id }: { id: string }) => id)).toEqual([all.id]);
	});

	test("is the organization's after the app was deleted", async () => {
		const { id } = (await add()).body;
		const deleted = await scene.world.request("DELETE", `/app/${app.appId}`, { key: scene.world.adminKey });
		expect(deleted.status).toBe(200);
		expect((await ask("PUT", "/webhook", { id, description: "Mine" })).status).toBeGreaterThanOrEqual(403);
		expect((await ask("DELETE", "/webhook", { id }, scene.world.adminKey)).status).toBe(200);
	});

	test.each(["app_developer", "app_uploader", "app_reader", "app_preview"])("is closed to %s", async (role) => {
		const hook = (await add()).body;
		const weak = await createTestKey(scene.world, role, app);
		const { body: tested } = await ask("POST", "/webhook/test", { id: hook.id });
		for (const [method, path, fields] of requestsAbout(hook.id, tested.delivery_id)) {
			expect([path, (await ask(method, path, fields, weak.text)).status]).toEqual([path, 403]);
		}
		expect((await add({}, weak.text)).status).toBe(403);
		expect((await ask("GET", "/webhook", { app_id: app.appId }, weak.text)).status).toBe(403);
	});
});
