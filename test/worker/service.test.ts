/**
 * The service about itself: where a browser and a program go from the bare address, and the addresses at which apps reach a local run.
 */
import { expect, test } from "vitest";
import { createWorld } from "./support/world";

const BROWSER = { accept: "text/html,application/xhtml+xml,*/*;q=0.8" };

test.each([
	["https://updates.example.com", "https://updates.example.com/dashboard/"],
	["http://localhost:8787", "http://localhost:8787/dashboard/"],
	// Sessions and passkeys of a local run belong to one host.
	["http://127.0.0.1:8787", "http://localhost:8787/dashboard/"],
	["http://[::1]:8787", "http://localhost:8787/dashboard/"],
	// Nobody can sign in over plain HTTP; the page says where they can.
	["http://192.168.1.20:8787", "http://192.168.1.20:8787/sign-in"],
])("GET %s/ leads a browser to %s", async (origin, location) => {
	const world = await createWorld();
	const answer = await world.request("GET", `${origin}/`, { headers: BROWSER });
	expect(answer.status).toBe(302);
	expect(answer.headers.get("location")).toBe(location);
	expect(answer.headers.get("vary")).toBe("Accept");
});

test.each([undefined, "*/*", "application/json"])("GET / with accept %s answers with the paths", async (accept) => {
	const world = await createWorld();
	const answer = await world.request("GET", "/", { headers: accept === undefined ? {} : { accept } });
	expect(answer.status).toBe(200);
	expect(answer.body).toEqual({ name: "Capstan", dashboard: "/dashboard/", docs: "/docs", openapi: "/openapi.json" });
});

test("GET /service/addresses of a deployment lists its public address", async () => {
	const world = await createWorld({ config: { PUBLIC_URL: "https://live.example.com" } });
	const { body } = await world.request("GET", "/service/addresses", { key: world.adminKey });
	expect(body).toEqual([{ kind: "public", url: "https://live.example.com", reachable: true }]);
});

test.each([
	["loopback", false],
	["network", true],
])("GET /service/addresses of a run that serves %s says whether phones reach it", async (run, reachable) => {
	const config = { CAPSTAN_LOCAL_RUN: run, CAPSTAN_NETWORK_ADDRESSES: "192.168.1.20,10.0.0.7" };
	const world = await createWorld({ config });
	const { body } = await world.request("GET", "http://127.0.0.1:8787/service/addresses", { key: world.adminKey });
	expect(body).toEqual([
		{ kind: "this_computer", url: "http://localhost:8787", reachable: true },
		{ kind: "android_emulator", url: "http://10.0.2.2:8787", reachable: true },
		{ kind: "network", url: "http://192.168.1.20:8787", reachable },
		{ kind: "network", url: "http://10.0.0.7:8787", reachable },
	]);
});

test.each([
	[{}, { code: true, code_delivery: "terminal" }],
	[
		{ MAIL_PROVIDER: "resend", MAIL_FROM: "a@example.com", MAIL_API_KEY: "key" },
		{ code: true, code_delivery: "email" },
	],
	[{ CAPSTAN_MAIL_TO_TERMINAL: "" }, { code: false, code_delivery: null }],
])("GET /sign-in/methods with %j says where a code is found", async (config, methods) => {
	const world = await createWorld({ config });
	expect((await world.request("GET", "/sign-in/methods")).body).toMatchObject(methods);
});
