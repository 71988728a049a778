/**
 * Webhooks, from the receiving end: every delivery is verified by the published library. The clock
 * stands still, and the Queue's messages are handed to the consumer one after another.
 */
import { beforeEach, describe, expect, test } from "vitest";
import { webhookSignature } from "../../../src/authz/webhook-secrets";
import { LEASE_MS } from "../../../src/db/webhook-deliveries";
import { HOUR_MS } from "../../../src/domain/time";
import { DISABLED_AFTER_MS, RETRY_DELAYS_MS } from "../../../src/domain/webhooks/delivery";
import { deliverDue } from "../../../src/features/webhooks/deliver";
import { TIME_LIMIT_MS } from "../../../src/features/webhooks/sending";
import { wakeDueWebhooks } from "../../../src/queue/webhook-wake";
import { withFault } from "../support/faults";
import { isSignedBy, verified } from "../support/receiver";
import { createTestApp, createTestKey, createTestMember, setTestChannel } from "../support/scene";
import {
	addWebhook,
	createScene,
	deliveriesOf,
	post,
	promote,
	URL_OF_HOOK,
	type WebhookScene,
} from "../support/webhook-scene";
import { testEnv } from "../support/world";

let scene: WebhookScene;
beforeEach(async () => {
	scene = await createScene();
});

