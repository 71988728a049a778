/**
 * Phase 2, load: reads the request and, in one D1 batch, everything that the decision and the
 * handler need. Must stay true: nothing that is wrong with the request is refused here, because the
 * caller is not known to have any rights yet, except what leaves no request to decide about; rows
 * of the endpoint carry their tenant in their own WHERE and are dropped unless the decision allows
 * the request.
 */
import type { Principal } from "../../authz/principal";
import type { Database, Statement, StatementResult } from "../../db/batch";
import type { EarlierCreation } from "../../db/idempotency-keys";
import { listReads, type NamedReads, type NamedRows, nameRows } from "../../db/named-reads";
import type { ApiError, RequestIssue } from "../../errors";
import type { AnyEndpoint } from "../endpoint";
import type { Holding } from "../limits/memory";
import type { RawInput, ScopeSource } from "../scope";
import { acceptCaller, callerStatement, type Identified } from "./credential";
import { type Repeatable, repeatable } from "./idempotency";
import type { Incoming } from "./incoming";
import { checkInput, readInput } from "./input";

/** The request as it was read, with what is wrong with it. */
interface Read {
	/** The endpoint that the request is for. */
	readonly endpoint: AnyEndpoint;
	/** The request as it was sent, and in the endpoint's own form. */
	readonly sent: RawInput;
	readonly raw: RawInput;
	/** Undefined if there are issues. */
	readonly input: unknown;
	readonly issues: readonly RequestIssue[];
	/** Why the body could not be read. */
	readonly failure: ApiError | undefined;
	/**
	 * True if a parameter is repeated or the body is unreadable, so that it is unknown which target
	 * the request names.
	 */
	readonly isAmbiguous: boolean;
	/** Names of fields that have no effect. */
	readonly ignored: readonly string[];
}

export interface Loaded extends Read {
	/** Absent on public endpoints. */
	readonly principal: Principal | undefined;
	readonly source: ScopeSource<unknown> | undefined;
	/** False if the request names no target. */
	readonly namesTarget: boolean;
	readonly scopeRow: unknown;
	/** The rows of the endpoint's own `load`. */
	readonly loaded: NamedRows<NamedReads>;
	/** Set for a creation with an idempotency key. */
	readonly repeat: Repeatable | undefined;
	readonly earlier: EarlierCreation | undefined;
}

/**
 * @param holding the memory of a counted body
 * @throws {ApiError} for an unknown or expired credential, and beyond the limit of the caller
 */
export async function loadRequest(
	request: Incoming,
	identified: Identified,
	holding: Holding | undefined,
): Promise<Loaded> {
	const { credential, counting, db, known } = identified;
	const { isolate, nowMs, soFar } = request;
	const read = await readRequest(request, identified, holding);
	soFar.ignored = read.ignored;
	const { endpoint } = read;
	const source = "scope" in endpoint.access ? (endpoint.access.scope as ScopeSource<unknown>) : undefined;
	const scope = read.isAmbiguous ? undefined : source?.statement(read.raw);
	const repeat =
		credential === undefined ? undefined : repeatable(isolate.deps, endpoint, credential, read.sent, nowMs);
	const isUnknown = credential !== undefined && known === undefined;
	const reads = {
		caller: isUnknown ? callerStatement(credential, nowMs) : undefined,
		scope,
		earlier: repeat?.statement,
	};
	const own = ownReads(read, nowMs, credential?.hash ?? "");
	const results = await runBatch(db, [...listReads(reads), ...listReads(own)], counting);
	const rows = nameRows(reads, results);
	return {
		...read,
		principal: isUnknown ? acceptCaller(request, credential, rows.caller[0]) : known,
		source,
		namesTarget: scope !== undefined,
		scopeRow: rows.scope[0],
		loaded: nameRows(own, results.slice(listReads(reads).length)),
		repeat,
		earlier: rows.earlier[0],
	};
}

async function readRequest(
	request: Incoming,
	{ credential, limitBytes }: Identified,
	holding: Holding | undefined,
): Promise<Read> {
	const { routed, c, isolate, url } = request;
	const { deps, callerLimits } = isolate;
	const admit =
		credential === undefined ? undefined : (bytes: number) => callerLimits.paceBody(credential.hash, bytes, deps.now());
	const reading = { limitBytes, deadline: deps.deadline, holding, admit };
	const { raw: sent, issues: readIssues, failure } = await readInput(routed, c, url.searchParams, reading);
	const endpoint = routed.forms?.instead?.(sent) ?? routed;
	const raw = endpoint.forms?.read?.(sent) ?? sent;
	const { input, issues, ignored } = checkInput(endpoint, raw, readIssues);
	return {
		endpoint,
		sent,
		raw,
		input,
		issues,
		failure,
		isAmbiguous: readIssues.length > 0 || failure !== undefined,
		ignored: [...ignored, ...(endpoint.forms?.withoutEffect?.(sent) ?? [])],
	};
}

/** The endpoint's own reads; none for a request that will be refused. */
function ownReads({ endpoint, input, failure }: Read, nowMs: number, keyHash: string): NamedReads {
	if (input === undefined || failure !== undefined) return {};
	return endpoint.load?.(input as never, nowMs, keyHash) ?? {};
}

/**
 * The limit of the caller is looked at first. Its refusal must not leave the batch's rejection
 * without a handler.
 */
async function runBatch(
	db: Database,
	statements: readonly Statement[],
	counting: Promise<void> | undefined,
): Promise<readonly StatementResult<unknown>[]> {
	const loading: Promise<readonly StatementResult<unknown>[]> =
		statements.length === 0 ? Promise.resolve([]) : db.batch(statements);
	loading.catch(() => undefined);
	await counting;
	return loading;
}
