/**
 * Failed updates by cause, from what the plugins report to what GET
 * /statistics/app/:app_id/failures answers.
 */
import { beforeEach, describe, expect, test } from "vitest";
import { consume } from "../../../src/consumer";
import { isolate } from "../support/isolates";
import {
	createTestApp,
	createWorld,
	setTestChannel,
	type TestApp,
	uploadTestBundle,
	type World,
} from "../support/world";

let world: World;
let app: TestApp;
beforeEach(async () => {
	world = await createWorld();
	app = await createTestApp(world);
	for (const version of ["1.0.1", "1.0.2"]) await uploadTestBundle(world, app, version);
	await setTestChannel(world, app, "production", { version: "1.0.1", public: true });
});

let devices = 0;
const newDevice = () => `00000000-0000-4000-9000-${String(++devices).padStart(12, "0")}`;
const of = (device_id: string, fields: Record<string, unknown> = {}) => ({
	app_id: app.appId,
	device_id,
	platform: "android",
	version_name: "builtin",
	version_build: "1.0.0",
	version_os: "15",
	plugin_version: "8.51.23",
	is_emulator: false,
	is_prod: true,
	...fields,
});
const check = (device: string) => world.request("POST", "/updates", { body: of(device) });
const report = (device: string, action: string, version_name: string, through: Pick<World, "request"> = world) =>
	through.request("POST", "/stats", { body: of(device, { action, version_name }) });
async function failures(query: Record<string, string> = {}) {
	const messages = world.deps.sent.map((body) => ({ body })) as never;
	await consume(world.deps, { messages });
	// The queue delivers a message at least once.
	await consume(world.deps, { messages });
	world.deps.sent.length = 0;
	const { status, body } = await world.request("GET", `/statistics/app/${app.appId}/failures`, {
		key: world.adminKey,
		query,
	});
	expect(status).toBe(200);
	return body as {
		readonly total: Record<string, number>;
		readonly byBundle: readonly ({ readonly version: string } & Record<string, number | string>)[];
	};
}
const NONE = { download: 0, file: 0, checksum: 0, decrypt: 0, unzip: 0, space: 0, refused: 0, app: 0 };

const ACTIONS: readonly (readonly [action: string, cause: keyof typeof NONE])[] = [
	["download_fail", "download"],
	["finish_download_fail", "download"],
	["download_manifest_file_fail", "file"],
	["download_manifest_brotli_fail", "file"],
	["manifest_path_fail", "file"],
	["checksum_fail", "checksum"],
	["checksum_required", "checksum"],
	["download_manifest_checksum_fail", "checksum"],
	["decrypt_fail", "decrypt"],
	["session_key_required", "decrypt"],
	["keyMismatch", "decrypt"],
	["unzip_fail", "unzip"],
	["windows_path_fail", "unzip"],
	["canonical_path_fail", "unzip"],
	["directory_path_fail", "unzip"],
	["insufficient_disk_space", "space"],
	["low_mem_fail", "space"],
	["blocked_by_server_url", "refused"],
	["backend_refusal", "refused"],
	["disableAutoUpdateToMajor", "refused"],
	["NoChannelOrOverride", "refused"],
	["set_fail", "app"],
	["update_fail", "app"],
];

describe("GET /statistics/app/:app_id/failures", () => {
	test.each(ACTIONS)("counts %s as %s, for the bundle that the report names", async (action, cause) => {
		const device = newDevice();
		await check(device);
		await report(device, action, action.includes("manifest") ? "1.0.1:assets/app.js" : "1.0.1");
		const expected = { ...NONE, [cause]: 1 };
		expect(await failures()).toEqual({ total: expected, byBundle: [{ version: "1.0.1", ...expected }] });
		expect((await failures({ version: "1.0.2" })).total).toEqual(NONE);
	});

	test("counts no success and no other report", async () => {
		const device = newDevice();
		await check(device);
		for (const action of ["download_complete", "set", "reset", "ping", "delete", "app_crash", "constructor"]) {
			await report(device, action, "1.0.1");
		}
		expect(await failures()).toEqual({ total: NONE, byBundle: [] });
	});

	test("counts a device once per cause, bundle and day, over isolates and repeated messages", async () => {
		const device = newDevice();
		const isolates = [isolate(world), isolate(world)];
		await check(device);
		for (let file = 0; file < 20; file++) {
			await report(device, "download_manifest_file_fail", `1.0.1:file-${file}`, isolates[file % 2]);
			world.clock.nowMs += 7_000;
			if (file === 9) await failures();
		}
		await report(device, "unzip_fail", "1.0.1");
		expect((await failures()).total).toEqual({ ...NONE, file: 1, unzip: 1 });
		world.clock.nowMs += 24 * 60 * 60_000;
		await report(device, "unzip_fail", "1.0.1");
		expect((await failures()).total).toEqual({ ...NONE, file: 1, unzip: 2 });
	});

	test("counts a failure that names the running bundle for the bundle that was offered", async () => {
		const device = newDevice();
		await check(device);
		await report(device, "checksum_fail", "builtin");
		expect((await failures()).byBundle).toEqual([{ version: "1.0.1", ...NONE, checksum: 1 }]);
	});

	test("counts versions that the app never had together", async () => {
		const device = newDevice();
		await check(device);
		await report(device, "unzip_fail", "9.9.9");
		expect((await failures()).byBundle).toEqual([{ version: "unknown", ...NONE, unzip: 1 }]);
	});

	test("lists the bundle with most failures first, also as CSV", async () => {
		for (const [version, count] of [
			["1.0.1", 1],
			["1.0.2", 3],
		] as const) {
			for (let index = 0; index < count; index++) {
				const device = newDevice();
				await check(device);
				await report(device, "unzip_fail", version);
			}
		}
		expect((await failures()).byBundle.map(({ version }) => version)).toEqual(["1.0.2", "1.0.1"]);
		const { body } = await world.request("GET", `/statistics/app/${app.appId}/failures`, {
			key: world.adminKey,
			query: { format: "csv" },
		});
		expect(new TextDecoder().decode(body as never)).toBe(
			"bundle,download,file,checksum,decrypt,unzip,space,refused,app\r\n1.0.2,0,0,0,0,3,0,0,0\r\n1.0.1,0,0,0,0,1,0,0,0\r\n",
		);
	});
});
