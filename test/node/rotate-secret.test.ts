/**
 * `npm run rotate-secret` against a wrangler and an account of the test: what it adds and removes
 * and when, that no run loses a secret that something still needs, and that neither secret is shown
 * or left in a file.
 */
import { readdir, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { D1Database } from "@cloudflare/workers-types";
import { beforeEach, expect, test } from "vitest";
import { parseSecret } from "../../src/domain/secrets";
import { DAY_MS } from "../../src/domain/time";
import { rotateSecret } from "../../src/operator/rotate-secret";
import { fakeAccountScene } from "./support/fake-account";

const NOW_MS = Date.UTC(2026, 10, 21, 8);

const scene = fakeAccountScene();
let directory: string;
let database: D1Database;
let lines: string[];
const secretNames = () => scene.account().secrets?.map(({ name }) => name);
const rotate = (nowMs: number, status = false) =>
	rotateSecret({
		wrangler: scene.wrangler(),
		deployment: scene.deployment(),
		status,
		nowMs: () => nowMs,
		print: (line) => lines.push(line),
	});

beforeEach(async () => {
	lines = [];
	directory = scene.directory();
	database = await scene.openDatabase();
	await scene.deploy();
});

test("adds a secret that signs ten minutes later, and removes the old one eight days after that", async () => {
	await rotate(NOW_MS);
	expect(secretNames()).toEqual(["CAPSTAN_SECRET", "CAPSTAN_SECRET_2"]);
	const put = JSON.parse(await readFile(join(directory, "secrets.json"), "utf8"));
	expect(Object.keys(put)).toEqual(["CAPSTAN_SECRET_2"]);
	const secret = parseSecret(put.CAPSTAN_SECRET_2);
	expect(secret?.signsFromMs).toBe(NOW_MS + 10 * 60_000);

	for (const soon of [NOW_MS, NOW_MS + 8 * DAY_MS]) await rotate(soon);
	expect(secretNames()).toEqual(["CAPSTAN_SECRET", "CAPSTAN_SECRET_2"]);
	await rotate(NOW_MS + 9 * DAY_MS);
	expect(secretNames()).toEqual(["CAPSTAN_SECRET_2"]);

	// The next rotation takes the free name.
	await rotate(NOW_MS + 30 * DAY_MS);
	await rotate(NOW_MS + 60 * DAY_MS);
	expect(secretNames()).toEqual(["CAPSTAN_SECRET"]);

	const shown = lines.join("\n");
	expect(shown).toContain("It signs from 2026-11-21T08:10:00Z on");
	expect(shown).toContain("Removed CAPSTAN_SECRET. CAPSTAN_SECRET_2 is now the only secret.");
	const hex = put.CAPSTAN_SECRET_2.slice(0, 64);
	expect(shown).not.toContain(hex);
	expect((await readdir(tmpdir())).filter((name) => name.startsWith("capstan-rotate-"))).toEqual([]);
	const kept = await Promise.all(
		(await readdir(join(directory, "state"))).map((name) => readFile(join(directory, "state", name), "utf8")),
	);
	expect(kept.join("\n")).not.toContain(hex);
});

test("keeps the old secret while a stored key needs it", async () => {
	await rotate(NOW_MS);
	const seal = (ciphertext: string) =>
		database.prepare("UPDATE api_keys SET key_ciphertext = ?").bind(ciphertext).run();
	await seal("0badc0de.00");
	await rotate(NOW_MS + 9 * DAY_MS);
	expect(secretNames()).toEqual(["CAPSTAN_SECRET", "CAPSTAN_SECRET_2"]);
	expect(lines.join("\n")).toContain("Stored keys to seal again: 1.");
	const put = JSON.parse(await readFile(join(directory, "secrets.json"), "utf8"));
	await seal(`${parseSecret(put.CAPSTAN_SECRET_2)?.id}.00`);
	await rotate(NOW_MS + 9 * DAY_MS, true);
	expect(lines.at(-1)).toBe("Run npm run rotate-secret to remove CAPSTAN_SECRET.");
	await rotate(NOW_MS + 9 * DAY_MS);
	expect(secretNames()).toEqual(["CAPSTAN_SECRET_2"]);
});

test("repeats a run that failed before it stored the secret, and removes nothing without its state file", async () => {
	scene.setAccount({ broken: "secret bulk" });
	await expect(rotate(NOW_MS)).rejects.toThrow("`wrangler secret bulk` failed");
	expect(secretNames()).toEqual(["CAPSTAN_SECRET"]);
	scene.setAccount({ broken: undefined });
	await rotate(NOW_MS);
	expect(secretNames()).toHaveLength(2);
	await rm(join(directory, "state/secret-rotation.json"));
	await expect(rotate(NOW_MS + 30 * DAY_MS)).rejects.toThrow("does not say which one is new");
	expect(secretNames()).toHaveLength(2);
});

test("a deployment during a rotation creates no third secret, and --status reports when there is none", async () => {
	await rotate(NOW_MS, true);
	expect(lines).toEqual(["One secret is configured (CAPSTAN_SECRET). No rotation is in progress."]);
	await rotate(NOW_MS);
	await rotate(NOW_MS + 9 * DAY_MS);
	await scene.deploy();
	expect(secretNames()).toEqual(["CAPSTAN_SECRET_2"]);
});
