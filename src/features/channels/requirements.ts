/**
 * Compares the needs of a channel change with its caller: refuses whom a role, the protection of a
 * channel or the rules of previews keep from it, and finds whether the change waits for approval.
 * The order of the refusals is part of the API. Devices are counted only where a name decides;
 * nothing is written.
 */
import { holds, type OwnWorkOnly, onlyProposes, type Target } from "../../authz/decide";
import { requireCreator } from "../../authz/own-work";
import type { Permission } from "../../authz/permissions";
import { lacksPermission, type Principal } from "../../authz/principal";
import { requireRecentSignIn } from "../../authz/session";
import { type PreviewNameRow, withDevicesNaming } from "../../db/channel-names";
import type { ChannelRow, ChannelValues } from "../../db/channels";
import type { Statement } from "../../db/client";
import { namingOf, refusePreviewName } from "../../db/preview-channels";
import { appNotFound } from "../../http/scope";
import { refuseIncompatible } from "./compatibility";
import { openingGuards } from "./devices-by-name";
import type { Difference } from "./difference";
import type { Needs } from "./needs";
import { refusePreviewBundle } from "./previewed";
import { waitsForApproval } from "./propose";
import { refuseNonPromoter, refuseTakenPlatforms, requireRecentPromoter } from "./protection";
import type { ChangeContext } from "./reads";

/** Facts about the caller that the write of an allowed change depends on. */
export interface Allowed {
	/** The change becomes a proposal. */
	readonly proposes: boolean;
	/** Conditions under which the channel may open to devices that name it. */
	readonly opening: readonly Statement[];
	/** The caller promotes only its own work. */
	readonly ownWorkOnly: boolean;
	/** Set if the request creates a channel of a preview. */
	readonly preview?: NewPreview;
}

export interface NewPreview {
	readonly limit: OwnWorkOnly;
	readonly nameRow: PreviewNameRow;
	readonly naming: ChannelValues;
}

/** @throws {ApiError} for a caller that lacks something that the change needs */
export async function requireNeeds(context: ChangeContext, difference: Difference, needs: Needs): Promise<Allowed> {
	const { principal, nowMs } = context;
	if (needs.administrator && principal.kind === "session") requireRecentSignIn(principal, true, nowMs);
	const { channel } = difference;
	return channel === undefined
		? requireForNew(context, difference, needs)
		: requireForExisting(context, channel, difference, needs);
}

async function requireForNew(context: ChangeContext, difference: Difference, needs: Needs): Promise<Allowed> {
	const { deps, principal, scope, input, loaded, nowMs } = context;
	const { name, promoted } = difference;
	const [nameRow] = loaded.naming;
	if (nameRow === undefined) throw appNotFound();
	const limit = context.ownWorkOnly("app.create_channel");
	if (limit === undefined) {
		refusePreviewBundle(input.body, { name, is_preview: 0 }, promoted);
		requireOnApp(principal, scope, needs.toServeNew);
		return { proposes: false, opening: await openingGuards(context, difference), ownWorkOnly: false };
	}
	refusePreviewName(input.body, nameRow, principal);
	for (const bundle of promoted) requireCreator(principal, "channel.promote_bundle", bundle);
	const naming = namingOf(await withDevicesNaming(deps, scope.appId, nameRow, name), nowMs);
	return { proposes: false, opening: [], ownWorkOnly: true, preview: { limit, nameRow, naming } };
}

async function requireForExisting(
	context: ChangeContext,
	channel: ChannelRow,
	difference: Difference,
	needs: Needs,
): Promise<Allowed> {
	const { principal, scope, input, loaded, nowMs } = context;
	const { promoted, values } = difference;
	refusePreviewBundle(input.body, channel, promoted);
	const ownWorkOnly = context.ownWorkOnly("channel.promote_bundle") !== undefined;
	if (ownWorkOnly) for (const bundle of promoted) requireCreator(principal, "channel.promote_bundle", bundle);
	if (needs.settingsOfApp) refuseTakenPlatforms(principal, scope);
	const opening = await openingGuards(context, difference);
	refuseIncompatible(values, channel, [...promoted, ...loaded.packages]);
	const isProposal = needs.approval || (needs.promoter && onlyProposes(principal, scope));
	const proposes = isProposal && waitsForApproval(difference, channel, input.body);
	if (needs.promoter && !proposes) refuseNonPromoter(principal, channel, scope);
	if (needs.recentPromoter && !proposes) requireRecentPromoter(principal, channel, nowMs);
	return { proposes, opening, ownWorkOnly };
}

/** @throws {ApiError} `permission_denied` */
function requireOnApp(principal: Principal, { orgId, appId }: Target, needed: readonly Permission[]): void {
	const target = { orgId, ...(appId === undefined ? {} : { appId }) };
	const missing = needed.find((permission) => !holds(principal, permission, target));
	if (missing !== undefined) throw lacksPermission(principal, missing, "app");
}
