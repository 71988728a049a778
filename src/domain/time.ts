/**
 * Durations, in milliseconds unless the name says otherwise. Imports nothing, so that `npm start`
 * loads it before the server.
 */
export const MINUTE_MS = 60_000;
export const HOUR_MS = 60 * MINUTE_MS;
/** A day of UTC, which has no leap seconds here. */
export const DAY_MS = 24 * HOUR_MS;
/** Lifetime of the operator's sign-in link. */
export const SIGN_IN_LINK_MINUTES = 60;
