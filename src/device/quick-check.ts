/**
 * The short way of POST /updates, which nearly every request is: a plain check that memory can answer is answered before the router.
 * It decides nothing by itself. What is not plain in every respect (a browser's request, a field that is missing, wrong or long, an app
 * that is not in memory) goes to the endpoint as if this file were not there; a test holds the two answers equal.
 */
import * as v from "valibot";
import type { StrangerLimits } from "../api/stranger-limits";
import type { SnapshotCache } from "../db/snapshot-cache";
import type { Deps } from "../deps";
import { transportSecurity } from "../domain/transport-security";
import { readVersion } from "../domain/version";
import type { GatherEvents } from "../events/gather";
import type { DeviceEvent } from "../events/messages";
import {
	CHECK_LIMIT_BYTES,
	type DeviceBody,
	LONGEST_CUSTOM_ID,
	LONGEST_OS_VERSION,
	PLATFORMS,
	recordedReport,
} from "./device";
import { type CutCheck, createKnownChecks, cutDeviceId, UUID } from "./known-checks";
import { isBlocked } from "./review-networks";
import { answerFromMemory, eventsOfCheck, updatesAnswer } from "./updates";

const PATH = "/updates";
interface Isolate {
	readonly deps: Deps;
	readonly snapshots: SnapshotCache;
	readonly gather: GatherEvents;
	readonly strangers: StrangerLimits;
}

interface Answered {
	readonly text: string;
	readonly events: readonly DeviceEvent[];
	/** The limiter that must be asked first, because the device's id was never seen. */
	readonly admission?: Promise<void> | undefined;
}

/** Undefined: not a plain check, and nothing was read of it. */
export type QuickCheck = (request: Request, ctx: ExecutionContext) => Promise<Response> | undefined;

/**
 * @param endpoint answers what was read and is no plain check; asked from here, because each promise around every check costs a turn.
 *   `isCounted`: the request counts already among those of its address
 */
export function createQuickCheck(
	{ deps, snapshots, gather, strangers }: Isolate,
	endpoint: (request: Request, ctx: ExecutionContext, isCounted?: boolean) => Promise<Response>,
): QuickCheck {
	const originOf = createOriginReader();
	const knownChecks = createKnownChecks(gather.hashOf);
	/** Else a browser is answered like everybody. */
	const minded = deps.config.corsAllowedOrigins.length > 0;

	async function answer(request: Request, origin: string, ctx: ExecutionContext): Promise<Response> {
		let text: string;
		try {
			text = await request.text();
		} catch {
			// Broken off. The endpoint finds that out as well, and says so.
			return endpoint(request, ctx);
		}
		const address = deps.config.clientAddress ?? request.headers.get("cf-connecting-ip");
		// The endpoint refuses in full.
		const nowMs = deps.now();
		if (!strangers.takeRequest(address, nowMs)) return endpoint(withBody(request, text), ctx);
		const answered = fromMemory(text, origin, request, address, nowMs);
		if (answered === undefined) return endpoint(withBody(request, text), ctx, true);
		if (answered.admission !== undefined) {
			try {
				await answered.admission;
			} catch {
				return endpoint(withBody(request, text), ctx, true);
			}
		}
		if (answered.events.length > 0) {
			gather(strangers.markCrowded(answered.events, address, nowMs), (work) => ctx.waitUntil(work));
		}
		return new Response(answered.text, {
			headers: {
				"content-type": "application/json",
				"cache-control": "private, no-store",
				"x-request-id": deps.newId(),
				...transportSecurity(origin),
				...(deps.config.diagnostics ? { "Server-Timing": 'd1;desc="trips=0", memory' } : {}),
			},
		});
	}

	function fromMemory(
		text: string,
		origin: string,
		request: Request,
		address: string | null,
		nowMs: number,
	): Answered | undefined {
		const cut = cutDeviceId(text);
		const known = cut === undefined ? undefined : asBefore(cut, origin, nowMs, request, address);
		if (known !== undefined) return known;
		const sent = plainBody(text);
		const snapshot = sent === undefined ? undefined : snapshots.fresh(sent.app_id, nowMs);
		if (sent === undefined || snapshot === undefined || isBlocked(deps.config, snapshot, request)) return undefined;
		const body = sent.app_id === snapshot.app.app_id ? sent : { ...sent, app_id: snapshot.app.app_id };
		const answered = answerFromMemory({ deps, snapshots, origin, nowMs }, snapshot, body);
		const answerText = answered?.answer.text;
		if (answered === undefined || answerText === undefined) return undefined;
		if (cut !== undefined) knownChecks.remember(cut, body, snapshot, origin, nowMs, answered);
		const report = recordedReport(body, snapshot);
		if (deps.config.diagnostics) v.parse(updatesAnswer, JSON.parse(answerText));
		return {
			text: answerText,
			events: eventsOfCheck(report, nowMs, answered.decision, () => address),
			admission: admissionOf(body.app_id, body.device_id, address, nowMs),
		};
	}

	/** The answer that another device got that sent the same. */
	function asBefore(
		cut: CutCheck,
		origin: string,
		nowMs: number,
		request: Request,
		address: string | null,
	): Answered | undefined {
		const appId = knownChecks.appOf(cut);
		const snapshot = appId === undefined ? undefined : snapshots.fresh(appId, nowMs);
		if (snapshot === undefined || isBlocked(deps.config, snapshot, request)) return undefined;
		const known = knownChecks.answerTo(cut, snapshot, origin, nowMs);
		const text = known?.answer.text;
		if (known === undefined || text === undefined) return undefined;
		const { seen, said } = known;
		if (gather.wasTold(seen.appId, cut.deviceId, said)) return { text, events: [] };
		const admission = admissionOf(seen.appId, cut.deviceId, address, nowMs);
		return { text, events: [{ ...seen, deviceId: cut.deviceId, atMs: nowMs }], admission };
	}

	function admissionOf(appId: string, deviceId: string, address: string | null, nowMs: number) {
		return gather.knows(appId, deviceId) ? undefined : strangers.admitNewDevices(address, appId, 1, nowMs);
	}

	return function check(request, ctx) {
		if (request.method !== "POST") return undefined;
		const { url, headers } = request;
		const pathStart = url.indexOf("/", url.indexOf("://") + 3);
		if (url.length !== pathStart + PATH.length || !url.endsWith(PATH)) return undefined;
		// An empty length is 0, and 0 is left to the endpoint, as is a body that says none.
		const length = Number(headers.get("content-length"));
		if (!(length > 0 && length <= CHECK_LIMIT_BYTES)) return undefined;
		if (headers.get("content-type")?.startsWith("application/json") !== true) return undefined;
		if (minded && headers.has("origin")) return undefined;
		return answer(request, deps.config.publicUrl ?? originOf(url.slice(0, pathStart)), ctx);
	};
}

