/**
 * Every operation of the description that Capgo publishes of its API, with its variants: each is
 * answered, its effect is the described one, and the answer has the fields that its clients read.
 * The requests and shapes are written in our own words.
 */

import * as v from "valibot";
import { beforeAll, describe, expect, test } from "vitest";
import { type CapgoScene, createCapgoScene, problemOf, RECORDS } from "../support/capgo-api-scene";
import type { Answer, RequestOptions } from "../support/scene";

let scene: CapgoScene;
beforeAll(async () => {
	scene = await createCapgoScene();
});

const fresh = (name: string) => `${name} ${crypto.randomUUID().slice(0, 8)}`;
const freshId = () => `com.example.c${crypto.randomUUID().slice(0, 8)}`;

// biome-ignore lint/suspicious/noExplicitAny: tests look into answers of every shape
type Body = any;
interface Operation {
	readonly request: () => Promise<{ path: string } & RequestOptions> | ({ path: string } & RequestOptions);
	readonly shape: v.GenericSchema;
	/** Checks the effect of the request. */
	readonly effect?: (answer: Answer<Body>, sent: Body) => Promise<void> | void;
}

const ofOrg = () => ({ orgId: scene.world.orgId });
const ofApp = () => ({ app_id: scene.app.appId });
const read = async (path: string, query: Record<string, string> = {}) =>
	(await scene.send("GET", path, { query })).body;
const organization = (orgId: string) => read("/organization", { orgId });
const channel = (name: string) => read("/channel", { ...ofApp(), channel: name });
const days = { from: "2026-11-01", to: "2026-11-21" };

async function invited(): Promise<string> {
	const email = `${crypto.randomUUID().slice(0, 8)}@example.com`;
	await scene.send("POST", "/organization/members", { body: { ...ofOrg(), email, role: "read" } });
	return email;
}

async function madeApp(): Promise<string> {
	const app_id = freshId();
	await scene.send("POST", "/app", { body: { app_id, name: "Made", owner_org: scene.world.orgId } });
	return app_id;
}

const EXPECTED_ROLES: Readonly<Record<string, string>> = {
	admin: "org_admin",
	super_admin: "org_super_admin",
	org_billing_admin: "org_billing_admin",
};

