/**
 * The one path from a request to an endpoint's handler: key, principal, decision, validation, handler, answer. Authorization precedes
 * validation errors, so a stranger learns nothing of the schema. Routes exist only through `mount`, so none can skip a step.
 */
import type { CompiledQuery } from "kysely";
import { holdsGlobally, type OwnWorkOnly, type Scope, type Target } from "../authz/decide";
import type { Permission } from "../authz/permissions";
import { callerGone, type Principal, type PrincipalRow, principalFrom } from "../authz/principal";
import { type RecentSignIn, requireRecentSignIn, type SessionRow, sessionPrincipalFrom } from "../authz/session";
import type { Actor } from "../db/audit/entries";
import { type Database, openDb, type StatementResult } from "../db/client";
import type { EarlierCreation } from "../db/idempotency-keys";
import { principalStatement, sessionStatement } from "../db/principals";
import type { SnapshotCache } from "../db/snapshot-cache";
import type { Deps } from "../deps";
import { ApiError, type ErrorCode, invalidRequest } from "../errors";
import { wakingWrites } from "../queue/webhook-wake";
import { authorize } from "./authorize";
import { clearSessionCookie } from "./cookies";
import { type Credential, readCredential } from "./credentials";
import { actorOf, type CallerSoFar, noteKey, reportDenied } from "./denied-attempts";
import type { AnyEndpoint, Method } from "./endpoint";
import { guardedWrites } from "./guarded-writes";
import { repeatable } from "./idempotency";
import type { CapstanApp, Isolate, RequestContext } from "./isolate";
import { noteSessionUse } from "./last-used";
import { readInput, validate } from "./request-input";
import { countCallerRequest, countFailure } from "./request-limits";
import type { ScopeSource } from "./scope";
import { serialize } from "./serialize";
import type { StrangerLimits } from "./stranger-limits";
import { IGNORED_HEADER, namesForHeader } from "./unknown-fields";
import { SEEN_EVERYWHERE_AFTER_MS, wantsToWait } from "./wait-visible";

/** Errors that any endpoint may answer with. */
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

