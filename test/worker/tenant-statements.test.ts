/**
 * Every statement that changes or guards rows holds its tenant and its thing by itself, whatever the layers above it have checked: run
 * here directly, with one tenant's id beside another's thing, and beside a thing that is not there. The control is the right pair.
 */
import type { CompiledQuery, Expression, SqlBool } from "kysely";
import { sql } from "kysely";
import { beforeAll, describe, expect, test } from "vitest";
import type { AppId, ChannelId, OrgId } from "../../src/authz/decide";
import { hashKey } from "../../src/authz/keys";
import {
	apiKeyExists,
	apiKeyNoStronger,
	apiKeyRecord,
	apiKeyUnchanged,
	appsAreOf,
	callerUnchanged,
	deleteApiKey,
	deleteBindings,
	insertChannelBinding,
	isBoundIn,
	updateApiKey,
} from "../../src/db/api-keys";
import { appIsLive, appRecord, appUuidsInOrg, appUuidsInOrgOfKey, updateApp } from "../../src/db/apps";
import {
	bundleIsLive,
	bundleIsPending,
	bundleIsReady,
	bundleRecord,
	deleteUnusedBundles,
	dropPendingBundle,
	markBundleDeleted,
	updateBundle,
} from "../../src/db/bundles";
import {
	bundleUnusedExceptBy,
	channelDiffers,
	channelExists,
	channelPlatformsAre,
	channelStillPointsTo,
	deleteChannel,
	updateChannel,
	yieldPublicPlatforms,
} from "../../src/db/channels";
import { openDb, query } from "../../src/db/client";
import {
	claimDeltaObject,
	hasManifest,
	manifestIsNewOrHas,
	manifestIsNewOrHolds,
	manifestIsSetOrBundleUnused,
	manifestIsStored,
	setDeleteMark,
} from "../../src/db/compat";
import { deleteApp } from "../../src/db/deleted-apps";
import { changeInvitation, deleteInvitation, invitationIs } from "../../src/db/invitations";
import {
	markOrganizationDeleted,
	organizationIsLive,
	organizationIsRestorable,
	policiesAre,
	restoreOrganization,
	updateOrganization,
} from "../../src/db/organizations";
import {
	bytesOfBundleToGarbage,
	completeUpload,
	deleteOpenUploadsOfBundle,
	insertUploadForNewBundle,
	redundantDeltaObjectToGarbage,
	uploadExists,
	uploadIsOpen,
	uploadsOfBundleToGarbage,
} from "../../src/db/uploads";
import { databaseText } from "./support/database-text";
import {
	createTestApp,
	createTestKey,
	createWorld,
	NOW_MS,
	setTestChannel,
	testEnv,
	uploadTestBundle,
} from "./support/world";

/** In the path of a file without bytes. */
const HASH_OF_NOTHING = "cd372fb85148700fa88095e3492d3f9f5beb43e555e5ff26d95f5a6adc36f8e6";

/** Ids of a tenant, and of one thing of each kind in it. All of them exist, in both tenants. */
interface Tenant {
	readonly org: OrgId;
	readonly app: AppId;
	readonly publicAppId: string;
	readonly user: string;
	readonly key: string;
	/** Of the key's secret. */
	readonly secretHash: string;
	readonly binding: string;
	/** Used by the channel. */
	readonly bundle: number;
	/** Ready and used by nothing. */
	readonly unused: number;
	readonly unusedName: string;
	readonly pending: number;
	readonly pendingName: string;
	readonly upload: string;
	readonly channel: ChannelId;
	readonly channelName: string;
	readonly invitation: string;
	readonly email: string;
	readonly file: string;
	readonly manifest: string;
	readonly withManifest: number;
}

let names = 0;

