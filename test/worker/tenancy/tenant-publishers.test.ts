/**
 * Statements about trusted publishers touch the tenant whose app and organization they name, and
 * nobody else.
 */
import type { CompiledQuery } from "kysely";
import { beforeAll, beforeEach, describe, expect, test } from "vitest";
import { principalStatement } from "../../../src/db/principals";
import {
	candidatePublishers,
	channelsAreOf,
	deletePublisher,
	endPublisherRights,
	insertPublisherChannel,
	publisherMints,
	publisherOfApp,
	publishersPage,
	publisherUnchanged,
	updatePublisher,
} from "../../../src/db/publishers";
import { insertTenants } from "../support/tenant-rows";
import { changesBy, holds, rowsOfAll } from "../support/tenant-statements";
import { A, B, type TenantRows, WRONG_PAIRS } from "../support/tenants";
import { NOW_MS, testEnv } from "../support/world";

const ISSUER = "https://issuer.example.com";
const idOf = ({ name }: TenantRows) => `publisher-${name}`;
const keyOf = ({ name }: TenantRows) => `key-publisher-${name}`;
const hashOf = ({ name }: TenantRows) => `job-of-${name}`;

/** Both tenants trust the same job. */
async function insertPublishers(): Promise<void> {
	await insertTenants();
	await testEnv.DB.batch(
		[A, B].flatMap((of) => [
			testEnv.DB.prepare(
				`INSERT INTO api_keys (id, org_id, user_id, name, key_hash, key_hint, created_at_ms, updated_at_ms) VALUES (?, ?, ?, 'CI', ?, 'CI', 1, 1)`,
			).bind(keyOf(of), of.org, of.user, `nobody-${of.name}`),
			testEnv.DB.prepare(
				`INSERT INTO role_bindings (id, api_key_id, role_name, scope_type, org_id, app_id, created_at_ms)
					VALUES (?, ?, 'app_publisher_upload', 'app', ?, ?, 1)`,
			).bind(`${of.name}-publisher`, keyOf(of), of.org, of.app),
			testEnv.DB.prepare(
				`INSERT INTO publishers (id, app_id, api_key_id, name, provider, issuer, stage, claims, anchor, owner_anchor, created_by,
					created_at_ms, updated_at_ms) VALUES (?, ?, ?, 'Same', 'github', '${ISSUER}', 'upload', '{}', 'id=1', 'owner=1', 'x', 1, 1)`,
			).bind(idOf(of), of.app, keyOf(of)),
			testEnv.DB.prepare(
				"INSERT INTO ci_keys (key_hash, publisher_id, ci, created_at_ms, expires_at_ms) VALUES (?, ?, '{}', 1, ?)",
			).bind(hashOf(of), idOf(of), NOW_MS + 1),
		]),
	);
}

const CHANGES: Readonly<
	Record<
		string,
		readonly [(of: TenantRows, thing: TenantRows) => CompiledQuery | readonly CompiledQuery[], readonly string[]]
	>
> = {
	updatePublisher: [
		(of, thing) => updatePublisher(of.app, idOf(thing), { name: "changed" }),
		["~ publishers publisher-b name=changed"],
	],
	deletePublisher: [
		(of, thing) => deletePublisher(of.org, of.app, idOf(thing)),
		[
			"- api_keys key-publisher-b",
			"- ci_keys job-of-b",
			"- publishers publisher-b",
			"- role_bindings b-publisher",
			"~ organizations org-b api_key_count=3",
		],
	],
	endPublisherRights: [
		(of, thing) => endPublisherRights(of.org, of.app, idOf(thing), true),
		["- ci_keys job-of-b", "- role_bindings b-publisher"],
	],
	"endPublisherRights of jobs only": [
		(of, thing) => endPublisherRights(of.org, of.app, idOf(thing), false),
		["- ci_keys job-of-b"],
	],
};

