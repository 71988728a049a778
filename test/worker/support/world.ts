/**
 * The world of a test: a separate organization with an administrator's key, a clock that stands
 * still, and faults on demand. Requests go through the whole application in this isolate; every
 * answer is checked against its declared schema and against two D1 round trips, besides the first
 * look-up of its credential.
 */
import { createExecutionContext, waitOnExecutionContext } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { createApp } from "../../../src/app";
import { mintKey } from "../../../src/authz/secrets";
import { parseConfig } from "../../../src/config";
import { openDb, query } from "../../../src/db/client";
import type { Deps, Env, RequestLimit } from "../../../src/deps";
import type { QueueMessage } from "../../../src/messages";
import { type Actors, actors } from "./actors";
import { withinLimits } from "./d1-limits";
import { refuseUndeclared } from "./declared-errors";
import type { Scene, TestApp } from "./scene";

export * from "./scene";

export const testEnv = env as unknown as Env;
/** 2026-11-21T08:00:00Z: the time of every test that does not say otherwise. */
export const NOW_MS = Date.UTC(2026, 10, 21, 8);
export const ORIGIN = "https://updates.example.com";
const MOST_TRIPS = 2;

export interface World extends Scene, Actors {
	/**
	 * Messages sent to the Queue. `keyUses` are separate, because every request may report the use of
	 * its key.
	 */
	readonly deps: Deps & {
		readonly sent: QueueMessage[];
		readonly keyUses: QueueMessage[];
		readonly denials: QueueMessage[];
		readonly printed: string[];
		/** Webhooks that the Queue was asked to deliver to. */
		readonly woken: string[];
	};
	readonly clock: { nowMs: number };
	/** A member with org_super_admin, as a first run makes one; `adminKey` is theirs. */
	readonly userId: string;
	readonly adminKeyId: string;
	readonly adminEmail: string;
}

const UNLIMITED: RequestLimit = { limiter: { limit: async () => ({ success: true }) }, periodSeconds: 1 };

export interface WorldOptions {
	readonly bindings?: Partial<
		Pick<
			Deps,
			| "d1"
			| "newId"
			| "telemetry"
			| "bundles"
			| "events"
			| "fetch"
			| "localFetch"
			| "assets"
			| "cache"
			| "deadline"
			| "delay"
		>
	> & {
		/** Those that are left out let everything through. */
		readonly requestLimits?: Partial<Deps["requestLimits"]>;
	};
	readonly config?: Record<string, string>;
	/**
	 * False: the first organization of this server is another one. Default: it is this world's, until
	 * the next world.
	 */
	readonly isOperator?: boolean;
}

/** Mints an organization with an admin key. */
export async function createWorld(options: WorldOptions = {}): Promise<World> {
	const clock = { nowMs: NOW_MS };
	const sent: QueueMessage[] = [];
	const keyUses: QueueMessage[] = [];
	const printed: string[] = [];
	const denials: QueueMessage[] = [];
	const woken: string[] = [];
	const deps: World["deps"] = {
		d1: withinLimits(testEnv.DB),
		telemetry: { TELEMETRY: withinLimits(testEnv.TELEMETRY) },
		bundles: testEnv.BUNDLES,
		assets: testEnv.ASSETS,
		// Copies in it would outlive the deletions of other tests.
		cache: undefined,
		events: {
			send: async (message: QueueMessage) => {
				(message.kind === "key_used" ? keyUses : message.kind === "access_denied" ? denials : sent).push(message);
			},
		} as unknown as Deps["events"],
		webhooks: { send: async (message) => void woken.push(message.webhookId) },
		now: () => clock.nowMs,
		newId: () => crypto.randomUUID(),
		randomBytes: (length) => crypto.getRandomValues(new Uint8Array(length)),
		fetch: async () => {
			throw new Error("this test has no network");
		},
		fetchLocally: async () => {
			throw new Error("this test has no network");
		},
		delay: async () => undefined,
		deadline: () => new Promise(() => undefined),
		log: () => undefined,
		print: (line) => void printed.push(line),
		config: parseConfig({ ...testEnv, CAPSTAN_MAIL_TO_TERMINAL: "true", ...options.config }),
		printed,
		sent,
		keyUses,
		denials,
		woken,
		...options.bindings,
		requestLimits: {
			failedAuthentications: UNLIMITED,
			perKey: UNLIMITED,
			signIns: UNLIMITED,
			newDevices: UNLIMITED,
			d1Reads: UNLIMITED,
			fetches: UNLIMITED,
			...options.bindings?.requestLimits,
		},
	};
	const app = createApp(deps);
	const [orgId, userId, adminKeyId] = [crypto.randomUUID(), crypto.randomUUID(), crypto.randomUUID()];
	const key = mintKey(deps.randomBytes);
	const times = { created_at_ms: NOW_MS, updated_at_ms: NOW_MS };
	await openDb(testEnv.DB, "first-primary").batch([
		query
			.insertInto("users")
			.values({
				id: userId,
				email: `${userId}@example.com`,
				created_at_ms: NOW_MS,
				global_permissions: '["org.create"]',
				email_verified_at_ms: NOW_MS,
			})
			.compile(),
		query
			.insertInto("organizations")
			.values({
				id: orgId,
				name: "Test",
				logo: null,
				website: null,
				management_email: null,
				created_by: userId,
				max_apikey_expiration_days: null,
				deleted_at_ms: null,
				...times,
			})
			.compile(),
		query
			.insertInto("api_keys")
			.values({
				id: adminKeyId,
				org_id: orgId,
				user_id: userId,
				name: "admin",
				key_hash: key.hash,
				key_ciphertext: null,
				key_hint: key.hint,
				global_permissions: '["org.create"]',
				expires_at_ms: null,
				last_used_at_ms: null,
				previous_key_hash: null,
				previous_valid_until_ms: null,
				ip_allow_list: null,
				...times,
			})
			.compile(),
		query
			.insertInto("role_bindings")
			.values({
				id: crypto.randomUUID(),
				api_key_id: adminKeyId,
				user_id: null,
				role_name: "org_super_admin",
				scope_type: "org",
				org_id: orgId,
				app_id: null,
				channel_id: null,
				parent_binding_id: null,
				expires_at_ms: null,
				created_at_ms: NOW_MS,
			})
			.compile(),
		query
			.insertInto("role_bindings")
			.values({
				id: crypto.randomUUID(),
				api_key_id: null,
				user_id: userId,
				role_name: "org_super_admin",
				scope_type: "org",
				org_id: orgId,
				app_id: null,
				channel_id: null,
				parent_binding_id: null,
				expires_at_ms: null,
				created_at_ms: NOW_MS,
			})
			.compile(),
	]);

	if (options.isOperator !== false) await makeOperator({ userId, orgId });
	return {
		...actors,
		deps,
		clock,
		orgId,
		userId,
		adminEmail: `${userId}@example.com`,
		adminKey: key.text,
		adminKeyId,
		request: requestThrough(app),
	};
}

