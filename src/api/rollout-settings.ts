/**
 * The settings of staged rollouts as requests name them: the steps that a rollout takes by itself, and the health gate under the names
 * that the stock CLI uses. Both spellings are taken, camelCase first; the channel shows the same names.
 */
import * as v from "valibot";
import type { ChannelRow, ChannelValues } from "../db/channels";
import type { Flag } from "../db/schema";
import { optional } from "./schemas";

const MOST_STEPS = 20;

const whole = (least: number, most: number) =>
	v.pipe(
		v.number(),
		v.integer("must be a whole number"),
		v.minValue(least, `must be at least ${least}`),
		v.maxValue(most, `must be at most ${most}`),
	);

export const basisPoints = v.pipe(
	v.number(),
	v.integer("must be a whole number"),
	v.minValue(0, "must not be negative"),
	v.maxValue(10_000, "must be at most 10000"),
);
export const percentage = v.pipe(
	v.number(),
	v.minValue(0, "must not be negative"),
	v.maxValue(100, "must be at most 100"),
	v.check((value) => Number.isInteger(Math.round(value * 1e6) / 1e4), "must have at most two decimals"),
);

const steps = v.pipe(
	v.array(percentage),
	v.minLength(1, "must have a step; null turns steps off"),
	v.maxLength(MOST_STEPS, `must have at most ${MOST_STEPS} steps`),
	v.check(
		(list) => list.every((step, index) => step > (list[index - 1] ?? 0)),
		"must grow from step to step, and begin above 0",
	),
);
const confidence = v.pipe(
	v.number(),
	v.gtValue(0, "must be more than 0"),
	v.ltValue(1, "must be less than 1"),
	v.check((value) => bpsOf(value * 100) > 0 && bpsOf(value * 100) < 10_000, "must lie between 0.0001 and 0.9999"),
);
/** Null means something of its own: off, or no limit. */
const nullable = <const Schema extends v.GenericSchema>(schema: Schema) => v.optional(v.nullable(schema));

const camelCase = {
	rolloutSteps: nullable(steps),
	rolloutStepMinutes: optional(whole(0, 43_200)),
	rolloutStepMinDevices: optional(whole(1, 1_000_000)),
	rolloutCountNewDevices: optional(v.boolean()),
	rolloutDevicesPerNetwork: nullable(whole(1, 1_000_000)),
	autoPauseEnabled: optional(v.boolean()),
	autoPauseWindowMinutes: nullable(whole(1, 10_080)),
	autoPauseFailureRateBps: optional(basisPoints),
	autoPauseConfidence: optional(confidence),
	autoPauseMinAttempts: optional(whole(0, 1_000_000)),
	autoPauseMinFailures: optional(whole(0, 1_000_000)),
	autoPauseAction: optional(v.picklist(["pause", "rollback", "notify"], "must be one of pause, rollback, notify")),
	autoPauseCooldownMinutes: optional(whole(0, 10_080)),
};

type SnakeCase<Name extends string> = Name extends `${infer First}${infer Rest}`
	? `${First extends Lowercase<First> ? First : `_${Lowercase<First>}`}${SnakeCase<Rest>}`
	: Name;
type SnakeCased = { [Name in keyof typeof camelCase as SnakeCase<Name>]: (typeof camelCase)[Name] };

const snakeName = (name: string) => name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
const snakeCase = Object.fromEntries(
	Object.entries(camelCase).map(([name, schema]) => [snakeName(name), schema]),
) as unknown as SnakeCased;

/** Fields of POST /channel. */
export const rolloutSettingsFields = { ...camelCase, ...snakeCase };
const bodySchema = v.object(rolloutSettingsFields);
const settingsSchema = v.object(camelCase);
type Settings = v.InferOutput<typeof settingsSchema>;

function settingsOf(body: v.InferOutput<typeof bodySchema>): Settings {
	const given: Readonly<Record<string, unknown>> = body;
	const chosen = Object.keys(camelCase).map((name) => [
		name,
		given[name] === undefined ? given[snakeName(name)] : given[name],
	]);
	return Object.fromEntries(chosen) as Settings;
}

const bpsOf = (percent: number) => Math.round(percent * 100);
const flag = (value: boolean | undefined): Flag | undefined => (value === undefined ? undefined : value ? 1 : 0);

