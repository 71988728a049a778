/**
 * One session of the app: the check, the download, the new bundle and the reports, in the order of
 * the plugin of the device's platform. The truth records a report when the product first receives
 * it; a repetition is not recorded.
 */
import { MINUTE_MS } from "../../../src/domain/time";
import { type Bundle, sha256 } from "./app-world";
import { jsonOf } from "./http";
import { BUILTIN, infoOf, nameOf, type Phone } from "./phone";
import { flush, note, noteReport, reportAlone, UNHEARD } from "./phone-reports";
import { fetchInTwo, fetchPart, fetchWhole, post, type SessionContext } from "./phone-requests";
import { below, happens } from "./random";

/** Probability of each fault. */
const CHANCE = {
	noNetwork: 0.01,
	/** The reports wait for the next session. */
	late: 0.12,
	breaksOff: 0.04,
	interrupted: 0.05,
	damaged: 0.03,
	notSet: 0.02,
	doesNotStart: 0.05,
	crash: 0.02,
	/** The app is closed before the new bundle is set; the next session sets it. */
	closedEarly: 0.1,
	slow: 0.1,
	choosesBeta: 0.01,
	leavesBeta: 0.05,
} as const;
const CRASHES = ["app_crash", "app_crash_native", "app_anr", "webview_javascript_error", "app_killed_low_memory"];

interface UpdateAnswer {
	readonly version?: string;
	readonly url?: string;
	readonly checksum?: string;
	readonly manifest?: readonly {
		readonly file_name: string;
		readonly file_hash: string;
		readonly download_url: string;
	}[];
	readonly error?: string;
	readonly kind?: string;
}

const SECOND_MS = 1_000;

/** Time passes, at least a millisecond. */
function pass(phone: Phone, context: SessionContext, mostMs: number): void {
	context.nowMs += 1 + below(phone, mostMs);
}

/** Most networks are fast. */
function downloading(phone: Phone, context: SessionContext): void {
	pass(phone, context, happens(phone, CHANCE.slow) ? 15 * MINUTE_MS : 20 * SECOND_MS);
}

export async function openApp(phone: Phone, context: SessionContext): Promise<void> {
	const session = phone.platform === "electron" ? electronSession : phone.app.isCalm ? quietSession : nativeSession;
	context.nowMs = Math.max(context.nowMs, phone.busyUntilMs + 1);
	await session(phone, context);
	phone.busyUntilMs = context.nowMs;
}

/** Whether a fault occurs; calm apps have none. */
function mishap(phone: Phone, probability: number): boolean {
	return !phone.app.isCalm && happens(phone, probability);
}

/** The periodic check; the rest of a session follows only if the check offers an update. */
async function quietSession(phone: Phone, context: SessionContext): Promise<void> {
	if (phone.broken || phone.troubles.length > 0) return nativeSession(phone, context);
	await nativeUpdate(phone, context);
	if (phone.next !== undefined || phone.pending.length > 0) await leave(phone, context);
}

async function nativeSession(phone: Phone, context: SessionContext): Promise<void> {
	// The bundle that the last session set never called notifyAppReady.
	if (phone.broken) {
		note(phone, context, "app_launch_timeout", phone.current);
		note(phone, context, "update_fail", phone.current);
		phone.failed.push(phone.current);
		phone.current = phone.fallback;
		phone.broken = false;
	}
	for (const action of phone.troubles) note(phone, context, action, phone.current);
	phone.troubles = [];
	note(phone, context, "app_moved_to_foreground", phone.current);
	if (mishap(phone, CHANCE.crash)) note(phone, context, CRASHES[below(phone, CRASHES.length)] ?? "", phone.current);
	await chooseChannel(phone, context);
	if (mishap(phone, CHANCE.noNetwork)) note(phone, context, "download_fail", phone.current);
	else await nativeUpdate(phone, context);
	await leave(phone, context);
}

async function leave(phone: Phone, context: SessionContext): Promise<void> {
	pass(phone, context, SECOND_MS);
	if (!happens(phone, CHANCE.late)) await flush(phone, context);
	if (happens(phone, CHANCE.closedEarly)) return;
	pass(phone, context, 20 * MINUTE_MS);
	note(phone, context, "app_moved_to_background", phone.current);
	setNext(phone, context);
	if (!happens(phone, CHANCE.late)) await flush(phone, context);
}

