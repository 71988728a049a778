/**
 * Odd zips through the doors of the server: what is accepted is served with the flag that iOS
 * needs, and what is refused has its reason. Which of them devices can unpack is shown by
 * android-unpacking.test.ts.
 */
import { beforeAll, describe, expect, test } from "vitest";
import { DAY_MS } from "../../../src/domain/time";
import { runJobs } from "../../../src/schedule";
import { complete, locationOf, putBytes, register, storedKeys, tusCreate, tusPatch, zipName } from "../support/bytes";
import { ODD_ARCHIVES } from "../support/odd-archives";
import {
	createTestApp,
	createTestKey,
	createWorld,
	sha256Hex,
	type TestApp,
	type TestKey,
	type World,
} from "../support/world";

let world: World;
let app: TestApp;
let ci: TestKey;
let served: Uint8Array;
beforeAll(async () => {
	world = await createWorld({ bindings: { fetch: async () => new Response(served) } });
	app = await createTestApp(world);
	ci = await createTestKey(world, "app_developer", app);
});

let counter = 0;
const freshVersion = () => `2.0.${++counter}`;
const EXTERNAL = "https://cdn.example.org/odd.zip";

const unflagged = ODD_ARCHIVES.filter(({ isUnflagged }) => isUnflagged);

async function bundle(version: string) {
	const [found] = (await world.request("GET", "/bundle", { key: ci.text, query: { app_id: app.appId, version } })).body;
	return found;
}

async function downloaded(version: string): Promise<Uint8Array> {
	const link = await world.request("GET", "/bundle/download", { key: ci.text, query: { app_id: app.appId, version } });
	return new Uint8Array((await world.request("GET", link.body.url)).body);
}

/** The bits that differ, as `offset: from -> to`. */
function changes(before: Uint8Array, after: Uint8Array): string[] {
	expect(after.length).toBe(before.length);
	return [...before.keys()].filter((at) => before[at] !== after[at]).map((at) => `${before[at]} -> ${after[at]}`);
}

test.each(ODD_ARCHIVES.filter(({ bytes }) => bytes.length > 0))("$what", async ({ bytes, reason, isUnflagged }) => {
	const version = freshVersion();
	const { body } = await register(world, app, version, ci.text);
	const answer = await putBytes(world, body.upload_url, bytes);
	if (reason !== undefined) {
		expect(answer).toMatchObject({ status: 422, body: { error: "bundle_invalid", moreInfo: { reason } } });
		expect(answer.body.message).toMatch(/^.+\. .+\.$/s);
		expect(await bundle(version)).toBeUndefined();
		return;
	}
	expect(answer).toMatchObject({ status: 200 });
	const got = await downloaded(version);
	expect((await bundle(version)).checksum).toBe(await sha256Hex(got));
	for (const change of changes(bytes, got)) expect(change).toMatch(/^\d+ -> \d+$/);
	expect(changes(bytes, got).length > 0).toBe(isUnflagged === true);
});

describe("a UTF-8 name without the flag", () => {
	const [{ bytes = new Uint8Array() } = {}] = unflagged;

	test("is corrected in a resumable upload of several pieces, and no other object stays", async () => {
		const version = freshVersion();
		await register(world, app, version, ci.text);
		const location = locationOf(await tusCreate(world, ci.text, zipName(world, app, version), bytes.length));
		for (let offset = 0; offset < bytes.length; offset += 70) {
			const { status } = await tusPatch(world, ci.text, location, offset, bytes.slice(offset, offset + 70));
			expect(status).toBe(204);
		}
		const got = await downloaded(version);
		expect(changes(bytes, got)).toEqual(["0 -> 8", "0 -> 8"]);
		world.clock.nowMs += DAY_MS;
		await runJobs(world.deps);
		const prefix = (await storedKeys(`${app.uuid}/`)).filter((key) => key.endsWith("/flagged"));
		for (const key of prefix) {
			const folder = key.slice(0, key.lastIndexOf("/") + 1);
			expect(await storedKeys(folder)).toEqual([key]);
		}
		expect(await downloaded(version)).toEqual(got);
	});

	test("is the same bundle if the answer was lost and the bytes are sent again, and other bytes are not", async () => {
		const version = freshVersion();
		const { body } = await register(world, app, version, ci.text);
		expect((await putBytes(world, body.upload_url, bytes)).status).toBe(200);
		expect((await putBytes(world, body.upload_url, bytes)).status).toBe(200);
		expect((await complete(world, app, version, ci.text)).status).toBe(200);
		expect((await putBytes(world, body.upload_url, ODD_ARCHIVES[0]?.bytes ?? bytes)).status).toBe(409);
	});

	test("is refused if the checksum is given, or the zip is on another server", async () => {
		const refused = { status: 422, body: { error: "bundle_invalid", moreInfo: { reason: "missing_utf8_flag" } } };
		const version = freshVersion();
		const { body } = await register(world, app, version, ci.text, { checksum: await sha256Hex(bytes) });
		expect(await putBytes(world, body.upload_url, bytes)).toMatchObject(refused);
		served = bytes;
		expect(await register(world, app, freshVersion(), ci.text, { external_url: EXTERNAL })).toMatchObject(refused);
	});
});
