/**
 * Quotas: what an account, an organization, an app and a key may hold. Each is tried from the
 * outside with a limit of a few; at the limit the next creation is 409 `quota_exceeded` and writes
 * nothing, 20 that come at once never exceed it, and deleting one makes room. What another
 * organization holds never counts.
 */
import { describe, expect, test } from "vitest";
import { ConfigError, parseConfig } from "../../../src/config";
import { query } from "../../../src/db/client";
import { DEFAULT_QUOTAS, QUOTA_NAMES, type QuotaName } from "../../../src/domain/quotas";
import { deltaName, locationOf, putBytes, register, rows, run, tusCreate, tusPatch, zipName } from "../support/bytes";
import {
	createTestApp,
	createTestKey,
	createTestMember,
	createWorld,
	setTestChannel,
	type TestApp,
	testEnv,
	uploadTestBundle,
	type World,
} from "../support/world";
import { bundleOf, testBundle } from "../support/zip";

const worldWith = (quotas: string) => createWorld({ config: { QUOTAS: quotas } });
// biome-ignore lint/suspicious/noExplicitAny: tests look into answers of every shape
type AnyAnswer = { readonly status: number; readonly body: any };

const exceeded = (quota: string, limit: number, used = limit) => ({
	status: 409,
	body: { error: "quota_exceeded", moreInfo: { quota, limit, used } },
});

/** Bytes have tests of their own. */
type FilledQuota = Exclude<QuotaName, "storage_bytes_per_organization">;

/** Ways to fill a quota of 3, each from its start: `create` adds one, `remove` deletes one. */
interface Filling {
	readonly begin: (world: World, app: TestApp) => Promise<Filler>;
	/** Number at the start. */
	readonly present?: number;
}
interface Filler {
	readonly create: (index: number) => Promise<AnyAnswer>;
	readonly remove?: (created: AnyAnswer) => Promise<AnyAnswer>;
}

const createChannel = (world: World, app: TestApp, index: number, key = world.adminKey) =>
	world.as(key)("POST /channel", { body: { app_id: app.appId, channel: `pr-${index}` } });

const FILLINGS: Readonly<Record<FilledQuota, Filling>> = {
	organizations_per_account: {
		present: 1,
		begin: async (world) => ({
			create: (index) => world.admin("PUT /organization", { body: { name: `organization ${index}` } }),
		}),
	},
	apps_per_organization: {
		present: 1,
		begin: async (world) => ({
			create: () =>
				world.admin("POST /app", {
					body: { app_id: `com.example.t${crypto.randomUUID()}`, name: "app", owner_org: world.orgId },
				}),
			remove: (created) => world.admin("DELETE /app/:app_id", { params: { app_id: created.body.app_id } }),
		}),
	},
	api_keys_per_organization: {
		present: 1,
		begin: async (world) => ({
			create: (index) =>
				world.admin("POST /apikey", { query: { org_id: world.orgId }, body: { name: `key ${index}`, hashed: true } }),
			remove: (created) => world.admin("DELETE /apikey/:id", { params: { id: created.body.id } }),
		}),
	},
	invitations_per_organization: {
		begin: async (world) => ({
			create: (index) =>
				world.admin("POST /organization/members", {
					body: { orgId: world.orgId, email: `i${index}.${world.userId}@example.com`, role: "org_member" },
				}),
			remove: (created) =>
				world.admin("DELETE /organization/members", { query: { orgId: world.orgId, email: created.body.email } }),
		}),
	},
	channels_per_app: {
		begin: async (world, app) => ({
			create: (index) => createChannel(world, app, index),
			remove: () => world.admin("DELETE /channel", { query: { app_id: app.appId, channel: "pr-0" } }),
		}),
	},
	previews_per_app: {
		begin: async (world, app) => ({
			create: (index) =>
				world.request("POST", "/preview", {
					key: world.adminKey,
					body: { app_id: app.appId, repository: "acme/shop", number: index + 1 },
					// The first requests for a repository conflict, and each reads again.
					mostTrips: 20,
				}),
		}),
	},
	preview_hooks_per_app: {
		begin: async (world, app) => ({
			create: () => world.admin("POST /preview/hook", { body: { app_id: app.appId, provider: "github" } }),
			remove: (created) => world.admin("DELETE /preview/hook", { query: { app_id: app.appId, id: created.body.id } }),
		}),
	},
	bundles_per_app: {
		begin: async (world, app) => ({
			create: (index) => register(world, app, `1.0.${index}`, world.adminKey),
			remove: () => world.admin("DELETE /bundle", { query: { app_id: app.appId, version: "1.0.0" } }),
		}),
	},
	open_uploads_per_app: {
		begin: async (world, app) => ({
			create: (index) => tusCreate(world, world.adminKey, deltaName(world, app, `file-${index}`), 10),
		}),
	},
	open_uploads_per_organization: {
		begin: async (world, app) => {
			const apps = [app, await createTestApp(world)];
			return {
				create: (index) =>
					tusCreate(world, world.adminKey, deltaName(world, apps[index % 2] ?? app, `file-${index}`), 10),
			};
		},
	},
	open_uploads_per_key: {
		begin: async (world, app) => {
			const key = await createTestKey(world, "app_uploader", app);
			return { create: (index) => register(world, app, `1.0.${index}`, key.text) };
		},
	},
	channels_per_preview_key: {
		begin: async (world, app) => {
			const key = await createTestKey(world, "app_preview", app);
			return {
				create: (index) => createChannel(world, app, index, key.text),
				remove: () => world.as(key.text)("DELETE /channel", { query: { app_id: app.appId, channel: "pr-0" } }),
			};
		},
	},
	bundles_per_preview_key: {
		begin: async (world, app) => {
			const key = await createTestKey(world, "app_preview", app);
			return { create: (index) => register(world, app, `1.0.${index}-pr`, key.text) };
		},
	},
	storage_bytes_per_preview_key: {
		begin: async (world, app) => {
			const key = await createTestKey(world, "app_preview", app);
			return {
				create: (index) => register(world, app, `1.0.${index}-pr`, key.text, { size: 1 }),
				remove: () => world.admin("DELETE /bundle", { query: { app_id: app.appId, version: "1.0.0-pr" } }),
			};
		},
	},
};

