/**
 * Secrets of the environment reach only a server that the person named: a project, whose
 * configuration names one, may be anybody's.
 */
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { storeKey } from "../../cli/src/credentials";
import { runCommand } from "../../cli/src/run";

const SECRET = "cap_secret_of_the_environment";
let server: Server;
let origin: string;
let home: string;
let received: string[] = [];

beforeAll(async () => {
	server = createServer((request, response) => {
		let body = "";
		request.on("data", (chunk) => {
			body += chunk;
		});
		request.on("end", () => {
			received.push(`${request.headers.authorization ?? ""} ${body}`);
			response.writeHead(403, { "content-type": "application/json" });
			response.end(JSON.stringify({ error: "permission_denied", message: "no", requestId: "1" }));
		});
	});
	await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
	origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
});
afterAll(() => server.close());
beforeEach(async () => {
	received = [];
	if (home !== undefined) await rm(home, { recursive: true });
	home = await mkdtemp(join(tmpdir(), "capstan-secrets-"));
	const config = { appId: "com.example.app", plugins: { CapacitorUpdater: { updateUrl: `${origin}/updates` } } };
	await writeFile(join(home, "capacitor.config.json"), JSON.stringify(config));
	await writeFile(join(home, "package.json"), JSON.stringify({ name: "cloned", version: "1.0.0" }));
});

const run = async (words: readonly string[], environment: Record<string, string> = {}) => {
	const error: string[] = [];
	const code = await runCommand([...words, "--json"], {
		out: { write: (text) => error.push(text) },
		error: { write: (text) => error.push(text) },
		environment: { HOME: home, ...environment },
		directory: home,
	});
	return { code, text: error.join("") };
};
const idToken = (aud: unknown) =>
	`e30.${Buffer.from(JSON.stringify({ aud })).toString("base64url")}.${Buffer.from("signature").toString("base64url")}`;

test.each([
	["CAPSTAN_TOKEN", { CAPSTAN_TOKEN: SECRET }, []],
	["CAPGO_TOKEN", { CAPGO_TOKEN: SECRET }, []],
	["--key", {}, ["--key", SECRET]],
] as const)("%s is not sent to a server that only the project names", async (_, environment, words) => {
	const refused = await run(["status", ...words], environment);
	expect(refused.code).not.toBe(0);
	expect(refused.text).toContain("server_not_confirmed");
	expect(refused.text).not.toContain(SECRET);
	expect(received).toEqual([]);
});

test.each([
	["--server", {}, true],
	["CAPSTAN_SERVER", { server: true }, false],
] as const)("a key is sent to the server of %s", async (_, named, byOption) => {
	const environment = { CAPSTAN_TOKEN: SECRET, ...("server" in named ? { CAPSTAN_SERVER: origin } : {}) };
	await run(["status", ...(byOption ? ["--server", origin] : [])], environment);
	expect(received.join()).toContain(SECRET);
});

test("a key is sent to a server that a key was stored for, and a stored one to its own server only", async () => {
	await storeKey({ HOME: home }, origin, "cap_stored");
	await run(["status"]);
	expect(received.join()).toContain("cap_stored");
	received = [];
	await run(["status"], { CAPSTAN_TOKEN: SECRET });
	expect(received.join()).toContain(SECRET);
	received = [];
	await storeKey({ HOME: home }, origin, undefined);
	await storeKey({ HOME: home }, "https://updates.example.com", "cap_stored");
	await run(["status"]);
	expect(received).toEqual([]);
});

test.each([
	["the server", () => origin, true],
	["the server with a path", () => `${origin}/`, true],
	["a list with another server", () => [origin, "https://updates.example.com"], false],
	["another server", () => "https://updates.example.com", false],
	["no server", () => undefined, false],
])("a ready-made identity token for %s is sent to the server in its audience only", async (_, aud, isSent) => {
	const token = idToken(aud());
	await run(["status", "--server", origin], { CAPSTAN_ID_TOKEN: token });
	expect(received.join().includes(token)).toBe(isSent);
});
