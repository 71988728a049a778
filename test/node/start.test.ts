/**
 * `npm start` as a person meets it: the first run, the second one, what is said when something is wrong, and that nothing is left
 * running afterwards.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { subscribe, unsubscribe } from "node:diagnostics_channel";
import { chmod, mkdir, mkdtemp, readdir, readFile, rm, stat, truncate, writeFile } from "node:fs/promises";
import type { Server } from "node:http";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { type RunningCapstan, serveCapstan } from "../../src/cli/serve";
import { PATIENCE_MS } from "../patience";
import { makeZip, sha256 } from "./support/product";

const PROJECT = fileURLToPath(new URL("../..", import.meta.url));
let parent: string;
const started = new Set<ChildProcess>();

beforeAll(async () => {
	parent = await mkdtemp(join(tmpdir(), "capstan-start-"));
});
afterAll(async () => {
	for (const child of started) child.kill("SIGKILL");
	await rm(parent, { recursive: true, force: true });
});

const newState = async () => join(await mkdtemp(join(parent, "state-")), "state");

interface Started {
	readonly child: ChildProcess;
	readonly output: () => string;
	/** Resolves with the exit code. */
	readonly exited: Promise<number | null>;
	/** Resolves when the text has appeared; rejects when the process ends first. */
	until(text: string): Promise<void>;
}

function start(environment: Record<string, string>, ...options: string[]): Started {
	const child = spawn(process.execPath, ["--import", "tsx", "src/cli/start.ts", ...options], {
		cwd: PROJECT,
		env: { ...process.env, PORT: "0", ...environment },
		stdio: ["ignore", "pipe", "pipe"],
	});
	started.add(child);
	let output = "";
	const waiting = new Set<() => void>();
	for (const stream of [child.stdout, child.stderr]) {
		stream?.on("data", (chunk) => {
			output += chunk;
			for (const look of waiting) look();
		});
	}
	const exited = new Promise<number | null>((resolve) => child.on("close", (code) => resolve(code)));
	return {
		child,
		output: () => output,
		exited,
		until: (text) =>
			new Promise((resolve, reject) => {
				const look = () => {
					if (output.includes(text)) resolve();
				};
				waiting.add(look);
				look();
				void exited.then(() => reject(new Error(`ended before "${text}": ${output}`)));
			}),
	};
}

async function startAndStop(state: string, ...options: string[]): Promise<string> {
	const run = start({ CAPSTAN_STATE: state }, ...options);
	await run.until(options.includes("--json") ? "}\n" : "npm run demo");
	run.child.kill("SIGINT");
	await run.exited;
	return run.output();
}

/** The one sentence that a failed start says. */
async function failure(environment: Record<string, string>, ...options: string[]): Promise<string> {
	const run = start(environment, ...options);
	expect(await run.exited, run.output()).toBe(1);
	const lines = run.output().trim().split("\n");
	expect(lines, run.output()).toHaveLength(1);
	return lines[0] ?? "";
}

async function databaseFile(state: string): Promise<string> {
	const files = await readdir(join(state, "d1"), { recursive: true });
	const name = files.find((file) => file.endsWith(".sqlite") && !file.includes("metadata"));
	if (name === undefined) throw new Error("no database");
	return join(state, "d1", name);
}

/** The database after long use: so much was written that SQLite folded its write-ahead log into the file. */
async function wholeDatabase(state: string): Promise<string> {
	const running = await serveCapstan({ stateDirectory: state, port: 0 });
	const db = await running.miniflare.getD1Database("DB");
	const entry = `INSERT INTO audit_log (org_id, at_ms, actor_type, actor_name, action, target_type, target_id, details, request_id)
		VALUES ('', 0, 'system', '', '', '', '', hex(randomblob(800000)), '')`;
	for (let count = 0; count < 6; count++) await db.prepare(entry).run();
	await running.stop();
	const path = await databaseFile(state);
	if ((await stat(path)).size < 1_000_000) throw new Error("the log was not folded in");
	return path;
}

