/**
 * Which preview a bundle belongs to: statements of the batches that register and promote bundles. A
 * bundle belongs to one preview at most, and is deleted with it.
 */
import { type ExpressionBuilder, sql } from "kysely";
import type { AppId, ChannelId } from "../authz/decide";
import type { Caller } from "../authz/own-work";
import { DAY_MS } from "../domain/time";
import { ApiError } from "../errors";
import { guard, isOfApp, jsonList, query, type Statement } from "./client";
import { previewClosed } from "./previews";
import type { Schema } from "./schema";

/**
 * First identifier of a version's pre-release: "pr-128" of 1.4.0-pr-128.7.1, which names the
 * channel of the preview it is for.
 */
const previewTag = (version: string): string | undefined =>
	/^[^-+]+-([0-9A-Za-z-]*[A-Za-z-][0-9A-Za-z-]*)/.exec(version)?.[1];

const renewed = (nowMs: number) => ({
	expires_at_ms: sql<number>`${nowMs} + min(lifetime_ms,
	(SELECT preview_max_days FROM apps WHERE apps.id = previews.app_id) * ${sql.lit(DAY_MS)})`,
});

/**
 * For the batch that registers a bundle, after its row: the bundle belongs to the preview that its
 * version names.
 * @param jobPreviewId the open preview of the CI job that uploads, to which the bundle belongs
 * whatever its version is
 * @param limited the caller, if it is limited to own work: it uploads into its own preview only
 * @throws {ApiError} `preview_closed` or `bundle_of_another_preview`, by its guards
 */
export function bundleJoinsPreview(
	appId: AppId,
	version: string,
	nowMs: number,
	jobPreviewId: string | undefined,
	limited: Caller | undefined,
): Statement[] {
	const tag = previewTag(version);
	const joinsJob =
		jobPreviewId === undefined
			? []
			: [
					query
						.updateTable("bundles")
						.set({ preview_id: jobPreviewId })
						.where("app_id", "=", appId)
						.where("name", "=", version)
						.where("deleted_at_ms", "is", null)
						.compile(),
				];
	if (tag === undefined) return joinsJob;
	const named = sql`previews WHERE app_id = ${appId} AND channel_name = ${tag}`;
	const isOpen = (eb: ExpressionBuilder<Schema, "previews">) =>
		eb.and({ app_id: appId, channel_name: tag, state: "open" });
	const notClosed = guard(
		sql<boolean>`NOT EXISTS (SELECT 1 FROM ${named} AND state <> 'open' AND closed_as IS NOT 'kept')`,
		() => previewClosed(tag),
	);
	if (jobPreviewId !== undefined) {
		const ofJob = sql<boolean>`NOT EXISTS (SELECT 1 FROM ${named} AND state = 'open' AND id <> ${jobPreviewId})`;
		return [notClosed, guard(ofJob, bundleOfAnotherPreview), ...joinsJob];
	}
	return [
		notClosed,
		...(limited === undefined
			? []
			: [
					guard(
						sql<boolean>`NOT EXISTS (SELECT 1 FROM ${named} AND state = 'open' AND NOT ${isOwnPreview(limited)})`,
						bundleOfAnotherPreview,
					),
				]),
		query
			.updateTable("bundles")
			.set({ preview_id: query.selectFrom("previews").select("id").where(isOpen) })
			.where("app_id", "=", appId)
			.where("name", "=", version)
			.where("deleted_at_ms", "is", null)
			.compile(),
		query.updateTable("previews").set(renewed(nowMs)).where(isOpen).compile(),
	];
}

/** `isOwnWork` (authz/own-work.ts) for a row of `previews`. */
const isOwnPreview = ({ userId, keyId, publisher }: Caller) =>
	sql<boolean>`(created_by_key IS ${keyId} AND created_by = ${userId}${
		publisher?.limit === undefined
			? sql``
			: sql` AND id IN ${jsonList(JSON.stringify(publisher.limit?.previewIds ?? []))}`
	})`;

const bundleOfAnotherPreview = () =>
	new ApiError(
		"bundle_of_another_preview",
		"The bundle belongs to another preview, and would be deleted with it; release it to the channel of its own preview, which GET /preview names, or upload a bundle for this channel.",
	);

/**
 * For the batch in which a caller that is limited to own work creates a channel: no preview has
 * that channel.
 */
export const bundlesHaveNoPreview = (appId: AppId, bundleIds: readonly number[]): Statement =>
	guard(
		sql<boolean>`NOT EXISTS (SELECT 1 FROM bundles WHERE id IN ${jsonList(JSON.stringify(bundleIds))} AND +app_id = ${appId}
			AND preview_id IS NOT NULL)`,
		bundleOfAnotherPreview,
	);

/**
 * For the batch that promotes bundles to a channel: renews the channel's preview. Bundles of a
 * caller that is limited to own work belong to the preview from then on, and those of another
 * preview reach no channel of such a caller.
 * @throws {ApiError} `bundle_of_another_preview`, by its guard
 */
export function promotionToPreview(
	appId: AppId,
	channelId: ChannelId,
	bundleIds: readonly number[],
	ownWorkOnly: boolean,
	nowMs: number,
): Statement[] {
	if (bundleIds.length === 0) return [];
	const ids = jsonList(JSON.stringify(bundleIds));
	const isOpen = (eb: ExpressionBuilder<Schema, "previews">) =>
		eb.and({ channel_id: channelId, app_id: appId, state: "open" });
	const ofChannel = query.selectFrom("previews").select("id").where(isOpen);
	return [
		guard(
			sql<boolean>`NOT EXISTS (SELECT 1 FROM bundles WHERE id IN ${ids}
				AND preview_id <> coalesce(${ofChannel}, ${ownWorkOnly ? "" : null}))`,
			bundleOfAnotherPreview,
		),
		...(ownWorkOnly
			? [
					query
						.updateTable("bundles")
						.set({ preview_id: ofChannel })
						.where(sql<boolean>`id IN ${ids}`)
						.where(isOfApp(appId))
						.where("preview_id", "is", null)
						.compile(),
				]
			: []),
		query.updateTable("previews").set(renewed(nowMs)).where(isOpen).compile(),
	];
}
