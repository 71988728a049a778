/**
 * `npm run doctor` from outside, on the running product: a healthy one has no failed line, and each
 * fault that a test can cause shows its line and its remedy. Secrets come from the fake wrangler.
 */
import { spawn } from "node:child_process";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { strToU8, zipSync } from "fflate";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { runDoctor } from "../../src/operator/doctor";
import type { Finding } from "../../src/operator/doctor-types";
import { PROJECT_DIRECTORY } from "../../src/operator/project";
import { type RunningCapstan, serveCapstan } from "../../src/operator/serve";
import { fakeAccountScene } from "./support/fake-account";
import { type Product, startProduct } from "./support/product";

const scene = fakeAccountScene();
const ADDRESS = "https://updates.example.com";

type Examined = { readonly url: string; readonly healthy: boolean; readonly checks: readonly Finding[] };

/** Runs the command and parses what it prints. */
async function examined(
	stateDirectory: string,
	argv: readonly string[],
	more: Partial<Parameters<typeof runDoctor>[0]> = {},
): Promise<Examined> {
	const lines: string[] = [];
	const isHealthy = await runDoctor({
		argv: [...argv, "--json"],
		stateDirectory,
		wrangler: scene.wrangler(),
		nowMs: () => Date.now(),
		print: (line) => void lines.push(line),
		...more,
	});
	const answer = JSON.parse(lines.join("\n")) as Examined;
	expect(answer.healthy).toBe(isHealthy);
	return answer;
}

const states = ({ checks }: Examined) => Object.fromEntries(checks.map(({ check, state }) => [check, state]));
const remedyOf = ({ checks }: Examined, name: string) => checks.find(({ check }) => check === name)?.remedy;

/** A network in which the product has the address of a deployment. */
const network =
	(product: string): typeof fetch =>
	(input, init) =>
		fetch(String(input).replace(ADDRESS, product), init);

describe("a healthy product", () => {
	let product: Product;
	beforeAll(async () => {
		product = await startProduct();
		await product.running.runScheduled();
	});
	afterAll(() => product.stop());

	test("of a newer release, or of a development build, has a line that says how to go on", async () => {
		const later: typeof fetch = async (input, init) => {
			const response = await fetch(input, init);
			if (!String(input).endsWith("/ok")) return response;
			return Response.json({ ...((await response.json()) as object), schema: "0063_groups" });
		};
		const answer = await examined(product.running.stateDirectory, ["--local"], { fetch: later });
		expect(states(answer).schema).toBe("warning");
		expect(remedyOf(answer, "schema")).toContain("npm start says how to start again");
	});

	test("has no line that is not ok", async () => {
		const { checks, healthy, url } = await examined(product.running.stateDirectory, ["--local"]);
		expect([healthy, url]).toEqual([true, product.running.pageUrl]);
		expect(checks.filter(({ state }) => state !== "ok").map(({ check }) => check)).toEqual([]);
		expect(checks.map(({ check }) => check)).toEqual(
			expect.arrayContaining([
				"address",
				"version",
				"schema",
				"update check",
				"clock",
				"bindings",
				"telemetry",
				"clean-up",
				"live bundles",
				"edge cache",
				"CORS",
			]),
		);
	});

	test("prints one line per check, exits with 0, and with 1 for a server that does not answer", async () => {
		const run = async (...argv: readonly string[]) => {
			const child = spawn(process.execPath, ["src/operator/launch.js", "src/operator/doctor.ts", ...argv], {
				cwd: PROJECT_DIRECTORY,
				env: { ...process.env, CAPSTAN_STATE: product.running.stateDirectory },
				stdio: ["ignore", "pipe", "pipe"],
			});
			let output = "";
			for (const stream of [child.stdout, child.stderr]) stream.on("data", (chunk) => (output += chunk));
			return { code: await new Promise((resolve) => child.on("close", resolve)), output };
		};
		const healthy = await run("--local");
		expect(healthy.code, healthy.output).toBe(0);
		expect(healthy.output).toMatch(/^ok {6}address: http:\/\/localhost:\d+ answers$/m);
		expect(healthy.output).not.toContain(product.adminKey);
		const absent = await run("--url=http://127.0.0.1:9");
		expect(absent.code).toBe(1);
		expect(absent.output).toMatch(/^FAILED {2}address: .* does not answer/m);
		expect(absent.output).toContain("        Run npm start.");
	});

	test("is examined as a deployment at its address, with its key and its secrets", async () => {
		const state = await mkdtemp(join(tmpdir(), "capstan-doctor-"));
		await mkdir(state, { recursive: true });
		await writeFile(join(state, "deployed-url"), `${ADDRESS}\n`);
		const options = { fetch: network(product.url) };
		const withoutKey = await examined(state, [], options);
		expect(states(withoutKey)).toMatchObject({ address: "ok", "admin key": "skipped", secrets: "skipped" });
		await writeFile(join(state, "deployed-admin.key"), `${product.adminKey}\n`);
		const queues = ["capstan-events", "capstan-webhooks", "capstan-events-dead"];
		const consumers = Object.fromEntries(queues.map((queue) => [queue, "worker:capstan"]));
		scene.setAccount({ secrets: [{ name: "CAPSTAN_SECRET", type: "secret_text" }], queues, consumers });
		const whole = await examined(state, [], options);
		expect(states(whole)).toMatchObject({ "admin key": "ok", clock: "ok", secrets: "ok", consumers: "ok" });
		expect(whole.healthy).toBe(true);
		for (const [change, detail] of [
			[{ consumers: { ...consumers, "capstan-webhooks": "" } }, "nothing consumes capstan-webhooks"],
			[{ consumers: { ...consumers, "capstan-events": "worker:other" } }, "other consumes capstan-events"],
			[{ consumers, queues: queues.slice(0, 2) }, "the queue capstan-events-dead does not exist"],
		] as const) {
			scene.setAccount(structuredClone(change) as object);
			const unread = await examined(state, [], options);
			expect(unread.checks.find(({ check }) => check === "consumers")).toMatchObject({ state: "failed", detail });
			expect(remedyOf(unread, "consumers")).toContain("npm run deploy");
		}
		scene.setAccount({ secrets: [{ name: "MAIL_API_KEY", type: "secret_text" }] });
		const unsigned = await examined(state, [], options);
		expect(states(unsigned).secrets).toBe("failed");
		expect(remedyOf(unsigned, "secrets")).toContain("npm run deploy");
		await writeFile(join(state, "deployed-admin.key"), "cap_unknown\n");
		const refused = await examined(state, [], options);
		expect(states(refused)["admin key"]).toBe("failed");
		expect(remedyOf(refused, "admin key")).toContain("npm run deploy -- --new-admin-key");
		await rm(state, { recursive: true, force: true });
	});

	test("a clock that differs by a minute fails", async () => {
		const late = await examined(product.running.stateDirectory, ["--local"], { nowMs: () => Date.now() - 61_000 });
		expect(states(late).clock).toBe("failed");
		expect(remedyOf(late, "clock")).toContain("synchronize the clock");
		const near = await examined(product.running.stateDirectory, ["--local"], { nowMs: () => Date.now() + 30_000 });
		expect(states(near).clock).toBe("ok");
	});
});

