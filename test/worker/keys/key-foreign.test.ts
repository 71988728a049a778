/**
 * Keys with bindings in another organization, such as a key that created one. Each organization
 * sees the key, removes its bindings there, and learns nothing about the other; neither can leave
 * the key beyond repair.
 */
import { beforeEach, describe, expect, test } from "vitest";
import { DAY_MS } from "../../../src/domain/time";
import { databaseText } from "../support/database-text";
import { readThenWrite } from "../support/interleave";
import { at } from "../support/people";
import { createTestApp, createTestKey, createWorld, type TestKey, type World } from "../support/world";

let home: World;
/** An org_admin key of `home` that created the organization `awayId`. */
let roamer: TestKey;
let awayId: string;
/** A key of that organization without bindings in `home`. */
let awayKey: TestKey;

beforeEach(async () => {
	home = await createWorld();
	roamer = await createTestKey(home, "org_admin", undefined, {
		global_permissions: ["org.create"],
		hashed: false,
		ip_allow_list: ["::/0", "0.0.0.0/0"],
	});
	const created = await as(roamer.text, "PUT", "/organization", { name: "Away" });
	awayId = created.body.id;
	const made = await as(roamer.text, "POST", "/apikey", {
		name: "of away",
		hashed: true,
		bindings: [{ role_name: "org_super_admin", scope_type: "org", org_id: awayId }],
	});
	awayKey = { id: made.body.id, text: made.body.key };
});

const as = (key: string, method: string, path: string, body?: unknown) =>
	home.request(method, path, {
		key,
		headers: { "cf-connecting-ip": "192.0.2.1" },
		...(body === undefined ? {} : { body }),
	});
const seenBy = async (key: string, id = roamer.id, filter = "") => {
	const { body } = await as(key, "GET", `/apikey${filter}`);
	return body.find((listed: { id: string }) => listed.id === id);
};
const orgsOf = (listed: { bindings: { org_id: string }[] }) => listed.bindings.map((binding) => binding.org_id);

describe("an organization in which a foreign key has bindings", () => {
	test("lists the key with the bindings in it, and the home organization sees all bindings", async () => {
		expect(orgsOf(await seenBy(awayKey.text))).toEqual([awayId]);
		expect(orgsOf(await seenBy(awayKey.text, roamer.id, `?org_id=${awayId}`))).toEqual([awayId]);
		expect(await seenBy(awayKey.text, roamer.id, `?org_id=${home.orgId}`)).toMatchObject({ org_id: home.orgId });
		const third = (await as(roamer.text, "PUT", "/organization", { name: "Third" })).body.id;
		expect(orgsOf(await seenBy(roamer.text, roamer.id, `?org_id=${third}`))).toContain(third);
		expect(await seenBy(awayKey.text, roamer.id, `?org_id=${third}`)).toBeUndefined();
		expect(orgsOf(await seenBy(awayKey.text))).toEqual([awayId]);
		expect(orgsOf(await seenBy(home.adminKey)).sort()).toEqual([home.orgId, awayId, third].sort());
		expect(await seenBy(home.adminKey, awayKey.id)).toBeUndefined();
	});

	test("shows the key with org_id, and never its secret", async () => {
		const { status, body } = await as(awayKey.text, "GET", `/apikey/${roamer.id}?org_id=${awayId.toUpperCase()}`);
		expect(status).toBe(200);
		expect(orgsOf(body)).toEqual([awayId]);
		expect((await as(awayKey.text, "GET", `/apikey/${roamer.id}`)).status).toBe(404);
		expect((await as(awayKey.text, "GET", `/apikey/${roamer.id}?org_id=${home.orgId}`)).status).toBe(404);
		for (const key of [awayKey.text, roamer.text]) {
			const revealed = await as(key, "GET", `/apikey/${roamer.id}?org_id=${awayId}&reveal=true`);
			expect(revealed).toMatchObject({ status: 400, body: { moreInfo: { issues: [{ path: "reveal" }] } } });
		}
	});

	test("removes the key's bindings, keeps it in its home organization, and audits that", async () => {
		expect((await as(awayKey.text, "DELETE", `/apikey/${roamer.id}?org_id=${awayId}`)).status).toBe(200);
		expect((await as(roamer.text, "GET", `/organization?orgId=${awayId}`)).status).toBe(404);
		expect((await as(roamer.text, "GET", `/organization?orgId=${home.orgId}`)).status).toBe(200);
		expect(await seenBy(awayKey.text)).toBeUndefined();
		const { body } = await as(awayKey.text, "GET", `/organization/audit?orgId=${awayId}&action=binding.delete`);
		expect(body).toMatchObject([
			{
				actor: { name: "of away" },
				target: { type: "api_key", id: roamer.id, name: "org_admin" },
				before: { org_id: awayId, role_name: "org_super_admin" },
			},
		]);
		expect((await as(awayKey.text, "DELETE", `/apikey/${roamer.id}?org_id=${awayId}`)).status).toBe(404);
	});

	test("removes org.create from the key with its last administering role only", async () => {
		const globals = async () => (await seenBy(home.adminKey)).global_permissions;
		const third = (await as(roamer.text, "PUT", "/organization", { name: "Third" })).body.id;
		const invited = await as(roamer.text, "POST", "/apikey", {
			name: "of third",
			bindings: [{ role_name: "org_super_admin", scope_type: "org", org_id: third }],
		});
		expect((await as(home.adminKey, "PUT", `/apikey/${roamer.id}`, { bindings: [] })).status).toBe(200);
		expect((await as(awayKey.text, "DELETE", `/apikey/${roamer.id}?org_id=${awayId}`)).status).toBe(200);
		expect(await globals()).toEqual(["org.create"]);
		expect((await as(invited.body.key, "DELETE", `/apikey/${roamer.id}?org_id=${third}`)).status).toBe(200);
		expect(await globals()).toEqual([]);
		const { body } = await as(home.adminKey, "GET", `/organization/audit?orgId=${home.orgId}&target=${roamer.id}`);
		expect(body[0]).toMatchObject({ action: "api_key.update", after: { global_permissions: [] } });
	});

	test("cannot remove it with a weaker key, and no key can remove itself", async () => {
		const weak = await as(awayKey.text, "POST", "/apikey", {
			name: "weak",
			bindings: [{ role_name: "org_admin", scope_type: "org", org_id: awayId }],
		});
		expect((await as(weak.body.key, "DELETE", `/apikey/${roamer.id}?org_id=${awayId}`)).status).toBe(403);
		expect(await as(roamer.text, "DELETE", `/apikey/${roamer.id}?org_id=${awayId}`)).toMatchObject({
			status: 409,
			body: { error: "cannot_delete_own_api_key" },
		});
		expect(orgsOf(await seenBy(awayKey.text))).toEqual([awayId]);
	});

	test("is refused if the key has no bindings in it", async () => {
		const other = await createWorld();
		for (const method of ["GET", "DELETE"]) {
			const answer = await other.request(method, `/apikey/${roamer.id}?org_id=${other.orgId}`, { key: other.adminKey });
			expect(answer).toMatchObject({ status: 404, body: { error: "api_key_not_found" } });
		}
	});
});

