/**
 * Coverage of authorization beyond statuses (authorization.test.ts has those): for every endpoint of the list, what each kind of
 * stranger is told, word for word, and that no refusal leaves a trace in any table. Requests come from support/requests.ts.
 */
import { beforeAll, describe, expect, test } from "vitest";
import { type AnyEndpoint, permissionsOf } from "../../src/api/endpoint";
import { allEndpoints } from "../../src/app";
import { mintKey } from "../../src/authz/keys";
import { GLOBAL_PERMISSIONS, PERMISSIONS, ROLE_NAMES, ROLES, type RoleName } from "../../src/authz/permissions";
import { paths as documentedPaths } from "../../src/docs/openapi.json";
import { databaseText, tableNames } from "./support/database-text";
import { type PreparedRequest, REQUESTS } from "./support/requests";
import { type Answer, createTestApp, createTestKey, createWorld, type TestApp, type World } from "./support/world";

const keyOf = (endpoint: { method: string; path: string }) => `${endpoint.method} ${endpoint.path}`;
const endpoints: readonly AnyEndpoint[] = allEndpoints;
const guarded = endpoints.filter((endpoint) => !("public" in endpoint.access));
const named = guarded.map((endpoint) => [keyOf(endpoint), endpoint] as const);

/** It may do what belongs to no organization. */
const ADMINISTRATOR_ELSEWHERE = "a key of another organization";

let world: World;
let app: TestApp;
/** Keys that must get a 401, with its code. */
let unauthenticated: readonly (readonly [who: string, key: string | undefined, code: string])[];
/** Keys that are good and have nothing to do with the app. */
let strangers: readonly (readonly [who: string, key: string])[];

/** The codes that openapi.json lists for a status. */
function documentedCodes({ method, path }: AnyEndpoint, status: number): readonly string[] {
	const paths: Record<string, Record<string, { responses: Record<string, { description: string }> }>> = documentedPaths;
	const item = paths[path.replace(/\{.+?\}$/, "").replace(/:(\w+)/g, "{$1}")];
	const text = item?.[method.toLowerCase()]?.responses[status]?.description ?? "";
	return [...text.matchAll(/`(\w+)`/g)].map(([, code = ""]) => code);
}

const send = (method: string, { path, ...options }: PreparedRequest, key?: string) =>
	world.request(method, path, { ...options, key });

interface Prepared {
	readonly request: PreparedRequest;
	/** The same request about things that are not there. */
	readonly absent: PreparedRequest;
}

async function prepare(endpoint: AnyEndpoint, given?: TestApp): Promise<Prepared> {
	const deletesApp = keyOf(endpoint) === "DELETE /app/:app_id";
	const target = given ?? (deletesApp ? await createTestApp(world, "doomed") : app);
	const request = await REQUESTS[keyOf(endpoint)]?.(world, target);
	if (request === undefined) throw new Error(`add ${keyOf(endpoint)} to test/worker/support/requests.ts`);
	return { request, absent: absentOf(request, target) };
}

const UUID = /[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}/g;

function absentOf(request: PreparedRequest, target: TestApp): PreparedRequest {
	const ids = new Map<string, string>([[target.appId, "com.example.absent"]]);
	const renamed = (text: string) =>
		text.replaceAll(target.appId, "com.example.absent").replace(UUID, (id) => {
			ids.set(id, ids.get(id) ?? crypto.randomUUID());
			return ids.get(id) ?? "";
		});
	const { headers, rawBody, ...rest } = request;
	const metadata = headers?.["upload-metadata"];
	return {
		...JSON.parse(renamed(JSON.stringify(rest))),
		...(rawBody === undefined ? {} : { rawBody }),
		...(headers === undefined ? {} : { headers }),
		...(metadata === undefined
			? {}
			: {
					headers: { ...headers, "upload-metadata": `filename ${btoa(renamed(atob(metadata.split(" ")[1] ?? "")))}` },
				}),
	};
}

