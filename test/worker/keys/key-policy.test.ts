/**
 * The three policies of an organization on API keys, enforced at creation, at change and at every
 * use on every endpoint; and the addresses that a key is limited to.
 */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { brokenPolicy, type KeyPolicy } from "../../../src/domain/key-policy";
import { firstRangeOutside, isInRanges, normalizedRange } from "../../../src/domain/network/ip-allow-list";
import { DAY_MS } from "../../../src/domain/time";
import { allEndpoints } from "../../../src/endpoints";
import { databaseText } from "../support/database-text";
import { at } from "../support/people";
import { REQUESTS } from "../support/requests";
import { createTestApp, createTestKey, createWorld, NOW_MS, testEnv, type World } from "../support/world";

/** Sets policies in the database, because the API refuses to lock out the last administrator. */
async function setPolicy(world: World, policy: Record<string, number | null>): Promise<void> {
	const columns = Object.keys(policy);
	await testEnv.DB.prepare(`UPDATE organizations SET ${columns.map((name) => `${name} = ?`).join(", ")} WHERE id = ?`)
		.bind(...Object.values(policy), world.orgId)
		.run();
}

const FREE: KeyPolicy = { enforceHashed: false, requireExpiration: false, maxExpirationDays: null };

describe("brokenPolicy", () => {
	test.each<[string, KeyPolicy, boolean, number | null, string | undefined]>([
		["no policy allows every key", FREE, false, null, undefined],
		["a plain key is none that is hashed", { ...FREE, enforceHashed: true }, false, null, "enforce_hashed_api_keys"],
		["a hashed key is", { ...FREE, enforceHashed: true }, true, null, undefined],
		["never is no expiry", { ...FREE, requireExpiration: true }, true, null, "require_apikey_expiration"],
		["any expiry is one", { ...FREE, requireExpiration: true }, true, NOW_MS + 9999 * DAY_MS, undefined],
		["never is further than any limit", { ...FREE, maxExpirationDays: 365 }, true, null, "max_apikey_expiration_days"],
		["the limit itself is within", { ...FREE, maxExpirationDays: 30 }, true, NOW_MS + 30 * DAY_MS, undefined],
		[
			"a millisecond more is not",
			{ ...FREE, maxExpirationDays: 30 },
			true,
			NOW_MS + 30 * DAY_MS + 1,
			"max_apikey_expiration_days",
		],
	])("%s", (_, policy, hashed, expiresAtMs, broken) => {
		expect(brokenPolicy(policy, { hashed, expiresAtMs }, NOW_MS)).toBe(broken);
	});

	test("never rejects an allowed key as time passes", () => {
		fc.assert(
			fc.property(fc.integer({ min: 1, max: 365 }), fc.nat(), fc.nat(), (maxExpirationDays, lifeMs, laterMs) => {
				const policy = { ...FREE, maxExpirationDays };
				const key = { hashed: true, expiresAtMs: NOW_MS + lifeMs };
				fc.pre(brokenPolicy(policy, key, NOW_MS) === undefined);
				expect(brokenPolicy(policy, key, NOW_MS + laterMs)).toBe(undefined);
			}),
		);
	});
});