/** Makes the world's organization the first one of the server, whose owners are the operator. */
export async function makeOperator({ userId, orgId }: Pick<World, "userId" | "orgId">): Promise<void> {
	await testEnv.DB.prepare(
		`INSERT INTO installation (id, first_user_id, first_org_id) VALUES (1, ?, ?)
			ON CONFLICT (id) DO UPDATE SET first_user_id = excluded.first_user_id, first_org_id = excluded.first_org_id`,
	)
		.bind(userId, orgId)
		.run();
}

/**
 * Sends requests through one application; holds answers to their declared form and errors, and to
 * two round trips.
 */
export function requestThrough(app: ReturnType<typeof createApp>): World["request"] {
	/**
	 * An isolate looks a credential up alone before it reads more for it the first time, or again
	 * after a refusal.
	 */
	const known = new Set<string | undefined>([undefined]);
	return async (
		method,
		path,
		{ key, query: parameters, body, rawBody, headers, cf, mostTrips = MOST_TRIPS, answered } = {},
	) => {
		const url = path.startsWith("http") ? new URL(path) : new URL(path, ORIGIN);
		for (const [name, value] of Object.entries(parameters ?? {})) url.searchParams.set(name, value);
		const text = body === undefined ? undefined : JSON.stringify(body);
		const credential = key ?? headers?.cookie ?? headers?.capgkey ?? headers?.authorization;
		const lookUps = known.has(credential) ? 0 : 1;
		const request = new Request(url, {
			method,
			headers: {
				...(key === undefined ? {} : { authorization: key }),
				...(text === undefined ? {} : { "content-type": "application/json", "content-length": lengthOf(text) }),
				...headers,
			},
			...(text === undefined ? {} : { body: text }),
			...(rawBody === undefined ? {} : { body: rawBody }),
			...(cf === undefined ? {} : { cf }),
		});
		const ctx = createExecutionContext();
		const response = await app.fetch(request, testEnv, ctx);
		const bytes = await response.arrayBuffer();
		answered?.();
		await waitOnExecutionContext(ctx);
		const isJson = response.headers.get("content-type")?.startsWith("application/json") === true;
		const timing = /trips=(\d+)/.exec(response.headers.get("server-timing") ?? "")?.[1];
		const trips = timing === undefined ? undefined : Number(timing);
		if (response.status < 400) known.add(credential);
		else if (response.status === 401) known.delete(credential);
		if (trips !== undefined && trips > mostTrips + lookUps)
			throw new Error(`${method} ${path} took ${trips} D1 round trips`);
		const answer = isJson && bytes.byteLength > 0 ? JSON.parse(new TextDecoder().decode(bytes)) : bytes;
		if (response.status >= 400) refuseUndeclared(method, url.pathname, answer);
		return {
			status: response.status,
			body: answer as never,
			headers: response.headers,
			trips,
		};
	};
}

const lengthOf = (text: string) => String(new TextEncoder().encode(text).length);

/**
 * A change by another isolate that affects the devices of an app: visible when the cached snapshot
 * has expired.
 */
export async function changedElsewhere(
	world: World,
	app: TestApp,
	statement: string,
	...parameters: readonly (string | number | null)[]
): Promise<void> {
	await testEnv.DB.batch([
		testEnv.DB.prepare(statement).bind(...parameters),
		testEnv.DB.prepare("UPDATE apps SET revision = revision + 1 WHERE id = ?").bind(app.uuid),
	]);
	world.clock.nowMs += 4_000;
}

/** Waits for work that runs beside the test. */
export async function until(isSo: () => boolean): Promise<void> {
	for (let tries = 0; !isSo(); tries += 1) {
		if (tries === 2_000) throw new Error("it did not come about");
		await new Promise((resolve) => setTimeout(resolve, 5));
	}
}