describe("publishers", () => {
	describe("writes", () => {
		beforeEach(insertPublishers);

		test.each(Object.entries(CHANGES))("%s changes only the tenant's publisher", async (_, [statement, changes]) => {
			for (const [of, thing] of WRONG_PAIRS) expect(await changesBy(statement(of, thing))).toEqual([]);
			expect(await changesBy(statement(B, B))).toEqual(changes);
		});

		test("insertPublisherChannel binds only a channel of the app", async () => {
			const binding = (channel: string) =>
				insertPublisherChannel(
					{
						id: "new",
						keyId: keyOf(B),
						orgId: B.org,
						appId: B.app,
						role: "app_publisher_promote",
						parentId: "b-publisher",
						createdAtMs: 2,
					},
					channel,
				);
			expect(await changesBy(binding("absent"))).toEqual([]);
			expect(await changesBy(binding("beta"))).toEqual(["+ role_bindings org-b app-b 202"]);
		});
	});

	describe("reads", () => {
		beforeAll(insertPublishers);

		test.each<[string, (of: TenantRows, thing: TenantRows) => CompiledQuery]>([
			["publishersPage", (of) => publishersPage(of.publicAppId, 100, 0)],
			["publisherOfApp", (of, thing) => publisherOfApp(of.publicAppId, idOf(thing))],
			["candidatePublishers", (of) => candidatePublishers(ISSUER, ["id=1"], of.publicAppId, 100)],
			["candidatePublishers by owner", (of) => candidatePublishers(ISSUER, ["owner=1"], of.publicAppId, 100)],
		])("%s finds only the tenant's publisher", async (_, statement) => {
			const [rows = []] = await rowsOfAll([statement(B, B)]);
			expect(rows.map(({ id }) => id)).toEqual(["publisher-b"]);
		});

		test("publisherOfApp finds no publisher of another app", async () => {
			expect(await rowsOfAll([publisherOfApp(B.publicAppId, idOf(A))])).toEqual([[]]);
		});

		test("candidatePublishers without an app finds publishers of all tenants", async () => {
			const [rows = [], others = []] = await rowsOfAll([
				candidatePublishers(ISSUER, ["id=1"], undefined, 100),
				candidatePublishers("https://other.example.com", ["id=1"], undefined, 100),
			]);
			expect(rows.map(({ id, org_id, is_anchored }) => [id, org_id, is_anchored])).toEqual([
				["publisher-a", A.org, 1],
				["publisher-b", B.org, 1],
			]);
			expect(others).toEqual([]);
		});

		test("principalStatement finds the tenant's publisher and its roles for a job's key", async () => {
			const [rows = []] = await rowsOfAll([principalStatement(hashOf(B), NOW_MS)]);
			expect(rows).toMatchObject([
				{ id: keyOf(B), org_id: B.org, publisher_id: "publisher-b", secret_is_replaced: 0, expires_at_ms: NOW_MS + 1 },
			]);
			expect(JSON.parse(String(rows[0]?.bindings)).map(({ id }: { id: string }) => id)).toEqual(["b-publisher"]);
		});

		test("guards hold only for the tenant's own publisher and channels", async () => {
			const read = (of: TenantRows) => ({ id: idOf(of), updated_at_ms: 1 });
			expect(await holds(publisherUnchanged(B.app, read(B)))).toBe(true);
			for (const [of, thing] of WRONG_PAIRS) expect(await holds(publisherUnchanged(of.app, read(thing)))).toBe(false);
			expect(await holds(publisherUnchanged(B.app, { ...read(B), updated_at_ms: 2 }))).toBe(false);
			expect(await holds(channelsAreOf(B.app, ["beta", "production"]))).toBe(true);
			expect(await holds(channelsAreOf(B.emptyApp, ["beta"]))).toBe(false);
			expect(await holds(publisherMints(read(B) as never))).toBe(true);
			expect(await holds(publisherMints({ ...read(B), updated_at_ms: 2 } as never))).toBe(false);
		});
	});
});

describe("publisherMints", () => {
	test.each([
		["the app is in another organization", "UPDATE apps SET owner_org = 'org-a' WHERE id = 'app-b'"],
		["the organization is deleted", "UPDATE organizations SET deleted_at_ms = 1 WHERE id = 'org-b'"],
		["the publisher is deleted", "DELETE FROM publishers WHERE id = 'publisher-b'"],
	])("does not hold when %s", async (_, statement) => {
		await insertPublishers();
		await testEnv.DB.prepare(statement).run();
		expect(await holds(publisherMints({ id: idOf(B), updated_at_ms: 1 } as never))).toBe(false);
		const [rows] = await rowsOfAll([candidatePublishers(ISSUER, ["id=1"], B.publicAppId, 100)]);
		expect(rows).toEqual([]);
	});
});
