/**
 * Dead messages from their death to their end: on the running product, whose consumer fails until the Queue gives up, and by the command
 * of the operator, which finds them, has them sent again and drops them. What comes back is counted exactly once.
 */
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { D1Database } from "@cloudflare/workers-types";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { deployedDatabase, type Execute, tendToDeadMessages } from "../../src/cli/dead-messages";
import { type RunningCapstan, serveCapstan } from "../../src/cli/serve";
import { literal } from "../../src/cli/sql-text";
import { answerOf } from "./support/product";

/** The Queue gives up after twenty tries, each about a second after the one before, and a loaded machine takes several times as long. */
const LIMIT_MS = 600_000;

/** What the command says. */
async function said(execute: Execute, ...argv: readonly string[]): Promise<string[]> {
	const lines: string[] = [];
	await tendToDeadMessages({ argv, execute: async () => execute, say: (line) => lines.push(line) });
	return lines;
}

/** Stands before the Worker: D1 refuses its consumer until it is mended, and the Queue does not wait between its tries. */
const ENTRY = `
import { AsyncLocalStorage } from "node:async_hooks";
import built from "./worker.js";
// What is made to fail is no news.
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
		if (pathname === "/test/mend") isBroken = false;
		return pathname.startsWith("/test/") ? Response.json({ done }) : built.fetch(request, watched(env), ctx);
	},
	async queue(batch, env, ctx) {
		if (batch.queue.endsWith("-dead")) return built.queue(batch, watched(env), ctx);
		let failed = 0;
		const messages = batch.messages.map((message) => ({
			...{ id: message.id, timestamp: message.timestamp, body: message.body, attempts: message.attempts },
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
	const installs = async () =>
		(await database
			.prepare("SELECT coalesce(sum(install_count), 0) AS installs FROM daily_totals")
			.first<number>("installs")) ?? 0;

	test(
		"loses nothing: the operator finds its messages, and what is sent again, twice at once, is counted once",
		async () => {
			const [{ id: owner_org }] = (await ask("GET", "/organization")) as [{ id: string }];
			await ask("POST", "/app", { app_id: appId, name: "Dead", owner_org });
			const report = (number: number) => ({
				...{ app_id: appId, device_id: `0f9b0a3e-43cf-4d1f-8a07-6a1c3b1f7e0${number}`, platform: "android" },
				...{ action: "set", version_name: "1.0.0", version_build: "1.0.0", plugin_version: "8.51.23" },
				...{ timestamp: Date.now() + number, is_prod: true, is_emulator: false },
			});
			await ask("POST", "/stats", [1, 2, 3].map(report) as never);
			await until("a dead message", async () => (await said(execute)).some((line) => line.includes("device_events")));
			expect(await installs()).toBe(0);
			const whole = (await said(execute, "--json")).map((line) => JSON.parse(line));
			const events = whole.flatMap(({ body }) => JSON.parse(body).events ?? []);
			expect(events.filter((event) => event.metric === "install")).toHaveLength(3);

			await ask("POST", "/test/mend");
			const { done: before } = (await ask("GET", "/test/state")) as { done: number };
			const ids = whole.map(({ id }) => id);
			for (let again = 0; again < 2; again += 1) {
				expect(await said(execute, "resend", ...ids)).toEqual([
					expect.stringMatching(/^The next sweep, within fifteen minutes, sends \d+ dead messages? again\.$/),
				]);
			}
			expect((await said(execute))[0]).toContain("waits for the next sweep");
			await Promise.all([capstan.runScheduled(), capstan.runScheduled()]);
			await until("the count", async () => (await installs()) > 0);
			// Once more, as after a sweep that died between sending and forgetting.
			for (const { id, kind, body, sent_at_ms, died_at_ms } of whole) {
				const values = [id, kind, body, sent_at_ms, died_at_ms];
				const row = database.prepare("INSERT INTO dead_messages VALUES (?, ?, ?, ?, ?, 1)").bind(...values);
				await row.run();
			}
			await capstan.runScheduled();
			const least = before + 2 * whole.length;
			await until("all of them", async () => ((await ask("GET", "/test/state")) as { done: number }).done >= least);
			expect(await installs()).toBe(3);
			expect(await said(execute)).toEqual(["There are no dead messages."]);
			expect(await said(execute, "resend", "--all")).toEqual([
				"The next sweep, within fifteen minutes, sends 0 dead messages again.",
			]);
		},
		LIMIT_MS,
	);
});

describe("npm run dead-messages, on a deployment", () => {
	const fake = ["node", "--import", "tsx", fileURLToPath(new URL("support/fake-wrangler.ts", import.meta.url))];
	const environment = { ...process.env };
	let directory: string;
	beforeEach(async () => {
		directory = await mkdtemp(join(tmpdir(), "capstan-dead-"));
		process.env.FAKE_WRANGLER_DIRECTORY = directory;
		process.env.CLOUDFLARE_API_TOKEN = "no real token";
		delete process.env.CLOUDFLARE_ACCOUNT_ID;
		await writeAccount({ databases: [] });
	});
	const writeAccount = (account: object) => {
		const text = JSON.stringify({
			loggedIn: true,
			accounts: [{ id: "acc1", name: "One" }],
			realDatabase: true,
			...account,
		});
		return writeFile(join(directory, "account.json"), text);
	};
	afterEach(async () => {
		process.env = { ...environment };
		await rm(directory, { recursive: true, force: true });
	});

	test(
		"lists, marks and drops through wrangler, with real SQL; without a deployment it says so",
		async () => {
			await expect(deployedDatabase(fake)).rejects.toThrow("run npm run deploy first");
			await writeAccount({ databases: [{ name: "capstan", uuid: "0d1e2f3a-0000-4000-8000-000000000001" }] });
			const execute = await deployedDatabase(fake);
			const schema = await readFile(new URL("../../schema.sql", import.meta.url), "utf8");
			const table = /CREATE TABLE dead_messages[\s\S]*?WITHOUT ROWID/.exec(schema)?.[0] ?? "";
			await execute({ sql: table, parameters: [] });
			expect(await said(execute)).toEqual(["There are no dead messages."]);
			const rows = ["m1", "it's m2"].map((id, index) => `(${literal(id)}, 'key_used', '{"n":${index}}', 1, ${index})`);
			const columns = "id, kind, body, sent_at_ms, died_at_ms";
			await execute({ sql: `INSERT INTO dead_messages (${columns}) VALUES ${rows.join()}`, parameters: [] });
			expect(await said(execute, "resend", "it's m2", "absent")).toEqual([
				"absent: there is no such dead message; it was sent again or dropped.",
				"The next sweep, within fifteen minutes, sends 1 dead message again.",
			]);
			expect(await said(execute)).toEqual([
				"m1  key_used  died 1970-01-01T00:00:00.000Z",
				'    {"n":0}',
				"it's m2  key_used  died 1970-01-01T00:00:00.001Z  waits for the next sweep",
				'    {"n":1}',
			]);
			expect(await said(execute, "drop", "--all")).toEqual(["Dropped 2 dead messages."]);
		},
		LIMIT_MS,
	);

	test.each([[["resend"]], [["drop"]], [["drop", "--all", "m1"]], [["forget", "m1"]], [["list", "m1"]], [["--al"]]])(
		"%j is refused before anything is asked",
		async (argv) => {
			const execute = () => Promise.reject(new Error("asked"));
			await expect(tendToDeadMessages({ argv, execute, say: () => undefined })).rejects.toThrow(
				/see npm run dead-messages/,
			);
		},
	);
});
