/**
 * Every endpoint that a key can write through: what the decision stood on is looked at again in the
 * batch that writes. Another isolate changes it between the reading and the writing, so the race
 * happens every time.
 */
import { beforeEach, describe, expect, test } from "vitest";
import { createApp } from "../../../src/app";
import { allEndpoints } from "../../../src/endpoints";
import { wholeObjectKey } from "../../../src/storage/objects";
import { databaseText, emptyDatabase } from "../support/database-text";
import type { PreparedRequest } from "../support/request-parts";
import { REQUESTS } from "../support/requests";
import {
	type Answer,
	createTestApp,
	createTestKey,
	createWorld,
	requestThrough,
	setTestChannel,
	type TestApp,
	testEnv,
	type World,
} from "../support/world";
import { bundleOf } from "../support/zip";

/** Endpoints that are no GET and write nothing. */
const ONLY_READ: readonly RegExp[] = [
	/^POST \/channel\/what_if$/,
	/^POST \/webhook\/try$/,
	/^POST \/publisher\/repository$/,
	/^POST \/private\/events$/,
	/^POST \/compat\/capgo-cli\/rest\/v1\/rpc\//,
];
/** Endpoints that complete a version, and the field that names it. */
const COMPLETIONS: Readonly<Record<string, string>> = {
	"POST /bundle/complete": "version",
	"POST /private/finalize_bundle_upload": "name",
};
const writers = Object.keys(REQUESTS).filter(
	(name) => !name.startsWith("GET ") && !ONLY_READ.some((one) => one.test(name)),
);

let world: World;
let app: TestApp;
beforeEach(async () => {
	await emptyDatabase();
	world = await createWorld();
	app = await createTestApp(world);
});

/** Sends the request, and lets `elsewhere` happen right before the first batch that writes. */
async function writeAfter(
	method: string,
	request: PreparedRequest,
	key: string,
	elsewhere: () => Promise<unknown>,
): Promise<{ answer: Answer; wrote: boolean }> {
	let wrote = false;
	const texts = new WeakMap<D1PreparedStatement, string>();
	const d1 = {
		withSession(constraint: D1SessionConstraint) {
			const session = world.deps.d1.withSession(constraint);
			return {
				prepare(text: string) {
					const statement = session.prepare(text);
					return {
						bind(...values: unknown[]) {
							const bound = statement.bind(...values);
							texts.set(bound, text);
							return bound;
						},
					};
				},
				async batch(statements: D1PreparedStatement[]) {
					if (!wrote && statements.some((statement) => !/^\s*SELECT\b/i.test(texts.get(statement) ?? ""))) {
						wrote = true;
						await elsewhere();
					}
					return session.batch(statements);
				},
			};
		},
	} as unknown as D1Database;
	const { path, thing: _, ...options } = request;
	const racing = requestThrough(createApp({ ...world.deps, d1 }));
	return { answer: await racing(method, path, { key, ...options }), wrote };
}

/**
 * As in the other tests of all endpoints, except that dry runs are real and that a completion has
 * something left to complete.
 */
async function prepared(name: string): Promise<[method: string, request: PreparedRequest]> {
	const prepare = REQUESTS[name];
	if (prepare === undefined) throw new Error(`no request for ${name}`);
	const request = await prepare(world, app);
	const { dry_run: _, ...query } = request.query ?? {};
	const version = COMPLETIONS[name];
	const body = version === undefined ? request.body : { ...(request.body as object), [version]: await arrived() };
	return [name.split(" ")[0] ?? "", { ...request, query, body }];
}

/** The version of a bundle whose bytes are there, though nothing says so yet. */
async function arrived(): Promise<string> {
	const version = "7.0.0";
	const body = { app_id: app.appId, version };
	expect(await world.admin("POST /bundle", { body })).toMatchObject({ status: 201 });
	const upload = await testEnv.DB.prepare(
		"SELECT object_prefix FROM uploads WHERE completed_at_ms IS NULL AND app_id = ?",
	)
		.bind(app.uuid)
		.first<{ object_prefix: string }>();
	await testEnv.BUNDLES.put(wholeObjectKey(upload?.object_prefix ?? ""), bundleOf(130));
	return version;
}

const run = (statement: string, ...parameters: string[]) =>
	testEnv.DB.prepare(statement)
		.bind(...parameters)
		.run();

describe("a write by a key", () => {
	test("is tested for every endpoint other than GET", () => {
		const keyed = allEndpoints.filter(
			({ access, method }) => !("public" in access || "ownSession" in access) && method !== "GET",
		);
		const names = keyed.map(({ method, path }) => `${method} ${path}`);
		expect(names.filter((name) => !ONLY_READ.some((one) => one.test(name))).sort()).toEqual([...writers].sort());
	});

	const changes: readonly [string, () => Promise<unknown>][] = [
		["was revoked", () => run("DELETE FROM api_keys WHERE id = ?", world.adminKeyId)],
		["lost its binding", () => run("DELETE FROM role_bindings WHERE api_key_id = ?", world.adminKeyId)],
		["got another secret", () => run("UPDATE api_keys SET key_hash = id WHERE id = ?", world.adminKeyId)],
		["got an expiry", () => run("UPDATE api_keys SET expires_at_ms = 1 WHERE id = ?", world.adminKeyId)],
		[
			"was limited to addresses",
			() => run(`UPDATE api_keys SET ip_allow_list = '["192.0.2.1/32"]' WHERE id = ?`, world.adminKeyId),
		],
	];
	describe.each(writers)("%s", (name) => {
		test.each(changes)("is refused when the key %s meanwhile", async (_, change) => {
			const [method, request] = await prepared(name);
			let after = "";
			const { answer, wrote } = await writeAfter(method, request, world.adminKey, async () => {
				await change();
				after = await databaseText();
			});
			expect(wrote, "the request came to no write").toBe(true);
			expect(answer).toMatchObject({ status: 401, body: { error: "invalid_api_key" } });
			expect(await databaseText(), "a refused request changed something").toBe(after);
		});
	});

	test("succeeds when the key lost a binding on another channel meanwhile", async () => {
		const key = await createTestKey(world, "app_preview", app);
		for (const name of ["pr-1", "pr-2"]) await setTestChannel(world, app, name, {}, key.text);
		const remove = (channel: string) => ({ path: "/channel", query: { app_id: app.appId, channel } });
		const { answer } = await writeAfter("DELETE", remove("pr-1"), key.text, async () => {
			const { path, query } = remove("pr-2");
			expect(await world.request("DELETE", path, { key: key.text, query })).toMatchObject({ status: 200 });
		});
		expect(answer).toMatchObject({ status: 200 });
	});
});
