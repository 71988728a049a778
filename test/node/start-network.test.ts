/**
 * `npm start -- --lan` and HOST: which addresses a run serves, and that a phone downloads from the
 * address that it asked.
 */
import { execFile } from "node:child_process";
import { mkdtemp, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { describe, expect, test } from "vitest";
import { hostToServe, networkAddresses } from "../../src/operator/network";
import { serveCapstan } from "../../src/operator/serve";
import { LAST_LINE, startScene, URL_PATTERN } from "./support/npm-start";
import { makeZip } from "./support/product";

const scene = startScene();
/** An address of this machine that is not loopback, as phones see it. */
const [networkAddress] = networkAddresses();

/** A phone downloads a bundle, alternately by both addresses, because answers are cached. */
async function expectServed(local: string, network: string, key: string): Promise<void> {
	const send = async (origin: string, method: string, path: string, body?: object) => {
		const headers = { authorization: key, "content-type": "application/json" };
		const response = await fetch(`${origin}${path}`, { method, headers, body: JSON.stringify(body) ?? null });
		return response.json() as Promise<{ id: string; upload_url: string; url: string }>;
	};
	const [{ id }] = (await send(local, "GET", "/organization")) as unknown as [{ id: string }];
	await send(local, "POST", "/app", { app_id: "com.example.phone", name: "Phone", owner_org: id });
	const { upload_url } = await send(local, "POST", "/bundle", { app_id: "com.example.phone", version: "1.0.1" });
	const zip = makeZip("1.0.1");
	await fetch(upload_url, { method: "PUT", body: zip });
	const channel = { app_id: "com.example.phone", channel: "main", version: "1.0.1", public: true };
	await send(local, "POST", "/channel", channel);
	const check = {
		app_id: "com.example.phone",
		device_id: "b5a3f9d2-6a60-4f2e-9a57-9f1f1f5a2d61",
		platform: "android",
		version_name: "builtin",
		version_build: "1.0.0",
		plugin_version: "8.51.23",
	};
	for (const origin of [local, network, local, network]) {
		const { url } = await send(origin, "POST", "/updates", check);
		expect(new URL(url).origin).toBe(origin);
		expect(new Uint8Array(await (await fetch(url)).arrayBuffer())).toEqual(zip);
	}
	expect(await send(local, "GET", "/service/addresses")).toContainEqual({
		kind: "network",
		url: network,
		reachable: true,
	});
	// A key that is limited to loopback does not grant access from the network.
	const { key: limited } = (await send(local, "POST", "/apikey", {
		name: "loopback",
		ip_allow_list: ["127.0.0.1"],
		bindings: [{ role_name: "org_member", scope_type: "org", org_id: id }],
	})) as unknown as { key: string };
	expect((await fetch(`${network}/app`, { headers: { authorization: limited } })).status).toBe(403);
	// Browsers do not sign in over plain HTTP; the page names the address where they do.
	const page = await fetch(`${network}/`, { headers: { accept: "text/html" }, redirect: "manual" });
	expect(page.headers.get("location")).toBe(`${network}/sign-in`);
}

describe("npm start in the network", () => {
	test("serves loopback only by default", async () => {
		const product = await serveCapstan({ stateDirectory: await scene.copiedState(), port: 0 });
		expect(product.networkUrls).toEqual([]);
		if (networkAddress !== undefined) {
			await expect(fetch(product.url.replace("127.0.0.1", networkAddress))).rejects.toThrow();
		}
		await product.stop();
	});

	test.runIf(networkAddress !== undefined)(
		"--lan: prints the network's address as a QR code, and a phone downloads a bundle from it",
		async () => {
			const state = await scene.copiedState();
			const run = scene.start({ CAPSTAN_STATE: state }, "--lan");
			await run.until(LAST_LINE);
			const local = URL_PATTERN.exec(run.output())?.[0] ?? "";
			const network = local.replace("localhost", networkAddress ?? "");
			expect(run.output()).toContain(network);
			expect(run.output(), "a QR code").toMatch(/[▄▀█]{5}/);
			await expectServed(local, network, (await readFile(join(state, "admin.key"), "utf8")).trim());
			await run.stop();
		},
	);

	test("npm start --lan, which npm reads as -l -a -n, names the form that serves the network", async () => {
		const folder = await mkdtemp(join(scene.directory(), "npm-"));
		const start = 'node -p "JSON.stringify(process.env)"';
		await writeFile(join(folder, "package.json"), JSON.stringify({ scripts: { start } }));
		const { stdout } = await promisify(execFile)("npm", ["--silent", "start", "--lan"], { cwd: folder });
		const given = Object.entries(JSON.parse(stdout) as Record<string, string>).filter(([name]) =>
			name.startsWith("npm_"),
		);
		const run = scene.start({ ...Object.fromEntries(given), CAPSTAN_STATE: await scene.copiedState() });
		await run.until(LAST_LINE);
		expect(run.output()).toContain("npm start -- --lan");
		await run.stop();
	});

	test("HOST=0.0.0.0 is the same as --lan", () => {
		expect(hostToServe("0.0.0.0", false)).toBe(hostToServe("", true));
	});

	test.runIf(networkAddress !== undefined)(
		"HOST with an address of this machine: a phone downloads a bundle from that address",
		async () => {
			const host = hostToServe(networkAddress ?? "", false);
			const product = await serveCapstan({ stateDirectory: await scene.copiedState(), port: 0, host });
			const network = product.pageUrl.replace("localhost", host);
			expect(product.networkUrls).toEqual([network]);
			await expectServed(product.pageUrl, network, product.adminKey ?? "");
			await product.stop();
		},
	);

	test("the most likely address of a phone's network comes first", () => {
		const entry = (address: string, internal = false) => [
			{ address, internal, family: "IPv4" as const, netmask: "", mac: "", cidr: null },
		];
		const interfaces = {
			lo: entry("127.0.0.1", true),
			docker0: entry("172.17.0.1"),
			eth1: entry("169.254.3.4"),
			wlan0: entry("192.168.1.20"),
		};
		expect(networkAddresses(interfaces)).toEqual(["192.168.1.20", "172.17.0.1"]);
	});
});