describe("the home organization of a foreign key", () => {
	test("can regenerate a key that has a binding in a deleted organization", async () => {
		expect((await as(awayKey.text, "DELETE", `/organization?orgId=${awayId}`)).status).toBe(200);
		const rotated = await as(roamer.text, "PUT", `/apikey/${roamer.id}`, { regenerate: true });
		expect(rotated.status).toBe(200);
		// A caller that could not undo the deletion cannot get a secret that could.
		expect((await as(home.adminKey, "PUT", `/apikey/${roamer.id}`, { regenerate: true })).status).toBe(403);
		expect((await as(rotated.body.key, "POST", "/organization/restore", { orgId: awayId })).status).toBe(200);
	});

	test.each([
		["require_apikey_expiration", true, { expires_at: at(DAY_MS) }],
		["max_apikey_expiration_days", 30, { expires_at: at(DAY_MS) }],
		["enforce_hashed_api_keys", true, { regenerate: true, hashed: true }],
	])("lets a key that another organization suspends for %s fix itself", async (policy, value, fix) => {
		const expiring = await as(awayKey.text, "PUT", `/apikey/${awayKey.id}`, { expires_at: at(2 * DAY_MS) });
		expect(expiring.status).toBe(200);
		expect((await as(awayKey.text, "POST", "/organization", { orgId: awayId, [policy]: value })).status).toBe(200);
		expect(await as(roamer.text, "GET", `/organization?orgId=${awayId}`)).toMatchObject({
			status: 401,
			body: { error: "api_key_violates_policy", moreInfo: { policy, org_id: awayId } },
		});
		const { status, body } = await as(roamer.text, "PUT", `/apikey/${roamer.id}`, fix);
		expect(status).toBe(200);
		expect((await as(body.key ?? roamer.text, "GET", `/organization?orgId=${awayId}`)).status).toBe(200);
	});

	test("can restrict the key without holding its rights elsewhere, but cannot extend it", async () => {
		const change = (body: object) => as(home.adminKey, "PUT", `/apikey/${roamer.id}`, body);
		expect((await change({ name: "limited", expires_at: at(DAY_MS), ip_allow_list: ["192.0.2.0/24"] })).status).toBe(
			200,
		);
		expect((await change({ bindings: [] })).status).toBe(200);
		for (const body of [
			{ regenerate: true },
			{ expires_at: at(2 * DAY_MS) },
			{ ip_allow_list: [] },
			{ ip_allow_list: ["198.51.100.0/24"] },
			{ bindings: [{ role_name: "org_member", scope_type: "org", org_id: home.orgId }] },
		]) {
			expect((await change(body)).status, JSON.stringify(body)).toBe(403);
		}
	});

	test("cannot restore org.create by a new administering role after the last one was lost", async () => {
		expect((await as(awayKey.text, "DELETE", `/organization?orgId=${awayId}`)).status).toBe(200);
		expect((await as(home.adminKey, "PUT", `/apikey/${roamer.id}`, { bindings: [] })).status).toBe(200);
		const member = await createTestKey(home, "org_super_admin");
		const again = await as(member.text, "PUT", `/apikey/${roamer.id}`, {
			bindings: [{ role_name: "org_admin", scope_type: "org", org_id: home.orgId }],
		});
		expect([again.status, again.body.global_permissions ?? []]).not.toEqual([200, ["org.create"]]);
	});

	test("does not let a key remove its own administering role because it administers another organization", async () => {
		expect(await as(roamer.text, "PUT", `/apikey/${roamer.id}`, { bindings: [] })).toMatchObject({
			status: 409,
			body: { error: "cannot_delete_own_api_key" },
		});
	});
});

