/**
 * Every endpoint of the list under every fault of what it stands on: the D1, R2 and Queue calls
 * that it makes fail in turn (support/sample.ts). A fault is 503 with Retry-After or nothing at
 * all, never a refusal; a write is whole or absent; the answer says nothing of the error, the log
 * names it. Flows of several requests are in support/crashes.ts; here nothing is listed by hand, so
 * a new endpoint is covered by its request in support/requests.ts.
 */
import { createExecutionContext } from "cloudflare:test";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { createApp } from "../../../src/app";
import { allEndpoints } from "../../../src/endpoints";
import type { AnyEndpoint } from "../../../src/http/endpoint";
import { PIPELINE_ERRORS } from "../../../src/http/pipeline/pipeline";
import { sampleOf } from "../../proof-sample";
import {
	deltaName,
	downloadUrl,
	locationOf,
	patterned,
	register,
	storedKeys,
	tusCreate,
	tusPatch,
	zipName,
} from "../support/bytes";
import { changesBetween, databaseText, emptyDatabase } from "../support/database-text";
import { D1_TEXTS, FAULT_MARK, type FaultKind, type FaultyService, R2_TEXTS, withFault } from "../support/faults";
import { violations } from "../support/invariants";
import { PUBLIC_REQUESTS } from "../support/public-requests";
import type { PreparedRequest } from "../support/request-parts";
import { MORE_REQUESTS, REQUESTS } from "../support/requests";
import { SESSION_REQUESTS } from "../support/session-requests";
import { peopleOf } from "../support/sessions";
import {
	type Answer,
	createTestApp,
	createWorld,
	type TestApp,
	testEnv,
	uploadTestBundle,
	type World,
} from "../support/world";
import { bundleOf } from "../support/zip";

const keyOf = (endpoint: { method: string; path: string }) => `${endpoint.method} ${endpoint.path}`;

/** Whose requests need a provider to answer; provider.test.ts and exchange.test.ts play one. */
const needsProvider = ({ path }: AnyEndpoint) => path.startsWith("/sign-in/provider/") || path === "/oidc/token";

const endpoints: readonly AnyEndpoint[] = (allEndpoints as readonly AnyEndpoint[]).filter(
	(endpoint) => !needsProvider(endpoint),
);

const named = endpoints.flatMap((endpoint): (readonly [string, AnyEndpoint, string | undefined])[] => {
	const name = keyOf(endpoint);
	const more = Object.keys(MORE_REQUESTS[name] ?? {}).map((what) => [`${name} ${what}`, endpoint, what] as const);
	return [[name, endpoint, undefined], ...more];
});

interface Stage {
	readonly world: World;
	readonly app: TestApp;
	readonly request: PreparedRequest;
}
let world: World;

/** Shared by the endpoints that do not delete the app. */
let app: TestApp;

// The ledger of `wrangler d1 migrations apply`.
const DATABASES = [testEnv.DB, testEnv.TELEMETRY];
const MIGRATIONS = "CREATE TABLE d1_migrations (id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT)";
beforeAll(() => Promise.all(DATABASES.map((database) => database.exec(MIGRATIONS))));
afterAll(() => Promise.all(DATABASES.map((database) => database.exec("DROP TABLE d1_migrations"))));

beforeEach(async () => {
	await emptyDatabase();
	world = await createWorld();
	app = await createTestApp(world);
});

async function prepare(endpoint: AnyEndpoint, what?: string): Promise<Stage> {
	const name = keyOf(endpoint);
	const request = what === undefined ? { ...REQUESTS, ...PUBLIC_REQUESTS }[name] : MORE_REQUESTS[name]?.[what];
	const ofPeople = SESSION_REQUESTS[name];
	if (ofPeople !== undefined) return { world, app, request: await ofPeople(peopleOf(world)) };
	if (request === undefined) throw new Error(`add ${name} to test/worker/support/requests.ts`);
	const target = name === "DELETE /app/:app_id" ? await createTestApp(world, "doomed") : app;
	return { world, app: target, request: await request(world, target) };
}

const send = (
	client: Pick<World, "request">,
	endpoint: AnyEndpoint,
	{ path, ...options }: PreparedRequest,
): Promise<Answer> =>
	client.request(endpoint.method, path, {
		...options,
		...("public" in endpoint.access || "ownSession" in endpoint.access ? {} : { key: world.adminKey }),
	});

