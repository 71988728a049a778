/**
 * An organization to try things in, and what tests make in it, by requests alone: the same
 * functions work in this isolate and over HTTP against the running product. Nothing here may need
 * more of the world than its requests.
 */
import { testBundle } from "./zip";

export interface Answer<Body = unknown> {
	readonly status: number;
	readonly body: Body;
	readonly headers: Headers;
	/** D1 round trips of the request; undefined for errors. */
	readonly trips: number | undefined;
}

export interface RequestOptions {
	readonly key?: string | undefined;
	readonly query?: Record<string, string>;
	readonly body?: unknown;
	readonly rawBody?: BodyInit;
	readonly headers?: Record<string, string>;
	/** Cloudflare's metadata of the request, such as its network. */
	readonly cf?: Record<string, unknown>;
	/** Round trips to D1 that the request may take; two unless given. */
	readonly mostTrips?: number;
	/** Called with the answer, before the work that follows it is awaited. */
	readonly answered?: () => void;
}

export interface Scene {
	readonly orgId: string;
	/** org_super_admin with org.create. */
	readonly adminKey: string;
	/** Id of `adminKey`; undefined for a started product. */
	readonly adminKeyId?: string;
	// biome-ignore lint/suspicious/noExplicitAny: tests look into answers of every shape
	request<Body = any>(method: string, path: string, options?: RequestOptions): Promise<Answer<Body>>;
}

export interface TestApp {
	/** Public id. */
	readonly appId: string;
	readonly uuid: string;
}

let counter = 0;

export async function createTestApp(world: Scene, name = "app"): Promise<TestApp> {
	counter += 1;
	const appId = `com.example.${name}${counter}.t${crypto.randomUUID().slice(0, 8)}`;
	const { body, status } = await world.request("POST", "/app", {
		key: world.adminKey,
		body: { app_id: appId, name, owner_org: world.orgId },
	});
	if (status !== 201) throw new Error(`app not created: ${JSON.stringify(body)}`);
	return { appId, uuid: body.id };
}

export interface TestKey {
	readonly id: string;
	readonly text: string;
}

/** A key with one binding: on the organization, or on the app when one is given. */
export async function createTestKey(
	world: Scene,
	role: string,
	app?: TestApp,
	extra: Record<string, unknown> = {},
): Promise<TestKey> {
	const binding =
		app === undefined
			? { role_name: role, scope_type: "org", org_id: world.orgId }
			: { role_name: role, scope_type: "app", org_id: world.orgId, app_id: app.uuid };
	const { body, status } = await world.request("POST", "/apikey", {
		key: world.adminKey,
		body: { name: role, hashed: true, bindings: [binding], ...extra },
	});
	if (status !== 201) throw new Error(`key not created: ${JSON.stringify(body)}`);
	return { id: body.id, text: body.key };
}

export interface TestMember {
	readonly uid: string;
	readonly email: string;
	/** The key that the member got with the invitation. */
	readonly key: TestKey;
}

/** A person who was invited with the role and came. */
export async function createTestMember(
	world: Scene,
	role: string,
	email = `m${++counter}.${crypto.randomUUID().slice(0, 8)}@example.com`,
): Promise<TestMember> {
	const invited = await world.request("POST", "/organization/members", {
		key: world.adminKey,
		body: { orgId: world.orgId, email, role },
	});
	if (invited.status !== 201) throw new Error(`not invited: ${JSON.stringify(invited.body)}`);
	const { body, status } = await acceptInvitation(world, email, tokenOf(invited.body.link));
	if (status !== 201) throw new Error(`invitation not accepted: ${JSON.stringify(body)}`);
	return { uid: body.uid, email, key: { id: body.api_key.id, text: body.api_key.key } };
}

// biome-ignore lint/suspicious/noExplicitAny: tests look into answers of every shape
type AnyAnswer = Answer<any>;

/** Joins by the link; an address that has an account confirms with a code, which worlds print. */
export async function acceptInvitation(
	world: Pick<Scene, "request">,
	email: string,
	token: string,
): Promise<AnyAnswer> {
	const first = await world.request("POST", "/invitation/accept", { body: { token } });
	const { deps } = world as { readonly deps?: { readonly printed: readonly string[] } };
	if (first.status !== 401 || deps === undefined) return first;
	const headers = { origin: "https://updates.example.com", "sec-fetch-site": "same-origin" };
	const { body } = await world.request("POST", "/sign-in/code", { headers, body: { email } });
	const mail = deps.printed.findLast((line) => line.startsWith(`Mail to ${email}: `)) ?? "";
	const code = /: (\d{6}) /.exec(mail)?.[1];
	return world.request("POST", "/invitation/accept", { body: { token, attempt: body.attempt, code } });
}

/** The token in the link of an invitation. */
export function tokenOf(link: string): string {
	return new URLSearchParams(new URL(link).hash.slice(1)).get("token") ?? "";
}

export async function sha256Hex(bytes: Uint8Array): Promise<string> {
	const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
	return Array.from(digest, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** Registers and uploads a small bundle; its id. */
export async function uploadTestBundle(
	world: Scene,
	app: TestApp,
	version: string,
	key: string = world.adminKey,
	content: Uint8Array = testBundle(version),
	fields: Record<string, unknown> = {},
): Promise<number> {
	const registered = await world.request("POST", "/bundle", {
		key,
		body: { app_id: app.appId, version, checksum: await sha256Hex(content), size: content.length, ...fields },
	});
	if (registered.status !== 201) throw new Error(`bundle not registered: ${JSON.stringify(registered.body)}`);
	const uploaded = await world.request("PUT", registered.body.upload_url, {
		rawBody: content,
		headers: { "content-length": String(content.length) },
	});
	if (uploaded.status !== 200) throw new Error(`bundle not uploaded: ${JSON.stringify(uploaded.body)}`);
	return registered.body.id;
}

/** Creates or changes a channel as the administrator; its id. */
export async function setTestChannel(
	world: Scene,
	app: TestApp,
	channel: string,
	fields: Record<string, unknown> = {},
	key: string = world.adminKey,
): Promise<number> {
	const { body, status } = await world.request("POST", "/channel", {
		key,
		body: { app_id: app.appId, channel, ...fields },
	});
	if (status > 201) throw new Error(`channel not set: ${JSON.stringify(body)}`);
	return body.id;
}
