/** A choice of events, for webhooks and mails. */
import { Checkbox, Stack } from "@mantine/core";
import { ORGANIZATION_EVENTS } from "../../../src/domain/webhooks/events";

const EVENTS = {
	"channel.promoted": "Promotions",
	"channel.rolled_back": "Rollbacks",
	"rollout.started": "Rollouts that begin",
	"rollout.advanced": "Rollout steps",
	"rollout.paused": "Paused rollouts",
	"rollout.rolled_back": "Rollouts that the health gate rolls back",
	"rollout.failing": "Rollouts that fail",
	"bundle.first_device": "First device on a bundle",
	"preview.opened": "Opened previews",
	"preview.closed": "Closed previews",
	"proposal.created": "Promotions that wait for approval",
	"proposal.approved": "Approved promotions",
	"proposal.rejected": "Rejected promotions",
	"key.created": "Created keys",
	"key.deleted": "Deleted keys",
	"member.added": "Added members",
	"member.removed": "Removed members",
	"webhook.disabled": "Disabled webhooks",
} as const;
export type EventType = keyof typeof EVENTS;

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
				{(Object.keys(EVENTS) as EventType[])
					.filter((type) => !(ofApp && ORGANIZATION_EVENTS.includes(type)))
					.map((type) => (
						<Checkbox key={type} value={type} label={EVENTS[type]} />
					))}
			</Stack>
		</Checkbox.Group>
	);
}
