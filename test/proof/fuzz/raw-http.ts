/**
 * HTTP/1.1 by hand: fetch and node:http refuse to send what a malicious client sends. A request is
 * bytes; an answer is read as strictly as a proxy would read it, and a connection that answered in
 * an unclear way is not used again.
 */
import { connect, type Socket } from "node:net";
import { PATIENCE_MS } from "../../patience";

export interface RawRequest {
	readonly method: string;
	/** Bytes of the request line (latin1). */
	readonly target: string;
	/** In their order, byte for byte (latin1). */
	readonly headers: readonly (readonly [name: string, value: string])[];
	readonly body: Buffer | undefined;
	/** Sends the body in chunks instead of with a Content-Length. */
	readonly chunked?: boolean;
	/**
	 * Breaks the rules of HTTP itself: the server may refuse it, or hang up, before any endpoint sees
	 * it.
	 */
	readonly unsound?: boolean;
}

export interface RawAnswer {
	readonly status: number;
	/** Names in lower case. */
	readonly headers: readonly (readonly [name: string, value: string])[];
	readonly body: Buffer;
}

/**
 * `closed`: hung up without an answer. `timeout`: no answer in time. `garbled`: what came is no
 * HTTP.
 */
export type Outcome = RawAnswer | "closed" | "timeout" | "garbled";

const CHUNK_BYTES = 700;

export function headerOf(answer: RawAnswer, name: string): string | undefined {
	return answer.headers.find(([known]) => known === name)?.[1];
}

/** The bytes on the wire. */
export function bytesOf(request: RawRequest, host: string): Buffer {
	const { body } = request;
	const has = (name: string) => request.headers.some(([known]) => known.toLowerCase() === name);
	const lines = [
		`${request.method} ${request.target} HTTP/1.1`,
		...(has("host") ? [] : [`Host: ${host}`]),
		...request.headers.map(([name, value]) => `${name}: ${value}`),
		...(request.chunked === true && !has("transfer-encoding") ? ["Transfer-Encoding: chunked"] : []),
		...(request.chunked !== true && body !== undefined && !has("content-length")
			? [`Content-Length: ${body.length}`]
			: []),
		"",
		"",
	];
	const head = Buffer.from(lines.join("\r\n"), "latin1");
	if (body === undefined) return head;
	return Buffer.concat([head, ...(request.chunked === true ? chunksOf(body) : [body])]);
}

function chunksOf(body: Buffer): Buffer[] {
	const parts: Buffer[] = [];
	for (let at = 0; at < body.length; at += CHUNK_BYTES) {
		const chunk = body.subarray(at, at + CHUNK_BYTES);
		parts.push(Buffer.from(`${chunk.length.toString(16)}\r\n`), chunk, Buffer.from("\r\n"));
	}
	return [...parts, Buffer.from("0\r\n\r\n")];
}

/** One client, one request at a time, over a connection that is kept while it is sound. */
export class RawClient {
	#socket: Socket | undefined;
	readonly #host: string;
	readonly #port: number;

	constructor(origin: string) {
		const url = new URL(origin);
		this.#host = url.hostname;
		this.#port = Number(url.port);
	}

	async send(request: RawRequest): Promise<Outcome> {
		const kept = this.#socket !== undefined;
		const outcome = await this.#exchange(request);
		// The server may close a kept connection just as a request is sent on it.
		return outcome === "closed" && kept ? this.#exchange(request) : outcome;
	}

	close(): void {
		this.#socket?.destroy();
		this.#socket = undefined;
	}

