/** Tenants, and requests that must be refused, for the isolation tests. */
import { expect } from "vitest";
import { databaseText } from "./database-text";
import {
	type Answer,
	createTestApp,
	createWorld,
	type RequestOptions,
	setTestChannel,
	type TestApp,
	uploadTestBundle,
	type World,
} from "./world";

export const REST = "/compat/capgo-cli/rest/v1";

export interface Tenant {
	readonly world: World;
	readonly app: TestApp;
	readonly bundleId: number;
	readonly channelId: number;
}

/**
 * An organization with an app that has the version 1.5.0, or the one given, on the channel
 * "production".
 */
export async function createTenant(version = "1.5.0"): Promise<Tenant> {
	const world = await createWorld();
	const app = await createTestApp(world);
	const bundleId = await uploadTestBundle(world, app, version);
	const channelId = await setTestChannel(world, app, "production", { version, public: true });
	return { world, app, bundleId, channelId };
}

export type Request = RequestOptions & { readonly method: string; readonly path: string };

export async function expectRefused(by: World, key: string, requests: readonly Request[], statuses: readonly number[]) {
	const before = await databaseText();
	const answers: Answer[] = [];
	for (const { method, path, ...options } of requests) {
		const answer = await by.request(method, path, { key, ...options });
		const hint = `${method} ${path} ${JSON.stringify(options)}: ${JSON.stringify(answer.body)}`;
		expect(statuses, hint).toContain(answer.status);
		answers.push(answer);
	}
	expect(await databaseText(), "a refused request changed something").toBe(before);
	return answers;
}
