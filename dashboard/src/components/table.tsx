/**
 * Tables and their pages. Phones leave out columns that are `wideOnly`; a table that is still too wide scrolls on its own, by keyboard too.
 */
import { Button, Group, Stack, Table, Text } from "@mantine/core";
import type { ReactNode } from "react";
import { useSearchParams } from "wouter";

export interface Column<Row> {
	readonly title: string;
	readonly cell: (row: Row) => ReactNode;
	/** Hidden at phone width. */
	readonly wideOnly?: true;
	readonly alignEnd?: true;
}

export function DataTable<Row>({
	label,
	columns,
	rows,
	rowKey,
}: {
	/** Name of the listed rows, for screen readers. */
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
 * The page number in the URL, so that Back and links keep it: from 0 here, from 1 in the URL. Lists that share a screen need different names.
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

/** One page of a list that the API answers as a whole; the last page if `page` is beyond the end. */
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
