/**
 * The one path from a request to an endpoint's handler: key, principal, decision, validation, handler, answer. Authorization comes
 * before validation, so a stranger learns nothing of the schema; no route exists outside `mount`, so none can skip a step.
 */
import type { Hono, Context as HonoContext } from "hono";
import type { CompiledQuery } from "kysely";
import * as v from "valibot";
import { decide, holdsGlobally, type OwnWorkOnly, type Scope, type Target } from "../authz/decide";
import type { Permission } from "../authz/permissions";
import {
	callerGone,
	lacksPermission,
	type Principal,
	type PrincipalRow,
	principalFrom,
	principalStatement,
	violatesPolicy,
} from "../authz/principal";
import {
	type RecentSignIn,
	requireRecentSignIn,
	type SessionRow,
	sessionPrincipalFrom,
	sessionStatement,
} from "../authz/session";
import type { Actor } from "../db/audit";
import { type Database, openDb, type StatementResult } from "../db/client";
import { createLiveApps, type LiveApps } from "../db/live-apps";
import { createSnapshotCache, type SnapshotCache } from "../db/snapshot-cache";
import type { Deps } from "../deps";
import { ApiError, type ErrorCode, invalidRequest, type RequestIssue } from "../errors";
import { createDeniedReports } from "../events/access-denied";
import { createEventGatherer, type GatherEvents } from "../events/gather";
import { createKeyUsage } from "../events/key-usage";
import { readJson } from "./body";
import { type Credential, readCredential } from "./credentials";
import { type AnyEndpoint, isRaw, type Method, permissionsOf, Reply } from "./endpoint";
import { guardedWrites } from "./guarded-writes";
import { countCallerRequest, countFailure } from "./request-limits";
import type { RawInput, ScopeSource } from "./scope";
import { clearSessionCookie } from "./session-cookie";
import { noteSessionUse } from "./session-use";
import { createStrangerLimits, type StrangerLimits } from "./stranger-limits";
import { SEEN_EVERYWHERE_AFTER_MS, wantsToWait } from "./visibility";

/** What the pipeline itself can answer, on every endpoint. */
export const PIPELINE_ERRORS: readonly ErrorCode[] = [
	"invalid_request",
	"conflicting_parameters",
	"ambiguous_api_key",
	"missing_api_key",
	"invalid_api_key",
	"expired_api_key",
	"api_key_violates_policy",
	"invalid_session",
	"session_required",
	"recent_sign_in_required",
	"passkey_required",
	"cross_site_request",
	"ip_address_not_allowed",
	"permission_denied",
	"organization_not_found",
	"app_not_found",
	"channel_not_found",
	"payload_too_large",
	"unsupported_media_type",
	"too_many_requests",
	"internal_error",
	"service_unavailable",
];

const DRY_RUN = "dry_run";

/** What every request is given before the router. */
export interface RequestBindings {
	requestId: string;
	/** The address limit on requests has counted it already. */
	isCounted?: boolean;
}

export type CapstanApp = Hono<{ Bindings: RequestBindings }>;
type RequestContext = HonoContext<{ Bindings: RequestBindings }>;

