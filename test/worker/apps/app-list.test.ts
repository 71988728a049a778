/**
 * The list of apps of one organization: the filter, and that it shows nothing of other
 * organizations.
 */
import { describe, expect, test } from "vitest";
import { signIn } from "../support/sessions";
import { createTestApp, createTestKey, createWorld } from "../support/world";

describe("GET /app of one organization", () => {
	test("lists only its apps, to a key and to a person of several organizations", async () => {
		const world = await createWorld();
		const session = await signIn(world);
		const [here, second] = [await createTestApp(world, "here"), await createTestApp(world, "second")];
		const made = await world.request("PUT", "/organization", { headers: session.headers, body: { name: "Other" } });
		const other: string = made.body.id;
		const app_id = `com.example.other.t${crypto.randomUUID().slice(0, 8)}`;
		const created = await world.request("POST", "/app", {
			headers: session.headers,
			body: { app_id, name: "elsewhere", owner_org: other },
		});
		expect(created.status).toBe(201);
		const idsOf = async (query: Record<string, string>, caller: object) => {
			const answer = await world.request("GET", "/app", { query, ...caller });
			expect(answer).toMatchObject({ status: 200, trips: 2 });
			return answer.body.map((row: { app_id: string }) => row.app_id);
		};
		const person = { headers: session.headers };
		expect(await idsOf({}, person)).toEqual([app_id, here.appId, second.appId]);
		expect(await idsOf({ org_id: world.orgId }, person)).toEqual([here.appId, second.appId]);
		expect(await idsOf({ org_id: other.toUpperCase() }, person)).toEqual([app_id]);
		expect(await idsOf({ org_id: world.orgId }, { key: world.adminKey })).toEqual([here.appId, second.appId]);
		const reader = await createTestKey(world, "app_reader", second);
		expect(await idsOf({ org_id: world.orgId }, { key: reader.text })).toEqual([second.appId]);
		// The same answer for another's organization and for an unknown one.
		expect(await idsOf({ org_id: other }, { key: world.adminKey })).toEqual([]);
		expect(await idsOf({ org_id: crypto.randomUUID() }, { key: world.adminKey })).toEqual([]);
		expect(await idsOf({ org_id: world.orgId, page: "1" }, person)).toEqual([]);
	});

	test("needs an organization's id", async () => {
		const world = await createWorld();
		const answer = await world.request("GET", "/app", { key: world.adminKey, query: { org_id: "mine" } });
		expect(answer).toMatchObject({ status: 400, body: { moreInfo: { issues: [{ path: "org_id" }] } } });
	});
});
