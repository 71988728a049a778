/**
 * The answer to an update check: the decision of domain/updates/decision.ts as stock clients read
 * it, and the events that it reports. The fast path and the endpoint share this code. It loads no
 * schema, so that a device that checks first in an isolate does not wait for them.
 */

import type { Database } from "../../db/batch";
import type { SnapshotFile } from "../../db/snapshot-load";
import type { Deps } from "../../deps";
import type { Decision } from "../../domain/updates/decision";
import type { FailedFiles } from "../../domain/updates/failed-files";
import { BUILTIN, type Device } from "../../domain/updates/model";
import type { PackageForm } from "../../domain/updates/package";
import { type RefusalCode, type RefusalKind, type UndecidedCode, undecidedAnswer } from "../../domain/updates/refusals";
import type { Refusal } from "../../domain/updates/rules";
import { atLeastForMajor } from "../../domain/updates/version";
import type { CallerLimits } from "../../http/limits/callers";
import type { DeviceEvent } from "../../messages";
import type { EventBuffer } from "../../queue/event-buffer";
import type { AppSnapshot, SnapshotBundle } from "../../snapshots/app-snapshot";
import type { SnapshotCache } from "../../snapshots/cache";
import { REPORTED_AGE_MS, type Waiter } from "../../snapshots/freshness";
import { cachedDownloadLinks, type DownloadLinks, downloadLinks, downloadLinksExpireAt } from "../../storage/links";
import { checkEvents } from "../rollouts/reports";
import { deviceOf, recordedReport, resolve, resolveFromMemory, seenOf } from "./device";
import type { DeviceBody } from "./device-body";
import { BLOCKED, isBlocked } from "./review-networks";

/** A success; no field is null, because stock clients read the answer strictly. */
interface UpdateAnswer {
	readonly version: string;
	readonly url: string;
	readonly session_key: string;
	readonly sessionKey?: string;
	readonly checksum: string;
	readonly manifest?: { file_name: string; file_hash: string; download_url: string }[];
	readonly link?: string;
	readonly comment?: string;
}

interface RefusalAnswer {
	readonly error: RefusalCode | UndecidedCode;
	readonly message: string;
	readonly kind: RefusalKind;
}

/** Every answer of POST /updates; check.ts has the schema. */
type CheckAnswer = UpdateAnswer | { readonly version: typeof BUILTIN } | RefusalAnswer;

/** From these versions on the native plugin passes link and comment to the app. */
const READS_METADATA = { 5: "5.35.0", 6: "6.35.0", 7: "7.35.0", 8: "8.35.0" };

/** Events of a check. */
export function eventsOfCheck(
	body: DeviceBody,
	nowMs: number,
	decision: Decision,
	address: string | null,
): DeviceEvent[] {
	const seen = seenOf(body, nowMs, decision);
	return decision.rolloutConsidered
		? [seen, ...checkEvents(body.app_id, decision, deviceOf(body), address, nowMs)]
		: [seen];
}

interface CheckContext extends Omit<AnswerContext, "waiter"> {
	readonly request: Request;
	readonly eventBuffer: EventBuffer;
	readonly callerLimits: CallerLimits;
	readonly failedFiles: FailedFiles;
	readonly address: string | null;
	readonly waitUntil: (work: Promise<unknown>) => void;
}

/**
 * Answers a check with what is in memory or in the database, and buffers its events.
 * @throws {ApiError} `too_many_requests` or `service_unavailable`
 */
