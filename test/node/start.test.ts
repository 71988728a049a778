/**
 * `npm start` as a person runs it: the first run, the next runs on the same state directory, every
 * way to stop it, and the background. The tests of `describe("npm start")` follow each other on one
 * state directory, because a process takes seconds to start.
 */
import { spawnSync } from "node:child_process";
import { subscribe, unsubscribe } from "node:diagnostics_channel";
import { copyFile, mkdir, mkdtemp, readdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import type { Server } from "node:http";
import { join } from "node:path";
import { transform } from "esbuild";
import { beforeAll, describe, expect, test, vi } from "vitest";
import { FIRST_MIGRATION } from "../../src/operator/migrate";
import { type RunningCapstan, serveCapstan } from "../../src/operator/serve";
import { PATIENCE_MS } from "../patience";
import { failureOf, LAST_LINE, PROJECT, refusalOf, type Started, startScene, URL_PATTERN } from "./support/npm-start";

const scene = startScene();
const organizationsAt = (url: string, key: string) => fetch(`${url}/organization`, { headers: { authorization: key } });
const keyOf = async (state: string) => (await readFile(join(state, "admin.key"), "utf8")).trimEnd();

describe("npm start", () => {
	let state: string;
	let run: Started;
	let url: string;
	let key: string;
	const restart = async (...options: readonly string[]) => {
		run = scene.start({ CAPSTAN_STATE: state }, ...options);
		await run.until(options.includes("--json") ? "}\n" : LAST_LINE);
		url = URL_PATTERN.exec(run.output())?.[0] ?? "";
	};
	/** Processes that the run has started. */
	const childrenOf = async ({ child: { pid } }: Started) =>
		(await readFile(`/proc/${pid}/task/${pid}/children`, "utf8")).trim().split(" ");
	const expectAllStopped = async (children: readonly string[]) => {
		// The bundler's service ends by itself, a moment after the process that it served.
		await vi.waitFor(async () => {
			for (const pid of children) await expect(stat(`/proc/${pid}/fd/0`)).rejects.toThrow();
		}, PATIENCE_MS);
		expect(await readdir(state)).not.toContain("lock");
		expect(await readdir(state)).not.toContain("url");
		await expect(fetch(`${url}/ok`)).rejects.toThrow();
	};
	beforeAll(async () => {
		state = await scene.newState();
	});

	test("the first run prints its address, and stores the key and the sign-in link in files that only their owner can read", async () => {
		await restart();
		key = await keyOf(state);
		expect(run.output()).not.toMatch(/cap_|sil_/);
		expect(run.output()).toContain('Created the organization "My organization"');
		expect(await (await organizationsAt(url, key)).json()).toMatchObject([{ name: "My organization" }]);
		for (const file of ["admin.key", "secret.key", "sign-in.link"]) {
			expect((await stat(join(state, file))).mode & 0o777, file).toBe(0o600);
		}
		expect(run.output()).toMatch(/^Starting Capstan:\n {2}starting .*\n {2}opening .*\nCapstan is running at http/);
		expect(await readFile(join(state, "sign-in.link"), "utf8")).toMatch(
			/^http:\/\/localhost:\d+\/sign-in#token=sil_\w+\n$/,
		);
		expect(run.output().trimEnd()).toMatch(
			/^Open the link in .*sign-in\.link, which only you can read, to sign in\. It is valid once, for \d+ minutes\.$/m,
		);
		expect(new Set(run.output().match(/http:\/\/[^/\s]+/g))).toEqual(new Set([url]));
		expect(await readFile(join(state, "url"), "utf8")).toBe(`${url}\n`);
		expect((await fetch(`${url}/docs`)).headers.get("content-security-policy")).toContain("default-src 'none'");
		expect((await (await fetch(`${url}/openapi.json`)).json()) as object).toMatchObject({ openapi: "3.1.0" });
	});

	test("SIGINT stops every started process and releases the directory", async () => {
		const children = await childrenOf(run);
		expect(await run.stop("SIGINT")).toBe(0);
		expect(run.output()).toContain("Capstan has stopped.");
		await expectAllStopped(children);
	});

	test("the second run keeps the key and the data, and migrates nothing again", async () => {
		await restart("--json");
		expect(JSON.parse(run.output())).toMatchObject({ created: false, migrationsApplied: [] });
		expect(await keyOf(state)).toBe(key);
		url = JSON.parse(run.output()).url;
		expect((await organizationsAt(url, key)).status).toBe(200);
	});

	test.runIf(process.platform === "linux")("SIGKILL leaves no runtime behind", async () => {
		await run.stop("SIGKILL");
		await vi.waitFor(() => expect(fetch(`${url}/ok`)).rejects.toThrow(), PATIENCE_MS);
		expect(await readdir(state)).toContain("lock");
	});

	test("the next start uses the directory, and reports a lost key file with the option that creates a new key", async () => {
		// Already ended where the test above runs.
		await run.stop();
		await rm(join(state, "admin.key"));
		await restart();
		expect(run.output()).not.toContain("Created the organization");
		expect(run.output()).toContain("--new-admin-key");
	});

	test("refuses a state directory that another run uses", async () => {
		expect(await refusalOf({ stateDirectory: state })).toContain("Another Capstan");
	});

	test("SIGTERM stops every started process and releases the directory", async () => {
		const children = await childrenOf(run);
		expect(await run.stop("SIGTERM")).toBe(0);
		await expectAllStopped(children);
	});
});

describe("a start on a state directory", () => {
	const serve = async (options: { readonly stateDirectory: string; readonly newAdminKey?: boolean }) =>
		await serveCapstan({ port: 0, ...options });

	test("that holds only a stale lock creates the first organization and applies every migration", async () => {
		const migrations = await readdir(join(PROJECT, "src/db/migrations"));
		expect(migrations).toContain(FIRST_MIGRATION);
		const stateDirectory = await scene.newState();
		if (process.platform === "linux") {
			await mkdir(stateDirectory);
			await writeFile(join(stateDirectory, "lock"), `${process.ppid} 1\n`);
		}
		const first = await serve({ stateDirectory });
		expect(first).toMatchObject({ created: true, migrationsApplied: migrations.sort() });
		await first.stop();
	});

	test("whose first run stopped after writing the key continues with that key", async () => {
		const state = await scene.copiedState();
		const key = await keyOf(state);
		await rm(join(state, "d1"), { recursive: true });
		await rm(join(state, "initialized"));
		const capstan = await serve({ stateDirectory: state });
		expect(capstan).toMatchObject({ created: true, adminKey: key });
		expect(await keyOf(state)).toBe(key);
		await capstan.stop();
	});

	test("keeps idle connections of the Queue open, and replaces the admin key by one that the key policies accept", async () => {
		const state = await scene.copiedState();
		const status = async ({ url, adminKey }: RunningCapstan) => (await organizationsAt(url, adminKey ?? "")).status;
		const idleLimitsMs = new Set<number>();
		const look = (message: unknown) => idleLimitsMs.add((message as { server: Server }).server.keepAliveTimeout);
		subscribe("http.server.response.finish", look);
		const capstan = await serve({ stateDirectory: state });
		try {
			// The Queue delivers that the key was used.
			expect(await status(capstan)).toBe(200);
			await vi.waitFor(() => expect([...idleLimitsMs]).toEqual([0]), PATIENCE_MS);
			const db = await capstan.miniflare.getD1Database("DB");
			await db.exec(
				"UPDATE organizations SET enforce_hashed_api_keys = 1, require_apikey_expiration = 1, max_apikey_expiration_days = 7",
			);
			await vi.waitFor(async () => expect(await status(capstan)).toBe(401), PATIENCE_MS);
		} finally {
			unsubscribe("http.server.response.finish", look);
			await capstan.stop();
		}
		const next = await serve({ stateDirectory: state, newAdminKey: true });
		expect(await status(next)).toBe(200);
		expect(await status({ ...next, adminKey: capstan.adminKey })).toBe(401);
		await next.stop();
	});
});

describe("npm start -- --background", () => {
	test("returns when the server answers, creates a new admin key on request, and reports its address when run again until npm stop", async () => {
		const state = await scene.copiedState();
		const key = await keyOf(state);
		const first = scene.start({ CAPSTAN_STATE: state }, "--background", "--new-admin-key");
		expect(await first.exited, first.output()).toBe(0);
		const url = URL_PATTERN.exec(first.output())?.[0] ?? "";
		expect(first.output().trimEnd()).toMatch(
			/^Open the link in .*sign-in\.link, which only you can read, to sign in\. It is valid once, for \d+ minutes\.$/m,
		);
		const statuses = [await keyOf(state), key].map(async (text) => (await organizationsAt(url, text)).status);
		expect(await Promise.all(statuses)).toEqual([200, 401]);
		const second = scene.start({ CAPSTAN_STATE: state }, "--background");
		expect(await second.exited).toBe(0);
		expect(second.output()).toContain(`already running at ${url}`);
		for (const answer of ["Capstan has stopped", "Capstan is not running."]) {
			const stopped = spawnSync(process.execPath, ["src/operator/launch.js", "src/operator/stop.ts"], {
				cwd: PROJECT,
				env: { ...process.env, CAPSTAN_STATE: state },
				encoding: "utf8",
			});
			expect(stopped).toMatchObject({ status: 0, stdout: expect.stringContaining(answer) });
		}
		await expect(fetch(`${url}/ok`)).rejects.toThrow();
	});

	test("prints the reason of a start that fails", async () => {
		const run = scene.start({ CAPSTAN_STATE: await scene.newState(), PORT: "80a" }, "--background");
		expect(await failureOf(run)).toContain("PORT");
	});
});

describe("the launcher", () => {
	const launcher = join(PROJECT, "src/operator/launch.js");
	const run = (directory: string, ...preload: string[]) =>
		spawnSync(process.execPath, [...preload, join(directory, "src/operator/launch.js"), "src/operator/start.ts"], {
			encoding: "utf8",
			cwd: directory,
		});

	test("reports missing dependencies in one sentence", async () => {
		const clone = await mkdtemp(join(scene.directory(), "clone-"));
		await mkdir(join(clone, "src/operator"), { recursive: true });
		await copyFile(launcher, join(clone, "src/operator/launch.js"));
		await writeFile(join(clone, "package.json"), '{"type":"module"}');
		expect(run(clone)).toMatchObject({
			status: 1,
			stdout: "",
			stderr: "The dependencies are not installed; run npm ci first.\n",
		});
	});

	test("reports a Node that is too old in one sentence, with syntax that such a Node parses", async () => {
		const old = join(scene.directory(), "old-node.cjs");
		await writeFile(old, 'Object.defineProperty(process, "versions", { value: { node: "16.20.2" } });');
		const message = async (directory: string) => {
			const { status, stdout, stderr } = run(directory, "--require", old);
			expect([status, stdout]).toEqual([1, ""]);
			return stderr;
		};
		const without = await mkdtemp(join(scene.directory(), "without-node-"));
		await mkdir(join(without, "src/operator"), { recursive: true });
		await copyFile(launcher, join(without, "src/operator/launch.js"));
		await writeFile(join(without, "package.json"), '{"type":"module"}');
		await mkdir(join(without, "node_modules/.bin"), { recursive: true });
		await writeFile(join(without, "node_modules/.package-lock.json"), "{}");
		expect(await message(without)).toBe(
			"Node 16.20.2 is too old, and the project brings none for this machine; install Node 24 or 22.12.\n",
		);
		await writeFile(join(without, "node_modules/.bin/node"), "");
		expect(await message(without)).toBe(
			"Node 16.20.2 is too old; use the npm script, which runs the Node that npm ci installed.\n",
		);
		const source = await readFile(launcher, "utf8");
		const [asNode14, asIs] = await Promise.all(
			["node14", "esnext"].map(async (target) => (await transform(source, { target })).code),
		);
		expect(asNode14).toBe(asIs);
	});
});