/** Adds the endpoints to the app, and 405 with `Allow` for every other method on their paths. */
export function mount(app: CapstanApp, endpoints: readonly AnyEndpoint[], isolate: Isolate): void {
	const { deps } = isolate;
	const byPath = Map.groupBy(endpoints, ({ path }) => path);
	// A path is mounted whole, so that /app/restore is not taken for the /app/:app_id that follows it, whatever the method.
	for (const [path, ofPath] of byPath) {
		for (const endpoint of ofPath) {
			app.on(endpoint.method, path, async (c) => {
				const ipAddress = deps.config.clientAddress ?? c.req.raw.headers.get("cf-connecting-ip");
				const caller: CallerSoFar = {};
				try {
					return await answer(endpoint, c, isolate, ipAddress, caller);
				} catch (error) {
					reportDenied(error, endpoint, c, isolate, ipAddress, caller);
					const answered = await countFailure(deps, withoutCookie(error, c, deps), ipAddress);
					if (answered !== error && isTooMany(answered)) isolate.strangers.noteFailing(ipAddress);
					throw answered;
				}
			});
		}
		const methods: readonly Method[] = ofPath.map(({ method }) => method);
		const allow = [...new Set([...methods, ...(methods.includes("GET") ? ["HEAD"] : []), "OPTIONS"])].join(", ");
		app.all(path, (c) => {
			if (c.req.method === "OPTIONS") return new Response(null, { status: 204, headers: { Allow: allow } });
			throw new ApiError("method_not_allowed", `This path takes ${allow}.`, { headers: { Allow: allow } });
		});
	}
}

const isTooMany = (error: unknown) => error instanceof ApiError && error.code === "too_many_requests";

/** A session that is over is taken from the browser as well. */
function withoutCookie(error: unknown, c: RequestContext, deps: Deps): unknown {
	if (!(error instanceof ApiError) || error.code !== "invalid_session") return error;
	const headers = clearSessionCookie(deps.config.publicUrl ?? new URL(c.req.url).origin);
	return new ApiError(error.code, error.message, { headers });
}

/** The parts of an endpoint with their generic types worn off; only this file looks at endpoints this way. */
type Untyped = AnyEndpoint & {
	readonly load?: (input: unknown, nowMs: number, keyHash: string) => readonly CompiledQuery[];
	readonly handle: (context: unknown) => Promise<unknown>;
};

/** What lives as long as the isolate. */
export interface Isolate {
	readonly deps: Deps;
	readonly noteKeyUse: ReturnType<typeof createKeyUsage>;
	readonly snapshots: SnapshotCache;
	readonly liveApps: LiveApps;
	readonly gather: GatherEvents;
	readonly strangers: StrangerLimits;
	readonly reportDenied: ReturnType<typeof createDeniedReports>;
}

export function createIsolate(deps: Deps): Isolate {
	return {
		deps,
		noteKeyUse: createKeyUsage(deps),
		snapshots: createSnapshotCache(deps),
		liveApps: createLiveApps(deps),
		gather: createEventGatherer(deps),
		strangers: createStrangerLimits(deps),
		reportDenied: createDeniedReports(deps),
	};
}

/** As much as a request has shown of its caller and target before it was refused. */
interface CallerSoFar {
	principal?: Principal;
	/** The organization of the key that was presented, or of the target, once that is known. */
	orgId?: string;
	key?: Pick<PrincipalRow, "id" | "name">;
}

/** Refusals of management requests that somebody should see. */
const DENIALS: ReadonlySet<ErrorCode> = new Set([
	"permission_denied",
	"cannot_remove_higher_role",
	"invalid_api_key",
	"expired_api_key",
	"api_key_violates_policy",
	"ip_address_not_allowed",
]);

function reportDenied(
	error: unknown,
	{ method, path }: AnyEndpoint,
	c: RequestContext,
	isolate: Isolate,
	ipAddress: string | null,
	{ principal, orgId, key }: CallerSoFar,
): void {
	if (!(error instanceof ApiError)) return;
	const { code, account, moreInfo } = error;
	if (account === undefined && !DENIALS.has(code)) return;
	const actor =
		principal === undefined && key !== undefined
			? { type: "api_key" as const, id: key.id, name: key.name }
			: actorOf(principal);
	isolate.reportDenied(
		{
			kind: "access_denied",
			orgId: orgId ?? null,
			...(account === undefined ? {} : { account }),
			actor: { ...actor, requestId: c.env.requestId, ipAddress },
			what: typeof moreInfo.permission === "string" ? moreInfo.permission : code,
			details: { error: code, endpoint: `${method} ${path}` },
			atMs: isolate.deps.now(),
		},
		(work) => c.executionCtx.waitUntil(work),
	);
}

