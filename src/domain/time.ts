/**
 * Lengths of time that several layers count with.
 */

/** A day of UTC, which has no leap seconds here. */
export const DAY_MS = 24 * 60 * 60 * 1000;
