/** One event of a device as a sentence in a timeline. */
import { eventNote, eventSentence, isRefusal } from "../../../../src/domain/words/events";
import type { AnswerOf } from "../../api";
import { TextLink } from "../../components/link";
import { Sentence } from "../../components/sentence";
import { Time } from "../../components/time";
import { Spot, TimelineItem } from "../../components/timeline";
import {
	IconAlertTriangle,
	IconBug,
	IconCheck,
	IconClock,
	IconDeviceMobile,
	IconDownload,
	type IconDrawing,
	IconPencil,
	IconRefresh,
	IconX,
} from "../../icons";
import { devicePath } from "../../paths";

export type DeviceEvent = AnswerOf<"GET /device/events">["events"][number];
type Kind = DeviceEvent["kind"];

/** Kinds in the words of the screen, for the filter. */
export const KIND_LABELS: Readonly<Record<Kind, string>> = {
	first_seen: "First report",
	check: "Update check",
	download: "Download",
	install: "Install",
	fail: "Failure",
	crash: "Crash",
	anr: "Stopped responding",
	js_error: "JavaScript error",
	launch_timeout: "Launch timed out",
	override: "Override",
};

const PICTURES: Readonly<Record<Kind, readonly [IconDrawing, ("ok" | "warn" | "bad" | "info")?]>> = {
	first_seen: [IconDeviceMobile],
	check: [IconRefresh],
	download: [IconDownload, "info"],
	install: [IconCheck, "ok"],
	fail: [IconX, "bad"],
	crash: [IconBug, "bad"],
	anr: [IconClock, "bad"],
	js_error: [IconAlertTriangle, "warn"],
	launch_timeout: [IconClock, "warn"],
	override: [IconPencil, "info"],
};

export function EventItem({
	appId,
	event,
	showsDevice = false,
}: {
	readonly appId: string;
	readonly event: DeviceEvent;
	readonly showsDevice?: boolean;
}) {
	const [icon, tone] = isRefusal(event) ? ([IconAlertTriangle, "warn"] as const) : PICTURES[event.kind];
	return (
		<TimelineItem
			picture={tone === undefined ? <Spot icon={icon} /> : <Spot icon={icon} tone={tone} />}
			note={eventNote(event)}
			meta={
				<>
					<span>
						<Time value={event.at} />
					</span>
					{showsDevice ? <TextLink to={devicePath(appId, event.device_id)}>{event.device_id}</TextLink> : null}
				</>
			}
		>
			<Sentence parts={eventSentence(event)} appId={appId} />
		</TimelineItem>
	);
}
