/**
 * Dense rows with columns, and their pages. The table never scrolls sideways: phones leave out
 * columns that are `wideOnly`, and show the facts of a row below its name instead. The first cell
 * has the link of its row; a click anywhere else on the row follows that link. Rows may be
 * selectable.
 */
import { Button } from "@mantine/core";
import type { MouseEvent, ReactNode } from "react";
import { useSearchParams } from "wouter";
import { IconArrowDown, IconArrowUp } from "../icons";
import { Icon } from "./icon";
import { type AllRows, PickPage, PickRow, type Selection, SelectionBar } from "./selection";

export interface Column<Row> {
	readonly title: string;
	readonly cell: (row: Row) => ReactNode;
	/** Hidden at phone width. */
	readonly wideOnly?: true;
	/** For numbers. Actions are at the end of the row as well. */
	readonly alignEnd?: true;
	/** Name of the order in the address; the header sorts by it. */
	readonly sort?: string;
	/**
	 * In pixels. If one column has a width, those without share the rest, and no name can change
	 * another column.
	 */
	readonly width?: number;
}

/** Rows that can be selected. */
export interface Pick<Row> {
	readonly selection: Selection<Row>;
	/** Names the checkbox of a row. */
	readonly nameOf: (row: Row) => string;
	/** One row and several. */
	readonly noun: readonly [one: string, many: string];
	/** Buttons, at most three. */
	readonly acts: ReactNode;
	/** Undefined: the page has all rows, or their number is not known. */
	readonly all?: AllRows<Row> | undefined;
}

/** The order of a list. */
interface Sorting {
	readonly by: string;
	readonly isDescending: boolean;
}

const CONTROLS = "a, button, input, select, label, summary, [role=button]";

/** Follows the link of the first cell, unless the click was for a control or selected a text. */
function openRow(event: MouseEvent<HTMLTableRowElement>): void {
	if (!(event.target instanceof Element) || event.target.closest(CONTROLS) !== null) return;
	if (getSelection()?.isCollapsed === false) return;
	event.currentTarget.querySelector<HTMLAnchorElement>("td:first-child a")?.dispatchEvent(
		new globalThis.MouseEvent("click", {
			bubbles: true,
			cancelable: true,
			ctrlKey: event.ctrlKey,
			metaKey: event.metaKey,
		}),
	);
}

export function DataTable<Row>({
	label,
	columns,
	rows,
	rowKey,
	isLinked = false,
	factsOf,
	pick,
	sorting,
	onSort,
}: {
	/** Name of the listed rows, for screen readers. */
	readonly label: string;
	readonly columns: readonly Column<Row>[];
	readonly rows: readonly Row[];
	readonly rowKey: (row: Row) => string | number;
	/** Whether the first cell has a link that the whole row follows. */
	readonly isLinked?: boolean;
	/** On phones, below the first cell. */
	readonly factsOf?: ((row: Row) => ReactNode) | undefined;
	/** Undefined: no row can be selected. */
	readonly pick?: Pick<Row> | undefined;
	readonly sorting?: Sorting | undefined;
	readonly onSort?: ((by: string) => void) | undefined;
}) {
	const classOf = (column: Column<Row>) =>
		[column.wideOnly === true ? "wide" : "", column.alignEnd === true || column.title === "Actions" ? "r" : ""]
			.join(" ")
			.trim();
	const headOf = (column: Column<Row>) =>
		column.title === "Actions" ? (
			<span className="sr">Actions</span>
		) : column.sort === undefined || onSort === undefined ? (
			column.title
		) : (
			<SortButton column={column.title} by={column.sort} sorting={sorting} onSort={onSort} />
		);
	const firstCell = (row: Row, cell: ReactNode) => {
		const withFacts =
			factsOf === undefined ? (
				cell
			) : (
				<div className="grow">
					{cell}
					<div className="row-facts phone">
						<div>{factsOf(row)}</div>
					</div>
				</div>
			);
		if (pick === undefined) return withFacts;
		return (
			<div className="picked">
				<PickRow selection={pick.selection} shown={rows} row={row} name={pick.nameOf(row)} />
				{withFacts}
			</div>
		);
	};
	const table = (
		<section className="card" aria-label={label}>
			<table className={columns.some(({ width }) => width !== undefined) ? "table fixed" : "table"}>
				<colgroup>
					{columns.map(({ title, width, wideOnly }) => (
						<col
							key={title}
							className={wideOnly === true ? "wide" : undefined}
							{...(width === undefined ? {} : { width })}
						/>
					))}
				</colgroup>
				<thead>
					<tr>
						{columns.map((column, index) => (
							<th
								key={column.title}
								scope="col"
								className={classOf(column)}
								{...(sorting !== undefined && column.sort === sorting.by
									? { "aria-sort": sorting.isDescending ? ("descending" as const) : ("ascending" as const) }
									: {})}
							>
								{index === 0 && pick !== undefined ? (
									<div className="picked">
										<PickPage selection={pick.selection} shown={rows} />
										{headOf(column)}
									</div>
								) : (
									headOf(column)
								)}
							</th>
						))}
					</tr>
				</thead>
				<tbody>
					{rows.map((row) => (
						<tr
							key={rowKey(row)}
							{...(isLinked ? { "data-opens": "", onClick: openRow } : {})}
							{...(pick?.selection.isSelected(row) === true ? { "data-selected": "" } : {})}
						>
							{columns.map((column, index) => (
								<td key={column.title} className={classOf(column)}>
									{index === 0 ? firstCell(row, column.cell(row)) : column.cell(row)}
								</td>
							))}
						</tr>
					))}
				</tbody>
			</table>
		</section>
	);
	if (pick === undefined) return table;
	return (
		<div>
			{table}
			<SelectionBar selection={pick.selection} shown={rows} all={pick.all} noun={pick.noun}>
				{pick.acts}
			</SelectionBar>
		</div>
	);
}

