/**
 * Step 4 of a channel change: runs its statements as one atomic batch and answers from the rows
 * that it read. The errors of guards, of quotas and of the signing policy come from here; after any
 * of them nothing is written.
 */
import type { EndedPreviewAccess } from "../../db/channel-names";
import type { ChannelRow } from "../../db/channels";
import type { Statement, StatementResult } from "../../db/client";
import type { Quota } from "../../db/quotas";
import type { Flag } from "../../db/schema";
import { batchPromoting, type PromotingRules } from "../signing/verify";
import type { RolloutEnded } from "./served-bundles";

/** A promotion that waits for approval. */
export interface Proposed {
	readonly id: string;
	readonly message: string;
	readonly expiresAtMs: number;
}

/** The statements of a channel change, and those of them that the answer reads. */
export interface ChannelBatch {
	/** As it was read; undefined: the batch creates it. */
	readonly channel: ChannelRow | undefined;
	/** None if nothing differs. */
	readonly statements: readonly Statement[];
	readonly signatures: PromotingRules;
	readonly quotas?: readonly Quota[];
	/** Reads the channel after the write; absent if the write leaves it as it is. */
	readonly written?: Statement<{ id: number; public: Flag }>;
	/** Reads the preview access that the write ends. */
	readonly previewAccess?: Statement<EndedPreviewAccess>;
	/** Parts of the answer that are known before the write. */
	readonly answer?: { readonly proposal?: Proposed; readonly rolloutEnded?: RolloutEnded };
}

export interface ChangedChannel {
	readonly id: number;
	/** As stored after the write, which another request's write may have preceded. */
	readonly public: boolean;
	readonly created: boolean;
	/** Keys and people that lost their preview access by the write. */
	readonly previewAccessEnded: readonly EndedPreviewAccess[];
	/** Set if nothing was changed, because the change waits for approval. */
	readonly proposal?: Proposed;
	/** Set if the change ended a rollout whose bundle did not become stable. */
	readonly rolloutEnded?: RolloutEnded;
}

/** @throws {ApiError} of a guard, a quota or the signing policy; nothing was changed */
export async function runBatch(
	context: Parameters<typeof batchPromoting>[0],
	{ channel, statements, signatures, quotas, written, previewAccess, answer }: ChannelBatch,
): Promise<ChangedChannel> {
	const results = statements.length === 0 ? [] : await batchPromoting(context, signatures, statements, quotas);
	const [row] = written === undefined ? [channel] : rowsOf(written, statements, results);
	if (row === undefined) throw new Error("the channel that was just written is missing");
	return {
		id: row.id,
		public: row.public === 1,
		created: channel === undefined,
		previewAccessEnded: previewAccess === undefined ? [] : rowsOf(previewAccess, statements, results),
		...answer,
	};
}

function rowsOf<Row>(
	statement: Statement<Row>,
	statements: readonly Statement[],
	results: readonly StatementResult<unknown>[],
): Row[] {
	return (results[statements.indexOf(statement)]?.rows ?? []) as Row[];
}