/** The one body of every fault. */
const UNAVAILABLE = {
	error: "service_unavailable",
	message: "A storage service did not answer; try again after the seconds in Retry-After.",
	moreInfo: { retryAfterSeconds: 5 },
	requestId: expect.stringMatching(/^[0-9a-f-]{36}$/),
};

function expectUnavailable(answer: Answer, where: string): void {
	expect(answer, where).toMatchObject({ status: 503, body: UNAVAILABLE });
	expect(Object.keys(answer.body as object), where).toHaveLength(5);
	expect(answer.headers.get("retry-after"), where).toBe("5");
	expect(answer.headers.get("cache-control"), where).toBe("private, no-store");
}

function expectSecret(answer: Answer, service: FaultyService, where: string): void {
	const visible = JSON.stringify([answer.body, [...answer.headers]]);
	expect(visible, `${where}: the answer reveals the error`).not.toContain(FAULT_MARK);
	expect(service.log.join("\n"), `${where}: the log does not name the cause`).toContain(FAULT_MARK);
}
const KINDS: readonly FaultKind[] = ["refused", "answer lost", "statement fails", "breaks off"];

/** Whether a fault of this kind differs from the others for this call. */
function concerns(kind: FaultKind, call: string, writes: boolean): boolean {
	if (kind === "statement fails") return call === "d1.batch";
	if (kind === "breaks off") return call === "r2.get";
	return kind === "refused" || writes || /put|delete|send/.test(call);
}
const mayStore = (calls: readonly string[]) => calls.some((call) => /put|delete/.test(call));
const codeOf = (answer: Answer) => (answer.body as { error?: string } | null)?.error;

/**
 * Makes a device's request issue the same calls each time, because it stores the snapshot of its
 * app.
 */
async function removeStoredSnapshots(): Promise<void> {
	const keys = await storedKeys("snapshots/");
	if (keys.length > 0) await testEnv.BUNDLES.delete(keys);
}

/** The amounts of made-up history depend on the new app's id, so only its kinds of rows compare. */
const MADE_UP_ROWS = 90;
/**
 * Bytes and reports of an attempt that may fail are noted for the clean-up before they are stored.
 */
const NOTES = ["garbage_objects + ", "report_removals + "];
/** Clean-up repeats or removes reports that a request stored, so the main database decides. */
const isOfReports = (change: string) => change.startsWith("telemetry.");
async function changesOf(before: string, after: string): Promise<string[]> {
	const changes = (await changesBetween(before, after)).filter((change) => !isOfReports(change));
	if (changes.every((change) => NOTES.includes(change))) return [];
	return changes.length > MADE_UP_ROWS ? [...new Set(changes)] : changes;
}

/** No request makes as many calls. */
const MOST_CALLS = 20;
let text = 0;
let faults = 0;