describe("a quota", () => {
	test.each(Object.entries(FILLINGS))("%s refuses only what exceeds it", async (name, filling) => {
		const present = filling.present ?? 0;
		const world = await worldWith(`${name}=${present + 3}`);
		const app = await createTestApp(world);
		const { create, remove } = await filling.begin(world, app);
		const neighbour = await createWorld();
		await setTestChannel(neighbour, await createTestApp(neighbour), "pr-0");
		// A key that `begin` made is there, too.
		const created: AnyAnswer[] = [];
		for (let index = 0; index < 3; index++) created.push(await create(index));
		expect(created.map(({ status }) => status)).toEqual([201, 201, 201]);
		const refused = await create(3);
		expect(refused).toMatchObject(exceeded(name, present + 3));
		expect(refused.body.message).toContain(`The quota ${name} is ${present + 3}`);
		if (remove === undefined) return;
		expect(await remove(created[0] as AnyAnswer)).toMatchObject({ status: 200 });
		expect((await create(4)).status, "the control").toBe(201);
	});

	test.each(Object.entries(FILLINGS))("%s holds against 20 concurrent requests", async (name, filling) => {
		const present = filling.present ?? 0;
		const world = await worldWith(`${name}=${present + 5}`);
		const { create } = await filling.begin(world, await createTestApp(world));
		const answers = await Promise.all(Array.from({ length: 20 }, (_, index) => create(index)));
		expect(answers.filter(({ status }) => status === 201)).toHaveLength(5);
		const others = answers.filter(({ status }) => status !== 201);
		expect(new Set(others.map(({ body }) => body.error))).toEqual(new Set(["quota_exceeded"]));
	});

	test("of channels applies to the stock CLI, whose output has the remedy", async () => {
		const world = await worldWith("channels_per_app=1,bundles_per_app=1");
		const app = await createTestApp(world);
		await setTestChannel(world, app, "production");
		const compat = "/compat/capgo-cli";
		expect(await createChannel(world, app, 1)).toMatchObject(exceeded("channels_per_app", 1));
		const insert = (name: string) =>
			world.request("POST", `${compat}/rest/v1/app_versions`, {
				key: world.adminKey,
				body: { app_id: app.appId, name, storage_provider: "r2-direct" },
			});
		expect((await insert("1.0.0")).status).toBe(201);
		const bundle = await insert("1.0.1");
		expect(bundle).toMatchObject(exceeded("bundles_per_app", 1));
		expect(bundle.body.message).toContain("delete unused bundles");
	});

	test("of keys counts the key that an invitation creates", async () => {
		const world = await worldWith("api_keys_per_organization=2");
		await createTestMember(world, "org_member");
		await expect(createTestMember(world, "org_member")).rejects.toThrow("quota_exceeded");
	});

	test("of a preview key is separate for each key", async () => {
		const world = await worldWith("channels_per_preview_key=1");
		const app = await createTestApp(world);
		const [one, other] = [
			await createTestKey(world, "app_preview", app),
			await createTestKey(world, "app_preview", app),
		];
		expect((await createChannel(world, app, 0, one.text)).status).toBe(201);
		expect(await createChannel(world, app, 1, one.text)).toMatchObject(exceeded("channels_per_preview_key", 1));
		expect((await createChannel(world, app, 1, other.text)).status).toBe(201);
		for (let index = 2; index < 5; index++) expect((await createChannel(world, app, index)).status).toBe(201);
	});
});

