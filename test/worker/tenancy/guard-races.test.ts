/**
 * Conditions that hold at the time of writing or nothing is written: of each, a request, and the
 * change by another isolate between its reading and its writing that this one condition alone
 * notices. The refusal says what has changed; the rest of the database stays.
 */
import { beforeEach, describe, expect, test } from "vitest";
import { createAuthenticator } from "../support/authenticator";
import { deltaName, locationOf, tusCreate, tusPatch } from "../support/bytes";
import { databaseText } from "../support/database-text";
import { readThenWrite } from "../support/interleave";
import { OWN_PAGE, signIn, signInLink } from "../support/sessions";
import {
	type Answer,
	createTestApp,
	createTestKey,
	createTestMember,
	createWorld,
	ORIGIN,
	type RequestOptions,
	setTestChannel,
	type TestApp,
	testEnv,
	uploadTestBundle,
	type World,
} from "../support/world";

type Racing = Pick<World, "request">;
type Values = readonly (string | number)[];
interface Race {
	readonly request: (racing: Racing) => Promise<Answer>;
	/** The statement of another isolate. */
	readonly meanwhile: readonly [statement: string, ...values: Values];
}
type Refusal = readonly [status: number, error: string];

let world: World;
let app: TestApp;
beforeEach(async () => {
	world = await createWorld();
	app = await createTestApp(world);
});

const sending =
	(method: string, path: string, options: RequestOptions = {}) =>
	(racing: Racing) =>
		racing.request(method, path, { key: world.adminKey, ...options });

async function raced({ request, meanwhile: [statement, ...values] }: Race) {
	let after = "";
	const answer = await readThenWrite(world, request, async () => {
		const { meta } = await testEnv.DB.prepare(statement)
			.bind(...values)
			.run();
		expect(meta.changes, "nothing has changed meanwhile").toBeGreaterThan(0);
		after = await databaseText();
		return { status: 200, body: undefined, headers: new Headers(), trips: undefined };
	});
	expect(await databaseText(), "something was written").toBe(after);
	return answer;
}

/** A passkey of the administrator. */
async function registration() {
	const authenticator = await createAuthenticator(ORIGIN);
	const session = await signIn(world);
	const begun = await world.as()("POST /account/passkey-options", { headers: session.headers, body: {} });
	const credential = await authenticator.create(begun.body.options);
	const body = { attempt: begun.body.attempt, name: "phone", credential };
	return { authenticator, request: { headers: session.headers, body, key: undefined } };
}

async function passkeySignIn() {
	const { authenticator, request } = await registration();
	expect(await world.request("POST", "/account/passkeys", request)).toMatchObject({ status: 201 });
	const begun = await world.as()("POST /sign-in/passkey/options", { headers: OWN_PAGE, body: {} });
	const credential = await authenticator.get(begun.body.options);
	const body = { attempt: begun.body.attempt, credential };
	return sending("POST", "/sign-in/passkey", { key: undefined, headers: OWN_PAGE, body });
}

/** A registered file of the delta store, whose bytes a request sends. */
async function deltaUpload() {
	const bytes = new TextEncoder().encode("file");
	const created = await tusCreate(world, world.adminKey, deltaName(world, app, "a.js"), bytes.length);
	const location = locationOf(created);
	return (racing: Racing) => tusPatch(racing, world.adminKey, location, 0, bytes);
}

const PERMISSIONS = "/organization/members/permissions";

