/**
 * `npm run deploy` against a stand-in for wrangler and the account: which commands run in which order, what a second run and a run after
 * a failure do, and that neither the secret nor the key is ever lost or shown. Migrations and rows go into a real local D1.
 */
import { spawn } from "node:child_process";
import { mkdtemp, readdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { hashKey } from "../../src/authz/keys";
import { type DeployOptions, deploy, deploymentSteps } from "../../src/cli/deploy";
import { literal, sqlText } from "../../src/cli/sql-text";
import { RESOLVED_CONFIG } from "../../src/cli/wrangler";
import type { FakeAccount } from "./support/fake-wrangler";

const PROJECT = fileURLToPath(new URL("../..", import.meta.url));
const FAKE = ["node", "--import", "tsx", join(PROJECT, "test/node/support/fake-wrangler.ts")];

let directory: string;
let keyPath: string;
const environment = { ...process.env };

async function setAccount(change: Partial<FakeAccount>): Promise<void> {
	const path = join(directory, "account.json");
	const before = JSON.parse(await readFile(path, "utf8").catch(() => "{}"));
	await writeFile(path, JSON.stringify({ ...before, ...change }));
}

const runDeploy = (options: Partial<DeployOptions> = {}) =>
	deploy({ wrangler: FAKE, keyPath, say: () => undefined, showWrangler: false, ...options });

/** The calls since the last look, without what differs from run to run. */
async function calls(): Promise<string[]> {
	const path = join(directory, "calls.ndjson");
	const lines = (await readFile(path, "utf8")).trim().split("\n");
	await writeFile(path, "");
	return lines
		.map((line) => JSON.parse(line) as string[])
		.map((command) =>
			command.filter((_, index) => !/^--(config|command|file|secrets-file)$/.test(command[index - 1] ?? "")).join(" "),
		);
}

beforeEach(async () => {
	directory = await mkdtemp(join(tmpdir(), "capstan-deploy-test-"));
	keyPath = join(directory, "state/deployed-admin.key");
	process.env.FAKE_WRANGLER_DIRECTORY = directory;
	delete process.env.CLOUDFLARE_ACCOUNT_ID;
	process.env.CLOUDFLARE_API_TOKEN = "no real token";
	await setAccount({
		loggedIn: true,
		accounts: [{ id: "acc1", name: "One" }],
		databases: [],
		queues: [],
		realDatabase: false,
	});
});
afterEach(async () => {
	process.env = { ...environment };
	await rm(directory, { recursive: true, force: true });
});

const LOOK = "d1 execute DB --remote --yes --json --config --command";
const WRITE = "d1 execute DB --remote --yes --json --config --file";

describe("npm run deploy", () => {
	test("creates what is missing in order; a second run changes nothing but the Worker", async () => {
		await setAccount({ realDatabase: true });
		const first = await runDeploy();
		expect(await calls()).toEqual([
			"whoami --json",
			"d1 list --json",
			"d1 create capstan",
			"d1 list --json",
			"queues info capstan-events",
			"queues create capstan-events",
			"queues info capstan-events-dead",
			"queues create capstan-events-dead",
			"d1 migrations apply DB --remote --config",
			"secret list --format json",
			"deploy --config --secrets-file",
			LOOK,
			WRITE,
			LOOK,
		]);
		const key = (await readFile(keyPath, "utf8")).trimEnd();
		expect(first).toEqual({
			url: "https://capstan.example.workers.dev",
			key: { state: "created", text: key },
			signInToken: expect.stringMatching(/^sil_\w{38}$/),
			notice: undefined,
		});
		expect((await stat(keyPath)).mode & 0o777).toBe(0o600);
		const config = JSON.parse(await readFile(join(directory, "config.json"), "utf8"));
		expect(config.d1_databases[0].database_id).toBe("0d1e2f3a-0000-4000-8000-000000000001");
		expect(JSON.parse(await readFile(join(directory, "secrets.json"), "utf8"))).toEqual({
			CAPSTAN_SECRET: expect.stringMatching(/^[0-9a-f]{64}$/),
		});
		const rows = await readFile(join(directory, "rows.sql"), "utf8");
		expect(rows).toContain(hashKey(key));
		expect(rows).not.toContain(key);
		expect(rows).toContain(hashKey(first?.signInToken ?? ""));
		expect(rows).not.toContain(first?.signInToken);

		expect(await runDeploy()).toEqual({ ...first, key: { state: "kept", text: key }, signInToken: undefined });
		expect(await calls()).toEqual([
			"whoami --json",
			"d1 list --json",
			"queues info capstan-events",
			"queues info capstan-events-dead",
			"d1 migrations apply DB --remote --config",
			"secret list --format json",
			"deploy --config",
			LOOK,
		]);
		expect((await readFile(keyPath, "utf8")).trimEnd()).toBe(key);

		const linked = await runDeploy({ signInLink: true });
		expect(linked?.signInToken).not.toBe(first?.signInToken);
		expect(await readFile(join(directory, "rows.sql"), "utf8")).toContain(hashKey(linked?.signInToken ?? ""));

		await expect(runDeploy({ signInLinkFor: "nobody@example.com" })).rejects.toThrow("No account has the address");
		expect((await runDeploy({ signInLinkFor: "admin@capstan.local" }))?.signInToken).toMatch(/^sil_/);

		await rm(keyPath);
		expect(await runDeploy()).toMatchObject({ key: { state: "elsewhere" } });
		const replaced = await runDeploy({ newAdminKey: true });
		expect(replaced).toMatchObject({ key: { state: "created", text: (await readFile(keyPath, "utf8")).trimEnd() } });
		expect(replaced?.key).not.toMatchObject({ text: key });
	});

	test("a deployment that stopped after the key was written goes on with that key", async () => {
		await setAccount({ broken: "--file" });
		await expect(runDeploy()).rejects.toThrow("`wrangler d1 execute` failed");
		const key = (await readFile(keyPath, "utf8")).trimEnd();
		await setAccount({ broken: undefined });
		expect((await runDeploy())?.key).toEqual({ state: "created", text: key });
		expect(await readFile(join(directory, "rows.sql"), "utf8")).toContain(hashKey(key));
	});

	test.each([
		["d1 list", "d1 create"],
		["queues info", "queues create"],
		["secret list", "deploy"],
	])("a failure of `%s` is never taken for an absence", async (broken, next) => {
		await setAccount({ broken });
		await expect(runDeploy()).rejects.toThrow(`\`wrangler ${broken}\` failed`);
		expect((await calls()).filter((call) => call.startsWith(next))).toEqual([]);
	});

	test("without a login, and with several accounts, it says what to set", async () => {
		await setAccount({ loggedIn: false });
		await expect(runDeploy()).rejects.toThrow("CLOUDFLARE_API_TOKEN");
		await setAccount({
			loggedIn: true,
			accounts: [
				{ id: "acc1", name: "One" },
				{ id: "acc2", name: "Two" },
			],
		});
		await expect(runDeploy()).rejects.toThrow("acc1 (One), acc2 (Two); set CLOUDFLARE_ACCOUNT_ID");
	});

	test("leaves no secret behind in the temporary directory", async () => {
		process.env.TMPDIR = directory;
		await setAccount({ broken: "--file" });
		await expect(runDeploy()).rejects.toThrow();
		expect(await readdir(directory)).toContain("secrets.json");
		expect((await readdir(directory)).filter((name) => name.startsWith("capstan-deploy-"))).toEqual([]);
	});
});

describe("npm run deploy -- --dry-run", () => {
	let output = "";
	let code: number | null;
	beforeAll(async () => {
		const child = spawn(process.execPath, ["--import", "tsx", "src/cli/deploy.ts", "--dry-run"], {
			cwd: PROJECT,
			stdio: ["ignore", "pipe", "pipe"],
		});
		for (const stream of [child.stdout, child.stderr]) stream.on("data", (chunk) => (output += chunk));
		code = await new Promise((resolve) => child.on("close", resolve));
	});
	afterAll(() => rm(RESOLVED_CONFIG, { force: true }));

	test("shows every step and builds the Worker with the real wrangler, without an account", () => {
		expect(code, output).toBe(0);
		const steps = deploymentSteps({ databaseName: "capstan", databaseId: undefined, queues: ["capstan-events"] });
		for (const { title } of Object.values(steps)) expect(output).toContain(title);
		expect(output).toContain("wrangler d1 migrations apply DB --remote");
		expect(output).toContain("--dry-run: exiting now.");
		expect(output).toContain("env.EVENTS (capstan-events)");
	});
});

describe("SQL text", () => {
	test("values become literals, and what stands in quotes stays", () => {
		expect(sqlText([{ sql: "SELECT ?, '? it''s', \"?\", ?", parameters: ["it's; --", null] }])).toBe(
			"SELECT 'it''s; --', '? it''s', \"?\", NULL;\n",
		);
		expect([literal(3), literal("a")]).toEqual(["3", "'a'"]);
		for (const value of [undefined, Number.NaN, 1n, "a\0b", {}]) expect(() => literal(value)).toThrow(TypeError);
		expect(() => sqlText([{ sql: "SELECT ?", parameters: [1, 2] }])).toThrow("1 places for 2 values");
	});
});
