/**
 * `npm start` as a person meets it: the first run, the second one, what is said when something is wrong, and that nothing is left
 * running afterwards.
 */
import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { subscribe, unsubscribe } from "node:diagnostics_channel";
import { chmod, copyFile, mkdir, mkdtemp, readdir, readFile, rm, stat, truncate, writeFile } from "node:fs/promises";
import type { Server } from "node:http";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { transform } from "esbuild";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { networkAddresses } from "../../src/cli/network";
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

/** The last thing that a start prints. */
const SIGN_IN = "sign-in.link, readable by you alone";
const URL_PATTERN = /http:\/\/localhost:\d+/;

const newState = async () => join(await mkdtemp(join(parent, "state-")), "state");

interface Started {
	readonly child: ChildProcess;
	readonly output: () => string;
	/** Standard error alone. */
	readonly errors: () => string;
	/** Resolves with the exit code. */
	readonly exited: Promise<number | null>;
	/** Resolves when the text has appeared; rejects when the process ends first. */
	until(text: string): Promise<void>;
}

function start(environment: Record<string, string>, ...options: string[]): Started {
	const child = spawn(process.execPath, ["src/cli/launch.js", "src/cli/start.ts", ...options], {
		cwd: PROJECT,
		env: { ...process.env, PORT: "0", ...environment },
		stdio: ["ignore", "pipe", "pipe"],
	});
	started.add(child);
	let output = "";
	let errors = "";
	child.stderr?.on("data", (chunk) => (errors += chunk));
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
		errors: () => errors,
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
	await run.until(options.includes("--json") ? "}\n" : SIGN_IN);
	run.child.kill("SIGINT");
	await run.exited;
	return run.output();
}

