/**
 * The page of a preview, as a tester and a stranger get it: what it shows, what a guess costs, and
 * how its address ends.
 */
import { beforeAll, beforeEach, describe, expect, test } from "vitest";
import { addTestFiles } from "../support/delta-files";
import {
	createTestApp,
	createTestKey,
	createWorld,
	NOW_MS,
	setTestChannel,
	type TestApp,
	uploadTestBundle,
	type World,
} from "../support/world";

let world: World;
let app: TestApp;
let ci: string;
let number = 800;
beforeAll(async () => {
	world = await createWorld();
	app = await createTestApp(world);
	ci = (await createTestKey(world, "app_preview", app)).text;
	const live = await uploadTestBundle(world, app, "1.0.0");
	await addTestFiles(app, live, ["index.html", "old.js"]);
	await setTestChannel(world, app, "production", { public: true, version: "1.0.0" });
});
beforeEach(() => {
	number += 1;
	// Later than any cached answer of the test before.
	world.clock.nowMs += 60_000;
});

const body = () => ({ app_id: app.appId, repository: "acme/shop", number });
const open = (fields: Record<string, unknown> = {}) =>
	world.request("POST", "/preview", { key: ci, body: { ...body(), ...fields } });
const tokenOf = (url: string) => url.split("#")[1] ?? "";
const show = (token: string, of: World = world, mostTrips = 2) =>
	of.request("POST", "/preview/show", { body: { token }, mostTrips });
const upload = async (run: number) => {
	const version = `0.0.0-pr-${number}.${run}`;
	const id = await uploadTestBundle(world, app, version, ci);
	await setTestChannel(world, app, `pr-${number}`, { version }, ci);
	return { id, version };
};
const later = () => {
	world.clock.nowMs += 5_000;
};

describe("the page of a preview", () => {
	test("shows the link that opens the bundle, the changed files with their sizes, and the devices", async () => {
		const { page_url } = (await open({ title: "New <checkout>", commit: "9f86d08" })).body;
		expect(page_url).toMatch(/^https:\/\/updates\.example\.com\/p#[0-9a-f]{64}$/);
		const token = tokenOf(page_url);
		expect((await show(token)).body).toMatchObject({ state: "open", version: null, deep_link: null, changes: null });
		later();
		const { id, version } = await upload(1);
		expect((await show(token)).body.changes).toEqual({
			live_version: "1.0.0",
			live_size: expect.any(Number),
			files: null,
		});
		later();
		await addTestFiles(app, id, ["index.html", "new.js"]);
		const page = (await show(token)).body;
		expect(page).toMatchObject({
			app_id: app.appId,
			repository: "acme/shop",
			number,
			title: "New <checkout>",
			commit: "9f86d08",
			state: "open",
			version,
			devices: 0,
			closed_at: null,
		});
		const { files } = page.changes;
		expect(files.named.map(({ file, change }: { file: string; change: string }) => `${change} ${file}`).sort()).toEqual(
			expect.arrayContaining(["added new.js", "removed old.js"]),
		);
		expect([files.added, files.removed]).toEqual([1, 1]);
		expect(files.size).toBe(
			files.named.reduce((sum: number, { size }: { size: number | null }) => sum + (size ?? 0), 0),
		);
		const payload = await world.request("GET", page.payload_url, {
			headers: { accept: "application/json" },
			mostTrips: 3,
		});
		expect(payload).toMatchObject({ status: 200, body: { version } });
		expect(page.deep_link).toBe(page.payload_url.replace(/^https:\/\/[^/]+/, "capgo:/"));
		later();
		expect((await show(token, world, 1)).body.changes, "the files of a pair of bundles are read once").toEqual(
			page.changes,
		);
	});

	test("says when it is closed, and its link opens nothing any more", async () => {
		const token = tokenOf((await open()).body.page_url);
		await upload(1);
		const { payload_url } = (await show(token)).body;
		const query = { app_id: app.appId, repository: "acme/shop", number: String(number) };
		await world.request("DELETE", "/preview", { key: ci, query });
		later();
		expect((await show(token)).body).toMatchObject({
			state: "closed",
			closed_as: "request",
			deep_link: null,
			payload_url: null,
			version: null,
			changes: null,
			closed_at: new Date(world.clock.nowMs - 5_000).toISOString(),
		});
		const opened = await world.request("GET", payload_url, { headers: { accept: "application/json" }, mostTrips: 3 });
		expect(opened).toMatchObject({ status: 404, body: { error: "preview_not_found" } });
	});

	test("of another pull request, repository or app has another address", async () => {
		const urls = [(await open()).body.page_url, (await open({ repository: "acme/web" })).body.page_url];
		number += 1;
		urls.push((await open()).body.page_url);
		expect(new Set(urls).size).toBe(3);
		expect((await show(tokenOf(urls[1]))).body.repository).toBe("acme/web");
		expect((await open()).body.page_url, "the next push keeps the address").toBe(urls[2]);
	});

	test("ends at its address when that is replaced", async () => {
		const { page_url } = (await open()).body;
		const replace = (key: string) =>
			world.request("POST", "/preview/page", { key, body: { app_id: app.appId, channel: `pr-${number}` } });
		const stranger = (await createTestKey(world, "app_preview", app)).text;
		expect((await replace(stranger)).status).toBe(403);
		const replaced = await replace(ci);
		expect(replaced.status).toBe(200);
		expect((await show(tokenOf(page_url))).body.error).toBe("preview_not_found");
		expect((await show(tokenOf(replaced.body.page_url))).body.number).toBe(number);
	});
});

describe("a stranger who guesses addresses", () => {
	test("costs no read of D1, and is refused after some guesses", async () => {
		let failures = 0;
		const limiter = { limit: async () => ({ success: ++failures <= 3 }) };
		const guarded = await createWorld({
			bindings: {
				requestLimits: { ...world.deps.requestLimits, failedAuthentications: { limiter, periodSeconds: 60 } },
			},
		});
		const token = tokenOf((await open()).body.page_url);
		const statuses: number[] = [];
		for (const guess of [
			"none",
			"0".repeat(64),
			token.slice(0, 63),
			`${token.slice(0, 32)}${"0".repeat(32)}`,
			token.toUpperCase(),
		]) {
			statuses.push((await show(guess, guarded, 0)).status);
		}
		expect(statuses).toEqual([404, 404, 404, 429, 429]);
	});

	test("with a known address costs one read in five seconds", async () => {
		const token = tokenOf((await open()).body.page_url);
		await show(token);
		for (let request = 0; request < 3; request++) expect((await show(token, world, 0)).status).toBe(200);
		later();
		expect((await show(token, world, 1)).status).toBe(200);
	});
});

test("an address stays valid while the server's secret is rotated", async () => {
	const [first, second] = ["a1".repeat(32), "b2".repeat(32)];
	const withSecrets = async (config: Record<string, string>) => {
		const made = await createWorld({ config });
		made.clock.nowMs = NOW_MS;
		return made;
	};
	const old = await withSecrets({ CAPSTAN_SECRET: first });
	const oldApp = await createTestApp(old);
	const opened = await old.request("POST", "/preview", {
		key: old.adminKey,
		body: { app_id: oldApp.appId, repository: "acme/shop", number: 1 },
	});
	const both = await withSecrets({ CAPSTAN_SECRET: first, CAPSTAN_SECRET_2: `${second}@1` });
	expect((await show(tokenOf(opened.body.page_url), both)).status).toBe(200);
});
