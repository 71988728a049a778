/**
 * The connection to a server: the typed client over a fetch that has a time limit and repeats what
 * a lost connection or a busy server interrupted. Every request of the commands is idempotent, so
 * repeating one is safe.
 */
import { connect as connectTo, type Socket } from "node:net";
import { type CapstanClient, createClient } from "../../src/client/client";
import { EXIT, Failure } from "./failure";

const TIME_LIMIT_MS = 120_000;
/** Answers are small, and every one of them is there within seconds. */
const READ_LIMIT_MS = 20_000;
/** A server that is down is reported within three seconds. */
const DOWN_LIMIT_MS = 2_300;
const NOTICE_MS = 200;
const NO_CONNECTION = "no connection";
const NO_ANSWER = "no answer in time";
const MOST_TRIES = 4;
/** The pauses between all tries take two seconds. */
const FIRST_PAUSE_MS = 150;
const LONGEST_PAUSE_MS = 60_000;

export type Send = (url: string, init: RequestInit) => Promise<Response>;

export interface Server {
	/** E.g. `https://updates.example.com`. */
	readonly origin: string;
	readonly api: CapstanClient;
	/** The same for a request that must not be repeated. */
	readonly apiOnce: CapstanClient;
	/** A request with the key, for the endpoints that are not JSON. Throws `server_unreachable`. */
	readonly send: Send;
	/** The same without repetition. */
	readonly sendOnce: Send;
}

export function connect(origin: string, key: string | undefined, version: string): Server {
	const connection = whileConnecting(origin);
	const sendOnce: Send = async (url, init) => {
		const headers = new Headers(init.headers);
		headers.set("user-agent", `capstan-cli/${version}`);
		if (key !== undefined) headers.set("authorization", key);
		const isRead = ["GET", "HEAD"].includes(init.method ?? "GET");
		const { signal, release } = limited(connection.signal, isRead ? READ_LIMIT_MS : TIME_LIMIT_MS);
		try {
			// The key must not follow a redirect to another host.
			const answer = await fetch(url, { ...init, headers, redirect: "manual", signal });
			connection.isThere();
			return answer;
		} catch (cause) {
			throw unreachable(origin, cause);
		} finally {
			release();
		}
	};
	const send = repeating(sendOnce);
	const clientOf = (fetch: Send) => createClient({ baseUrl: origin, fetch: onlyJson(fetch, origin) });
	return { origin, api: clientOf(send), apiOnce: clientOf(sendOnce), send, sendOnce };
}

/** `AbortSignal.any` of Node 20 loses the time limit to the garbage collector. */
export function limited(other: AbortSignal, limitMs: number) {
	const controller = new AbortController();
	setTimeout(() => controller.abort(new DOMException("The answer is late.", "TimeoutError")), limitMs).unref();
	const end = () => controller.abort(other.reason);
	other.addEventListener("abort", end);
	// The time limit stays, for the body of the answer.
	return { signal: controller.signal, release: () => other.removeEventListener("abort", end) };
}

/**
 * Ends the wait for a server that no connection reaches. A slow one keeps its time: the network of
 * this computer accepts a connection at once, however long the answer takes. A proxy hides whether
 * the server is there.
 */
function whileConnecting(origin: string) {
	const { HTTP_PROXY, HTTPS_PROXY, http_proxy, https_proxy } = process.env;
	const isDirect = (HTTP_PROXY || HTTPS_PROXY || http_proxy || https_proxy || "") === "";
	const { hostname, port, protocol } = new URL(origin);
	const controller = new AbortController();
	let timer: NodeJS.Timeout | undefined;
	let probe: Socket | undefined;
	const end = () => {
		clearTimeout(timer);
		probe?.destroy();
	};
	if (isDirect) {
		const host = hostname.replace(/^\[|\]$/g, "");
		probe = connectTo({ host, port: Number(port) || (protocol === "https:" ? 443 : 80) });
		probe.unref();
		probe.once("connect", end);
		// The request reports a refusal by itself, and is tried again.
		probe.once("error", end);
		const giveUp = () => {
			end();
			controller.abort(Object.assign(new Error("The server cannot be reached."), { name: NO_CONNECTION }));
		};
		// After a long computation, the connection may be there and not yet noticed.
		timer = setTimeout(() => {
			timer = setTimeout(giveUp, NOTICE_MS).unref();
		}, DOWN_LIMIT_MS).unref();
	}
	return { signal: controller.signal, isThere: end };
}

/**
 * @throws {Failure} `server_unreachable` before anything waits for a server that does not answer
 */
export async function refuseDown(origin: string, version: string): Promise<void> {
	await connect(origin, undefined, version).api("GET /ok");
}