export async function answerCheck(
	context: CheckContext,
	body: DeviceBody,
): Promise<{ readonly answer: CheckAnswer; readonly headers: Readonly<Record<string, string>> }> {
	const { deps, db, request, snapshots, eventBuffer, callerLimits, failedFiles, address, nowMs, waitUntil } = context;
	const waiter = { waitUntil, deadlineMs: snapshots.deadline(body.app_id) };
	const { snapshot, ageMs } = await snapshots.read(db, body.app_id, waiter);
	const headers: Readonly<Record<string, string>> =
		ageMs > REPORTED_AGE_MS ? { "x-capstan-snapshot-age": String(Math.floor(ageMs / 1000)) } : {};
	if (snapshot === null) {
		return { answer: undecidedAnswer("app_not_found"), headers };
	}
	if (isBlocked(deps.config, snapshot, request)) return { answer: undecidedAnswer(BLOCKED), headers };
	const report = recordedReport(body, snapshot);
	const { app_id, device_id } = report;
	if (!eventBuffer.knows(app_id, device_id)) await callerLimits.admitNewDevices(address, app_id, 1, nowMs);
	const failedFilesOf = failedFiles.of(app_id, device_id);
	const { decision, answer } = await answerTo({ ...context, waiter }, snapshot, deviceOf(body, failedFilesOf));
	const events = eventsOfCheck(report, nowMs, decision, address);
	eventBuffer.add(callerLimits.markCrowded(events, address, nowMs), waitUntil);
	return { answer, headers };
}

interface AnswerContext {
	readonly deps: Deps;
	readonly db: Database;
	readonly snapshots: SnapshotCache;
	readonly origin: string;
	readonly nowMs: number;
	/** A check has a deadline; an explanation waits as long as D1 takes, and needs no manifest. */
	readonly waiter: Waiter;
}

/** The answer to the device and its decision, for the update check and its explanation. */
export async function answerTo(
	{ deps, db, snapshots, origin, nowMs, waiter }: AnswerContext,
	snapshot: AppSnapshot,
	device: Device,
): Promise<{ readonly decision: Decision; readonly answer: CheckAnswer }> {
	const decision = await resolve(snapshots, db, snapshot, device, waiter);
	if (decision.outcome === "builtin") return { decision, answer: { version: BUILTIN } };
	if (decision.outcome === "none") return { decision, answer: refusalOf(decision) };

	const bundle = snapshot.bundles.get(decision.bundle.id);
	if (bundle === undefined) throw new Error("the decided bundle is not in the snapshot");
	const manifest = async () => {
		if (waiter.deadlineMs === undefined || decision.form === "zip") return [];
		try {
			return await snapshots.manifest(db, snapshot, bundle.id, waiter);
		} catch (error) {
			// The device can do without the manifest if it may get the zip.
			if (decision.form === "delta" || !bundle.hasZip) throw error;
			return [];
		}
	};
	const files = await manifest();
	const links = linksFor(origin, await downloadLinks(deps, origin, snapshot.app.id, nowMs));
	return { decision, answer: successOf(bundle, files, shapeOf(snapshot, device, decision.form), links) };
}

/**
 * All that the answer takes from the device, its channel and the app. Answers in memory are found
 * by these values, so a further one belongs here.
 */
interface AnswerShape {
	readonly isElectron: boolean;
	readonly form: PackageForm;
	readonly hasMetadata: boolean;
}

const shapeOf = ({ app }: AppSnapshot, device: Device, form: PackageForm): AnswerShape => ({
	isElectron: device.platform === "electron",
	form,
	hasMetadata: app.exposesMetadata && atLeastForMajor(device.pluginVersion, READS_METADATA),
});

interface Links {
	readonly link: DownloadLinks;
	readonly nothing: string;
}

const linksFor = (origin: string, link: DownloadLinks): Links => ({
	link,
	nothing: `${origin.replace(/^http:/, "https:")}/files/no-zip`,
});

/**
 * The answer to a plain check without the database; undefined if it needs the database. The text
 * that offers a bundle is cached, because it is the same for all devices that get the same form and
 * links.
 */
