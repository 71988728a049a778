/**
 * The columns that a change sets, before they are written. The id of a new rollout and the time of
 * a pause are only marked until the write draws them, so that comparing a request with a channel is
 * pure and nothing that is compared can reach the database: `drawn` alone turns planned values into
 * columns.
 */
import type { ChannelRow, ChannelValues } from "../../db/channels";

/** The id of a rollout that begins with the write. */
export const NEW_ROLLOUT: unique symbol = Symbol("id of the new rollout");
/** The time of the write. */
export const NOW: unique symbol = Symbol("time of the write");

type Marked = "rollout_id" | "rollout_paused_at_ms";

/** Columns to set; every `ChannelValues` is one. */
export type PlannedValues = Omit<ChannelValues, Marked> & {
	rollout_id?: ChannelValues["rollout_id"] | typeof NEW_ROLLOUT;
	rollout_paused_at_ms?: ChannelValues["rollout_paused_at_ms"] | typeof NOW;
};

/** The columns to write, in the same order, which audit entries keep. */
export function drawn(values: PlannedValues, newId: () => string, nowMs: number): ChannelValues {
	return Object.fromEntries(
		Object.entries(values).map(([column, value]) => [
			column,
			value === NEW_ROLLOUT ? newId() : value === NOW ? nowMs : value,
		]),
	);
}

/** The values that the channel does not have yet. */
export function differences<Values extends PlannedValues>(values: Values, channel: ChannelRow | undefined): Values {
	if (channel === undefined) return values;
	const current: Readonly<Record<string, unknown>> = { ...channel };
	return Object.fromEntries(Object.entries(values).filter(([column, value]) => current[column] !== value)) as Values;
}

export const touchesRollout = (values: PlannedValues): boolean =>
	Object.keys(values).some((column) => column.startsWith("rollout_"));

/** Bundles that a change newly points to. */
export const newBundles = ({ version_id, rollout_version_id }: PlannedValues): number[] =>
	[version_id, rollout_version_id].filter((id) => typeof id === "number");
