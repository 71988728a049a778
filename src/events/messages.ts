/**
 * What travels through the Queue. Every message may arrive more than once and in any order, so each kind must be safe to repeat.
 */

/** Objects were let go of: remove what stands in `garbage_objects`. */
export interface CollectGarbage {
	readonly kind: "collect_garbage";
}

/** A key was used in the minute that begins at `atMs`. */
export interface KeyUsed {
	readonly kind: "key_used";
	readonly keyId: string;
	/** The organization that the key belongs to. */
	readonly orgId: string;
	readonly atMs: number;
}

export type QueueMessage = CollectGarbage | KeyUsed;
