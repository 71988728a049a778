/**
 * `npm run rotate-secret` against a stand-in for wrangler and the account: what it puts and removes and when, that no run loses a secret that
 * something still needs, and that neither secret is shown or left in a file.
 */
import { mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterEach, beforeEach, expect, test } from "vitest";
import { deploy } from "../../src/cli/deploy";
import { rotateSecret } from "../../src/cli/rotate-secret";
import { parseSecret } from "../../src/domain/secrets";
import type { FakeAccount } from "./support/fake-wrangler";

const PROJECT = fileURLToPath(new URL("../..", import.meta.url));
const FAKE = ["node", "--import", "tsx", join(PROJECT, "test/node/support/fake-wrangler.ts")];
const NOW_MS = Date.UTC(2026, 10, 21, 8);
const DAY_MS = 86_400_000;

let directory: string;
let lines: string[];
const environment = { ...process.env };

const account = async () => JSON.parse(await readFile(join(directory, "account.json"), "utf8")) as FakeAccount;
const setAccount = async (change: Partial<FakeAccount>) =>
	writeFile(join(directory, "account.json"), JSON.stringify({ ...(await account().catch(() => ({}))), ...change }));
const secretNames = async () => (await account()).secrets?.map(({ name }) => name);
const rotate = (nowMs: number, status = false) =>
	rotateSecret({
		wrangler: FAKE,
		stateDirectory: join(directory, "state"),
		status,
		nowMs: () => nowMs,
		say: (line) => lines.push(line),
	});

beforeEach(async () => {
	lines = [];
	directory = await mkdtemp(join(tmpdir(), "capstan-rotation-test-"));
	process.env.FAKE_WRANGLER_DIRECTORY = directory;
	process.env.CLOUDFLARE_API_TOKEN = "no real token";
	delete process.env.CLOUDFLARE_ACCOUNT_ID;
	await setAccount({
		loggedIn: true,
		accounts: [{ id: "acc1", name: "One" }],
		databases: [],
		queues: [],
		realDatabase: true,
	});
	await deploy({
		wrangler: FAKE,
		keyPath: join(directory, "state/admin.key"),
		say: () => undefined,
		showWrangler: false,
	});
});
afterEach(async () => {
	process.env = { ...environment };
	await rm(directory, { recursive: true, force: true });
});

test("adds a secret that signs ten minutes later, and removes the old one eight days after that", async () => {
	await rotate(NOW_MS);
	expect(await secretNames()).toEqual(["CAPSTAN_SECRET", "CAPSTAN_SECRET_2"]);
	const put = JSON.parse(await readFile(join(directory, "secrets.json"), "utf8"));
	expect(Object.keys(put)).toEqual(["CAPSTAN_SECRET_2"]);
	const secret = parseSecret(put.CAPSTAN_SECRET_2);
	expect(secret?.signsFromMs).toBe(NOW_MS + 10 * 60_000);

	for (const soon of [NOW_MS, NOW_MS + 8 * DAY_MS]) await rotate(soon);
	expect(await secretNames()).toEqual(["CAPSTAN_SECRET", "CAPSTAN_SECRET_2"]);
	await rotate(NOW_MS + 9 * DAY_MS);
	expect(await secretNames()).toEqual(["CAPSTAN_SECRET_2"]);

	// The next rotation takes the name that is free.
	await rotate(NOW_MS + 30 * DAY_MS);
	await rotate(NOW_MS + 60 * DAY_MS);
	expect(await secretNames()).toEqual(["CAPSTAN_SECRET"]);

	const shown = lines.join("\n");
	expect(shown).toContain("It signs from 2026-11-21T08:10:00Z on");
	expect(shown).toContain("Removed CAPSTAN_SECRET. CAPSTAN_SECRET_2 is the only secret now.");
	const hex = put.CAPSTAN_SECRET_2.slice(0, 64);
	expect(shown).not.toContain(hex);
	expect((await readdir(tmpdir())).filter((name) => name.startsWith("capstan-rotate-"))).toEqual([]);
	const kept = await Promise.all(
		(await readdir(join(directory, "state"))).map((name) => readFile(join(directory, "state", name), "utf8")),
	);
	expect(kept.join("\n")).not.toContain(hex);
});

test("keeps the old secret while a stored key text needs it", async () => {
	await rotate(NOW_MS);
	const seal = (ciphertext: string) =>
		`UPDATE api_keys SET key_ciphertext = '${ciphertext}'; SELECT count(*) FROM api_keys;`;
	const run = async (sql: string) => {
		const { spawnSync } = await import("node:child_process");
		const { status, stderr } = spawnSync(
			process.execPath,
			[
				...["node_modules/wrangler/bin/wrangler.js", "d1", "execute", "DB", "--local", "--yes"],
				...["--persist-to", join(directory, "database"), "--config", join(directory, "config.json"), "--command", sql],
			],
			{ cwd: PROJECT, encoding: "utf8" },
		);
		expect(status, stderr).toBe(0);
	};
	await run(seal("0badc0de.00"));
	await rotate(NOW_MS + 9 * DAY_MS);
	expect(await secretNames()).toEqual(["CAPSTAN_SECRET", "CAPSTAN_SECRET_2"]);
	expect(lines.join("\n")).toContain("1 stored key texts wait to be sealed again");
	const put = JSON.parse(await readFile(join(directory, "secrets.json"), "utf8"));
	await run(seal(`${parseSecret(put.CAPSTAN_SECRET_2)?.id}.00`));
	await rotate(NOW_MS + 9 * DAY_MS, true);
	expect(lines.at(-1)).toBe("Run npm run rotate-secret to remove CAPSTAN_SECRET.");
	await rotate(NOW_MS + 9 * DAY_MS);
	expect(await secretNames()).toEqual(["CAPSTAN_SECRET_2"]);
});

test("a run that failed before the secret was put is repeated; without its note nothing is removed", async () => {
	await setAccount({ broken: "secret bulk" });
	await expect(rotate(NOW_MS)).rejects.toThrow("`wrangler secret bulk` failed");
	expect(await secretNames()).toEqual(["CAPSTAN_SECRET"]);
	await setAccount({ broken: undefined });
	await rotate(NOW_MS);
	expect(await secretNames()).toHaveLength(2);
	await rm(join(directory, "state/secret-rotation.json"));
	await expect(rotate(NOW_MS + 30 * DAY_MS)).rejects.toThrow("does not say which one is new");
	expect(await secretNames()).toHaveLength(2);
});

test("a deployment beside a rotation makes no third secret; --status of none says so", async () => {
	await rotate(NOW_MS, true);
	expect(lines).toEqual(["One secret is configured (CAPSTAN_SECRET); no rotation is under way."]);
	await rotate(NOW_MS);
	await rotate(NOW_MS + 9 * DAY_MS);
	await deploy({
		wrangler: FAKE,
		keyPath: join(directory, "state/admin.key"),
		say: () => undefined,
		showWrangler: false,
	});
	expect(await secretNames()).toEqual(["CAPSTAN_SECRET_2"]);
});
