/**
 * `npm run deploy` against a program in the place of wrangler and the account: which commands run
 * in which order, what a second run and a run after a failure do, and that neither the secret nor
 * the key is ever lost or shown. The database is held open by the test. In test:proof the first
 * deployment goes through the installed wrangler into a local D1, and the later ones work on what
 * it wrote.
 */
import { spawn } from "node:child_process";
import { readdir, readFile, rm, stat } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { hashKey } from "../../src/authz/secrets";
import { deploymentSteps } from "../../src/operator/deploy";
import { PROJECT_DIRECTORY } from "../../src/operator/project";
import { literal, sqlText } from "../../src/operator/sql-text";
import { RESOLVED_CONFIG } from "../../src/operator/wrangler";
import { IS_PROOF } from "../proof-sample";
import { DATABASE_ID, fakeAccountScene, TELEMETRY_ID } from "./support/fake-account";

const scene = fakeAccountScene();
const { deploy: runDeploy, setAccount } = scene;
const keptKey = async () => (await readFile(join(scene.directory(), "state/deployed-admin.key"), "utf8")).trimEnd();

/** The calls since the last read, without values that differ between runs. */
function calls(): string[] {
	return scene.takeCalls().map((command) =>
		command
			.map((word, index) => (command[index - 1] === "--command" ? word.split(" ")[0] : word))
			.filter((_, index) => !/^--(config|file|secrets-file)$/.test(command[index - 1] ?? ""))
			.join(" "),
	);
}

const LOOK = "d1 execute DB --remote --yes --json --config --command SELECT";
const WRITE = "d1 execute DB --remote --yes --json --config --command insert";

