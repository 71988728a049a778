/**
 * The database of a handler: each batch that writes is guarded by the facts of the decision
 * (caller, bindings, target), so a concurrent change by another isolate aborts it. It costs no
 * round trip, and a batch that only reads is unchanged.
 */
import { covers, type Target } from "../../authz/decide";
import { callerGone, type KeyPrincipal, type Principal } from "../../authz/principal";
import { appIsLive } from "../../db/apps";
import { accountRolesAre, callerUnchanged, channelBindingsAre } from "../../db/caller-guards";
import { isStillPreview } from "../../db/channel-names";
import { type Database, guard, type Statement } from "../../db/client";
import { rolesUnchanged } from "../../db/custom-roles";
import { organizationIsLive } from "../../db/organizations";
import { ApiError } from "../../errors";

/**
 * @param target the target of the decision, or null
 * @param gone the error when the target's app or organization was deleted meanwhile
 */
export function guardedWrites(
	db: Database,
	principal: Principal,
	target: Target | null,
	gone: () => ApiError,
): Database {
	const guardsOfWrite = () => [
		...targetGuards(target, gone),
		...(principal.kind === "key" && target !== null && target.appId === undefined
			? [
					guard(
						accountRolesAre(principal.userId, target.orgId, rolesIn(principal, target.orgId)),
						callerGone(principal),
					),
				]
			: []),
		...callerGuards(principal, decidingBindings(principal, target)),
		...roleGuards(principal, target),
		...previewGuards(principal, target),
		...channelGuards(principal, target),
	];
	return {
		get trips() {
			return db.trips;
		},
		get sizeBytes() {
			return db.sizeBytes;
		},
		batch(statements, { before = [], after = [] } = {}) {
			if (statements.every(isRead)) return db.batch(statements, { before, after });
			return db.batch(statements, { before: [...guardsOfWrite(), ...before], after });
		},
	};
}

/** A person whose roles change stays signed in, unless the session has ended. */
function callerGuards(principal: Principal, bindings: Principal["bindings"]): Statement[] {
	const gone = callerGone(principal);
	if (principal.kind === "key") return [guard(callerUnchanged({ ...principal, bindings }), gone)];
	return [
		guard(callerUnchanged({ ...principal, bindings: [] }), gone),
		guard(callerUnchanged({ ...principal, bindings }), rolesChanged),
	];
}

/**
 * The custom roles of the caller, and of a key's account, have the permissions that the decision
 * saw.
 */
function roleGuards(principal: Principal, target: Target | null): Statement[] {
	const held = [...principal.bindings, ...(principal.kind === "key" ? principal.accountRoles : [])].filter(
		({ orgId, role }) => role.isCustom === true && (target === null || orgId === target.orgId),
	);
	return held.length === 0 ? [] : [guard(rolesUnchanged(held), rolesChanged)];
}

function rolesChanged(): ApiError {
	return new ApiError(
		"permission_denied",
		"The caller's roles changed during this request, and nothing was written; repeat the request.",
	);
}

const rolesIn = ({ accountRoles }: KeyPrincipal, orgId: string) =>
	accountRoles.filter((held) => held.orgId === orgId).map(({ role }) => role.name);

function targetGuards(target: Target | null, gone: () => ApiError): Statement[] {
	// A restoration has its own guards.
	if (target === null || target.inDeletedOrganization === true) return [];
	const { orgId, appId, isDeletedApp } = target;
	const isLive = appId === undefined || isDeletedApp === true ? organizationIsLive(orgId) : appIsLive(orgId, appId);
	return [guard(isLive, gone)];
}

/**
 * A role on the target's channel was not revoked meanwhile. Where the channel was deleted, the
 * handler's own guard names that.
 */
function channelGuards(principal: Principal, target: Target | null): Statement[] {
	if (target?.channelId === undefined) return [];
	const ids = principal.bindings
		.filter(({ role, scopeType }) => scopeType === "channel" && role.previewChannelsOnly !== true)
		.filter((binding) => covers(binding, target))
		.map(({ id }) => id);
	return ids.length === 0 ? [] : [guard(channelBindingsAre(principal, target.channelId, ids), rolesChanged)];
}

/** A preview role grants nothing on a channel that became more than a preview. */
function previewGuards({ bindings }: Principal, target: Target | null): Statement[] {
	if (target?.appId === undefined || target.channelId === undefined) return [];
	const covering = bindings.filter((binding) => covers(binding, target));
	if (!covering.every(({ role }) => role.ownWorkOnly === true)) return [];
	return [guard(isStillPreview(target.appId, target.channelId), noLongerPreview)];
}

function noLongerPreview(): ApiError {
	return new ApiError(
		"permission_denied",
		"The channel became public, protected or the app's default upload channel, where preview roles grant nothing; use a wider role.",
		{ moreInfo: { permission: "channel.promote_bundle", scope: "channel" } },
	);
}

/**
 * The bindings that the decision can depend on. Those on channels are excluded: their guard is the
 * channel's own, and a key with many channels must not fail because one of them was deleted.
 */
function decidingBindings({ bindings }: Principal, target: Target | null): Principal["bindings"] {
	return bindings.filter(
		(binding) => binding.scopeType !== "channel" && (target?.appId === undefined || covers(binding, target)),
	);
}

/**
 * A read with a condition would fail, and end a session, when the caller's roles change meanwhile.
 */
export function isRead({ sql }: Statement): boolean {
	return (
		/^\s*SELECT\b/i.test(sql) || (/^\s*WITH\b/i.test(sql) && !/\b(?:INSERT|UPDATE|DELETE|REPLACE\s+INTO)\b/i.test(sql))
	);
}