async function answer(
	endpoint: AnyEndpoint,
	c: RequestContext,
	{ deps, noteKeyUse, snapshots, liveApps, gather, strangers }: Isolate,
	ipAddress: string | null,
	caller: CallerSoFar,
): Promise<Response> {
	const untyped = endpoint as unknown as Untyped;
	const access = endpoint.access;
	const nowMs = deps.now();
	const waitUntil = (work: Promise<unknown>) => c.executionCtx.waitUntil(work);
	const origin = deps.config.publicUrl ?? new URL(c.req.url).origin;
	const isUncounted = "public" in access && c.env.isCounted !== true;
	if (isUncounted && !strangers.takeRequest(ipAddress, nowMs)) throw strangers.tooMany();
	const credential = "public" in access ? undefined : readCredential(endpoint, c.req.raw, origin);
	if (credential !== undefined) {
		strangers.admitCredential(ipAddress, credential.hash, nowMs);
		await countCallerRequest(deps, credential);
	}
	const { raw, issues: readIssues, failure } = await readInput(endpoint, c);
	const { input, issues } = validate(endpoint, raw, readIssues);

	const opened = openDb(
		deps.d1,
		endpoint.consistency ?? ("public" in access ? "first-unconstrained" : "first-primary"),
	);
	const isLimited = "public" in access && access.isProven !== true;
	const db = isLimited ? strangers.database(opened, ipAddress, endpoint.tag) : opened;
	const source = "scope" in access ? (access.scope as ScopeSource<unknown>) : undefined;
	// A parameter that is given twice names no target.
	const scopeStatement = readIssues.length > 0 || failure !== undefined ? undefined : source?.statement(raw);
	const ownStatements =
		input === undefined || failure !== undefined ? [] : (untyped.load?.(input, nowMs, credential?.hash ?? "") ?? []);
	const statements: CompiledQuery[] = [
		...(credential === undefined ? [] : [callerStatement(credential, nowMs)]),
		...(scopeStatement === undefined ? [] : [scopeStatement]),
		...ownStatements,
	];
	const results: StatementResult<unknown>[] = statements.length === 0 ? [] : await db.batch(statements);
	const loaded = results.slice(results.length - ownStatements.length);

	let principal: Principal | undefined;
	let scopeRow: unknown;
	let target: Target | null = null;
	const limits = new Map<Permission, OwnWorkOnly>();
	if (credential !== undefined) {
		noteKey(caller, credential, results[0]?.rows[0]);
		principal = callerFrom(credential, results[0]?.rows[0], nowMs, ipAddress);
		strangers.noteGood(credential.hash);
		caller.principal = principal;
		if (principal.kind === "key") noteKeyUse(principal, nowMs, waitUntil);
		else noteSessionUse(deps, principal, nowMs, waitUntil);
		if ("globalPermission" in access && !holdsGlobally(principal, access.globalPermission)) {
			throw new ApiError(
				"permission_denied",
				`The caller lacks ${access.globalPermission}, or no longer administers an organization; use an API key or an account that does both.`,
				{ moreInfo: { permission: access.globalPermission, scope: "global" } },
			);
		}
		if (source !== undefined) {
			if (scopeStatement === undefined) {
				throw failure ?? invalidRequest(issues.length > 0 || source.missing === undefined ? issues : [source.missing]);
			}
			scopeRow = results[1]?.rows[0];
			target = scopeRow === undefined ? null : source.target(scopeRow);
			if (target !== null) caller.orgId = target.orgId;
			authorize(endpoint, principal, target, source, { input, scopeRow, loaded }, limits);
		}
		if (principal.kind === "session") requireRecentSignIn(principal, wantedSignIn(endpoint, input), nowMs);
	}
	if (failure !== undefined) throw failure;
	if (input === undefined) throw issues.length > 0 ? invalidRequest(issues) : new Error("refused without an issue");

	const waits = wantsToWait(endpoint, c.req.raw.headers);
	const { requestId } = c.env;
	const actor: Actor = { ...actorOf(principal), requestId, ipAddress };
	const output = await untyped.handle({
		deps,
		db: principal === undefined ? db : guardedWrites(db, principal, target, source?.hidden ?? callerGone(principal)),
		nowMs,
		requestId,
		request: c.req.raw,
		origin,
		input,
		principal,
		actor,
		scope: target as unknown as Scope,
		scopeRow,
		loaded,
		ownWorkOnly: (permission: Permission) => limits.get(permission),
		snapshots,
		liveApps,
		gather,
		strangers,
		waitUntil,
	});
	if (target !== null && endpoint.method !== "GET" && endpoint.onlyReads !== true) {
		forgetChanged(snapshots, scopeRow);
		liveApps.invalidate("appId" in target ? target.appId : undefined);
	}
	// Where nothing was left to change, too: the request may be the second try of one whose answer was lost.
	if (waits) await deps.delay(SEEN_EVERYWHERE_AFTER_MS);
	return serialise(endpoint, output, deps, db);
}

