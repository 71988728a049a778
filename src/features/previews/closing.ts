/**
 * The statements that end a preview: its channel, bindings, bundles and unfinished uploads are
 * deleted in one batch with its state, so a crash or a race leaves all of it or nothing. Requests,
 * webhooks, the clean-up and a job that overrules a claim close through here.
 */
import type { AppId, ChannelId, OrgId } from "../../authz/decide";
import { type Actor, auditStatement } from "../../db/audit/entries";
import { deleteChannelStatements } from "../../db/channel-deletion";
import { type Database, guard, type Statement } from "../../db/client";
import {
	bundlesOfPreview,
	endPreview,
	type OwnedRow,
	ownedByPreview,
	type PreviewRow,
	previewChanged,
	previewIsAsRead,
	previewTitle,
} from "../../db/previews";
import type { Flag } from "../../db/schema";
import { latest } from "../../domain/ci/preview-events";

interface End {
	readonly actor: Actor;
	readonly nowMs: number;
	readonly closedAs: "request" | "time" | "webhook";
	/** Time of the event at the provider. */
	readonly eventAtMs: number | null;
	/** Undefined: as before. */
	readonly isClaimed?: Flag;
}

/**
 * Closes the preview in one batch, and answers what was deleted. A bundle that something else uses
 * stays, and does not count.
 */
export async function closeAndCount(db: Database, preview: PreviewRow, end: End): Promise<OwnedRow> {
	const deletion = deletionOf(preview, end);
	const owned = () => ownedByPreview(preview.app_id as AppId, preview.id);
	const results = await db.batch([owned(), ...deletion, owned(), ...endOf(preview, end)]);
	const [before, after] = [results[0], results[deletion.length + 1]].map((result) => result?.rows[0] as OwnedRow);
	return {
		bundles: (before?.bundles ?? 0) - (after?.bundles ?? 0),
		bundle_bytes: (before?.bundle_bytes ?? 0) - (after?.bundle_bytes ?? 0),
	};
}

/**
 * For one batch. The ids of the row must come from a decision, from a verified webhook or from the
 * clean-up.
 */
export const closeStatements = (preview: PreviewRow, end: End): Statement[] => [
	...deletionOf(preview, end),
	...endOf(preview, end),
];

function deletionOf(preview: PreviewRow, { actor, nowMs, closedAs }: End): Statement[] {
	const { id, channel_id: channelId, channel_name: channelName } = preview;
	const [appId, orgId] = [preview.app_id as AppId, preview.org_id as OrgId];
	const publicAppId = preview.public_app_id;
	return [
		guard(previewIsAsRead(appId, id, preview.revision), previewChanged),
		auditStatement(actor, nowMs, {
			orgId,
			action: "preview.close",
			target: { type: "preview", id, name: previewTitle(preview) },
			app: { uuid: appId, id: publicAppId },
			details: { channel: channelName, closed_as: closedAs },
		}),
		...(channelId === null || channelName === null
			? []
			: deleteChannelStatements({
					actor,
					nowMs,
					orgId,
					appId,
					publicAppId,
					channel: { id: channelId as ChannelId, name: channelName },
					bundles: bundlesOfPreview(appId, id),
					details: { preview: previewTitle(preview) },
				})),
	];
}

const endOf = (preview: PreviewRow, { nowMs, closedAs, eventAtMs, isClaimed }: End): Statement[] =>
	endPreview(preview.app_id as AppId, preview.id, {
		closed_as: closedAs,
		closed_event_at_ms: latest(preview.closed_event_at_ms, eventAtMs),
		updated_at_ms: nowMs,
		...(isClaimed === undefined ? {} : { is_claimed: isClaimed }),
	});
