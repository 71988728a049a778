/**
 * Audit entries that are easily missed: of changes that come with another change, that the service
 * makes itself, or that a refused request leaves behind. Entries report only changed, current values.
 */
import { beforeEach, describe, expect, test } from "vitest";
import { createApp } from "../../../src/app";
import { query } from "../../../src/db/client";
import { DAY_MS } from "../../../src/domain/time";
import { allEndpoints } from "../../../src/endpoints";
import { purgeOrganizations } from "../../../src/features/organizations/purge";
import { runJobs } from "../../../src/schedule";
import { deltaName, locationOf, putBytes, register, rows, tusCreate, tusPatch, zipName } from "../support/bytes";
import { databaseText, emptyDatabase } from "../support/database-text";
import { readThenWrite } from "../support/interleave";
import { auditEntries } from "../support/people";
import { REQUESTS } from "../support/requests";
import {
	createTestApp,
	createTestKey,
	createWorld,
	requestThrough,
	setTestChannel,
	type TestApp,
	testEnv,
	uploadTestBundle,
	type World,
} from "../support/world";
import { bundleOf } from "../support/zip";

let world: World;
let app: TestApp;
let start: number;
beforeEach(async () => {
	await emptyDatabase();
	world = await createWorld();
	app = await createTestApp(world);
	await ignoreEarlier();
});

async function ignoreEarlier(): Promise<void> {
	start = (await auditEntries(world.orgId)).at(-1)?.id ?? 0;
}

const bySystem = { actor_type: "system", actor_id: null, actor_name: "Automatic clean-up", ip_address: null };

/** The entries since the start of the test, oldest first. */
const entries = (action?: string) => auditEntries(world.orgId, action, start);

const bytes = bundleOf(130);
const WRONG_SHA256 = "0".repeat(64);
const byAdmin = () => ({ actor_type: "api_key", actor_id: world.adminKeyId, actor_name: "admin" });
const inApp = () => ({ app_uuid: app.uuid, app_id: app.appId });

describe("a registration that fails has an audit entry", () => {
	test("if the bytes sent by link differ from the registered ones", async () => {
		const { body } = await register(world, app, "1.0.0", world.adminKey, { checksum: WRONG_SHA256 });
		expect((await putBytes(world, body.upload_url, bytes)).body).toMatchObject({ error: "checksum_mismatch" });
		expect(await entries("bundle.delete")).toMatchObject([
			{
				...byAdmin(),
				...inApp(),
				target_type: "bundle",
				target_id: String(body.id),
				target_name: "1.0.0",
				before: { version: "1.0.0", status: "pending" },
				after: null,
				details: { reason: "checksum_mismatch" },
			},
		]);
	});

	test("if a resumable upload starts with another size, or ends with other bytes", async () => {
		await register(world, app, "1.0.0", world.adminKey, { size: 7 });
		const refused = await tusCreate(world, world.adminKey, zipName(world, app, "1.0.0"), 5);
		expect(refused.body).toMatchObject({ error: "size_mismatch" });
		await register(world, app, "2.0.0", world.adminKey, { checksum: WRONG_SHA256 });
		const location = locationOf(await tusCreate(world, world.adminKey, zipName(world, app, "2.0.0"), bytes.length));
		expect((await tusPatch(world, world.adminKey, location, 0, bytes)).body).toMatchObject({
			error: "checksum_mismatch",
		});
		expect(await entries("bundle.delete")).toMatchObject([
			{ ...byAdmin(), target_name: "1.0.0", details: { reason: "size_mismatch" } },
			{ ...byAdmin(), target_name: "2.0.0", details: { reason: "checksum_mismatch" } },
		]);
	});

	test("if its version is registered again", async () => {
		const first = await register(world, app, "1.0.0", world.adminKey);
		await register(world, app, "1.0.0", world.adminKey);
		expect(await entries()).toMatchObject([
			{ action: "bundle.register", target_id: String(first.body.id) },
			{ action: "bundle.delete", target_id: String(first.body.id), details: { reason: "registered_again" } },
			{ action: "bundle.register" },
		]);
	});

	test("if it expires, by the system, and so does a withdrawn clean-up mark", async () => {
		await register(world, app, "1.0.0", world.adminKey);
		await uploadTestBundle(world, app, "2.0.0");
		await setTestChannel(world, app, "production", { version: "2.0.0" });
		const marked = await world.request("PATCH", "/compat/capgo-cli/rest/v1/app_versions", {
			key: world.adminKey,
			query: { app_id: `eq.${app.appId}`, name: "eq.2.0.0" },
			body: { deleted: true },
		});
		expect(marked.status).toBe(204);
		await ignoreEarlier();
		world.clock.nowMs += DAY_MS;
		await runJobs(world.deps);
		const written = await entries();
		expect(written).toMatchObject([
			{
				...bySystem,
				...inApp(),
				action: "bundle.delete",
				target_name: "1.0.0",
				before: { version: "1.0.0", status: "pending" },
				details: { reason: "expired" },
			},
			{
				...bySystem,
				...inApp(),
				action: "bundle.keep",
				target_name: "2.0.0",
				before: { marked_for_deletion: true },
				after: { marked_for_deletion: false },
			},
		]);
		await runJobs(world.deps);
		expect(await entries()).toHaveLength(written.length);
	});
});