async function createTenant(): Promise<Tenant> {
	const world = await createWorld();
	const app = await createTestApp(world);
	names += 1;
	const channelName = `channel-${names}`;
	const bundle = await uploadTestBundle(world, app, `1.0.${names}`);
	const unused = await uploadTestBundle(world, app, `2.0.${names}`);
	const pending = await world.request("POST", "/bundle", {
		key: world.adminKey,
		body: { app_id: app.appId, version: `3.0.${names}` },
	});
	const channel = await setTestChannel(world, app, channelName, { version: `1.0.${names}`, public: true });
	const key = await createTestKey(world, "app_preview", app);
	const email = `tenant.${names}@example.com`;
	await world.request("POST", "/organization/members", {
		key: world.adminKey,
		body: { orgId: world.orgId, email, role: "org_member" },
	});
	const file = `orgs/${world.orgId}/apps/${app.appId}/delta/${HASH_OF_NOTHING}_${names}`;
	await world.request("POST", "/files/upload/attachments", {
		key: world.adminKey,
		headers: { "tus-resumable": "1.0.0", "upload-length": "0", "upload-metadata": `filename ${btoa(file)}` },
	});
	await world.request("POST", "/bundle", {
		key: world.adminKey,
		body: { app_id: app.appId, version: `4.0.${names}` },
	});
	const manifest = [{ file_name: "index.html", s3_path: file, file_hash: "ab" }];
	const set = await world.request("POST", "/private/set_manifest", {
		key: world.adminKey,
		body: { app_id: app.appId, name: `4.0.${names}`, manifest },
	});
	if (set.status !== 200) throw new Error(JSON.stringify(set.body));
	const idOf = async (text: string, ...values: (string | number)[]) => {
		const row = await testEnv.DB.prepare(text)
			.bind(...values)
			.first<{ id: never }>();
		if (row === null) throw new Error(`${text} finds nothing`);
		return row.id;
	};
	return {
		org: world.orgId as OrgId,
		app: app.uuid as AppId,
		publicAppId: app.appId,
		user: world.userId,
		key: key.id,
		secretHash: hashKey(key.text),
		binding: await idOf("SELECT id FROM role_bindings WHERE api_key_id = ?", key.id),
		bundle,
		unused,
		unusedName: `2.0.${names}`,
		pending: pending.body.id,
		pendingName: `3.0.${names}`,
		upload: await idOf("SELECT id FROM uploads WHERE bundle_id = ? AND completed_at_ms IS NULL", pending.body.id),
		channel: channel as ChannelId,
		channelName,
		invitation: await idOf("SELECT id FROM invitations WHERE email = ?", email),
		email,
		file: await testEnv.DB.prepare("SELECT path AS id FROM delta_objects WHERE app_id = ?")
			.bind(app.uuid)
			.first<{ id: string }>()
			.then((row) => row?.id ?? ""),
		manifest: JSON.stringify(manifest),
		withManifest: await idOf("SELECT bundle_id AS id FROM bundle_files WHERE app_id = ?", app.uuid),
	};
}

type Thing = Omit<Tenant, "org" | "app" | "user">;

/** Names nothing: no row has these. */
const ABSENT: Thing = {
	publicAppId: "com.example.absent",
	key: crypto.randomUUID(),
	secretHash: "absent",
	binding: crypto.randomUUID(),
	bundle: 987_654_321,
	unused: 987_654_321,
	unusedName: "9.9.9",
	pending: 987_654_321,
	pendingName: "9.9.9",
	upload: crypto.randomUUID(),
	channel: 987_654_321 as ChannelId,
	channelName: "absent",
	invitation: crypto.randomUUID(),
	email: "absent@example.com",
	file: "absent",
	manifest: JSON.stringify([{ file_name: "a.js", s3_path: "absent", file_hash: "ab" }]),
	withManifest: 987_654_321,
};

const run = (statements: readonly CompiledQuery[]) => openDb(testEnv.DB, "first-primary").batch(statements);
const LATER_MS = NOW_MS + 1;
const UPLOAD = {
	object_prefix: "prefix/",
	created_by: "x",
	created_by_key: "x",
	expires_at_ms: LATER_MS,
	created_at_ms: NOW_MS,
};

