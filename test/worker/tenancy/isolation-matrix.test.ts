/**
 * Isolation, for every endpoint of the list and every role: the answers to its keys in their scope,
 * at a sibling app, at another organization, at deleted targets, and after expiry. The expected
 * answers are one table to review, test/isolation-matrix.txt. Answers that are never allowed are
 * checked here too, so that a wrong table cannot be written with -u.
 */
import { beforeAll, describe, expect, test } from "vitest";
import { PERMISSIONS, ROLES, type RoleName } from "../../../src/authz/permissions";
import { type AnyEndpoint, permissionsOf } from "../../../src/http/endpoint";
import { databaseText, tableNames } from "../support/database-text";
import {
	absentOf,
	absentThingOf,
	type Cast,
	createCast,
	documentedCodes,
	EXPIRES_AT_MS,
	guarded,
	guardedGroups,
	isAboutApp,
	isAppRole,
	type Keys,
	keyOf,
	keysFor,
	prepareRequest,
	roles,
	secrets,
	send,
	visible,
} from "../support/isolation-cast";
import { IsolationTable, type Situation } from "../support/isolation-table";
import type { PreparedRequest } from "../support/request-parts";
import { type Answer, createTestApp, makeOperator, type TestApp, type World } from "../support/world";

const table = new IsolationTable(guarded.map(keyOf), roles);
let cast: Cast;
let world: World;

beforeAll(async () => {
	cast = await createCast();
	world = cast.world;
	// From now on, so that what has expired is refused in the moment in which all else succeeds.
	world.clock.nowMs = EXPIRES_AT_MS;
});

const isAnyKey = ({ access }: AnyEndpoint) => "anyKey" in access;
const isGlobal = ({ access }: AnyEndpoint) => "globalPermission" in access;
/** Nothing but what brings a deleted organization back is about one. */
const isRestore = (endpoint: AnyEndpoint) => keyOf(endpoint) === "POST /organization/restore";

type ErrorAnswer = Answer<{ error: string; moreInfo: Record<string, unknown> }>;

/** Rules for every refusal, for every caller. */
function expectRefusal(endpoint: AnyEndpoint, answer: ErrorAnswer, who: string): void {
	const { error, moreInfo } = answer.body;
	expect(documentedCodes(endpoint, answer.status), `${who}: openapi.json does not document it`).toContain(error);
	if (answer.status === 401) expect(moreInfo, who).toEqual({});
	if (answer.status === 404) expect(error, who).toMatch(/_not_found$/);
	if (answer.status !== 403) return;
	expect(error, who).toBe("permission_denied");
	const { access } = endpoint;
	const known =
		"globalPermission" in access ? [access.globalPermission] : "anyKey" in access ? PERMISSIONS : permissionsOf(access);
	expect(known, who).toContain(moreInfo.permission);
	expect(["org", "app", "channel", "global"], who).toContain(moreInfo.scope);
}

/** Sends the request with every key at once; nothing may change. */
async function sendWithAll(
	endpoint: AnyEndpoint,
	situation: Situation,
	keys: Keys,
	request: PreparedRequest,
	through = world,
): Promise<ReadonlyMap<RoleName, ErrorAnswer>> {
	const before = cast.changes();
	const answers = await Promise.all(
		[...keys].map(
			async ([role, key]) => [role, (await send(through, endpoint.method, request, key)) as ErrorAnswer] as const,
		),
	);
	expect(cast.changes(), `${situation}: a refused request changed something`).toBe(before);
	for (const [role, answer] of answers) {
		table.note(keyOf(endpoint), situation, role, answer.status);
		if (answer.status >= 400) expectRefusal(endpoint, answer, `${situation}, ${role}`);
	}
	return new Map(answers);
}

/** Every answer must be the one to the same request about what never was. */
async function expectSameAsAbsent(
	endpoint: AnyEndpoint,
	situation: Situation,
	answers: ReadonlyMap<RoleName, ErrorAnswer>,
	keys: Keys,
	absent: PreparedRequest,
	through = world,
): Promise<void> {
	await Promise.all(
		[...answers].map(async ([role, answer]) => {
			const expected = await send(through, endpoint.method, absent, keys.get(role));
			expect(
				visible(answer as Answer<never>),
				`${situation}, ${role}: distinguishes it from a target that never existed`,
			).toEqual(visible(expected));
		}),
	);
}

const statusesOf = (answers: ReadonlyMap<RoleName, ErrorAnswer>) =>
	[...new Set([...answers.values()].map(({ status }) => status))].sort();

