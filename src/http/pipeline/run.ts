/**
 * Phase 5, run: the handler, and what follows a change. Must stay true: each batch that writes is
 * guarded by the facts of the decision; a change that has landed wakes webhooks and replaces
 * snapshots even if the client hangs up; of two creations with one idempotency key one runs; the
 * answer has the declared form.
 */
import type { OwnWorkOnly, Target } from "../../authz/decide";
import type { Permission } from "../../authz/permissions";
import { callerGone, type Principal } from "../../authz/principal";
import type { Database } from "../../db/client";
import type { NamedReads } from "../../db/named-reads";
import { ApiError } from "../../errors";
import { wakingWrites } from "../../queue/webhook-wake";
import { notingChanges } from "../../snapshots/publish";
import type { AnyEndpoint, Context } from "../endpoint";
import { actorOf } from "../limits/denied-attempts";
import { serialize } from "../serialize";
import type { Identified } from "./credential";
import type { Decided } from "./decide";
import { guardedWrites } from "./guarded-writes";
import type { Incoming } from "./incoming";
import type { Loaded } from "./load";
import type { Valid } from "./validate";
import { SEEN_EVERYWHERE_AFTER_MS } from "./wait-visible";

/** The results of the earlier phases. */
export interface Ready {
	readonly request: Incoming;
	readonly identified: Identified;
	readonly loaded: Loaded;
	readonly decided: Decided;
	readonly valid: Valid;
}

/**
 * Internal ids of the apps that the handler changed; undefined stands for the app of the target.
 */
type ChangedApps = Set<string | undefined>;

export async function runHandler(ready: Ready): Promise<Response> {
	const { request, identified, loaded, valid } = ready;
	const { isolate, ipAddress } = request;
	const { deps, callerLimits } = isolate;
	const { endpoint, ignored } = loaded;
	const output = await finish(ready);
	// Also when nothing changed: the request may repeat one whose answer was lost.
	if (valid.waits) await deps.delay(SEEN_EVERYWHERE_AFTER_MS);
	let answerLength = 0;
	const noteLength = (length: number) => {
		answerLength = length;
	};
	const response = serialize(endpoint, output, deps, identified.db, { ignored, noteLength });
	if ("public" in endpoint.access) await callerLimits.paceAnswer(ipAddress, answerLength, deps.now());
	return response;
}

/**
 * Runs the handler, or answers with an earlier creation, and then replaces the snapshots of changed
 * apps.
 */
function finish(ready: Ready): Promise<unknown> {
	const { request, identified, loaded } = ready;
	const changed: ChangedApps = new Set();
	const handle = (opened: Database) =>
		loaded.endpoint.handle({ ...contextOf(ready), db: handlerDatabase(ready, opened, changed) } as never);
	const { repeat, earlier } = loaded;
	const handling = repeat === undefined ? handle(identified.db) : repeat.run(earlier, identified.db, handle);
	if (!mayWrite(loaded.endpoint)) return handling;
	const finished = handling.then(
		(output) => {
			replaceSnapshots(ready, changed);
			return output;
		},
		(error: unknown) => {
			if (changed.size > 0 || !isRefusal(error)) replaceSnapshots(ready, changed);
			throw error;
		},
	);
	// A client that hangs up ends its request at once, and with it the mail or the wake-up that
	// follows a change that has landed.
	request.waitUntil(finished.catch(() => undefined));
	return finished;
}

/** After any other error, a batch may have landed whose answer was lost. */
const isRefusal = (error: unknown) => error instanceof ApiError && error.status < 500;

const mayWrite = ({ method, safe }: AnyEndpoint) => method !== "GET" && safe !== true;

/** Guards each write, wakes webhooks after it, and notes the apps that it changes. */
function handlerDatabase({ request, loaded, decided }: Ready, opened: Database, changed: ChangedApps): Database {
	const { isolate, nowMs, waitUntil } = request;
	const { principal, source } = loaded;
	const db = notingChanges(opened, (appId) => changed.add(appId));
	const guarded =
		principal === undefined
			? db
			: guardedWrites(db, principal, decided.target, source?.hidden ?? callerGone(principal));
	return wakingWrites(guarded, isolate.deps, nowMs, waitUntil);
}

/** The context of the handler without its types, and without its database. */
type HandlerContext = Omit<
	Context<string, undefined, undefined, unknown, NamedReads>,
	"db" | "input" | "principal" | "scope"
> & { readonly input: unknown; readonly principal: Principal | undefined; readonly scope: Target | null };

function contextOf({ request, loaded: { principal, scopeRow, loaded }, decided, valid }: Ready): HandlerContext {
	const { c, isolate, ipAddress, nowMs, origin, waitUntil } = request;
	const { deps, snapshots, edgeCache, schemaVersion, eventBuffer, callerLimits, failedFiles, memory } = isolate;
	const { requestId } = c.env;
	return {
		deps,
		nowMs,
		requestId,
		request: c.req.raw,
		origin,
		input: valid.input,
		principal,
		actor: { ...actorOf(principal), requestId, ipAddress },
		scope: decided.target,
		scopeRow,
		loaded,
		ownWorkOnly: (permission: Permission): OwnWorkOnly | undefined => decided.limits.get(permission),
		snapshots,
		edgeCache,
		schemaVersion,
		eventBuffer,
		failedFiles,
		callerLimits,
		memory,
		waitUntil,
	};
}

/**
 * Drops the snapshot of the target from the isolate, and stores those of changed apps for the
 * others.
 */
function replaceSnapshots({ request, loaded, decided: { target } }: Ready, changed: ChangedApps): void {
	const { isolate, waitUntil } = request;
	const publicId = publicAppIdOf(loaded.scopeRow);
	const id = target?.appId;
	if (target !== null) isolate.snapshots.invalidate({ publicId, id });
	for (const appId of changed) waitUntil(isolate.snapshots.publish({ publicId, id: appId ?? id }));
}

/**
 * The public id of the app that the request is about; undefined for a request about an
 * organization.
 */
function publicAppIdOf(scopeRow: unknown): string | undefined {
	const publicAppId = (scopeRow as { app_id?: unknown } | undefined)?.app_id;
	return typeof publicAppId === "string" ? publicAppId : undefined;
}
