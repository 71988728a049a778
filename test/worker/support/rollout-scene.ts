/**
 * A fleet before a staged rollout: an app with a stable bundle and a newer one, devices that ask
 * and report by requests, and the Queue's messages, which are delivered by hand. All state belongs
 * to the running test: `prepareRollout` resets it.
 */
import { expect } from "vitest";
import { consume } from "../../../src/consumer";
import { HOUR_MS } from "../../../src/domain/time";
import type { QueueMessage } from "../../../src/messages";
import {
	createTestApp,
	createWorld,
	setTestChannel,
	type TestApp,
	testEnv,
	uploadTestBundle,
	type World,
} from "./world";

export const STABLE = "1.0.1";
export const NEW = "1.1.0";

export let world: World;
export let app: TestApp;
/** The id of the bundle that is rolled out. */
export let newId: number;
let devices = 0;

/** For `beforeEach`. */
export async function prepareRollout(): Promise<void> {
	// Rollouts of tests before are not stepped by this one's.
	await testEnv.DB.prepare("UPDATE channels SET rollout_enabled = 0").run();
	world = await createWorld();
	app = await createTestApp(world);
	await uploadTestBundle(world, app, STABLE);
	newId = await uploadTestBundle(world, app, NEW);
	await setTestChannel(world, app, "production", { public: true, version: STABLE });
}

export const deviceIds = (count: number) =>
	Array.from({ length: count }, () => `00000000-0000-4000-8000-${String(++devices).padStart(12, "0")}`);
/** Each device has a dedicated network by default. */
export const addressOf = (device: string) => {
	const number = Number(device.slice(-12));
	return `10.${Math.floor(number / 250) % 250}.${number % 250}.7`;
};
export const about = (device: string, fields: Record<string, unknown> = {}) => ({
	app_id: app.appId,
	device_id: device,
	platform: "android",
	version_name: STABLE,
	version_build: "1.0.0",
	plugin_version: "8.51.23",
	is_emulator: false,
	is_prod: true,
	...fields,
});
export async function check(device: string, running = STABLE, address = addressOf(device)) {
	const { body } = await world.request("POST", "/updates", {
		body: about(device, { version_name: running }),
		headers: { "cf-connecting-ip": address },
	});
	return body;
}
export const report = (device: string, action: string, versionName = NEW, address = addressOf(device)) =>
	world.request("POST", "/stats", {
		body: about(device, { action, version_name: versionName, timestamp: world.clock.nowMs }),
		headers: { "cf-connecting-ip": address },
	});
export const messages = () => world.deps.sent.splice(0).filter((message) => message.kind === "device_events");
export const deliver = (given: readonly QueueMessage[] = messages()) =>
	consume(world.deps, { messages: given.map((body) => ({ body })) as never });
export const change = (fields: Record<string, unknown>) =>
	world.request("POST", "/channel", {
		key: world.adminKey,
		body: { app_id: app.appId, channel: "production", ...fields },
	});
export const GATED = {
	rolloutVersion: NEW,
	rolloutEnabled: true,
	rolloutSteps: [1, 5, 25, 100],
	rolloutStepMinutes: 60,
	rolloutStepMinDevices: 10,
};
export async function begin(fields: Record<string, unknown> = {}): Promise<void> {
	const { status, body } = await change({ ...GATED, autoPauseFailureRateBps: 1_500, ...fields });
	expect(status, JSON.stringify(body)).toBe(200);
}
export async function show() {
	const { status, body } = await world.request("GET", "/channel/rollout", {
		key: world.adminKey,
		query: { app_id: app.appId, channel: "production" },
	});
	expect(status).toBe(200);
	return body;
}
export const later = (ms: number) => {
	world.clock.nowMs += ms;
};
/** Devices that the app knew before the rollout's day. */
export async function known(count: number): Promise<string[]> {
	const ids = deviceIds(count);
	const asked = ids.map((id) => about(id, { action: "get", timestamp: world.clock.nowMs }));
	const { status } = await world.request("POST", "/stats", { body: asked });
	expect(status).toBe(200);
	await deliver();
	later(24 * HOUR_MS);
	return ids;
}
/** All ask; the served install it, or do what `outcome` says of them. */
export async function fleetAsks(
	ids: readonly string[],
	running: Map<string, string>,
	outcome = "set",
): Promise<string[]> {
	const served: string[] = [];
	for (const id of ids) {
		const answer = await check(id, running.get(id) ?? STABLE);
		if (answer.version !== NEW) continue;
		served.push(id);
		await report(id, outcome);
		if (outcome === "set") running.set(id, NEW);
	}
	await deliver();
	return served;
}
export const audited = async (action: string) =>
	(await world.request("GET", "/organization/audit", { key: world.adminKey, query: { orgId: world.orgId, action } }))
		.body as { actor: unknown; details: { upper_bound: number }; before: unknown; after: unknown }[];
