/**
 * One keep-alive HTTP/1.1 connection with one request at a time. Node's own client and fetch cost
 * more than a Worker's bare route, so they would dominate the measurement. Reads the two encodings
 * that workerd writes (length and chunks) and fails on anything else.
 */
import { connect, type Socket } from "node:net";

export interface Answer {
	readonly status: number;
	readonly body: string;
}

export interface Question {
	readonly method: string;
	/** Path and query. */
	readonly path: string;
	readonly headers?: Readonly<Record<string, string>>;
	readonly body?: string | Uint8Array;
}

export interface Connection {
	ask(question: Question): Promise<Answer>;
	close(): void;
}

const HEAD_END = Buffer.from("\r\n\r\n");

export async function openConnection(origin: string): Promise<Connection> {
	const { hostname, port, host } = new URL(origin);
	const socket = connect({ host: hostname, port: Number(port), noDelay: true });
	await new Promise<void>((resolve, reject) => socket.once("connect", resolve).once("error", reject));
	const reader = createReader(socket);
	return {
		ask({ method, path, headers = {}, body }) {
			const length = body === undefined ? 0 : Buffer.byteLength(body);
			let head = `${method} ${path} HTTP/1.1\r\nhost: ${host}\r\n`;
			for (const name in headers) head += `${name}: ${headers[name]}\r\n`;
			if (body !== undefined) head += `content-length: ${length}\r\n`;
			const answer = reader.next();
			if (body instanceof Uint8Array) {
				socket.write(`${head}\r\n`);
				socket.write(body);
			} else {
				socket.write(`${head}\r\n${body ?? ""}`);
			}
			return answer;
		},
		close: () => socket.destroy(),
	};
}

function createReader(socket: Socket): { next(): Promise<Answer> } {
	let waiting: { resolve: (answer: Answer) => void; reject: (error: Error) => void } | undefined;
	let received: Buffer = Buffer.alloc(0);
	const fail = (error: Error) => {
		waiting?.reject(error);
		waiting = undefined;
	};
	socket.on("data", (chunk) => {
		received = received.length === 0 ? chunk : Buffer.concat([received, chunk]);
		try {
			const parsed = parseAnswer(received);
			if (parsed === undefined) return;
			received = received.subarray(parsed.end);
			if (received.length > 0) throw new Error("the server sent more than one answer");
			const asked = waiting;
			waiting = undefined;
			asked?.resolve(parsed.answer);
		} catch (error) {
			fail(error instanceof Error ? error : new Error(String(error)));
		}
	});
	socket.on("error", fail);
	socket.on("close", () => fail(new Error("the server closed the connection")));
	return {
		next: () =>
			new Promise((resolve, reject) => {
				if (socket.destroyed) reject(new Error("the server closed the connection"));
				waiting = { resolve, reject };
			}),
	};
}

/** The first answer in the bytes and the offset of its end; undefined while it is incomplete. */
export function parseAnswer(bytes: Buffer): { readonly answer: Answer; readonly end: number } | undefined {
	const headEnd = bytes.indexOf(HEAD_END);
	if (headEnd < 0) return undefined;
	const head = bytes.toString("latin1", 0, headEnd);
	const status = Number(/^HTTP\/1\.1 (\d{3}) /.exec(head)?.[1]);
	if (!(status >= 200)) throw new Error(`not an HTTP answer: ${head.slice(0, 60)}`);
	const start = headEnd + HEAD_END.length;
	const length = /\r\ncontent-length: *(\d+)/i.exec(head)?.[1];
	if (length !== undefined) {
		const end = start + Number(length);
		return bytes.length < end ? undefined : { answer: { status, body: bytes.toString("utf8", start, end) }, end };
	}
	if (/\r\ntransfer-encoding: *chunked/i.test(head)) return chunked(bytes, start, status);
	if (status === 204) return { answer: { status, body: "" }, end: start };
	throw new Error("an answer without a length");
}

function chunked(bytes: Buffer, start: number, status: number): ReturnType<typeof parseAnswer> {
	const parts: Buffer[] = [];
	for (let at = start; ; ) {
		const lineEnd = bytes.indexOf("\r\n", at, "latin1");
		if (lineEnd < 0) return undefined;
		const size = Number.parseInt(bytes.toString("latin1", at, lineEnd), 16);
		if (Number.isNaN(size)) throw new Error("a chunk without a size");
		const next = lineEnd + 2 + size + 2;
		if (bytes.length < next) return undefined;
		if (size === 0) return { answer: { status, body: Buffer.concat(parts).toString() }, end: next };
		parts.push(bytes.subarray(lineEnd + 2, lineEnd + 2 + size));
		at = next;
	}
}
