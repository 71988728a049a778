/** The loopback page of `capstan login`: which requests hand a key over, and which do not. */
import { request } from "node:http";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { type HandOver, startHandOver } from "../../cli/src/browser-login";

let handOver: HandOver;
let port: string;
let state: string;
beforeEach(async () => {
	handOver = await startHandOver("https://updates.example.com");
	const { searchParams } = new URL(handOver.address);
	port = searchParams.get("port") ?? "";
	state = searchParams.get("state") ?? "";
});
afterEach(() => handOver.stop());

interface Answer {
	readonly status: number;
	readonly headers: Readonly<Record<string, unknown>>;
	readonly body: string;
}

const asked = (method: string, path: string, headers: Record<string, string>, body = "") =>
	new Promise<Answer>((resolve, reject) => {
		const sent = request({ host: "127.0.0.1", port, method, path, headers }, (response) => {
			let text = "";
			response.on("data", (chunk) => {
				text += chunk;
			});
			response.on("end", () => resolve({ status: response.statusCode ?? 0, headers: response.headers, body: text }));
		});
		sent.once("error", reject);
		sent.end(body);
	});

const own = () => ({
	host: `127.0.0.1:${port}`,
	origin: `http://127.0.0.1:${port}`,
	"content-type": "application/json",
});
const post = (headers: Record<string, string> = {}, body: object = { key: "cap_handed_over", state }) =>
	asked("POST", "/key", { ...own(), ...headers }, JSON.stringify(body));

test("the address names the port, the computer and a state, and no key", () => {
	const { origin, pathname, searchParams } = new URL(handOver.address);
	expect(`${origin}${pathname}`).toBe("https://updates.example.com/dashboard/connect/cli");
	expect([...searchParams.keys()]).toEqual(["port", "state", "name"]);
	expect(state).toMatch(/^[\w-]{43}$/);
});

test("the page runs only its own script, and appears in no cache, frame or referrer", async () => {
	const { status, headers, body } = await asked("GET", "/", own());
	expect(status).toBe(200);
	expect(headers).toMatchObject({
		"content-security-policy": expect.stringMatching(
			/^default-src 'none'; script-src 'sha256-[^']+'; connect-src 'self'/,
		),
		"referrer-policy": "no-referrer",
		"cache-control": "no-store",
	});
	expect(headers["content-security-policy"]).toContain("frame-ancestors 'none'");
	expect(body).not.toContain(state);
});

test("a key with the right state is accepted once", async () => {
	expect((await post()).status).toBe(204);
	expect(await handOver.key).toBe("cap_handed_over");
	await expect(post({}, { key: "cap_second", state })).rejects.toThrow("ECONNREFUSED");
});

describe("refuses a request and keeps waiting", () => {
	test.each<[string, () => Promise<Answer>]>([
		["a wrong state", () => post({}, { key: "cap_other", state: "A".repeat(43) })],
		["no state", () => post({}, { key: "cap_other" })],
		["a page of another port", () => post({ origin: "http://127.0.0.1:8080" })],
		["a page of another site", () => post({ origin: "https://evil.example.com" })],
		["a page without an origin", () => post({ origin: "null" })],
		["DNS rebinding", () => post({ host: `evil.example.com:${port}`, origin: `http://evil.example.com:${port}` })],
		["DNS rebinding of the page", () => asked("GET", "/", { ...own(), host: `evil.example.com:${port}` })],
		["localhost", () => post({ host: `localhost:${port}`, origin: `http://localhost:${port}` })],
		["a form", () => post({ "content-type": "text/plain" })],
		["a key in the query string", () => asked("GET", `/?key=cap_other&state=${state}`, own())],
		["a body that is too long", () => post({}, { key: "k".repeat(5_000), state })],
		["no JSON", () => asked("POST", "/key", own(), "key=cap_other")],
	])("%s", async (_, attack) => {
		const { status, body } = await attack();
		expect([status, body]).toEqual([403, ""]);
		expect((await post()).status).toBe(204);
		expect(await handOver.key).toBe("cap_handed_over");
	});
});

test("ends with login_timeout if no key arrives in time", async () => {
	const short = await startHandOver("https://updates.example.com", 1);
	await expect(short.key).rejects.toMatchObject({ code: "login_timeout", exitCode: 4 });
});
