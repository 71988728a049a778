/**
 * The stable bundle and the rollout of a channel after a request. Every door that promotes, rolls
 * out or ends a rollout calls it (POST /channel, PUT /bundle, the stock CLI, proposals, dry runs),
 * so they agree.
 *
 * A channel has one stable bundle and at most one rollout. A promotion without rollout fields ends
 * the rollout of another bundle, because its devices would not get what was promoted, and is
 * refused where they would return to an older bundle by it. A new rollout never replaces one that
 * devices take part in below 100 %, for the same reason. Only a request that names the older bundle
 * for these devices returns them. A refusal is returned and not thrown, because callers without the
 * right to promote must not learn of it.
 */
import * as v from "valibot";
import type { BundleRow } from "../../db/bundles";
import type { ChannelRow } from "../../db/channels";
import { NO_ROLLOUT } from "../../db/rollouts";
import type { Flag } from "../../db/schema";
import { compareVersions, readVersion } from "../../domain/updates/version";
import { ApiError, invalidRequest } from "../../errors";
import { bundleNotFound } from "../../http/scope";
import { type ChannelBody, contradictionsOf, rolloutOf } from "./body";
import { firstStepBps } from "./fields";
import type { ProtectedPublicRow } from "./protection";
import { NEW_ROLLOUT, NOW, type PlannedValues } from "./values";

export type LoadedBundle = BundleRow & {
	readonly public_app_id: string;
	readonly preview_channel_prefix: string | null;
};

/** A request, with the rows that it names. */
export interface ChannelRequest {
	readonly body: ChannelBody;
	readonly channel: ChannelRow | undefined;
	readonly stable: LoadedBundle | undefined;
	readonly rollout: LoadedBundle | undefined;
	/** The app's protected public channels. */
	readonly protectedPublic: readonly ProtectedPublicRow[];
}

const FULL_SHARE_BPS = 10_000;

/** The rollout that a change ended without making its bundle stable; its share in basis points. */
export const rolloutEndedSchema = v.strictObject({ version: v.nullable(v.string()), percentage_bps: v.number() });
export type RolloutEnded = v.InferOutput<typeof rolloutEndedSchema>;

/** The bundle, or why it cannot be promoted: it does not exist or is not ready. */
export function readyBundle(bundle: LoadedBundle | undefined): LoadedBundle | ApiError {
	if (bundle === undefined) return bundleNotFound();
	if (bundle.status === "ready") return bundle;
	return new ApiError("bundle_not_ready", "The bundle's upload is not complete; finish it with POST /bundle/complete.");
}

/** The id of the bundle that a field names; null: the store build, undefined: none. */
function chosen(choice: string | number | null | undefined, bundle: LoadedBundle | undefined) {
	if (choice === undefined || choice === null) return choice;
	const ready = readyBundle(bundle);
	return ready instanceof ApiError ? ready : ready.id;
}

/**
 * The columns of the stable bundle and the rollout after the request, whether or not they differ
 * from the channel; or the refusal of fields that contradict each other, of a bundle that is not
 * ready, or of a rollout that must be ended first.
 */
export function servedBundles(request: ChannelRequest): PlannedValues | ApiError {
	const { body, channel } = request;
	const issues = contradictionsOf(body);
	if (issues.length > 0) return invalidRequest(issues);
	const rollout = rolloutOf(body);
	const running = channel?.rollout_version_id ?? null;
	const stable = chosen(body.version, request.stable);
	if (stable instanceof ApiError) return stable;
	const next = chosen(rollout.version, request.rollout);
	if (next instanceof ApiError) return next;
	const values: PlannedValues = stable === undefined ? {} : { version_id: stable };
	if (rollout.rollback) return { ...NO_ROLLOUT, ...values };
	if (next === undefined) {
		const ended = endedRollout(request, stable);
		if (ended !== undefined) return ended;
	} else if (next === null) {
		Object.assign(values, NO_ROLLOUT);
	} else {
		if (next !== running) {
			const begun = started(request, next, stable);
			if (begun instanceof ApiError) return begun;
			Object.assign(values, begun);
		} else if (rollout.advance && stable !== undefined) return missingNextRollout();
		values.rollout_version_id = next;
	}
	if (stable !== undefined && next !== null && (next ?? running) === running) {
		const refusal = newerThanRollout(request, stable);
		if (refusal !== undefined) return refusal;
	}
	return { ...values, ...stateOfRollout(request) };
}

