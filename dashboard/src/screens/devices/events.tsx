/**
 * Events of all devices of an app, newest first: filters in the address, a live tail that can be
 * paused, and a download of what is filtered.
 */
import { Button, Group, Switch } from "@mantine/core";
import { useState } from "react";
import { ask, useAsk } from "../../api";
import { Answer, Problem } from "../../components/answer";
import { FilterBar } from "../../components/filter-bar";
import { givenFilters, isFiltered, useFilters } from "../../components/filters";
import { PLATFORMS } from "../../components/platforms";
import { Empty, Screen } from "../../components/screen";
import type { AppScreenProps } from "../../screen-props";
import { useChannelFilter } from "./channel-filter";
import { type DeviceEvent, EventRows, KIND_LABELS } from "./event-rows";

const FILTERS = ["search", "kind", "version", "platform", "channel", "from", "to"] as const;
/** The query stops while the page is hidden. */
const LIVE_EVERY_MS = 5_000;
/** Kinds that are looked for often; the others are behind them, and in links. */
const KINDS = [
	{ value: "", label: "All" },
	{ value: "install", label: "Installed" },
	{ value: "fail,crash,anr,js_error,launch_timeout", label: "Problems" },
	{ value: "check", label: "Checks" },
	{ value: "first_seen", label: "New devices" },
	{ value: "download", label: "Downloads" },
	{ value: "override", label: "Overrides" },
];
const RARE = [
	{ name: "version", label: "Bundle" },
	{ name: "from", label: "Since (UTC)", type: "date" },
	{ name: "to", label: "Until (UTC)", type: "date" },
] as const;

/** The chips, with one for a rarer kind that a link chose. */
function withKind(kind: string) {
	if (KINDS.some(({ value }) => value === kind)) return KINDS;
	return [...KINDS, { value: kind, label: Object.entries(KIND_LABELS).find(([name]) => name === kind)?.[1] ?? kind }];
}

interface Older {
	/** The filters that the events were found with. */
	readonly query: string;
	readonly events: readonly DeviceEvent[];
	readonly next: string | null;
}

export default function Events({ appId }: AppScreenProps) {
	const [filters, setFilters] = useFilters(FILTERS);
	const { filter: channel } = useChannelFilter(appId);
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
			<FilterBar
				list={`events ${appId}`}
				filters={filters}
				onFilter={setFilters}
				search={{ name: "search", label: "Device id contains" }}
				chips={{ name: "kind", label: "Events", choices: withKind(filters.kind) }}
				menus={[{ name: "platform", label: "Platform", choices: PLATFORMS }, channel]}
				more={RARE}
			/>
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
								<EventRows label="Events" appId={appId} events={all} showsDevice />
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
