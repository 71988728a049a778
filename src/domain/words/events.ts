/**
 * Sentences about what happened on a device: the one place for the dashboard and the command line.
 * The device is the unnamed subject, except that an override begins with the person or key that set
 * it. A sentence is a list of parts, so that a screen can link versions and channels.
 */
import type { EventKind } from "../statistics/device-story";
import { isUpToDate, refusalWords } from "../updates/refusals";
import { type SentencePart, STORE_BUILD } from "./releases";

interface EventFacts {
	readonly kind: EventKind;
	readonly version: string | null;
	readonly detail: string | null;
	/** The person or key that set an override. */
	readonly by: string | null;
	/** The channel of an override. */
	readonly channel: string | null;
}

/** Whether the event is a check that got nothing although there was something to get. */
export function isRefusal({ kind, detail }: Pick<EventFacts, "kind" | "detail">): boolean {
	return kind === "check" && detail !== "update" && detail !== "builtin" && !isUpToDate(detail);
}

const FAILURES: Readonly<Record<string, string>> = {
	download_fail: "Could not download ",
	set_fail: "Could not install ",
	update_fail: "Went back from ",
};

/** E.g. `Installed 1.4.0`. */
export function eventSentence({ kind, version, detail, by, channel }: EventFacts): SentencePart[] {
	const bundle: SentencePart =
		version === null ? "an unknown bundle" : version === "builtin" ? STORE_BUILD : { version };
	switch (kind) {
		case "first_seen":
			return ["Reported for the first time, running ", bundle];
		case "check":
			if (detail === "update") return ["Was offered ", bundle];
			if (detail === "builtin") return [`Was sent back to ${STORE_BUILD}`];
			if (isUpToDate(detail)) return version === null ? ["Is up to date"] : ["Is up to date with ", bundle];
			return [`Asked for an update and got none: ${refusalWords(detail ?? "unknown reason")}`];
		case "download":
			return ["Downloaded ", bundle];
		case "install":
			return ["Installed ", bundle];
		case "fail":
			return [FAILURES[detail ?? ""] ?? "Failed to update to ", bundle];
		case "crash":
			return ["The app crashed while it ran ", bundle];
		case "anr":
			return ["The app stopped responding while it ran ", bundle];
		case "js_error":
			return ["JavaScript error in ", bundle];
		case "launch_timeout":
			return ["The app took too long to launch with ", bundle];
		case "override": {
			const who = by ?? "A team member";
			if (version === null && channel === null) return [`${who} removed the override`];
			return [
				`${who} set `,
				...(channel === null ? [] : ["channel ", { channel }]),
				...(channel === null || version === null ? [] : [" and "]),
				...(version === null ? [] : ["bundle ", bundle]),
				" for this device",
			];
		}
	}
}

/** Message of a crash or an error; other details are in the sentence. */
export function eventNote({ kind, detail }: Pick<EventFacts, "kind" | "detail">): string | null {
	return ["crash", "anr", "js_error", "launch_timeout"].includes(kind) ? detail : null;
}
