/**
 * The one path from a request to an endpoint's handler: key, principal, decision, validation, handler, answer. Authorization precedes
 * validation errors, so a stranger learns nothing of the schema. Routes exist only through `mount`, so none can skip a step.
 */
import type { CompiledQuery } from "kysely";
import { grantsAny, holdsGlobally, type OwnWorkOnly, type Scope, type Target } from "../../authz/decide";
import type { Permission } from "../../authz/permissions";
import { callerGone, type Principal, type PrincipalRow, principalFrom } from "../../authz/principal";
import { type RecentSignIn, requireRecentSignIn, type SessionRow, sessionPrincipalFrom } from "../../authz/session";
import type { Actor } from "../../db/audit/entries";
import { type Database, openDb, type StatementResult } from "../../db/client";
import type { EarlierCreation } from "../../db/idempotency-keys";
import { listReads, type NamedReads, nameRows } from "../../db/named-reads";
import { principalStatement, sessionStatement } from "../../db/principals";
import type { Deps } from "../../deps";
import { ApiError, type ErrorCode, invalidRequest } from "../../errors";
import { wakingWrites } from "../../queue/webhook-wake";
import { notingChanges } from "../../snapshots/publish";
import { clearSessionCookie } from "../cookies";
import { type AnyEndpoint, type Method, permissionsOf } from "../endpoint";
import type { CapstanApp, Isolate, RequestContext } from "../isolate";
import { refuseUnknownHost } from "../known-hosts";
import { actorOf, type CallerSoFar, noteKey, reportDenied } from "../limits/denied-attempts";
import { addressKey, countCallerRequest, countFailure, networkKey } from "../limits/requests";
import type { StrangerLimits } from "../limits/strangers";
import type { ScopeSource } from "../scope";
import { serialize } from "../serialize";
import { DEFAULT_LIMIT_BYTES, memoryOfBody } from "./body";
import { type Credential, readCredential } from "./credential";
import { authorize } from "./decide";
import { guardedWrites } from "./guarded-writes";
import { repeatable } from "./idempotency";
import { noteSessionUse } from "./last-used";
import { IGNORED_HEADER, namesForHeader } from "./unknown-fields";
import { readInput, readsQueryFromBody, validate } from "./validate";
import { SEEN_EVERYWHERE_AFTER_MS, wantsToWait } from "./wait-visible";

/** Errors that any endpoint may answer with. */
export const PIPELINE_ERRORS: readonly ErrorCode[] = [
	"unknown_host",
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
	readonly load?: (input: unknown, nowMs: number, keyHash: string) => NamedReads;
	readonly handle: (context: unknown) => Promise<unknown>;
};

/** The part of a request that precedes its body. */
interface Begun {
	readonly ipAddress: string | null;
	readonly nowMs: number;
	readonly url: URL;
	readonly origin: string;
	readonly waitUntil: (work: Promise<unknown>) => void;
	readonly db: Database;
	readonly credential: Credential | undefined;
	/** The caller, if the credential was looked up before the body is read. */
	readonly known: Principal | undefined;
	readonly counting: Promise<void> | undefined;
	/** Returns the caller of a row that `callerStatement` found. */
	readonly accept: (row: unknown) => Principal;
	readonly limitBytes: number;
}

