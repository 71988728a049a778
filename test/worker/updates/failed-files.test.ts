/**
 * A device on which the single files of a bundle failed twice is offered its zip: by histories of
 * what plugins report, in any isolate, bounded against invented devices. The plugin never falls
 * back by itself.
 */
import { beforeEach, describe, expect, test } from "vitest";
import { consume } from "../../../src/consumer";
import { runJobs } from "../../../src/schedule";
import { addTestFiles, removeTestZip } from "../support/delta-files";
import { isolate } from "../support/isolates";
import {
	createTestApp,
	createWorld,
	setTestChannel,
	type TestApp,
	testEnv,
	uploadTestBundle,
	type World,
} from "../support/world";

const MINUTE_MS = 60_000;
let world: World;
let app: TestApp;
const ids: Record<string, number> = {};
beforeEach(async () => {
	world = await createWorld();
	app = await createTestApp(world);
	isolates = [isolate(world), isolate(world)];
	for (const version of ["1.0.1", "1.0.2"]) {
		ids[version] = await uploadTestBundle(world, app, version);
		await addTestFiles(app, ids[version] ?? 0, ["index.html", "app.js"]);
	}
	await setTestChannel(world, app, "production", { version: "1.0.1", public: true });
});

let devices = 0;
const newDevice = () => `00000000-0000-4000-8000-${String(++devices).padStart(12, "0")}`;
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
async function deliver(again = false): Promise<void> {
	const messages = world.deps.sent.map((body) => ({ body })) as never;
	await consume(world.deps, { messages });
	if (again) await consume(world.deps, { messages });
	world.deps.sent.length = 0;
}
/** Isolates share no memory, and reports of one device reach any of them. */
let isolates: readonly ReturnType<typeof isolate>[] = [];
let requests = 0;
const send: World["request"] = (...request) => {
	const next = isolates[++requests % isolates.length];
	if (next === undefined) throw new Error("there are isolates");
	return next.request(...request);
};
async function report(device: string, action: string, version_name = "1.0.1:app.js", fields = {}): Promise<void> {
	await send("POST", "/stats", { body: of(device, { action, version_name, ...fields }) });
}
/** Long enough for every isolate to know what changed. */
async function check(device: string, fields: Record<string, unknown> = {}) {
	await deliver();
	world.clock.nowMs += 5_000;
	// An isolate that got none of the reports.
	const { body } = await isolate(world).request("POST", "/updates", { body: of(device, fields) });
	return { version: body.version, form: body.manifest === undefined ? "zip" : "files", url: body.url };
}
const FILES = { version: "1.0.1", form: "files" };
const ZIP = { version: "1.0.1", form: "zip" };

/** One failed download, as a plugin reports it. */
const ATTEMPTS: Readonly<Record<string, (device: string) => Promise<void>>> = {
	"a file that is not there (Android)": async (device) => {
		await report(device, "download_manifest_start", "1.0.1");
		for (const file of ["app.js", "index.html"]) await report(device, "download_manifest_file_fail", `1.0.1:${file}`);
		await report(device, "download_fail", "1.0.1", { timestamp: world.clock.nowMs });
		await report(device, "download_fail", "builtin", { timestamp: world.clock.nowMs + 3 });
	},
	"a wrong checksum": async (device) => {
		await report(device, "download_manifest_start", "1.0.1");
		await report(device, "download_manifest_checksum_fail");
	},
	Brotli: async (device) => {
		await report(device, "download_manifest_start", "1.0.1");
		await report(device, "download_manifest_brotli_fail");
	},
	"a path": async (device) => {
		await report(device, "download_manifest_start", "1.0.1");
		await report(device, "manifest_path_fail");
	},
	"a network that loses all reports but the last": async (device) => {
		await report(device, "download_fail", "1.0.1", { timestamp: world.clock.nowMs });
	},
	"a network that loses all reports but one": async (device) => report(device, "download_manifest_file_fail"),
	"reports in one request (iOS)": async (device) => {
		const events = [
			"download_manifest_start",
			"download_manifest_file_fail",
			"download_manifest_file_fail",
			"download_fail",
		];
		await send("POST", "/stats", {
			body: events.map((action, index) =>
				of(device, {
					action,
					version_name:
						action === "download_manifest_file_fail" ? `1.0.1:file-${index}` : index === 3 ? "builtin" : "1.0.1",
					timestamp: world.clock.nowMs + index,
				}),
			),
		});
	},
};