describe("bindings that the service creates and removes are audited in the organization", () => {
	const binding = (after: Record<string, unknown>) => ({ target_type: "api_key", app_uuid: null, app_id: null, after });

	test("for the creator of an app, and when the app is deleted", async () => {
		const member = await createTestKey(world, "org_member");
		await ignoreEarlier();
		const own = { app_id: `com.example.a${crypto.randomUUID().slice(0, 8)}`, name: "own", owner_org: world.orgId };
		const created = await world.request("POST", "/app", { key: member.text, body: own });
		const role = { role_name: "app_admin", scope_type: "app", org_id: world.orgId, app_id: created.body.id };
		expect(await entries("binding.create")).toMatchObject([{ target_id: member.id, ...binding(role) }]);
		await world.request("DELETE", `/app/${own.app_id}`, { key: world.adminKey });
		// A restoration requires it.
		expect(await entries("binding.delete")).toEqual([]);
		world.clock.nowMs += 30 * 86_400_000;
		await purgeOrganizations(world.deps);
		expect(await entries("binding.delete")).toMatchObject([
			{ ...bySystem, target_id: member.id, before: role, after: null, details: { reason: "app_removed" } },
		]);
	});

	test("for a preview key on a channel, and when the channel is deleted", async () => {
		const preview = await createTestKey(world, "app_preview", app);
		await ignoreEarlier();
		const channelId = await setTestChannel(world, app, "pr-1", {}, preview.text);
		const role = { role_name: "channel_preview", scope_type: "channel", app_id: app.uuid, channel_id: channelId };
		expect(await entries("binding.create")).toMatchObject([{ target_id: preview.id, ...binding(role) }]);
		await world.request("DELETE", "/channel", { key: preview.text, query: { app_id: app.appId, channel: "pr-1" } });
		expect(await entries("binding.delete")).toMatchObject([
			{ actor_id: preview.id, target_id: preview.id, before: role, details: { with_channel: "pr-1" } },
		]);
	});

	test("and nothing else is", async () => {
		await setTestChannel(world, app, "plain");
		await world.request("DELETE", "/channel", { key: world.adminKey, query: { app_id: app.appId, channel: "plain" } });
		expect((await entries()).map((entry) => entry.action)).toEqual(["channel.create", "channel.delete"]);
	});
});

describe("the actor", () => {
	test("is the key by its name for bytes sent by a signed link", async () => {
		const uploader = await createTestKey(world, "app_developer", app);
		const [{ name } = { name: "" }] = await rows(
			query.selectFrom("api_keys").select("name").where("id", "=", uploader.id),
		);
		const { body } = await register(world, app, "1.0.0", uploader.text);
		await putBytes(world, body.upload_url, bytes);
		expect(await entries("bundle.upload")).toMatchObject([
			{ actor_type: "api_key", actor_id: uploader.id, actor_name: name, details: { by_link: true } },
		]);
	});
});