async function answer(
	endpoint: AnyEndpoint,
	c: RequestContext,
	isolate: Isolate,
	ipAddress: string | null,
	caller: CallerSoFar,
): Promise<Response> {
	const { deps, noteKeyUse, strangers, memory } = isolate;
	const access = endpoint.access;
	const nowMs = deps.now();
	const waitUntil = (work: Promise<unknown>) => c.executionCtx.waitUntil(work);
	const url = new URL(c.req.url);
	const origin = deps.config.publicUrl ?? url.origin;
	refuseUnknownHost(deps, endpoint, url);
	const isUncounted = "public" in access && c.env.isCounted !== true;
	if (isUncounted && !strangers.takeRequest(ipAddress, nowMs)) throw strangers.tooMany();
	const sources = { ownSession: "ownSession" in access, keyOnly: endpoint.keyOnly === true };
	const credential = "public" in access ? undefined : readCredential(sources, c.req.raw, origin);
	if (credential !== undefined) {
		strangers.admitCredential(ipAddress, credential.hash, nowMs);
	}
	const counting = credential === undefined ? undefined : countCaller(deps, credential, strangers);
	// Devices read the primary too, because a replica may be behind the change feed.
	const opened = openDb(deps.d1, "first-primary");
	const isLimited = "public" in access && access.isProven !== true;
	const db = isLimited ? strangers.database(opened, ipAddress, endpoint.tag) : opened;

	const accept = (row: unknown): Principal => {
		if (credential === undefined) throw new Error("a public endpoint has no caller");
		noteKey(caller, credential, row);
		try {
			caller.principal = callerFrom(credential, row, nowMs, ipAddress);
		} catch (error) {
			strangers.noteInvalid(credential.hash);
			throw error;
		}
		strangers.noteValid(credential.hash, memoryGroupOf(caller.principal));
		if (caller.principal.kind === "key") noteKeyUse(caller.principal, nowMs, waitUntil);
		else noteSessionUse(deps, caller.principal, nowMs, waitUntil);
		return caller.principal;
	};
	// A credential that was not valid here recently is looked up alone, before the body is read and before the reads of the endpoint, which may
	// cost thousands of rows. So is that of a large body. For all others D1 is read once, while the platform's counter is asked.
	const { bodyLimitBytes = DEFAULT_LIMIT_BYTES } = endpoint;
	const declaredBytes = Number(c.req.raw.headers.get("content-length") ?? Number.POSITIVE_INFINITY);
	const isLarge = bodyLimitBytes > DEFAULT_LIMIT_BYTES && !(declaredBytes <= DEFAULT_LIMIT_BYTES);
	let known: Principal | undefined;
	if (credential !== undefined && (isLarge || !strangers.mayReadEarly(credential.hash))) {
		await counting;
		const [found] = await db.batch([callerStatement(credential, nowMs)]);
		known = accept(found.rows[0]);
	}
	// The large limit is for callers that hold the permission somewhere, not for their own work only; where, the body says.
	const mayBeLarge =
		known?.bindings.some((each) => grantsAny(each, permissionsOf(access)) && each.role.ownWorkOnly !== true) === true;
	const limitBytes = isLarge && mayBeLarge ? bodyLimitBytes : Math.min(bodyLimitBytes, DEFAULT_LIMIT_BYTES);
	const begun = { ipAddress, nowMs, url, origin, waitUntil, db, credential, known, counting, accept, limitBytes };
	const bytes = endpoint.body === undefined && !readsQueryFromBody(endpoint) ? 0 : memoryOfBody(c.req.raw, limitBytes);
	if (bytes === 0) return answerBegun(endpoint, c, isolate, begun, caller);
	const budget = credential === undefined ? memory.strangers : memory.callers;
	const owner =
		credential === undefined
			? { name: addressKey(ipAddress), group: networkKey(ipAddress) }
			: { name: credential.hash, group: strangers.groupOf(credential.hash) ?? credential.hash };
	return budget.during(owner, bytes, waitUntil, () => answerBegun(endpoint, c, isolate, begun, caller));
}