/** By which an answer would give an organization away. */
function tracesOf(of: World, app: TestApp): readonly string[] {
	return [of.orgId, of.userId, of.adminKeyId, app.appId, app.uuid];
}

function expectNoTrace(answers: Iterable<ErrorAnswer>, traces: readonly string[], situation: string): void {
	for (const { body } of answers) {
		const text = JSON.stringify(body);
		for (const trace of traces)
			expect(text, `${situation}: the answer shows what is not the key's`).not.toContain(trace);
	}
}

/** The app that requests are about, and good keys to it. */
interface Target {
	readonly app: TestApp;
	readonly own: Keys;
}

const deletesApp = (endpoint: AnyEndpoint) => keyOf(endpoint) === "DELETE /app/:app_id";

async function targetFor(endpoint: AnyEndpoint): Promise<Target> {
	if (!deletesApp(endpoint)) return cast;
	const app = await createTestApp(world, "doomed");
	return { app, own: secrets(await keysFor(world, app)) };
}

async function otherOrganization(endpoint: AnyEndpoint, request: PreparedRequest, { app }: Target): Promise<void> {
	// It is about no organization that is there, so nobody's key comes from another one.
	if (isGlobal(endpoint)) return;
	const answers = await sendWithAll(endpoint, "other organization", cast.elsewhere, request);
	if (isAnyKey(endpoint)) {
		expectNoTrace(answers.values(), tracesOf(world, app), "other organization");
		for (const [role, { status }] of answers) expect([200, 404], role).toContain(status);
		if (statusesOf(answers).includes(404)) {
			await expectSameAsAbsent(endpoint, "other organization", answers, cast.elsewhere, absentOf(request, app));
		}
		return;
	}
	expect(statusesOf(answers), "another organization's keys").toEqual([404]);
	await expectSameAsAbsent(endpoint, "other organization", answers, cast.elsewhere, absentOf(request, app));
}

async function siblingApp(endpoint: AnyEndpoint, request: PreparedRequest, { app }: Target): Promise<void> {
	const answers = await sendWithAll(endpoint, "sibling app", cast.sibling, request);
	if (isAnyKey(endpoint)) {
		expectNoTrace(answers.values(), [app.appId, app.uuid], "sibling app");
	} else if (isAboutApp(endpoint)) {
		expect(statusesOf(answers), "a sibling app's keys").toEqual([404]);
		await expectSameAsAbsent(endpoint, "sibling app", answers, cast.sibling, absentOf(request, app));
	} else if (!isRestore(endpoint)) {
		// They know the organization and nothing of it is theirs.
		expect(statusesOf(answers), "a sibling app's keys").toEqual([403]);
		for (const { body } of answers.values()) expect(["org", "global"]).toContain(body.moreInfo.scope);
	}
}

async function deletedThing(endpoint: AnyEndpoint): Promise<void> {
	if (deletesApp(endpoint)) return;
	const request = await prepareRequest(world, cast.app, endpoint);
	if (request.thing === undefined) return;
	const { method, path, ...options } = request.thing.removal;
	const removed = await world.request(method, path, { ...options, key: world.adminKey });
	expect(removed.status, JSON.stringify(removed.body)).toBeLessThan(300);
	const answers = await sendWithAll(endpoint, "deleted thing", cast.own, request);
	for (const [role, { status }] of answers) expect([403, 404], role).toContain(status);
	expect(statusesOf(answers), "no answer says that it is gone").toContain(404);
	await expectSameAsAbsent(endpoint, "deleted thing", answers, cast.own, absentThingOf(request, request.thing));
}

async function deletedApp(endpoint: AnyEndpoint): Promise<void> {
	const { app, requests, keys: onApp } = cast.goneApp;
	const request = requests.get(keyOf(endpoint));
	if (request === undefined) return;
	const keys = new Map(roles.map((role) => [role, (isAppRole(role) ? onApp : cast.own).get(role) ?? ""]));
	const answers = await sendWithAll(endpoint, "deleted app", keys, request);
	expect(statusesOf(answers)).toEqual([404]);
	await expectSameAsAbsent(endpoint, "deleted app", answers, keys, absentOf(request, app));
}