function noteKey(caller: CallerSoFar, { kind }: Credential, row: unknown): void {
	if (kind !== "key" || row === undefined) return;
	const { id, name, org_id } = row as PrincipalRow;
	caller.key = { id, name };
	caller.orgId = org_id;
}

function callerStatement({ kind, hash }: Credential, nowMs: number): CompiledQuery {
	return kind === "key" ? principalStatement(hash, nowMs) : sessionStatement(hash, nowMs);
}

function callerFrom({ kind }: Credential, row: unknown, nowMs: number, ipAddress: string | null): Principal {
	return kind === "key"
		? principalFrom(row as PrincipalRow | undefined, nowMs, ipAddress)
		: sessionPrincipalFrom(row as SessionRow | undefined);
}

function actorOf(principal: Principal | undefined): Pick<Actor, "type" | "id" | "name"> {
	if (principal === undefined) return { type: "system", id: null, name: "anonymous" };
	return principal.kind === "key"
		? { type: "api_key", id: principal.keyId, name: principal.keyName }
		: { type: "user", id: principal.userId, name: principal.email };
}

function wantedSignIn({ recentSignIn }: AnyEndpoint, input: unknown): RecentSignIn {
	if (typeof recentSignIn !== "function") return recentSignIn ?? false;
	return input !== undefined && recentSignIn(input as never);
}

/** What a request has changed, this isolate's next update check must see. */
function forgetChanged(snapshots: SnapshotCache, scopeRow: unknown): void {
	const publicAppId = (scopeRow as { app_id?: unknown } | undefined)?.app_id;
	if (typeof publicAppId === "string") snapshots.forget(publicAppId);
	else snapshots.forgetAll();
}