/** The one sentence on standard error with which a start fails. */
async function failure(environment: Record<string, string>, ...options: string[]): Promise<string> {
	const run = start(environment, ...options);
	expect(await run.exited, run.output()).toBe(1);
	const lines = run.errors().trim().split("\n");
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
	test("first run: says at once that it works, and keeps the key and the sign-in link in files that its owner alone reads, not in output that a log may keep", async () => {
		const state = await newState();
		const run = start({ CAPSTAN_STATE: state });
		await run.until(SIGN_IN);
		const url = URL_PATTERN.exec(run.output())?.[0] ?? "";
		const key = (await readFile(join(state, "admin.key"), "utf8")).trimEnd();
		expect(run.output()).not.toMatch(/cap_|sil_/);
		expect(await (await fetch(`${url}/organization`, { headers: { authorization: key } })).json()).toMatchObject([
			{ name: "My organization" },
		]);
		for (const file of ["admin.key", "secret.key", "sign-in.link"]) {
			expect((await stat(join(state, file))).mode & 0o777, file).toBe(0o600);
		}
		expect(run.output()).toMatch(
			/^Starting Capstan:\n {2}building .*\n {2}starting .*\n {2}opening .*\nCapstan is running at http/,
		);
		expect(await readFile(join(state, "sign-in.link"), "utf8")).toMatch(
			/^http:\/\/localhost:\d+\/sign-in#token=sil_\w+\n$/,
		);
		expect(run.output().trimEnd()).toMatch(/sign-in\.link, readable by you alone\)$/);
		expect(new Set(run.output().match(/http:\/\/[^/\s]+/g))).toEqual(new Set([url]));
		expect(await readFile(join(state, "url"), "utf8")).toBe(`${url}\n`);
		expect((await fetch(`${url}/docs`)).headers.get("content-security-policy")).toContain("default-src 'none'");
		expect((await (await fetch(`${url}/openapi.json`)).json()) as object).toMatchObject({ openapi: "3.1.0" });
		run.child.kill("SIGINT");
		await run.exited;
		await expect(fetch(`${url}/ok`)).rejects.toThrow();
		expect(run.output()).toContain("Capstan has stopped.");
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
		await run.until(SIGN_IN);
		expect(await readFile(join(state, "admin.key"), "utf8")).toBe(key);
		expect(run.output()).not.toContain(key.trimEnd());
		expect(run.output()).toContain('Created the organization "My organization"');
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
		await run.until(SIGN_IN);
		const url = URL_PATTERN.exec(run.output())?.[0] ?? "";
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
			await run.until(SIGN_IN);
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
			expect(await readdir(state)).not.toContain("url");
		},
	);

	test.runIf(process.platform === "linux")(
		"SIGKILL leaves no runtime behind, and the next start takes the directory over",
		async () => {
			const state = await newState();
			const run = start({ CAPSTAN_STATE: state });
			await run.until(SIGN_IN);
			const url = URL_PATTERN.exec(run.output())?.[0] ?? "";
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

/** An address of this machine that is not loopback, as phones see it. */
const [networkAddress] = networkAddresses();

describe("npm start in the network", () => {
	test("serves loopback only, unless it is told otherwise", async () => {
		const product = await serveCapstan({ stateDirectory: await newState(), port: 0 });
		expect(product.networkUrls).toEqual([]);
		if (networkAddress !== undefined) {
			await expect(fetch(product.url.replace("127.0.0.1", networkAddress))).rejects.toThrow();
		}
		await product.stop();
	});

	test.runIf(networkAddress !== undefined).each([
		["--lan", {}, ["--lan"]],
		["HOST=0.0.0.0", { HOST: "0.0.0.0" }, []],
		["HOST with an address of this machine", { HOST: networkAddress ?? "" }, []],
	] as const)("%s: a phone downloads a bundle from the address that it asked", async (_, environment, options) => {
		const state = await newState();
		const run = start({ CAPSTAN_STATE: state, ...environment }, ...options);
		await run.until(SIGN_IN);
		const local = URL_PATTERN.exec(run.output())?.[0] ?? "";
		const network = local.replace("localhost", networkAddress ?? "");
		expect(run.output()).toContain(network);
		expect(run.output(), "a QR code").toMatch(/[▄▀█]{5}/);
		const key = (await readFile(join(state, "admin.key"), "utf8")).trim();
		const send = async (origin: string, method: string, path: string, body?: object) => {
			const headers = { authorization: key, "content-type": "application/json" };
			const response = await fetch(`${origin}${path}`, { method, headers, body: JSON.stringify(body) ?? null });
			return response.json() as Promise<{ id: string; upload_url: string; url: string }>;
		};
		const [{ id }] = (await send(local, "GET", "/organization")) as unknown as [{ id: string }];
		await send(local, "POST", "/app", { app_id: "com.example.phone", name: "Phone", owner_org: id });
		const { upload_url } = await send(local, "POST", "/bundle", { app_id: "com.example.phone", version: "1.0.1" });
		const zip = makeZip("1.0.1");
		await fetch(upload_url, { method: "PUT", body: zip });
		await send(local, "POST", "/channel", {
			app_id: "com.example.phone",
			channel: "main",
			version: "1.0.1",
			public: true,
		});
		const check = {
			...{ app_id: "com.example.phone", device_id: "b5a3f9d2-6a60-4f2e-9a57-9f1f1f5a2d61", platform: "android" },
			...{ version_name: "builtin", version_build: "1.0.0", plugin_version: "8.51.23" },
		};
		// Alternately, because answers are cached.
		for (const origin of [local, network, local, network]) {
			const { url } = await send(origin, "POST", "/updates", check);
			expect(new URL(url).origin).toBe(origin);
			expect(new Uint8Array(await (await fetch(url)).arrayBuffer())).toEqual(zip);
		}
		expect(await send(local, "GET", "/service/addresses")).toContainEqual({
			kind: "network",
			url: network,
			reachable: true,
		});
		// A key that loopback may use is not for everyone in the network.
		const { key: limited } = (await send(local, "POST", "/apikey", {
			name: "loopback",
			ip_allow_list: ["127.0.0.1"],
			bindings: [{ role_name: "org_member", scope_type: "org", org_id: id }],
		})) as unknown as { key: string };
		expect((await fetch(`${network}/app`, { headers: { authorization: limited } })).status).toBe(403);
		// Nobody signs in over plain HTTP: the page says where they can.
		const page = await fetch(`${network}/`, { headers: { accept: "text/html" }, redirect: "manual" });
		expect(page.headers.get("location")).toBe(`${network}/sign-in`);
		run.child.kill("SIGINT");
		await run.exited;
	});

	test("the likeliest address of a phone's network comes first", () => {
		const entry = (address: string, internal = false) => [
			{ address, internal, family: "IPv4" as const, netmask: "", mac: "", cidr: null },
		];
		const interfaces = {
			lo: entry("127.0.0.1", true),
			docker0: entry("172.17.0.1"),
			eth1: entry("169.254.3.4"),
			wlan0: entry("192.168.1.20"),
		};
		expect(networkAddresses(interfaces)).toEqual(["192.168.1.20", "172.17.0.1"]);
	});
});

describe("npm start -- --background", () => {
	test("returns when it serves, says so the second time, and npm stop ends it", async () => {
		const state = await newState();
		const first = start({ CAPSTAN_STATE: state }, "--background");
		expect(await first.exited, first.output()).toBe(0);
		const url = URL_PATTERN.exec(first.output())?.[0] ?? "";
		expect(first.output().trimEnd()).toMatch(/sign-in\.link, readable by you alone\)$/);
		expect((await fetch(`${url}/ok`)).status).toBe(200);
		const second = start({ CAPSTAN_STATE: state }, "--background");
		expect(await second.exited).toBe(0);
		expect(second.output()).toContain(`already running at ${url}`);
		for (const answer of ["Capstan has stopped", "Capstan is not running."]) {
			const stopped = spawnSync(process.execPath, ["src/cli/launch.js", "src/cli/stop.ts"], {
				cwd: PROJECT,
				env: { ...process.env, CAPSTAN_STATE: state },
				encoding: "utf8",
			});
			expect(stopped).toMatchObject({ status: 0, stdout: expect.stringContaining(answer) });
		}
		await expect(fetch(`${url}/ok`)).rejects.toThrow();
	});

	test("a start that fails says why where it was asked for", async () => {
		expect(await failure({ CAPSTAN_STATE: await newState(), PORT: "80a" }, "--background")).toContain("PORT");
	});
});

describe("the launcher", () => {
	const launcher = join(PROJECT, "src/cli/launch.js");
	const run = (directory: string, ...preload: string[]) =>
		spawnSync(process.execPath, [...preload, join(directory, "src/cli/launch.js"), "src/cli/start.ts"], {
			encoding: "utf8",
			cwd: directory,
		});

	test("says in one sentence that npm ci was forgotten", async () => {
		const clone = await mkdtemp(join(parent, "clone-"));
		await mkdir(join(clone, "src/cli"), { recursive: true });
		await copyFile(launcher, join(clone, "src/cli/launch.js"));
		await writeFile(join(clone, "package.json"), '{"type":"module"}');
		expect(run(clone)).toMatchObject({
			...{ status: 1, stdout: "" },
			stderr: "The dependencies are not installed; run npm ci first.\n",
		});
	});

	test("says in one sentence that Node is too old, in words that such a Node can parse", async () => {
		const old = join(parent, "old-node.cjs");
		await writeFile(old, 'Object.defineProperty(process, "versions", { value: { node: "16.20.2" } });');
		expect(run(PROJECT, "--require", old)).toMatchObject({
			...{ status: 1, stdout: "" },
			stderr: "Node 16.20.2 is too old; install Node 20.19 or newer.\n",
		});
		const source = await readFile(launcher, "utf8");
		const [asNode14, asIs] = await Promise.all(
			["node14", "esnext"].map(async (target) => (await transform(source, { target })).code),
		);
		expect(asNode14).toBe(asIs);
	});
});

describe("what a person can fix is one sentence and exit code 1", () => {
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
		expect(await failure({ CAPSTAN_STATE: state, HOST: "example.com" })).toContain("HOST");
		expect(await failure({ CAPSTAN_STATE: state, HOST: "203.0.113.9" })).toContain("no address of this machine");
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
		await run.until(SIGN_IN);
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
