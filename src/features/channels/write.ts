/**
 * The one way to change an existing channel: a promotion, a rollback, an approval or a change of settings is one atomic batch, with the
 * guards, the audit entry, the history, the rollout and the revision. POST /channel, PUT /bundle, POST /channel/rollback and
 * POST /proposal/approve write through it.
 */
import type { AppId, ChannelId } from "../../authz/decide";
import { auditChannelChange } from "../../db/audit/channels";
import { bundleIsReady } from "../../db/bundles";
import { type HistoryReason, recordChannelChange } from "../../db/channel-history";
import { type EndedPreviewAccess, previewAccessOf } from "../../db/channel-names";
import {
	bundlesHaveForm,
	type ChannelRow,
	type ChannelValues,
	channelExists,
	updateChannel,
	writtenChannel,
} from "../../db/channels";
import { guard, lastResult, onUnique, type Statement } from "../../db/client";
import { followRollout } from "../../db/rollouts";
import { bumpRevision } from "../../db/snapshot";
import { CHANNEL_FIELDS, type ChannelField, columnsOf, SERVED_FIELDS } from "../../domain/updates/channel-fields";
import { ApiError } from "../../errors";
import type { Context } from "../../http/endpoint";
import { bundleNotFound, type ChannelScopeRow, channelNotFound } from "../../http/scope";
import { promoting } from "../signing/verify";
import { protectionGuards } from "./protection";

export type WriteContext = Pick<
	Context<string, undefined, undefined, ChannelScopeRow, readonly []>,
	"actor" | "db" | "deps" | "nowMs" | "scope" | "scopeRow"
>;

interface ChannelWrite {
	/** As it was read. */
	readonly channel: ChannelRow;
	readonly values: ChannelValues;
	readonly audit: {
		readonly action: Parameters<typeof auditChannelChange>[2];
		/** Versions of the bundles in `values` and of the rollout, by id. */
		readonly versions: ReadonlyMap<number, string>;
		readonly details?: Readonly<Record<string, unknown>>;
	};
	readonly history?: HistoryReason;
	readonly guards: readonly Statement[];
	/** Error if a bundle was deleted in between. */
	readonly missing?: () => ApiError;
	readonly before?: readonly Statement[];
	readonly after?: readonly Statement[];
	/** Set if the preview access to the channel ends. */
	readonly endsPreview?: boolean;
}

/** As stored after the write, which another request's write may have preceded. */
export interface WrittenChannel {
	readonly public: boolean;
	/** Keys and people that lost their preview access by the write. */
	readonly previewAccessEnded: readonly EndedPreviewAccess[];
}

/**
 * Changes the channel.
 * @throws {ApiError} of a guard; nothing was changed
 */
export async function writeChannel(context: WriteContext, write: ChannelWrite): Promise<WrittenChannel> {
	const { actor, db, nowMs, scope, scopeRow } = context;
	const { channel, values, audit, history, guards, missing = bundleNotFound, before = [], after = [] } = write;
	const { appId, channelId } = scope;
	const isServed = columnsOf(SERVED_FIELDS).some((column) => values[column] !== undefined);
	return promoting(context, appId, promotedBundles(values, channel), async (signed) => {
		const results = await db.batch([
			previewAccessOf(appId, write.endsPreview === true ? channel.name : ""),
			...signed,
			...guards,
			...newBundles(values).map((id) => guard(bundleIsReady(appId, id), missing)),
			...before,
			auditChannelChange(
				actor,
				nowMs,
				audit.action,
				{ ...scope, publicAppId: scopeRow.app_id },
				values,
				audit.versions,
				audit.details,
			),
			...recordChannelChange(actor, nowMs, appId, channelId, values, history),
			onlyPublic(updateChannel(appId, channelId, values, nowMs)),
			...(isServed ? followRollout(appId, channelId, nowMs) : []),
			...after,
			bumpRevision(appId),
			writtenChannel(appId, channelId),
		]);
		const [row] = lastResult(results).rows;
		if (row === undefined) throw new Error("the channel that was just written is missing");
		return { public: row.public === 1, previewAccessEnded: results[0].rows };
	});
}

/** The channel exists, and its protection is as it was read. */
export const channelGuards = (appId: AppId, channelId: ChannelId, channel: ChannelRow): Statement[] => [
	guard(channelExists(appId, channelId), channelNotFound),
	...protectionGuards(appId, channelId, channel),
];

/** A write that may collide with another channel that becomes public. */
export const onlyPublic = <Row>(statement: Statement<Row>): Statement<Row> =>
	onUnique(statement, "channels.app_id", () => channelChanged("changed at the same time as another one became public"));

/** Bundles that a change newly points to. */
export const newBundles = ({ version_id, rollout_version_id }: ChannelValues): number[] =>
	[version_id, rollout_version_id].filter((id) => typeof id === "number");

/** Settings that open the channel to more devices. */
const OPENING_COLUMNS = columnsOf(CHANNEL_FIELDS).filter((column) => {
	const field: ChannelField = CHANNEL_FIELDS[column];
	return field.opens === true;
});

/**
 * Bundles that a change brings to more devices: those that it puts on the channel, the rollout's if its share grows, and both of the
 * channel if the channel opens.
 *
 * @param values the columns that differ from the channel
 */
export function promotedBundles(values: ChannelValues, channel: ChannelRow | undefined): number[] {
	const brought = newBundles(values);
	if (channel === undefined) return brought;
	const opens = OPENING_COLUMNS.some((column) => values[column] === 1);
	const stable = opens && values.version_id === undefined ? channel.version_id : null;
	const grows =
		values.rollout_enabled === 1 ||
		values.rollout_paused_at_ms === null ||
		(values.rollout_percentage_bps ?? 0) > channel.rollout_percentage_bps;
	const rollout = (opens || grows) && values.rollout_version_id === undefined ? channel.rollout_version_id : null;
	return [...brought, stable, rollout].filter((id) => typeof id === "number");
}

/** After a write: the bundles of the channel have the form that its update package demands. */
export function formGuards(values: ChannelValues, appId: AppId, channel: ChannelId | { readonly name: string }) {
	const concerns = ["version_id", "rollout_version_id", "update_package"] as const;
	if (concerns.every((column) => values[column] === undefined)) return [];
	return (["zip", "delta"] as const).map((form) =>
		guard(bundlesHaveForm(appId, channel, form), () => formRequired(form)),
	);
}

/** The stock CLI prints these messages. */
export function formRequired(form: "zip" | "delta"): ApiError {
	return form === "zip"
		? new ApiError(
				"channel_zip_required",
				"The channel's updatePackage asks for a zip and a bundle on it has none; upload the bundle with its zip, or set updatePackage to all.",
			)
		: new ApiError(
				"channel_delta_required",
				"The channel's updatePackage asks for single files and a bundle on it has none; upload the bundle with --delta, or set updatePackage to all.",
			);
}

export function channelChanged(what: string): ApiError {
	return new ApiError("channel_changed", `The channel ${what}; read it again and repeat the request.`);
}

export const changedByAnother = () => channelChanged("was changed by another request");
