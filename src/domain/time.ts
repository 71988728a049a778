/**
 * Durations in milliseconds.
 */
export const MINUTE_MS = 60_000;
export const HOUR_MS = 60 * MINUTE_MS;
/** A day of UTC, which has no leap seconds here. */
export const DAY_MS = 24 * HOUR_MS;
