/**
 * The type of a mutation, and its shared helpers.
 */

import type { Operation } from "./document";
import { bodyOf, type Draft, headerText } from "./draft";
import type { Random } from "./random";
import type { KnownIds } from "./values";

export interface Malice {
	readonly operation: Operation;
	readonly known: KnownIds;
	/** Keys that exist, and one that does not. */
	readonly keys: readonly string[];
	readonly random: Random;
}

export interface Mutation {
	readonly name: string;
	readonly weight: number;
	readonly applies: (draft: Draft, operation: Operation) => boolean;
	readonly apply: (draft: Draft, malice: Malice) => void;
}

export const always = () => true;
export const hasJson = (draft: Draft) => draft.json !== undefined && draft.bytes === undefined;
export const hasBody = (draft: Draft) => bodyOf(draft) !== undefined;
export const setHeader = (draft: Draft, name: string, value: string) => {
	draft.headers = [...draft.headers.filter(([known]) => known.toLowerCase() !== name), [name, headerText(value)]];
};

/** Takes a header away, gives it a second time, or mostly replaces it. */
export function oddHeader(draft: Draft, name: string, value: string, random: Random): void {
	const way = random.integer(0, 5);
	if (way === 0) draft.headers = draft.headers.filter(([known]) => known.toLowerCase() !== name);
	else if (way === 1) draft.headers.push([name, headerText(value)]);
	else setHeader(draft, name, value);
}
