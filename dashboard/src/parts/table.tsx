/**
 * A list as a table, and the buttons of its pages. Columns that a phone has no room for are left out there; a table that is wider all the
 * same scrolls by itself, by keyboard too.
 */
import { Button, Group, Stack, Table, Text } from "@mantine/core";
import type { ReactNode } from "react";
import { useSearchParams } from "wouter";

export interface Column<Row> {
	readonly title: string;
	readonly cell: (row: Row) => ReactNode;
	/** Left out at phone width. */
	readonly wideOnly?: true;
	readonly alignEnd?: true;
}

export function DataTable<Row>({
	label,
	columns,
	rows,
	rowKey,
}: {
	/** What the table lists, for screen readers. */
	readonly label: string;
	readonly columns: readonly Column<Row>[];
	readonly rows: readonly Row[];
	readonly rowKey: (row: Row) => string | number;
}) {
	const cellProps = (column: Column<Row>) => ({
		...(column.wideOnly === true ? { className: "wide-only" } : {}),
		...(column.alignEnd === true ? { ta: "right" as const } : {}),
	});
	return (
		// biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls must be reachable by keyboard
		<section className="table-region" aria-label={label} tabIndex={0}>
			<Table verticalSpacing="sm" horizontalSpacing="md" highlightOnHover>
				<Table.Thead>
					<Table.Tr>
						{columns.map((column) => (
							<Table.Th key={column.title} scope="col" {...cellProps(column)}>
								{column.title}
							</Table.Th>
						))}
					</Table.Tr>
				</Table.Thead>
				<Table.Tbody>
					{rows.map((row) => (
						<Table.Tr key={rowKey(row)}>
							{columns.map((column) => (
								<Table.Td key={column.title} {...cellProps(column)}>
									{column.cell(row)}
								</Table.Td>
							))}
						</Table.Tr>
					))}
				</Table.Tbody>
			</Table>
		</section>
	);
}

const MOST_PAGES = 100_000;

/**
 * The page stands in the address, so that Back returns to it, and a link shows the same. It counts from 0 here and from 1 for people.
 * Lists that share a screen have names of their own.
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

/** One page of a list that the API answers whole. The last one, where there are fewer by now. */
export function pageOf<Row>(rows: readonly Row[], page: number) {
	const last = Math.max(0, Math.ceil(rows.length / SHOWN_AT_ONCE) - 1);
	const shown = Math.min(page, last);
	const first = shown * SHOWN_AT_ONCE;
	return { page: shown, items: rows.slice(first, first + SHOWN_AT_ONCE), hasNext: shown < last };
}

/** Nothing where everything fits on one page. */
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
		<Stack component="nav" aria-label="Pages">
			<Group justify="space-between">
				<Button variant="default" size="xs" disabled={page === 0} onClick={() => onPage(page - 1)}>
					Previous
				</Button>
				<Text size="sm" c="dimmed">
					Page {page + 1}
				</Text>
				<Button variant="default" size="xs" disabled={!hasNext} onClick={() => onPage(page + 1)}>
					Next
				</Button>
			</Group>
		</Stack>
	);
}