describe("a delivery", () => {
	test("reaches the receiver with the promotion, verified by the published library and by ed25519", async () => {
		const { world, receiver, deliver } = scene;
		const hook = await addWebhook(world);
		expect(hook).toMatchObject({
			url: "https://hooks.example.com/…",
			enabled: true,
			events: [],
			format: "standard",
		});
		expect(hook.secret).toMatch(/^whsec_[A-Za-z0-9+/]{43}=$/);
		expect(hook.public_key).toMatch(/^whpk_[A-Za-z0-9+/]{43}=$/);
		const app = await createTestApp(world);
		await setTestChannel(world, app, "production");
		world.deps.woken.length = 0;
		await promote(world, app);
		await deliver();
		const [delivery] = receiver.received;
		if (delivery === undefined) throw new Error("nothing was delivered");
		expect(receiver.received).toHaveLength(1);
		expect(delivery.url).toBe(URL_OF_HOOK);
		expect(verified(hook.secret, delivery, world.clock.nowMs)).toEqual({
			type: "channel.promoted",
			timestamp: "2026-11-21T08:00:00.000Z",
			data: {
				organization_id: world.orgId,
				app_id: app.appId,
				action: "channel.update",
				actor: { type: "api_key", id: world.adminKeyId, name: "admin" },
				target: { type: "channel", id: expect.any(String), name: "production" },
				before: { version: null },
				after: { version: "1.0.0" },
				details: {},
			},
		});
		expect(await isSignedBy(hook.public_key, delivery)).toBe(true);
		expect(() => verified("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", delivery, world.clock.nowMs)).toThrow(
			"No matching",
		);
		expect(Object.keys(delivery.headers).sort()).toEqual([
			"content-type",
			"user-agent",
			"webhook-id",
			"webhook-signature",
			"webhook-timestamp",
		]);
		expect(await deliveriesOf(world, hook.id)).toMatchObject([
			{
				type: "channel.promoted",
				state: "delivered",
				attempts: 1,
				status_code: 204,
				error: null,
				next_attempt_at: null,
				event_id: delivery.headers["webhook-id"],
				summary: `admin released 1.0.0 to production (${app.appId})`,
			},
		]);
	});

	test("is signed as the vector of Standard Webhooks", async () => {
		const secret = { secret: "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", seed: btoa("0".repeat(32)) };
		const signature = await webhookSignature(
			[secret],
			"msg_2KWPBgLlAfxdpx2AI54pPJ85f4W",
			1674087231,
			'{"type":"contact.created"}',
		);
		expect(signature.split(" ")[0]).toBe("v1,5t/QYgppkyIjIHutBHMQVy3Ghy68cDvncCowsciurFo=");
	});

	test("follows each kind of change that the organization asked for, and no other", async () => {
		const { world, receiver, deliver } = scene;
		await addWebhook(world, { events: ["key.created", "key.deleted", "member.added", "member.removed"] });
		const key = await createTestKey(world, "org_member");
		await world.request("DELETE", `/apikey/${key.id}`, { key: world.adminKey });
		const member = await createTestMember(world, "org_member");
		await world.request("DELETE", "/organization/members", {
			key: world.adminKey,
			query: { orgId: world.orgId, email: member.email },
		});
		await createTestApp(world);
		await deliver();
		const types = receiver.received.map(({ body }) => body.type);
		expect(new Set(types)).toEqual(new Set(["key.created", "key.deleted", "member.added", "member.removed"]));
		expect(JSON.stringify(receiver.received)).not.toMatch(/ip_address|cap_/);
	});

	test("of one app is not sent to the webhook of another app, nor to one of another organization", async () => {
		const { world, receiver, deliver } = scene;
		const [app, other] = [await createTestApp(world), await createTestApp(world)];
		const hook = await addWebhook(world, { app_id: app.appId, events: ["channel.promoted"] });
		expect(hook.app_id).toBe(app.appId);
		const stranger = await createScene({ isOperator: false });
		await addWebhook(stranger.world);
		for (const each of [app, other]) {
			await setTestChannel(world, each, "production");
			await promote(world, each);
		}
		await deliver();
		await wakeDueWebhooks(stranger.world.deps);
		await stranger.deliver();
		expect(receiver.received.map(({ body }) => body.data.app_id)).toEqual([app.appId]);
		expect(stranger.receiver.received).toEqual([]);
	});

	test("exists exactly if its change does: both are in one batch", async () => {
		const { world } = scene;
		const hook = await addWebhook(world, { events: ["key.created"] });
		const body = {
			name: "k",
			hashed: true,
			bindings: [{ role_name: "org_member", scope_type: "org", org_id: world.orgId }],
		};
		const keys = async () => {
			const query = { org_id: world.orgId };
			const { body: all } = await world.request("GET", "/apikey", { key: world.adminKey, query });
			return all.filter(({ name }: { name: string }) => name === "k").length;
		};
		const statuses: number[] = [];
		for (const failAt of [1, 2, 3, 4]) {
			// The last statement of a batch fails after all others ran.
			const faulty = withFault(world, failAt, "statement fails");
			const { status } = await faulty.request("POST", "/apikey", { key: world.adminKey, body });
			if (faulty.failed === "d1.batch") statuses.push(status);
			expect(await deliveriesOf(world, hook.id)).toHaveLength(await keys());
		}
		// The look-up of the key, the reads, and the writes.
		expect(statuses).toHaveLength(3);
		expect(Math.min(...statuses)).toBeGreaterThan(499);
		const before = await keys();
		expect((await world.request("POST", "/apikey", { key: world.adminKey, body })).status).toBe(201);
		expect(await deliveriesOf(world, hook.id)).toHaveLength(before + 1);
	});

	test("survives a crash between the change and the Queue: clean-up wakes it", async () => {
		const { world, receiver, deliver } = scene;
		await addWebhook(world, { events: ["key.created"] });
		await createTestKey(world, "org_member");
		world.deps.woken.length = 0;
		await deliver();
		expect(receiver.received).toEqual([]);
		await wakeDueWebhooks(world.deps);
		await deliver();
		expect(receiver.received).toHaveLength(1);
	});

	test("survives a crash of its consumer: it is due again when its lease ends, and is sent once while it lasts", async () => {
		const { world, receiver } = scene;
		const hook = await addWebhook(world, { events: ["key.created"] });
		await createTestKey(world, "org_member");
		const hanging: Promise<Response> = new Promise(() => undefined);
		receiver.answers = [hanging, new Response(null, { status: 200 })];
		const due = { kind: "webhook_due", webhookId: hook.id } as const;
		void deliverDue(world.deps, due);
		await expect.poll(() => receiver.received.length).toBe(1);
		await deliverDue(world.deps, due);
		expect(receiver.received).toHaveLength(1);
		world.clock.nowMs += LEASE_MS;
		await deliverDue(world.deps, due);
		expect(receiver.received.map(({ headers }) => headers["webhook-id"])).toEqual(
			Array(2).fill(receiver.received[0]?.headers["webhook-id"]),
		);
		expect(await deliveriesOf(world, hook.id)).toMatchObject([{ state: "delivered", attempts: 2 }]);
	});

	test("of a large change is at most 20,000 bytes, without the change", async () => {
		const { world, receiver, deliver } = scene;
		await addWebhook(world);
		const target = { type: "preview", id: "1", name: "pr-1" };
		const data = { organization_id: world.orgId, target, details: { text: "x".repeat(20_000) } };
		await testEnv.DB.prepare(
			"INSERT INTO webhook_events (id, org_id, type, at_ms, data) VALUES (?, ?, 'preview.opened', ?, ?)",
		)
			.bind(`msg_${crypto.randomUUID()}`, world.orgId, world.clock.nowMs, JSON.stringify(data))
			.run();
		await wakeDueWebhooks(world.deps);
		await deliver();
		expect(receiver.received[0]?.body.data).toEqual({ organization_id: world.orgId, target, truncated: true });
	});
});

