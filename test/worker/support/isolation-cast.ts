/**
 * The keys of the isolation matrix, one of every role for each situation, and the requests about
 * deleted things. Nothing here asks the code under test for the permissions of a role. Keys are
 * created through the API, and only an expired binding, which the API cannot create, is written
 * into the database.
 */
import { ROLE_NAMES, ROLES, type RoleName } from "../../../src/authz/permissions";
import { allEndpoints } from "../../../src/endpoints";
import type { AnyEndpoint } from "../../../src/http/endpoint";
import { openApiDocument } from "../../../src/http/openapi";
import type { PreparedRequest, Thing } from "./request-parts";
import { REQUESTS } from "./requests";
import {
	type Answer,
	createTestApp,
	createTestKey,
	createWorld,
	NOW_MS,
	type TestApp,
	type TestKey,
	testEnv,
	type World,
} from "./world";

export const keyOf = (endpoint: { method: string; path: string }) => `${endpoint.method} ${endpoint.path}`;
const endpoints: readonly AnyEndpoint[] = allEndpoints;
/** Those that keys are for. */
export const guarded = endpoints.filter(({ access }) => !("public" in access || "ownSession" in access));
const GROUPS = 12;
/**
 * The same in groups. A test of a whole group makes every request before the first one succeeds, so
 * neighbours in the list are in different groups: they are about the same things, which a success
 * takes away.
 */
export const guardedGroups = Array.from({ length: GROUPS }, (_, group) => {
	const ofGroup = guarded.filter((_, index) => index % GROUPS === group);
	return [group, ofGroup.map((endpoint) => [keyOf(endpoint), endpoint] as const)] as const;
});
/** Those that sessions alone are for. */
export const ofSessions = endpoints.filter(({ access }) => "ownSession" in access);

/**
 * The roles that a key can be given on an organization or an app. The service gives some others
 * itself; channel-roles.test.ts has those on single channels, because each request here is about a
 * channel of its own.
 */
export const roles = ROLE_NAMES.filter((name) => ROLES[name].assignable && ROLES[name].scopeType !== "channel");
export const isAppRole = (role: RoleName) => ROLES[role].scopeType === "app";

/** Whose keys can hold org.create, and do here. */
const ADMINISTERING: readonly RoleName[] = ["org_super_admin", "org_admin"];

/** A secret for every role. */
export type Keys = ReadonlyMap<RoleName, string>;

/**
 * When the expiring keys and bindings end; the clock of the world stands one millisecond before.
 */
export const EXPIRES_AT_MS = NOW_MS + 1;

export interface Cast {
	readonly world: World;
	readonly app: TestApp;
	/** Rows that requests changed so far. */
	readonly changes: () => number;
	/** Good keys: on the organization, or on the app. */
	readonly own: Keys;
	/** Keys with a role on another app of the organization; none for roles of whole organizations. */
	readonly sibling: Keys;
	readonly elsewhere: Keys;
	/** Keys that were good and were deleted. */
	readonly deleted: Keys;
	/** Good until EXPIRES_AT_MS. */
	readonly expiring: Keys;
	/** Keys whose bindings are good until EXPIRES_AT_MS. */
	readonly expiringBinding: Keys;
	/** A key that never had a binding. */
	readonly bare: string;
	/** An app that was deleted after keys and requests had been made for it. */
	readonly goneApp: Gone;
	/** An organization that was deleted after keys and requests had been made for it. */
	readonly goneOrganization: Gone & { readonly world: World };
}

interface Gone {
	readonly app: TestApp;
	readonly keys: Keys;
	/** By endpoint. Each was good when it was made. */
	readonly requests: ReadonlyMap<string, PreparedRequest>;
}