describe("an unchanged value has no audit entry", () => {
	test("for an app: only changed settings do", async () => {
		const put = (body: object) => world.request("PUT", `/app/${app.appId}`, { key: world.adminKey, body });
		expect((await put({ name: "app", expose_metadata: true })).status).toBe(200);
		expect(await entries()).toMatchObject([{ action: "app.update" }]);
		const [entry] = await entries();
		expect([entry?.before, entry?.after]).toEqual([{ expose_metadata: false }, { expose_metadata: true }]);
		const before = await databaseText();
		world.clock.nowMs += DAY_MS;
		expect(await put({ name: "app", expose_metadata: true })).toMatchObject({ status: 200, body: { name: "app" } });
		expect((await put({})).status).toBe(200);
		expect(await databaseText()).toBe(before);
	});

	test("for the default upload channel, set by the stock CLI", async () => {
		const patch = () =>
			world.request("PATCH", "/compat/capgo-cli/rest/v1/apps", {
				key: world.adminKey,
				query: { app_id: `eq.${app.appId}` },
				body: { default_upload_channel: "dev" },
			});
		await patch();
		const before = await databaseText();
		world.clock.nowMs += DAY_MS;
		expect((await patch()).status).toBe(204);
		expect(await databaseText()).toBe(before);
	});

	test("for promoting the current bundle", async () => {
		const id = await uploadTestBundle(world, app, "1.0.0");
		const channelId = await setTestChannel(world, app, "production", { version: "1.0.0" });
		const before = await databaseText();
		world.clock.nowMs += DAY_MS;
		const again = await world.request("PUT", "/bundle", {
			key: world.adminKey,
			body: { app_id: app.appId, version_id: id, channel_id: channelId },
		});
		expect(again).toMatchObject({ status: 200, body: { status: "success" } });
		expect(await databaseText()).toBe(before);
	});

	test("for a promotion: only the bundle, or also the rollout that it finishes, does", async () => {
		await uploadTestBundle(world, app, "1.0.0");
		const id = await uploadTestBundle(world, app, "1.1.0");
		const rollout = { rolloutVersion: "1.1.0", rolloutPercentage: 10, rolloutEnabled: true };
		const channelId = await setTestChannel(world, app, "production", { version: "1.0.0", ...rollout });
		await ignoreEarlier();
		await world.request("PUT", "/bundle", {
			key: world.adminKey,
			body: { app_id: app.appId, version_id: id, channel_id: channelId },
		});
		const [entry] = await entries("channel.promote");
		expect(entry?.before).toEqual({
			version: "1.0.0",
			rolloutVersion: "1.1.0",
			rolloutPercentageBps: 1000,
			rolloutEnabled: true,
		});
		expect(entry?.after).toEqual({
			version: "1.1.0",
			rolloutVersion: null,
			rolloutPercentageBps: 0,
			rolloutEnabled: false,
		});
	});

	test("for sending the same manifest again", async () => {
		await register(world, app, "1.0.0", world.adminKey);
		const location = locationOf(
			await tusCreate(world, world.adminKey, deltaName(world, app, "a_index.html"), bytes.length),
		);
		expect((await tusPatch(world, world.adminKey, location, 0, bytes)).status).toBe(204);
		const set = () =>
			world.request("POST", "/private/set_manifest", {
				key: world.adminKey,
				body: {
					app_id: app.appId,
					name: "1.0.0",
					manifest: [
						{ file_name: "index.html", s3_path: deltaName(world, app, "a_index.html"), file_hash: "ab".repeat(32) },
					],
				},
			});
		expect((await set()).status).toBe(200);
		expect((await set()).status).toBe(200);
		expect(await entries("bundle.set_manifest")).toMatchObject([{ after: { manifest_files: 1 } }]);
	});
});

