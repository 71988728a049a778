/**
 * A list as a table, and the buttons of its pages. Columns that a phone has no room for are left out there; a table that is wider all the
 * same scrolls by itself, by keyboard too.
 */
import { Button, Group, Stack, Table, Text } from "@mantine/core";
import { type ReactNode, useState } from "react";

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

export function usePageNumber(): [number, (page: number) => void] {
	return useState(0);
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
