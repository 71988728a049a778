/** Figures by day, as the graphs and tables of the API: of an organization, or of one app, for any range of days that is kept. */
import { Button, Group, NativeSelect, SegmentedControl, Stack, Text, TextInput } from "@mantine/core";
import { useState } from "react";
import { Graph, graphSource } from "../parts/graph";
import { Screen, Section } from "../parts/screen";
import { utcDay } from "../parts/time";

export interface Figure {
	readonly label: string;
	/** Below the address of all figures, e.g. `/installs`. */
	readonly path: "" | "/bundle_usage" | "/installs";
	readonly graph: string;
	/** Whether it can be a running total. */
	readonly isCounted: boolean;
}

export const COMMON_FIGURES: readonly Figure[] = [
	{ label: "Active devices", path: "", graph: "mau", isCounted: true },
	{ label: "Downloads", path: "", graph: "get", isCounted: true },
	{ label: "Installs", path: "", graph: "install", isCounted: true },
	{ label: "Failures", path: "", graph: "fail", isCounted: true },
	{ label: "Bandwidth", path: "", graph: "bandwidth", isCounted: true },
	{ label: "Storage", path: "", graph: "storage", isCounted: false },
];

const RANGES = [
	{ label: "7 days", days: 7 },
	{ label: "30 days", days: 30 },
	{ label: "90 days", days: 90 },
	{ label: "A year", days: 365 },
] as const;

export function Statistics({
	address,
	figures,
	extra,
}: {
	/** Of the figures in the API, e.g. `/statistics/app/com.example.app`. */
	readonly address: string;
	readonly figures: readonly Figure[];
	readonly extra?: Readonly<Record<string, string>>;
}) {
	const [name, setName] = useState(figures[0]?.label ?? "");
	const [from, setFrom] = useState(() => utcDay(1 - 30));
	const [to, setTo] = useState(() => utcDay(0));
	const [isTotal, setTotal] = useState(false);
	const figure = figures.find(({ label }) => label === name);
	if (figure === undefined) return null;
	const range = { from, to };
	const counted = figure.isCounted ? { noAccumulate: isTotal ? "false" : "true" } : {};
	const path = `${address}${figure.path}`;
	const isRange = from !== "" && to !== "" && from <= to;
	return (
		<Screen title="Statistics" note="All days are in UTC.">
			<Group align="flex-end" gap="sm">
				<NativeSelect
					label="Figure"
					data={figures.map(({ label }) => label)}
					value={name}
					onChange={(event) => setName(event.currentTarget.value)}
				/>
				<TextInput
					type="date"
					label="From"
					value={from}
					max={to}
					onChange={(event) => setFrom(event.currentTarget.value)}
				/>
				<TextInput
					type="date"
					label="Until"
					value={to}
					max={utcDay(0)}
					onChange={(event) => setTo(event.currentTarget.value)}
				/>
				<Group gap={4} role="group" aria-label="Ranges">
					{RANGES.map(({ label, days }) => (
						<Button
							key={label}
							size="sm"
							variant={from === utcDay(1 - days) && to === utcDay(0) ? "filled" : "default"}
							aria-pressed={from === utcDay(1 - days) && to === utcDay(0)}
							onClick={() => {
								setFrom(utcDay(1 - days));
								setTo(utcDay(0));
							}}
						>
							{label}
						</Button>
					))}
				</Group>
			</Group>
			{figure.isCounted ? (
				<SegmentedControl
					w="fit-content"
					aria-label="How days are counted"
					value={isTotal ? "total" : "day"}
					onChange={(value) => setTotal(value === "total")}
					data={[
						{ value: "day", label: "Each day" },
						{ value: "total", label: "Running total" },
					]}
				/>
			) : null}
			{isRange ? (
				<Section
					title={figure.label}
					actions={
						<Button
							component="a"
							variant="default"
							size="xs"
							href={graphSource(path, { ...range, ...counted, format: "csv" })}
							download={`${figure.label.toLowerCase().replaceAll(" ", "-")}.csv`}
						>
							Save as CSV
						</Button>
					}
				>
					<Graph
						source={graphSource(path, { ...range, ...counted, ...extra, graph: figure.graph })}
						label={`${figure.label} by day, ${from} to ${to}; the CSV has the numbers`}
					/>
				</Section>
			) : (
				<Stack>
					<Text role="alert">Choose a first day that is not after the last one.</Text>
				</Stack>
			)}
		</Screen>
	);
}
