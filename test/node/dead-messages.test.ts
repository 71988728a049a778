/**
 * Dead messages on the running product, whose consumer fails until the Queue gives up, and the
 * operator's command that lists, resends and drops them. A message that is sent again is counted
 * exactly once.
 */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { D1Database } from "@cloudflare/workers-types";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { deployedDatabase, type Execute, runDeadMessages } from "../../src/operator/dead-messages";
import { type RunningCapstan, serveCapstan } from "../../src/operator/serve";
import { literal } from "../../src/operator/sql-text";
import { DATABASE_ID, fakeAccountScene } from "./support/fake-account";
import { answerOf } from "./support/product";

/**
 * The Queue gives up after twenty tries, each about a second after the one before, and a loaded
 * machine takes several times as long.
 */
const LIMIT_MS = 600_000;

/** Runs the command; its output. */
async function linesOf(execute: Execute, ...argv: readonly string[]): Promise<string[]> {
	const lines: string[] = [];
	await runDeadMessages({ argv, execute: async () => execute, print: (line) => lines.push(line) });
	return lines;
}

/**
 * Wraps the Worker: D1 refuses its consumer until /test/repair, and the Queue retries without
 * delay.
 */
const ENTRY = `
import { AsyncLocalStorage } from "node:async_hooks";
import built from "./worker.js";
// Expected errors are not logged.
console.error = () => {};
const consuming = new AsyncLocalStorage();
let isBroken = true;
let done = 0;
const refusing = (database) => new Proxy(database, { get(target, name) {
	const member = target[name];
	if (name === "withSession") return (constraint) => refusing(target.withSession(constraint));
	if (name === "batch") return async (statements) => {
		if (isBroken && consuming.getStore()) throw new Error("D1_ERROR: no such table: of_tomorrow: SQLITE_ERROR");
		return target.batch(statements);
	};
	return typeof member === "function" ? member.bind(target) : member;
} });
let wrapped;
const watched = (env) => (wrapped ??= { ...env, DB: refusing(env.DB) });
export default {
	async fetch(request, env, ctx) {
		const { pathname } = new URL(request.url);
		if (pathname === "/test/repair") isBroken = false;
		return pathname.startsWith("/test/") ? Response.json({ done }) : built.fetch(request, watched(env), ctx);
	},
	async queue(batch, env, ctx) {
		if (batch.queue.endsWith("-dead")) return built.queue(batch, watched(env), ctx);
		let failed = 0;
		const messages = batch.messages.map((message) => ({
			id: message.id, timestamp: message.timestamp, body: message.body, attempts: message.attempts,
			ack: () => message.ack(),
			retry: () => { failed += 1; message.retry(); },
		}));
		await consuming.run(true, () => built.queue({ messages, queue: batch.queue }, watched(env), ctx));
		done += messages.length - failed;
	},
	scheduled: (controller, env, ctx) => built.scheduled(controller, watched(env), ctx),
};`;

