/**
 * Attempts of deliveries: what was sent and what came back, without secrets and within bounds,
 * however the receiver answers.
 */
import { beforeEach, describe, expect, test } from "vitest";
import { LEASE_MS } from "../../../src/db/webhook-deliveries";
import { MOST_ANSWER_BYTES } from "../../../src/domain/webhooks/answers";
import { deliverDue } from "../../../src/features/webhooks/deliver";
import { BODY_TIME_LIMIT_MS } from "../../../src/features/webhooks/sending";
import { createTestApp, setTestChannel } from "../support/scene";
import {
	addWebhook,
	createScene,
	deliveriesOf,
	post,
	promote,
	URL_OF_HOOK,
	type WebhookScene,
} from "../support/webhook-scene";
import { testEnv, type World } from "../support/world";

let scene: WebhookScene;
beforeEach(async () => {
	scene = await createScene();
});

async function attemptsOf(world: World, id: string) {
	const query = { orgId: world.orgId, id };
	const { status, body } = await world.request("GET", "/webhook/delivery/attempts", { key: world.adminKey, query });
	expect(status).toBe(200);
	return body;
}

async function tested(world: World, hook: { readonly id: string }, deliver: () => Promise<void>) {
	const { body } = await post(world, "/webhook/test", { id: hook.id });
	await deliver();
	return body.delivery_id as string;
}

describe("an attempt", () => {
	test("shows request and response, of each attempt its own", async () => {
		const { world, receiver } = scene;
		const hook = await addWebhook(world);
		receiver.answers = [
			new Response("board is being deployed", {
				status: 503,
				headers: { "content-type": "text/plain", "retry-after": "9", "set-cookie": "a=b" },
			}),
			new Response(null, { status: 204 }),
		];
		const { body } = await post(world, "/webhook/test", { id: hook.id });
		const due = { kind: "webhook_due", webhookId: hook.id } as const;
		await deliverDue(world.deps, due);
		const { delivery } = await attemptsOf(world, body.delivery_id);
		expect(delivery).toMatchObject({ state: "pending", attempts: 1, status_code: 503 });
		world.clock.nowMs = Date.parse(delivery.next_attempt_at);
		await deliverDue(world.deps, due);
		const { attempts } = await attemptsOf(world, body.delivery_id);
		expect(attempts).toMatchObject([
			{
				number: 1,
				at: "2026-11-21T08:00:00.000Z",
				status_code: 503,
				error: "the receiver answered 503",
				response: {
					headers: { "content-type": "text/plain", "retry-after": "9" },
					body: "board is being deployed",
					truncated: false,
				},
			},
			{ number: 2, status_code: 204, error: null, response: { headers: {}, body: "", truncated: false } },
		]);
		expect(attempts[0].response.headers).not.toHaveProperty("set-cookie");
		for (const [index, received] of receiver.received.entries()) {
			const { request } = attempts[index];
			expect(request).toMatchObject({ method: "POST", url: hook.url, body: received.text });
			const signature = { "webhook-signature": "…" };
			expect(request.headers).toEqual({ ...received.headers, ...signature });
		}
		expect(JSON.stringify(attempts)).not.toContain("token=abc");
	});

	test.each(["slack", "discord", "teams"])("of the format %s has the body that was sent", async (format) => {
		const { world, receiver, deliver } = scene;
		const hook = await addWebhook(world, { format });
		const { attempts } = await attemptsOf(world, await tested(world, hook, deliver));
		expect(attempts[0].request).toMatchObject({
			body: receiver.received[0]?.text,
			headers: receiver.received[0]?.headers,
		});
	});

	test("of records has the headers and the body that were sent, also after the webhook changed", async () => {
		const { world, receiver, deliver } = scene;
		const { body } = await world.request("POST", "/webhooks", {
			key: world.adminKey,
			body: { orgId: world.orgId, name: "Records", url: URL_OF_HOOK, events: ["channels"] },
		});
		const app = await createTestApp(world);
		world.deps.woken.length = 0;
		await setTestChannel(world, app, "production");
		await deliver();
		const id = body.webhook.id as string;
		await world.request("PUT", "/webhook", {
			key: world.adminKey,
			body: { orgId: world.orgId, id, events: ["channel.promoted"], url: "https://new.example.com/other" },
		});
		const [delivery] = await deliveriesOf(world, id);
		const { attempts } = await attemptsOf(world, delivery.id);
		const [received] = receiver.received;
		expect(attempts[0].request).toEqual({
			method: "POST",
			url: "https://hooks.example.com/…",
			headers: { ...received?.headers, "webhook-signature": "…", "x-capgo-signature": "…" },
			body: received?.text,
		});
	});

	test("does not repeat the secret parts that a receiver echoes, in the answer or in the database", async () => {
		const { world, receiver, deliver } = scene;
		const hook = await addWebhook(world, { url: "https://hooks.example.com/in/T0ABCDEFG?token=s3cretvalue" });
		receiver.answers = [
			new Response("POST https://hooks.example.com/in/T0ABCDEFG?token=s3cretvalue via 10.1.2.3", { status: 400 }),
		];
		const { attempts } = await attemptsOf(world, await tested(world, hook, deliver));
		expect(attempts[0].response.body).toMatch(/^POST https:\/\/hooks\.example\.com\*+ via \*+$/);
		const { results } = await testEnv.DB.prepare("SELECT * FROM webhook_attempts").all();
		expect(JSON.stringify(results)).not.toMatch(/T0ABCDEFG|s3cretvalue|10\.1\.2\.3/);
	});

	test("keeps the beginning of an answer that is long or never ends", async () => {
		const bounded = await createScene({
			bindings: {
				deadline: ((ms: number) =>
					ms === BODY_TIME_LIMIT_MS ? Promise.resolve() : new Promise<void>(() => undefined)) as never,
			},
		});
		const hook = await addWebhook(bounded.world);
		const endless = new ReadableStream({ start: (stream) => stream.enqueue(new TextEncoder().encode("never ends")) });
		bounded.receiver.answers = [new Response(endless, { status: 200 })];
		const first = await attemptsOf(bounded.world, await tested(bounded.world, hook, bounded.deliver));
		expect(first.delivery.state).toBe("delivered");
		expect(first.attempts[0].response).toMatchObject({ truncated: true });

		const { world, receiver, deliver } = scene;
		receiver.answers = [new Response("x".repeat(1_000_000), { status: 500 })];
		const second = await attemptsOf(world, await tested(world, await addWebhook(world), deliver));
		expect(second.attempts[0].response.body).toBe("x".repeat(MOST_ANSWER_BYTES));
		expect(second.attempts[0].response.truncated).toBe(true);
	});

	test("without an answer says why, in words that name no address", async () => {
		const { world, receiver, deliver } = scene;
		const hook = await addWebhook(world);
		receiver.answers = [new Error("connect ECONNREFUSED 10.0.0.7:443")];
		const { attempts } = await attemptsOf(world, await tested(world, hook, deliver));
		expect(attempts).toMatchObject([{ status_code: null, response: null, error: "the receiver could not be reached" }]);
	});
});