/** Adds the endpoints to the app, and 405 with `Allow` for every other method on their paths. */
export function mount(app: CapstanApp, endpoints: readonly AnyEndpoint[], isolate: Isolate): void {
	const { deps } = isolate;
	const byPath = Map.groupBy(endpoints, ({ path }) => path);
	// All methods of a path at once, so that no method of /app/restore falls through to /app/:app_id.
	for (const [path, ofPath] of byPath) {
		for (const endpoint of ofPath) {
			app.on([endpoint.method, ...(endpoint.alsoMethods ?? [])], path, async (c) => {
				const ipAddress = deps.config.clientAddress ?? c.req.raw.headers.get("cf-connecting-ip");
				const caller: CallerSoFar = {};
				try {
					return await answer(endpoint, c, isolate, ipAddress, caller);
				} catch (error) {
					nameIgnored(error, caller);
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

/** A refused request says as well which of its fields had no effect. */
function nameIgnored(error: unknown, { ignored = [] }: CallerSoFar): void {
	if (error instanceof ApiError && ignored.length > 0) error.headers[IGNORED_HEADER] = namesForHeader(ignored);
}

const isTooMany = (error: unknown) => error instanceof ApiError && error.code === "too_many_requests";

/** Removes the cookie of an ended session from the browser. */
function withoutCookie(error: unknown, c: RequestContext, deps: Deps): unknown {
	if (!(error instanceof ApiError) || error.code !== "invalid_session") return error;
	const headers = clearSessionCookie(deps.config.publicUrl ?? new URL(c.req.url).origin);
	return new ApiError(error.code, error.message, { headers });
}

/** An endpoint without its generic types; only this file looks at endpoints this way. */
type Untyped = Omit<AnyEndpoint, "load" | "handle" | "recentSignIn"> & {
	readonly recentSignIn?: true | "passkey" | ((input: unknown) => RecentSignIn);
	readonly load?: (input: unknown, nowMs: number, keyHash: string) => readonly CompiledQuery[];
	readonly handle: (context: unknown) => Promise<unknown>;
};

async function answer(
	routed: AnyEndpoint,
	c: RequestContext,
	{ deps, noteKeyUse, snapshots, liveApps, edgeCache, schemaVersion, eventBuffer, strangers, failedFiles }: Isolate,
	ipAddress: string | null,
	caller: CallerSoFar,
): Promise<Response> {
	let endpoint = routed;
	let access = endpoint.access;
	const nowMs = deps.now();
	const waitUntil = (work: Promise<unknown>) => c.executionCtx.waitUntil(work);
	const url = new URL(c.req.url);
	const origin = deps.config.publicUrl ?? url.origin;
	const isUncounted = "public" in access && c.env.isCounted !== true;
	if (isUncounted && !strangers.takeRequest(ipAddress, nowMs)) throw strangers.tooMany();
	const sources = { ownSession: "ownSession" in access, keyOnly: endpoint.keyOnly === true };
	const credential = "public" in access ? undefined : readCredential(sources, c.req.raw, origin);
	if (credential !== undefined) {
		strangers.admitCredential(ipAddress, credential.hash, nowMs);
	}
	const counting = credential === undefined ? undefined : countCaller(deps, credential, strangers);
	// The platform's counter and D1 are asked at the same time, if D1 would probably be read anyway.
	if (credential !== undefined && !strangers.mayReadEarly(credential.hash)) await counting;
	const read = await readInput(endpoint, c, url.searchParams);
	const { issues: readIssues, failure } = read;
	endpoint = endpoint.forms?.instead?.(read.raw) ?? endpoint;
	access = endpoint.access;
	const untyped = endpoint as unknown as Untyped;
	const raw = endpoint.forms?.read?.(read.raw) ?? read.raw;
	const { input, issues, ignored: unknown } = validate(endpoint, raw, readIssues);
	const ignored = [...unknown, ...(endpoint.forms?.withoutEffect?.(read.raw) ?? [])];
	caller.ignored = ignored;

	// Devices read the primary too, because a replica may be behind the change feed.
	const opened = openDb(deps.d1, "first-primary");
	const isLimited = "public" in access && access.isProven !== true;
	const db = isLimited ? strangers.database(opened, ipAddress, endpoint.tag) : opened;
	const source = "scope" in access ? (access.scope as ScopeSource<unknown>) : undefined;
	// A repeated parameter names no target.
	const scopeStatement = readIssues.length > 0 || failure !== undefined ? undefined : source?.statement(raw);
	const repeat = credential === undefined ? undefined : repeatable(deps, endpoint, credential, read.raw, nowMs);
	const ownStatements =
		input === undefined || failure !== undefined ? [] : (untyped.load?.(input, nowMs, credential?.hash ?? "") ?? []);
	const statements: CompiledQuery[] = [
		...(credential === undefined ? [] : [callerStatement(credential, nowMs)]),
		...(scopeStatement === undefined ? [] : [scopeStatement]),
		...(repeat === undefined ? [] : [repeat.statement]),
		...ownStatements,
	];
	const loading: Promise<StatementResult<unknown>[]> =
		statements.length === 0 ? Promise.resolve([]) : db.batch(statements);
	// The limit is looked at first, and its refusal must not leave a rejection without a handler.
	loading.catch(() => undefined);
	await counting;
	const results = await loading;
	const loaded = results.slice(results.length - ownStatements.length);

	let principal: Principal | undefined;
	let scopeRow: unknown;
	let target: Target | null = null;
	const limits = new Map<Permission, OwnWorkOnly>();
	if (credential !== undefined) {
		noteKey(caller, credential, results[0]?.rows[0]);
		principal = callerFrom(credential, results[0]?.rows[0], nowMs, ipAddress);
		strangers.noteValid(credential.hash);
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
			authorize(endpoint, principal, target, source, { raw, input, scopeRow, loaded }, limits);
		}
		if (principal.kind === "session") requireRecentSignIn(principal, wantedSignIn(untyped, input), nowMs);
	}
	if (failure !== undefined) throw failure;
	if (input === undefined) throw issues.length > 0 ? invalidRequest(issues) : new Error("refused without an issue");

	const waits = wantsToWait(endpoint, c.req.raw.headers);
	const { requestId } = c.env;
	const actor: Actor = { ...actorOf(principal), requestId, ipAddress };
	const run = (db: Database) =>
		untyped.handle({
			deps,
			db: wakingWrites(
				principal === undefined ? db : guardedWrites(db, principal, target, source?.hidden ?? callerGone(principal)),
				...([deps, nowMs, waitUntil] as const),
			),
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
			edgeCache,
			schemaVersion,
			eventBuffer,
			failedFiles,
			strangers,
			waitUntil,
		});
	const earlier = results[results.length - ownStatements.length - 1]?.rows[0] as EarlierCreation | undefined;
	const handling = repeat === undefined ? run(db) : repeat.run(earlier, db, run);
	const mayWrite = endpoint.method !== "GET" && endpoint.safe !== true;
	const finished = handling.then((output) => {
		if (target !== null && mayWrite) {
			invalidateChanged(snapshots, scopeRow);
			liveApps.invalidate("appId" in target ? target.appId : undefined);
		}
		return output;
	});
	// A client that hangs up ends its request at once, and with it the mail or the wake-up that follows a change that has landed.
	if (mayWrite) waitUntil(finished.catch(() => undefined));
	const output = await finished;
	// Also when nothing changed: the request may repeat one whose answer was lost.
	if (waits) await deps.delay(SEEN_EVERYWHERE_AFTER_MS);
	return serialize(endpoint, output, deps, db, ignored);
}

/** Counts a request of the caller. Its rejection has a handler, because it may be awaited late. */
function countCaller(deps: Deps, credential: Credential, strangers: StrangerLimits): Promise<void> {
	const counting = countCallerRequest(deps, credential).catch((error: unknown) => {
		strangers.noteLimited(credential.hash);
		throw error;
	});
	counting.catch(() => undefined);
	return counting;
}

function callerStatement({ kind, hash }: Credential, nowMs: number): CompiledQuery {
	return kind === "key" ? principalStatement(hash, nowMs) : sessionStatement(hash, nowMs);
}

function callerFrom({ kind }: Credential, row: unknown, nowMs: number, ipAddress: string | null): Principal {
	return kind === "key"
		? principalFrom(row as PrincipalRow | undefined, nowMs, ipAddress)
		: sessionPrincipalFrom(row as SessionRow | undefined);
}

function wantedSignIn({ recentSignIn }: Untyped, input: unknown): RecentSignIn {
	if (typeof recentSignIn !== "function") return recentSignIn ?? false;
	return input !== undefined && recentSignIn(input);
}

/** The next check of the changed app, or of any app after a change of an organization, asks the change feed first. */
function invalidateChanged(snapshots: SnapshotCache, scopeRow: unknown): void {
	const publicAppId = (scopeRow as { app_id?: unknown } | undefined)?.app_id;
	snapshots.invalidate(typeof publicAppId === "string" ? publicAppId : undefined);
}
