/**
 * Requests of the fleet and its operators: keep-alive connections, raw bytes, and a limit of
 * concurrent requests.
 */
import { Agent, type IncomingHttpHeaders, request } from "node:http";

export interface Reply {
	readonly status: number;
	readonly headers: IncomingHttpHeaders;
	readonly bytes: Buffer;
}

export interface Asked {
	readonly method: string;
	/** A path, or a whole link to the product. */
	readonly path: string;
	readonly headers?: Readonly<Record<string, string>>;
	readonly body?: string | Uint8Array;
}

export interface Http {
	readonly requests: number;
	ask(asked: Asked): Promise<Reply>;
	close(): void;
}

/** The server closes a connection after five idle seconds, so this pool drops it earlier. */
const IDLE_MS = 2_000;

export function openHttp(origin: string, connections: number): Http {
	const { hostname, port } = new URL(origin);
	const agent = new Agent({ keepAlive: true, maxSockets: connections, timeout: IDLE_MS });
	/** Idle connections. */
	const used = new WeakSet<object>();
	let requests = 0;

	function send({ method, path, headers = {}, body }: Asked): Promise<Reply> {
		const target = path.startsWith("/") ? path : pathOf(path);
		return new Promise((resolve, reject) => {
			const length = body === undefined ? {} : { "content-length": Buffer.byteLength(body) };
			const sent = request({ agent, hostname, port, method, path: target, headers: { ...headers, ...length } });
			let wasUsed = false;
			sent.on("socket", (socket) => {
				wasUsed = used.has(socket);
				used.add(socket);
			});
			sent.on("error", (error: NodeJS.ErrnoException) => {
				// The server may close a keep-alive connection at any time, here before it read the request.
				const isClosed = wasUsed && error.code === "ECONNRESET";
				if (isClosed) send({ method, path, headers, ...(body === undefined ? {} : { body }) }).then(resolve, reject);
				else reject(new Error(`${method} ${path}: ${error.message}`));
			});
			sent.on("response", (response) => {
				const parts: Buffer[] = [];
				response.on("data", (part: Buffer) => parts.push(part));
				response.on("error", reject);
				response.on("end", () =>
					resolve({ status: response.statusCode ?? 0, headers: response.headers, bytes: Buffer.concat(parts) }),
				);
			});
			sent.end(body);
		});
	}

	return {
		get requests() {
			return requests;
		},
		ask(asked) {
			requests += 1;
			return send(asked);
		},
		close: () => agent.destroy(),
	};
}

function pathOf(link: string): string {
	const { pathname, search } = new URL(link);
	return pathname + search;
}

export function jsonOf<Body>(reply: Reply): Body {
	return JSON.parse(reply.bytes.toString()) as Body;
}
