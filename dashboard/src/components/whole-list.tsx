/**
 * A list that is loaded as a whole: its number, a filter that matches parts while it is typed,
 * sorting by its headers, and pages. Filter, order and page are in the address.
 */
import { TextInput } from "@mantine/core";
import type { ReactNode } from "react";
import { useSearchParams } from "wouter";
import { Chips } from "./filter-bar";
import { Empty } from "./screen";
import { countOf, countText } from "./size";
import { type Column, DataTable, Pager, type Pick, pageOf, sortedBy, usePageNumber, useSorting } from "./table";

interface ListColumn<Row> extends Column<Row> {
	/** By which a column with `sort` is sorted. */
	readonly value?: (row: Row) => string | number | null;
}

interface Kind<Row> {
	/** In the address. */
	readonly value: string;
	readonly label: string;
	readonly has: (row: Row) => boolean;
}

/** `useAllPages` loads at most this many. */
const MOST_ROWS = 1_000;
/** Shorter lists are seen at a glance. */
const FILTERED_FROM = 6;

export function WholeList<Row>({
	label,
	noun,
	rows,
	rowKey,
	columns,
	textOf,
	first,
	descending = [],
	isLinked = false,
	chips = [],
	factsOf,
	pick,
}: {
	/** Name of the listed rows, for screen readers. */
	readonly label: string;
	/** One row and several, e.g. `key` and `keys`. */
	readonly noun: readonly [one: string, many: string];
	readonly rows: readonly Row[];
	readonly rowKey: (row: Row) => string | number;
	readonly columns: readonly ListColumn<Row>[];
	/** The text of a row that a search finds. */
	readonly textOf: (row: Row) => string;
	/** The order without one in the address. */
	readonly first: string;
	/** Orders that begin with the highest. */
	readonly descending?: readonly string[];
	readonly isLinked?: boolean;
	/** Kinds of rows; one may be chosen. */
	readonly chips?: readonly Kind<Row>[];
	/** On phones, below the first cell. */
	readonly factsOf?: (row: Row) => ReactNode;
	readonly pick?: Pick<Row> | undefined;
}) {
	const [address, setAddress] = useSearchParams();
	const [requested, setPage] = usePageNumber();
	const [sorting, sort] = useSorting(first, descending);
	const wanted = address.get("q") ?? "";
	const words = wanted.toLowerCase().split(/\s+/).filter(Boolean);
	const kind = chips.find(({ value }) => value === address.get("kind"));
	const matching = rows.filter((row) => {
		const text = textOf(row).toLowerCase();
		return words.every((word) => text.includes(word));
	});
	const found = matching.filter((row) => kind?.has(row) !== false);
	// Numbers of a list that was cut would be those of its part.
	const isCut = rows.length >= MOST_ROWS;
	const countBy = (has: (row: Row) => boolean) => (isCut ? {} : { count: matching.filter(has).length });
	const fieldOf = columns.find((column) => column.sort === sorting.by)?.value;
	const sorted = fieldOf === undefined ? found : sortedBy(found, fieldOf, sorting.isDescending);
	const { page, items, hasNext } = pageOf(sorted, requested);
	const [one, many] = noun;
	const total = `${countOf(rows.length, one, many)}${isCut ? " or more" : ""}`;
	const filter = (name: "q" | "kind", text: string) =>
		setAddress(
			(before) => {
				const after = new URLSearchParams(before);
				after.delete("page");
				if (text === "") after.delete(name);
				else after.set(name, text);
				return after;
			},
			{ replace: name === "q" },
		);
	return (
		<div className="sec">
			<div className="row wrap">
				<span className="muted num grow" role="status">
					{words.length === 0 && kind === undefined ? total : `${countText(found.length)} of ${total}`}
				</span>
				{rows.length < FILTERED_FROM && wanted === "" ? null : (
					<div className="list-filter">
						<TextInput
							type="search"
							size="xs"
							data-filter
							aria-label={`Filter ${many}`}
							placeholder={`Filter ${many}`}
							value={wanted}
							onChange={(event) => filter("q", event.currentTarget.value)}
						/>
					</div>
				)}
			</div>
			{chips.length === 0 ? null : (
				<div className="filter-bar">
					<Chips
						label={`Kinds of ${many}`}
						value={kind?.value ?? ""}
						choices={[
							{ value: "", label: "All", ...countBy(() => true) },
							...chips.map(({ value, label: name, has }) => ({ value, label: name, ...countBy(has) })),
						]}
						onChoose={(value) => filter("kind", value)}
					/>
				</div>
			)}
			{found.length === 0 ? (
				<Empty title={`No matching ${many}`}>Change or clear the filter.</Empty>
			) : (
				<DataTable
					label={label}
					isLinked={isLinked}
					rows={items}
					rowKey={rowKey}
					columns={columns}
					factsOf={factsOf}
					pick={pick && { ...pick, all: { total: found.length, load: async () => found } }}
					sorting={sorting}
					onSort={sort}
				/>
			)}
			<Pager page={page} hasNext={hasNext} onPage={setPage} />
		</div>
	);
}
