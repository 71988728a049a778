/**
 * What travels through the Queue. Every message may arrive more than once and in any order, so each kind must be safe to repeat.
 */

/** Objects were let go of: remove what stands in `garbage_objects`. */
export interface CollectGarbage {
	readonly kind: "collect_garbage";
}

export type QueueMessage = CollectGarbage;
