/**
 * POST /updates: a device asks what to run. The answer is what stock clients read strictly: a success carries neither `error` nor
 * `kind`, "no update" always carries both with HTTP 200, nothing is null, and the way back to the store build is a version alone.
 */
import * as v from "valibot";
import { endpoint, Reply } from "../api/endpoint";
import { acknowledgement, OK } from "../api/schemas";
import type { Database } from "../db/client";
import type { SnapshotBundle, SnapshotFile } from "../db/snapshot";
import type { AppSnapshot, SnapshotCache } from "../db/snapshot-cache";
import type { Deps } from "../deps";
import { BUILTIN, type Decision, type Device, type Refusal } from "../domain/update-decision";
import { atLeastForMajor } from "../domain/version";
import type { DeviceEvent } from "../events/messages";
import { downloadLinksExpireAt, signedDownloadUrl } from "../storage/links";
import {
	CHECK_LIMIT_BYTES,
	type DeviceBody,
	deviceFields,
	deviceOf,
	EXAMPLE_DEVICE,
	recordedReport,
	resolve,
	resolveFromMemory,
	seenOf,
} from "./device";
import type { AnswerText } from "./known-checks";
import { BLOCKED, isBlocked } from "./review-networks";
import { checkEvidence } from "./rollout-evidence";

const updateAnswer = v.strictObject({
	version: v.string(),
	url: v.string(),
	session_key: v.string(),
	sessionKey: v.optional(v.string()),
	checksum: v.string(),
	manifest: v.optional(
		v.array(v.strictObject({ file_name: v.string(), file_hash: v.string(), download_url: v.string() })),
	),
	link: v.optional(v.string()),
	comment: v.optional(v.string()),
});
const builtinAnswer = v.strictObject({ version: v.literal(BUILTIN) });
const refusalAnswer = v.strictObject({
	error: v.string(),
	message: v.string(),
	kind: v.picklist(["up_to_date", "blocked", "failed"]),
	version: v.optional(v.string()),
	old: v.optional(v.string()),
	major: v.optional(v.boolean()),
	deviceKeyId: v.optional(v.string()),
	bundleKeyId: v.optional(v.string()),
});

/** All that POST /updates answers with. */
export const updatesAnswer = v.union([updateAnswer, builtinAnswer, refusalAnswer]);

/** From these versions on the native plugin hands link and comment to the app. */
const READS_METADATA = { 5: "5.35.0", 6: "6.35.0", 7: "7.35.0", 8: "8.35.0" };

export const updatesHealth = endpoint({
	method: "GET",
	path: "/updates",
	tag: "Devices",
	summary: "Whether update checks are answered",
	access: { public: "It tells nothing but that the Worker answers." },
	response: acknowledgement,
	errors: [],
	example: { response: OK },
	async handle() {
		return OK;
	},
});

export const checkUpdate = endpoint({
	method: "POST",
	path: "/updates",
	tag: "Devices",
	summary: "Ask, as a device, which bundle to run",
	description:
		'HTTP 200 with a bundle, with `{"version":"builtin"}` (go back to the store build), or with `error`, `message` and `kind` when there is nothing to do: `up_to_date`, `blocked` by a rule of the channel, or `failed`.',
	access: { public: "Devices have no key. They learn of their own app's bundle what its channel gives to them." },
	body: v.object(deviceFields),
	response: updatesAnswer,
	errors: [],
	example: {
		body: EXAMPLE_DEVICE,
		response: {
			version: "1.4.0-pr.128",
			url: "https://updates.example.com/files/download/…?expires=…&signature=…",
			session_key: "",
			checksum: "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
		},
	},
	bodyLimitBytes: CHECK_LIMIT_BYTES,
	async handle({ deps, db, input, request, snapshots, gather, strangers, origin, nowMs, actor, waitUntil }) {
		const { snapshot, ageMs } = await snapshots.read(db, input.body.app_id, waitUntil, input.body.version_name);
		const headers = ageMs > TELLING_AGE_MS ? { "x-capstan-snapshot-age": String(Math.floor(ageMs / 1000)) } : {};
		if (snapshot === null) {
			const message = "There is no such app on this server.";
			return new Reply(200, { error: "app_not_found", message, kind: "failed" as const }, headers);
		}
		if (isBlocked(deps.config, snapshot, request)) {
			return new Reply(200, { ...BLOCKED, kind: "blocked" as const }, headers);
		}
		const report = recordedReport(input.body, snapshot);
		const { app_id, device_id } = report;
		if (!gather.knows(app_id, device_id)) await strangers.admitNewDevices(actor.ipAddress, app_id, 1, nowMs);
		const { decision, answer } = await answerTo({ deps, db, snapshots, origin, nowMs }, snapshot, deviceOf(input.body));
		const events = eventsOfCheck(report, nowMs, decision, () => actor.ipAddress);
		gather(strangers.markCrowded(events, actor.ipAddress, nowMs), waitUntil);
		return new Reply(200, answer, headers);
	},
});

/** What a check tells of its device, whichever way it was answered. The address is asked for where a rollout is judged by it only. */
export function eventsOfCheck(
	body: DeviceBody,
	nowMs: number,
	decision: Decision,
	addressOf: () => string | null,
): DeviceEvent[] {
	const seen = seenOf(body, nowMs, decision.resolved?.id ?? null);
	const isRollout = decision.resolved?.rollout?.enabled === true;
	return isRollout ? [seen, ...checkEvidence(body.app_id, decision, deviceOf(body), addressOf(), nowMs)] : [seen];
}