export function answerFromMemory(
	{ deps, snapshots, origin, nowMs }: Omit<AnswerContext, "db" | "waiter">,
	snapshot: AppSnapshot,
	body: DeviceBody,
	failedFilesOf: string | undefined,
): { readonly decision: Decision; readonly answer: AnswerText } | undefined {
	const device = deviceOf(body, failedFilesOf);
	const decision = resolveFromMemory(snapshot, device);
	if (decision === undefined) return undefined;
	if (decision.outcome === "builtin") return { decision, answer: { text: BUILTIN_TEXT } };
	if (decision.outcome === "none") return { decision, answer: { text: JSON.stringify(refusalOf(decision)) } };
	const bundle = snapshot.bundles.get(decision.bundle.id);
	if (bundle === undefined) throw new Error("the decided bundle is not in the snapshot");
	const shape = shapeOf(snapshot, device, decision.form);
	const kind = [downloadLinksExpireAt(nowMs), origin, ...Object.values(shape)].join(" ");
	const texts = ANSWER_TEXTS.get(bundle) ?? new Map<string, AnswerText>();
	const known = texts.get(kind);
	if (known?.text !== undefined) return { decision, answer: known };
	const files = shape.form === "zip" ? [] : snapshots.cachedManifest(snapshot, bundle.id);
	const link = cachedDownloadLinks(deps, origin, snapshot.app.id, nowMs);
	if (files === undefined || link === undefined) return undefined;
	const text = JSON.stringify(successOf(bundle, files, shape, linksFor(origin, link)));
	const answer = holdText(text);
	// Made-up Host headers and expired links must not fill the memory.
	if (texts.size >= MOST_ANSWER_TEXTS) texts.clear();
	ANSWER_TEXTS.set(bundle, texts.set(kind, answer));
	return { decision, answer };
}

/**
 * Body of an answer. The text is removed when the texts of all answers take too much memory; then
 * it is built again.
 */
interface AnswerText {
	text: string | undefined;
}

const BUILTIN_TEXT = JSON.stringify({ version: BUILTIN });
/** By bundle; an entry lives as long as the bundle's snapshot. */
const ANSWER_TEXTS = new WeakMap<SnapshotBundle, Map<string, AnswerText>>();
const MOST_ANSWER_TEXTS = 16;
/**
 * Texts of all answers in this isolate, the oldest first. The text of a bundle with many files has
 * half a megabyte.
 */
const HELD_TEXTS = new Set<AnswerText>();
const MOST_HELD_CHARACTERS = 8 * 1024 * 1024;
let heldCharacters = 0;

function holdText(text: string): AnswerText {
	const answer = { text };
	HELD_TEXTS.add(answer);
	heldCharacters += text.length;
	for (const oldest of HELD_TEXTS) {
		if (heldCharacters <= MOST_HELD_CHARACTERS || oldest === answer) break;
		heldCharacters -= oldest.text?.length ?? 0;
		oldest.text = undefined;
		HELD_TEXTS.delete(oldest);
	}
	return answer;
}

function refusalOf({ error, message, kind, extra }: Refusal): RefusalAnswer {
	return { error, message, kind, ...extra };
}

function successOf(
	bundle: SnapshotBundle,
	files: readonly SnapshotFile[],
	{ isElectron, form, hasMetadata }: AnswerShape,
	links: Links,
): UpdateAnswer {
	const sessionKey = bundle.sessionKey ?? "";
	const stored = bundle.objectKey === null || form === "delta" ? links.nothing : links.link(bundle.objectKey);
	return {
		version: bundle.version,
		url: bundle.externalUrl ?? stored,
		session_key: sessionKey,
		// Electron's updater reads another spelling, and compares the hash of the bytes as they were
		// downloaded.
		...(isElectron ? { sessionKey } : {}),
		checksum: (isElectron ? bundle.sha256 : bundle.checksum) ?? bundle.sha256 ?? "",
		...(files.length > 0
			? {
					manifest: files.map((file) => ({
						file_name: file.file_name,
						file_hash: file.file_hash,
						download_url: links.link(file.object_key),
					})),
				}
			: {}),
		...(hasMetadata && bundle.link !== null ? { link: bundle.link } : {}),
		...(hasMetadata && bundle.comment !== null ? { comment: bundle.comment } : {}),
	};
}