/** Repeats a request that got no answer, or 429 or 503. The last answer counts. */
export function repeating(sendOnce: Send, pause: (ms: number) => Promise<void> = sleep): Send {
	return async (url, init) => {
		for (let tried = 1; ; tried++) {
			let response: Response;
			try {
				response = await sendOnce(url, init);
			} catch (error) {
				const reason = error instanceof Failure ? error.details.reason : undefined;
				const isDown = reason === NO_CONNECTION || reason === NO_ANSWER;
				if (tried >= MOST_TRIES || isDown) throw error;
				await pause(FIRST_PAUSE_MS * 2 ** tried);
				continue;
			}
			if (tried >= MOST_TRIES || !isBusy(response.status)) return response;
			await response.arrayBuffer();
			await pause(retryAfterMs(response) ?? FIRST_PAUSE_MS * 2 ** tried);
		}
	};
}

/**
 * A proxy or a captive portal may answer 200 with a page, which must not count as done, or redirect
 * to another server.
 */
export function onlyJson(send: Send, origin: string): Send {
	return async (url, init) => {
		const response = await send(url, init);
		refuseRedirect(response, origin);
		const type = response.headers.get("content-type") ?? "";
		if (!response.ok || type.startsWith("application/json")) return response;
		throw new Failure(
			"not_capstan",
			`The answer from ${origin} is not from Capstan (${type === "" ? "no content type" : type}), so the result of this request is unknown. Check the address and any proxy, then try again.`,
			EXIT.unreachable,
			{ server: origin },
		);
	};
}

/** An address with `http:` and the former name of a server redirect. */
function refuseRedirect({ status, headers }: Response, origin: string): void {
	const location = headers.get("location") ?? "";
	if (status < 300 || status > 399 || !URL.canParse(location, origin)) return;
	const target = new URL(location, origin).origin;
	const remedy =
		target === origin ? "Check the address and any proxy." : `If that is your server, pass --server ${target}.`;
	throw new Failure(
		"server_redirects",
		`${origin} redirects to ${target === origin ? new URL(location, origin).pathname : target}, and a key never follows. ${remedy}`,
		EXIT.usage,
		{ server: origin, location: target },
	);
}

const isBusy = (status: number) => status === 429 || status === 502 || status === 503 || status === 504;

function retryAfterMs(response: Response): number | undefined {
	const seconds = Number(response.headers.get("retry-after") ?? Number.NaN);
	return Number.isFinite(seconds) && seconds >= 0 ? Math.min(seconds * 1000, LONGEST_PAUSE_MS) : undefined;
}

export const sleep = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));

function unreachable(origin: string, cause: unknown): Failure {
	const inner = (cause as { readonly cause?: { readonly code?: string; readonly message?: string } }).cause;
	const isLate = cause instanceof Error && cause.name === "TimeoutError";
	const failed = inner?.code ?? inner?.message ?? (cause instanceof Error ? cause.name : "no answer");
	const reason = isLate ? NO_ANSWER : failed;
	const isLocal = /^https?:\/\/(localhost|127\.|\[::1\])/.test(origin);
	const remedy = isLocal ? "start the server with npm start" : "check the address and your network";
	return new Failure(
		"server_unreachable",
		`${origin} does not answer (${reason}); ${remedy}, then try again.`,
		EXIT.unreachable,
		{ server: origin, reason },
	);
}

/** Runs the work for each item, a few at a time, and stops at the first failure. */
export async function eachOf<Item>(
	items: readonly Item[],
	atOnce: number,
	work: (item: Item) => Promise<void>,
): Promise<void> {
	let next = 0;
	let hasFailed = false;
	const worker = async () => {
		while (next < items.length && !hasFailed) {
			const item = items[next] as Item;
			next += 1;
			try {
				await work(item);
			} catch (error) {
				hasFailed = true;
				throw error;
			}
		}
	};
	await Promise.all(Array.from({ length: Math.min(atOnce, items.length) }, worker));
}

/** The address of a page of the dashboard; each part of the path is one step of it. */
export const dashboardPage = ({ origin }: Pick<Server, "origin">, ...path: readonly string[]): string =>
	`${origin}/dashboard/${path.map(encodeURIComponent).join("/")}`;

/**
 * The address of the server's newest package of this command, whose bytes never change. Jobs name
 * it, so that they run the same command after an upgrade of the server.
 * @throws {Failure} `server_unreachable`; `not_capstan` if the server offers no command
 */
export async function packageAddress(origin: string, version: string): Promise<string> {
	const { send } = connect(origin, undefined, version);
	const location = (await send(`${origin}/capstan.tgz`, { method: "HEAD" })).headers.get("location") ?? "";
	const path = URL.canParse(location, origin) ? new URL(location, origin).pathname : "";
	// The server may know another name of itself than the one that reaches it.
	if (/^\/command\/capstan-[\w.+-]+\.tgz$/.test(path)) return origin + path;
	throw new Failure(
		"not_capstan",
		`${origin} offers no capstan command, which the jobs would run. Check the address and any proxy, or pass --ci none.`,
		EXIT.unreachable,
		{ server: origin },
	);
}
