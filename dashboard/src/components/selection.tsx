/**
 * Rows of a list that are selected, across its pages, and the bar with the acts for them. The bar
 * stays at the bottom of the window while its list is longer. A checkbox selects one row, and with
 * Shift all from the last one.
 */
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

/** Acts send a request for each row. */
const MOST_AT_ONCE = 100;

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
	noun: [one, many],
	children,
}: {
	readonly selection: Selection<Row>;
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
			{count > MOST_AT_ONCE ? <span>Select at most {countOf(MOST_AT_ONCE, one, many)}</span> : children}
			<button type="button" data-clear-selection aria-label="Clear the selection" onClick={selection.clear}>
				<Icon of={IconX} />
			</button>
		</div>
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