describe("a consumer that fails until the Queue gives up", () => {
	const appId = "com.example.dead";
	let directory: string;
	let capstan: RunningCapstan;
	let database: D1Database;
	let execute: Execute;
	beforeAll(async () => {
		directory = await mkdtemp(join(tmpdir(), "capstan-dead-"));
		capstan = await serveCapstan({ stateDirectory: join(directory, "state"), port: 0, entry: ENTRY });
		database = (await capstan.miniflare.getD1Database("DB")) as unknown as D1Database;
		execute = async <Row>({ sql, parameters }: Parameters<Execute>[0]) =>
			(
				await database
					.prepare(sql)
					.bind(...parameters)
					.all<Row>()
			).results;
	}, LIMIT_MS);
	afterAll(async () => {
		await capstan?.stop();
		await rm(directory, { recursive: true, force: true });
	});

	const ask = async (method: string, path: string, body?: object) => {
		const headers = { authorization: capstan.adminKey ?? "", "content-type": "application/json" };
		const init = body === undefined ? { method, headers } : { method, headers, body: JSON.stringify(body) };
		const response = await answerOf(`${capstan.url}${path}`, init);
		if (response.status >= 300) throw new Error(`${method} ${path}: ${response.status} ${await response.text()}`);
		return response.json();
	};
	const until = async (what: string, holds: () => Promise<boolean>) => {
		for (const endMs = Date.now() + LIMIT_MS / 2; !(await holds()); ) {
			if (Date.now() > endMs) throw new Error(`${what} never came`);
			await new Promise((resolve) => setTimeout(resolve, 200));
		}
	};
	const installs = async () => {
		const reports = (await capstan.miniflare.getD1Database("TELEMETRY")) as unknown as D1Database;
		const sum = "SELECT sum(install_count) AS installs FROM daily_totals";
		return (await reports.prepare(sum).first<number>("installs")) ?? 0;
	};

	test(
		"loses nothing: the operator finds its messages, and what is sent again, twice at once, is counted once",
		async () => {
			const [{ id: owner_org }] = (await ask("GET", "/organization")) as [{ id: string }];
			await ask("POST", "/app", { app_id: appId, name: "Dead", owner_org });
			const report = (number: number) => ({
				app_id: appId,
				device_id: `0f9b0a3e-43cf-4d1f-8a07-6a1c3b1f7e0${number}`,
				platform: "android",
				action: "set",
				version_name: "1.0.0",
				version_build: "1.0.0",
				plugin_version: "8.51.23",
				timestamp: Date.now() + number,
				is_prod: true,
				is_emulator: false,
			});
			await ask("POST", "/stats", [1, 2, 3].map(report) as never);
			await until("a dead message", async () =>
				(await linesOf(execute)).some((line) => line.includes("device_events")),
			);
			expect(await installs()).toBe(0);
			const whole = (await linesOf(execute, "--json")).map((line) => JSON.parse(line));
			const events = whole.flatMap(({ body }) => JSON.parse(body).events ?? []);
			expect(events.filter((event) => event.metric === "install")).toHaveLength(3);

			await ask("POST", "/test/repair");
			const { done: before } = (await ask("GET", "/test/state")) as { done: number };
			const ids = whole.map(({ id }) => id);
			for (let again = 0; again < 2; again += 1) {
				expect(await linesOf(execute, "resend", ...ids)).toEqual([
					expect.stringMatching(/^The next clean-up, within 15 minutes, sends \d+ dead messages? again\.$/),
				]);
			}
			expect((await linesOf(execute))[0]).toContain("waits for the next clean-up");
			await Promise.all([capstan.runScheduled(), capstan.runScheduled()]);
			await until("the count", async () => (await installs()) > 0);
			// Repeated, as after a clean-up that failed between sending and deleting.
			for (const { id, kind, body, sent_at_ms, died_at_ms } of whole) {
				const values = [id, kind, body, sent_at_ms, died_at_ms];
				const row = database.prepare("INSERT INTO dead_messages VALUES (?, ?, ?, ?, ?, 1)").bind(...values);
				await row.run();
			}
			await capstan.runScheduled();
			const least = before + 2 * whole.length;
			await until("all of them", async () => ((await ask("GET", "/test/state")) as { done: number }).done >= least);
			expect(await installs()).toBe(3);
			expect(await linesOf(execute)).toEqual(["No dead messages."]);
			expect(await linesOf(execute, "resend", "--all")).toEqual([
				"The next clean-up, within 15 minutes, sends 0 dead messages again.",
			]);
		},
		LIMIT_MS,
	);
});

describe("npm run dead-messages, on a deployment", () => {
	const scene = fakeAccountScene();

	test(
		"lists, marks and drops through wrangler, with real SQL; without a deployment it says so",
		async () => {
			await expect(deployedDatabase(scene.wrangler(), scene.deployment())).rejects.toThrow("run npm run deploy first");
			await scene.openDatabase();
			scene.setAccount({ databases: [{ name: "capstan", uuid: DATABASE_ID }] });
			const execute = await deployedDatabase(scene.wrangler(), scene.deployment());
			expect(await linesOf(execute)).toEqual(["No dead messages."]);
			const rows = ["m1", "it's m2"].map((id, index) => `(${literal(id)}, 'key_used', '{"n":${index}}', 1, ${index})`);
			const columns = "id, kind, body, sent_at_ms, died_at_ms";
			await execute({ sql: `INSERT INTO dead_messages (${columns}) VALUES ${rows.join()}`, parameters: [] });
			expect(await linesOf(execute, "resend", "it's m2", "absent")).toEqual([
				"absent: no dead message has this id. It was sent again or dropped.",
				"The next clean-up, within 15 minutes, sends 1 dead message again.",
			]);
			expect(await linesOf(execute)).toEqual([
				"m1  key_used  failed 1970-01-01T00:00:00.000Z",
				'    {"n":0}',
				"it's m2  key_used  failed 1970-01-01T00:00:00.001Z  waits for the next clean-up",
				'    {"n":1}',
			]);
			expect(await linesOf(execute, "drop", "--all")).toEqual(["Dropped 2 dead messages."]);
		},
		LIMIT_MS,
	);

	test.each([[["resend"]], [["drop"]], [["drop", "--all", "m1"]], [["forget", "m1"]], [["list", "m1"]], [["--al"]]])(
		"refuses %j before it queries anything",
		async (argv) => {
			const execute = () => Promise.reject(new Error("asked"));
			await expect(runDeadMessages({ argv, execute, print: () => undefined })).rejects.toThrow(
				/See npm run dead-messages/,
			);
		},
	);
});
