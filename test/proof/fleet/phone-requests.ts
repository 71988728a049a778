/** Requests of a phone: each carries the moment and the address that the simulation gives it. */
import { ADDRESS_HEADER, TIME_HEADER } from "./control";
import type { Http, Reply } from "./http";
import type { Phone } from "./phone";
import { below } from "./random";

const JSON_TYPE = { "content-type": "application/json" };

export interface SessionContext {
	readonly http: Http;
	/** Simulated time of the phone. */
	nowMs: number;
	readonly betaName: string;
	/** Address of a stranger who reports for the phone; by default the phone's address. */
	readonly address?: string;
}

/**
 * Sends a report or a question of the phone.
 * @throws {Error} unless the answer is 200
 */
export async function post(phone: Phone, context: SessionContext, path: string, body: unknown): Promise<Reply> {
	const { http } = context;
	// Each request of a phone has a different timestamp.
	context.nowMs += 1;
	const userAgent = `CapacitorUpdater/${phone.plugin} (${phone.app.appId}) ${phone.platform}/${phone.os}`;
	const headers = {
		...JSON_TYPE,
		"user-agent": userAgent,
		[TIME_HEADER]: String(context.nowMs),
		[ADDRESS_HEADER]: context.address ?? phone.address,
	};
	const reply = await http.ask({ method: "POST", path, headers, body: JSON.stringify(body) });
	if (reply.status !== 200) throw new Error(`POST ${path}: ${reply.status} ${reply.bytes.toString()}`);
	return reply;
}

export interface Download {
	readonly link: string;
	/** Empty when the file belongs to no single bundle. */
	readonly version: string;
}

/** Downloads all bytes. */
export async function fetchWhole(
	phone: Phone,
	{ http, nowMs }: SessionContext,
	{ link, version }: Download,
): Promise<Reply> {
	const reply = await http.ask({ method: "GET", path: link, headers: { [TIME_HEADER]: String(nowMs) } });
	if (reply.status !== 200) throw new Error(`GET ${link}: ${reply.status} ${reply.bytes.toString()}`);
	phone.app.truth.downloaded(reply.bytes.length, version, nowMs);
	return reply;
}

/** Downloads a range: from an offset to the end, or `length` bytes. */
export async function fetchPart(
	phone: Phone,
	{ http, nowMs }: SessionContext,
	{ link, version }: Download,
	from: number,
	length?: number,
): Promise<Buffer> {
	const range = `bytes=${from}-${length === undefined ? "" : from + length - 1}`;
	const reply = await http.ask({ method: "GET", path: link, headers: { range, [TIME_HEADER]: String(nowMs) } });
	if (reply.status !== 206) throw new Error(`GET ${link} (${range}): ${reply.status} ${reply.bytes.toString()}`);
	phone.app.truth.downloaded(reply.bytes.length, version, nowMs);
	return reply.bytes;
}

/** Downloads in two ranges, as the plugin does after a broken connection. */
export async function fetchInTwo(
	phone: Phone,
	context: SessionContext,
	download: Download,
	size: number,
): Promise<Buffer> {
	const first = await fetchPart(phone, context, download, 0, 1 + below(phone, size - 1));
	return Buffer.concat([first, await fetchPart(phone, context, download, first.length)]);
}
