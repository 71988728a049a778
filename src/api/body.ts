/**
 * Reads a JSON body, bounded while it streams in, so that neither a wrong Content-Length nor its absence lets a caller fill the
 * Worker's memory.
 */
import { ApiError, invalidRequest } from "../errors";

const DEFAULT_LIMIT_BYTES = 1024 * 1024;

/** The parsed body; undefined when there is none. */
export async function readJson(request: Request, limitBytes = DEFAULT_LIMIT_BYTES): Promise<unknown> {
	const bytes = await readBytes(request, limitBytes);
	if (bytes.length === 0) return undefined;
	const type = request.headers.get("content-type")?.split(";")[0]?.trim().toLowerCase();
	if (type !== undefined && type !== "" && !/^application\/([\w.-]+\+)?json$/.test(type)) {
		throw new ApiError("unsupported_media_type", "Send the body as JSON, with `content-type: application/json`.");
	}
	try {
		return JSON.parse(new TextDecoder("utf-8", { fatal: true, ignoreBOM: false }).decode(bytes));
	} catch {
		throw invalidRequest([{ path: "", message: "The body is not valid JSON in UTF-8; check quotes and commas." }]);
	}
}

async function readBytes(request: Request, limitBytes: number): Promise<Uint8Array> {
	if (request.body === null) return new Uint8Array();
	const tooLarge = () =>
		new ApiError("payload_too_large", `The body has more than ${limitBytes} bytes; send less.`, {
			moreInfo: { limitBytes },
		});
	if (Number(request.headers.get("content-length") ?? 0) > limitBytes) throw tooLarge();
	const chunks: Uint8Array[] = [];
	let length = 0;
	try {
		for await (const chunk of request.body as ReadableStream<Uint8Array>) {
			length += chunk.length;
			if (length > limitBytes) throw tooLarge();
			chunks.push(chunk);
		}
	} catch (error) {
		if (error instanceof ApiError) throw error;
		throw invalidRequest([{ path: "", message: "The body broke off; send it again, as long as its headers say." }]);
	}
	const bytes = new Uint8Array(length);
	let offset = 0;
	for (const chunk of chunks) {
		bytes.set(chunk, offset);
		offset += chunk.length;
	}
	return bytes;
}
