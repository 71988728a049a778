/**
 * How a channel is deleted: the statements of a batch, the same for DELETE /channel and for a
 * preview that is closed. Bindings, history and overrides go with the channel, and its name stays
 * reserved unless it was a preview's.
 */
import type { RawBuilder, SqlBool } from "kysely";
import type { AppId, ChannelId, OrgId } from "../authz/decide";
import { auditBindingsOfChannel } from "./audit/bindings";
import { wholeChannelNow } from "./audit/channels";
import { type Actor, auditStatement } from "./audit/entries";
import { deleteBundles } from "./bundle-deletion";
import { keepNameOf } from "./channel-names";
import { deleteChannel } from "./channels";
import type { Statement } from "./client";
import { bumpRevision } from "./snapshot";
import { freeVersionsOf } from "./used-versions";

interface ChannelDeletion {
	readonly actor: Actor;
	readonly nowMs: number;
	readonly orgId: OrgId;
	readonly appId: AppId;
	readonly publicAppId: string;
	readonly channel: { readonly id: ChannelId; readonly name: string };
	/** The condition of the bundles that are deleted with it, evaluated after the channel is gone. */
	readonly bundles: RawBuilder<SqlBool> | undefined;
	/** For the audit entry. */
	readonly details: Readonly<Record<string, unknown>>;
}

export function deleteChannelStatements(deletion: ChannelDeletion): Statement[] {
	const { actor, nowMs, orgId, appId, publicAppId, channel, bundles, details } = deletion;
	return [
		auditStatement(actor, nowMs, {
			orgId,
			action: "channel.delete",
			target: { type: "channel", id: String(channel.id), name: channel.name },
			app: { uuid: appId, id: publicAppId },
			before: wholeChannelNow(appId, channel.id),
			details,
		}),
		auditBindingsOfChannel(actor, nowMs, orgId, { appId, ...channel }),
		keepNameOf(appId, channel.id, nowMs),
		...(bundles === undefined ? [] : [freeVersionsOf(appId, channel.id)]),
		deleteChannel(appId, channel.id),
		...(bundles === undefined
			? []
			: deleteBundles({ actor, nowMs, appId, details: { with_channel: channel.name } }, bundles)),
		bumpRevision(appId),
	];
}