/** The origin as URLs write it. All requests of an isolate come to one or two. */
function createOriginReader(): (text: string) => string {
	let known = { text: "", origin: "" };
	return (text) => {
		if (known.text !== text) known = { text, origin: new URL(text).origin };
		return known.origin;
	};
}

/**
 * The same request once more. Bytes that are not UTF-8 were replaced in the text; the endpoint refuses them, and is given some. Only a
 * character that was cut off after three bytes looks like one that was sent, and is taken for it.
 */
function withBody(request: Request, text: string): Request {
	const replaced =
		text.includes("\uFFFD") && new TextEncoder().encode(text).length !== Number(request.headers.get("content-length"));
	return new Request(request, { body: replaced ? new Uint8Array([0xff]) : text });
}

/** What the endpoint's schema makes of the body, where that is beyond doubt. */
function plainBody(text: string): DeviceBody | undefined {
	if (text.includes("\uFFFD")) return undefined;
	let body: Record<string, unknown>;
	try {
		body = JSON.parse(text);
	} catch {
		return undefined;
	}
	if (typeof body !== "object" || body === null) return undefined;
	const { app_id, device_id, version_name, version_build, platform, plugin_version, is_emulator, is_prod } = body;
	if (typeof app_id !== "string" || typeof device_id !== "string" || !UUID.test(device_id)) return undefined;
	if (!isText(version_name, 0, 128) || !isText(version_build, 1, 128) || !isText(plugin_version, 1, 128))
		return undefined;
	const known = PLATFORMS.find((name) => name === platform);
	if (known === undefined || readVersion(plugin_version) === null) return undefined;
	if (!isFlag(is_emulator) || !isFlag(is_prod)) return undefined;
	const { defaultChannel, key_id, custom_id, install_source, version_os, version_code } = body;
	if (!isOptionalText(defaultChannel, 512) || !isOptionalText(key_id, 20) || !isOptionalText(custom_id, 512))
		return undefined;
	if (!isOptionalText(install_source, 64) || !isOptionalText(version_os, 512)) return undefined;
	if (!isOptionalText(version_code, 512)) return undefined;
	return {
		app_id,
		device_id,
		version_name,
		version_build,
		platform: known,
		plugin_version,
		is_emulator: is_emulator ?? undefined,
		is_prod: is_prod ?? undefined,
		defaultChannel: defaultChannel ?? undefined,
		key_id: key_id ?? undefined,
		custom_id: custom_id?.slice(0, LONGEST_CUSTOM_ID),
		install_source: install_source ?? undefined,
		version_os: version_os?.slice(0, LONGEST_OS_VERSION),
		version_code: version_code ?? undefined,
	};
}

function isText(value: unknown, shortest: number, longest: number): value is string {
	return typeof value === "string" && value.length >= shortest && value.length <= longest;
}

function isOptionalText(value: unknown, longest: number): value is string | null | undefined {
	return value === undefined || value === null || (typeof value === "string" && value.length <= longest);
}

function isFlag(value: unknown): value is boolean | null | undefined {
	return value === undefined || value === null || typeof value === "boolean";
}