	#exchange(request: RawRequest): Promise<Outcome> {
		return new Promise((resolve) => {
			const socket = this.#socket ?? connect({ host: this.#host, port: this.#port, noDelay: true });
			this.#socket = socket;
			let received: Buffer = Buffer.alloc(0);
			const settle = (outcome: Outcome, reusable: boolean) => {
				clearTimeout(timer);
				socket.removeAllListeners();
				socket.on("error", () => undefined);
				if (!reusable || request.unsound === true) this.close();
				else socket.once("close", () => this.#socket === socket && this.close());
				resolve(outcome);
			};
			const timer = setTimeout(() => settle("timeout", false), PATIENCE_MS);
			const ended = () => {
				if (received.length === 0) return settle("closed", false);
				const read = readAnswer(received, request.method, true);
				settle(read === undefined || read === "garbled" ? "garbled" : read.answer, false);
			};
			socket.on("data", (data: Buffer) => {
				received = received.length === 0 ? data : Buffer.concat([received, data]);
				const read = readAnswer(received, request.method, false);
				if (read === undefined) return;
				if (read === "garbled") settle("garbled", false);
				else settle(read.answer, read.rest === 0 && read.keeps && socket.writableLength === 0);
			});
			socket.on("error", ended);
			socket.on("end", ended);
			socket.on("close", ended);
			socket.write(bytesOf(request, `${this.#host}:${this.#port}`));
			// A body that is shorter than it says must end, or both sides wait.
			if (request.unsound === true) socket.end();
		});
	}
}

interface Read {
	readonly answer: RawAnswer;
	/** Bytes beyond the answer. */
	readonly rest: number;
	readonly keeps: boolean;
}

/** The answer at the beginning of the bytes; undefined while it is incomplete. */
function readAnswer(bytes: Buffer, method: string, ended: boolean): Read | "garbled" | undefined {
	const headEnd = bytes.indexOf("\r\n\r\n");
	if (headEnd < 0) return ended ? "garbled" : undefined;
	const [statusLine = "", ...lines] = bytes.subarray(0, headEnd).toString("latin1").split("\r\n");
	const status = Number(/^HTTP\/1\.1 (\d{3})( |$)/.exec(statusLine)?.[1] ?? Number.NaN);
	if (Number.isNaN(status)) return "garbled";
	if (status < 200 && status !== 101) return readAnswer(bytes.subarray(headEnd + 4), method, ended);
	const headers = lines.map((line) => {
		const colon = line.indexOf(":");
		return [line.slice(0, colon).toLowerCase(), line.slice(colon + 1).trim()] as const;
	});
	const header = (name: string) => headers.find(([known]) => known === name)?.[1];
	const rest = bytes.subarray(headEnd + 4);
	const done = (body: Buffer, used: number): Read => ({
		answer: { status, headers, body },
		rest: rest.length - used,
		keeps: header("connection")?.toLowerCase() !== "close",
	});
	if (method === "HEAD" || status === 204 || status === 304 || status === 101) return done(Buffer.alloc(0), 0);
	if (header("transfer-encoding")?.toLowerCase() === "chunked") {
		const read = readChunks(rest);
		return read === undefined
			? ended
				? "garbled"
				: undefined
			: read === "garbled"
				? read
				: done(read.body, read.used);
	}
	const length = header("content-length");
	if (length === undefined) return ended ? { ...done(rest, rest.length), keeps: false } : undefined;
	if (rest.length < Number(length)) return ended ? "garbled" : undefined;
	return done(rest.subarray(0, Number(length)), Number(length));
}

function readChunks(bytes: Buffer): { body: Buffer; used: number } | "garbled" | undefined {
	const parts: Buffer[] = [];
	let at = 0;
	for (;;) {
		const lineEnd = bytes.indexOf("\r\n", at);
		if (lineEnd < 0) return undefined;
		const size = Number.parseInt(bytes.subarray(at, lineEnd).toString("latin1"), 16);
		if (Number.isNaN(size)) return "garbled";
		const start = lineEnd + 2;
		if (bytes.length < start + size + 2) return undefined;
		if (size === 0) return { body: Buffer.concat(parts), used: start + 2 };
		parts.push(bytes.subarray(start, start + size));
		at = start + size + 2;
	}
}