/** Wraps the Worker, and changes its environment. */
const entry = (change: string, before = "") => `
import built from "./worker.js";
console.error = () => {};
console.warn = () => {};
${before}
let changed;
const environment = (env) => (changed ??= { ...env, ${change} });
export default {
	fetch: (request, env, ctx) => built.fetch(request, environment(env), ctx),
	queue: (batch, env, ctx) => built.queue(batch, environment(env), ctx),
};`;

async function served<Result>(module: string, work: (running: RunningCapstan) => Promise<Result>): Promise<Result> {
	const directory = await mkdtemp(join(tmpdir(), "capstan-doctor-"));
	const running = await serveCapstan({ stateDirectory: join(directory, "state"), port: 0, entry: module });
	try {
		return await work(running);
	} finally {
		await running.stop();
		await rm(directory, { recursive: true, force: true });
	}
}

describe("a product with faults", () => {
	test("without its secret, the only line is the address, with the log line to look for", async () => {
		await served(entry(`CAPSTAN_SECRET: ""`), async ({ stateDirectory }) => {
			const answer = await examined(stateDirectory, ["--local"]);
			expect(states(answer)).toEqual({ address: "failed" });
			expect(remedyOf(answer, "address")).toContain("bad_configuration");
		});
	});

	// Browsers send a scheme, and no path.
	test.each(["https://app.example.com/", "app.example.com"])(
		"each fault has its line and its remedy (%s)",
		async (cors) => {
			const settings = `BUNDLES_URL: "https://127.0.0.1:9", PUBLIC_URL: "https://other.example.com",
			CORS_ALLOWED_ORIGINS: "${cors}", TELEMETRY_MAX_BYTES: "1000", D1_READS: undefined`;
			const noCache = `Object.defineProperty(globalThis, "caches", { value: undefined });`;
			await served(entry(settings, noCache), async ({ stateDirectory, miniflare }) => {
				const database = await miniflare.getD1Database("DB");
				await database.batch([
					database.prepare("UPDATE d1_migrations SET name = '0000_earlier.sql'"),
					database.prepare(
						"INSERT INTO dead_messages (id, kind, body, sent_at_ms, died_at_ms) VALUES ('a', 'x', '{}', 1, 1)",
					),
					database.prepare(`INSERT INTO job_positions VALUES ('clean_up', '[1]')`),
					database.prepare(
						(await database
							.prepare("SELECT 'DROP TRIGGER ' || name AS text FROM sqlite_master WHERE type = 'trigger' LIMIT 1")
							.first<string>("text")) ?? "",
					),
				]);
				const answer = await examined(stateDirectory, ["--local"]);
				expect(states(answer)).toEqual({
					address: "ok",
					version: "ok",
					"update check": "ok",
					"admin key": "ok",
					clock: "ok",
					queue: "ok",
					schema: "failed",
					bindings: "failed",
					"database size": "failed",
					"dead messages": "failed",
					"clean-up": "warning",
					bucket: "ok",
					triggers: "failed",
					"live bundles": "ok",
					telemetry: "failed",
					"edge cache": "ok",
					"public address": "failed",
					"bundles domain": "failed",
					CORS: "failed",
					webhooks: "ok",
				});
				const remedies = {
					schema: "npm start",
					bindings: "wrangler.toml",
					"database size": "DEVICE_DAYS",
					"dead messages": "npm run dead-messages",
					"clean-up": "npm start",
					"bundles domain": "BUNDLES_URL",
					CORS: "CORS_ALLOWED_ORIGINS",
					triggers: "within 15 minutes",
				};
				for (const [check, remedy] of Object.entries(remedies)) expect(remedyOf(answer, check)).toContain(remedy);
				expect(answer.checks.find(({ check }) => check === "bindings")?.detail).toBe("missing: D1_READS");
			});
		},
	);

	test("without the queues, the missing bindings are named, and everything else is examined", async () => {
		await served(entry("EVENTS: undefined, WEBHOOKS: undefined"), async ({ stateDirectory }) => {
			const answer = await examined(stateDirectory, ["--local"]);
			expect(answer.checks.find(({ check }) => check === "bindings")?.detail).toBe("missing: EVENTS, WEBHOOKS");
			expect(states(answer)).toMatchObject({ bindings: "failed", "admin key": "ok", bucket: "ok", CORS: "ok" });
		});
	});

	test("with a bucket that has none of the bundles, the line says so", async () => {
		await served(entry(""), async ({ stateDirectory, miniflare, url, adminKey }) => {
			const send = async (path: string, body: object) => {
				const headers = { authorization: adminKey ?? "", "content-type": "application/json" };
				return (await fetch(`${url}${path}`, { method: "POST", headers, body: JSON.stringify(body) })).json();
			};
			const [organization] = (await (
				await fetch(`${url}/organization`, { headers: { authorization: adminKey ?? "" } })
			).json()) as { id: string }[];
			await send("/app", { app_id: "com.example.doctor", name: "Doctor", owner_org: organization?.id });
			const bundle = { app_id: "com.example.doctor", version: "1.0.0" };
			const { upload_url: upload } = (await send("/bundle", bundle)) as { upload_url: string };
			const zip = zipSync({ "index.html": strToU8("<h1>1.0.0</h1>") });
			expect((await fetch(upload, { method: "PUT", body: zip })).status).toBe(200);
			expect(states(await examined(stateDirectory, ["--local"])).bucket).toBe("ok");
			const bucket = await miniflare.getR2Bucket("BUNDLES");
			await bucket.delete((await bucket.list()).objects.map(({ key }) => key));
			const emptied = await examined(stateDirectory, ["--local"]);
			expect(states(emptied).bucket).toBe("failed");
			expect(remedyOf(emptied, "bucket")).toContain("bucket_name of BUNDLES");
			expect(emptied.healthy).toBe(false);
		});
	});

	test("a public address that answers with this release is a warning, and any other one fails", async () => {
		await served(entry(`PUBLIC_URL: "${ADDRESS}"`), async ({ stateDirectory, url }) => {
			const options = { fetch: network(url) };
			const moved = await examined(stateDirectory, ["--local"], options);
			expect([states(moved)["public address"], moved.healthy]).toEqual(["warning", true]);
			const stranger: typeof fetch = (input, init) =>
				String(input).startsWith(ADDRESS) ? Promise.resolve(Response.json({ status: "ok" })) : fetch(input, init);
			const keys: unknown[] = [];
			const watching: typeof fetch = (input, init) => {
				if (String(input).startsWith(ADDRESS)) keys.push(new Headers(init?.headers).get("authorization"));
				return stranger(input, init);
			};
			const wrong = await examined(stateDirectory, ["--local"], { fetch: watching });
			expect([states(wrong)["public address"], wrong.healthy, keys]).toEqual(["failed", false, [null]]);
		});
	});

	test("without a cache, every download reads the bucket, and the line reports that", async () => {
		const noCache = `Object.defineProperty(globalThis, "caches", { value: undefined });`;
		await served(entry("", noCache), async ({ stateDirectory }) => {
			const answer = await examined(stateDirectory, ["--local"]);
			expect(states(answer)["edge cache"]).toBe("warning");
			expect(answer.healthy).toBe(true);
		});
	});
});

describe("without anything to examine", () => {
	test.each([
		[[], /address of the deployment is not known[\s\S]*--url/],
		[["--local"], /No local run is known here/],
		[["--fast"], /^Unknown option '--fast'\. See npm run doctor -- --help\.$/],
		[["https://updates.example.com"], /^Unexpected argument 'https:\/\/updates\.example\.com'/],
		[["--url"], /^Option '--url' .*See npm run doctor -- --help/],
	])("%j says what to do", async (argv, message) => {
		const state = await mkdtemp(join(tmpdir(), "capstan-doctor-"));
		await expect(examined(state, argv)).rejects.toThrow(message);
		await rm(state, { recursive: true, force: true });
	});
});
