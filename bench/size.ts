/**
 * `npm run bench:size`: size of the built Worker, and D1 round trips of each endpoint, counted by
 * the Worker itself.
 */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { buildWorker, type WorkerModules } from "../src/operator/build";
import { serveCapstan } from "../src/operator/serve";
import { bundleOf, SMALL_BUNDLE_BYTES } from "./bundle";

const kilobytes = (bytes: number) => `${(bytes / 1000).toFixed(1)} kB`;
const { modules, devicePath } = await buildWorker({ minify: true });
const sizeOf = (part: WorkerModules) => {
	const text = part.map(({ contents }) => contents).join("\n");
	return { bytes: text.length, gzipBytes: gzipSync(text, { level: 9 }).length };
};
const [worker, device] = [sizeOf(modules), sizeOf(devicePath)];

const directory = await mkdtemp(join(tmpdir(), "capstan-bench-"));
const capstan = await serveCapstan({ stateDirectory: directory, port: 0, diagnostics: true });
const trips: [string, number][] = [];

async function send(method: string, path: string, body?: unknown) {
	const url = path.startsWith("http") ? path : `${capstan.url}${path}`;
	const isBytes = body instanceof Uint8Array;
	const response = await fetch(url, {
		method,
		headers: {
			...(path.startsWith("http") || path === "/updates" ? {} : { authorization: capstan.adminKey ?? "" }),
			...(body === undefined || isBytes ? {} : { "content-type": "application/json" }),
		},
		...(body === undefined ? {} : { body: isBytes ? body : JSON.stringify(body) }),
	});
	const text = await response.text();
	if (!response.ok) throw new Error(`${method} ${path}: ${text}`);
	const count = /trips=(\d+)/.exec(response.headers.get("server-timing") ?? "")?.[1];
	trips.push([`${method} ${new URL(url).pathname.replace(/[0-9a-f-]{36}/g, ":id")}`, Number(count)]);
	return text === "" ? undefined : JSON.parse(text);
}

try {
	const app_id = "com.example.bench";
	const [organization] = await send("GET", "/organization");
	await send("POST", "/app", { app_id, name: "Bench", owner_org: organization.id });
	await send("GET", `/app/${app_id}`);
	const key = await send("POST", `/apikey?org_id=${organization.id}`, { name: "bench", hashed: true });
	await send("GET", "/apikey");
	await send("POST", "/channel", { app_id, channel: "production", public: true });
	const { id, upload_url } = await send("POST", "/bundle", { app_id, version: "1.0.1" });
	await send("PUT", upload_url, bundleOf(SMALL_BUNDLE_BYTES));
	await send("POST", "/bundle/complete", { app_id, version: "1.0.1" });
	const channel = await send("GET", `/channel?app_id=${app_id}&channel=production`);
	await send("PUT", "/bundle", { app_id, version_id: id, channel_id: channel.id });
	await send("GET", `/channel?app_id=${app_id}`);
	await send("GET", `/bundle?app_id=${app_id}`);
	await send("POST", "/updates", {
		app_id,
		device_id: "b5a3f9d2-6a60-4f2e-9a57-9f1f1f5a2d61",
		version_name: "builtin",
		version_build: "1.0.0",
		platform: "ios",
		plugin_version: "8.51.23",
	});
	await send("DELETE", `/channel?app_id=${app_id}&channel=production&delete_bundle=true`);
	await send("DELETE", `/bundle?app_id=${app_id}&all=true`);
	await send("DELETE", `/apikey/${key.id}`);
	await send("DELETE", `/app/${app_id}`);
} finally {
	await capstan.stop();
	await rm(directory, { recursive: true, force: true });
}

if (process.argv.includes("--json")) {
	console.log(
		JSON.stringify({
			workerBytes: worker.bytes,
			workerGzipBytes: worker.gzipBytes,
			devicePathGzipBytes: device.gzipBytes,
			d1Trips: Object.fromEntries(trips),
		}),
	);
} else {
	const line = (part: typeof worker) => `${kilobytes(part.bytes)} minified, ${kilobytes(part.gzipBytes)} gzip`;
	console.log(`Worker: ${line(worker)}; loaded by a check of a device: ${line(device)}\n`);
	console.log("D1 round trips");
	for (const [request, count] of trips) console.log(`  ${count}  ${request}`);
}