describe("a failed delivery", () => {
	test("is attempted again by the schedule of Standard Webhooks, then given up", async () => {
		const { world, receiver } = scene;
		const hook = await addWebhook(world);
		receiver.answers = [new Response("no", { status: 500 })];
		await post(world, "/webhook/test", { id: hook.id });
		const due = { kind: "webhook_due", webhookId: hook.id } as const;
		const delays: number[] = [];
		for (const attempt of RETRY_DELAYS_MS.keys()) {
			await deliverDue(world.deps, due);
			const [delivery] = await deliveriesOf(world, hook.id);
			expect(delivery).toMatchObject({ state: "pending", attempts: attempt + 1, status_code: 500 });
			const nextMs = Date.parse(delivery.next_attempt_at);
			delays.push((nextMs - world.clock.nowMs) / (RETRY_DELAYS_MS[attempt] ?? 1));
			// A moment too early nothing is sent.
			world.clock.nowMs = nextMs - 1;
			await deliverDue(world.deps, due);
			expect(receiver.received).toHaveLength(attempt + 1);
			world.clock.nowMs = nextMs;
		}
		await deliverDue(world.deps, due);
		expect(await deliveriesOf(world, hook.id)).toMatchObject([
			{ state: "failed", attempts: 10, next_attempt_at: null, error: "the receiver answered 500" },
		]);
		expect(RETRY_DELAYS_MS.map((ms) => ms / 1000)).toEqual([
			5, 300, 1800, 7200, 18_000, 36_000, 50_400, 72_000, 86_400,
		]);
		for (const delay of delays) expect(delay >= 1 && delay <= 1.1).toBe(true);
		expect(new Set(receiver.received.map(({ headers }) => headers["webhook-id"])).size).toBe(1);
		expect(new Set(receiver.received.map(({ headers }) => headers["webhook-timestamp"])).size).toBe(10);
		expect(new Set(receiver.received.map(({ text }) => text)).size).toBe(1);
	});

	test.each([
		[
			"a redirect",
			new Response(null, { status: 302, headers: { location: "https://elsewhere.example.com" } }),
			{ status_code: 302, error: "redirects are not followed" },
		],
		["a broken connection", new Error("network"), { status_code: null, error: "the receiver could not be reached" }],
		[
			"no answer in time",
			new Promise<Response>(() => undefined),
			{ status_code: null, error: "no answer within 15 seconds" },
		],
	])("is one with %s", async (_, answer, shown) => {
		const deadline = async (ms: number): Promise<void> => {
			expect(ms).toBe(TIME_LIMIT_MS);
		};
		const isSlow = answer instanceof Promise;
		const { world, receiver, deliver } = await createScene(isSlow ? { bindings: { deadline } } : {});
		const hook = await addWebhook(world);
		receiver.answers = [answer];
		await post(world, "/webhook/test", { id: hook.id });
		await deliver();
		expect(receiver.received).toHaveLength(1);
		expect(await deliveriesOf(world, hook.id)).toMatchObject([{ state: "pending", attempts: 1, ...shown }]);
	});

	test("waits as long as Retry-After says, a day at most", async () => {
		const { world, receiver, deliver } = scene;
		const hook = await addWebhook(world);
		const headers = (value: string) => new Response(null, { status: 429, headers: { "retry-after": value } });
		for (const [value, hours] of [
			["3600", 1],
			["999999999", 24],
		] as const) {
			receiver.answers = [headers(value)];
			await post(world, "/webhook/test", { id: hook.id });
			await deliver();
			const [delivery] = await deliveriesOf(world, hook.id, { state: "pending" });
			expect(Date.parse(delivery.next_attempt_at) - world.clock.nowMs).toBe(hours * HOUR_MS);
			world.clock.nowMs += 1;
		}
	});

	test("disables the webhook after five days of failures, with an audit entry and a mail, until somebody enables it", async () => {
		const { world, receiver, deliver } = scene;
		const hook = await addWebhook(world, { description: "Log" });
		receiver.answers = [new Response(null, { status: 503 })];
		await post(world, "/webhook/test", { id: hook.id });
		await deliver();
		const list = async () =>
			(await world.request("GET", "/webhook", { key: world.adminKey, query: { orgId: world.orgId } })).body;
		expect(await list()).toMatchObject([{ enabled: true, failing_since: "2026-11-21T08:00:00.000Z" }]);
		world.clock.nowMs += DISABLED_AFTER_MS;
		await wakeDueWebhooks(world.deps);
		await deliver();
		expect(await list()).toMatchObject([{ enabled: false, disabled_reason: "failing" }]);
		expect(world.deps.printed.join("\n")).toContain('The webhook "Log" was disabled: every attempt failed for 5 days.');
		const audit = await world.request("GET", "/organization/audit", {
			key: world.adminKey,
			query: { orgId: world.orgId, action: "webhook.disable" },
		});
		expect(audit.body).toMatchObject([{ target: { id: hook.id, name: "Log" }, actor: { type: "system" } }]);
		const [delivery] = await deliveriesOf(world, hook.id);
		expect(delivery).toMatchObject({ state: "failed", error: "the webhook was disabled" });

		expect((await post(world, "/webhook/test", { id: hook.id })).body.error).toBe("webhook_disabled");
		expect((await post(world, "/webhook/delivery/replay", { id: delivery.id })).body.error).toBe("webhook_disabled");
		const before = receiver.received.length;
		await createTestKey(world, "org_member");
		await deliver();
		expect(receiver.received).toHaveLength(before);

		await world.request("PUT", "/webhook", {
			key: world.adminKey,
			body: { orgId: world.orgId, id: hook.id, enabled: true },
		});
		receiver.answers = [];
		expect((await post(world, "/webhook/delivery/replay", { id: delivery.id })).status).toBe(202);
		await deliver();
		const sent = receiver.received.slice(before);
		expect(sent.map(({ headers }) => headers["webhook-id"])).toEqual([delivery.event_id]);
		expect(await list()).toMatchObject([{ enabled: true, disabled_reason: null, failing_since: null }]);
	});

	test("disables the webhook at once if the receiver answers 410", async () => {
		const { world, receiver, deliver } = scene;
		const hook = await addWebhook(world);
		receiver.answers = [new Response(null, { status: 410 })];
		await post(world, "/webhook/test", { id: hook.id });
		await deliver();
		const { body } = await world.request("GET", "/webhook", { key: world.adminKey, query: { orgId: world.orgId } });
		expect(body).toMatchObject([{ enabled: false, disabled_reason: "gone" }]);
	});

	test("of one organization delays no other: each webhook is a message of its own", async () => {
		const { world, receiver } = scene;
		const slow = await addWebhook(world, { events: ["key.created"] });
		receiver.answers = [new Promise<Response>(() => undefined)];
		const other = await createScene({ isOperator: false });
		const fast = await addWebhook(other.world, { events: ["key.created"] });
		for (let each = 0; each < 12; each++) await createTestKey(world, "org_member");
		await createTestKey(other.world, "org_member");
		expect(world.deps.woken).toContain(slow.id);
		expect(other.world.deps.woken).toContain(fast.id);
		const hanging = deliverDue(world.deps, { kind: "webhook_due", webhookId: slow.id });
		await expect.poll(() => receiver.received.length).toBe(5);
		await deliverDue(other.world.deps, { kind: "webhook_due", webhookId: fast.id });
		expect(other.receiver.received).toHaveLength(1);
		expect(await Promise.race([hanging, Promise.resolve("hangs")])).toBe("hangs");
	});
});