/** The columns that the body names. */
export function requestedRolloutSettings(body: v.InferOutput<typeof bodySchema>): ChannelValues {
	const settings = settingsOf(body);
	const columns = {
		rollout_steps: settings.rolloutSteps && JSON.stringify(settings.rolloutSteps.map(bpsOf)),
		rollout_step_minutes: settings.rolloutStepMinutes,
		rollout_step_min_devices: settings.rolloutStepMinDevices,
		rollout_count_new_devices: flag(settings.rolloutCountNewDevices),
		rollout_devices_per_network: settings.rolloutDevicesPerNetwork,
		auto_pause_enabled: flag(settings.autoPauseEnabled),
		auto_pause_window_minutes: settings.autoPauseWindowMinutes,
		auto_pause_failure_rate_bps: settings.autoPauseFailureRateBps,
		auto_pause_confidence_bps:
			settings.autoPauseConfidence === undefined ? undefined : bpsOf(settings.autoPauseConfidence * 100),
		auto_pause_min_attempts: settings.autoPauseMinAttempts,
		auto_pause_min_failures: settings.autoPauseMinFailures,
		auto_pause_action: settings.autoPauseAction,
		auto_pause_cooldown_minutes: settings.autoPauseCooldownMinutes,
	};
	return Object.fromEntries(Object.entries(columns).filter(([, value]) => value !== undefined));
}

/** The share that a new rollout begins with where the request names none: the first step. */
export function firstStepBps(
	body: v.InferOutput<typeof bodySchema>,
	channel: ChannelRow | undefined,
): number | undefined {
	const { rolloutSteps } = settingsOf(body);
	if (rolloutSteps !== undefined) return rolloutSteps?.map(bpsOf)[0];
	return stepsBpsOf(channel?.rollout_steps ?? null)?.[0];
}

export function stepsBpsOf(text: string | null): number[] | null {
	return text === null ? null : (JSON.parse(text) as number[]);
}

/** How a channel shows them. */
export const rolloutSettingsAnswer = {
	rolloutSteps: v.nullable(v.array(v.number())),
	rolloutStepMinutes: v.number(),
	rolloutStepMinDevices: v.number(),
	rolloutCountNewDevices: v.boolean(),
	rolloutDevicesPerNetwork: v.nullable(v.number()),
	autoPauseEnabled: v.boolean(),
	autoPauseWindowMinutes: v.nullable(v.number()),
	autoPauseFailureRateBps: v.number(),
	autoPauseConfidence: v.number(),
	autoPauseMinAttempts: v.number(),
	autoPauseMinFailures: v.number(),
	autoPauseAction: v.picklist(["pause", "rollback", "notify"]),
	autoPauseCooldownMinutes: v.number(),
};

export function shownRolloutSettings(row: ChannelRow) {
	return {
		rolloutSteps: stepsBpsOf(row.rollout_steps)?.map((bps) => bps / 100) ?? null,
		rolloutStepMinutes: row.rollout_step_minutes,
		rolloutStepMinDevices: row.rollout_step_min_devices,
		rolloutCountNewDevices: row.rollout_count_new_devices === 1,
		rolloutDevicesPerNetwork: row.rollout_devices_per_network,
		autoPauseEnabled: row.auto_pause_enabled === 1,
		autoPauseWindowMinutes: row.auto_pause_window_minutes,
		autoPauseFailureRateBps: row.auto_pause_failure_rate_bps,
		autoPauseConfidence: row.auto_pause_confidence_bps / 10_000,
		autoPauseMinAttempts: row.auto_pause_min_attempts,
		autoPauseMinFailures: row.auto_pause_min_failures,
		autoPauseAction: row.auto_pause_action,
		autoPauseCooldownMinutes: row.auto_pause_cooldown_minutes,
	};
}

export const EXAMPLE_ROLLOUT_SETTINGS = {
	rolloutSteps: null,
	rolloutStepMinutes: 60,
	rolloutStepMinDevices: 50,
	rolloutCountNewDevices: false,
	rolloutDevicesPerNetwork: 3,
	autoPauseEnabled: false,
	autoPauseWindowMinutes: null,
	autoPauseFailureRateBps: 500,
	autoPauseConfidence: 0.95,
	autoPauseMinAttempts: 20,
	autoPauseMinFailures: 10,
	autoPauseAction: "pause" as const,
	autoPauseCooldownMinutes: 0,
};