describe("POST and PUT /apikey", () => {
	test.each<[Record<string, number>, Record<string, unknown>, string]>([
		[{ enforce_hashed_api_keys: 1 }, { hashed: false }, "hashed_api_key_required"],
		[{ require_apikey_expiration: 1 }, { hashed: true }, "expiration_required"],
		[{ max_apikey_expiration_days: 7 }, { hashed: true }, "expiration_exceeds_max"],
		[{ max_apikey_expiration_days: 7 }, { hashed: true, expires_at: at(7 * DAY_MS + 1) }, "expiration_exceeds_max"],
	])("under %j and for a key with %j return 400 %s and create nothing", async (policy, body, code) => {
		const world = await createWorld();
		const admin = await createTestKey(world, "org_super_admin", undefined, { expires_at: at(DAY_MS) });
		await setPolicy(world, policy);
		const create = (more: object) =>
			world.request("POST", "/apikey", {
				key: admin.text,
				query: { org_id: world.orgId },
				body: { name: "new", ...more },
			});
		const before = await databaseText();
		expect(await create(body)).toMatchObject({ status: 400, body: { error: code } });
		expect(await databaseText()).toBe(before);
		expect((await create({ hashed: true, expires_at: at(DAY_MS) })).status).toBe(201);
	});

	test("leave no key in violation of a policy, for any change", async () => {
		const world = await createWorld();
		const admin = await createTestKey(world, "org_super_admin", undefined, { expires_at: at(DAY_MS) });
		const eternal = await createTestKey(world, "org_member", undefined, { hashed: false });
		await setPolicy(world, { max_apikey_expiration_days: 7, enforce_hashed_api_keys: 1 });
		const change = (body: object) => world.request("PUT", `/apikey/${eternal.id}`, { key: admin.text, body });
		for (const body of [{ name: "x" }, { regenerate: true, expires_at: at(DAY_MS) }]) {
			expect(await change(body)).toMatchObject({ status: 400, body: { error: "hashed_api_key_required" } });
		}
		for (const expiry of [{}, { expires_at: "never" }, { expires_at: at(8 * DAY_MS) }]) {
			expect(await change({ regenerate: true, hashed: true, ...expiry })).toMatchObject({
				status: 400,
				body: { error: "expiration_exceeds_max" },
			});
		}
		// A suspended key can be restricted, if the new values meet the policy.
		expect((await change({ expires_at: at(8 * DAY_MS) })).body.error).toBe("expiration_exceeds_max");
		expect((await change({ expires_at: at(6 * DAY_MS), bindings: [] })).status).toBe(200);
		expect((await world.request("GET", "/app", { key: eternal.text })).status).toBe(401);
		const fixed = await change({ regenerate: true, hashed: true, expires_at: at(7 * DAY_MS) });
		expect(fixed.status).toBe(200);
		expect((await world.request("GET", "/app", { key: fixed.body.key })).status).toBe(200);
	});
});

