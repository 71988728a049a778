/**
 * Days of UTC as the statistics number them, and which of them are kept. One place, because what the sweep removes and what the consumer
 * still counts must never overlap.
 */
import type { Config } from "../config";
import { DAY_MS } from "../domain/time";

/** Days since 1970-01-01, UTC. */
export function dayOf(atMs: number): number {
	return Math.floor(atMs / DAY_MS);
}

/** Ids of events of earlier days are removed. */
export function firstRememberedDay(config: Pick<Config, "eventMemoryDays">, nowMs: number): number {
	return dayOf(nowMs) - config.eventMemoryDays;
}

/**
 * Events of earlier days are not counted, because it is not known any more whether they were before. A day later than what is
 * remembered: a run that began before midnight may end after a sweep that began after it.
 */
export function firstCountedDay(config: Pick<Config, "eventMemoryDays">, nowMs: number): number {
	return firstRememberedDay(config, nowMs) + 1;
}

/** Statistics of earlier days are removed. */
export function firstStatisticsDay(config: Pick<Config, "statisticsDays">, nowMs: number): number {
	return dayOf(nowMs) - config.statisticsDays + 1;
}

export function startOfDayMs(day: number): number {
	return day * DAY_MS;
}