/** What changes the tenant's thing. */
const CHANGES: Readonly<Record<string, (of: Tenant, thing: Thing) => CompiledQuery | CompiledQuery[]>> = {
	updateBundle: (of, { unused }) => updateBundle(of.app, unused, { comment: "changed" }),
	markBundleDeleted: (of, { withManifest }) => markBundleDeleted(of.app, withManifest, LATER_MS),
	dropPendingBundle: (of, { pending }) => dropPendingBundle(of.app, pending),
	setDeleteMark: (of, { unused }) => setDeleteMark(of.app, [unused], LATER_MS),
	bytesOfBundleToGarbage: (of, { unused }) => bytesOfBundleToGarbage(of.app, unused, LATER_MS),
	uploadsOfBundleToGarbage: (of, { pending }) => uploadsOfBundleToGarbage(of.app, pending, LATER_MS),
	deleteOpenUploadsOfBundle: (of, { pending }) => deleteOpenUploadsOfBundle(of.app, pending),
	completeUpload: (of, { upload }) => completeUpload(of.app, upload, LATER_MS),
	insertUploadForNewBundle: (of, { pendingName }) =>
		insertUploadForNewBundle(of.app, pendingName, { id: crypto.randomUUID(), ...UPLOAD }),
	claimDeltaObject: (of, { file, key }) => claimDeltaObject(of.app, file, key, LATER_MS),
	updateChannel: (of, { channel }) => updateChannel(of.app, channel, { allow_dev: 0 }, LATER_MS),
	deleteChannel: (of, { channel }) => deleteChannel(of.app, channel),
	updateApiKey: (of, { key }) => updateApiKey(of.org, key, { name: "changed" }),
	deleteApiKey: (of, { key }) => deleteApiKey(of.org, key),
	"deleteBindings, by key": (of, { key, binding }) => deleteBindings(of.org, key, [binding]),
	changeInvitation: (of, { invitation }) =>
		changeInvitation(of.org, invitation, { role_name: "org_admin", invited_by: of.user, token_hash: "new" }),
	deleteInvitation: (of, { email }) => deleteInvitation(of.org, email),
};

/** What changes the tenant itself, or all that it has. */
const CHANGES_OF_ALL: Readonly<Record<string, (of: Tenant) => CompiledQuery | CompiledQuery[]>> = {
	updateApp: (of) => updateApp(of.app, { name: "changed" }),
	deleteApp: (of) => deleteApp(of.org, of.app, crypto.randomUUID(), "Test", LATER_MS),
	yieldPublicPlatforms: (of) => yieldPublicPlatforms(of.app, "other", { ios: 1, android: 1, electron: 1 }, LATER_MS),
	deleteUnusedBundles: (of) =>
		deleteUnusedBundles(of.app, LATER_MS, (doomed) => sql`SELECT id FROM bundles WHERE ${doomed}`.compile(query)),
	updateOrganization: (of) => updateOrganization(of.org, { name: "changed" }),
	markOrganizationDeleted: (of) => markOrganizationDeleted(of.org, LATER_MS),
};

/** What must hold of the tenant's thing alone. */
const GUARDS: Readonly<Record<string, (of: Tenant, thing: Thing) => Expression<SqlBool>>> = {
	bundleIsReady: (of, { bundle }) => bundleIsReady(of.app, bundle),
	bundleIsLive: (of, { bundle }) => bundleIsLive(of.app, bundle),
	bundleIsPending: (of, { pending }) => bundleIsPending(of.app, pending),
	channelDiffers: (of, { channel }) => channelDiffers(of.app, channel, { name: "another" } as never),
	channelExists: (of, { channel }) => channelExists(of.app, channel),
	channelStillPointsTo: (of, { channel, bundle }) => channelStillPointsTo(of.app, channel, bundle, null),
	channelPlatformsAre: (of, { channel }) =>
		channelPlatformsAre(of.app, channel, { public: 1, ios: 1, android: 1, electron: 1 }),
	"bundleUnusedExceptBy, inverted": (of, { bundle }) => sql<boolean>`NOT ${bundleUnusedExceptBy(of.app, bundle, 0)}`,
	uploadExists: (of, { upload }) => uploadExists(of.app, upload),
	uploadIsOpen: (of, { upload }) => uploadIsOpen(of.app, upload),
	manifestIsStored: (of, { manifest, key }) => manifestIsStored(of.app, manifest, key),
	hasManifest: (_, { withManifest }) => hasManifest(withManifest),
	invitationIs: (of, { invitation }) => invitationIs(of.org, { id: invitation, role_name: "org_member" } as never),
	apiKeyExists: (of, { key }) => apiKeyExists(of.org, key),
	isBoundIn: (of, { key }) => isBoundIn(of.org, key),
	callerUnchanged: (_, { key, binding, secretHash }) => callerUnchanged(callerWith(key, binding, secretHash)),
	apiKeyUnchanged: (_, { key, binding }) =>
		apiKeyUnchanged({ id: key, updated_at_ms: NOW_MS, bindings: JSON.stringify([{ id: binding }]) }),
};

function callerWith(keyId: string, bindingId: string, secretHash: string) {
	return {
		kind: "key" as const,
		userId: "",
		keyId,
		secretHash,
		expiresAtMs: null,
		ipAllowList: null,
		bindings: [{ id: bindingId }],
	};
}