describe("npm run deploy", () => {
	test("creates what is missing in order; a second run changes nothing but the Worker", async () => {
		const directory = scene.directory();
		const keyPath = join(directory, "state/deployed-admin.key");
		if (IS_PROOF) setAccount({ database: "wrangler" });
		else await scene.openDatabase();
		const first = await runDeploy();
		expect(calls()).toEqual([
			"whoami --json",
			"d1 list --json",
			"deployments status --name capstan --json",
			"r2 bucket info capstan-bundles --json",
			"queues info capstan-events",
			"queues info capstan-webhooks",
			"queues info capstan-events-dead",
			"r2 bucket create capstan-bundles",
			"d1 create capstan",
			"d1 list --json",
			"d1 create capstan-telemetry",
			"d1 list --json",
			"queues create capstan-events",
			"queues create capstan-webhooks",
			"queues create capstan-events-dead",
			"d1 migrations apply DB --remote --config",
			"d1 migrations apply TELEMETRY --remote --config",
			"secret list --name capstan --format json",
			"deploy --config --secrets-file",
			LOOK,
			WRITE,
			LOOK,
		]);
		const key = await keptKey();
		expect(first).toEqual({
			url: "https://capstan.example.workers.dev",
			key: { state: "created", text: key },
			signInToken: expect.stringMatching(/^sil_\w{38}$/),
			notice: undefined,
		});
		expect((await stat(keyPath)).mode & 0o777).toBe(0o600);
		const config = JSON.parse(await readFile(join(directory, "config.json"), "utf8"));
		expect(config.d1_databases).toMatchObject([
			{ binding: "DB", database_id: DATABASE_ID },
			{ binding: "TELEMETRY", database_id: TELEMETRY_ID },
		]);
		expect(JSON.parse(await readFile(join(directory, "secrets.json"), "utf8"))).toEqual({
			CAPSTAN_SECRET: expect.stringMatching(/^[0-9a-f]{64}$/),
		});
		const rows = await readFile(join(directory, "rows.sql"), "utf8");
		expect(rows).toContain(hashKey(key));
		expect(rows).not.toContain(key);
		expect(rows).toContain(hashKey(first?.signInToken ?? ""));
		expect(rows).not.toContain(first?.signInToken);

		if (IS_PROOF) await scene.openDatabase("wrangler");
		expect(await runDeploy()).toEqual({ ...first, key: { state: "kept", text: key }, signInToken: undefined });
		expect(calls()).toEqual([
			"whoami --json",
			"d1 list --json",
			"deployments status --name capstan --json",
			"versions view running --name capstan --json",
			LOOK,
			LOOK,
			LOOK.replace("DB", "TELEMETRY"),
			LOOK.replace("DB", "TELEMETRY"),
			"r2 bucket info capstan-bundles --json",
			"queues info capstan-events",
			"queues info capstan-webhooks",
			"queues info capstan-events-dead",
			"d1 migrations apply DB --remote --config",
			"d1 migrations apply TELEMETRY --remote --config",
			"secret list --name capstan --format json",
			"deploy --config",
			LOOK,
		]);
		expect(await keptKey()).toBe(key);

		const linked = await runDeploy({ signInLink: true });
		expect(linked?.signInToken).not.toBe(first?.signInToken);
		expect(await readFile(join(directory, "rows.sql"), "utf8")).toContain(hashKey(linked?.signInToken ?? ""));

		await expect(runDeploy({ signInLinkFor: "nobody@example.com" })).rejects.toThrow("No account has the address");
		expect((await runDeploy({ signInLinkFor: "admin@capstan.local" }))?.signInToken).toMatch(/^sil_/);

		await rm(keyPath);
		expect(await runDeploy()).toMatchObject({ key: { state: "elsewhere" } });
		const replaced = await runDeploy({ newAdminKey: true });
		expect(replaced).toMatchObject({ key: { state: "created", text: await keptKey() } });
		expect(replaced?.key).not.toMatchObject({ text: key });
	});

	test("a deployment that stopped after the key was written continues with that key", async () => {
		setAccount({ broken: "insert into" });
		await expect(runDeploy()).rejects.toThrow("`wrangler d1 execute` failed");
		const key = await keptKey();
		setAccount({ broken: undefined });
		expect((await runDeploy())?.key).toEqual({ state: "created", text: key });
		expect(await readFile(join(scene.directory(), "rows.sql"), "utf8")).toContain(hashKey(key));
	});

	test("refuses databases of a development build in one sentence, before anything changes", async () => {
		setAccount({
			databases: [
				{ name: "capstan", uuid: DATABASE_ID },
				{ name: "capstan-telemetry", uuid: TELEMETRY_ID },
			],
		});
		const database = await scene.openDatabase();
		for (const each of [database, scene.account().telemetry])
			await each?.prepare("UPDATE d1_migrations SET name = '0001_first_schema.sql'").run();
		const held = { database: undefined, telemetry: undefined };
		const account = structuredClone({ ...scene.account(), ...held });
		await expect(runDeploy()).rejects.toThrow(
			/^Nothing was deployed, because a development build created the database capstan and the database capstan-telemetry, [^.]* --name=NAME\.$/,
		);
		expect(calls()).toEqual([
			"whoami --json",
			"d1 list --json",
			"deployments status --name capstan --json",
			LOOK,
			LOOK,
			LOOK.replace("DB", "TELEMETRY"),
			LOOK.replace("DB", "TELEMETRY"),
			"r2 bucket info capstan-bundles --json",
			"queues info capstan-events",
			"queues info capstan-webhooks",
			"queues info capstan-events-dead",
		]);
		expect({ ...scene.account(), ...held }).toEqual(account);
		setAccount({ broken: "d1_migrations" });
		await expect(runDeploy(), "a failure is never taken for an absence").rejects.toThrow(
			"`wrangler d1 execute` failed",
		);
		setAccount({ broken: undefined });
		expect(scene.account()).toMatchObject({ buckets: [], queues: [] });
		// One that a deployment created and did not migrate is used.
		for (const each of [database, scene.account().telemetry]) await each?.prepare("DROP TABLE d1_migrations").run();
		expect(await runDeploy()).toMatchObject({ key: { state: "created" } });
	});

	test.each([
		["r2 bucket", "r2 bucket create"],
		["d1 list", "d1 create"],
		["queues info", "queues create"],
		["deployments status", "d1 create"],
		["secret list", "deploy --"],
	])("a failure of `%s` is never taken for an absence", async (broken, next) => {
		setAccount({ broken });
		await expect(runDeploy()).rejects.toThrow(`\`wrangler ${broken}\` failed`);
		expect(calls().filter((call) => call.startsWith(next))).toEqual([]);
	});

	test("without a login, and with several accounts, it names the variable to set", async () => {
		setAccount({ loggedIn: false });
		await expect(runDeploy()).rejects.toThrow("CLOUDFLARE_API_TOKEN");
		setAccount({
			loggedIn: true,
			accounts: [
				{ id: "acc1", name: "One" },
				{ id: "acc2", name: "Two" },
			],
		});
		await expect(runDeploy()).rejects.toThrow("acc1 (One), acc2 (Two); set CLOUDFLARE_ACCOUNT_ID");
	});

	test("--location places a new database and a new bucket; without it the output names their permanent location", async () => {
		const lines: string[] = [];
		await runDeploy({ location: "weur", print: (line) => lines.push(line) });
		expect(calls()).toEqual(
			expect.arrayContaining([
				"r2 bucket create capstan-bundles --location weur",
				"d1 create capstan --location weur",
				"d1 create capstan-telemetry --location weur",
			]),
		);
		expect(lines).toContain("  The database was created in weur.");
		expect(lines).toContain("  The database capstan-telemetry was created in weur.");
		setAccount({ databases: [], buckets: [], bindings: undefined });
		await runDeploy({ print: (line) => lines.push(line) });
		expect(calls().filter((call) => call.includes("--location"))).toEqual([]);
		expect(lines.at(-1)).not.toContain("created near");
		for (const resource of ["bucket", "database"]) {
			expect(lines.some((line) => line.includes(`The ${resource} was created near this machine, for good.`))).toBe(
				true,
			);
		}
		lines.length = 0;
		await runDeploy({ location: "oc", print: (line) => lines.push(line) });
		expect(lines.join("\n")).not.toContain("was created");
	});

	test.each([
		[{ hasR2: false }, "https://dash.cloudflare.com/?to=/:account/r2/overview", "d1 create capstan"],
		[{ hasSubdomain: false }, "https://dash.cloudflare.com/?to=/:account/workers/onboarding", LOOK],
	])(
		"for a new account with %j the error has the page to open, and the next run continues",
		async (missing, address, notRun) => {
			setAccount(missing);
			await expect(runDeploy()).rejects.toThrow(address);
			expect(calls()).not.toContain(notRun);
			setAccount({ hasR2: true, hasSubdomain: true });
			expect(await runDeploy()).toMatchObject({ key: { state: "created" } });
		},
	);

	test("the database is never imported to, and the SQL fits the command line of every system", async () => {
		await scene.openDatabase();
		await runDeploy();
		await runDeploy({ newAdminKey: true });
		await runDeploy({ signInLink: true });
		const commands = scene.takeCalls();
		expect(commands.filter((command) => command.includes("--file"))).toEqual([]);
		// Windows: 32,767 characters.
		expect(Math.max(...commands.map((command) => command.join(" ").length))).toBeLessThan(30_000);
	});

	test("leaves no secret behind in the temporary directory", async () => {
		const directory = scene.directory();
		process.env.TMPDIR = directory;
		setAccount({ broken: "insert into" });
		await expect(runDeploy()).rejects.toThrow();
		expect(await readdir(directory)).toContain("secrets.json");
		expect((await readdir(directory)).filter((name) => name.startsWith("capstan-deploy-"))).toEqual([]);
	});
});