export async function createCast(): Promise<Cast> {
	const [main, reports] = [countingD1(testEnv.DB), countingD1(testEnv.TELEMETRY)];
	const changes = () => main.changes() + reports.changes();
	const world = await createWorld({ bindings: { d1: main.d1, telemetry: { TELEMETRY: reports.d1 } } });
	const app = await createTestApp(world);
	const [own, sibling, deleted, expiring, expiringBinding] = [
		await keysFor(world, app),
		await keysFor(world, await createTestApp(world, "sibling")),
		await keysFor(world, app),
		await keysFor(world, app, { expires_at: new Date(EXPIRES_AT_MS).toISOString() }),
		await keysFor(world, app),
	];
	for (const role of roles) if (!isAppRole(role)) sibling.delete(role);
	for (const keys of [deleted, expiring, expiringBinding]) {
		for (const [role, { text }] of keys) {
			const { body } = await world.request("GET", "/app", { key: text });
			const ids: string[] = body.map((row: { app_id: string }) => row.app_id);
			if (ids.includes(app.appId) !== ROLES[role].permissions.includes("app.read"))
				throw new Error(`the key with ${role} does not even work before`);
		}
	}
	for (const { id } of deleted.values()) {
		const { status } = await world.request("DELETE", `/apikey/${id}`, { key: world.adminKey });
		if (status !== 200) throw new Error("key not deleted");
	}
	const expire = testEnv.DB.prepare("UPDATE role_bindings SET expires_at_ms = ? WHERE api_key_id = ?");
	await testEnv.DB.batch([...expiringBinding.values()].map(({ id }) => expire.bind(EXPIRES_AT_MS, id)));
	const bare = await world.request("POST", "/apikey", {
		key: world.adminKey,
		query: { org_id: world.orgId },
		body: { name: "no bindings", hashed: true },
	});
	const foreign = await createWorld({ isOperator: false });
	return {
		world,
		app,
		changes,
		own: secrets(own),
		sibling: secrets(sibling),
		elsewhere: secrets(await keysFor(foreign, await createTestApp(foreign))),
		deleted: secrets(deleted),
		expiring: secrets(expiring),
		expiringBinding: secrets(expiringBinding),
		bare: bare.body.key,
		goneApp: await createGoneApp(world),
		goneOrganization: await createGoneOrganization(main.d1),
	};
}

export async function keysFor(
	world: World,
	app: TestApp,
	extra: Record<string, unknown> = {},
): Promise<Map<RoleName, TestKey>> {
	const keys = await Promise.all(
		roles.map(
			async (role) =>
				[
					role,
					await createTestKey(world, role, isAppRole(role) ? app : undefined, {
						...(ADMINISTERING.includes(role) ? { global_permissions: ["org.create"] } : {}),
						...extra,
					}),
				] as const,
		),
	);
	return new Map(keys);
}

export function secrets(keys: ReadonlyMap<RoleName, TestKey>): Keys {
	return new Map([...keys].map(([role, { text }]) => [role, text]));
}

/** D1 that counts the rows which are changed through it. */
function countingD1(database: D1Database): { d1: D1Database; changes: () => number } {
	let changes = 0;
	const d1 = {
		withSession(constraint: D1SessionConstraint) {
			const session = database.withSession(constraint);
			return {
				prepare: (text: string) => session.prepare(text),
				batch: async (statements: D1PreparedStatement[]) => {
					const results = await session.batch(statements);
					for (const { meta } of results) changes += meta.changes;
					return results;
				},
			};
		},
	} as unknown as D1Database;
	return { d1, changes: () => changes };
}

/** Requests that are about an app, or about something in one. */
export function isAboutApp({ access }: AnyEndpoint): boolean {
	const permissions = "permission" in access ? [access.permission] : "permissions" in access ? access.permissions : [];
	return permissions.length > 0 && !permissions.every((permission) => permission.startsWith("org."));
}

/**
 * Requests about deleted apps, which answer for those alone, and about webhooks, which are the
 * organization's from then on.
 */
const ABOUT_DELETED_APPS = [
	"POST /app/restore",
	"DELETE /app/reservation",
	"PUT /webhook",
	"DELETE /webhook",
	"POST /webhook/rotate",
	"POST /webhook/test",
	"GET /webhook/delivery",
	"GET /webhook/delivery/attempts",
	"POST /webhook/delivery/replay",
	"POST /webhook/delivery/stop",
];

async function createGoneApp(world: World): Promise<Gone> {
	const app = await createTestApp(world, "gone");
	const keys = secrets(await keysFor(world, app));
	const requests = await prepareAll(
		world,
		app,
		guarded.filter((endpoint) => isAboutApp(endpoint) && !ABOUT_DELETED_APPS.includes(keyOf(endpoint))),
	);
	const { status } = await world.request("DELETE", `/app/${app.appId}`, { key: world.adminKey });
	if (status !== 200) throw new Error("app not deleted");
	return { app, keys, requests };
}

