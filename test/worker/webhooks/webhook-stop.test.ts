/**
 * POST /webhook/delivery/stop: a delivery whose receiver is down is tried no more, neither by the
 * Queue nor by the clean-up, until somebody sends it again.
 */
import { beforeEach, describe, expect, test } from "vitest";
import { DAY_MS } from "../../../src/domain/time";
import { deliverDue } from "../../../src/features/webhooks/deliver";
import { JOBS } from "../../../src/schedule";
import { addWebhook, createScene, deliveriesOf, post, type WebhookScene } from "../support/webhook-scene";

let scene: WebhookScene;
let hook: { readonly id: string };
beforeEach(async () => {
	scene = await createScene();
	scene.receiver.answers = [new Response("busy", { status: 503 })];
	hook = await addWebhook(scene.world);
});

/** A delivery that failed once and waits. */
async function waiting(): Promise<string> {
	const { body } = await post(scene.world, "/webhook/test", { id: hook.id });
	await scene.deliver();
	return body.delivery_id;
}

const stop = (id: string) => post(scene.world, "/webhook/delivery/stop", { id });
const states = async () => (await deliveriesOf(scene.world, hook.id)).map(({ state }: { state: string }) => state);

describe("POST /webhook/delivery/stop", () => {
	test("ends the attempts of a delivery, and leaves what they answered", async () => {
		const { world, receiver, deliver } = scene;
		const id = await waiting();
		const [before] = await deliveriesOf(world, hook.id);
		expect(before).toMatchObject({ state: "pending", status_code: 503 });
		const { status, body } = await stop(id);
		expect([status, body]).toEqual([200, { delivery: { ...before, state: "stopped", next_attempt_at: null } }]);
		expect(await deliveriesOf(world, hook.id)).toEqual([body.delivery]);
		expect(await deliveriesOf(world, hook.id, { state: "stopped" })).toHaveLength(1);
		expect(await deliveriesOf(world, hook.id, { state: "failed" })).toEqual([]);
		world.clock.nowMs += DAY_MS;
		await JOBS["due webhooks"]?.(world.deps);
		await deliver();
		await deliverDue(world.deps, { kind: "webhook_due", webhookId: hook.id });
		expect(receiver.received).toHaveLength(1);
		const { body: log } = await world.request("GET", "/organization/audit", {
			key: world.adminKey,
			query: { orgId: world.orgId, action: "webhook.stop" },
		});
		expect(log).toMatchObject([{ target: { id: hook.id }, details: { type: "webhook.test" } }]);
	});

	test("a replay sends it again, with all its attempts", async () => {
		const { receiver, deliver, world } = scene;
		const id = await waiting();
		await stop(id);
		receiver.answers = [new Response(null, { status: 204 })];
		expect((await post(world, "/webhook/delivery/replay", { id })).status).toBe(202);
		await deliver();
		expect(await states()).toEqual(["delivered"]);
		expect(receiver.received[1]?.headers["webhook-id"]).toBe(receiver.received[0]?.headers["webhook-id"]);
	});

	test("holds while an attempt runs, whose answer is kept as an attempt", async () => {
		const { world, receiver } = scene;
		const { body } = await post(world, "/webhook/test", { id: hook.id });
		let answered: (answer: Response) => void = () => undefined;
		receiver.answers = [new Promise((resolve) => (answered = resolve))];
		const running = deliverDue(world.deps, { kind: "webhook_due", webhookId: hook.id });
		await expect.poll(() => receiver.received.length).toBe(1);
		expect((await stop(body.delivery_id)).status).toBe(200);
		answered(new Response("busy", { status: 503 }));
		await running;
		expect(await states()).toEqual(["stopped"]);
		const { body: shown } = await world.request("GET", "/webhook/delivery/attempts", {
			key: world.adminKey,
			query: { orgId: world.orgId, id: body.delivery_id },
		});
		expect(shown.attempts).toMatchObject([{ number: 1, status_code: 503 }]);
		world.clock.nowMs += DAY_MS;
		await deliverDue(world.deps, { kind: "webhook_due", webhookId: hook.id });
		expect(receiver.received).toHaveLength(1);
	});

	test("refuses a delivery that waits for nothing, also of two requests at the same time", async () => {
		const id = await waiting();
		const answers = await Promise.all([stop(id), stop(id)]);
		expect(answers.map(({ status }) => status).sort()).toEqual([200, 409]);
		expect((await stop(id)).body.error).toBe("delivery_not_waiting");
		scene.receiver.answers = [new Response(null, { status: 204 })];
		const delivered = await waiting();
		expect((await stop(delivered)).body.error).toBe("delivery_not_waiting");
		expect((await stop("absent")).body.error).toBe("delivery_not_found");
	});

	test("counts as failed for scripts that know three states", async () => {
		const { world } = scene;
		await stop(await waiting());
		const query = { orgId: world.orgId, webhookId: hook.id, status: "failed" };
		const { body } = await world.request("GET", "/webhooks/deliveries", { key: world.adminKey, query });
		expect(body).toMatchObject({ deliveries: [{ status: "failed" }], pagination: { total: 1 } });
	});
});