interface AnswerContext {
	readonly deps: Deps;
	readonly db: Database;
	readonly snapshots: SnapshotCache;
	readonly origin: string;
	readonly nowMs: number;
}

/** What the device is told, and the decision behind it. The live check and its explanation both come here. */
export async function answerTo(
	{ deps, db, snapshots, origin, nowMs }: AnswerContext,
	snapshot: AppSnapshot,
	device: Device,
	withManifest = true,
): Promise<{ readonly decision: Decision; readonly answer: v.InferOutput<typeof updatesAnswer> }> {
	const { decision } = await resolve(snapshots, db, snapshot, device);
	if (decision.outcome === "builtin") return { decision, answer: { version: BUILTIN } };
	if (decision.outcome === "none") return { decision, answer: refusalOf(decision) };

	const bundle = snapshot.bundles.get(decision.bundle.id);
	if (bundle === undefined) throw new Error("the decided bundle is not in the snapshot");
	const withFiles = withManifest && decision.form !== "zip";
	const files = withFiles ? await snapshots.manifest(db, snapshot, bundle.id) : [];
	const content = { files, withZip: decision.form !== "delta" };
	const answer = successOf(bundle, content, device, metadataFor(snapshot, device), linksFor(deps, origin, nowMs));
	return { decision, answer };
}

function metadataFor(snapshot: AppSnapshot, device: Device): boolean {
	return snapshot.app.expose_metadata === 1 && atLeastForMajor(device.pluginVersion, READS_METADATA);
}

interface Links {
	readonly link: (objectKey: string) => string;
	readonly nothing: string;
}

function linksFor(deps: Deps, origin: string, nowMs: number): Links {
	return {
		link: (objectKey) => signedDownloadUrl(deps, origin, objectKey, nowMs),
		nothing: `${origin.replace(/^http:/, "https:")}/files/no-zip`,
	};
}

/**
 * The body of the answer to a plain check, without the database; undefined where it would have to be asked. What one bundle is answered
 * with is the same for every device that reads the same of it, for as long as its links are.
 */
export function answerFromMemory(
	{ deps, snapshots, origin, nowMs }: Omit<AnswerContext, "db">,
	snapshot: AppSnapshot,
	body: DeviceBody,
): { readonly decision: Decision; readonly answer: AnswerText } | undefined {
	const device = deviceOf(body);
	const decision = resolveFromMemory(snapshot, device);
	if (decision === undefined) return undefined;
	if (decision.outcome === "builtin") return { decision, answer: { text: BUILTIN_TEXT } };
	if (decision.outcome === "none") return { decision, answer: { text: JSON.stringify(refusalOf(decision)) } };
	const bundle = snapshot.bundles.get(decision.bundle.id);
	if (bundle === undefined) throw new Error("the decided bundle is not in the snapshot");
	const { form } = decision;
	const metadata = metadataFor(snapshot, device);
	const period = downloadLinksExpireAt(nowMs);
	const kind = `${period} ${origin} ${device.platform === "electron"} ${form} ${metadata}`;
	const texts = ANSWER_TEXTS.get(bundle) ?? new Map<string, AnswerText>();
	const known = texts.get(kind);
	if (known?.text !== undefined) return { decision, answer: known };
	const files = form === "zip" ? [] : snapshots.knownManifest(snapshot, bundle.id);
	if (files === undefined) return undefined;
	const content = { files, withZip: form !== "delta" };
	const text = JSON.stringify(successOf(bundle, content, device, metadata, linksFor(deps, origin, nowMs)));
	const answer = holdText(text);
	// Odd Host headers and past hours must not fill the memory.
	if (texts.size >= MOST_ANSWER_TEXTS) texts.clear();
	ANSWER_TEXTS.set(bundle, texts.set(kind, answer));
	return { decision, answer };
}

const BUILTIN_TEXT = JSON.stringify({ version: BUILTIN });
/** Lives as long as the snapshot that the bundle is of. */
const ANSWER_TEXTS = new WeakMap<SnapshotBundle, Map<string, AnswerText>>();
const MOST_ANSWER_TEXTS = 16;
/** Texts of all answers in this isolate, the oldest first. One with many files has half a megabyte. */
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

/** The database did not answer for longer than an answer from memory may be old. */
const TELLING_AGE_MS = 5_000;

function refusalOf({ error, message, kind, extra }: Refusal): v.InferOutput<typeof refusalAnswer> {
	return { error, message, kind, ...extra };
}

function successOf(
	bundle: SnapshotBundle,
	{ files, withZip }: { readonly files: readonly SnapshotFile[]; readonly withZip: boolean },
	device: Device,
	metadata: boolean,
	links: Links,
): v.InferOutput<typeof updateAnswer> {
	const electron = device.platform === "electron";
	const sessionKey = bundle.session_key ?? "";
	const stored = bundle.object_key === null || !withZip ? links.nothing : links.link(bundle.object_key);
	return {
		version: bundle.name,
		url: bundle.external_url ?? stored,
		session_key: sessionKey,
		// Electron's updater checks the bytes as they come and reads another spelling.
		...(electron ? { sessionKey } : {}),
		checksum: (electron ? bundle.sha256 : bundle.checksum) ?? bundle.sha256 ?? "",
		...(files.length > 0
			? {
					manifest: files.map((file) => ({
						file_name: file.file_name,
						file_hash: file.file_hash,
						download_url: links.link(file.object_key),
					})),
				}
			: {}),
		...(metadata && bundle.link !== null ? { link: bundle.link } : {}),
		...(metadata && bundle.comment !== null ? { comment: bundle.comment } : {}),
	};
}
