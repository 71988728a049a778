/**
 * The statements that write the history of a sample app (releases.ts, devices.ts): channels with
 * what they serve, their history, devices and figures. They write what the service itself would
 * have written, apart from audit entries, because nobody did it.
 */
import type { CompiledQuery } from "kysely";
import type { AppId } from "../../../authz/decide";
import { DailySums } from "../../../db/daily-sums";
import { PREVIEW_CHANNEL_SETTINGS } from "../../../db/preview-channels";
import { insertReportedVersions, insertSample, insertSampleOffers, sampleReleases } from "../../../db/sample-app";
import { insertReportedApps } from "../../../db/telemetry-databases";
import type { Deps } from "../../../deps";
import { judge } from "../../../domain/rollouts/gate";
import { dayOf, startOfDayMs } from "../../../domain/statistics/days";
import { HOUR_MS } from "../../../domain/time";
import { SAMPLE_BUNDLES } from "./bundles";
import {
	PINNED,
	rolloutIdOf,
	type SampleFleet,
	type SampleOffer,
	SET_TO_BETA,
	sampleFleet,
	sampleUuid,
} from "./devices";
import { deviceStatements, figureStatements, logStatements, storageStatements } from "./figures";
import {
	actorTypeOf,
	BETA,
	commitLink,
	goesLive,
	jobOf,
	PREVIEW,
	PRODUCTION,
	RELEASES,
	ROLLOUTS,
	releasedAtMs,
	type SampleRelease,
} from "./releases";

export interface StoredZip {
	readonly objectKey: string;
	readonly sizeBytes: number;
	/** Hexadecimal. */
	readonly sha256: string;
	readonly bytes: Uint8Array;
}

/** The gate of both rollouts. */
const LIMIT_BPS = 500;
const CONFIDENCE_BPS = 9_500;
const MIN_ATTEMPTS = 8;
const MIN_FAILURES = 3;

interface SampleHistory {
	/** For the batch that creates the app. */
	readonly statements: readonly CompiledQuery[];
	/** For the telemetry database of the app. */
	readonly reports: readonly CompiledQuery[];
}

const CHANNELS = [PRODUCTION, BETA, PREVIEW];
/** Ids of channels that a sample app needs. */
export const SAMPLE_CHANNELS = CHANNELS.length;

/** @param firstChannelId the first of `SAMPLE_CHANNELS` ids that no other channel gets */
export function sampleHistory(
	deps: Pick<Deps, "newId">,
	appId: AppId,
	userId: string,
	nowMs: number,
	zips: ReadonlyMap<string, StoredZip>,
	firstChannelId: number,
): SampleHistory {
	const channelIds = new Map(CHANNELS.map((name, index) => [name, firstChannelId + index]));
	const today = dayOf(nowMs);
	const sizes = new Map([...zips].map(([version, { sizeBytes }]) => [version, sizeBytes]));
	const sums = new DailySums();
	const fleet = sampleFleet(appId, nowMs, sizes, sums);
	const pauseReason = reasonOfPause(fleet.offers, today);
	return {
		statements: [
			...bundleStatements(appId, userId, today, zips),
			...channelStatements(appId, userId, today, pauseReason, channelIds),
			...releaseStatements(appId, today, pauseReason),
			...rolloutStatements(appId, today, fleet.offers),
			...sampleReleases(appId),
			...overrideStatements(appId, today, fleet),
			...storageStatements(appId, today, sizes, fleet),
		],
		reports: [
			insertReportedApps([appId]),
			insertReportedVersions(appId, [...zips.keys()]),
			...deviceStatements(appId, fleet, channelIds),
			...figureStatements(appId, fleet),
			...sums.statements(),
			...logStatements(deps, appId, nowMs, fleet),
		],
	};
}

const uploadedAtMs = (daysAgo: number, today: number) => startOfDayMs(today - daysAgo) + 7 * HOUR_MS;

function bundleStatements(appId: AppId, userId: string, today: number, zips: ReadonlyMap<string, StoredZip>) {
	const rows = SAMPLE_BUNDLES.map(({ version, daysAgo, notes, commit }) => {
		const zip = zips.get(version);
		const atMs = uploadedAtMs(daysAgo, today);
		return [
			version,
			"ready",
			zip?.sha256 ?? null,
			zip?.sha256 ?? null,
			zip?.sizeBytes ?? null,
			"r2",
			zip?.objectKey ?? null,
			notes,
			commitLink(commit),
			userId,
			version.includes("-pr.") ? 1 : 0,
			atMs,
			atMs,
		];
	});
	return insertSample(
		appId,
		"bundles",
		{
			name: "value",
			status: "value",
			checksum: "value",
			sha256: "value",
			size_bytes: "value",
			storage_provider: "value",
			object_key: "value",
			comment: "value",
			link: "value",
			created_by: "value",
			by_preview_key: "value",
			created_at_ms: "value",
			updated_at_ms: "value",
		},
		rows,
	);
}

