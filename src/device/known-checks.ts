/**
 * Checks that differ from one before in the device's id alone, as those of most of a fleet do: they are told what that one was told,
 * and their text is not even parsed. That holds where the id decides nothing, for as long as the snapshot, the links and the day hold
 * that the answer came from; anything else is decided anew.
 */
import type { AppSnapshot } from "../db/snapshot-cache";
import { recentMap } from "../domain/recent";
import type { Decision } from "../domain/update-decision";
import { dayOf } from "../events/days";
import type { GatherEvents } from "../events/gather";
import type { DeviceSeen } from "../events/messages";
import { downloadLinksExpireAt } from "../storage/links";
import { type DeviceBody, seenOf } from "./device";

const UUID_LENGTH = 36;
export const UUID = /^[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}$/;
const NAME = '"device_id"';
const BEFORE_ID = `${NAME}:"`;
/** Texts that are cached; at most twice as many. Ordinary ones have 400 characters. */
const MOST_KINDS = 1_000;
const LONGEST_KIND = 1_024;

/** A check's text, taken apart. */
export interface CutCheck {
	readonly deviceId: string;
	/** All of it but the id. */
	readonly kind: string;
}

/** What every device is told that sends the same kind of check. */
export interface KnownAnswer {
	readonly answer: AnswerText;
	/** What each of them says of itself, but for its id and the time. */
	readonly seen: DeviceSeen;
	/** The same as a hash. */
	readonly said: number;
	readonly origin: string;
	readonly linksExpireAt: number;
	readonly day: number;
}

/** The body of an answer. The text is taken away when too many are held; then it is made again. */
export interface AnswerText {
	text: string | undefined;
}

interface Kind {
	readonly appId: string;
	readonly answers: WeakMap<AppSnapshot, KnownAnswer>;
}

/** Undefined where the id does not stand where devices put it. */
export function cutDeviceId(text: string): CutCheck | undefined {
	const at = text.indexOf(BEFORE_ID);
	if (at === -1) return undefined;
	const start = at + BEFORE_ID.length;
	const deviceId = text.slice(start, start + UUID_LENGTH);
	if (!UUID.test(deviceId) || text.charCodeAt(start + UUID_LENGTH) !== 0x22) return undefined;
	return { deviceId, kind: text.slice(0, start) + text.slice(start + UUID_LENGTH) };
}

/**
 * Whether another id in this one's place makes the same check of another device, of a text that is a check. Without escapes a quote
 * begins or ends a text, so what was found is a name, and where it stands once it is the one that the check has.
 */
function isCutClean(kind: string): boolean {
	return !kind.includes("\\") && kind.indexOf(NAME) === kind.lastIndexOf(NAME);
}

/** One for each isolate. */
export function createKnownChecks(hashOf: GatherEvents["hashOf"]) {
	const kinds = recentMap<Kind>(MOST_KINDS);
	return {
		/** Whose check it is, where one of its kind was answered before. */
		appOf: ({ kind }: CutCheck): string | undefined => kinds.get(kind)?.appId,

		/** What it is told; undefined where that must be decided. */
		answerTo(cut: CutCheck, snapshot: AppSnapshot, origin: string, nowMs: number): KnownAnswer | undefined {
			const answer = kinds.get(cut.kind)?.answers.get(snapshot);
			if (answer === undefined || snapshot.overrides?.has(cut.deviceId) !== false) return undefined;
			const holds =
				answer.answer.text !== undefined &&
				answer.origin === origin &&
				answer.linksExpireAt === downloadLinksExpireAt(nowMs) &&
				answer.day === dayOf(nowMs);
			return holds ? answer : undefined;
		},

		/** Remembers an answer, where every device that sends the same would get it. */
		remember(
			cut: CutCheck,
			body: DeviceBody,
			snapshot: AppSnapshot,
			origin: string,
			nowMs: number,
			{ decision, answer }: { readonly decision: Decision; readonly answer: AnswerText },
		): void {
			// A custom_id makes the request unique, so caching it would never hit.
			if ((body.custom_id ?? "") !== "" || cut.kind.length > LONGEST_KIND || !isCutClean(cut.kind)) return;
			const isOfAll = snapshot.overrides?.has(cut.deviceId) === false && (decision.resolved?.rollout ?? null) === null;
			if (!isOfAll) return;
			let kind = kinds.get(cut.kind);
			if (kind === undefined) {
				kind = { appId: body.app_id, answers: new WeakMap() };
				kinds.set(cut.kind, kind);
			}
			const seen = seenOf(body, nowMs, decision.resolved?.id ?? null);
			kind.answers.set(snapshot, {
				...{ answer, seen, said: hashOf(seen), origin },
				...{ linksExpireAt: downloadLinksExpireAt(nowMs), day: dayOf(nowMs) },
			});
		},
	};
}
