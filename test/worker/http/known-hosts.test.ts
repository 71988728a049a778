/**
 * Names under which the server answers: nobody gets links or keys for the name of another server,
 * and devices are answered under each.
 */
import { beforeAll, describe, expect, test } from "vitest";
import { createApp } from "../../../src/app";
import type { Deps } from "../../../src/deps";
import { createTestApp, createWorld, requestThrough, type TestApp, type World } from "../support/world";

let world: World;
let app: TestApp;
beforeAll(async () => {
	world = await createWorld();
	app = await createTestApp(world);
});

const localRun: Deps["config"]["localRun"] = { servesNetwork: true, networkAddresses: ["192.168.1.20"] };
const serverOf = (kind: "local" | "deployed", publicUrl?: string) =>
	requestThrough(
		createApp({
			...world.deps,
			config: { ...world.deps.config, publicUrl, localRun: kind === "local" ? localRun : undefined },
		}),
	);
const OWN = "https://updates.example.com";

const CASES: readonly (readonly [
	kind: "local" | "deployed",
	publicUrl: string | undefined,
	url: string,
	known: boolean,
])[] = [
	["local", undefined, "http://localhost:8787", true],
	["local", undefined, "http://capstan.localhost:8787", true],
	["local", undefined, "http://127.0.0.1:3000", true],
	["local", undefined, "http://[::1]:8787", true],
	["local", undefined, "http://192.168.1.20:8787", true],
	["local", undefined, "http://10.0.2.2:8787", true],
	["local", undefined, "http://other-capstan.example", false],
	["local", undefined, "http://localhost.evil.example", false],
	["local", undefined, "http://127.0.0.1.nip.io", false],
	["local", "https://tunnel.example.com", "https://tunnel.example.com", true],
	["local", "https://tunnel.example.com", "http://127.0.0.1:8787", true],
	["local", "https://tunnel.example.com", "https://tunnel.example.com.evil.example", false],
	["deployed", OWN, OWN, true],
	["deployed", OWN, "https://updates.example.com:8443", false],
	["deployed", OWN, "https://capstan.team.workers.dev", true],
	["deployed", OWN, "https://evil.example", false],
	["deployed", OWN, "https://evilworkers.dev", false],
	["deployed", undefined, "https://evil.example", true],
];

describe("a request", () => {
	test.each(CASES)("to a %s server with PUBLIC_URL %s at %s is answered: %s", async (kind, publicUrl, url, known) => {
		const request = serverOf(kind, publicUrl);
		for (const [method, path, options] of [
			["GET", "/organization", { key: world.adminKey }],
			["GET", "/ok", {}],
			["POST", "/oidc/token", { body: { token: "x" } }],
		] as const) {
			const { status, body } = await request(method, `${url}${path}`, options);
			if (known) expect(status, `${method} ${path}`).not.toBe(421);
			else expect({ status, error: body.error }, `${method} ${path}`).toEqual({ status: 421, error: "unknown_host" });
		}
		const device = { app_id: app.appId, device_id: crypto.randomUUID(), platform: "android", version_name: "builtin" };
		const check = await request("POST", `${url}/updates`, {
			body: { ...device, version_build: "1.0.0", plugin_version: "8.51.23", is_emulator: false, is_prod: true },
		});
		expect(check.status, "a device is answered under every name").toBe(200);
	});
});
