/**
 * Rows of a list that are selected, across its pages, and the bar with the acts for them. The bar
 * stays at the bottom of the window while its list is longer. A checkbox selects one row, and with
 * Shift all from the last one; after a whole page, the bar offers all rows that match.
 */
import { useMutation } from "@tanstack/react-query";
import { type ReactNode, useRef, useState } from "react";
import { IconX } from "../icons";
import { Icon } from "./icon";
import "./selection.css";
import { countOf, countText } from "./size";

type Key = string | number;

export interface Selection<Row> {
	/** In the order in which they were selected. */
	readonly rows: readonly Row[];
	readonly isSelected: (row: Row) => boolean;
	/** @param isRange all shown rows from the one that was chosen last */
	readonly choose: (row: Row, isOn: boolean, isRange: boolean, shown: readonly Row[]) => void;
	readonly chooseAll: (shown: readonly Row[], isOn: boolean) => void;
	readonly drop: (rows: readonly Row[]) => void;
	readonly clear: () => void;
}

/** Acts send a dry run and a request for each row, of which a session may send 1,000 in 10 seconds. */
const MOST_AT_ONCE = 500;

/** Every row that the filter finds, of which the page shows a part. */
export interface AllRows<Row> {
	readonly total: number;
	readonly load: () => Promise<readonly Row[]>;
}

/** Loads the pages of a list one after the other, until there are as many rows as it has. */
export async function loadPages<Row>(total: number, page: (number: number) => Promise<readonly Row[]>) {
	const rows: Row[] = [];
	for (let number = 0; rows.length < total; number++) {
		const more = await page(number);
		if (more.length === 0) break;
		rows.push(...more);
	}
	return rows;
}

export function useSelection<Row>(rowKey: (row: Row) => Key): Selection<Row> {
	const [selected, setSelected] = useState<ReadonlyMap<Key, Row>>(new Map());
	const last = useRef<Key | undefined>(undefined);
	const chooseAll = (shown: readonly Row[], isOn: boolean) =>
		setSelected((before) => {
			const after = new Map(before);
			for (const row of shown) {
				if (isOn) after.set(rowKey(row), row);
				else after.delete(rowKey(row));
			}
			return after;
		});
	return {
		rows: [...selected.values()],
		isSelected: (row) => selected.has(rowKey(row)),
		choose(row, isOn, isRange, shown) {
			const at = shown.findIndex((other) => rowKey(other) === rowKey(row));
			const from = isRange ? shown.findIndex((other) => rowKey(other) === last.current) : -1;
			last.current = rowKey(row);
			if (from === -1) return chooseAll([row], isOn);
			chooseAll(shown.slice(Math.min(from, at), Math.max(from, at) + 1), isOn);
		},
		chooseAll,
		drop: (rows) => chooseAll(rows, false),
		clear: () => setSelected(new Map()),
	};
}

/** Renders nothing while no row is selected. */
export function SelectionBar<Row>({
	selection,
	shown,
	all,
	noun: [one, many],
	children,
}: {
	readonly selection: Selection<Row>;
	/** Rows of the page. */
	readonly shown: readonly Row[];
	/** Undefined: the page has all of them, or their number is not known. */
	readonly all: AllRows<Row> | undefined;
	readonly noun: readonly [one: string, many: string];
	/** Buttons, at most three. */
	readonly children: ReactNode;
}) {
	const count = selection.rows.length;
	if (count === 0) return null;
	return (
		<div className="selection-bar" role="toolbar" aria-label={`Selected ${many}`}>
			<strong className="num" role="status">
				{countText(count)} <span className="sr">{count === 1 ? one : many} </span>selected
			</strong>
			{all !== undefined && all.total > count && shown.every(selection.isSelected) ? (
				<SelectAll selection={selection} all={all} many={many} />
			) : null}
			{count > MOST_AT_ONCE ? <span>Select at most {countOf(MOST_AT_ONCE, one, many)}</span> : children}
			<button type="button" data-clear-selection aria-label="Clear the selection" onClick={selection.clear}>
				<Icon of={IconX} />
			</button>
		</div>
	);
}

/** After a whole page: the rows of the other pages as well. */
function SelectAll<Row>({
	selection,
	all: { total, load },
	many,
}: {
	readonly selection: Selection<Row>;
	readonly all: AllRows<Row>;
	readonly many: string;
}) {
	const loading = useMutation({ mutationFn: load, onSuccess: (rows) => selection.chooseAll(rows, true) });
	if (total > MOST_AT_ONCE) {
		return (
			<span className="selection-note">
				{countText(total)} match; filter to {countText(MOST_AT_ONCE)} to select all
			</span>
		);
	}
	return (
		<button type="button" className="selection-all" aria-busy={loading.isPending} onClick={() => loading.mutate()}>
			{loading.isPending
				? "Loading…"
				: loading.isError
					? `Not loaded; select all ${countText(total)} again`
					: `Select all ${countText(total)}`}
			<span className="sr"> {many} that match</span>
		</button>
	);
}

interface PickProps<Row> {
	readonly selection: Selection<Row>;
	/** Rows of the page, in their order. */
	readonly shown: readonly Row[];
}

/** The checkbox of a row. */
export function PickRow<Row>({
	selection,
	shown,
	row,
	name,
}: PickProps<Row> & { readonly row: Row; readonly name: string }) {
	return (
		<input
			type="checkbox"
			className="pick"
			data-pick
			aria-label={`Select ${name}`}
			checked={selection.isSelected(row)}
			readOnly
			onMouseDown={(event) => event.shiftKey && event.preventDefault()}
			onClick={({ currentTarget, shiftKey }) => selection.choose(row, currentTarget.checked, shiftKey, shown)}
		/>
	);
}

/** The checkbox of the page, in the head. */
export function PickPage<Row>({ selection, shown }: PickProps<Row>) {
	const selected = shown.filter(selection.isSelected).length;
	const isAll = shown.length > 0 && selected === shown.length;
	return (
		<input
			type="checkbox"
			className="pick"
			aria-label="Select all rows of this page"
			ref={(box) => {
				if (box !== null) box.indeterminate = selected > 0 && !isAll;
			}}
			checked={isAll}
			onChange={() => selection.chooseAll(shown, !isAll)}
		/>
	);
}