function SortButton({
	column,
	by,
	sorting,
	onSort,
}: {
	readonly column: string;
	readonly by: string;
	readonly sorting: Sorting | undefined;
	readonly onSort: (by: string) => void;
}) {
	return (
		<button type="button" className="sort" onClick={() => onSort(by)}>
			{column}
			{sorting?.by === by ? <Icon of={sorting.isDescending ? IconArrowDown : IconArrowUp} size="s" /> : null}
		</button>
	);
}

/**
 * The order of a list in the address. A second click on a header turns the order around.
 * @param first the order without one in the address
 * @param descending orders that begin with the highest, such as times
 */
export function useSorting(first: string, descending: readonly string[]): [Sorting, (by: string) => void] {
	const [address, setAddress] = useSearchParams();
	const given = address.get("sort") ?? "";
	const by = given.replace(/^-/, "") || first;
	const sorting = { by, isDescending: given === "" ? descending.includes(by) : given.startsWith("-") };
	const sort = (wanted: string) =>
		setAddress((before) => {
			const isDescending = wanted === by ? !sorting.isDescending : descending.includes(wanted);
			const after = new URLSearchParams(before);
			after.delete("page");
			after.set("sort", `${isDescending ? "-" : ""}${wanted}`);
			return after;
		});
	return [sorting, sort];
}

/** Sorts a whole list; rows without a value come last. */
export function sortedBy<Row>(
	rows: readonly Row[],
	fieldOf: (row: Row) => string | number | null,
	isDescending: boolean,
): readonly Row[] {
	const collator = new Intl.Collator(undefined, { numeric: true, sensitivity: "base" });
	const sign = isDescending ? -1 : 1;
	return rows.toSorted((one, other) => {
		const [left, right] = [fieldOf(one), fieldOf(other)];
		if (left === null || right === null) return Number(left === null) - Number(right === null);
		if (typeof left === "number" && typeof right === "number") return sign * (left - right);
		return sign * collator.compare(String(left), String(right));
	});
}

const MOST_PAGES = 100_000;

/**
 * The page number in the URL, so that Back and links keep it: from 0 here, from 1 in the URL. Lists
 * that share a screen need different names.
 */
export function usePageNumber(name = "page"): [number, (page: number) => void] {
	const [address, setAddress] = useSearchParams();
	const shown = Number(address.get(name) ?? "1");
	const page = Number.isInteger(shown) && shown >= 1 && shown <= MOST_PAGES ? shown - 1 : 0;
	const setPage = (next: number) =>
		setAddress((before) => {
			const after = new URLSearchParams(before);
			if (next === 0) after.delete(name);
			else after.set(name, String(next + 1));
			return after;
		});
	return [page, setPage];
}

const SHOWN_AT_ONCE = 20;

/**
 * One page of a list that the API answers as a whole; the last page if `page` is beyond the end.
 */
export function pageOf<Row>(rows: readonly Row[], page: number) {
	const last = Math.max(0, Math.ceil(rows.length / SHOWN_AT_ONCE) - 1);
	const shown = Math.min(page, last);
	const first = shown * SHOWN_AT_ONCE;
	return { page: shown, items: rows.slice(first, first + SHOWN_AT_ONCE), hasNext: shown < last };
}

/** Renders nothing if there is only one page. */
export function Pager({
	page,
	hasNext,
	onPage,
}: {
	readonly page: number;
	readonly hasNext: boolean;
	readonly onPage: (page: number) => void;
}) {
	if (page === 0 && !hasNext) return null;
	return (
		<nav className="row between" aria-label="Pages">
			<Button variant="default" size="xs" disabled={page === 0} onClick={() => onPage(page - 1)}>
				Previous
			</Button>
			<span className="muted num">Page {page + 1}</span>
			<Button variant="default" size="xs" disabled={!hasNext} onClick={() => onPage(page + 1)}>
				Next
			</Button>
		</nav>
	);
}