async function nativeUpdate(phone: Phone, context: SessionContext): Promise<void> {
	const answer = await check(phone, context);
	if (answer.error !== undefined || answer.kind !== undefined) {
		if (answer.kind === "failed") note(phone, context, "download_fail", phone.current);
		return;
	}
	const version = answer.version ?? "";
	if (version === BUILTIN) {
		phone.next = BUILTIN;
		return;
	}
	if (version === phone.current) return;
	if (phone.failed.includes(version)) {
		note(phone, context, "download_fail", phone.current);
		return;
	}
	if (phone.next === version) return;
	const bundle = bundleOf(phone, version);
	if (answer.manifest !== undefined) await downloadFiles(phone, context, version, answer.manifest);
	else await downloadZip(phone, context, bundle, answer);
}

async function downloadZip(phone: Phone, context: SessionContext, bundle: Bundle, answer: UpdateAnswer): Promise<void> {
	const { version } = bundle;
	await reportAlone(phone, context, "download_zip_start", version);
	if (phone.app.truth.startsDownload(phone.number, version, context.nowMs)) phone.started.set(version, context.nowMs);
	note(phone, context, "download_10", version);
	downloading(phone, context);
	const download = { link: answer.url ?? "", version };
	if (mishap(phone, CHANCE.breaksOff)) {
		await fetchPart(phone, context, download, 0, 1 + below(phone, bundle.sizeBytes - 1));
		note(phone, context, "download_fail", version);
		phone.failed.push(version);
		return;
	}
	const bytes = happens(phone, CHANCE.interrupted)
		? await fetchInTwo(phone, context, download, bundle.sizeBytes)
		: (await fetchWhole(phone, context, download)).bytes;
	if (answer.checksum !== bundle.checksum || sha256(bytes) !== bundle.checksum) {
		throw new Error(`${version} of ${phone.app.appId} is not what was published`);
	}
	await reportAlone(phone, context, "download_zip_complete", version);
	note(phone, context, "download_70", version);
	if (mishap(phone, CHANCE.damaged)) {
		// The plugin reports the first two under the running bundle.
		note(phone, context, "checksum_fail", phone.current);
		note(phone, context, "download_fail", phone.current);
		note(phone, context, "finish_download_fail", version);
		phone.failed.push(version);
		return;
	}
	note(phone, context, "download_complete", version);
	phone.next = version;
}

async function downloadFiles(
	phone: Phone,
	context: SessionContext,
	version: string,
	manifest: NonNullable<UpdateAnswer["manifest"]>,
): Promise<void> {
	await reportAlone(phone, context, "download_manifest_start", version);
	if (phone.app.truth.startsDownload(phone.number, version, context.nowMs)) phone.started.set(version, context.nowMs);
	note(phone, context, "download_10", version);
	const had = phone.current === BUILTIN ? undefined : bundleOf(phone, phone.current).files;
	for (const file of manifest) {
		if (had?.has(file.file_hash) === true) continue;
		if (happens(phone, CHANCE.breaksOff / manifest.length)) {
			await reportAlone(phone, context, "download_manifest_file_fail", `${version}:${file.file_name}`);
			note(phone, context, "download_fail", version);
			phone.failed.push(version);
			return;
		}
		downloading(phone, context);
		const { bytes } = await fetchWhole(phone, context, { link: file.download_url, version: "" });
		if (sha256(bytes) !== file.file_hash) throw new Error(`${file.file_name} of ${version} is not what was published`);
		if (happens(phone, CHANCE.damaged / manifest.length)) {
			await reportAlone(phone, context, "download_manifest_checksum_fail", `${version}:${file.file_name}`);
			note(phone, context, "download_fail", version);
			phone.failed.push(version);
			return;
		}
	}
	await reportAlone(phone, context, "download_manifest_complete", version);
	note(phone, context, "download_complete", version);
	phone.next = version;
}