describe("a change between reading and writing", () => {
	test("prevents a weaker caller from regenerating or revoking a key that became stronger", async () => {
		const weak = await createTestKey(home, "org_admin");
		for (const request of [
			{ method: "PUT", body: { body: { regenerate: true } } },
			{ method: "DELETE", body: {} },
		]) {
			const target = await createTestKey(home, "org_admin");
			const bindings = ["org_admin", "org_super_admin"].map((role_name) => ({
				role_name,
				scope_type: "org",
				org_id: home.orgId,
			}));
			const answer = await readThenWrite(
				home,
				(slow) => slow.request(request.method, `/apikey/${target.id}`, { key: weak.text, ...request.body }),
				() => home.request("PUT", `/apikey/${target.id}`, { key: home.adminKey, body: { bindings } }),
			);
			expect(answer, request.method).toMatchObject({ status: 409, body: { error: "api_key_changed" } });
			expect((await home.request("GET", "/apikey", { key: target.text })).status).toBe(200);
		}
	});

	test("prevents a caller from regenerating a key that created an organization where the caller has no rights", async () => {
		const target = await createTestKey(home, "org_admin", undefined, { global_permissions: ["org.create"] });
		const answer = await readThenWrite(
			home,
			(slow) => slow.request("PUT", `/apikey/${target.id}`, { key: home.adminKey, body: { regenerate: true } }),
			() => home.request("PUT", "/organization", { key: target.text, body: { name: "Meanwhile" } }),
		);
		expect(answer).toMatchObject({ status: 409, body: { error: "api_key_changed" } });
	});
	test.each([
		["a new secret", { regenerate: true }],
		["another expiry", { expires_at: at(DAY_MS) }],
		["another address list", { ip_allow_list: ["192.0.2.0/24"] }],
		["a weaker role", "org_member"],
	])("of the caller's key to %s prevents it from creating keys", async (_, body) => {
		const caller = await createTestKey(home, "org_admin");
		const change =
			typeof body === "string" ? { bindings: [{ role_name: body, scope_type: "org", org_id: home.orgId }] } : body;
		const answer = await readThenWrite(
			home,
			(slow) =>
				slow.request("POST", "/apikey", { key: caller.text, query: { org_id: home.orgId }, body: { name: "late" } }),
			() => home.request("PUT", `/apikey/${caller.id}`, { key: home.adminKey, body: change }),
		);
		expect(answer).toMatchObject({ status: 401, body: { error: "invalid_api_key" } });
	});

	test("of a policy that suspends the caller prevents it from revoking and creating keys", async () => {
		const world = await createWorld();
		const hashed = await createTestKey(world, "org_super_admin");
		const plain = await createTestKey(world, "org_super_admin", undefined, { hashed: false });
		for (const [method, path, body] of [
			["DELETE", `/apikey/${hashed.id}`, undefined],
			["POST", "/apikey", { name: "late", hashed: true, bindings: [] }],
		] as const) {
			const policy = (on: boolean) =>
				world.request("POST", "/organization", {
					key: hashed.text,
					body: { orgId: world.orgId, enforce_hashed_api_keys: on },
				});
			const answer = await readThenWrite(
				world,
				(slow) =>
					slow.request(method, path, {
						key: plain.text,
						...(body === undefined ? {} : { body, query: { org_id: world.orgId } }),
					}),
				() => policy(true),
			);
			expect(answer, method).toMatchObject({ status: 409, body: { error: "organization_changed" } });
			expect((await policy(false)).status).toBe(200);
		}
	});

	test("that deletes an app returns 400 for a key with a binding on it, and creates no key", async () => {
		const target = await createTestKey(home, "org_member");
		for (const [method, path] of [
			["POST", "/apikey"],
			["PUT", `/apikey/${target.id}`],
		] as const) {
			const app = await createTestApp(home);
			const bindings = [{ role_name: "app_reader", scope_type: "app", org_id: home.orgId, app_id: app.uuid }];
			const before = (await home.request("GET", "/apikey", { key: home.adminKey })).body;
			const answer = await readThenWrite(
				home,
				(slow) => slow.request(method, path, { key: home.adminKey, body: { name: "for it", bindings } }),
				() => home.request("DELETE", `/app/${app.appId}`, { key: home.adminKey }),
			);
			expect(answer, method).toMatchObject({
				status: 400,
				body: { error: "invalid_request", moreInfo: { issues: [{ path: "bindings" }] } },
			});
			expect((await home.request("GET", "/apikey", { key: home.adminKey })).body).toEqual(before);
		}
	});
});