describe("a key that violates a policy", () => {
	test("gets 401 on every endpoint that accepts keys, and changes nothing", async () => {
		const world = await createWorld();
		const app = await createTestApp(world);
		const plain = await createTestKey(world, "org_super_admin", undefined, { hashed: false });
		const guarded = allEndpoints.filter(({ access }) => !("public" in access || "ownSession" in access));
		expect(guarded.length).toBeGreaterThan(40);
		const prepared = [];
		for (const { method, path } of guarded) {
			const name = `${method} ${path}`;
			prepared.push({ name, method, request: (await REQUESTS[name]?.(world, app)) ?? { path: "" } });
		}
		await setPolicy(world, { enforce_hashed_api_keys: 1 });
		const before = await databaseText();
		for (const { name, method, request } of prepared) {
			const { path, ...options } = request;
			const answer = await world.request(method, path, { ...options, key: plain.text });
			expect(answer, name).toMatchObject({
				status: 401,
				body: {
					error: "api_key_violates_policy",
					moreInfo: { policy: "enforce_hashed_api_keys", org_id: world.orgId },
				},
			});
		}
		expect(await databaseText(), "a refused request changed something").toBe(before);
		await setPolicy(world, { enforce_hashed_api_keys: 0 });
		expect((await world.request("GET", "/app", { key: plain.text })).status).toBe(200);
	});

	test.each<[Record<string, number>, string]>([
		[{ require_apikey_expiration: 1 }, "require_apikey_expiration"],
		[{ max_apikey_expiration_days: 30 }, "max_apikey_expiration_days"],
	])("of %j is suspended, and no other key is", async (policy, broken) => {
		const world = await createWorld();
		const fine = await createTestKey(world, "org_member", undefined, { expires_at: at(DAY_MS) });
		const stopped = await createTestKey(world, "org_member");
		await setPolicy(world, policy);
		expect(await world.request("GET", "/app", { key: stopped.text })).toMatchObject({
			status: 401,
			body: { error: "api_key_violates_policy", moreInfo: { policy: broken } },
		});
		expect((await world.request("GET", "/app", { key: fine.text })).status).toBe(200);
		expect((await world.request("GET", "/app", { key: world.adminKey })).status).toBe(401);
	});

	test("of another organization in which it has bindings is suspended there", async () => {
		const home = await createWorld();
		const away = await createWorld();
		const app = await createTestApp(away);
		const key = await createTestKey(home, "org_admin", undefined, { hashed: false });
		await testEnv.DB.prepare(
			"INSERT INTO role_bindings (id, api_key_id, role_name, scope_type, org_id, created_at_ms) VALUES (?, ?, 'org_admin', 'org', ?, 0)",
		)
			.bind(crypto.randomUUID(), key.id, away.orgId)
			.run();
		const seen = async () => {
			const list = await away.request("GET", "/organization", { key: key.text });
			return list.body.map((row: { id: string }) => row.id).sort();
		};
		expect(await seen()).toEqual([home.orgId, away.orgId].sort());
		await setPolicy(away, { enforce_hashed_api_keys: 1 });
		expect(await seen()).toEqual([home.orgId]);
		expect((await away.request("GET", "/app", { key: key.text })).body).toEqual([]);
		for (const [method, path] of [
			["GET", `/app/${app.appId}`],
			["DELETE", `/app/${app.appId}`],
		] as const) {
			expect(await away.request(method, path, { key: key.text })).toMatchObject({
				status: 401,
				body: { error: "api_key_violates_policy", moreInfo: { org_id: away.orgId } },
			});
		}
		expect((await home.request("GET", "/apikey", { key: key.text })).status).toBe(200);
	});
});

