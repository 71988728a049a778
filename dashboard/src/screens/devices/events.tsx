/** Events of all devices of an app, newest first: filters in the address, a live tail that can be paused, and a download of what is filtered. */
import { Button, Group, NativeSelect, Switch, TextInput } from "@mantine/core";
import { useState } from "react";
import { ask, useAsk } from "../../api";
import { Answer, Problem } from "../../components/answer";
import { FilterForm } from "../../components/filter-form";
import { givenFilters, isFiltered, useFilters } from "../../components/filters";
import { optionsOf } from "../../components/options";
import { Empty, Screen } from "../../components/screen";
import { Timeline } from "../../components/timeline";
import type { AppScreenProps } from "../../screen-props";
import { type DeviceEvent, EventItem, KIND_LABELS } from "./event-item";
import { PLATFORMS } from "./platforms";

const LABELS = {
	kind: "Events",
	version: "Bundle",
	platform: "Platform",
	channel: "Channel",
	search: "Device id contains",
	from: "Since (UTC)",
	to: "Until (UTC)",
} as const;
const FILTERS = Object.keys(LABELS) as (keyof typeof LABELS)[];
/** The query stops while the page is hidden. */
const LIVE_EVERY_MS = 5_000;
const KINDS = [
	{ value: "", label: "All events" },
	{ value: "fail,crash,anr,js_error,launch_timeout", label: "Problems" },
	...optionsOf(KIND_LABELS),
];

/** A filter in the words of its choice. */
function textOf(name: keyof typeof LABELS, value: string): string {
	const choices = name === "kind" ? KINDS : name === "platform" ? PLATFORMS : [];
	return choices.find((choice) => choice.value === value)?.label ?? value;
}

interface Older {
	/** The filters that the events were found with. */
	readonly query: string;
	readonly events: readonly DeviceEvent[];
	readonly next: string | null;
}

export default function Events({ appId }: AppScreenProps) {
	const [filters, setFilters] = useFilters(FILTERS);
	const [isLive, setLive] = useState(true);
	const [older, setOlder] = useState<Older | undefined>();
	const [failure, setFailure] = useState<Error | undefined>();
	const [isLoading, setLoading] = useState(false);
	const query = { app_id: appId, ...givenFilters(filters) };
	const text = JSON.stringify(query);
	const newest = useAsk("GET /device/events", { query }, { everyMs: isLive ? LIVE_EVERY_MS : false });
	const known = older?.query === text ? older : undefined;
	const load = async (before: string) => {
		setFailure(undefined);
		setLoading(true);
		try {
			const page = await ask("GET /device/events", { query: { ...query, before } });
			setOlder({ query: text, events: [...(known?.events ?? []), ...page.events], next: page.next });
		} catch (error) {
			setFailure(error instanceof Error ? error : new Error(String(error)));
		}
		setLoading(false);
	};
	const exportPath = (format: string) => `/device/events?${new URLSearchParams({ ...query, format })}`;
	return (
		<Screen
			title="Events"
			note="Update checks with a new result, downloads, installs, failures, crashes and overrides. A download has the newest 5,000 that match."
			actions={
				<>
					<Switch label="Live" checked={isLive} onChange={(event) => setLive(event.currentTarget.checked)} />
					<Button component="a" variant="default" href={exportPath("csv")} download>
						Export CSV
					</Button>
					<Button component="a" variant="default" href={exportPath("ndjson")} download>
						Export JSON lines
					</Button>
				</>
			}
		>
			<FilterForm list={`events ${appId}`} filters={filters} labels={LABELS} textOf={textOf} onFilter={setFilters}>
				{(field) => (
					<>
						<NativeSelect data={KINDS} {...field("kind")} />
						<TextInput {...field("version")} />
						<NativeSelect data={PLATFORMS} {...field("platform")} />
						<TextInput {...field("channel")} />
						<TextInput {...field("search")} />
						<TextInput type="date" {...field("from")} />
						<TextInput type="date" {...field("to")} />
					</>
				)}
			</FilterForm>
			<Answer query={newest} what="events">
				{({ events, next }) => {
					const seen = new Set(events.map(({ id }) => id));
					const all = [...events, ...(known?.events ?? []).filter(({ id }) => !seen.has(id))];
					const before = known === undefined ? next : known.next;
					return (
						<>
							{all.length === 0 ? (
								<Empty title={isFiltered(filters) ? "No matching events" : "No events yet"}>
									{isFiltered(filters)
										? "Change or clear the filters, or look at older events."
										: "Events appear here as soon as devices check for updates."}
								</Empty>
							) : (
								<Timeline label="Events">
									{all.map((event) => (
										<EventItem key={event.id} appId={appId} event={event} showsDevice />
									))}
								</Timeline>
							)}
							{failure === undefined ? null : <Problem error={failure} />}
							{before === null ? null : (
								<Group>
									<Button variant="default" loading={isLoading} onClick={() => void load(before)}>
										Show older events
									</Button>
								</Group>
							)}
						</>
					);
				}}
			</Answer>
		</Screen>
	);
}