/** All of an answer that its receiver can see, but for what differs each time. */
function visible(answer: Answer<Record<string, unknown>>) {
	const { requestId: _, ...body } = answer.body;
	const headers = [...answer.headers].filter(([name]) => name !== "x-request-id");
	return { status: answer.status, headers, body: Array.isArray(answer.body) ? answer.body : body };
}

beforeAll(async () => {
	world = await createWorld();
	app = await createTestApp(world);
	const elsewhere = await createWorld();
	const sibling = await createTestApp(world, "sibling");
	const expired = await createTestKey(world, "org_super_admin", undefined, { expires_at: "2026-11-21T08:00:00.001Z" });
	const revoked = await createTestKey(world, "org_super_admin");
	await world.request("DELETE", `/apikey/${revoked.id}`, { key: world.adminKey });
	world.clock.nowMs += 1;
	const bare = await world.request("POST", "/apikey", {
		key: world.adminKey,
		query: { org_id: world.orgId },
		body: { name: "no bindings", hashed: true },
	});
	unauthenticated = [
		["no key", undefined, "missing_api_key"],
		["a malformed key", "cap_nonsense", "invalid_api_key"],
		["an unknown key", mintKey(world.deps.randomBytes).text, "invalid_api_key"],
		["a revoked key", revoked.text, "invalid_api_key"],
		["an expired key", expired.text, "expired_api_key"],
	];
	strangers = [
		[ADMINISTRATOR_ELSEWHERE, elsewhere.adminKey],
		["a key of a sibling app", (await createTestKey(world, "app_admin", sibling)).text],
		["a key without bindings", bare.body.key],
	];
});

describe("a refusal", () => {
	test("would be seen: the text of the database changes with a single row, and no table is left out", async () => {
		expect(await tableNames()).toEqual(expect.arrayContaining(["api_keys", "apps", "audit_log", "role_bindings"]));
		expect((await tableNames()).length).toBeGreaterThanOrEqual(12);
		const before = await databaseText();
		expect(await databaseText()).toBe(before);
		await createTestApp(world, "one-row");
		expect(await databaseText()).not.toBe(before);
	});

	test.each(named)("of %s says which kind of key is missing, and changes nothing", async (_, endpoint) => {
		const { request } = await prepare(endpoint);
		for (const [who, key, code] of unauthenticated) {
			const before = await databaseText();
			const answer = await send(endpoint.method, request, key);
			expect(answer, who).toMatchObject({ status: 401, body: { error: code, moreInfo: {} } });
			expect(documentedCodes(endpoint, 401), "openapi.json does not tell").toContain(code);
			expect(await databaseText(), `${who} changed something`).toBe(before);
		}
		const allowed = await send(endpoint.method, request, world.adminKey);
		expect(allowed.status, JSON.stringify(allowed.body)).toBeLessThan(300);
	});

	test.each(named)(
		"of %s tells a stranger what it would tell of something that does not exist",
		async (_, endpoint) => {
			const target = endpoint.method === "DELETE" ? await createTestApp(world, "doomed") : app;
			const { request, absent } = await prepare(endpoint, target);
			// Nobody is a stranger to what belongs to no organization; whoever lacks the permission is told so.
			const global = "globalPermission" in endpoint.access;
			for (const [who, key] of strangers) {
				if (global && who === ADMINISTRATOR_ELSEWHERE) continue;
				const before = await databaseText();
				const answer = await send(endpoint.method, request, key);
				expect(await databaseText(), `${who} changed something`).toBe(before);
				// 403 is for those who know the organization from a binding of their own; everyone else must learn nothing.
				if (answer.status === 403) {
					expect(answer.body.moreInfo, who).toMatchObject({ scope: global ? "global" : "org" });
					continue;
				}
				if (!("anyKey" in endpoint.access)) expect(answer.status, who).toBe(404);
				if (answer.status === 404) {
					expect(documentedCodes(endpoint, 404), "openapi.json does not tell").toContain(answer.body.error);
				}
				expect(visible(answer), who).toEqual(visible(await send(endpoint.method, absent, key)));
			}
			const allowed = await send(endpoint.method, request, world.adminKey);
			expect(allowed.status, JSON.stringify(allowed.body)).toBeLessThan(300);
			expect(visible(await send(endpoint.method, absent, world.adminKey)).status, "the absent is not absent").toSatisfy(
				(status: number) => status === 404 || "anyKey" in endpoint.access || global,
			);
		},
	);

	/** One for each role; an app that a request deletes is made anew. */
	const holders = new Map<string, { readonly app: TestApp; readonly key: string }>();

	async function holderOf(
		role: RoleName,
		forDeletion: boolean,
	): Promise<{ readonly app: TestApp; readonly key: string }> {
		const known = forDeletion ? undefined : holders.get(role);
		if (known !== undefined) return known;
		const own = await createTestApp(world, "of-role");
		const key = await createTestKey(world, role, ROLES[role].scopeType === "app" ? own : undefined);
		const holder = { app: own, key: key.text };
		if (!forDeletion) holders.set(role, holder);
		return holder;
	}

	test.each(named)("of %s to a role that lacks a permission names it, and changes nothing", async (_, endpoint) => {
		for (const role of ROLE_NAMES.filter((name) => ROLES[name].assignable)) {
			const { app: target, key } = await holderOf(role, keyOf(endpoint) === "DELETE /app/:app_id");
			const { request } = await prepare(endpoint, target);
			const before = await databaseText();
			const answer = await send(endpoint.method, request, key);
			const needed = permissionsOf(endpoint.access);
			const lacksAll = needed.length > 0 && !needed.some((permission) => ROLES[role].permissions.includes(permission));
			if (lacksAll) expect(answer.status, role).toBeGreaterThanOrEqual(403);
			if (answer.status < 400) continue;
			expect(await databaseText(), `${role} changed something`).toBe(before);
			expect([403, 404], `${role}: ${JSON.stringify(answer.body)}`).toContain(answer.status);
			expect(documentedCodes(endpoint, answer.status), "openapi.json does not tell").toContain(answer.body.error);
			if (answer.status === 404) continue;
			expect(answer.body.error, role).toBe("permission_denied");
			expect([...PERMISSIONS, ...GLOBAL_PERMISSIONS], role).toContain(answer.body.moreInfo.permission);
			expect(answer.body.moreInfo, role).toHaveProperty("scope");
		}
	});
});