async function held(condition: Expression<SqlBool>): Promise<number | undefined> {
	const [result] = await run([sql<{ held: number }>`SELECT ${condition} AS held`.compile(query)]);
	return (result?.rows[0] as { held: number } | undefined)?.held;
}

describe("a statement that changes rows", () => {
	test.each(Object.entries(CHANGES))("%s: needs its own tenant and the one thing", async (_, change) => {
		const [ours, theirs] = [await createTenant(), await createTenant()];
		const before = await databaseText();
		await run([change(ours, theirs)].flat());
		expect(await databaseText(), "another tenant's thing was changed").toBe(before);
		await run([change(ours, ABSENT)].flat());
		expect(await databaseText(), "a thing was changed that the statement does not name").toBe(before);
		await run([change(theirs, theirs)].flat());
		expect(await databaseText(), "the control changes nothing").not.toBe(before);
	});

	test.each(Object.entries(CHANGES_OF_ALL))("%s: changes nothing of another tenant", async (_, change) => {
		const [ours, theirs] = [await createTenant(), await createTenant()];
		/** Every row that says whose it is. */
		const rowsOf = async (tenant: Tenant) =>
			JSON.stringify(
				(
					await testEnv.DB.batch([
						testEnv.DB.prepare("SELECT * FROM organizations WHERE id = ?").bind(tenant.org),
						testEnv.DB.prepare("SELECT * FROM apps WHERE owner_org = ?").bind(tenant.org),
						testEnv.DB.prepare("SELECT * FROM bundles WHERE app_id = ?").bind(tenant.app),
						testEnv.DB.prepare("SELECT * FROM channels WHERE app_id = ?").bind(tenant.app),
						testEnv.DB.prepare("SELECT * FROM bundle_files WHERE app_id = ?").bind(tenant.app),
						testEnv.DB.prepare("SELECT * FROM garbage_objects WHERE object_prefix LIKE ? || '%'").bind(tenant.app),
						testEnv.DB.prepare(
							"SELECT * FROM audit_log WHERE target_id IN (SELECT CAST(id AS TEXT) FROM bundles WHERE app_id = ?)",
						).bind(tenant.app),
					])
				).map(({ results }) => results),
			);
		const [own, other] = [await rowsOf(ours), await rowsOf(theirs)];
		await run([change(ours)].flat());
		expect(await rowsOf(theirs)).toBe(other);
		expect(await rowsOf(ours), "the control changes nothing").not.toBe(own);
	});

	test("restoreOrganization: brings back the one that was deleted, and only in time", async () => {
		const [ours, theirs] = [await createTenant(), await createTenant()];
		await run([markOrganizationDeleted(ours.org, NOW_MS), markOrganizationDeleted(theirs.org, NOW_MS)]);
		const isLive = (tenant: Tenant) => held(organizationIsLive(tenant.org));
		await run([restoreOrganization(ours.org, NOW_MS)]);
		expect([await isLive(ours), await isLive(theirs)]).toEqual([0, 0]);
		await run([restoreOrganization(ours.org, NOW_MS - 1)]);
		expect([await isLive(ours), await isLive(theirs)]).toEqual([1, 0]);
	});

	test("deleteBindings: takes from the key named, and of its bindings those named", async () => {
		const tenant = await createTenant();
		const other = await createTenant();
		const before = await databaseText();
		await run([deleteBindings(tenant.org, other.key, [tenant.binding])]);
		await run([deleteBindings(tenant.org, tenant.key, [other.binding])]);
		expect(await databaseText()).toBe(before);
	});

	test("insertChannelBinding: needs the app's own channel and the same key's parent binding", async () => {
		const [ours, theirs] = [await createTenant(), await createTenant()];
		const binding = (key: string, app: string) => ({
			...{ id: crypto.randomUUID(), holder: { userId: "", keyId: key }, role: "channel_preview" as const },
			...{ orgId: ours.org, appId: app, createdAtMs: NOW_MS },
		});
		const before = await databaseText();
		await run([insertChannelBinding(binding(ours.key, ours.app), theirs.channelName, ours.binding)]);
		await run([insertChannelBinding(binding(ours.key, theirs.app), ours.channelName, ours.binding)]);
		await run([insertChannelBinding(binding(ours.key, ours.app), ours.channelName, theirs.binding)]);
		await run([insertChannelBinding(binding(theirs.key, ours.app), ours.channelName, ours.binding)]);
		await run([insertChannelBinding(binding(ours.key, ours.app), ours.channelName, ABSENT.binding)]);
		expect(await databaseText()).toBe(before);
		await run([insertChannelBinding(binding(ours.key, ours.app), ours.channelName, ours.binding)]);
		expect(await databaseText()).not.toBe(before);
	});

	test("redundantDeltaObjectToGarbage: keeps the object that the app has under the path, and lets go of any other", async () => {
		const [ours, theirs] = [await createTenant(), await createTenant()];
		const object = await testEnv.DB.prepare("SELECT path, object_key FROM delta_objects WHERE app_id = ?")
			.bind(theirs.app)
			.first<{ path: string; object_key: string }>();
		if (object === null) throw new Error("no delta object");
		const letGo = async (app: AppId, path: string, key: string) => {
			const prefix = crypto.randomUUID();
			await run([redundantDeltaObjectToGarbage(app, path, key, prefix, LATER_MS)]);
			const row = await testEnv.DB.prepare("SELECT 1 FROM garbage_objects WHERE object_prefix = ?")
				.bind(prefix)
				.first();
			return row !== null;
		};
		expect(await letGo(theirs.app, object.path, object.object_key)).toBe(false);
		expect(await letGo(ours.app, object.path, object.object_key)).toBe(true);
		expect(await letGo(theirs.app, "another path", object.object_key)).toBe(true);
		expect(await letGo(theirs.app, object.path, "another object")).toBe(true);
	});
});