async function deletedOrganization(endpoint: AnyEndpoint): Promise<void> {
	const { world: gone, app, requests, keys } = cast.goneOrganization;
	const request = requests.get(keyOf(endpoint));
	if (request === undefined) throw new Error("no request");
	if (isRestore(endpoint)) return;
	const answers = await sendWithAll(endpoint, "deleted organization", keys, request, gone);
	if (isAnyKey(endpoint)) {
		expectNoTrace(answers.values(), [app.appId], "deleted organization");
	} else if (isGlobal(endpoint)) {
		expect(statusesOf(answers)).toEqual([403]);
	} else {
		expect(statusesOf(answers)).toEqual([404]);
		await expectSameAsAbsent(endpoint, "deleted organization", answers, keys, absentOf(request, app), gone);
	}
}

/** Records which roles can restore a deleted organization, the only request that it answers. */
async function restoration(endpoint: AnyEndpoint): Promise<void> {
	const { world: gone, keys } = cast.goneOrganization;
	const request = { path: "/organization/restore", body: { orgId: gone.orgId } };
	for (const role of roles) {
		const before = cast.changes();
		const answer = (await send(gone, endpoint.method, request, keys.get(role))) as ErrorAnswer;
		table.note(keyOf(endpoint), "deleted organization", role, answer.status);
		const mayDelete = ROLES[role].permissions.includes("org.delete");
		expect(answer.status < 300, role).toBe(mayDelete);
		if (!mayDelete) {
			expectRefusal(endpoint, answer, role);
			expect(cast.changes(), `${role}: a refused request changed something`).toBe(before);
			continue;
		}
		const { status } = await gone.admin("DELETE /organization", { query: { orgId: gone.orgId } });
		expect(status).toBe(200);
	}
}

async function goneKeys(endpoint: AnyEndpoint, request: PreparedRequest): Promise<void> {
	for (const [situation, keys, code] of [
		["deleted key", cast.deleted, "invalid_api_key"],
		["expired key", cast.expiring, "expired_api_key"],
	] as const) {
		const answers = await sendWithAll(endpoint, situation, keys, request);
		for (const answer of answers.values()) expect(answer).toMatchObject({ status: 401, body: { error: code } });
	}
}

async function expiredBinding(endpoint: AnyEndpoint, request: PreparedRequest, { app }: Target): Promise<void> {
	const answers = await sendWithAll(endpoint, "expired binding", cast.expiringBinding, request);
	const bare = (await send(world, endpoint.method, request, cast.bare)) as ErrorAnswer;
	if (isAnyKey(endpoint)) {
		expectNoTrace([...answers.values(), bare], [app.appId], "expired binding");
		return;
	}
	expect(bare.status, "a key without bindings").toBe(isGlobal(endpoint) ? 403 : 404);
	for (const [role, answer] of answers) {
		expect(visible(answer as Answer<never>), `${role}: more than without the binding`).toEqual(
			visible(bare as Answer<never>),
		);
	}
	if (!isGlobal(endpoint)) {
		await expectSameAsAbsent(endpoint, "expired binding", answers, cast.expiringBinding, absentOf(request, cast.app));
	}
}

/** Sends one request with one key; a refusal must change nothing. */
async function sendOnce(
	endpoint: AnyEndpoint,
	situation: Situation,
	role: RoleName,
	request: PreparedRequest,
	key: string | undefined,
): Promise<boolean> {
	const before = cast.changes();
	const answer = (await send(world, endpoint.method, request, key)) as ErrorAnswer;
	table.note(keyOf(endpoint), situation, role, answer.status);
	if (answer.status < 300) return true;
	const who = `${situation}, ${role}`;
	expectRefusal(endpoint, answer, who);
	expect(cast.changes(), `${who}: a refused request changed something`).toBe(before);
	return false;
}

async function expectControl(endpoint: AnyEndpoint, request: PreparedRequest): Promise<void> {
	const control = await send(world, endpoint.method, request, world.adminKey);
	expect(control.status, `the administrator is refused: ${JSON.stringify(control.body)}`).toBeLessThan(300);
	table.noteControl(keyOf(endpoint), control.status);
}

/** Also the positive control of each refusal before: only success takes a request away. */
async function anothersWork(endpoint: AnyEndpoint, first: PreparedRequest, firstTarget: Target): Promise<void> {
	const readsOnly = endpoint.method === "GET" || isAnyKey(endpoint);
	let [target, request] = [firstTarget, first];
	for (const role of roles) {
		const succeeded = await sendOnce(endpoint, "another's work", role, request, target.own.get(role));
		const { permissions } = ROLES[role];
		const needed = permissionsOf(endpoint.access);
		if (needed.length > 0 && !needed.some((permission) => permissions.includes(permission))) {
			expect(succeeded, `${role} holds none of ${needed.join(", ")}`).toBe(false);
		}
		if (!succeeded || readsOnly) continue;
		target = await targetFor(endpoint);
		request = await prepareRequest(world, target.app, endpoint);
	}
	await expectControl(endpoint, request);
}

