/**
 * Reads a JSON body, or a form where the endpoint accepts one. Its size is bounded while it
 * streams, whatever Content-Length says. Its depth and number of values are bounded before it is
 * parsed, because three bytes of text can become an object of fifty.
 */
import { ApiError, invalidRequest } from "../../errors";
import type { Holding } from "../limits/memory";
import { tooManyRequests } from "../limits/requests";
import { BodyEnded, SILENCE_MS, untilSilent } from "../limits/silent-body";

/**
 * Largest body of an endpoint that declares no limit. Only callers that may use an endpoint have a
 * larger limit (credential.ts).
 */
export const DEFAULT_LIMIT_BYTES = 1024 * 1024;
/**
 * Bodies up to this size are not counted in the memory of the isolate: requests of devices, and
 * nearly all others.
 */
const UNCOUNTED_BYTES = 16 * 1024;
/** A body is in memory as chunks, as bytes, as text and as values. */
const COPIES = 4;
/** A connection with a megabit a second sends 15 MB in this time. */
const LIFETIME_PERIODS = 4;
const MOST_LEVELS = 32;
/** Average bytes per value; ordinary bodies have more than twenty. */
const LEAST_BYTES_A_VALUE = 8;
const LEAST_LIMIT_VALUES = 1_000;
const MOST_VALUES = 200_000;

/**
 * The memory that a body takes while it is read and used; 0 for a small one, which need not be
 * counted.
 */
export function memoryOfBody(request: Request, limitBytes: number): number {
	if (request.body === null) return 0;
	const declared = request.headers.get("content-length");
	const bytes = Math.min(limitBytes, declared === null ? limitBytes : Number(declared));
	return bytes > UNCOUNTED_BYTES ? bytes * COPIES : 0;
}

export interface Reading {
	readonly limitBytes: number;
	/** See `readBytes`. */
	readonly deadline: Deadline;
	/** The memory of a counted body. */
	readonly holding: Holding | undefined;
	/**
	 * Is awaited with the size of the body before it is parsed, which takes more processor time than
	 * to read it.
	 */
	readonly admit: ((bytes: number) => Promise<void> | undefined) | undefined;
}

/**
 * @param acceptsForm whether the body may be a form instead
 * @returns undefined when there is no body
 */
export async function readBody(
	request: Request,
	{ limitBytes, deadline, holding, admit }: Reading,
	acceptsForm = false,
): Promise<unknown> {
	const bytes = await readBytes(request, limitBytes, deadline, holding);
	await admit?.(bytes.length);
	if (bytes.length === 0) return undefined;
	const type = request.headers.get("content-type")?.split(";")[0]?.trim().toLowerCase();
	if (acceptsForm && type === "application/x-www-form-urlencoded") {
		return Object.fromEntries(new URLSearchParams(new TextDecoder().decode(bytes)));
	}
	// `curl -d` without a header declares its JSON as a form.
	const isJsonOfCurl = type === "application/x-www-form-urlencoded" && bytes[0] === OPENING_BRACE;
	if (type !== undefined && type !== "" && !isJsonOfCurl && !/^application\/([\w.-]+\+)?json$/.test(type)) {
		throw new ApiError("unsupported_media_type", "Send the body as JSON, with `content-type: application/json`.");
	}
	return parseJson(bytes, limitBytes);
}

export function parseJson(bytes: Uint8Array, limitBytes: number): unknown {
	refuseShape(bytes, Math.min(MOST_VALUES, Math.max(LEAST_LIMIT_VALUES, limitBytes / LEAST_BYTES_A_VALUE)));
	try {
		return JSON.parse(new TextDecoder("utf-8", { fatal: true, ignoreBOM: false }).decode(bytes));
	} catch {
		throw invalidRequest([{ path: "", message: "The body is not valid JSON in UTF-8; check quotes and commas." }]);
	}
}

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const COMMA = 0x2c;
const OPENING_BRACE = 0x7b;
const OPENING: ReadonlySet<number> = new Set([0x5b, 0x7b]);
const CLOSING: ReadonlySet<number> = new Set([0x5d, 0x7d]);

/**
 * Checks the text, so that nothing of a refused body is built. Invalid JSON is left to the parser.
 */
function refuseShape(bytes: Uint8Array, mostValues: number): void {
	let level = 0;
	let values = 1;
	let inText = false;
	for (let index = 0; index < bytes.length; index += 1) {
		const byte = bytes[index] ?? 0;
		if (inText) {
			if (byte === BACKSLASH) index += 1;
			else if (byte === QUOTE) inText = false;
		} else if (byte === QUOTE) inText = true;
		else if (byte === COMMA) values += 1;
		else if (OPENING.has(byte)) {
			level += 1;
			values += 1;
			if (level > MOST_LEVELS)
				throw invalidRequest([{ path: "", message: `must not nest deeper than ${MOST_LEVELS} levels` }]);
		} else if (CLOSING.has(byte)) level -= 1;
	}
	if (values > mostValues) {
		throw invalidRequest([
			{ path: "", message: `must not have more than ${mostValues} values; send several requests` },
		]);
	}
}

const BROKEN_OFF = `The body is shorter than its headers declare, or nothing of it arrived for ${SILENCE_MS / 1_000} seconds; send it again.`;

const TOO_SLOW = "The body arrived slowly while other requests needed its memory; send fewer at a time";
const RETRY_SECONDS = 5;

type Deadline = (ms: number) => Promise<void>;

/**
 * @param deadline resolves after the given time; a body that is counted ends when nothing of it
 * arrives any more
 * @param holding the memory of a body that is counted
 * @throws {ApiError} `payload_too_large`, or `too_many_requests` if another request needs the
 * memory before all has arrived
 */
export async function readBytes(
	request: Request,
	limitBytes: number,
	deadline: Deadline,
	holding: Holding | undefined,
): Promise<Uint8Array> {
	if (request.body === null) return new Uint8Array();
	const tooLarge = () =>
		new ApiError("payload_too_large", `The body must not have more than ${limitBytes} bytes.`, {
			moreInfo: { limitBytes },
		});
	if (Number(request.headers.get("content-length") ?? 0) > limitBytes) throw tooLarge();
	const chunks: Uint8Array[] = [];
	let length = 0;
	try {
		const body = request.body as ReadableStream<Uint8Array>;
		const chunksOf = holding === undefined ? body : untilSilent(body, deadline, holding, LIFETIME_PERIODS);
		for await (const chunk of chunksOf) {
			length += chunk.length;
			if (length > limitBytes) throw tooLarge();
			chunks.push(chunk);
		}
	} catch (error) {
		if (error instanceof ApiError) throw error;
		if (error instanceof BodyEnded) throw tooManyRequests(TOO_SLOW, RETRY_SECONDS);
		throw invalidRequest([{ path: "", message: BROKEN_OFF }]);
	}
	const bytes = new Uint8Array(length);
	let offset = 0;
	for (const chunk of chunks) {
		bytes.set(chunk, offset);
		offset += chunk.length;
	}
	return bytes;
}