async function answerBegun(
	routed: AnyEndpoint,
	c: RequestContext,
	isolate: Isolate,
	{ ipAddress, nowMs, url, origin, waitUntil, db, credential, known, counting, accept, limitBytes }: Begun,
	caller: CallerSoFar,
): Promise<Response> {
	const { deps, snapshots, edgeCache, schemaVersion, eventBuffer, strangers, failedFiles, memory } = isolate;
	const admit =
		credential === undefined ? undefined : (bytes: number) => strangers.paceBody(credential.hash, bytes, deps.now());
	const read = await readInput(routed, c, url.searchParams, { limitBytes, deadline: deps.deadline, admit });
	const { issues: readIssues, failure } = read;
	const endpoint = routed.forms?.instead?.(read.raw) ?? routed;
	const access = endpoint.access;
	const untyped = endpoint as unknown as Untyped;
	const raw = endpoint.forms?.read?.(read.raw) ?? read.raw;
	const { input, issues, ignored: unknown } = validate(endpoint, raw, readIssues);
	const ignored = [...unknown, ...(endpoint.forms?.withoutEffect?.(read.raw) ?? [])];
	caller.ignored = ignored;

	const source = "scope" in access ? (access.scope as ScopeSource<unknown>) : undefined;
	// A repeated parameter names no target.
	const scopeStatement = readIssues.length > 0 || failure !== undefined ? undefined : source?.statement(raw);
	const repeat = credential === undefined ? undefined : repeatable(deps, endpoint, credential, read.raw, nowMs);
	const ownReads: NamedReads =
		input === undefined || failure !== undefined ? {} : (untyped.load?.(input, nowMs, credential?.hash ?? "") ?? {});
	const ownStatements = listReads(ownReads);
	const lookUp = credential === undefined || known !== undefined ? [] : [callerStatement(credential, nowMs)];
	const statements: CompiledQuery[] = [
		...lookUp,
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
	const loaded = nameRows(ownReads, results.slice(results.length - ownStatements.length));

	const principal = lookUp.length === 0 ? known : accept(results[0]?.rows[0]);
	let scopeRow: unknown;
	let target: Target | null = null;
	const limits = new Map<Permission, OwnWorkOnly>();
	if (principal !== undefined) {
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
			scopeRow = results[lookUp.length]?.rows[0];
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
	const changed = new Set<string | undefined>();
	const run = (opened: Database) => {
		const db = notingChanges(opened, (appId) => changed.add(appId));
		return untyped.handle({
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
			edgeCache,
			schemaVersion,
			eventBuffer,
			failedFiles,
			strangers,
			memory,
			waitUntil,
		});
	};
	const earlier = results[results.length - ownStatements.length - 1]?.rows[0] as EarlierCreation | undefined;
	const handling = repeat === undefined ? run(db) : repeat.run(earlier, db, run);
	const mayWrite = endpoint.method !== "GET" && endpoint.safe !== true;
	const finished = handling.then((output) => {
		if (!mayWrite) return output;
		const publicId = publicAppIdOf(scopeRow);
		const id = target !== null && "appId" in target ? target.appId : undefined;
		if (target !== null) snapshots.invalidate({ publicId, id });
		for (const appId of changed) waitUntil(snapshots.publish({ publicId, id: appId ?? id }));
		return output;
	});
	// A client that hangs up ends its request at once, and with it the mail or the wake-up that follows a change that has landed.
	if (mayWrite) waitUntil(finished.catch(() => undefined));
	const output = await finished;
	// Also when nothing changed: the request may repeat one whose answer was lost.
	if (waits) await deps.delay(SEEN_EVERYWHERE_AFTER_MS);
	let answerLength = 0;
	const noteLength = (length: number) => {
		answerLength = length;
	};
	const response = serialize(endpoint, output, deps, db, { ignored, noteLength });
	if ("public" in access) await strangers.paceAnswer(ipAddress, answerLength, deps.now());
	return response;
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

/** All keys of an organization together, and all sessions of an account, have one share of the memory. */
const memoryGroupOf = (principal: Principal): string => (principal.kind === "key" ? principal.orgId : principal.userId);

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

/** The public id of the app that the request is about; undefined for a request about an organization. */
function publicAppIdOf(scopeRow: unknown): string | undefined {
	const publicAppId = (scopeRow as { app_id?: unknown } | undefined)?.app_id;
	return typeof publicAppId === "string" ? publicAppId : undefined;
}
