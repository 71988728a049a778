/**
 * The deliveries of a webhook in rows, newest first. While one is on its way the list follows it,
 * so that the result of a test appears by itself. An open row shows the attempts.
 */
import { useEffect, useState } from "react";
import { useSearchParams } from "wouter";
import { DELIVERY_DAYS } from "../../../../src/domain/defaults";
import { usePage } from "../../api";
import { Answer } from "../../components/answer";
import { Badge } from "../../components/badge";
import { Chips } from "../../components/filter-bar";
import { type Entry, Rows } from "../../components/rows";
import { Empty, Section } from "../../components/screen";
import { Pager, usePageNumber } from "../../components/table";
import { Spot } from "../../components/timeline";
import { IconCheck, IconClock, IconPlayerPause, IconX } from "../../icons";
import { type Delivery, DeliveryAttempts } from "./delivery-attempts";

type State = Delivery["state"];

const STATES = [
	{ value: "", label: "All" },
	{ value: "pending", label: "Waiting" },
	{ value: "failed", label: "Failed" },
	{ value: "delivered", label: "Delivered" },
	{ value: "stopped", label: "Stopped" },
] as const;
const PICTURES = {
	delivered: <Spot icon={IconCheck} tone="ok" />,
	pending: <Spot icon={IconClock} tone="warn" />,
	failed: <Spot icon={IconX} tone="bad" />,
	stopped: <Spot icon={IconPlayerPause} />,
} as const;

/** An attempt within this time is worth watching. */
const SOON_MS = 60_000;
const WATCHED_EVERY_MS = 1_500;
const EVERY_MS = 20_000;

const isOnItsWay = ({ state, next_attempt_at }: Delivery) =>
	state === "pending" && next_attempt_at !== null && Date.parse(next_attempt_at) - Date.now() < SOON_MS;

export function Deliveries({
	orgId,
	id,
	isEnabled,
}: {
	readonly orgId: string;
	readonly id: string;
	readonly isEnabled: boolean;
}) {
	const [page, setPage] = usePageNumber();
	const [address, setAddress] = useSearchParams();
	const state = STATES.find(({ value }) => value !== "" && value === address.get("state"))?.value;
	const [everyMs, setEveryMs] = useState(EVERY_MS);
	const query = { orgId, id, ...(state === undefined || state === "" ? {} : { state: state satisfies State }) };
	const deliveries = usePage("GET /webhook/delivery", { query }, page, { everyMs });
	const isWatched = deliveries.data?.items.some(isOnItsWay) === true;
	useEffect(() => setEveryMs(isWatched ? WATCHED_EVERY_MS : EVERY_MS), [isWatched]);
	const choose = (value: string) =>
		setAddress((before) => {
			const after = new URLSearchParams(before);
			after.delete("page");
			if (value === "") after.delete("state");
			else after.set("state", value);
			return after;
		});
	return (
		<Section title="Deliveries">
			<div className="filter-bar">
				<Chips label="Deliveries by state" choices={STATES} value={state ?? ""} onChoose={choose} />
			</div>
			<Answer query={deliveries} what="the deliveries">
				{({ items, hasNext }) =>
					items.length === 0 && page === 0 ? (
						<Empty title={state === undefined ? "Nothing sent yet" : "No such deliveries"}>
							{state === undefined
								? "Deliveries appear here with their request and response as soon as an event happens."
								: `None of the last ${DELIVERY_DAYS} days is in this state.`}
						</Empty>
					) : (
						<>
							<Rows
								label="Deliveries"
								items={items}
								idOf={(delivery) => delivery.id}
								atOf={({ at }) => at}
								entryOf={(delivery) => entryOf(delivery, orgId, isEnabled)}
							/>
							<Pager page={page} hasNext={hasNext} onPage={setPage} />
							<span className="muted">Kept for {DELIVERY_DAYS} days.</span>
						</>
					)
				}
			</Answer>
		</Section>
	);
}

function entryOf(delivery: Delivery, orgId: string, isEnabled: boolean): Entry {
	const { id, state, summary, status_code, attempts } = delivery;
	return {
		name: summary,
		picture: PICTURES[state],
		sentence: <bdi>{summary}</bdi>,
		facts: (
			<>
				{state === "delivered" ? null : state === "failed" ? (
					<Badge tone="bad">Failed</Badge>
				) : state === "stopped" ? (
					<Badge>Stopped</Badge>
				) : (
					<Badge tone="warn">{attempts === 0 ? "Waiting" : `Waiting, attempt ${attempts + 1}`}</Badge>
				)}
				{status_code === null ? null : <span className="num">{status_code}</span>}
			</>
		),
		details: <DeliveryAttempts orgId={orgId} id={id} delivery={delivery} isEnabled={isEnabled} />,
	};
}