async function ownWork(endpoint: AnyEndpoint): Promise<void> {
	if (deletesApp(endpoint)) return;
	for (const role of roles) {
		const { permissions } = ROLES[role];
		const key = cast.own.get(role) ?? "";
		const asked = { any: false, own: false };
		const maker = (able: boolean) => {
			asked.any = true;
			asked.own ||= able;
			return able ? key : world.adminKey;
		};
		const request = await prepareRequest(world, cast.app, endpoint, {
			get bundle() {
				return maker(permissions.includes("app.upload_bundle"));
			},
			get channel() {
				return maker(permissions.includes("app.create_channel"));
			},
		});
		if (!asked.any) return;
		if (!asked.own) continue;
		if (!(await sendOnce(endpoint, "own work", role, request, key))) await expectControl(endpoint, request);
	}
}

describe("isolation", () => {
	test("can fail: the text of the database changes with a single row, and includes every table", async () => {
		expect(await tableNames()).toEqual(expect.arrayContaining(["api_keys", "apps", "audit_log", "role_bindings"]));
		expect((await tableNames()).length).toBeGreaterThanOrEqual(12);
		const [before, changes] = [await databaseText(), cast.changes()];
		expect(await databaseText()).toBe(before);
		await createTestApp(world, "one-row");
		expect(await databaseText()).not.toBe(before);
		expect(cast.changes()).toBeGreaterThan(changes);
	});

	describe.each(guardedGroups)("in group %i", (_, ofGroup) => {
		const prepared = new Map<string, { readonly target: Target; readonly request: PreparedRequest }>();
		const refused = new Set<string>();
		let before: string;
		const preparedOf = (name: string) => {
			const found = prepared.get(name);
			if (found === undefined) throw new Error("no request");
			return found;
		};

		beforeAll(async () => {
			for (const [name, endpoint] of ofGroup) {
				const target = await targetFor(endpoint);
				prepared.set(name, { target, request: await prepareRequest(world, target.app, endpoint) });
			}
			before = await databaseText();
		});

		test.each(ofGroup)("of %s: nothing outside the key's scope answers or changes", async (name, endpoint) => {
			const { target, request } = preparedOf(name);
			await otherOrganization(endpoint, request, target);
			await siblingApp(endpoint, request, target);
			await goneKeys(endpoint, request);
			await expiredBinding(endpoint, request, target);
			await deletedApp(endpoint);
			await deletedOrganization(endpoint);
			refused.add(name);
		});

		test("no refused request changed a row of any table", async () => {
			expect(await databaseText(), "a refused request changed something").toBe(before);
		});

		test.each(ofGroup)("of %s: with the rights the same request succeeds", async (name, endpoint) => {
			const { target, request } = preparedOf(name);
			if (isRestore(endpoint)) await restoration(endpoint);
			await anothersWork(endpoint, request, target);
			await ownWork(endpoint);
			await deletedThing(endpoint);
			if (refused.has(name)) table.noteWhole(name);
		});
	});

	test("a restored organization answers the same key again", async () => {
		const { world: gone, requests } = cast.goneOrganization;
		const restored = await gone.admin("POST /organization/restore", { body: { orgId: gone.orgId } });
		expect(restored.status).toBe(200);
		// One endpoint is the operator's.
		await makeOperator(gone);
		const appLast = [...guarded].sort((left, right) => Number(deletesApp(left)) - Number(deletesApp(right)));
		for (const endpoint of appLast) {
			const request = requests.get(keyOf(endpoint));
			if (request === undefined) throw new Error("no request");
			// An organization has one sample app, which POST /app/sample adds.
			if (keyOf(endpoint) === "POST /app/demo") continue;
			const { status, body } = await send(gone, endpoint.method, request, gone.adminKey);
			expect(status, `${keyOf(endpoint)}: ${JSON.stringify(body)}`).toBeLessThan(300);
		}
	});

	test("is what test/isolation-matrix.txt says", async () => {
		const missing = guarded.map(keyOf).filter((endpoint) => !table.whole.includes(endpoint));
		expect(missing, "the table is not whole: see the failures before, or run the whole file").toEqual([]);
		await expect(table.text()).toMatchFileSnapshot("../../isolation-matrix.txt");
	});
});
