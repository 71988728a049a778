/**
 * Statements that find the target of a request, and values that a write reads in its batch: each
 * finds the rows of its tenant and no others.
 */
import { type CompiledQuery, sql } from "kysely";
import { beforeAll, describe, expect, test } from "vitest";
import type { AppId } from "../../../src/authz/decide";
import { auditedAppNow, EVERYTHING_AUDITED } from "../../../src/db/apps";
import { wholeChannelNow } from "../../../src/db/audit/channels";
import { bundleIdNamed } from "../../../src/db/bundles";
import { channelIdNamed } from "../../../src/db/channels";
import { openDb, query } from "../../../src/db/client";
import { emailOf } from "../../../src/db/members";
import { readNamed } from "../../../src/db/named-reads";
import { conflict } from "../../../src/db/optimistic";
import { sketchesFit } from "../../../src/db/statistics";
import { promoteBundle } from "../../../src/features/bundles/promote";
import { deleteChannel } from "../../../src/features/channels/delete";
import type { AnyEndpoint } from "../../../src/http/endpoint";
import { appScope, channelOrAppScope, channelScope, orgScope, type RawInput } from "../../../src/http/scope";
import { insertTenants } from "../support/tenant-rows";
import { expectReads, type Read, type Row, readValue, rowsOfAll } from "../support/tenant-statements";
import { A, B, CROSSED, DAY, otherThan, type TenantRows } from "../support/tenants";
import { testEnv } from "../support/world";

/** The statement of a scope, for a request with this body. */
function scoped(
	source: { statement: (raw: RawInput) => CompiledQuery | undefined },
	body: (of: TenantRows) => Row,
): (of: TenantRows) => CompiledQuery {
	return (of) => {
		const statement = source.statement({ params: {}, query: {}, body: body(of), headers: new Headers() });
		if (statement === undefined) throw new Error("the request names no target");
		return statement;
	};
}

const scopeRow = (of: TenantRows, rest: Row = {}): Row => ({
	id: of.app,
	app_id: of.publicAppId,
	owner_org: of.org,
	...rest,
});

const SCOPES: Readonly<Record<string, Read>> = {
	orgScope: [scoped(orgScope("body.org"), ({ org }) => ({ org })), (of) => [{ id: of.org }]],
	"orgScope of a deleted organization": [
		scoped(orgScope("body.org"), ({ deletedOrg }) => ({ org: deletedOrg })),
		() => [],
	],
	"orgScope among deleted organizations": [
		scoped(orgScope("body.org", true), ({ deletedOrg }) => ({ org: deletedOrg })),
		(of) => [{ id: of.deletedOrg }],
	],
	"orgScope among deleted organizations for one that is not deleted": [
		scoped(orgScope("body.org", true), ({ org }) => ({ org })),
		() => [],
	],
	appScope: [scoped(appScope("body.app"), ({ publicAppId }) => ({ app: publicAppId })), (of) => [scopeRow(of)]],
	"channelScope by name": [
		scoped(channelScope("body.app", { name: "body.name" }), (of) => ({ app: of.publicAppId, name: "beta" })),
		(of) => [scopeRow(of, { channel_id: of.beta })],
	],
	"channelScope by id": [
		scoped(channelScope("body.app", { id: "body.id" }), (of) => ({ app: of.publicAppId, id: of.beta })),
		(of) => [scopeRow(of, { channel_id: of.beta })],
	],
	"channelScope by the id of another tenant's channel": [
		scoped(channelScope("body.app", { id: "body.id" }), (of) => ({ app: of.publicAppId, id: otherThan(of).beta })),
		(of) => [scopeRow(of, { channel_id: null })],
	],
	channelOrAppScope: [
		scoped(channelOrAppScope("body.app", { name: "body.name" }), (of) => ({ app: of.publicAppId, name: "absent" })),
		(of) => [scopeRow(of, { channel_id: null })],
	],
};

beforeAll(insertTenants);

describe("targets of requests", () => {
	test.each(Object.entries(SCOPES))("%s returns only the tenant's rows", (_, read) => expectReads(read));
});