describe("with each call failing in turn", () => {
	test.each(named)("%s", async (name, endpoint, what) => {
		let stage = await prepare(endpoint, what);
		let before = await databaseText();
		const unharmed = withFault(world, 0, "refused");
		await removeStoredSnapshots();
		const expected = await send(unharmed, endpoint, stage.request);
		/** Some endpoints declare a redirect as their answer. */
		const succeeds = ({ status }: Answer) => status < 300 || endpoint.status?.includes(status) === true;
		expect(succeeds(expected), `${expected.status} ${JSON.stringify(expected.body)}`).toBe(true);
		const then = await databaseText();
		const whole = await changesOf(before, then);
		const twice = await send(world, endpoint, stage.request);
		const wholeTwice = await changesOf(then, await databaseText());
		const calls = [...unharmed.calls];
		expect(calls.length).toBeLessThan(MOST_CALLS);
		/** Whether `stage` was used up, so that the request must be prepared again. */
		let used = whole.length > 0 || mayStore(calls);

		const cases = calls.flatMap((call, index) =>
			KINDS.filter((kind) => concerns(kind, call, whole.length > 0)).map((kind) => ({ call, index, kind })),
		);
		for (const { call, index, kind } of sampleOf(name, cases)) {
			if (used) stage = await prepare(endpoint, what);
			before = await databaseText();
			const faulty = withFault(world, index + 1, kind, text++);
			await removeStoredSnapshots();
			const answer = await send(faulty, endpoint, stage.request).catch((error: unknown) => {
				// Only a body that is under way can break off; nothing else may come out of the application as
				// an error.
				if (kind === "breaks off" && String(error).includes(FAULT_MARK)) return undefined;
				throw error;
			});
			const where = `${call} (${index + 1} of ${calls.length}) ${kind}`;
			expect(faulty.failed, where).toBe(call);
			faults += 1;
			const after = await databaseText();
			const changed = await changesOf(before, after);
			used = changed.length > 0 || mayStore(calls);
			if (calls.some((one) => one.startsWith("r2"))) expect(await violations(stage.app.uuid), where).toEqual([]);

			if (answer !== undefined) expectSecret(answer, faulty, where);
			if (answer !== undefined && succeeds(answer)) {
				expect(answer.status, where).toBe(expected.status);
				expect(changed, `${where}: done by half`).toEqual(whole);
				continue;
			}
			expect(["queue.send", "r2.delete"], `${where}: this comes after the work, and stops none`).not.toContain(call);
			if (kind === "statement fails") {
				// A mistake of ours is not an outage that passes.
				expect(answer, where).toMatchObject({ status: 500, body: { error: "internal_error", moreInfo: {} } });
				expect(changed, `${where}: the batch was not rolled back`).toEqual([]);
			} else if (answer !== undefined) {
				expectUnavailable(answer, where);
				if (changed.length > 0) expect(changed, `${where}: done by half`).toEqual(whole);
			}

			const again = await send(world, endpoint, stage.request);
			const end = await databaseText();
			const changedThen = await changesOf(after, end);
			used ||= changedThen.length > 0;
			const attempts = `${where}, then ${again.status} ${codeOf(again)}`;
			if (changed.length > 0) {
				// It had come through: the second try is what a second try is.
				expect([again.status, codeOf(again)], attempts).toEqual([twice.status, codeOf(twice)]);
				expect(changedThen, attempts).toEqual(wholeTwice);
			} else {
				expect(changedThen, `${attempts}: the second try did not do the work`).toEqual(whole);
				if (!succeeds(again)) {
					// The bytes had been stored, and the protocol says where to go on.
					expect(again.status, attempts).toBe(409);
					expect(calls.slice(0, index + 1), attempts).toContain("r2.put");
					expect([...PIPELINE_ERRORS, ...endpoint.errors]).toContain(codeOf(again));
				}
			}
		}

		if (!calls.includes("d1.batch")) return;
		if (used) stage = await prepare(endpoint, what);
		before = await databaseText();
		const faulty = withFault(world, 0, "no session", text++);
		await removeStoredSnapshots();
		const answer = await send(faulty, endpoint, stage.request);
		// These need no answer: GET /ok then names no schema, and a download only asks whether its app
		// still exists.
		if (/^\/(ok$|files\/download)/.test(endpoint.path)) expect(answer.status).toBeLessThan(300);
		else expectUnavailable(answer, "no session");
		expectSecret(answer, faulty, "no session");
		expect(await databaseText()).toBe(before);
	});

	test("was no empty exercise", () => {
		expect(faults).toBeGreaterThan(endpoints.length);
	});
});

describe("every error text of the platform", () => {
	test.each(D1_TEXTS.map((name, index) => [name, index] as const))("D1: %s", async (_, index) => {
		for (const [failAt, name] of [
			[1, "GET /channel"],
			[2, "POST /channel"],
			[1, "POST /updates"],
		] as const) {
			const endpoint = endpoints.find((one) => keyOf(one) === name) as AnyEndpoint;
			const { request } = await prepare(endpoint);
			// The use of the key is reported between the two batches.
			const calls = withFault(world, 0, "refused");
			await send(calls, endpoint, (await prepare(endpoint)).request);
			const batches = calls.calls.flatMap((call, at) => (call === "d1.batch" ? [at + 1] : []));
			const faulty = withFault(world, batches[failAt - 1] ?? 0, "refused", index);
			const answer = await send(faulty, endpoint, request);
			expect(faulty.failed).toBe("d1.batch");
			// From the stored snapshot.
			if (name === "POST /updates") expect(answer.status).toBe(200);
			else expectUnavailable(answer, name);
			expectSecret(answer, faulty, name);
		}
	});

	test.each(R2_TEXTS.map((name, index) => [name, index] as const))("R2: %s", async (_, index) => {
		for (const [name, call] of [
			["GET /files/download/:app/:upload/:part", "r2.get"],
			["PUT /files/upload/one/:id", "r2.put"],
		]) {
			const endpoint = endpoints.find((one) => keyOf(one) === name) as AnyEndpoint;
			const calls = withFault(world, 0, "refused");
			await send(calls, endpoint, (await prepare(endpoint)).request);
			const { request } = await prepare(endpoint);
			const faulty = withFault(world, calls.calls.indexOf(call ?? "") + 1, "refused", index);
			const answer = await send(faulty, endpoint, request);
			expect(faulty.failed).toBe(call);
			expectUnavailable(answer, String(name));
			expectSecret(answer, faulty, String(name));
		}
	});
});