describe("npm start", () => {
	test("first run: prints the URL and a key that works, keeps the key for the owner alone, and says in three lines what to do", async () => {
		const state = await newState();
		const run = start({ CAPSTAN_STATE: state });
		await run.until("npm run demo");
		const url = /http:\/\/127\.0\.0\.1:\d+/.exec(run.output())?.[0] ?? "";
		const key = (await readFile(join(state, "admin.key"), "utf8")).trimEnd();
		expect(run.output()).toContain(key);
		expect(await (await fetch(`${url}/organization`, { headers: { authorization: key } })).json()).toMatchObject([
			{ name: "My organization" },
		]);
		for (const file of ["admin.key", "secret.key"]) {
			expect((await stat(join(state, file))).mode & 0o777, file).toBe(0o600);
		}
		expect(run.output().match(/^\d\. /gm)).toEqual(["1. ", "2. ", "3. "]);
		expect((await fetch(`${url}/docs`)).headers.get("content-security-policy")).toContain("default-src 'none'");
		expect((await (await fetch(`${url}/openapi.json`)).json()) as object).toMatchObject({ openapi: "3.1.0" });
		run.child.kill("SIGINT");
		await run.exited;
		await expect(fetch(`${url}/ok`)).rejects.toThrow();
	});

	test("second run: the same key, the same data, nothing created or migrated again", async () => {
		const state = await newState();
		const first = JSON.parse(await startAndStop(state, "--json"));
		const key = await readFile(join(state, "admin.key"), "utf8");
		const second = JSON.parse(await startAndStop(state, "--json"));
		const migrations = await readdir(join(PROJECT, "src/db/migrations"));
		expect(migrations.length).toBeGreaterThan(1);
		expect(first).toMatchObject({ created: true, migrationsApplied: migrations.sort() });
		expect(second).toMatchObject({ created: false, migrationsApplied: [] });
		expect(await readFile(join(state, "admin.key"), "utf8")).toBe(key);
	});

	test("a first run that was cut short after the key was written goes on with that key", async () => {
		const state = await newState();
		await startAndStop(state);
		const key = await readFile(join(state, "admin.key"), "utf8");
		await rm(join(state, "d1"), { recursive: true });
		await rm(join(state, "initialized"));
		const run = start({ CAPSTAN_STATE: state });
		await run.until("npm run demo");
		expect(run.output()).toContain(key.trimEnd());
		expect(run.output()).toContain("Created the first account");
		run.child.kill("SIGINT");
		await run.exited;
	});

	test("a lost key file is said, and --new-admin-key replaces the key", async () => {
		const state = await newState();
		await startAndStop(state);
		const old = (await readFile(join(state, "admin.key"), "utf8")).trim();
		await rm(join(state, "admin.key"));
		expect(await startAndStop(state)).toContain("--new-admin-key");
		const run = start({ CAPSTAN_STATE: state }, "--new-admin-key");
		await run.until("npm run demo");
		const url = /http:\/\/127\.0\.0\.1:\d+/.exec(run.output())?.[0] ?? "";
		const key = (await readFile(join(state, "admin.key"), "utf8")).trim();
		const status = async (text: string) =>
			(await fetch(`${url}/organization`, { headers: { authorization: text } })).status;
		expect([await status(key), await status(old)]).toEqual([200, 401]);
		run.child.kill("SIGINT");
		await run.exited;
	});

	test("--new-admin-key makes a key that works whatever the organization's policies are", async () => {
		const state = await newState();
		await startAndStop(state);
		const product = await serveCapstan({ stateDirectory: state, port: 0 });
		const db = await product.miniflare.getD1Database("DB");
		await db.exec(
			"UPDATE organizations SET enforce_hashed_api_keys = 1, require_apikey_expiration = 1, max_apikey_expiration_days = 7",
		);
		const status = async ({ url, adminKey }: RunningCapstan) =>
			(await fetch(`${url}/organization`, { headers: { authorization: adminKey ?? "" } })).status;
		expect(await status(product)).toBe(401);
		await product.stop();
		const mended = await serveCapstan({ stateDirectory: state, port: 0, newAdminKey: true });
		expect(await status(mended)).toBe(200);
		await mended.stop();
	});

	test("closes no connection over which the Queue tells what it delivered, however long it is idle", async () => {
		const idleLimitsMs = new Set<number>();
		const look = (message: unknown) => idleLimitsMs.add((message as { server: Server }).server.keepAliveTimeout);
		subscribe("http.server.response.finish", look);
		const { url, adminKey, stop } = await serveCapstan({ stateDirectory: await newState(), port: 0 });
		try {
			// That the key was used comes by the Queue.
			await fetch(`${url}/organization`, { headers: { authorization: adminKey ?? "" } });
			await vi.waitFor(() => expect([...idleLimitsMs]).toEqual([0]), PATIENCE_MS);
		} finally {
			unsubscribe("http.server.response.finish", look);
			await stop();
		}
	});

	test.each(["SIGINT", "SIGTERM"] as const)(
		"%s stops everything that was started and lets go of the directory",
		async (signal) => {
			const state = await newState();
			const run = start({ CAPSTAN_STATE: state });
			await run.until("npm run demo");
			const children = (await readFile(`/proc/${run.child.pid}/task/${run.child.pid}/children`, "utf8"))
				.trim()
				.split(" ");
			run.child.kill(signal);
			expect(await run.exited).toBe(0);
			// The bundler's service ends by itself, a moment after the process that it served.
			await vi.waitFor(async () => {
				for (const pid of children) await expect(stat(`/proc/${pid}/fd/0`)).rejects.toThrow();
			}, PATIENCE_MS);
			expect(await readdir(state)).not.toContain("lock");
		},
	);

	test.runIf(process.platform === "linux")(
		"SIGKILL leaves no runtime behind, and the next start takes the directory over",
		async () => {
			const state = await newState();
			const run = start({ CAPSTAN_STATE: state });
			await run.until("npm run demo");
			const url = /http:\/\/127\.0\.0\.1:\d+/.exec(run.output())?.[0] ?? "";
			run.child.kill("SIGKILL");
			await run.exited;
			await vi.waitFor(() => expect(fetch(`${url}/ok`)).rejects.toThrow(), PATIENCE_MS);
			expect(await readdir(state)).toContain("lock");
			expect(JSON.parse(await startAndStop(state, "--json"))).toMatchObject({ created: false });
		},
	);

	test.runIf(process.platform === "linux")(
		"a lock whose process number now belongs to another program is taken over",
		async () => {
			const state = await newState();
			await mkdir(state);
			await writeFile(join(state, "lock"), `${process.pid} 1\n`);
			expect(JSON.parse(await startAndStop(state, "--json"))).toMatchObject({ created: true });
		},
	);
});

