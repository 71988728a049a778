/** Events of devices as sentences in rows. */

import { MINUTE_MS } from "../../../../src/domain/time";
import { eventNote, eventSentence, isRefusal } from "../../../../src/domain/words/events";
import { plainSentence } from "../../../../src/domain/words/releases";
import type { AnswerOf } from "../../api";
import { shortened } from "../../components/copy-chip";
import { TextLink } from "../../components/link";
import { type Entry, Rows } from "../../components/rows";
import { Sentence } from "../../components/sentence";
import { Spot } from "../../components/timeline";
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

/** A first start with a slow download. */
const FIRST_START_MS = 10 * MINUTE_MS;

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

/** A device does these at its first start, which is one row. A failure is never folded. */
const FIRST_START: readonly Kind[] = ["first_seen", "check", "download", "install"];

/**
 * Events of a device as rows: equal ones of an hour fold, and so does everything of a first start.
 * @param showsDevice in a list of several devices
 */
export function EventRows({
	label,
	appId,
	events,
	showsDevice = false,
}: {
	readonly label: string;
	readonly appId: string;
	readonly events: readonly DeviceEvent[];
	readonly showsDevice?: boolean;
}) {
	const firstStarts = new Map(
		events.flatMap(({ kind, device_id, at }) => (kind === "first_seen" ? [[device_id, Date.parse(at)]] : [])),
	);
	const isFirstStart = ({ kind, detail, device_id, at }: DeviceEvent) => {
		const startMs = firstStarts.get(device_id);
		return (
			startMs !== undefined &&
			FIRST_START.includes(kind) &&
			!isRefusal({ kind, detail }) &&
			Date.parse(at) - startMs <= FIRST_START_MS
		);
	};
	const entryOf = (event: DeviceEvent): Entry => {
		const [icon, tone] = isRefusal(event) ? ([IconAlertTriangle, "warn"] as const) : PICTURES[event.kind];
		const note = eventNote(event);
		return {
			name: plainSentence(eventSentence(event)),
			picture: tone === undefined ? <Spot icon={icon} /> : <Spot icon={icon} tone={tone} />,
			sentence: (
				<>
					<Sentence parts={eventSentence(event)} appId={appId} />
					{note === null ? null : <span className="muted"> · {note}</span>}
				</>
			),
			facts: showsDevice ? <DeviceLink appId={appId} id={event.device_id} /> : null,
			details: note === null ? null : <div className="mono">{note}</div>,
		};
	};
	const keyOf = (event: DeviceEvent) => {
		if (isFirstStart(event)) return `first start of ${event.device_id}`;
		if (PICTURES[event.kind][1] === "bad") return undefined;
		return JSON.stringify([event.device_id, event.kind, event.version, event.detail]);
	};
	const summaryOf = (folded: readonly DeviceEvent[]) => {
		const [newest] = folded;
		if (newest === undefined || !isFirstStart(newest)) return undefined;
		const entry = entryOf(newest);
		const parts = eventSentence(newest).map((part, index) =>
			index === 0 && typeof part === "string" ? part.slice(0, 1).toLowerCase() + part.slice(1) : part,
		);
		return {
			...entry,
			name: `First start, ${plainSentence(parts)}`,
			picture: <Spot icon={IconDeviceMobile} tone={newest.kind === "install" ? "ok" : "info"} />,
			sentence: (
				<>
					First start, <Sentence parts={parts} appId={appId} />
				</>
			),
			count: `${folded.length} events`,
		};
	};
	return (
		<Rows
			label={label}
			items={events}
			idOf={({ id }) => id}
			atOf={({ at }) => at}
			entryOf={entryOf}
			foldKeyOf={keyOf}
			summaryOf={summaryOf}
		/>
	);
}

function DeviceLink({ appId, id }: { readonly appId: string; readonly id: string }) {
	return (
		<TextLink to={devicePath(appId, id)}>
			<span className="mono" title={id}>
				{shortened(id)}
			</span>
		</TextLink>
	);
}
