/**
 * The operator's command for ids of deleted apps: it lists them with their organizations, including
 * removed ones, and releases one, in upper or lower case.
 */
import type { D1Database } from "@cloudflare/workers-types";
import { convertV4MiniflareOptions, Miniflare } from "miniflare";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { runAppIds } from "../../src/operator/app-ids";
import type { Execute } from "../../src/operator/dead-messages";
import { migrate } from "../../src/operator/migrate";
import { sqlText } from "../../src/operator/sql-text";

let miniflare: Miniflare;
let database: D1Database;
beforeAll(async () => {
	miniflare = new Miniflare(
		convertV4MiniflareOptions({ modules: true, script: "export default {}", d1Databases: ["DB"] }),
	);
	database = (await miniflare.getD1Database("DB")) as unknown as D1Database;
	await migrate(database);
	await database.batch(
		[
			"INSERT INTO users (id, email, created_at_ms) VALUES ('user', 'a@example.com', 1)",
			"INSERT INTO organizations (id, name, created_by, created_at_ms, updated_at_ms) VALUES ('org', 'Agency', 'user', 1, 1)",
		].map((statement) => database.prepare(statement)),
	);
});
afterAll(async () => {
	await miniflare?.dispose();
});
beforeEach(async () => {
	await database.batch([
		database.prepare("DELETE FROM app_reservations"),
		database.prepare(
			"INSERT INTO app_reservations (app_id, org_id, reserved_at_ms) VALUES ('com.example.Old', 'org', 1), ('com.example.gone', 'removed', 1)",
		),
	]);
});

async function run(...argv: readonly string[]): Promise<string[]> {
	const lines: string[] = [];
	const execute: Execute = async <Row>(statement: Parameters<Execute>[0]) =>
		(await database.prepare(sqlText([statement])).all<Row>()).results;
	await runAppIds({ argv, execute: async () => execute, print: (line) => lines.push(line) });
	return lines;
}

describe("npm run app-ids", () => {
	test("lists the reserved ids with their organizations", async () => {
		expect(await run()).toEqual(["com.example.gone  removed organization (removed)", "com.example.Old  Agency (org)"]);
	});

	test("releases one id, and reports ids that are not reserved", async () => {
		expect(await run("release", "COM.example.gone")).toEqual(["Any organization can now use COM.example.gone."]);
		expect(await run()).toEqual(["com.example.Old  Agency (org)"]);
		await expect(run("release", "com.example.gone")).rejects.toThrow("is not reserved");
	});

	test.each([[["release"]], [["release", "a.b", "c.d"]], [["drop", "a.b"]], [["list", "a.b"]]])(
		"refuses %j and names its help",
		async (argv) => {
			await expect(run(...argv)).rejects.toThrow("npm run app-ids -- --help");
			expect(await run()).toHaveLength(2);
		},
	);
});
