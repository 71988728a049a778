/**
 * The entries of a channel's history that make a bundle, or the store build, live for every device
 * of the channel. An index has them alone (`channel_history_live`), so queries name its
 * condition in the same words.
 */
import { sql } from "kysely";
import { LIVE_ACTIONS } from "../domain/rollouts/release";
import type { ChannelHistoryAction } from "./schema";

export const GOES_LIVE: readonly ChannelHistoryAction[] = LIVE_ACTIONS;

/** Condition of the index. */
export const LIVE_ENTRY = sql.raw(`action IN (${GOES_LIVE.map((action) => `'${action}'`).join(", ")})`);