describe("before shows the state that the change replaced, not an earlier read", () => {
	test("for a bundle that became ready just before it was deleted", async () => {
		const { body } = await register(world, app, "1.0.0", world.adminKey);
		const answer = await readThenWrite(
			world,
			(racing) =>
				racing.request("DELETE", "/bundle", { key: world.adminKey, query: { app_id: app.appId, version: "1.0.0" } }),
			() => putBytes(world, body.upload_url, bytes),
		);
		expect(answer.status).toBe(200);
		expect(await entries("bundle.delete")).toMatchObject([{ before: { status: "ready", size: bytes.length } }]);
	});

	test("for a channel that became public just before it was deleted", async () => {
		await setTestChannel(world, app, "next");
		const answer = await readThenWrite(
			world,
			(racing) =>
				racing.request("DELETE", "/channel", { key: world.adminKey, query: { app_id: app.appId, channel: "next" } }),
			() =>
				world.request("POST", "/channel", {
					key: world.adminKey,
					body: { app_id: app.appId, channel: "next", public: true },
				}),
		);
		expect(answer.status).toBe(200);
		expect(await entries("channel.delete")).toMatchObject([{ before: { public: true, version: null } }]);
	});

	test("for an app, with the amounts of what was deleted with it", async () => {
		await uploadTestBundle(world, app, "1.0.0");
		await setTestChannel(world, app, "production", { version: "1.0.0" });
		await world.request("DELETE", `/app/${app.appId}`, { key: world.adminKey });
		expect(await entries("app.delete")).toMatchObject([
			{ before: { name: "app", channel_count: 1, bundle_count: 1 }, after: null },
		]);
	});

	test("for a bundle that is deleted with its channel, like for one deleted alone", async () => {
		await uploadTestBundle(world, app, "1.0.0");
		await setTestChannel(world, app, "pr-1", { version: "1.0.0" });
		await world.request("DELETE", "/channel", {
			key: world.adminKey,
			query: { app_id: app.appId, channel: "pr-1", delete_bundle: "true" },
		});
		expect(await entries("bundle.delete")).toMatchObject([
			{ before: { version: "1.0.0", status: "ready" }, details: { with_channel: "pr-1" } },
		]);
	});
});

test("for an external bundle, without the query of its URL, which may be a signature", async () => {
	const zip = new Response(bytes, { headers: { "content-length": String(bytes.length) } });
	const online = await createWorld({ bindings: { fetch: async () => zip } });
	const theirs = await createTestApp(online);
	const { status } = await register(online, theirs, "1.0.0", online.adminKey, {
		external_url: "https://files.example.com/a.zip?X-Signature=s3cr3t",
	});
	expect(status).toBe(201);
	world = online;
	start = 0;
	const [entry] = await entries("bundle.register");
	expect(entry).toMatchObject({
		after: { version: "1.0.0", external_url: "https://files.example.com/a.zip", size: bytes.length },
	});
	expect(JSON.stringify(entry)).not.toContain("s3cr3t");
});

describe("a batch that fails in its last statement", () => {
	const changing = allEndpoints.filter((endpoint) => endpoint.method !== "GET" && !("public" in endpoint.access));

	const reached = new Set<string>();

	/** The world's D1, whose writing batches fail at an added last statement, after all others ran. */
	const poisoned = (fails: () => void) =>
		({
			withSession(constraint: D1SessionConstraint) {
				const session = testEnv.DB.withSession(constraint);
				let trips = 0;
				return {
					prepare: (text: string) => session.prepare(text),
					batch(statements: D1PreparedStatement[]) {
						trips += 1;
						if (trips === 1) return session.batch(statements);
						fails();
						return session.batch([...statements, session.prepare("SELECT json_extract('{}', 'end of the batch')")]);
					},
				};
			},
		}) as unknown as D1Database;

	test.each(changing.map((endpoint) => [`${endpoint.method} ${endpoint.path}`, endpoint] as const))(
		"of %s leaves neither the change nor an entry",
		async (name, endpoint) => {
			const { path, ...options } = (await REQUESTS[name]?.(world, app)) ?? { path: "" };
			let failed = 0;
			const d1 = poisoned(() => {
				failed += 1;
			});
			const faulty = requestThrough(createApp({ ...world.deps, d1 }));
			const before = await databaseText();
			const answer = await faulty(endpoint.method, path, { ...options, key: world.adminKey });
			expect(await databaseText()).toBe(before);
			expect(answer.status >= 500, `status ${answer.status}`).toBe(failed > 0);
			if (failed > 0) reached.add(name);
		},
	);

	test("was reached by every writing endpoint", () => {
		const writing = [
			"POST /app",
			"PUT /app/:app_id",
			"POST /channel",
			"PUT /bundle",
			"PUT /organization",
			"PUT /apikey/:id",
		];
		expect([...reached]).toEqual(expect.arrayContaining(writing));
		expect(reached.size).toBeGreaterThan(20);
	});
});