describe("the quota of a preview key's bytes", () => {
	test("counts resumable uploads without an announced size, separately for each caller", async () => {
		const world = await worldWith("storage_bytes_per_preview_key=100");
		const app = await createTestApp(world);
		const ci = await createTestKey(world, "app_preview", app);
		await register(world, app, "1.0.0-pr", ci.text);
		const begin = (name: string, length: number, key = ci.text) => tusCreate(world, key, name, length);
		expect((await begin(zipName(world, app, "1.0.0-pr"), 60)).status).toBe(201);
		expect((await begin(deltaName(world, app, "a.js"), 30)).status).toBe(201);
		const full = exceeded("storage_bytes_per_preview_key", 100, 90);
		expect(await begin(deltaName(world, app, "b.js"), 11)).toMatchObject({ status: 409 });
		expect(await register(world, app, "1.0.1-pr", ci.text, { size: 11 })).toMatchObject(full);
		expect((await register(world, app, "1.0.1-pr", ci.text, { size: 10 })).status, "the control").toBe(201);
		const developer = await createTestKey(world, "app_developer", app);
		const other = await createTestKey(world, "app_preview", app);
		expect((await register(world, app, "1.0.2", developer.text, { size: 500 })).status).toBe(201);
		expect((await begin(deltaName(world, app, "c.js"), 500, developer.text)).status).toBe(201);
		expect((await register(world, app, "1.0.3-pr", other.text, { size: 100 })).status).toBe(201);
	});
});