describe("a device on which single files fail", () => {
	test.each(Object.keys(ATTEMPTS))("is offered the zip after two downloads failed by %s", async (name) => {
		const device = newDevice();
		expect(await check(device)).toMatchObject(FILES);
		await ATTEMPTS[name]?.(device);
		await deliver(true);
		world.clock.nowMs += 2 * MINUTE_MS;
		expect(await check(device)).toMatchObject(FILES);
		await ATTEMPTS[name]?.(device);
		expect(await check(device)).toMatchObject(ZIP);
		expect((await check(device)).url).toContain("/files/download/");
		expect(await check(newDevice()), "another device").toMatchObject(FILES);
	});

	test("counts the files of one download once, however often they are reported", async () => {
		const device = newDevice();
		await report(device, "download_manifest_start", "1.0.1");
		for (let file = 0; file < 40; file++) {
			await report(device, "download_manifest_file_fail", `1.0.1:file-${file}`);
			world.clock.nowMs += 1_000;
			if (file % 10 === 0) await deliver(true);
		}
		const end = { timestamp: world.clock.nowMs };
		await report(device, "download_fail", "1.0.1", end);
		world.clock.nowMs += 1_000;
		await report(device, "download_manifest_file_fail", "1.0.1:late");
		await report(device, "download_fail", "1.0.1", end);
		await deliver(true);
		expect(await check(device)).toMatchObject(FILES);
	});

	async function failTwice(device: string, version = "1.0.1"): Promise<void> {
		for (let attempt = 0; attempt < 2; attempt++) {
			await report(device, "download_manifest_start", version);
			world.clock.nowMs += 1_000;
			await report(device, "download_manifest_file_fail", `${version}:app.js`);
			// A device tries again at its next check.
			world.clock.nowMs += 2 * MINUTE_MS;
			await deliver();
		}
	}

	test("gets single files again of the next bundle, and after it installed this one", async () => {
		const [device, other] = [newDevice(), newDevice()];
		await failTwice(device);
		await failTwice(other);
		expect(await check(device)).toMatchObject(ZIP);
		await report(device, "set", "1.0.1");
		expect(await check(device), "after a reset").toMatchObject(FILES);
		expect(await check(other)).toMatchObject(ZIP);
		await setTestChannel(world, app, "production", { version: "1.0.2" });
		expect(await check(other)).toMatchObject({ version: "1.0.2", form: "files" });
		world.clock.nowMs += 11 * MINUTE_MS;
		await failTwice(other, "1.0.2");
		expect(await check(other)).toMatchObject({ version: "1.0.2", form: "zip" });
	});

	test("keeps the single files of a bundle that has no zip", async () => {
		await removeTestZip(ids["1.0.1"] ?? 0);
		await setTestChannel(world, app, "production", { version: "1.0.1", public: true, comment: "touch" });
		const device = newDevice();
		await failTwice(device);
		expect(await check(device)).toMatchObject(FILES);
	});

	test.each(["delta", "delta_from_builtin"])(
		"is offered the zip on a channel with updatePackage %s",
		async (updatePackage) => {
			await setTestChannel(world, app, "production", { version: "1.0.1", public: true, updatePackage });
			const device = newDevice();
			await failTwice(device);
			expect(await check(device)).toMatchObject(ZIP);
		},
	);

	test("of an encrypted bundle gets the zip with its session key", async () => {
		await testEnv.DB.prepare("UPDATE bundles SET session_key = 'iv:key', checksum = 'ab' WHERE id = ?")
			.bind(ids["1.0.1"])
			.run();
		await setTestChannel(world, app, "production", { version: "1.0.1", public: true, comment: "touch" });
		const device = newDevice();
		await failTwice(device);
		await deliver();
		world.clock.nowMs += 5_000;
		const { body } = await world.request("POST", "/updates", { body: of(device) });
		expect(body).toMatchObject({ session_key: expect.any(String), checksum: expect.any(String) });
		expect(body).not.toHaveProperty("manifest");
	});

	test("is explained", async () => {
		const device = newDevice();
		await check(device);
		await failTwice(device);
		await check(device);
		const { body } = await world.request("GET", "/device/explain", {
			key: world.adminKey,
			query: { app_id: app.appId, device_id: device },
		});
		expect(body.trace).toContainEqual(
			expect.objectContaining({ rule: "update_package", finding: expect.stringContaining("so it gets the zip") }),
		);
	});

	test("is marked in bounded number: invented devices push out none that is known for longer", async () => {
		const real = newDevice();
		await check(real);
		world.clock.nowMs += 24 * 60 * MINUTE_MS;
		await failTwice(real);
		const revision = async () =>
			(await testEnv.DB.prepare("SELECT revision FROM apps WHERE id = ?").bind(app.uuid).first<{ revision: number }>())
				?.revision ?? 0;
		const before = await revision();
		for (let step = 0; step < 2; step++) {
			world.clock.nowMs += 2 * MINUTE_MS;
			for (let index = 0; index < 120; index++) {
				const device = `10000000-0000-4000-8000-${String(index).padStart(12, "0")}`;
				await report(device, "download_manifest_start", "1.0.1");
				world.clock.nowMs += 1;
				await report(device, "download_manifest_file_fail");
			}
			await deliver();
		}
		const marks = await testEnv.DB.prepare("SELECT count(*) AS marks FROM zip_only_devices WHERE app_id = ?")
			.bind(app.uuid)
			.first();
		expect(marks).toEqual({ marks: 50 });
		expect((await revision()) - before).toBeLessThanOrEqual(30);
		await testEnv.DB.prepare(
			`WITH RECURSIVE n (i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < 1500)
				INSERT INTO zip_only_devices SELECT ?1, printf('20000000-0000-4000-8000-%012d', i), ?2, 'net' || i, ?3, ?3, NULL, NULL FROM n`,
		)
			.bind(app.uuid, ids["1.0.1"], world.clock.nowMs)
			.run();
		await runJobs(world.deps);
		const { results } = await testEnv.DB.prepare("SELECT device_id FROM zip_only_devices WHERE app_id = ?")
			.bind(app.uuid)
			.all<{ device_id: string }>();
		expect(results).toHaveLength(1_000);
		expect(results.map(({ device_id }) => device_id)).toContain(real);
		expect(await check(real)).toMatchObject(ZIP);
	});

	test("reloads its app in bounded number, also when invented devices fail and install in turn", async () => {
		const revision = async () =>
			(await testEnv.DB.prepare("SELECT revision FROM apps WHERE id = ?").bind(app.uuid).first<{ revision: number }>())
				?.revision ?? 0;
		const fails = ["download_manifest_start", "download_manifest_file_fail"];
		const send = async (device: string, actions: readonly string[]) => {
			const body = actions.map((action, index) =>
				of(device, { action, version_name: "1.0.1", timestamp: world.clock.nowMs + index }),
			);
			expect((await world.request("POST", "/stats", { body })).status).toBe(200);
			await deliver();
			world.clock.nowMs += 1_000;
		};
		// Each of these reloads the app at once, until the bound is reached.
		for (let index = 0; index < 30; index++) await send(newDevice(), [...fails, ...fails]);
		const device = newDevice();
		const before = await revision();
		for (let round = 0; round < 5; round++) {
			await send(device, [...fails, ...fails]);
			await send(device, ["set"]);
		}
		expect((await revision()) - before).toBe(0);
	});
});
