/**
 * Stands between a stock client and the product and records requests and answers, so that a test
 * can distinguish a request that the product does not know from one that it refuses for a reason.
 * Requests and answers pass unchanged, except where a test simulates a fault of the network or of a
 * server.
 */
import { createServer, request as forward, type IncomingHttpHeaders } from "node:http";
import type { AddressInfo } from "node:net";
import { buffer } from "node:stream/consumers";

export interface RecordedRequest {
	readonly method: string;
	readonly path: string;
	readonly status: number;
	/** The error code of an answer that has one. */
	readonly error: string | undefined;
	readonly headers: IncomingHttpHeaders;
	/** Names of fields that the product says it ignored. */
	readonly ignored: string | undefined;
	/** The request body as text. */
	readonly body: string;
	/** The response body as text. */
	readonly answer: string;
}

/** The fault that replaces the answer to one request. */
export type Fault =
	| { readonly status: number; readonly headers?: Record<string, string>; readonly body?: string }
	/** The answer is the product's, with other bytes. */
	| { readonly bytes: (bytes: Buffer) => Uint8Array }
	/**
	 * The answer is the product's; the connection breaks after so many bytes of its body, with 0
	 * before its first header.
	 */
	| { readonly breaksAfterBytes: number };

export interface Recorder {
	readonly url: string;
	readonly requests: RecordedRequest[];
	/** Asked before each request is passed on. */
	fault: (request: Pick<RecordedRequest, "method" | "path" | "body">) => Fault | undefined;
	stop(): Promise<void>;
}

export async function startRecorder(target: string): Promise<Recorder> {
	const { hostname, port } = new URL(target);
	const requests: RecordedRequest[] = [];
	const server = createServer(async (incoming, answer) => {
		const { method = "", url: path = "", headers } = incoming;
		const body = await buffer(incoming);
		const record = (status: number, bytes: Buffer, ignored?: string) =>
			requests.push({
				method,
				path: decodeURIComponent(path),
				status,
				error: errorOf(status, bytes),
				headers,
				ignored,
				body: body.toString(),
				answer: bytes.toString(),
			});
		const fault = recorder.fault({ method, path, body: body.toString() });
		if (fault !== undefined && "status" in fault) {
			record(fault.status, Buffer.from(fault.body ?? ""));
			answer.writeHead(fault.status, fault.headers).end(fault.body);
			return;
		}
		const outgoing = forward({ hostname, port, method, path, headers }, async (received) => {
			const bytes = await buffer(received);
			const status = received.statusCode ?? 0;
			record(status, bytes, received.headers["x-ignored-fields"]?.toString());
			if (fault === undefined) {
				answer.writeHead(status, received.headers).end(bytes);
			} else if ("bytes" in fault) {
				const changed = fault.bytes(bytes);
				answer.writeHead(status, { ...received.headers, "content-length": changed.length }).end(changed);
			} else if (fault.breaksAfterBytes === 0) {
				answer.destroy();
			} else {
				answer.writeHead(status, { ...received.headers, "content-length": bytes.length });
				answer.write(bytes.subarray(0, fault.breaksAfterBytes), () => answer.destroy());
			}
		});
		outgoing.on("error", () => answer.destroy());
		outgoing.end(body);
	});
	await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
	const recorder: Recorder = {
		url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
		requests,
		fault: () => undefined,
		stop: () =>
			new Promise((resolve) => {
				server.close(() => resolve());
				server.closeAllConnections();
			}),
	};
	return recorder;
}

function errorOf(status: number, body: Buffer): string | undefined {
	if (status < 400) return undefined;
	try {
		return JSON.parse(body.toString()).error;
	} catch {
		return undefined;
	}
}
