/** The figures of a chart as a table, the newest day first. */
import { formatQuantity } from "../../../src/charts/text";
import { type ChartData, type ShownSeries, tableOf } from "./chart-model";
import { longDay } from "./time-axis";

export function ChartTable({ data, shown }: { readonly data: ChartData; readonly shown: readonly ShownSeries[] }) {
	const { columns, rows } = tableOf(data, shown);
	return (
		// biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls needs the keyboard
		<section className="chart-table" tabIndex={0} aria-label={`${data.title} as a table`}>
			<table>
				<thead>
					<tr>
						{columns.map((column) => (
							<th key={column} scope="col">
								{column}
							</th>
						))}
					</tr>
				</thead>
				<tbody>
					{rows.map(([day, ...values]) => (
						<tr key={day}>
							<th scope="row">{longDay(day)}</th>
							{values.map((value, index) => (
								<td key={columns[index + 1]}>{value === null ? "—" : formatQuantity(data.unit, value)}</td>
							))}
						</tr>
					))}
				</tbody>
			</table>
		</section>
	);
}
