/**
 * Phase 1, credential: who calls, and what the request may take. Must stay true: nothing of the
 * body is read here; strangers are limited before any work, and requests of a caller are counted
 * before D1 is read for them; a credential that was not valid in this isolate recently cannot make
 * D1 read the rows of an endpoint.
 */
import type { CompiledQuery } from "kysely";
import { grantsAny } from "../../authz/decide";
import { type Principal, type PrincipalRow, principalFrom } from "../../authz/principal";
import { type SessionRow, sessionPrincipalFrom } from "../../authz/session";
import { type Database, openDb } from "../../db/client";
import { principalStatement, sessionStatement } from "../../db/principals";
import { uploaderColumns } from "../../db/uploads";
import type { Deps } from "../../deps";
import { permissionsOf } from "../endpoint";
import { refuseUnknownHost } from "../known-hosts";
import type { CallerLimits } from "../limits/callers";
import { noteKey } from "../limits/denied-attempts";
import { type Holding, organizationOf, ownerOf } from "../limits/memory";
import { addressKey, countCallerRequest, networkKey } from "../limits/requests";
import { DEFAULT_LIMIT_BYTES, memoryOfBody } from "./body";
import { type Credential, readCredential } from "./credential-headers";
import type { Incoming } from "./incoming";
import { readsQueryFromBody } from "./input";
import { noteSessionUse } from "./last-used";

export interface Identified {
	/** Absent on public endpoints. */
	readonly credential: Credential | undefined;
	/** Counts the request of the caller; rejects if that was one too many. */
	readonly counting: Promise<void> | undefined;
	readonly db: Database;
	/** The caller, if the credential was looked up already. Otherwise the load looks it up. */
	readonly known: Principal | undefined;
	/** Largest body. */
	readonly limitBytes: number;
}

/**
 * @throws {ApiError} for an unknown host, a malformed, unknown or expired credential, and beyond a
 * limit
 */
export async function identifyCaller(request: Incoming): Promise<Identified> {
	const { routed, c, isolate, ipAddress, nowMs, origin, url } = request;
	const { deps, callerLimits } = isolate;
	const { access } = routed;
	refuseUnknownHost(deps, routed, url);
	const isUncounted = "public" in access && c.env.isCounted !== true;
	if (isUncounted && !callerLimits.takeRequest(ipAddress, nowMs)) throw callerLimits.tooMany();
	const sources = { ownSession: "ownSession" in access, keyOnly: routed.keyOnly === true };
	const credential = "public" in access ? undefined : readCredential(sources, c.req.raw, origin);
	if (credential !== undefined) callerLimits.admitCredential(ipAddress, credential.hash, nowMs);
	const counting = credential === undefined ? undefined : countCaller(deps, credential, callerLimits);
	const db = databaseOf(request);
	const isLarge = mayHaveLargeBody(request);
	// Others are looked up with the reads of the endpoint, so that D1 is read once, while the
	// platform's counter is asked.
	const isEarly = credential !== undefined && (isLarge || !callerLimits.mayReadEarly(credential.hash));
	const known = isEarly ? await lookUpCaller(request, credential, counting, db) : undefined;
	return { credential, counting, db, known, limitBytes: limitOfBody(request, isLarge, known) };
}

/** Counts a request of the caller. Its rejection has a handler, because it may be awaited late. */
function countCaller(deps: Deps, credential: Credential, callerLimits: CallerLimits): Promise<void> {
	const counting = countCallerRequest(deps, credential).catch((error: unknown) => {
		callerLimits.noteLimited(credential.hash);
		throw error;
	});
	counting.catch(() => undefined);
	return counting;
}

/** Devices read the primary too, because a replica may be behind the change feed. */
function databaseOf({ routed: { access, tag }, isolate: { deps, callerLimits }, ipAddress }: Incoming): Database {
	const opened = openDb(deps.d1, "first-primary");
	const isLimited = "public" in access && access.isProven !== true;
	return isLimited ? callerLimits.database(opened, ipAddress, tag) : opened;
}