describe("the quota of stored bytes", () => {
	const SIZE = testBundle("1.0.0").length;

	test("counts open uploads of every kind exactly", async () => {
		const world = await worldWith(`storage_bytes_per_organization=${3 * SIZE}`);
		const app = await createTestApp(world);
		await uploadTestBundle(world, app, "1.0.0");
		const second = await register(world, app, "1.0.1", world.adminKey, { size: SIZE });
		expect(second.status).toBe(201);
		const begun = await tusCreate(world, world.adminKey, deltaName(world, app, "a.js"), SIZE);
		const used = exceeded("storage_bytes_per_organization", 3 * SIZE);
		expect(await register(world, app, "1.0.2", world.adminKey, { size: 1 })).toMatchObject(used);
		expect(await tusCreate(world, world.adminKey, deltaName(world, app, "b.js"), 1)).toMatchObject({ status: 409 });
		// Bytes that were counted before they were sent count as much once they are stored.
		const content = bundleOf(SIZE);
		const sent = await tusPatch(world, world.adminKey, locationOf(begun), 0, new Uint8Array(SIZE));
		expect(sent.status).toBe(204);
		expect(await putBytes(world, second.body.upload_url, testBundle("1.0.1"))).toMatchObject({ status: 200 });
		expect(content.length).toBeGreaterThan(0);
		expect(await storedBytes(app)).toBe(3 * SIZE);
		await world.admin("DELETE /bundle", { query: { app_id: app.appId, version: "1.0.0" } });
		expect(await storedBytes(app)).toBe(2 * SIZE);
		expect((await register(world, app, "1.0.2", world.adminKey, { size: SIZE })).status, "the control").toBe(201);
	});

	test("holds without an announced size, by link and by resumable upload", async () => {
		const world = await worldWith(`storage_bytes_per_organization=${SIZE}`);
		const app = await createTestApp(world);
		const [small, large] = [
			await register(world, app, "1.0.0", world.adminKey),
			await register(world, app, "1.0.1", world.adminKey),
		];
		expect(await putBytes(world, large.body.upload_url, bundleOf(SIZE + 500))).toMatchObject(
			exceeded("storage_bytes_per_organization", SIZE, 0),
		);
		expect(await storedBytes(app)).toBe(0);
		expect(await rows(query.selectFrom("bundles").select("name").where("app_id", "=", app.uuid))).toEqual([
			{ name: "1.0.0" },
		]);
		await register(world, app, "1.0.2", world.adminKey);
		const tus = (length: number) => tusCreate(world, world.adminKey, zipName(world, app, "1.0.2"), length);
		expect(await tus(SIZE + 1)).toMatchObject({ status: 409 });
		expect((await tus(SIZE)).status).toBe(201);
		// An upload that is begun again gives up what the earlier one had reserved.
		expect((await tus(SIZE)).status).toBe(201);
		expect(await storedBytes(app)).toBe(SIZE);
		expect(await putBytes(world, small.body.upload_url, testBundle("1.0.0"))).toMatchObject({ status: 409 });
	});

	test("counts a deleted app until its id is released", async () => {
		const world = await worldWith(`storage_bytes_per_organization=${SIZE}`);
		const app = await createTestApp(world);
		await uploadTestBundle(world, app, "1.0.0");
		await world.admin("DELETE /app/:app_id", { params: { app_id: app.appId } });
		const next = await createTestApp(world);
		expect(await register(world, next, "1.0.0", world.adminKey, { size: SIZE })).toMatchObject(
			exceeded("storage_bytes_per_organization", SIZE),
		);
		await world.admin("DELETE /app/reservation", { query: { app_id: app.appId } });
		expect((await register(world, next, "1.0.0", world.adminKey, { size: SIZE })).status).toBe(201);
	});

	test("holds against 20 concurrent registrations", async () => {
		const world = await worldWith("storage_bytes_per_organization=1000");
		const app = await createTestApp(world);
		const answers = await Promise.all(
			Array.from({ length: 20 }, (_, index) => register(world, app, `1.0.${index}`, world.adminKey, { size: 300 })),
		);
		expect(answers.filter(({ status }) => status === 201)).toHaveLength(3);
		expect(await storedBytes(app)).toBe(900);
	});

	test("excludes external bundles and other organizations", async () => {
		const world = await worldWith("storage_bytes_per_organization=10");
		const app = await createTestApp(world);
		await run(
			query.insertInto("bundles").values({
				app_id: app.uuid,
				name: "9.0.0",
				status: "ready",
				storage_provider: "external",
				size_bytes: 1000,
				created_by: "x",
				created_at_ms: 1,
				updated_at_ms: 1,
			} as never),
		);
		const neighbour = await createWorld();
		await uploadTestBundle(neighbour, await createTestApp(neighbour), "1.0.0");
		expect((await register(world, app, "1.0.0", world.adminKey, { size: 10 })).status).toBe(201);
	});
});

const storedBytes = async (app: TestApp) =>
	(await rows(query.selectFrom("apps").select("storage_bytes").where("id", "=", app.uuid)))[0]?.storage_bytes;

describe("the variable QUOTAS", () => {
	test("changes only the quotas that it names", () => {
		const { quotas } = parseConfig({ ...testEnv, QUOTAS: " channels_per_app = 12 ,bundles_per_app=0" } as never);
		expect(quotas).toEqual({ ...DEFAULT_QUOTAS, channels_per_app: 12, bundles_per_app: 0 });
		expect(QUOTA_NAMES).toHaveLength(Object.keys(FILLINGS).length + 1);
	});

	test.each(["channels=5", "channels_per_app", "channels_per_app=many", "channels_per_app=-1"])(
		"refuses %s and names the quotas",
		(text) => {
			expect(() => parseConfig({ ...testEnv, QUOTAS: text } as never)).toThrow(ConfigError);
		},
	);
});