describe("a change that would violate a policy of another organization in which the key has bindings", () => {
	const change = async (body: unknown, through: Pick<World, "request"> = home) => {
		const headers = { "cf-connecting-ip": "192.0.2.1" };
		const answer = await through.request("PUT", `/apikey/${roamer.id}`, { key: roamer.text, headers, body });
		if (answer.status === 200) roamer = { id: roamer.id, text: answer.body.key ?? roamer.text };
		return answer;
	};
	const policyAway = (body: object) => as(awayKey.text, "POST", "/organization", { orgId: awayId, ...body });
	const works = async () => (await as(roamer.text, "GET", `/organization?orgId=${awayId}`)).status;

	test.each([
		["enforce_hashed_api_keys", true, { regenerate: true, hashed: false }, "hashed_api_key_required"],
		["require_apikey_expiration", true, { expires_at: "never" }, "expiration_required"],
		["max_apikey_expiration_days", 30, { expires_at: at(31 * DAY_MS) }, "expiration_exceeds_max"],
	])("is refused, and the error names %s and the organization", async (policy, value, body, error) => {
		await as(roamer.text, "PUT", `/apikey/${awayKey.id}`, { expires_at: at(20 * DAY_MS) });
		await change({ regenerate: true, hashed: true, expires_at: at(10 * DAY_MS) });
		expect(await policyAway({ [policy]: value })).toMatchObject({ status: 200 });
		expect(await works()).toBe(200);
		const before = await databaseText();
		const refused = await change(body);
		expect(refused).toMatchObject({ status: 400, body: { error, moreInfo: { policy, org_id: awayId } } });
		expect(refused.body.message).toContain(awayId);
		expect(await databaseText()).toBe(before);
		expect(await works()).toBe(200);
		expect(await change({ name: "Renamed", expires_at: at(9 * DAY_MS) })).toMatchObject({ status: 200 });
		const stranger = await as(home.adminKey, "PUT", `/apikey/${roamer.id}`, body);
		expect(stranger, "its policies are revealed to a key without bindings there").toMatchObject({ status: 403 });
	});

	test.each([
		{ enforce_hashed_api_keys: true },
		{ require_apikey_expiration: true },
		{ max_apikey_expiration_days: 30 },
	])("is refused if the policy %j is set at the same time", async (policy) => {
		await as(roamer.text, "PUT", `/apikey/${awayKey.id}`, { expires_at: at(20 * DAY_MS) });
		await change({ regenerate: true, hashed: true, expires_at: at(10 * DAY_MS) });
		const answer = await readThenWrite(
			home,
			(racing) => change({ regenerate: true, hashed: false }, racing),
			() => policyAway(policy),
		);
		expect(answer).toMatchObject({ status: 409, body: { error: "api_key_changed" } });
	});

	test("succeeds if that organization already suspends the key, or is deleted", async () => {
		expect(await policyAway({ enforce_hashed_api_keys: true })).toMatchObject({ status: 200 });
		expect(await works()).toBe(401);
		expect(await change({ regenerate: true, hashed: false })).toMatchObject({ status: 200 });
		await change({ regenerate: true, hashed: true });
		expect(await as(awayKey.text, "DELETE", `/organization?orgId=${awayId}`)).toMatchObject({ status: 200 });
		expect(await change({ regenerate: true, hashed: false })).toMatchObject({ status: 200 });
	});
});
