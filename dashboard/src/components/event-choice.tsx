/** A choice of events, for webhooks and mails. */
import { Checkbox, Stack } from "@mantine/core";
import { EVENT_TYPES, EVENTS, type EventType, isOfApp } from "../../../src/domain/webhooks/event-types";

export function EventChoice({
	label,
	description,
	ofApp = false,
	value,
	onChange,
}: {
	readonly label: string;
	readonly description?: string;
	/** Only events that a webhook of one app gets. */
	readonly ofApp?: boolean;
	readonly value: readonly EventType[];
	readonly onChange: (value: readonly EventType[]) => void;
}) {
	return (
		<Checkbox.Group
			label={label}
			{...(description === undefined ? {} : { description })}
			value={[...value]}
			onChange={(chosen) => onChange(chosen as EventType[])}
		>
			<Stack gap="xs" mt="xs">
				{EVENT_TYPES.filter((type) => !ofApp || isOfApp(type)).map((type) => (
					<Checkbox key={type} value={type} label={EVENTS[type].choice} />
				))}
			</Stack>
		</Checkbox.Group>
	);
}
