/**
 * A world whose webhooks reach a receiver of the test, and whose Queue delivers when the test says
 * so.
 */
import { expect } from "vitest";
import { deliverDue } from "../../../src/features/webhooks/deliver";
import { createReceiver, type TestReceiver } from "./receiver";
import { setTestChannel, type TestApp, uploadTestBundle } from "./scene";
import { createWorld, testEnv, type World, type WorldOptions } from "./world";

export const URL_OF_HOOK = "https://hooks.example.com/capstan?token=abc";

export interface WebhookScene {
	readonly world: World;
	readonly receiver: TestReceiver;
	/** Delivers everything that the Queue was asked to deliver. */
	deliver(): Promise<void>;
}

export async function createScene(options: WorldOptions = {}): Promise<WebhookScene> {
	const receiver = createReceiver();
	const world = await createWorld({ ...options, bindings: { fetch: receiver.fetch, ...options.bindings } });
	const deliver = async () => {
		// Clean-up wakes the webhooks of all organizations, and other tests have some.
		const { results } = await testEnv.DB.prepare("SELECT id FROM webhooks WHERE org_id = ?").bind(world.orgId).all();
		const own = new Set(results.map(({ id }) => id));
		for (const webhookId of world.deps.woken.splice(0)) {
			if (own.has(webhookId)) await deliverDue(world.deps, { kind: "webhook_due", webhookId });
		}
	};
	return { world, receiver, deliver };
}

export async function addWebhook(world: World, fields: Record<string, unknown> = {}) {
	const { status, body } = await world.request("POST", "/webhook", {
		key: world.adminKey,
		body: { orgId: world.orgId, url: URL_OF_HOOK, ...fields },
	});
	if (status !== 201) throw new Error(JSON.stringify(body));
	world.deps.woken.length = 0;
	return body;
}

export async function deliveriesOf(world: World, id: string, query: Record<string, string> = {}) {
	const { status, body } = await world.request("GET", "/webhook/delivery", {
		key: world.adminKey,
		query: { orgId: world.orgId, id, ...query },
	});
	expect(status).toBe(200);
	return body;
}

export const post = (world: World, path: string, body: object) =>
	world.request("POST", path, { key: world.adminKey, body: { orgId: world.orgId, ...body } });

export async function promote(world: World, app: TestApp, channel = "production", version = "1.0.0"): Promise<void> {
	await uploadTestBundle(world, app, version);
	await setTestChannel(world, app, channel, { version });
}