const OPERATIONS: Readonly<Record<string, Operation>> = {
	"GET /organization/": { request: () => ({ path: "/organization/" }), shape: v.array(RECORDS.organization) },
	"GET /organization/ of one": {
		request: () => ({ path: "/organization/", query: ofOrg() }),
		shape: RECORDS.organization,
	},
	"POST /organization/ creates": {
		request: () => ({ path: "/organization/", body: { name: fresh("Made") } }),
		shape: v.looseObject({ status: v.string(), id: v.string() }),
		effect: async ({ body }, sent) => expect((await organization(body.id)).name).toBe(sent.name),
	},
	"PUT /organization/ changes": {
		request: () => ({
			path: "/organization/",
			body: {
				...ofOrg(),
				name: fresh("Renamed"),
				management_email: "new@example.com",
				logo: "https://example.com/l.png",
			},
		}),
		shape: v.looseObject({ status: v.string(), id: v.string(), data: RECORDS.organization }),
		async effect(_, { orgId: _id, ...fields }) {
			expect(await organization(scene.world.orgId)).toMatchObject(fields);
		},
	},
	"DELETE /organization/": {
		async request() {
			const made = await scene.send("POST", "/organization", { body: { name: fresh("Doomed") } });
			return { path: "/organization/", query: { orgId: made.body.id } };
		},
		shape: RECORDS.status,
		async effect(_, { orgId }) {
			expect((await scene.send("GET", "/organization", { query: { orgId } })).status).toBe(404);
		},
	},
	"GET /organization/members/": {
		request: () => ({ path: "/organization/members/", query: ofOrg() }),
		shape: v.array(RECORDS.member),
	},
	...Object.fromEntries(
		["read", "upload", "write", "admin", "super_admin", "org_billing_admin"].map((role) => [
			`POST /organization/members/ as ${role}`,
			{
				request: () => ({
					path: "/organization/members/",
					body: { ...ofOrg(), email: `${crypto.randomUUID().slice(0, 8)}@example.com`, role },
				}),
				shape: RECORDS.status,
				async effect(_: Answer<Body>, { email }: Body) {
					const members = await read("/organization/members", ofOrg());
					const expected = EXPECTED_ROLES[role] ?? "org_member";
					expect(members).toContainEqual(expect.objectContaining({ email, role: expected }));
				},
			},
		]),
	),
	"DELETE /organization/members/": {
		request: async () => ({ path: "/organization/members/", body: { ...ofOrg(), email: await invited() } }),
		shape: RECORDS.status,
		async effect(_, { email }) {
			const members: { email: string }[] = await read("/organization/members", ofOrg());
			expect(members.map((member) => member.email)).not.toContain(email);
		},
	},
	"GET /app/": {
		request: () => ({ path: "/app/", query: { org_id: scene.world.orgId, page: "0", limit: "100" } }),
		shape: v.array(RECORDS.app),
	},
	"POST /app/": {
		request: () => ({
			path: "/app/",
			body: { app_id: freshId(), name: "New", icon: "https://example.com/i.png", owner_org: scene.world.orgId },
		}),
		shape: RECORDS.app,
		async effect(_, { app_id, icon }) {
			expect(await read(`/app/${app_id}`)).toMatchObject({ app_id, icon_url: icon });
		},
	},
	"GET /app/{appId}": { request: () => ({ path: `/app/${scene.app.appId}` }), shape: RECORDS.app },
	"PUT /app/{appId}": {
		request: () => ({
			path: `/app/${scene.app.appId}`,
			body: { name: fresh("App"), icon: "https://example.com/new.png", retention: 2_592_000 },
		}),
		shape: RECORDS.app,
		async effect(_, { name, icon }) {
			expect(await read(`/app/${scene.app.appId}`)).toMatchObject({ name, icon_url: icon });
		},
	},
	"DELETE /app/{appId}": {
		request: async () => ({ path: `/app/${await madeApp()}` }),
		shape: RECORDS.status,
	},
	"GET /apikey/": { request: () => ({ path: "/apikey/" }), shape: v.array(RECORDS.key) },
	...Object.fromEntries(
		["read", "upload", "write", "all"].map((mode) => [
			`POST /apikey/ with the mode ${mode}`,
			{
				request: () => ({
					path: "/apikey/",
					body: {
						name: fresh(mode),
						mode,
						limited_to_apps: [scene.app.appId],
						limited_to_orgs: [scene.world.orgId],
						hashed: true,
						expires_at: "2027-01-01T00:00:00Z",
					},
				}),
				shape: v.looseObject({ apikey: RECORDS.key }),
				async effect({ body }: Answer<Body>) {
					const { key } = body.apikey;
					const use = (method: string, path: string, options: RequestOptions = {}) =>
						scene.world.request(method, path, { ...options, key });
					expect(body.apikey).toMatchObject({
						mode,
						limited_to_apps: [scene.app.appId],
						expires_at: "2027-01-01T00:00:00.000Z",
					});
					expect((await use("GET", "/bundle", { query: ofApp() })).status).toBe(200);
					const mayUpload = await use("POST", "/bundle", { body: { ...ofApp(), version: `9.0.${Date.now() % 1e6}` } });
					expect(mayUpload.status).toBe(mode === "read" ? 403 : 201);
					const maySet = await use("POST", "/channel", { body: { ...ofApp(), channel: "beta", allow_dev: false } });
					await scene.send("POST", "/channel", { body: { ...ofApp(), channel: "beta", allow_dev: true } });
					expect(maySet.status).toBe(["write", "all"].includes(mode) ? 200 : 403);
				},
			},
		]),
	),
	"DELETE /apikey/{id}/": {
		async request() {
			const made = await scene.send("POST", "/apikey", { body: { mode: "read" } });
			return { path: `/apikey/${made.body.apikey.id}/` };
		},
		shape: v.looseObject({ success: v.literal(true) }),
	},
	"GET /channel/": { request: () => ({ path: "/channel/", query: ofApp() }), shape: v.array(RECORDS.channel) },
	"GET /channel/ of one": {
		request: () => ({ path: "/channel/", query: { ...ofApp(), channel: "production" } }),
		shape: RECORDS.channel,
	},
	"POST /channel/": {
		request: () => ({
			path: "/channel/",
			body: {
				...ofApp(),
				channel: fresh("made"),
				version: "1.0.0",
				public: false,
				ios: true,
				android: true,
				electron: false,
				disableAutoUpdateUnderNative: false,
				disableAutoUpdate: "minor",
				allow_device_self_set: true,
				allow_emulator: false,
				allow_dev: false,
			},
		}),
		shape: RECORDS.status,
		async effect(_, { channel: name, version, app_id: _app, ...fields }) {
			expect(await channel(name)).toMatchObject({ name, version: { name: version }, ...fields });
		},
	},
	"DELETE /channel/": {
		async request() {
			const name = fresh("doomed");
			await scene.send("POST", "/channel", { body: { ...ofApp(), channel: name } });
			return { path: "/channel/", body: { ...ofApp(), channel: name } };
		},
		shape: RECORDS.status,
		async effect(_, { channel: name }) {
			expect((await channel(name)).error).toBe("channel_not_found");
		},
	},
	"GET /device/": {
		request: () => ({ path: "/device/", query: { ...ofApp(), limit: "10" } }),
		shape: v.looseObject({ data: v.array(RECORDS.device), hasMore: v.boolean() }),
	},
	"GET /device/ of one": {
		request: () => ({ path: "/device/", query: { ...ofApp(), device_id: scene.deviceId } }),
		shape: RECORDS.device,
	},
	"POST /device/ to a channel": {
		request: () => ({ path: "/device/", body: { ...ofApp(), device_id: scene.deviceId, channel: "beta" } }),
		shape: RECORDS.status,
		async effect() {
			expect(await read("/device", { ...ofApp(), device_id: scene.deviceId })).toMatchObject({ channel: "beta" });
		},
	},
	"POST /device/ to a version": {
		request: () => ({ path: "/device/", body: { ...ofApp(), device_id: scene.deviceId, version_id: "1.1.0" } }),
		shape: RECORDS.status,
		async effect() {
			const device = await read("/device", { ...ofApp(), device_id: scene.deviceId });
			expect(device.override_version).toBe("1.1.0");
		},
	},
	"DELETE /device/": {
		request: () => ({ path: "/device/", body: { ...ofApp(), device_id: scene.deviceId } }),
		shape: RECORDS.status,
		async effect() {
			const device = await read("/device", { ...ofApp(), device_id: scene.deviceId });
			expect(device).toMatchObject({ override_channel: null, override_version: null });
		},
	},
	"GET /bundle/": {
		request: () => ({ path: "/bundle/", query: { ...ofApp(), page: "0" } }),
		shape: v.array(RECORDS.bundle),
	},
	"POST /bundle/": {
		request: () => ({
			path: "/bundle/",
			body: { ...ofApp(), version: "2.0.0", external_url: scene.file.url, checksum: scene.file.checksum },
		}),
		shape: v.looseObject({ status: v.literal("success"), bundle: RECORDS.bundle }),
		async effect() {
			const bundles: { name: string; external_url: string }[] = await read("/bundle", ofApp());
			expect(bundles.find(({ name }) => name === "2.0.0")?.external_url).toBe(scene.file.url);
		},
	},
	"PUT /bundle/": {
		request: () => ({
			path: "/bundle/",
			body: { ...ofApp(), version_id: scene.bundles.second, channel_id: scene.channels.production },
		}),
		shape: v.looseObject({ status: v.literal("success"), message: v.string() }),
		effect: async () => expect((await channel("production")).version.name).toBe("1.1.0"),
	},
	"DELETE /bundle/ of one": {
		async request() {
			const body = { ...ofApp(), version: "3.0.0", external_url: scene.file.url };
			await scene.send("POST", "/bundle", { body });
			return { path: "/bundle/", body: { ...ofApp(), version: "3.0.0" } };
		},
		shape: RECORDS.status,
		async effect() {
			const bundles: { name: string }[] = await read("/bundle", ofApp());
			expect(bundles.map(({ name }) => name)).not.toContain("3.0.0");
		},
	},
	"POST /bundle/metadata": {
		request: () => ({
			path: "/bundle/metadata",
			body: {
				...{ ...ofApp(), version_id: scene.bundles.second, link: "https://example.com/notes" },
				comment: "Less waiting at the start",
			},
		}),
		shape: RECORDS.status,
		async effect(_, { link, comment }) {
			const bundles: { id: number }[] = await read("/bundle", ofApp());
			expect(bundles.find(({ id }) => id === scene.bundles.second)).toMatchObject({ link, comment });
		},
	},
	"GET /statistics/app/{appId}/": {
		request: () => ({ path: `/statistics/app/${scene.app.appId}/`, query: days }),
		shape: v.array(RECORDS.day),
	},
	"GET /statistics/app/{appId}/bundle_usage": {
		request: () => ({ path: `/statistics/app/${scene.app.appId}/bundle_usage`, query: days }),
		shape: RECORDS.usage,
	},
	"GET /statistics/org/{orgId}/": {
		request: () => ({ path: `/statistics/org/${scene.world.orgId}/`, query: { ...days, noAccumulate: "true" } }),
		shape: v.array(RECORDS.day),
	},
	"GET /statistics/org/{orgId}/ by app": {
		request: () => ({ path: `/statistics/org/${scene.world.orgId}/`, query: { ...days, breakdown: "true" } }),
		shape: v.looseObject({
			global: v.array(RECORDS.day),
			byApp: v.array(v.looseObject({ ...RECORDS.day.entries, app_id: v.string() })),
		}),
	},
	"GET /statistics/user/": { request: () => ({ path: "/statistics/user/", query: days }), shape: v.array(RECORDS.day) },
	// Last, because it leaves only what channels serve.
	"DELETE /bundle/ of all": {
		request: () => ({ path: "/bundle/", body: ofApp() }),
		shape: RECORDS.status,
		async effect() {
			const bundles: { channels: string[] }[] = await read("/bundle", ofApp());
			expect(bundles.length).toBeGreaterThan(0);
			expect((await channel("production")).version.name).toBe("1.1.0");
		},
	},
};

describe("the description of Capgo's API", () => {
	test("has 36 operations and variants of them", () => {
		const variants = Object.keys(OPERATIONS).map((name) => name.replace(/ (as|with the mode) .*/, ""));
		expect(new Set(variants).size).toBe(36);
	});

	test.each(Object.entries(OPERATIONS))("%s is answered, in its shape and with its effect", async (name, operation) => {
		const [method = ""] = name.split(" ");
		const { path, ...options } = await operation.request();
		const answer = await scene.send(method, path, options);
		expect([200, 201], JSON.stringify(answer.body)).toContain(answer.status);
		expect(problemOf(operation.shape, answer.body)).toBeUndefined();
		expect(answer.headers.get("x-ignored-fields")).toBeNull();
		await operation.effect?.(answer, options.body ?? options.query);
	});
});
