/**
 * The browser hand-over of `capstan login`: a page of the dashboard creates a key and navigates to
 * a page of this process with the key in the fragment, which browsers send to nobody. That page
 * posts it back to this process.
 *
 * - Another site that found the port knows neither the state nor may it post: the state has 256
 *   bits, and `Origin` and `Host` must be this process. The check of `Host` also ends DNS
 *   rebinding.
 * - One key is accepted, within five minutes, on 127.0.0.1 only.
 * - A person who is lured to the address of somebody else's command hands the key to their own
 *   computer at most. The page of the dashboard names the computer and says that a command asks.
 */
import { spawn } from "node:child_process";
import { createHash, randomBytes, timingSafeEqual } from "node:crypto";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { hostname } from "node:os";
import { dashboardPage } from "./api";
import { EXIT, Failure } from "./failure";

export const HAND_OVER_MINUTES = 5;
const MOST_BYTES = 4_096;
const LONGEST_NAME = 64;

const SCRIPT = `const sent = new URLSearchParams(location.hash.slice(1));
history.replaceState(null, "", "/");
const say = (text) => { document.querySelector("p").textContent = text; };
if (!sent.has("key")) say("This address is complete only when the dashboard opens it. Run capstan login again.");
else fetch("/key", { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(Object.fromEntries(sent)) })
	.then(({ ok }) => say(ok ? "The key arrived. You can close this page and return to the terminal." : "This command did not ask for the key, or has one. Delete the key in the dashboard, and run capstan login again."))
	.catch(() => say("The command is no longer running. Delete the key in the dashboard, then run capstan login again."));`;
const PAGE = `<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>capstan login</title><h1>capstan login</h1><p role="status">One moment…</p><script>${SCRIPT}</script></html>`;
const HEADERS = {
	"content-security-policy": `default-src 'none'; script-src 'sha256-${createHash("sha256").update(SCRIPT).digest("base64")}'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'`,
	"referrer-policy": "no-referrer",
	"cache-control": "no-store",
	"x-content-type-options": "nosniff",
	"cross-origin-opener-policy": "same-origin",
	"cross-origin-resource-policy": "same-origin",
	connection: "close",
};

export interface HandOver {
	/** The page of the dashboard, for a person who is signed in there. */
	readonly address: string;
	/** @throws {Failure} `login_timeout` */
	readonly key: Promise<string>;
	stop(): void;
}

/** @param timeLimitMs for tests */
export async function startHandOver(origin: string, timeLimitMs = HAND_OVER_MINUTES * 60_000): Promise<HandOver> {
	const state = randomBytes(32).toString("base64url");
	const server = createServer();
	await new Promise<void>((resolve, reject) => {
		server.once("error", reject);
		server.listen(0, "127.0.0.1", resolve);
	});
	const { port } = server.address() as AddressInfo;
	const stop = () => {
		clearTimeout(timer);
		server.close();
	};
	let timer: NodeJS.Timeout | undefined;
	const key = new Promise<string>((resolve, reject) => {
		const failure = () =>
			new Failure(
				"login_timeout",
				`Nobody confirmed in the dashboard within ${Math.ceil(timeLimitMs / 60_000)} minutes; run capstan login again.`,
				EXIT.denied,
			);
		timer = setTimeout(() => {
			stop();
			reject(failure());
		}, timeLimitMs);
		let isUsed = false;
		server.on("request", async (request, response) => {
			const given = await keyIn(request, port, state).catch(() => undefined);
			if (given === undefined) return answerPage(request, response, port);
			if (isUsed) return answer(response, 403);
			isUsed = true;
			response.once("close", () => {
				stop();
				resolve(given);
			});
			answer(response, 204);
		});
	});
	// It may fail before anybody waits for it.
	key.catch(() => undefined);
	const name = hostname().slice(0, LONGEST_NAME);
	const query = new URLSearchParams({ port: String(port), state, name });
	return { address: `${dashboardPage({ origin }, "connect", "cli")}?${query}`, key, stop };
}

/** The key of a request that may give one. */
async function keyIn(request: IncomingMessage, port: number, state: string): Promise<string | undefined> {
	const { host, origin, "content-type": type } = request.headers;
	const own = `127.0.0.1:${port}`;
	if (request.method !== "POST" || request.url !== "/key") return undefined;
	if (host !== own || origin !== `http://${own}` || type !== "application/json") return undefined;
	let text = "";
	for await (const chunk of request) {
		text += chunk;
		if (text.length > MOST_BYTES) return undefined;
	}
	const sent = JSON.parse(text) as { readonly key?: unknown; readonly state?: unknown };
	if (typeof sent.key !== "string" || typeof sent.state !== "string") return undefined;
	return isEqual(sent.state, state) && /^[\x21-\x7e]+$/.test(sent.key) ? sent.key : undefined;
}

const digestOf = (text: string) => createHash("sha256").update(text).digest();
const isEqual = (one: string, other: string) => timingSafeEqual(digestOf(one), digestOf(other));

function answerPage(request: IncomingMessage, response: ServerResponse, port: number): void {
	const isPage = request.method === "GET" && request.url === "/" && request.headers.host === `127.0.0.1:${port}`;
	if (isPage) response.writeHead(200, { ...HEADERS, "content-type": "text/html; charset=utf-8" }).end(PAGE);
	else answer(response, 403);
}

const answer = (response: ServerResponse, status: number) => void response.writeHead(status, HEADERS).end();

type Environment = Readonly<Record<string, string | undefined>>;

/**
 * Opens the address in the person's browser if this computer shows one. The address is printed as
 * well, so a failure does no harm.
 */
export function openBrowser(address: string, environment: Environment): void {
	const { DISPLAY, WAYLAND_DISPLAY, SSH_CONNECTION } = environment;
	const isRemote = (SSH_CONNECTION ?? "") !== "";
	const hasDisplay = process.platform !== "linux" || (DISPLAY || WAYLAND_DISPLAY || "") !== "";
	if (isRemote || !hasDisplay) return;
	const [program, ...words] =
		process.platform === "darwin"
			? ["open"]
			: process.platform === "win32"
				? ["rundll32", "url.dll,FileProtocolHandler"]
				: ["xdg-open"];
	const child = spawn(program ?? "", [...words, address], { stdio: "ignore", detached: true });
	child.on("error", () => undefined);
	child.unref();
}
