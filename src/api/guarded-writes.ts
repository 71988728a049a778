/**
 * The caller's way to the database: what a decision stood on must still be so in the batch that writes, whatever another isolate did
 * between the reading and the writing. No handler of a key or a session has another way, so none can forget it; it costs no round trip, and a batch
 * that only reads is left as it is.
 */
import type { CompiledQuery } from "kysely";
import { isCovering, type Target } from "../authz/decide";
import { ROLES } from "../authz/permissions";
import { callerGone, type KeyPrincipal, type Principal } from "../authz/principal";
import { accountRolesAre, callerUnchanged } from "../db/api-keys";
import { appIsLive } from "../db/apps";
import { isStillPreview } from "../db/channel-names";
import { batchOrFail, type Database, guard } from "../db/client";
import { organizationIsLive } from "../db/organizations";
import { ApiError } from "../errors";

/**
 * @param target what the decision was about; null when it was about no one thing
 * @param gone what to say when the target's app or organization went meanwhile
 */
export function guardedWrites(
	db: Database,
	principal: Principal,
	target: Target | null,
	gone: () => ApiError,
): Database {
	const guardsOfWrite = () => [
		...targetGuards(target),
		...(principal.kind === "key" && target !== null && target.appId === undefined
			? [guard("caller_changed", accountRolesAre(principal.userId, target.orgId, rolesIn(principal, target.orgId)))]
			: []),
		guard("caller_changed", callerUnchanged({ ...principal, bindings: decidingBindings(principal, target) })),
		...previewGuards(principal, target),
	];
	const failures = { target_gone: gone, caller_changed: callerGone(principal), still_preview: noPreviewAnyMore };
	return {
		get trips() {
			return db.trips;
		},
		async batch(statements) {
			if (statements.every(onlyReads)) return db.batch(statements);
			const guards = guardsOfWrite();
			const results: readonly unknown[] = await batchOrFail(db, [...guards, ...statements], failures);
			return results.slice(guards.length) as never;
		},
	};
}

const rolesIn = ({ accountRoles }: KeyPrincipal, orgId: string) =>
	accountRoles.filter((held) => held.orgId === orgId).map(({ role }) => role);

function targetGuards(target: Target | null): CompiledQuery[] {
	// Restoring an organization is for one that is deleted, and looks at it itself.
	if (target === null || target.inDeletedOrganization === true) return [];
	const { orgId, appId, isDeletedApp } = target;
	const isLive = appId === undefined || isDeletedApp === true ? organizationIsLive(orgId) : appIsLive(orgId, appId);
	return [guard("target_gone", isLive)];
}

/** A preview key loses its power over a channel in the moment in which others depend on the channel. */
function previewGuards({ bindings }: Principal, target: Target | null): CompiledQuery[] {
	if (target?.appId === undefined || target.channelId === undefined) return [];
	const covering = bindings.filter((binding) => isCovering(binding, target));
	if (!covering.every(({ role }) => ROLES[role].ownWorkOnly === true)) return [];
	return [guard("still_preview", isStillPreview(target.appId, target.channelId))];
}

function noPreviewAnyMore(): ApiError {
	return new ApiError(
		"permission_denied",
		"The channel became public, protected or the app's default upload channel, where preview keys have no power; use a wider role.",
		{ moreInfo: { permission: "channel.promote_bundle", scope: "channel" } },
	);
}

/**
 * The bindings that an answer can depend on. One on a channel goes with the channel, at which the batch looks itself, or with the binding
 * that it came from: a key that works on many channels at once must not be refused because one of them went.
 */
function decidingBindings({ bindings }: Principal, target: Target | null): Principal["bindings"] {
	return bindings.filter(
		(binding) => binding.scopeType !== "channel" && (target?.appId === undefined || isCovering(binding, target)),
	);
}

function onlyReads(statement: CompiledQuery): boolean {
	return /^\s*SELECT\b/i.test(statement.sql);
}
