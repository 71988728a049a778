/**
 * Stands between a stock client and the product and notes what was asked and answered, so that a test can tell a request that the
 * product does not know from one that it refuses for a reason. Requests and answers pass unchanged.
 */
import { createServer, request as forward } from "node:http";
import type { AddressInfo } from "node:net";
import { buffer } from "node:stream/consumers";

export interface RecordedRequest {
	readonly method: string;
	readonly path: string;
	readonly status: number;
	/** The error code of an answer that has one. */
	readonly error: string | undefined;
}

export interface Recorder {
	readonly url: string;
	readonly requests: RecordedRequest[];
	stop(): Promise<void>;
}

export async function startRecorder(target: string): Promise<Recorder> {
	const { hostname, port } = new URL(target);
	const requests: RecordedRequest[] = [];
	const server = createServer(async (incoming, answer) => {
		const { method = "", url: path = "", headers } = incoming;
		const body = await buffer(incoming);
		const outgoing = forward({ hostname, port, method, path, headers }, async (received) => {
			const bytes = await buffer(received);
			const status = received.statusCode ?? 0;
			requests.push({ method, path: decodeURIComponent(path), status, error: errorOf(status, bytes) });
			answer.writeHead(status, received.headers).end(bytes);
		});
		outgoing.on("error", () => answer.destroy());
		outgoing.end(body);
	});
	await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
	return {
		url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
		requests,
		stop: () =>
			new Promise((resolve) => {
				server.close(() => resolve());
				server.closeAllConnections();
			}),
	};
}

function errorOf(status: number, body: Buffer): string | undefined {
	if (status < 400) return undefined;
	try {
		return JSON.parse(body.toString()).error;
	} catch {
		return undefined;
	}
}
