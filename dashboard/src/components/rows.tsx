/**
 * The dense list: one line of 36 px for each entry, with time, picture, sentence and facts, below a
 * head for each day. Equal entries of an hour fold into one row. A row with more to say opens below
 * itself, by its button or by a click anywhere on it. Lists with columns are tables (`DataTable`);
 * both have the same look.
 */
import { type MouseEvent, type ReactNode, useId, useState } from "react";
import { IconChevronRight } from "../icons";
import { clockText, dayText } from "./dates";
import { Icon } from "./icon";
import { foldByDay } from "./row-groups";
import "./rows.css";
import { Clock } from "./time";

/** The parts of one row. */
export interface Entry {
	/** An `Avatar` or a `Spot`. */
	readonly picture: ReactNode;
	/** The sentence as text, which names the row's button. */
	readonly name: string;
	readonly sentence: ReactNode;
	/** At most three short ones. */
	readonly facts?: ReactNode;
	/** Shown when the row is open. */
	readonly details?: ReactNode;
}

/** One row instead of several. */
interface Summary extends Omit<Entry, "details"> {
	/** E.g. `4 times since 11:02`. */
	readonly count: string;
}

interface RowsProps<Item> {
	/** Name of the list, for screen readers. */
	readonly label: string;
	/** Newest first. */
	readonly items: readonly Item[];
	readonly idOf: (item: Item) => string | number;
	readonly atOf: (item: Item) => string;
	readonly entryOf: (item: Item) => Entry;
	/** The same key for entries that fold; undefined: never. */
	readonly foldKeyOf?: (item: Item) => string | undefined;
	/** Describes a fold; undefined: the newest entry, and how often. */
	readonly summaryOf?: (items: readonly Item[]) => Summary | undefined;
}

export function Rows<Item>({
	label,
	items,
	idOf,
	atOf,
	entryOf,
	foldKeyOf = () => undefined,
	summaryOf = () => undefined,
}: RowsProps<Item>) {
	return (
		<ol className="rows" aria-label={label}>
			{foldByDay(items, atOf, foldKeyOf).flatMap((day) =>
				day.folds.map(({ newest, items: folded }, index) => (
					<li key={idOf(newest)}>
						{index === 0 ? (
							<div className="day-head">
								<h2>{dayText(day.at)}</h2>
								<span className="num">{day.count}</span>
							</div>
						) : null}
						{folded.length === 1 ? (
							<Row at={atOf(newest)} {...entryOf(newest)} />
						) : (
							<FoldedRows
								at={atOf(newest)}
								summary={summaryOf(folded) ?? repeated(entryOf(newest), folded.length, atOf(folded.at(-1) ?? newest))}
							>
								{folded.map((item) => (
									<li key={idOf(item)}>
										<Row at={atOf(item)} {...entryOf(item)} />
									</li>
								))}
							</FoldedRows>
						)}
					</li>
				)),
			)}
		</ol>
	);
}

const repeated = (newest: Entry, times: number, firstAt: string): Summary => ({
	...newest,
	count: `${times} times since ${clockText(firstAt)}`,
});

const CONTROLS = "a, button, input, select, label, summary, [role=button]";

/**
 * Whether a click was for the row: not for a control in it, and not the end of a selection of text.
 */
function isForRow({ target }: MouseEvent): boolean {
	if (!(target instanceof Element) || target.closest(CONTROLS) !== null) return false;
	return getSelection()?.isCollapsed !== false;
}

function Row({ at, details, ...entry }: Entry & { readonly at: string }) {
	const [isOpen, setOpen] = useState(false);
	const id = useId();
	if (details === undefined || details === null) {
		return (
			<div className="entry">
				<Parts at={at} {...entry} />
			</div>
		);
	}
	return (
		<>
			<Opening at={at} {...entry} id={id} isOpen={isOpen} what="Details" onOpen={setOpen} />
			{isOpen ? (
				<div className="entry-more" id={id}>
					{details}
				</div>
			) : null}
		</>
	);
}

function FoldedRows({
	at,
	summary: { count, ...entry },
	children,
}: {
	readonly at: string;
	readonly summary: Summary;
	readonly children: ReactNode;
}) {
	const [isOpen, setOpen] = useState(false);
	const id = useId();
	return (
		<>
			<Opening at={at} {...entry} count={count} id={id} isOpen={isOpen} what="Single entries" onOpen={setOpen} />
			{isOpen ? (
				<ol className="folded" id={id}>
					{children}
				</ol>
			) : null}
		</>
	);
}

function Opening({
	id,
	isOpen,
	what,
	onOpen,
	...entry
}: Parts & {
	/** The id of the part that opens. */
	readonly id: string;
	readonly isOpen: boolean;
	readonly what: string;
	readonly onOpen: (isOpen: boolean) => void;
}) {
	return (
		// biome-ignore lint/a11y/useKeyWithClickEvents lint/a11y/noStaticElementInteractions: the button in it does the same
		<div className="entry" data-opens="" onClick={(event) => isForRow(event) && onOpen(!isOpen)}>
			<Parts {...entry} />
			<button
				type="button"
				className="btn ghost icon-only sm entry-opener"
				aria-expanded={isOpen}
				{...(isOpen ? { "aria-controls": id } : {})}
				aria-label={`${what}: ${entry.name}, ${clockText(entry.at)}`}
				onClick={() => onOpen(!isOpen)}
			>
				<Icon of={IconChevronRight} size="s" />
			</button>
		</div>
	);
}

interface Parts extends Omit<Entry, "details"> {
	readonly at: string;
	readonly count?: string;
}

function Parts({ at, picture, sentence, facts, count }: Parts) {
	return (
		<>
			<Clock value={at} />
			{picture}
			<div className="entry-text">
				{sentence}
				{count === undefined ? null : <span className="muted"> · {count}</span>}
			</div>
			{facts === undefined || facts === null ? null : <div className="entry-facts">{facts}</div>}
		</>
	);
}