async function createGoneOrganization(d1: D1Database): Promise<Cast["goneOrganization"]> {
	const world = await createWorld({ bindings: { d1 }, isOperator: false });
	const app = await createTestApp(world, "gone");
	const keys = secrets(await keysFor(world, app));
	const requests = await prepareAll(world, app, guarded);
	const { status } = await world.request("DELETE", "/organization", {
		key: world.adminKey,
		query: { orgId: world.orgId },
	});
	if (status !== 200) throw new Error("organization not deleted");
	return { world, app, keys, requests };
}

async function prepareAll(
	world: World,
	app: TestApp,
	of: readonly AnyEndpoint[],
): Promise<ReadonlyMap<string, PreparedRequest>> {
	const requests = new Map<string, PreparedRequest>();
	for (const endpoint of of) requests.set(keyOf(endpoint), await prepareRequest(world, app, endpoint));
	return requests;
}

export async function prepareRequest(
	world: World,
	app: TestApp,
	endpoint: AnyEndpoint,
	creators?: { readonly bundle: string; readonly channel: string },
): Promise<PreparedRequest> {
	const prepare = REQUESTS[keyOf(endpoint)];
	if (prepare === undefined) {
		throw new Error(`add a request for "${keyOf(endpoint)}" to test/worker/support/requests.ts`);
	}
	return prepare(world, app, creators);
}

export function send(world: World, method: string, { path, thing: _, ...options }: PreparedRequest, key?: string) {
	return world.request(method, path, { ...options, key });
}

const UUID = /[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}/g;
const ABSENT_APP = "com.example.absent";

/** The same request about an app or organization that never was. */
export function absentOf(request: PreparedRequest, target: TestApp): PreparedRequest {
	const ids = new Map<string, string>();
	return rewritten(request, (text) =>
		text.replaceAll(target.appId, ABSENT_APP).replace(UUID, (id) => {
			ids.set(id, ids.get(id) ?? crypto.randomUUID());
			return ids.get(id) ?? "";
		}),
	);
}

/** The same request about a thing that never was, in the same app. */
export function absentThingOf(request: PreparedRequest, { name }: Thing): PreparedRequest {
	if (typeof name === "number") return rewritten(request, (text) => text, new Map([[name, 987_654_321]]));
	const renewed = name.replace(UUID, () => crypto.randomUUID());
	const absent = renewed !== name ? renewed : name.includes("@") ? `absent.${name}` : `${name}00007`;
	return rewritten(request, (text) => text.replaceAll(name, absent));
}

/** With other texts everywhere, inside the metadata of uploads as well. */
function rewritten(
	{ rawBody, headers, thing: _, ...rest }: PreparedRequest,
	renamed: (text: string) => string,
	numbers: ReadonlyMap<number, number> = new Map(),
): PreparedRequest {
	const replaced = JSON.parse(JSON.stringify(rest), (_name, value: unknown) => {
		if (typeof value === "number") return numbers.get(value) ?? value;
		return typeof value === "string" ? renamed(value) : value;
	});
	const metadata = headers?.["upload-metadata"]?.split(" ")[1];
	return {
		...replaced,
		...(rawBody === undefined ? {} : { rawBody }),
		...(headers === undefined ? {} : { headers }),
		...(metadata === undefined
			? {}
			: { headers: { ...headers, "upload-metadata": `filename ${btoa(renamed(atob(metadata)))}` } }),
	};
}

/** All of an answer that its receiver can see, but for what differs each time. */
export function visible(answer: Answer<Record<string, unknown>>) {
	const { requestId: _, ...body } = answer.body;
	const headers = [...answer.headers].filter(([name]) => name !== "x-request-id");
	return { status: answer.status, headers, body: Array.isArray(answer.body) ? answer.body : body };
}

const documented = openApiDocument(allEndpoints) as {
	readonly paths: Record<string, Record<string, { responses: Record<string, { description: string }> }>>;
};

/** The codes that openapi.json lists for a status. */
export function documentedCodes({ method, path }: AnyEndpoint, status: number): readonly string[] {
	const { paths } = documented;
	const item = paths[path.replace(/\{.+?\}$/, "").replace(/:(\w+)/g, "{$1}")];
	const text = item?.[method.toLowerCase()]?.responses[status]?.description ?? "";
	return [...text.matchAll(/`(\w+)`/g)].map(([, code = ""]) => code);
}
