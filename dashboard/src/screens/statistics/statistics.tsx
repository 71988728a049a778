/** Daily figures of an organization or of one app: the graphs that the API draws, and their numbers as CSV. */
import { Button, Group, NativeSelect, SegmentedControl, Stack, Text, TextInput } from "@mantine/core";
import { useState } from "react";
import { Graph, graphSource } from "../../components/graph";
import { Screen, Section } from "../../components/screen";
import { utcDay } from "../../components/time";
import type { AppScreenProps, OrganizationScreenProps } from "../../screen-props";

interface Figure {
	readonly label: string;
	/** Path below the figures' URL, e.g. `/installs`. */
	readonly path: "" | "/bundle_usage" | "/installs";
	readonly graph: string;
	/** Whether the figure can be shown as a running total. */
	readonly isCounted: boolean;
}

const COMMON_FIGURES: readonly Figure[] = [
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
	{ label: "1 year", days: 365 },
] as const;

const APP_FIGURES: readonly Figure[] = [
	{ label: "Adoption", path: "/bundle_usage", graph: "stacked", isCounted: false },
	{ label: "Devices by bundle", path: "/bundle_usage", graph: "line", isCounted: false },
	{ label: "Install success rate", path: "/installs", graph: "success_rate", isCounted: false },
	{ label: "Install time", path: "/installs", graph: "install_time", isCounted: false },
	...COMMON_FIGURES,
];

export function AppStatistics({ appId }: AppScreenProps) {
	return <Statistics address={`/statistics/app/${encodeURIComponent(appId)}`} figures={APP_FIGURES} />;
}

/** The graphs have one layer for each app. */
export function OrganizationStatistics({ orgId }: OrganizationScreenProps) {
	return <Statistics address={`/statistics/org/${orgId}`} figures={COMMON_FIGURES} extra={{ breakdown: "true" }} />;
}

function Statistics({
	address,
	figures,
	extra,
}: {
	/** URL of the figures, e.g. `/statistics/app/com.example.app`. */
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
					label="To"
					value={to}
					max={utcDay(0)}
					onChange={(event) => setTo(event.currentTarget.value)}
				/>
				<Group gap={4} role="group" aria-label="Time ranges">
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
					aria-label="Accumulation"
					value={isTotal ? "total" : "day"}
					onChange={(value) => setTotal(value === "total")}
					data={[
						{ value: "day", label: "Daily" },
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
							Download CSV
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
					<Text role="alert">Choose a start date that is not after the end date.</Text>
				</Stack>
			)}
		</Screen>
	);
}
