/**
 * The events of a webhook: all of them, those of later releases as well, or a choice of at least
 * one. The API's empty list means all, so no screen sends one for a choice without a box.
 */
import { Checkbox, Radio, Stack, Text } from "@mantine/core";
import { EVENT_TYPES, EVENTS, type EventType, isOfApp } from "../../../../src/domain/webhooks/event-types";
import "../../components/settings-card.css";
import { countOf } from "../../components/size";

export interface ChosenEvents {
	readonly isAll: boolean;
	readonly chosen: readonly EventType[];
}

const isKnown = (event: string): event is EventType => EVENT_TYPES.some((type) => type === event);

/** Undefined: records of Capgo's API, which are chosen there. */
export function chosenOf(events: readonly string[]): ChosenEvents | undefined {
	return events.every(isKnown) ? { isAll: events.length === 0, chosen: events } : undefined;
}

export const isComplete = ({ isAll, chosen }: ChosenEvents): boolean => isAll || chosen.length > 0;

/** As the API has them. */
export const sentEvents = ({ isAll, chosen }: ChosenEvents): EventType[] => (isAll ? [] : [...chosen]);

/** E.g. `all events`, `Rollbacks and Paused rollouts`, `5 kinds of events`. */
export function eventsText(events: readonly string[]): string {
	if (events.length === 0) return "all events";
	if (events.length > 2) return countOf(events.length, "kind of event", "kinds of events");
	return events.map((event) => (isKnown(event) ? EVENTS[event].choice : `records of ${event}`)).join(" and ");
}

export function EventsField({
	ofApp,
	value,
	onChange,
}: {
	/** Only events that a webhook of one app gets. */
	readonly ofApp: boolean;
	readonly value: ChosenEvents;
	readonly onChange: (value: ChosenEvents) => void;
}) {
	return (
		<Stack gap="xs">
			<Radio.Group
				label="Events"
				value={value.isAll ? "all" : "some"}
				onChange={(choice) => onChange({ ...value, isAll: choice === "all" })}
			>
				<Stack gap="xs" mt="xs">
					<Radio value="all" label="All events" description="Also kinds that later releases of Capstan add." />
					<Radio value="some" label="Only these" />
				</Stack>
			</Radio.Group>
			{value.isAll ? null : (
				<Checkbox.Group
					aria-label="Kinds of events"
					value={[...value.chosen]}
					onChange={(chosen) => onChange({ isAll: false, chosen: chosen.filter(isKnown) })}
				>
					<Text size="xs" c="dimmed" pl={28}>
						At least one. {value.chosen.length} chosen.
					</Text>
					<div className="event-kinds">
						{EVENT_TYPES.filter((type) => !ofApp || isOfApp(type)).map((type) => (
							<Checkbox key={type} value={type} label={EVENTS[type].choice} />
						))}
					</div>
				</Checkbox.Group>
			)}
		</Stack>
	);
}