describe("a download", () => {
	const CONTENT = bundleOf(100_000);
	let objectKey: string;
	let url: string;

	beforeEach(async () => {
		await uploadTestBundle(world, app, "1.0.0", world.adminKey, CONTENT);
		[objectKey = ""] = await storedKeys(`${app.uuid}/`);
		url = await downloadUrl(world, objectKey);
	});

	test.each([
		["whole", {}, 200, 100_000, 2],
		["in part", { range: "bytes=1000-50999" }, 206, 50_000, 3],
	] as const)(
		"%s that breaks off under way is cut, and never looks complete",
		async (_, headers, status, length, failAt) => {
			const faulty = withFault(world, failAt, "breaks off");
			const ctx = createExecutionContext();
			const response = await createApp(faulty.deps).fetch(new Request(url, { headers }), testEnv, ctx);
			expect(faulty.failed).toBe("r2.get");
			expect([response.status, response.headers.get("content-length")]).toEqual([status, String(length)]);
			let receivedBytes = 0;
			const reading = (async () => {
				for await (const chunk of response.body ?? []) receivedBytes += chunk.length;
			})();
			await expect(reading).rejects.toThrow();
			expect(receivedBytes).toBeLessThan(length);
			expect((await world.request("GET", url, { headers })).status).toBe(status);
		},
	);

	const WAYS = [
		["GET", {}],
		["HEAD", {}],
		["GET", { range: "bytes=0-9" }],
		["GET", { "if-none-match": '"x"' }],
	] as const;

	test.each(WAYS)(
		"of bytes that were lost (%s %o) says that they are gone, and the log names them",
		async (method, headers) => {
			await testEnv.BUNDLES.delete(objectKey);
			const service = withFault(world, 0, "refused");
			const answer = await service.request(method, url, { headers });
			expect([answer.status, answer.headers.get("retry-after")]).toEqual([410, null]);
			expect(service.log.join()).toContain(objectKey);
			expect(JSON.stringify(answer.body)).not.toContain(objectKey);
		},
	);

	test.each(WAYS)(
		"of bytes that nobody can say whether they were deleted (%s %o) is not 404",
		async (method, headers) => {
			await world.request("DELETE", "/bundle", {
				key: world.adminKey,
				query: { app_id: app.appId, version: "1.0.0" },
			});
			expect((await world.request(method, url, { headers })).status).toBe(404);
			const faulty = withFault(world, 3, "refused");
			expect((await faulty.request(method, url, { headers })).status).toBe(503);
			expect(faulty.failed).toBe("d1.batch");
		},
	);

	test("of a lost file of the delta store says that it is gone, too", async () => {
		const created = await tusCreate(world, world.adminKey, deltaName(world, app, "aa_main.js"), 10);
		await tusPatch(world, world.adminKey, locationOf(created), 0, patterned(10));
		const [file = ""] = (await storedKeys(`${app.uuid}/`)).filter((key) => key !== objectKey);
		await testEnv.BUNDLES.delete(file);
		expect((await world.request("GET", await downloadUrl(world, file))).status).toBe(410);
	});
});

test.each(["refused", "breaks off"] as const)(
	"segments that cannot be read while they are joined (%s) are named in the log",
	async (kind) => {
		let seen = 0;
		for (let failAt = 1; failAt < MOST_CALLS; failAt++) {
			const version = `1.0.${failAt}`;
			await register(world, app, version, world.adminKey);
			const location = locationOf(await tusCreate(world, world.adminKey, zipName(world, app, version), 200));
			await tusPatch(world, world.adminKey, location, 0, bundleOf(200).slice(0, 100));
			const faulty = withFault(world, failAt, kind);
			const answer = await tusPatch(faulty, world.adminKey, location, 100, bundleOf(200).slice(100));
			if (faulty.failed === undefined) break;
			if (faulty.failed !== "r2.get") continue;
			// The stored snapshot of the app is read after the answer.
			if (answer.status < 400) continue;
			seen += 1;
			expectUnavailable(answer, kind);
			expectSecret(answer, faulty, kind);
		}
		// Each of the two segments, the whole when its SHA-256 is computed, and its end when the zip is
		// checked.
		expect(seen).toBe(4);
	},
);