/**
 * The columns if the request names no rollout bundle and ends the rollout, or why it may not;
 * undefined if it leaves the rollout.
 */
function endedRollout(
	request: ChannelRequest,
	stable: number | null | undefined,
): PlannedValues | ApiError | undefined {
	const rollout = rolloutOf(request.body);
	const running = request.channel?.rollout_version_id ?? null;
	if (running === null && (rollout.enabled === true || rollout.promoteToStable)) return missingRollout();
	if (rollout.promoteToStable) {
		if (stable === undefined || stable === running) return { ...NO_ROLLOUT, version_id: running };
		const message = "must not be sent with promoteToStable: it names another bundle than the rollout's";
		return invalidRequest([{ path: "version", message }]);
	}
	if (rollout.advance) return missingNextRollout();
	if (running === null || stable === undefined) return undefined;
	if (stable === running) return { ...NO_ROLLOUT, version_id: running };
	if (rollout.keep || changesRollout(request.body)) return undefined;
	return olderThanRollout(request, stable) ?? { ...NO_ROLLOUT, version_id: stable };
}

/** The share and the state that the body gives to the rollout. */
function stateOfRollout({ body, channel }: ChannelRequest): PlannedValues {
	const { bps, enabled, paused, pauseReason } = rolloutOf(body);
	const values: PlannedValues = {};
	if (bps !== undefined) values.rollout_percentage_bps = bps;
	if (enabled !== undefined) values.rollout_enabled = flag(enabled);
	if (paused === true) values.rollout_paused_at_ms = channel?.rollout_paused_at_ms ?? NOW;
	if (paused === false) Object.assign(values, { rollout_paused_at_ms: null, rollout_pause_reason: null });
	if (pauseReason !== undefined) values.rollout_pause_reason = pauseReason;
	return values;
}

const flag = (value: boolean): Flag => (value ? 1 : 0);

/** The body changes a rollout that continues beside the stable bundle. */
function changesRollout(body: ChannelBody): boolean {
	const { bps, enabled, paused, pauseReason } = rolloutOf(body);
	return [bps, enabled, paused, pauseReason].some((value) => value !== undefined);
}

/**
 * A rollout of another bundle than the channel's: a new cohort, not paused. The bundle before
 * becomes stable if every device has it, or if the request says so.
 */
function started(request: ChannelRequest, next: number, stable: number | null | undefined): PlannedValues | ApiError {
	const { body, channel } = request;
	const rollout = rolloutOf(body);
	const refusal = stableRollout(request, next, stable);
	if (refusal !== undefined) return refusal;
	const values: PlannedValues = {
		rollout_version_id: next,
		rollout_id: NEW_ROLLOUT,
		rollout_paused_at_ms: null,
		rollout_pause_reason: null,
	};
	const first = firstStepBps(body, channel);
	if (first !== undefined) values.rollout_percentage_bps = first;
	const running = channel?.rollout_version_id ?? null;
	if (running === null || channel === undefined) {
		if (!rollout.advance) return values;
		return new ApiError(
			"missing_rollout_version",
			"The channel has no rollout to advance; leave advanceRollout out to start one.",
		);
	}
	if (rollout.advance && stable !== undefined) return missingNextRollout();
	const promotesRunning = rollout.advance || stable === running;
	const reachesDevices = channel.rollout_enabled === 1;
	const isEverywhere = reachesEverybody(channel) && (stable === undefined || stable === channel.version_id);
	if (!promotesRunning && !isEverywhere) {
		return reachesDevices ? rolloutRunning(channel) : values;
	}
	if (channel.rollout_percentage_bps === FULL_SHARE_BPS && first === undefined && rollout.bps === undefined) {
		const message = "is required after a rollout to 100 %: the first share of the next rollout";
		return invalidRequest([{ path: "rolloutPercentage", message }]);
	}
	return { ...values, version_id: running };
}

/**
 * A rollout of the stable bundle would give it to nobody else, and a rollback would then end the
 * rollout instead of returning devices.
 */
function stableRollout(
	{ body, channel, rollout: bundle }: ChannelRequest,
	next: number,
	stable: number | null | undefined,
): ApiError | undefined {
	if (rolloutOf(body).advance || reachesEverybody(channel)) return undefined;
	if (next !== (stable === undefined ? (channel?.version_id ?? null) : stable)) return undefined;
	const message = "is the stable bundle, so every device gets it already; name another one";
	return invalidRequest([{ path: "rolloutVersion", message, received: bundle?.name ?? "" }]);
}