/** Runs when the app goes to the background. */
function setNext(phone: Phone, context: SessionContext): void {
	const { next } = phone;
	if (next === undefined) return;
	phone.next = undefined;
	if (next === BUILTIN) {
		phone.current = BUILTIN;
		phone.fallback = BUILTIN;
		note(phone, context, "reset", BUILTIN);
		return;
	}
	if (mishap(phone, CHANCE.notSet)) {
		note(phone, context, "set_fail", next);
		phone.failed.push(next);
		return;
	}
	note(phone, context, "set", next);
	phone.fallback = phone.current;
	phone.current = next;
	const { rollout } = phone.app;
	phone.broken = rollout?.version === next ? rollout.failsOn(phone.number) : mishap(phone, CHANCE.doesNotStart);
	phone.troubles = rollout?.version === next && !phone.broken ? rollout.troublesOf(phone.number) : [];
}

/**
 * Electron's updater has no queue, sends no timestamps, downloads zips only, and starts a broken
 * bundle again.
 */
async function electronSession(phone: Phone, context: SessionContext): Promise<void> {
	const report = (action: string, version: string) =>
		reportAlone(phone, context, action, nameOf(phone, version), happens(phone, UNHEARD));
	if (phone.broken) {
		await report("set_fail", phone.current);
		phone.broken = happens(phone, 0.5);
	}
	if (phone.next !== undefined) {
		phone.current = phone.next;
		phone.next = undefined;
		await report("set", phone.current);
		phone.broken = happens(phone, CHANCE.doesNotStart);
	}
	await chooseChannel(phone, context);
	if (happens(phone, CHANCE.noNetwork)) return;
	const answer = await check(phone, context);
	if (answer.error !== undefined) return;
	if (answer.version === BUILTIN) {
		phone.next = BUILTIN;
		return;
	}
	const bundle = bundleOf(phone, answer.version ?? "");
	if (happens(phone, CHANCE.breaksOff)) {
		await report("download_fail", bundle.version);
		return;
	}
	downloading(phone, context);
	const { bytes } = await fetchWhole(phone, context, { link: answer.url ?? "", version: bundle.version });
	if (sha256(bytes) !== answer.checksum) throw new Error(`${bundle.version} is not what was published`);
	await report("download_complete", bundle.version);
	phone.next = bundle.version;
}

async function check(phone: Phone, context: SessionContext): Promise<UpdateAnswer> {
	const { app, known } = phone;
	const name = phone.current === BUILTIN && phone.namesStoreBuild ? phone.build : phone.current;
	const reply = await post(phone, context, "/updates", { ...infoOf(phone), version_name: name });
	noteReport(phone, name);
	app.truth.seen(phone.number, context.nowMs);
	const channel = app.decidingChannel(phone.deviceId, phone.platform, phone.defaultChannel);
	// Without a deciding channel, the last one stays.
	if (channel !== null) known.channelId = channel;
	const answer = jsonOf<UpdateAnswer>(reply);
	if (answer.version !== undefined && app.withdrawn.has(answer.version)) {
		throw new Error(`${answer.version} of ${app.appId} was rolled back, and is still given away`);
	}
	const { rollout } = app;
	if (rollout !== undefined && rollout.version === answer.version && answer.url !== undefined) {
		rollout.serves(phone.number, app.truth.firstSeen(phone.number));
	} else if (rollout?.version === name) rollout.runs(phone.number, context.nowMs);
	return answer;
}

async function chooseChannel(phone: Phone, context: SessionContext): Promise<void> {
	if (phone.defaultChannel !== "" && happens(phone, CHANCE.leavesBeta)) {
		phone.defaultChannel = "";
		return;
	}
	if (phone.defaultChannel !== "" || !mishap(phone, CHANCE.choosesBeta)) return;
	const body = { ...infoOf(phone), version_name: phone.current, channel: context.betaName, action: "set" };
	const reply = await post(phone, context, "/channel_self", body);
	const answer = jsonOf<{ error?: string; unset?: boolean }>(reply);
	if (answer.error === undefined && answer.unset !== true) phone.defaultChannel = context.betaName;
}

function bundleOf(phone: Phone, version: string): Bundle {
	const bundle = phone.app.bundles.get(version);
	if (bundle === undefined) throw new Error(`${phone.app.appId} has no bundle ${version}`);
	return bundle;
}
