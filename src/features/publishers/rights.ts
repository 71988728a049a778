/**
 * The rights of a publisher: its stage gives roles to the key that its jobs act by. Must stay true:
 * a publisher gets nothing that its creator does not hold, for as long and from everywhere.
 */
import type { CompiledQuery } from "kysely";
import type { AppId, OrgId } from "../../authz/decide";
import { refuseLongerLife, refuseMoreAddresses, refuseStronger } from "../../authz/granting";
import { ROLES, type RoleName, STAGE_ROLES } from "../../authz/permissions";
import type { Principal } from "../../authz/principal";
import { insertPublisherChannel, type PublisherRow } from "../../db/publishers";
import { insertBinding } from "../../db/role-bindings";
import type { Deps } from "../../deps";
import type { PublisherStage } from "../../domain/ci/context";
import { ApiError, invalidRequest } from "../../errors";

export const MANAGES_PUBLISHERS = "app.update_user_roles";

/** Only stages that promote anything have channels. */
export function refuseChannelsOfStage(stage: PublisherStage, channels: readonly string[] | undefined): void {
	if (channels === undefined || STAGE_ROLES[stage].promoting !== undefined) return;
	throw invalidRequest([
		{ path: "channels", message: `is for the stages propose and promote; leave it out for ${stage}` },
	]);
}

/**
 * @throws {ApiError} `permission_denied` unless the caller holds what the publisher gets, for as
 * long and from everywhere
 */
export function refuseStrongerPublisher(
	principal: Principal,
	{ stage, expiresAtMs }: { readonly stage: PublisherStage; readonly expiresAtMs: number | null },
	orgId: OrgId,
	appId: AppId,
	nowMs: number,
): void {
	if (expiresAtMs !== null && expiresAtMs <= nowMs) {
		throw invalidRequest([{ path: "expires_at", message: "must be in the future" }]);
	}
	if (principal.kind === "key" && principal.secretIsReplaced) {
		throw new ApiError(
			"permission_denied",
			"This secret of the API key has been replaced and can no longer trust publishers; use the new one.",
			{ moreInfo: { permission: MANAGES_PUBLISHERS, scope: "app" } },
		);
	}
	const { role, promoting } = STAGE_ROLES[stage];
	for (const given of [role, promoting]) {
		if (given !== undefined) refuseStronger(principal, ROLES[given], { orgId, appId });
	}
	refuseLongerLife(principal, expiresAtMs, nowMs);
	// Jobs run anywhere.
	refuseMoreAddresses(principal, []);
}

/** The statements that give the publisher's key the rights of its stage. */
export function rightsOf(
	row: PublisherRow,
	orgId: OrgId,
	appId: AppId,
	{ newId }: Pick<Deps, "newId">,
	createdAtMs: number,
): CompiledQuery[] {
	const { role, promoting } = STAGE_ROLES[row.stage];
	const holder = { userId: row.created_by, keyId: row.api_key_id };
	const id = newId();
	const onApp = { holder, orgId, appId, createdAtMs };
	const channels: string[] | null = row.channels === null ? null : JSON.parse(row.channels);
	const onChannels = (promoted: RoleName) =>
		(channels ?? []).map((channel) =>
			insertPublisherChannel(
				{ id: newId(), keyId: row.api_key_id, orgId, appId, role: promoted, parentId: id, createdAtMs },
				channel,
			),
		);
	return [
		insertBinding("app", { ...onApp, id, role }),
		...(promoting !== undefined && channels === null
			? [insertBinding("app", { ...onApp, id: newId(), role: promoting })]
			: []),
		...(promoting === undefined ? [] : onChannels(promoting)),
	];
}