describe("npm run deploy -- --dry-run", () => {
	let output = "";
	let code: number | null;
	beforeAll(async () => {
		const child = spawn(process.execPath, ["--import", "tsx", "src/operator/deploy.ts", "--dry-run"], {
			cwd: PROJECT_DIRECTORY,
			stdio: ["ignore", "pipe", "pipe"],
		});
		for (const stream of [child.stdout, child.stderr]) stream.on("data", (chunk) => (output += chunk));
		code = await new Promise((resolve) => child.on("close", resolve));
	});
	afterAll(() => rm(RESOLVED_CONFIG, { force: true }));

	test("shows every step and builds the Worker with the real wrangler, without an account", () => {
		expect(code, output).toBe(0);
		const steps = deploymentSteps("capstan", {
			databases: [
				{ binding: "DB", name: "capstan", id: undefined },
				{ binding: "TELEMETRY", name: "capstan-telemetry", id: undefined },
			],
			bucketName: "capstan-bundles",
			queues: ["capstan-events"],
			consumedQueues: [],
		});
		for (const { title } of Object.values(steps)) expect(output).toContain(title);
		expect(output).toContain("wrangler d1 migrations apply DB --remote");
		expect(output).toContain("wrangler d1 migrations apply TELEMETRY --remote");
		expect(output).toContain("--dry-run: exiting now.");
		expect(output).toContain("env.EVENTS (capstan-events)");
	});
});

describe("SQL text", () => {
	test("values become literals, and text in quotes stays unchanged", () => {
		expect(sqlText([{ sql: "SELECT ?, '? it''s', \"?\", ?", parameters: ["it's; --", null] }])).toBe(
			"SELECT 'it''s; --', '? it''s', \"?\", NULL;\n",
		);
		expect([literal(3), literal("a")]).toEqual(["3", "'a'"]);
		for (const value of [undefined, Number.NaN, 1n, "a\0b", {}]) expect(() => literal(value)).toThrow(TypeError);
		expect(() => sqlText([{ sql: "SELECT ?", parameters: [1, 2] }])).toThrow("1 places for 2 values");
	});
});
