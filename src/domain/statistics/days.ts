/**
 * Numbers of days (UTC) in the statistics, and how long days are kept. The retention of event ids
 * and the days that the consumer still counts are defined together, because they must not overlap.
 */
import type { Config } from "../../config";
import { DAY_MS } from "../time";

/** Days since 1970-01-01, UTC. */
export function dayOf(atMs: number): number {
	return Math.floor(atMs / DAY_MS);
}

/** Retention: event ids of earlier days are removed. */
export function firstRememberedDay(config: Pick<Config, "eventMemoryDays">, nowMs: number): number {
	return dayOf(nowMs) - config.eventMemoryDays;
}

/**
 * Events of earlier days are not counted, because their ids may be removed already. One day later
 * than the ids are kept, because a consumer that began before midnight may end after a clean-up
 * that began after it.
 */
export function firstCountedDay(config: Pick<Config, "eventMemoryDays">, nowMs: number): number {
	return firstRememberedDay(config, nowMs) + 1;
}

/** Events of devices that are older are not kept; undefined: none is. */
export function firstEventMs(config: Pick<Config, "eventDays">, nowMs: number): number | undefined {
	return config.eventDays === 0 ? undefined : nowMs - config.eventDays * DAY_MS;
}

/** Statistics of earlier days are removed. */
export function firstStatisticsDay(config: Pick<Config, "statisticsDays">, nowMs: number): number {
	return dayOf(nowMs) - config.statisticsDays + 1;
}

export function startOfDayMs(day: number): number {
	return day * DAY_MS;
}