describe("values that a write reads in its batch", () => {
	test.each([A, B])("bundleIdNamed and channelIdNamed find the app's own ids, for tenant $name", async (of) => {
		expect(await readValue(bundleIdNamed(of.app, "1.0.0"))).toBe(`${of.stable}`);
		expect(await readValue(bundleIdNamed(of.app, "1.1.0"))).toBe(`${of.next}`);
		expect(await readValue(channelIdNamed(of.app, "beta"))).toBe(`${of.beta}`);
		expect(await readValue(channelIdNamed(of.app, "production"))).toBe(`${of.channel}`);
		expect(await readValue(emailOf(of.user))).toBe(of.email);
	});

	/** The rows that an endpoint loads besides those of the authorization, for this input. */
	const loadedBy = (endpoint: AnyEndpoint, input: object): Promise<Readonly<Record<string, readonly unknown[]>>> =>
		readNamed(openDb(testEnv.DB, "first-primary"), endpoint.load?.(input as never, 0, "") ?? {});

	test.each([A, B])("promoteBundle and deleteChannel load only the app's own rows, for tenant $name", async (of) => {
		const other = otherThan(of);
		const promoted = async (channel_id: number) => {
			const body = { app_id: of.publicAppId, version_id: of.next, channel_id };
			return (await loadedBy(promoteBundle, { body })).channel;
		};
		expect(await promoted(of.channel)).toMatchObject([{ name: "production", version_id: of.stable }]);
		expect(await promoted(other.channel)).toEqual([]);
		const pointTo = (version: number) =>
			sql`UPDATE channels SET version_id = ${version} WHERE id = ${CROSSED.channel}`.compile(query);
		await rowsOfAll([pointTo(of.stable)]);
		const named = { app_id: of.publicAppId, channel: "production" };
		const { bundles } = await loadedBy(deleteChannel, { query: named });
		expect(bundles).toMatchObject([
			{ id: of.stable, other_channels: null },
			{ id: of.next, other_channels: null },
		]);
		await rowsOfAll([pointTo(A.unused)]);
	});

	test.each([A, B])("auditedAppNow describes only the named app, for tenant $name", async (of) => {
		const [own, empty] = [
			await readValue(auditedAppNow(of.app, EVERYTHING_AUDITED)),
			await readValue(auditedAppNow(of.emptyApp, EVERYTHING_AUDITED)),
		];
		expect(JSON.parse(String(own))).toMatchObject({ channel_count: 2, bundle_count: 4 });
		expect(JSON.parse(String(empty))).toMatchObject({ channel_count: 0, bundle_count: 0 });
		expect(await readValue(auditedAppNow("absent" as AppId, EVERYTHING_AUDITED))).toBe(null);
	});

	test.each([A, B])(
		"wholeChannelNow describes only the named channel and its bundles, for tenant $name",
		async (of) => {
			const [own, others] = [
				await readValue(wholeChannelNow(of.app, of.beta)),
				await readValue(wholeChannelNow(of.app, otherThan(of).channel)),
			];
			expect(JSON.parse(String(own))).toMatchObject({ public: false, version: null, rolloutVersion: null });
			expect(others).toBe(null);
			const serving = await readValue(wholeChannelNow(of.app, of.channel));
			expect(JSON.parse(String(serving))).toMatchObject({ public: true, version: "1.0.0", rolloutVersion: "1.1.0" });
		},
	);

	test("sketchesFit counts only the sketches of the named apps and days", async () => {
		const doTheyFit = async (of: TenantRows, lastDay: number) => {
			return rowsOfAll([sketchesFit([of.app], { firstDay: DAY, lastDay }, conflict)]).then(
				() => true,
				() => false,
			);
		};
		await rowsOfAll([
			sql`INSERT INTO device_sketches (app_id, day, kind, version_name, slot, sketch, revision)
				SELECT ${A.app}, ${DAY} + value, 'all', '', 0, hex(zeroblob(950000)), 1 FROM json_each('[2,3,4,5,6,7,8,9,10,11,12,13,14,15]')`.compile(
				query,
			),
		]);
		try {
			expect(await doTheyFit(B, DAY + 15)).toBe(true);
			expect(await doTheyFit(A, DAY + 1)).toBe(true);
			expect(await doTheyFit(A, DAY + 15)).toBe(false);
		} finally {
			await rowsOfAll([sql`DELETE FROM device_sketches WHERE day > ${DAY + 1}`.compile(query)]);
		}
	});
});