const of = (channel: string) => RELEASES.filter((release) => release.channel === channel);

function channelStatements(
	appId: AppId,
	userId: string,
	today: number,
	pauseReason: string,
	channelIds: ReadonlyMap<string, number>,
) {
	const rows = CHANNELS.map((name) => {
		const own = of(name);
		const [first, last] = [own[0], own.at(-1)];
		const rollout = name === PRODUCTION || name === BETA ? ROLLOUTS[name] : undefined;
		const paused = last?.action === "rollout_paused" ? releasedAtMs(last, today) : null;
		const isPreview = name === PREVIEW;
		return [
			channelIds.get(name) ?? null,
			name,
			rollout?.stable ?? own.findLast(goesLive)?.version ?? null,
			name === PRODUCTION ? 1 : 0,
			name === PRODUCTION ? 0 : 1,
			isPreview ? 1 : 0,
			...(isPreview
				? [PREVIEW_CHANNEL_SETTINGS.disable_auto_update, PREVIEW_CHANNEL_SETTINGS.disable_auto_update_under_native]
				: ["major", 1]),
			rollout?.version ?? null,
			rollout === undefined ? null : rolloutIdOf(appId, name),
			rollout?.bps ?? 0,
			rollout === undefined ? 0 : 1,
			paused,
			paused === null ? null : pauseReason,
			isPreview ? 0 : 1,
			LIMIT_BPS,
			CONFIDENCE_BPS,
			MIN_ATTEMPTS,
			MIN_FAILURES,
			userId,
			first === undefined ? 0 : releasedAtMs(first, today),
			last === undefined ? 0 : releasedAtMs(last, today),
		];
	});
	const names = [PRODUCTION, BETA].map((name) => [name, startOfDayMs(today)]);
	return [
		...insertSample(
			appId,
			"channels",
			{
				id: "value" as const,
				name: "value",
				version_id: "bundle",
				public: "value",
				allow_device_self_set: "value",
				is_preview: "value",
				disable_auto_update: "value",
				disable_auto_update_under_native: "value",
				rollout_version_id: "bundle",
				rollout_id: "value",
				rollout_percentage_bps: "value",
				rollout_enabled: "value",
				rollout_paused_at_ms: "value",
				rollout_pause_reason: "value",
				auto_pause_enabled: "value",
				auto_pause_failure_rate_bps: "value",
				auto_pause_confidence_bps: "value",
				auto_pause_min_attempts: "value",
				auto_pause_min_failures: "value",
				created_by: "value",
				created_at_ms: "value",
				updated_at_ms: "value",
			},
			rows,
		),
		...insertSample(appId, "channel_names", { name: "value", used_at_ms: "value" }, names),
	];
}

function releaseStatements(appId: AppId, today: number, pauseReason: string) {
	const liveBefore = (release: SampleRelease) =>
		RELEASES.slice(0, RELEASES.indexOf(release)).findLast(
			(other) => other.channel === release.channel && goesLive(other),
		)?.version ?? null;
	const rows = RELEASES.map((release, index) => {
		const { channel, action, version, by, bps } = release;
		const isSame = (other: SampleRelease) => other.channel === channel && other.version === version && goesLive(other);
		const isTarget = goesLive(release) && !RELEASES.slice(index + 1).some(isSame);
		const wasLeft = RELEASES.some((other) => other.action === "rollback" && liveBefore(other) === version);
		const job = jobOf(release, SAMPLE_BUNDLES.find((bundle) => bundle.version === version)?.commit ?? "");
		const type = actorTypeOf(by);
		return [
			channel,
			releasedAtMs(release, today),
			action,
			version,
			version,
			liveBefore(release),
			bps ?? null,
			release.action === "rollout_paused" ? pauseReason : (release.reason ?? null),
			type,
			type === "system" ? null : sampleUuid(appId, by),
			by,
			isTarget ? 1 : 0,
			isTarget && wasLeft && channel === PRODUCTION ? 1 : 0,
			job === undefined ? null : JSON.stringify(job),
		];
	});
	return insertSample(
		appId,
		"channel_history",
		{
			channel_id: "channel",
			at_ms: "value",
			action: "value",
			version_id: "bundle",
			version_name: "value",
			previous_version_name: "value",
			rollout_percentage_bps: "value",
			reason: "value",
			actor_type: "value",
			actor_id: "value",
			actor_name: "value",
			rollback_target: "value",
			rolled_back: "value",
			ci: "value",
		},
		rows,
	);
}