describe("a guard", () => {
	let ours: Tenant;
	let theirs: Tenant;
	beforeAll(async () => {
		[ours, theirs] = [await createTenant(), await createTenant()];
	});

	test.each(Object.entries(GUARDS))("%s: holds for the tenant's own thing alone", async (name, condition) => {
		expect(await held(condition(theirs, theirs)), "the control").toBe(1);
		expect(await held(condition(ours, ABSENT)), "a thing that is not there").toBe(0);
		// Guards without a tenant are about the caller's own key, whose ids nobody else is asked about.
		const hasTenant = condition.toString().includes("of.");
		if (hasTenant) expect(await held(condition(ours, theirs)), `${name} holds for another's thing`).toBe(0);
	});

	test("appIsLive: holds for the organization's own app, while that is not deleted", async () => {
		const deleted = await createTenant();
		expect(await held(appIsLive(ours.org, ours.app))).toBe(1);
		expect(await held(appIsLive(ours.org, theirs.app))).toBe(0);
		expect(await held(appIsLive(deleted.org, deleted.app))).toBe(1);
		await run([markOrganizationDeleted(deleted.org, NOW_MS)]);
		expect(await held(appIsLive(deleted.org, deleted.app))).toBe(0);
	});

	test("appsAreOf: holds for apps of the organization alone, each of them, however often it is named", async () => {
		expect(await held(appsAreOf(ours.org, [ours.app, ours.app]))).toBe(1);
		expect(await held(appsAreOf(ours.org, []))).toBe(1);
		expect(await held(appsAreOf(ours.org, [ours.app, theirs.app]))).toBe(0);
		expect(await held(appsAreOf(ours.org, [theirs.app]))).toBe(0);
	});

	test("about a caller or a key holds for its own bindings alone, all of them, as they were read", async () => {
		const bindings = (id: string) => JSON.stringify([{ id }]);
		expect(await held(callerUnchanged(callerWith(ours.key, theirs.binding, ours.secretHash)))).toBe(0);
		const caller = callerWith(ours.key, ours.binding, ours.secretHash);
		expect(await held(callerUnchanged(caller))).toBe(1);
		expect(await held(callerUnchanged({ ...caller, secretHash: "another" }))).toBe(0);
		expect(await held(callerUnchanged({ ...caller, expiresAtMs: NOW_MS + 1 }))).toBe(0);
		expect(await held(callerUnchanged({ ...caller, ipAllowList: ["::/0"] }))).toBe(0);
		const unchanged = { id: ours.key, updated_at_ms: NOW_MS, bindings: bindings(ours.binding) };
		expect(await held(apiKeyUnchanged(unchanged))).toBe(1);
		expect(await held(apiKeyUnchanged({ ...unchanged, updated_at_ms: NOW_MS - 1 }))).toBe(0);
		expect(await held(apiKeyUnchanged({ ...unchanged, bindings: bindings(theirs.binding) }))).toBe(0);
		expect(await held(apiKeyUnchanged({ ...unchanged, bindings: "[]" }))).toBe(0);
		expect(await held(apiKeyNoStronger(ours.org, unchanged))).toBe(1);
		expect(await held(apiKeyNoStronger(ours.org, { ...unchanged, bindings: "[]" }))).toBe(0);
		expect(await held(apiKeyNoStronger(theirs.org, { ...unchanged, bindings: "[]" }))).toBe(1);
	});

	test("about a channel holds as it was read, and excepts the one channel", async () => {
		expect(await held(channelStillPointsTo(ours.app, ours.channel, ours.unused, null))).toBe(0);
		expect(await held(channelStillPointsTo(ours.app, ours.channel, ours.bundle, ours.unused))).toBe(0);
		expect(await held(bundleUnusedExceptBy(ours.app, ours.bundle, ours.channel))).toBe(1);
		expect(await held(bundleUnusedExceptBy(ours.app, ours.bundle, theirs.channel))).toBe(0);
		expect(await held(bundleUnusedExceptBy(ours.app, ours.unused, 0))).toBe(1);
	});

	test("about a manifest looks at the one bundle", async () => {
		const { withManifest, manifest, key, unused } = ours;
		expect(await held(manifestIsNewOrHas(withManifest, 1))).toBe(1);
		expect(await held(manifestIsNewOrHas(withManifest, 2))).toBe(0);
		expect(await held(manifestIsNewOrHas(unused, 2))).toBe(1);
		expect(await held(manifestIsNewOrHolds(withManifest, manifest, key))).toBe(1);
		expect(await held(manifestIsNewOrHolds(withManifest, theirs.manifest, key))).toBe(0);
		expect(await held(manifestIsNewOrHolds(unused, theirs.manifest, key))).toBe(1);
		expect(await held(manifestIsSetOrBundleUnused(ours.app, ours.bundle))).toBe(0);
		expect(await held(manifestIsSetOrBundleUnused(ours.app, unused))).toBe(1);
	});

	test("about an organization is about that one, deleted or not, with its own policies", async () => {
		const deleted = await createTenant();
		await run([markOrganizationDeleted(deleted.org, NOW_MS)]);
		const none = {
			enforce_hashed_api_keys: 0,
			require_apikey_expiration: 0,
			max_apikey_expiration_days: null,
		} as const;
		expect(await held(organizationIsLive(ours.org))).toBe(1);
		expect(await held(organizationIsLive(deleted.org))).toBe(0);
		expect(await held(organizationIsLive(ABSENT.key))).toBe(0);
		expect(await held(organizationIsRestorable(deleted.org, NOW_MS - 1))).toBe(1);
		expect(await held(organizationIsRestorable(deleted.org, NOW_MS))).toBe(0);
		expect(await held(organizationIsRestorable(ours.org, NOW_MS - 1))).toBe(0);
		expect(await held(policiesAre(ours.org, none))).toBe(1);
		expect(await held(policiesAre(deleted.org, none))).toBe(0);
		await run([updateOrganization(ours.org, { max_apikey_expiration_days: 7 })]);
		expect(await held(policiesAre(ours.org, none))).toBe(0);
		await run([updateOrganization(ours.org, { max_apikey_expiration_days: null })]);
	});
});

describe("a statement that reads one thing", () => {
	test("finds it under its own tenant alone", async () => {
		const [ours, theirs] = [await createTenant(), await createTenant()];
		const found = async (statement: CompiledQuery) => (await run([statement]))[0]?.rows.length;
		const reads: readonly ((of: Tenant, thing: Thing & { app: AppId }) => CompiledQuery)[] = [
			(of, { key }) => apiKeyRecord(of.org, key),
			(of, { unusedName }) => bundleRecord(of.app, unusedName),
			(of, { app }) => appUuidsInOrg(of.org, [app]),
			(of, { app }) => appUuidsInOrgOfKey(of.key, [app]),
		];
		const absent = { ...ABSENT, app: crypto.randomUUID() as AppId };
		for (const read of reads) {
			expect(await found(read(theirs, theirs)), `${read}`).toBe(1);
			expect(await found(read(ours, theirs)), `${read}`).toBe(0);
			expect(await found(read(ours, absent)), `${read}`).toBe(0);
		}
		expect(await found(appRecord(ours.app))).toBe(1);
		expect(await found(appRecord(absent.app))).toBe(0);
	});
});