function authorize(
	endpoint: AnyEndpoint,
	principal: Principal,
	target: Target | null,
	source: ScopeSource<unknown>,
	request: { input: unknown; scopeRow: unknown; loaded: readonly unknown[] },
	limits: Map<Permission, OwnWorkOnly>,
): void {
	const access = endpoint.access;
	const decided = (permission: Permission) => decide(principal, permission, target);
	let needed = permissionsOf(access);
	if ("permissions" in access) {
		if (target !== null && request.input !== undefined) {
			needed = (access.choose as unknown as (request: unknown) => readonly Permission[])(request);
		} else {
			// What an invalid request would need is unknown; holding any of the permissions is enough to be told what is wrong with it.
			const held = needed.find((permission) => decided(permission).outcome === "allow");
			if (held !== undefined) needed = [held];
		}
	}
	for (const permission of needed) {
		const decision = decided(permission);
		if (decision.outcome === "allow") {
			if (decision.ownWorkOnly !== undefined) limits.set(permission, decision.ownWorkOnly);
			continue;
		}
		if (decision.outcome === "replaced") {
			throw new ApiError(
				"permission_denied",
				`This secret of the API key has been replaced and can no longer do what needs ${permission}; use the new one.`,
				{ moreInfo: { permission, scope: "org" } },
			);
		}
		if (decision.outcome === "account") {
			throw new ApiError(
				"permission_denied",
				`The API key holds ${permission}, but the account that it acts for does not, so the key cannot use it; have another member raise the account's role, or use a key of a member who holds it.`,
				{ moreInfo: { permission, scope: "org" } },
			);
		}
		if (decision.outcome === "stopped") throw violatesPolicy(decision.policy, target?.orgId ?? "");
		const appVisible =
			"neverHidden" in access &&
			target?.appId !== undefined &&
			decide(principal, "app.read", { orgId: target.orgId, appId: target.appId }).outcome === "allow";
		if (decision.outcome === "hidden" && !appVisible) throw source.hidden();
		const scope = decision.outcome === "forbidden" ? decision.scope : "channel";
		throw lacksPermission(principal, permission, scope);
	}
}

interface ReadInput {
	readonly raw: RawInput;
	readonly issues: RequestIssue[];
	/** Why the body could not be read; told after the key was found good. */
	readonly failure: ApiError | undefined;
}

async function readInput(endpoint: AnyEndpoint, c: RequestContext): Promise<ReadInput> {
	const issues: RequestIssue[] = [];
	const fields: Record<string, unknown> = {};
	const set = (name: string, value: unknown) =>
		Object.defineProperty(fields, name, { value, enumerable: true, configurable: true, writable: true });
	const known = fieldsOf(endpoint.query);
	for (const [name, value] of new URL(c.req.url).searchParams) {
		if (Object.hasOwn(fields, name) && known.has(name)) {
			issues.push({ path: name, message: "is given more than once; give it once" });
		}
		set(name, value);
	}
	let body: unknown;
	let failure: ApiError | undefined;
	try {
		if (endpoint.body !== undefined || endpoint.queryOrBody) {
			body = await readJson(c.req.raw, endpoint.bodyLimitBytes);
		}
	} catch (error) {
		if (!(error instanceof ApiError)) throw error;
		failure = error;
	}
	if (endpoint.queryOrBody && typeof body === "object" && body !== null && !Array.isArray(body)) {
		for (const [name, value] of Object.entries(body)) {
			if (value === null) continue;
			const asText = typeof value === "number" || typeof value === "boolean" ? String(value) : value;
			if (Object.hasOwn(fields, name) && fields[name] !== asText) {
				failure = new ApiError(
					"conflicting_parameters",
					`${name} differs between the query and the body; send it once.`,
				);
			}
			set(name, asText);
		}
	}
	return { raw: { params: c.req.param(), query: fields, body, headers: c.req.raw.headers }, issues, failure };
}

/** The names that a schema of an object knows. */
function fieldsOf(schema: v.GenericSchema | undefined): ReadonlySet<string> {
	const entries = schema !== undefined && "entries" in schema ? schema.entries : {};
	return new Set(Object.keys(entries as object));
}

function validate(
	endpoint: AnyEndpoint,
	raw: RawInput,
	readIssues: readonly RequestIssue[],
): { input: unknown; issues: readonly RequestIssue[] } {
	const issues = [...readIssues];
	const parse = (schema: v.GenericSchema | undefined, value: unknown): unknown => {
		if (schema === undefined) return undefined;
		const result = v.safeParse(schema, value);
		if (!result.success) issues.push(...result.issues.map(issueOf));
		return result.output;
	};
	const query = parse(endpoint.query, raw.query);
	const body = parse(endpoint.body, raw.body === undefined ? {} : raw.body);
	if (isNoObject(endpoint.body, raw.body)) issues.push({ path: "", message: "The body must be a JSON object." });
	issues.push(...misplacedDryRun(endpoint, raw));
	return { input: issues.length > 0 ? undefined : { params: raw.params, query, body, headers: raw.headers }, issues };
}

