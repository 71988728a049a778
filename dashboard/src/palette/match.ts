/**
 * Which entries of the palette fit a text, the best ones first. Every word of the text must occur
 * in the label, the note or the other words.
 */
import type { IconDrawing } from "../icons";

export interface Entry {
	readonly group: string;
	readonly label: string;
	/** Dimmed, beside the label: an app, a state, a second id. */
	readonly note?: string | undefined;
	/** Further words that find it. */
	readonly words?: string | undefined;
	readonly icon: IconDrawing;
	/** Address below /dashboard, or an absolute one such as `/docs`. */
	readonly to?: string;
	readonly run?: () => void;
	readonly keys?: readonly string[];
}

export const MOST_OF_A_GROUP = 4;

/** @param to opens the dialog of the action (`?do=`); nothing is changed from the palette itself */
export const action = (label: string, icon: IconDrawing, to: string, words?: string): Entry => ({
	group: "Actions",
	label,
	words,
	icon,
	to,
});

/** 0: the label begins with the text; larger: worse; undefined: does not fit. */
function rankOf({ label, note = "", words = "" }: Entry, wanted: readonly string[]): number | undefined {
	const name = label.toLowerCase();
	const all = `${name} ${note} ${words}`.toLowerCase();
	if (!wanted.every((word) => all.includes(word))) return undefined;
	const [first = ""] = wanted;
	if (name.startsWith(first)) return 0;
	if (name.split(/[\s./-]/).some((part) => part.startsWith(first))) return 1;
	return name.includes(first) ? 2 : 3;
}

export interface Group {
	readonly title: string;
	readonly entries: readonly Entry[];
}

/** Groups with their best entries; the group of the best entry comes first. */
export function matching(entries: readonly Entry[], text: string): Group[] {
	const wanted = text.toLowerCase().split(/\s+/).filter(Boolean);
	const groups = new Map<string, { readonly entry: Entry; readonly rank: number }[]>();
	for (const entry of entries) {
		const rank = rankOf(entry, wanted);
		if (rank === undefined) continue;
		groups.set(entry.group, [...(groups.get(entry.group) ?? []), { entry, rank }]);
	}
	return [...groups]
		.map(([title, found]) => ({ title, found: found.sort((one, other) => one.rank - other.rank) }))
		.sort((one, other) => (one.found[0]?.rank ?? 0) - (other.found[0]?.rank ?? 0))
		.map(({ title, found }) => ({ title, entries: found.slice(0, MOST_OF_A_GROUP).map(({ entry }) => entry) }));
}

/** The label in three pieces; the middle one is the match. */
export function marked(label: string, text: string): readonly [string, string, string] {
	const [first = ""] = text.toLowerCase().split(/\s+/).filter(Boolean);
	const at = first === "" ? -1 : label.toLowerCase().indexOf(first);
	if (at === -1) return [label, "", ""];
	return [label.slice(0, at), label.slice(at, at + first.length), label.slice(at + first.length)];
}