describe("an ip_allow_list", () => {
	test.each([
		["192.0.2.7", "192.0.2.7/32"],
		["192.0.2.7/24", "192.0.2.0/24"],
		["10.1.2.3/12", "10.0.0.0/12"],
		["0.0.0.0/0", "0.0.0.0/0"],
		["2001:DB8::1", "2001:db8::1/128"],
		["2001:db8:ffff::/33", "2001:db8:8000::/33"],
		["::ffff:192.0.2.1", "192.0.2.1/32"],
		["::ffff:192.0.2.1/120", "192.0.2.0/24"],
	])("stores %s as %s", (text, kept) => {
		expect(normalizedRange(text)).toBe(kept);
		expect(normalizedRange(kept)).toBe(kept);
	});

	test.each([
		"",
		"x",
		"192.0.2",
		"192.0.2.256",
		"192.0.2.0/33",
		"192.0.2.0/-1",
		"192.0.2.0/",
		"192.0.2.0/8/8",
		"0x7f.1",
		"010.0.0.1",
		"2001:db8::/129",
		"fe80::1%eth0",
		"::ffff:192.0.2.1/80",
		"*",
	])("refuses %j", (text) => {
		expect(normalizedRange(text)).toBe(undefined);
	});

	test("contains exactly the addresses of its ranges, and no unknown address", () => {
		const ranges = ["192.0.2.0/24", "2001:db8::/32"];
		for (const inside of ["192.0.2.0", "192.0.2.255", "::ffff:192.0.2.9", "2001:db8:ffff::1"]) {
			expect(isInRanges(ranges, inside), inside).toBe(true);
		}
		for (const outside of ["192.0.3.0", "192.0.1.255", "2001:db9::", "unknown", "", null]) {
			expect(isInRanges(ranges, outside), String(outside)).toBe(false);
		}
		expect(isInRanges([], "192.0.2.1")).toBe(false);
		expect(isInRanges(["not a range", "192.0.2.0/24"], "192.0.2.1")).toBe(true);
		expect(isInRanges(["not a range"], "192.0.2.1")).toBe(false);
	});

	test("is within another if each of its ranges is", () => {
		expect(firstRangeOutside(["192.0.2.0/25", "192.0.2.7/32"], ["192.0.2.0/24"])).toBe(undefined);
		expect(firstRangeOutside(["192.0.2.0/23"], ["192.0.2.0/24"])).toBe("192.0.2.0/23");
		expect(firstRangeOutside(["::/0"], ["0.0.0.0/0"])).toBe("::/0");
		expect(firstRangeOutside(["192.0.2.0/25"], ["not a range", "192.0.2.0/24"])).toBe(undefined);
		expect(firstRangeOutside(["192.0.2.0/25"], ["not a range"])).toBe("192.0.2.0/25");
	});

	test("allows a key from its ranges only, for reads and writes, and the error does not reveal the list", async () => {
		const world = await createWorld();
		const key = await createTestKey(world, "org_admin", undefined, { ip_allow_list: ["192.0.2.7/24", "192.0.2.1/24"] });
		const from = (address: string | undefined, method = "GET") =>
			world.request(method, "/app", {
				key: key.text,
				...(method === "GET" ? {} : { body: {} }),
				headers: address === undefined ? {} : { "cf-connecting-ip": address },
			});
		expect((await from("192.0.2.200")).status).toBe(200);
		expect((await from("192.0.2.200", "POST")).status).toBe(400);
		for (const address of ["198.51.100.1", "2001:db8::1", undefined]) {
			for (const method of ["GET", "POST"]) {
				const answer = await from(address, method);
				expect(answer).toMatchObject({ status: 403, body: { error: "ip_address_not_allowed" } });
				expect(JSON.stringify(answer.body)).not.toContain("192.0.2.0");
			}
		}
		const spoofed = await world.request("GET", "/app", {
			key: key.text,
			headers: { "cf-connecting-ip": "198.51.100.1", "x-forwarded-for": "192.0.2.1", "x-real-ip": "192.0.2.1" },
		});
		expect(spoofed.status).toBe(403);
		const shown = await world.request("GET", `/apikey/${key.id}`, { key: world.adminKey });
		expect(shown.body.ip_allow_list).toEqual(["192.0.2.0/24"]);
	});

	test("of a caller is inherited, and can be narrowed but not widened, by creation, change, regeneration or reveal", async () => {
		const world = await createWorld();
		const limited = await createTestKey(world, "org_admin", undefined, { ip_allow_list: ["192.0.2.0/24"] });
		const as = (method: string, path: string, body?: object, query?: Record<string, string>) =>
			world.request(method, path, {
				key: limited.text,
				headers: { "cf-connecting-ip": "192.0.2.1" },
				...(body === undefined ? {} : { body }),
				...(query === undefined ? {} : { query }),
			});
		const create = (more: object) => as("POST", "/apikey", { name: "x", ...more }, { org_id: world.orgId });
		const refused = { status: 403, body: { moreInfo: { field: "ip_allow_list" } } };
		expect((await create({})).body.ip_allow_list).toEqual(["192.0.2.0/24"]);
		expect((await create({ ip_allow_list: ["192.0.2.128/25"] })).status).toBe(201);
		expect(await create({ ip_allow_list: ["192.0.2.0/24", "198.51.100.1"] })).toMatchObject(refused);
		expect(await create({ ip_allow_list: [] })).toMatchObject(refused);
		expect(await as("PUT", `/apikey/${limited.id}`, { ip_allow_list: [] })).toMatchObject(refused);
		const free = await createTestKey(world, "org_member", undefined, { hashed: false });
		expect(await as("PUT", `/apikey/${free.id}`, { regenerate: true })).toMatchObject(refused);
		expect(await as("GET", `/apikey/${free.id}`, undefined, { reveal: "true" })).toMatchObject(refused);
		expect((await as("PUT", `/apikey/${free.id}`, { name: "renamed" })).status).toBe(200);
	});
});