describe("a replay", () => {
	test("of a delivery whose next attempt is due later sends it at once", async () => {
		const { world, receiver, deliver } = scene;
		const hook = await addWebhook(world);
		receiver.answers = [new Response("busy", { status: 503 }), new Response(null, { status: 204 })];
		const id = await tested(world, hook, deliver);
		expect((await attemptsOf(world, id)).delivery).toMatchObject({ state: "pending", attempts: 1 });
		expect((await post(world, "/webhook/delivery/replay", { id })).status).toBe(202);
		await deliver();
		expect(receiver.received).toHaveLength(2);
		const { delivery, attempts } = await attemptsOf(world, id);
		expect(delivery).toMatchObject({ state: "delivered", attempts: 1, next_attempt_at: null });
		expect(attempts).toMatchObject([{ number: 1, status_code: 204 }]);
	});

	test("while an attempt runs is not overwritten by that one's late answer", async () => {
		const { world, receiver, deliver } = scene;
		const hook = await addWebhook(world);
		let answer: (response: Response) => void = () => undefined;
		receiver.answers = [new Promise((resolve) => (answer = resolve)), new Response(null, { status: 204 })];
		const { body } = await post(world, "/webhook/test", { id: hook.id });
		const running = deliverDue(world.deps, { kind: "webhook_due", webhookId: hook.id });
		await expect.poll(() => receiver.received.length).toBe(1);
		await post(world, "/webhook/delivery/replay", { id: body.delivery_id });
		world.clock.nowMs += 1;
		await deliver();
		answer(new Response("late", { status: 500 }));
		await running;
		const { delivery, attempts } = await attemptsOf(world, body.delivery_id);
		expect(delivery).toMatchObject({ state: "delivered", status_code: 204 });
		expect(attempts).toMatchObject([{ status_code: 204 }]);
		world.clock.nowMs += LEASE_MS;
		await deliver();
		expect(receiver.received).toHaveLength(2);
	});

	test("never keeps more than one attempt of each number", async () => {
		const { world, deliver } = scene;
		const hook = await addWebhook(world);
		const app = await createTestApp(world);
		await setTestChannel(world, app, "production");
		world.deps.woken.length = 0;
		await promote(world, app);
		await deliver();
		const [{ id }] = await deliveriesOf(world, hook.id, { state: "delivered" });
		for (let count = 0; count < 3; count++) {
			world.clock.nowMs += 1_000;
			await post(world, "/webhook/delivery/replay", { id });
			await deliver();
		}
		expect((await attemptsOf(world, id)).attempts).toHaveLength(1);
	});
});