/** The times of a rollout's start and of its last step. */
function timesOf(channel: string, today: number) {
	const steps = of(channel).filter(({ bps }) => bps !== undefined);
	const started = steps[0];
	const raised = steps.findLast(({ action }) => action !== "rollout_paused");
	const at = (release: SampleRelease | undefined) => (release === undefined ? 0 : releasedAtMs(release, today));
	return { startedAtMs: at(started), stepAtMs: at(raised), isPaused: steps.at(-1)?.action === "rollout_paused" };
}

/** The reason of the health gate, from the offers of the rollout that it paused. */
function reasonOfPause(offers: readonly SampleOffer[], today: number): string {
	const own = offers.filter(({ channel }) => channel === BETA);
	const installed = own.filter(({ installedAtMs }) => installedAtMs !== null).length;
	const failed = own.filter(({ failedAtMs }) => failedAtMs !== null).length;
	const { stepAtMs } = timesOf(BETA, today);
	return judge(
		{
			enabled: true,
			limitBps: LIMIT_BPS,
			crashLimitBps: null,
			errorLimitBps: null,
			stepsBps: null,
			confidence: CONFIDENCE_BPS / 10_000,
			minAttempts: MIN_ATTEMPTS,
			minFailures: MIN_FAILURES,
			action: "pause" as const,
			cooldownMinutes: 0,
			stepMinutes: 60,
			stepMinDevices: 0,
		},
		{ percentageBps: ROLLOUTS[BETA].bps, stepAtMs, triggeredAtMs: null },
		{ installed, failed, crashed: 0, errored: 0, sinceStep: installed + failed },
		stepAtMs,
	).reason;
}

function rolloutStatements(appId: AppId, today: number, offers: readonly SampleOffer[]) {
	const rollouts = [PRODUCTION, BETA].map((channel) => {
		const { startedAtMs, stepAtMs, isPaused } = timesOf(channel, today);
		const { version, bps } = ROLLOUTS[channel as keyof typeof ROLLOUTS];
		return [
			rolloutIdOf(appId, channel),
			channel,
			version,
			version,
			bps,
			isPaused ? 1 : 0,
			startedAtMs,
			stepAtMs,
			startedAtMs,
		];
	});
	const networkOf = (deviceId: string) => sampleUuid(appId, `network ${deviceId}`).replaceAll("-", "");
	const devices = offers.map(({ channel, deviceId, fromVersion, createdAtMs, atMs, installedAtMs, failedAtMs }) => [
		rolloutIdOf(appId, channel),
		deviceId,
		networkOf(deviceId),
		networkOf(deviceId),
		fromVersion,
		atMs,
		atMs,
		installedAtMs,
		failedAtMs,
		createdAtMs,
	]);
	return [
		...insertSample(
			appId,
			"rollouts",
			{
				id: "value",
				channel_id: "channel",
				version_id: "bundle",
				version_name: "value",
				percentage_bps: "value",
				paused: "value",
				started_at_ms: "value",
				step_at_ms: "value",
				judged_from_ms: "value",
			},
			rollouts,
		),
		...insertSampleOffers(
			appId,
			[
				"rollout_id",
				"device_id",
				"network",
				"reporting_network",
				"from_version",
				"first_served_at_ms",
				"last_served_at_ms",
				"installed_at_ms",
				"failed_at_ms",
				"device_created_at_ms",
			],
			devices,
		),
	];
}

function overrideStatements(appId: AppId, today: number, { devices }: SampleFleet) {
	const overrides = [PINNED, SET_TO_BETA].map((set) => {
		const atMs = startOfDayMs(today - set.daysAgo);
		const [channel, version] = "version" in set ? [null, set.version] : [BETA, null];
		const deviceId = sampleUuid(appId, `device ${set.device}`);
		return { deviceId, row: [deviceId, channel, version, set.by, atMs, atMs] };
	});
	return insertSample(
		appId,
		"device_overrides",
		{
			device_id: "value",
			channel_id: "channel",
			version_id: "bundle",
			created_by: "value",
			created_at_ms: "value",
			updated_at_ms: "value",
		},
		overrides.filter(({ deviceId }) => devices.some(({ id }) => id === deviceId)).map(({ row }) => row),
	);
}