const REFUSED: Readonly<Record<string, readonly [refusal: Refusal, prepare: () => Promise<Race>]>> = {
	"PUT /bundle: the channel is gone": [
		[404, "channel_not_found"],
		async () => {
			const version_id = await uploadTestBundle(world, app, "1.0.0");
			const channel_id = await setTestChannel(world, app, "production");
			return {
				request: sending("PUT", "/bundle", { body: { app_id: app.appId, version_id, channel_id } }),
				meanwhile: ["DELETE FROM channels WHERE id = ?", channel_id],
			};
		},
	],
	"DELETE /private/delete_failed_version: the bundle is ready": [
		[409, "bundle_already_ready"],
		async () => {
			const body = { app_id: app.appId, version: "1.0.0" };
			const { id } = (await world.admin("POST /bundle", { body })).body;
			const query = { app_id: app.appId, name: "1.0.0" };
			return {
				request: sending("DELETE", "/private/delete_failed_version", { query }),
				meanwhile: ["UPDATE bundles SET status = 'ready', object_key = id WHERE id = ?", id],
			};
		},
	],
	"POST /device: the channel is gone": [
		[404, "channel_not_found"],
		async () => {
			const channel = await setTestChannel(world, app, "beta");
			const body = { app_id: app.appId, device_id: crypto.randomUUID(), channel: "beta" };
			return {
				request: sending("POST", "/device", { body }),
				meanwhile: ["DELETE FROM channels WHERE id = ?", channel],
			};
		},
	],
	"POST /device: the bundle is gone": [
		[404, "bundle_not_found"],
		async () => {
			const version_id = await uploadTestBundle(world, app, "1.0.0");
			return {
				request: sending("POST", "/device", {
					body: { app_id: app.appId, device_id: crypto.randomUUID(), version_id },
				}),
				meanwhile: ["UPDATE bundles SET status = 'deleted', deleted_at_ms = 1 WHERE id = ?", version_id],
			};
		},
	],
	"PATCH of a file's upload: it was given up": [
		[404, "upload_not_found"],
		async () => ({
			request: await deltaUpload(),
			meanwhile: ["DELETE FROM uploads WHERE app_id = ?", app.uuid],
		}),
	],
	"PUT /apikey/:id: the organization has another policy": [
		[409, "organization_changed"],
		async () => {
			const { id } = await createTestKey(world, "org_member", undefined, { hashed: false });
			return {
				request: sending("PUT", `/apikey/${id}`, { body: { regenerate: true } }),
				meanwhile: ["UPDATE organizations SET enforce_hashed_api_keys = 1 WHERE id = ?", world.orgId],
			};
		},
	],
	"DELETE /apikey/:id: the key is gone": [
		[404, "api_key_not_found"],
		async () => {
			const { id } = await createTestKey(world, "org_member");
			return {
				request: sending("DELETE", `/apikey/${id}`),
				meanwhile: ["DELETE FROM api_keys WHERE id = ?", id],
			};
		},
	],
	"PUT /organization/members, of an invitation: its next sender is no member": [
		[401, "invalid_api_key"],
		async () => {
			const body = { orgId: world.orgId, email: "invited@example.com" };
			const invited = { ...body, role: "org_member" };
			const sent = await world.request("POST", "/organization/members", { key: world.adminKey, body: invited });
			expect(sent.status).toBe(201);
			return {
				request: sending("PUT", "/organization/members", { body: { ...body, role: "org_admin" } }),
				meanwhile: ["DELETE FROM role_bindings WHERE user_id = ?", world.userId],
			};
		},
	],
	"DELETE /organization/members: the member is gone": [
		[404, "member_not_found"],
		async () => {
			const { uid, email } = await createTestMember(world, "org_member");
			await testEnv.DB.prepare("DELETE FROM api_keys WHERE user_id = ?").bind(uid).run();
			return {
				request: sending("DELETE", "/organization/members", { query: { orgId: world.orgId, email } }),
				meanwhile: ["DELETE FROM role_bindings WHERE user_id = ?", uid],
			};
		},
	],
	[`PUT ${PERMISSIONS}: the member has one role more`]: [
		[409, "member_changed"],
		async () => {
			const { uid, email } = await createTestMember(world, "org_admin");
			const body = { orgId: world.orgId, email, global_permissions: ["org.create"] };
			return {
				request: sending("PUT", PERMISSIONS, { body }),
				meanwhile: [
					`INSERT INTO role_bindings (id, user_id, role_name, scope_type, org_id, created_at_ms)
					VALUES (?, ?, 'org_super_admin', 'org', ?, 1)`,
					crypto.randomUUID(),
					uid,
					world.orgId,
				],
			};
		},
	],
	[`PUT ${PERMISSIONS}: the member's role has ended`]: [
		[409, "member_changed"],
		async () => {
			const { uid, email } = await createTestMember(world, "org_admin");
			const body = { orgId: world.orgId, email, global_permissions: ["org.create"] };
			return {
				request: sending("PUT", PERMISSIONS, { body }),
				meanwhile: ["UPDATE role_bindings SET expires_at_ms = 1 WHERE user_id = ?", uid],
			};
		},
	],
	"POST /sign-in/passkey: the attempt was used": [
		[401, "sign_in_failed"],
		async () => ({
			request: await passkeySignIn(),
			meanwhile: ["DELETE FROM sign_in_attempts WHERE kind = 'passkey'"],
		}),
	],
	"POST /sign-in/passkey: the passkey has signed": [
		[401, "sign_in_failed"],
		async () => ({
			request: await passkeySignIn(),
			meanwhile: ["UPDATE passkeys SET counter = counter + 1 WHERE user_id = ?", world.userId],
		}),
	],
	"POST /account/passkeys: the attempt was used": [
		[400, "passkey_not_registered"],
		async () => {
			const { request } = await registration();
			return {
				request: sending("POST", "/account/passkeys", request),
				meanwhile: ["DELETE FROM sign_in_attempts WHERE user_id = ?", world.userId],
			};
		},
	],
	"POST /sign-in/link: the account has another address": [
		[401, "sign_in_failed"],
		async () => {
			const body = { token: await signInLink(world) };
			return {
				request: sending("POST", "/sign-in/link", { key: undefined, headers: OWN_PAGE, body }),
				meanwhile: ["UPDATE users SET email = ? WHERE id = ?", `moved.${world.adminEmail}`, world.userId],
			};
		},
	],
	"DELETE /account: it has a part in one more organization": [
		[409, "account_changed"],
		async () => {
			const { uid, email } = await createTestMember(world, "org_member");
			const { headers } = await signIn(world, email);
			const other = await createWorld();
			return {
				request: sending("DELETE", "/account", { key: undefined, headers }),
				meanwhile: [
					`INSERT INTO role_bindings (id, user_id, role_name, scope_type, org_id, created_at_ms)
					VALUES (?, ?, 'org_member', 'org', ?, 1)`,
					crypto.randomUUID(),
					uid,
					other.orgId,
				],
			};
		},
	],
};

describe("a request whose target changed after the read", () => {
	test.each(Object.entries(REFUSED))("%s, so it is refused", async (_, [[status, error], prepare]) => {
		const answer = await raced(await prepare());
		expect(answer).toMatchObject({ status, body: { error } });
		expect(answer.headers.get("set-cookie")).toBeNull();
	});

	test("PATCH of a file's upload succeeds if another request has completed it", async () => {
		const request = await deltaUpload();
		const complete = "UPDATE uploads SET completed_at_ms = 1 WHERE app_id = ?";
		expect(await raced({ request, meanwhile: [complete, app.uuid] })).toMatchObject({ status: 204 });
	});
});