const reachesEverybody = (channel: ChannelRow | undefined): boolean =>
	channel?.rollout_enabled === 1 &&
	channel.rollout_paused_at_ms === null &&
	channel.rollout_percentage_bps === FULL_SHARE_BPS;

/** False for versions that cannot be compared. */
function isOlder(version: string, than: string): boolean {
	const [one, other] = [readVersion(version), readVersion(than)];
	return one !== null && other !== null && compareVersions(one, other) < 0;
}

/**
 * A promotion that would return the devices of the rollout to an older bundle. The stable bundle
 * itself ends the rollout, as a rollback does.
 */
function olderThanRollout({ channel, stable: bundle }: ChannelRequest, stable: number | null): ApiError | undefined {
	if (channel === undefined || bundle === undefined || stable === channel.version_id) return undefined;
	if (channel.rollout_enabled === 0 || channel.rollout_percentage_bps === 0) return undefined;
	const rolledOut = channel.rollout_version_name;
	if (rolledOut === null || !isOlder(bundle.name, rolledOut)) return undefined;
	return new ApiError(
		"rollout_running",
		`Bundle ${bundle.name} is older than ${rolledOut}, which is rolled out to ${shareOf(channel)}, so its devices would return to an older bundle; send keep_rollout: true to leave them on ${rolledOut}, end the rollout first with POST /channel/rollback, or release a newer version.`,
		{ reason: "older_than_rollout", moreInfo: { version: bundle.name, ...stateOf(channel) } },
	);
}

/**
 * A stable bundle that is newer than the rollout's: each device that joins the rollout later would
 * return to an older bundle.
 */
function newerThanRollout({ channel, stable: bundle }: ChannelRequest, stable: number | null): ApiError | undefined {
	if (channel === undefined || bundle === undefined || channel.rollout_version_name === null) return undefined;
	if (stable === null || stable === channel.version_id) return undefined;
	if (!isOlder(channel.rollout_version_name, bundle.name)) return undefined;
	return new ApiError(
		"rollout_running",
		`Bundle ${bundle.name} is newer than ${channel.rollout_version_name}, which is rolled out to ${shareOf(channel)}, so its devices would return to an older bundle; leave keep_rollout and the rollout fields out, which ends the rollout.`,
		{ reason: "newer_than_rollout", moreInfo: { version: bundle.name, ...stateOf(channel) } },
	);
}

function rolloutRunning(channel: ChannelRow): ApiError {
	const [version, stable] = [channel.rollout_version_name, channel.version_name ?? "the store build"];
	const state = channel.rollout_paused_at_ms === null ? "is rolled out" : "has a paused rollout";
	return new ApiError(
		"rollout_running",
		`Bundle ${version} ${state} to ${shareOf(channel)} on channel ${channel.name}, and ${stable} is stable. Send advanceRollout: true to make ${version} stable and start the next rollout, or end this rollout first with rollback: true, which returns its devices to ${stable}.`,
		{ moreInfo: stateOf(channel) },
	);
}

const shareOf = (channel: ChannelRow): string => `${channel.rollout_percentage_bps / 100} % of the devices`;

const stateOf = (channel: ChannelRow) => ({
	channel: channel.name,
	stable_version: channel.version_name,
	rollout_version: channel.rollout_version_name,
	percentage_bps: channel.rollout_percentage_bps,
	paused: channel.rollout_paused_at_ms !== null,
});

const missingRollout = () =>
	new ApiError("missing_rollout_version", "The channel has no rollout bundle; send rolloutVersion as well.");

function missingNextRollout(): ApiError {
	const message = "needs rolloutVersion, the bundle to roll out next, and no version";
	return invalidRequest([{ path: "advanceRollout", message }]);
}

/**
 * The rollout that the change ends, unless its bundle becomes stable: then nothing is taken from
 * its devices.
 * @param bundles the columns that differ from the channel
 */
export function rolloutEnded(bundles: PlannedValues, channel: ChannelRow | undefined): RolloutEnded | null {
	if (channel === undefined || channel.rollout_version_id === null) return null;
	if (bundles.rollout_id === undefined) return null;
	const stable = bundles.version_id === undefined ? channel.version_id : bundles.version_id;
	if (stable === channel.rollout_version_id) return null;
	return { version: channel.rollout_version_name, percentage_bps: channel.rollout_percentage_bps };
}
