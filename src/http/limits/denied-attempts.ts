/**
 * Denied management requests as entries of the audit log.
 */
import type { Principal, PrincipalRow } from "../../authz/principal";
import type { Actor } from "../../db/audit/entries";
import { ciName } from "../../domain/ci/context";
import { ApiError, type ErrorCode } from "../../errors";
import type { AnyEndpoint } from "../endpoint";
import type { Isolate, RequestContext } from "../isolate";
import type { Credential } from "../pipeline/credential-headers";

/** The caller and the target of a refused request, as far as they are known. */
export interface CallerSoFar {
	principal?: Principal;
	/** The organization of the presented key, or of the target. */
	orgId?: string;
	key?: Pick<PrincipalRow, "id" | "name">;
	/** Fields of the request that have no effect. */
	ignored?: readonly string[];
}

/** Errors that are logged. */
const DENIALS: ReadonlySet<ErrorCode> = new Set([
	"permission_denied",
	"cannot_remove_higher_role",
	"invalid_api_key",
	"expired_api_key",
	"api_key_violates_policy",
	"ip_address_not_allowed",
]);

export function reportDenied(
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

/** Takes the presented key into `caller` before the key is checked. */
export function noteKey(caller: CallerSoFar, { kind }: Credential, row: unknown): void {
	if (kind !== "key" || row === undefined) return;
	const { id, name, org_id } = row as PrincipalRow;
	caller.key = { id, name };
	caller.orgId = org_id;
}

export function actorOf(principal: Principal | undefined): Pick<Actor, "type" | "id" | "name" | "ci"> {
	if (principal === undefined) return { type: "system", id: null, name: "anonymous" };
	if (principal.kind === "session") return { type: "user", id: principal.userId, name: principal.email };
	const { keyId, keyName, publisher } = principal;
	return publisher === undefined
		? { type: "api_key", id: keyId, name: keyName }
		: { type: "api_key", id: keyId, name: ciName(publisher.ci, publisher.name), ci: publisher.ci };
}