/** Schemas of objects take an array for an object without fields. */
function isNoObject(schema: v.GenericSchema | undefined, body: unknown): boolean {
	return schema?.type === "object" && Array.isArray(body);
}

/**
 * Unknown fields are ignored, but a request with this one wants nothing done. Public endpoints are left alone: devices send them, and
 * nobody writes them by hand.
 */
function misplacedDryRun(endpoint: AnyEndpoint, raw: RawInput): RequestIssue[] {
	const { access, method, query, body, queryOrBody } = endpoint;
	if (method === "GET" || "public" in access) return [];
	const isKnown = { query: fieldsOf(query).has(DRY_RUN), body: fieldsOf(body).has(DRY_RUN) };
	const isSent = (sent: unknown) => typeof sent === "object" && sent !== null && Object.hasOwn(sent, DRY_RUN);
	const isUnread = isSent(raw.body) && !isKnown.body && !(isKnown.query && queryOrBody === true);
	const isMisplaced = isUnread || (isSent(raw.query) && !isKnown.query);
	if (!isMisplaced) return [];
	const place = isKnown.body ? "body" : isKnown.query ? "query" : undefined;
	const remedy = place === undefined ? "leave it out to have the request done" : `send it in the ${place}`;
	return [{ path: DRY_RUN, message: `is not offered here; ${remedy}` }];
}

/** Longest excerpt of a refused value that is shown. */
const RECEIVED_LENGTH = 80;

function issueOf(issue: v.BaseIssue<unknown>): RequestIssue {
	const path = v.getDotPath(issue) ?? "";
	if (issue.received === "undefined") return { path, message: "is required" };
	const message = issue.message.startsWith("Invalid type")
		? `must be ${issue.expected ?? "something else"}`
		: issue.message;
	return { path, message, received: issue.received.slice(0, RECEIVED_LENGTH) };
}

/** Answers that an endpoint did not declare. In diagnostics they are errors, so that a test sees them. */
export class UndeclaredAnswer extends Error {
	override readonly name = "UndeclaredAnswer";
}

function serialise(endpoint: AnyEndpoint, output: unknown, deps: Deps, db: Database): Response {
	const counters: Record<string, string> = deps.config.diagnostics
		? { "Server-Timing": `d1;desc="trips=${db.trips}"` }
		: {};
	const statuses: readonly number[] = endpoint.status ?? [200];
	if (isRaw(endpoint.response) || output instanceof Response) {
		const response = output as Response;
		const declared = isRaw(endpoint.response) || endpoint.rawResponse !== undefined;
		if (deps.config.diagnostics && !(declared && statuses.includes(response.status))) {
			throw new UndeclaredAnswer(`${endpoint.method} ${endpoint.path} answered with the status ${response.status}`);
		}
		for (const [name, value] of Object.entries(counters)) response.headers.set(name, value);
		return response;
	}
	const reply = output instanceof Reply ? output : new Reply(endpoint.status?.[0] ?? 200, output);
	if (deps.config.diagnostics) {
		const checked = v.safeParse(endpoint.response, reply.body);
		if (!checked.success || !statuses.includes(reply.status)) {
			const issues = checked.success ? `status ${reply.status}` : JSON.stringify(v.flatten(checked.issues));
			throw new UndeclaredAnswer(`${endpoint.method} ${endpoint.path} answered outside its schema: ${issues}`);
		}
	}
	const headers = new Headers({ "content-type": "application/json", ...counters });
	for (const [name, values] of Object.entries(reply.headers)) {
		for (const value of [values].flat()) headers.append(name, value);
	}
	const empty = reply.status === 204;
	return new Response(empty ? null : JSON.stringify(reply.body), { status: reply.status, headers });
}