describe("what a person can mend is one sentence and exit code 1", () => {
	test("a port in use", async () => {
		const server = createServer();
		await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
		const { port } = server.address() as { port: number };
		expect(await failure({ CAPSTAN_STATE: await newState(), PORT: String(port) })).toContain(`Port ${port} is in use`);
		server.close();
	});

	test("a port that is no port, and an option that does not exist", async () => {
		const state = await newState();
		expect(await failure({ CAPSTAN_STATE: state, PORT: "80a" })).toContain("PORT");
		expect(await failure({ CAPSTAN_STATE: state, PORT: "70000" })).toContain("65535");
		expect(await failure({ CAPSTAN_STATE: state }, "--fast")).toContain("--fast");
	});

	test("a state directory that is a file, or below one", async () => {
		const file = join(await mkdtemp(join(parent, "file-")), "file");
		await writeFile(file, "");
		expect(await failure({ CAPSTAN_STATE: file })).toContain("cannot be written to");
		expect(await failure({ CAPSTAN_STATE: join(file, "below") })).toContain("cannot be written to");
	});

	test.skipIf(process.getuid?.() === 0)("a state directory without write permission", async () => {
		const state = await newState();
		await mkdir(state, { mode: 0o500 });
		expect(await failure({ CAPSTAN_STATE: state })).toContain("cannot be written to");
		await chmod(state, 0o700);
	});

	test("a state directory that another run uses", async () => {
		const state = await newState();
		const run = start({ CAPSTAN_STATE: state });
		await run.until("npm run demo");
		expect(await failure({ CAPSTAN_STATE: state })).toContain("Another Capstan");
		run.child.kill("SIGINT");
		await run.exited;
	});

	test("a state directory that a newer version wrote", async () => {
		const state = await newState();
		const running = await serveCapstan({ stateDirectory: state, port: 0 });
		const db = await running.miniflare.getD1Database("DB");
		await db.prepare("INSERT INTO d1_migrations (name) VALUES ('9999_later.sql')").run();
		await running.stop();
		expect(await failure({ CAPSTAN_STATE: state })).toContain("newer Capstan (migration 9999_later.sql)");
	});

	test("a bucket that was lost", async () => {
		const state = await newState();
		const running = await serveCapstan({ stateDirectory: state, port: 0 });
		const headers = { authorization: running.adminKey ?? "", "content-type": "application/json" };
		const send = async (path: string, body: object) =>
			(
				await fetch(`${running.url}${path}`, { method: "POST", headers, body: JSON.stringify(body) })
			).json() as Promise<{
				upload_url: string;
			}>;
		const [{ id }] = (await (await fetch(`${running.url}/organization`, { headers })).json()) as [{ id: string }];
		await send("/app", { app_id: "com.example.lost", name: "Lost", owner_org: id });
		const zip = makeZip("1.0.0");
		const fields = { checksum: sha256(zip), size: zip.length };
		const { upload_url } = await send("/bundle", { app_id: "com.example.lost", version: "1.0.0", ...fields });
		expect((await fetch(upload_url, { method: "PUT", body: zip })).status).toBe(200);
		await running.stop();
		expect(JSON.parse(await startAndStop(state, "--json"))).toMatchObject({ created: false });
		await rm(join(state, "r2"), { recursive: true });
		expect(await failure({ CAPSTAN_STATE: state })).toContain("the bundles' bytes are missing");
	});

	test.each([
		["a lost database", (state: string) => rm(join(state, "d1"), { recursive: true })],
		[
			"a log of garbage",
			async (state: string) => writeFile(`${await databaseFile(state)}-wal`, "garbage ".repeat(4000)),
		],
		["a database whose log is lost", async (state: string) => rm(`${await databaseFile(state)}-wal`)],
		[
			"a database of garbage",
			async (state: string) => {
				const file = await databaseFile(state);
				await rm(`${file}-wal`);
				await writeFile(file, "garbage ".repeat(4000));
			},
		],
		["a database cut off", async (state: string) => truncate(await wholeDatabase(state), 50_000)],
		[
			"a page of garbage in the database",
			async (state: string) => {
				const path = await wholeDatabase(state);
				const bytes = await readFile(path);
				bytes.fill("garbage ", 4096, bytes.length);
				await rm(`${path}-wal`);
				await writeFile(path, bytes);
			},
		],
		["a key file of garbage", (state: string) => writeFile(join(state, "admin.key"), "not a key\n")],
		["a secret of garbage", (state: string) => writeFile(join(state, "secret.key"), "short\n")],
		["a lost secret", (state: string) => rm(join(state, "secret.key"))],
	])("damaged: %s", async (_, damage) => {
		const state = await newState();
		await startAndStop(state);
		await damage(state);
		expect(await failure({ CAPSTAN_STATE: state })).toContain("is damaged");
	});
});