export function callerStatement({ kind, hash }: Credential, nowMs: number): CompiledQuery {
	return kind === "key" ? principalStatement(hash, nowMs) : sessionStatement(hash, nowMs);
}

/**
 * Looks the credential up alone: before a large body is read, and before the reads of the endpoint,
 * which may cost thousands of rows.
 */
async function lookUpCaller(
	request: Incoming,
	credential: Credential,
	counting: Promise<void> | undefined,
	db: Database,
): Promise<Principal> {
	await counting;
	const [found] = await db.batch([callerStatement(credential, request.nowMs)]);
	return acceptCaller(request, credential, found.rows[0]);
}

/**
 * @param row as `callerStatement` found it
 * @throws {ApiError} for an unknown, expired or ended credential
 */
export function acceptCaller(request: Incoming, credential: Credential, row: unknown): Principal {
	const { isolate, ipAddress, nowMs, soFar, waitUntil } = request;
	const { deps, noteKeyUse, callerLimits } = isolate;
	noteKey(soFar, credential, row);
	let principal: Principal;
	try {
		principal = principalOf(credential, row, nowMs, ipAddress);
	} catch (error) {
		callerLimits.noteInvalid(credential.hash);
		throw error;
	}
	soFar.principal = principal;
	callerLimits.noteValid(credential.hash, ownerOf(uploaderColumns(principal), organizationOf(principal)));
	if (principal.kind === "key") noteKeyUse(principal, nowMs, waitUntil);
	else noteSessionUse(deps, principal, nowMs, waitUntil);
	return principal;
}

function principalOf({ kind }: Credential, row: unknown, nowMs: number, ipAddress: string | null): Principal {
	return kind === "key"
		? principalFrom(row as PrincipalRow | undefined, nowMs, ipAddress)
		: sessionPrincipalFrom(row as SessionRow | undefined);
}

/** True if the endpoint accepts large bodies and this one is not declared to be small. */
function mayHaveLargeBody({ routed: { bodyLimitBytes = DEFAULT_LIMIT_BYTES }, c }: Incoming): boolean {
	const declaredBytes = Number(c.req.raw.headers.get("content-length") ?? Number.POSITIVE_INFINITY);
	return bodyLimitBytes > DEFAULT_LIMIT_BYTES && !(declaredBytes <= DEFAULT_LIMIT_BYTES);
}

/**
 * The large limit is for callers that hold the permission somewhere, not for their own work only.
 * The body names the place.
 */
function limitOfBody({ routed }: Incoming, isLarge: boolean, known: Principal | undefined): number {
	const { access, bodyLimitBytes = DEFAULT_LIMIT_BYTES } = routed;
	const mayBeLarge =
		known?.bindings.some((each) => grantsAny(each, permissionsOf(access)) && each.role.ownWorkOnly !== true) === true;
	return isLarge && mayBeLarge ? bodyLimitBytes : Math.min(bodyLimitBytes, DEFAULT_LIMIT_BYTES);
}

/**
 * Runs the other phases while the memory of the body is counted, in the share of the caller or of
 * the address.
 */
export function holdingMemory<Value>(
	{ routed, c, isolate: { memory, callerLimits }, ipAddress, waitUntil }: Incoming,
	{ credential, limitBytes }: Identified,
	work: (holding: Holding | undefined) => Promise<Value>,
): Promise<Value> {
	const readsBody = routed.body !== undefined || readsQueryFromBody(routed);
	const bytes = readsBody ? memoryOfBody(c.req.raw, limitBytes) : 0;
	if (bytes === 0) return work(undefined);
	if (credential === undefined) {
		const owner = { name: addressKey(ipAddress), group: networkKey(ipAddress) };
		return memory.anonymous.during(owner, bytes, waitUntil, work);
	}
	const caller = callerLimits.ownerOf(credential.hash) ?? { name: credential.hash, group: credential.hash };
	// Apart from the work of the handler, which holds more in the share of the same caller.
	return memory.callers.during({ ...caller, name: `body of ${caller.name}` }, bytes, waitUntil, work);
}
