/**
 * Clients that hang up. The platform ends the request of such a client at once, with everything
 * that is not registered with `waitUntil`, so these tests look at what is registered while the
 * database does not answer yet, and wait for that alone.
 */
import { beforeAll, describe, expect, test } from "vitest";
import { createApp } from "../../../src/app";
import { SchemaVersion } from "../../../src/snapshots/schema-version";
import { beforeSecondTrip } from "../support/interleave";
import {
	createTestApp,
	createWorld,
	ORIGIN,
	type TestApp,
	testEnv,
	uploadTestBundle,
	type World,
} from "../support/world";

let world: World;
let app: TestApp;
beforeAll(async () => {
	world = await createWorld();
	app = await createTestApp(world);
	await uploadTestBundle(world, app, "1.0.0");
	await uploadTestBundle(world, app, "1.0.1");
});

/** A promise that is settled from outside. */
function gate() {
	let open: () => void = () => undefined;
	const opened = new Promise<void>((resolve) => {
		open = resolve;
	});
	return { opened, open: () => open() };
}

describe("after the request of a client that hung up, a change is finished with what follows it:", () => {
	const CHANGES: Record<string, () => [method: string, path: string, body: object]> = {
		"a promotion": () => [
			"POST",
			"/channel",
			{ app_id: app.appId, channel: "production", version: "1.0.0", public: true },
		],
		"a change of a channel": () => ["POST", "/channel", { app_id: app.appId, channel: "beta", ios: false }],
		"a new app": () => [
			"POST",
			"/app",
			{ app_id: `com.example.hung.t${Date.now()}`, name: "Hung", owner_org: world.orgId },
		],
		"the deletion of a bundle": () => ["DELETE", "/bundle", { app_id: app.appId, version: "1.0.1" }],
	};

	test.each(Object.keys(CHANGES))("%s", async (name) => {
		const [method, path, body] = CHANGES[name]?.() ?? ["", "", {}];
		const isAsked = gate();
		const answers = gate();
		const slow = beforeSecondTrip(world.deps.d1, async () => {
			isAsked.open();
			await answers.opened;
		});
		const tasks: Promise<unknown>[] = [];
		const ctx = { waitUntil: (task: Promise<unknown>) => tasks.push(task), passThroughOnException: () => undefined };
		const text = JSON.stringify(body);
		const url = new URL(path, ORIGIN);
		if (method === "DELETE")
			for (const [field, value] of Object.entries(body)) url.searchParams.set(field, String(value));
		const request = new Request(url, {
			method,
			headers: { authorization: world.adminKey, "content-type": "application/json" },
			...(method === "DELETE" ? {} : { body: text }),
		});
		const before = await countAudit();
		const answering = createApp({ ...world.deps, d1: slow.d1 }).fetch(request, testEnv, ctx as never);
		answering.catch(() => undefined);
		await isAsked.opened;
		const registered = tasks.length;
		expect(registered).toBeGreaterThan(0);
		answers.open();
		// Also tasks that other tasks register.
		for (let done = 0; done < tasks.length; done++) await tasks[done];
		expect(await countAudit()).toBeGreaterThan(before);
		if (name !== "a promotion") return;
		const published = await testEnv.BUNDLES.head(`snapshots/${app.appId}`);
		const token = await testEnv.DB.prepare("SELECT revision_token FROM apps WHERE id = ?").bind(app.uuid).first();
		expect(published?.customMetadata?.token, "the app is published").toBe(token?.revision_token);
	});

	async function countAudit(): Promise<number> {
		const row = await testEnv.DB.prepare("SELECT count(*) AS entries FROM audit_log WHERE org_id = ?")
			.bind(world.orgId)
			.first<{ entries: number }>();
		return row?.entries ?? 0;
	}
});

describe("the version of the schema", () => {
	const prepared = () => {
		let nowMs = 1_000_000;
		let questions = 0;
		const slow = gate();
		const db = {
			async batch() {
				questions += 1;
				if (questions === 1) await slow.opened;
				return [{ rows: [{ name: "0056_used_versions.sql" }] }];
			},
		} as never;
		const tasks: Promise<unknown>[] = [];
		const version = new SchemaVersion({ now: () => nowMs, deadline: async () => undefined, log: () => undefined });
		return {
			tasks,
			slow,
			read: () => version.read(db, (task) => tasks.push(task)),
			later: (ms: number) => (nowMs += ms),
			questions: () => questions,
		};
	};

	test("is asked for by a promise that outlives the client", async () => {
		const { read, tasks, slow, questions } = prepared();
		expect(await read()).toBeNull();
		expect(tasks).toHaveLength(1);
		slow.open();
		await tasks[0];
		expect(await read()).toMatch(/^\d{4}_/);
		expect(questions()).toBe(1);
	});

	test("is asked for again if a question is never answered, and then once a minute", async () => {
		const { read, later, questions } = prepared();
		expect(await read()).toBeNull();
		later(4_000);
		expect(await read()).toBeNull();
		expect(questions()).toBe(1);
		later(1_000);
		await read();
		expect(questions()).toBe(2);
		await Promise.resolve();
		later(10_000);
		await read();
		later(59_000);
		expect(await read()).toMatch(/^\d{4}_/);
	});
});