describe("no way around", () => {
	test("HEAD asks for the same key as GET", async () => {
		for (const endpoint of guarded.filter(({ method }) => method === "GET")) {
			const { request } = await prepare(endpoint);
			for (const [who, key] of unauthenticated) {
				expect((await send("HEAD", request, key)).status, `${keyOf(endpoint)} with ${who}`).toBe(401);
			}
		}
	});

	test("every method that a path does not declare is 405 with the ones that it does, before any key is read", async () => {
		const declared = Map.groupBy(endpoints, (endpoint) => endpoint.path);
		let refused = 0;
		for (const [path, ofPath] of declared) {
			const methods: readonly string[] = ofPath.map((endpoint) => endpoint.method);
			const concrete = path.replace(/:\w+(\{.+?\})?/g, "x");
			for (const method of ["GET", "POST", "PUT", "PATCH", "DELETE"].filter((name) => !methods.includes(name))) {
				const answer = await send(method, { path: concrete });
				expect(answer, `${method} ${path}`).toMatchObject({ status: 405, body: { error: "method_not_allowed" } });
				const allowed = answer.headers.get("allow")?.split(", ") ?? [];
				expect(allowed, `${method} ${path}`).toEqual(expect.arrayContaining([...methods]));
				expect(allowed, `${method} ${path}`).not.toContain(method);
				refused += 1;
			}
		}
		expect(refused).toBeGreaterThan(100);
	});

	test("a public endpoint says why it needs no key, one for any key how its answer is limited", () => {
		for (const { access, ...endpoint } of endpoints) {
			const reason = "public" in access ? access.public : "anyKey" in access ? access.anyKey : undefined;
			if (reason !== undefined) expect(reason, keyOf(endpoint)).toMatch(/^[A-Z].{15,}\.$/);
		}
	});
});
