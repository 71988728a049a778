/**
 * Rights that a name, a link or a row grants, over their life. Each is tried as an attack, beside
 * the legitimate use that it imitates.
 *
 * | Right | Granted by | Ends with |
 * |---|---|---|
 * | A preview serves devices that send its name | the form of the name | another prefix of the app, more than 20 devices, the end of the channel |
 * | A name of the preview form | a claim of a preview key | POST /preview by a job with proof or by a wider role |
 * | A preview of a merge request of GitLab | the branch in the job's token | its end; a branch has one open preview |
 * | Uploading by a link | key, job or account of the registration | the role, the key, the job's key, the publisher's claims, the app's transfer |
 * | Seeing a preview's page | the address of the page | its replacement, the app's transfer, 30 days after the preview's end |
 * | Opening a preview by a link | the page, GET /preview/link | the page's replacement, the app's transfer, the channel's end, seven days |
 */

import { beforeAll, beforeEach, describe, expect, test } from "vitest";
import { stopPreviewsOfFleets } from "../../../src/features/previews/fleets";
import { putBytes } from "../support/bytes";
import { REPORTS, reportsOf } from "../support/reports";
import { createTestApp, createTestKey, setTestChannel, testEnv, uploadTestBundle } from "../support/world";
import { bundleOf } from "../support/zip";
import {
	app,
	exchanged,
	github,
	gitlabJobOf,
	jobOf,
	number,
	offered,
	prepareJobs,
	promote,
	REPOSITORY,
	startRequest,
	trust,
	upload,
	world,
} from "./publisher-scene";

let stored: { id: string; text: string };
beforeAll(async () => {
	await prepareJobs();
	await trust("gitlab");
	stored = await createTestKey(world, "app_preview", app);
});
beforeEach(startRequest);

const post = (key: string, path: string, body: object) =>
	world.request("POST", path, { key, body: { app_id: app.appId, ...body }, mostTrips: 8 });
const addDevices = async (channel: string, devices: number) => {
	const reports = await reportsOf(app.uuid);
	return reports.batch(
		Array.from({ length: devices }, () =>
			reports
				.prepare(
					"INSERT INTO devices (app_id, device_id, default_channel, created_at_ms, updated_at_ms) VALUES (?, ?, ?, ?, 0)",
				)
				.bind(app.uuid, crypto.randomUUID(), channel, world.clock.nowMs),
		),
	);
};
const show = async (channel: string) =>
	(await world.request("GET", "/channel", { key: world.adminKey, query: { app_id: app.appId, channel } })).body;

describe("the name that builds send", () => {
	test("is not taken by a preview key, a job or a push, before or after devices send it", async () => {
		await upload(stored.text, `1.0.0-x.${number}`);
		const keys = { stored: stored.text, job: await jobOf(), push: await exchanged(await github.token()) };
		for (const [who, key] of Object.entries(keys)) {
			for (const body of [{}, { version: `1.0.0-x.${number}` }]) {
				const taken = await post(key, "/channel", { channel: "stable", allow_device_self_set: true, ...body });
				expect(taken.status, who).toBeGreaterThanOrEqual(400);
			}
			expect(await offered("stable"), who).toBe("1.0.0");
		}
	});

	test("serves no preview that has the name from before, and a change of the prefix ends what the old one served", async () => {
		const channel = `pr-old-${number}`;
		await upload(stored.text, `1.0.0-x.${number}`);
		await post(stored.text, "/channel", { channel, version: `1.0.0-x.${number}`, allow_device_self_set: true });
		expect(await offered(channel), "a tester").toBe(`1.0.0-x.${number}`);
		const put = (preview_channel_prefix: string | null) =>
			world.request("PUT", `/app/${app.appId}`, { key: world.adminKey, body: { preview_channel_prefix } });
		expect((await put("review-")).status).toBe(200);
		expect(await offered(channel)).toBe("1.0.0");
		expect((await show(channel)).misconfigured).toMatchObject([{ code: "name_without_preview_form" }]);
		await put(null);
		expect(await offered(channel)).toBe(`1.0.0-x.${number}`);
	});

	test("gets the public bundle while the preview is empty, and while only a rollout is on it", async () => {
		const channel = `pr-empty-${number}`;
		await post(stored.text, "/channel", { channel, allow_device_self_set: true });
		expect(await offered(channel)).toBe("1.0.0");
		await upload(stored.text, `1.0.0-x.${number}`);
		await post(stored.text, "/channel", { channel, rolloutVersion: `1.0.0-x.${number}`, rolloutPercentageBps: 0 });
		expect(await offered(channel)).toBe("1.0.0");
	});

	test("stops serving a preview once more than 20 devices send it, for the rest of the channel's life", async () => {
		const channel = `pr-fleet-${number}`;
		await upload(stored.text, `1.0.0-x.${number}`);
		await post(stored.text, "/channel", { channel, version: `1.0.0-x.${number}`, allow_device_self_set: true });
		await addDevices(channel, 20);
		await stopPreviewsOfFleets(world.deps);
		world.clock.nowMs += 5_000;
		expect(await offered(channel), "20 testers").toBe(`1.0.0-x.${number}`);
		await addDevices(channel, 1);
		await stopPreviewsOfFleets(world.deps);
		world.clock.nowMs += 5_000;
		expect(await offered(channel)).toBe("1.0.0");
		expect((await show(channel)).misconfigured).toMatchObject([{ code: "named_by_many_devices" }]);
		await REPORTS.prepare("DELETE FROM devices WHERE app_id = ? AND default_channel = ?").bind(app.uuid, channel).run();
		await stopPreviewsOfFleets(world.deps);
		world.clock.nowMs += 5_000;
		expect(await offered(channel), "the devices come back").toBe("1.0.0");
		const query = { app_id: app.appId, channel };
		const link = await world.request("GET", "/preview/link", { key: stored.text, query });
		const opened = await world.request(
			"GET",
			new URL(link.body.payload_url).pathname + new URL(link.body.payload_url).search,
		);
		expect(opened.body.version, "its link still opens it").toBe(`1.0.0-x.${number}`);
	});

	test("of a fleet serves no preview from the first moment", async () => {
		const channel = `pr-named-${number}`;
		await addDevices(channel, 21);
		await upload(stored.text, `1.0.0-x.${number}`);
		const created = await post(stored.text, "/channel", {
			channel,
			version: `1.0.0-x.${number}`,
			allow_device_self_set: true,
		});
		expect(created.status).toBe(201);
		expect(await offered(channel)).toBe("1.0.0");
	});
});

describe("the name of a pull request's preview", () => {
	const named = () => ({ repository: REPOSITORY, number });

	test("is not kept by a claim: a job with proof and an administrator take it, empty", async () => {
		for (const opener of [() => jobOf(), async () => world.adminKey]) {
			startRequest();
			await upload(stored.text, `1.0.0-evil.${number}`);
			const claim = { channel: `pr-${number}`, version: `1.0.0-evil.${number}`, allow_device_self_set: true };
			expect((await post(stored.text, "/channel", claim)).status).toBe(201);
			const opened = await post(await opener(), "/preview", named());
			expect(opened).toMatchObject({ status: 201, body: { channel: `pr-${number}`, version: null, bundles: 0 } });
			expect(await offered(`pr-${number}`)).toBe("1.0.0");
			expect((await promote(stored.text, `1.0.0-evil.${number}`)).status, "the claim is over").toBe(403);
		}
	});

	test("is kept by a channel that is no preview, and by another key's claim against a claim", async () => {
		await setTestChannel(world, app, `pr-${number}`);
		expect((await post(await jobOf(), "/preview", named())).body.error).toBe("channel_name_reserved");
		startRequest();
		await post(stored.text, "/channel", { channel: `pr-${number}` });
		const other = await createTestKey(world, "app_preview", app);
		expect((await post(other.text, "/preview", named())).body.error).toBe("channel_name_reserved");
		expect((await post(stored.text, "/preview", named())).status).toBe(201);
	});

	test("of GitLab is one for a branch, and a number that another branch left is free", async () => {
		const project = { repository: "group/project" };
		const evil = await gitlabJobOf(`evil-${number}`);
		expect((await post(evil, "/preview", { ...project, number })).status).toBe(201);
		for (const taken of [number + 7000, number + 7001]) {
			expect(await post(evil, "/preview", { ...project, number: taken })).toMatchObject({ status: 403 });
			expect((await post(await gitlabJobOf(`good-${taken}`), "/preview", { ...project, number: taken })).status).toBe(
				201,
			);
		}
		const query = { app_id: app.appId, repository: "group/project", number: String(number) };
		expect((await world.request("DELETE", "/preview", { key: evil, query })).status).toBe(200);
		world.clock.nowMs += 2_000;
		const event_at = new Date(world.clock.nowMs).toISOString();
		const good = await post(await gitlabJobOf(`good-${number}`), "/preview", { ...project, number, event_at });
		expect(good.status).toBe(201);
	});
});

describe("an upload link", () => {
	const BYTES = bundleOf(300);
	let serial = 0;
	const link = async (key: string, of = app) => {
		const version = `1.0.0-link.${++serial}`;
		const registered = await world.request("POST", "/bundle", {
			key,
			body: { app_id: of.appId, version },
			mostTrips: 8,
		});
		expect(registered.status, JSON.stringify(registered.body)).toBe(201);
		return registered.body.upload_url as string;
	};
	const put = async (url: string) => (await putBytes(world, url, BYTES)).status;

	test("works while its key may upload to the app, and ends with the key's role", async () => {
		const key = await createTestKey(world, "app_uploader", app);
		expect(await put(await link(key.text)), "a good link").toBe(200);
		const url = await link(key.text);
		await testEnv.DB.prepare("UPDATE role_bindings SET role_name = 'app_reader' WHERE api_key_id = ?")
			.bind(key.id)
			.run();
		expect(await put(url)).toBe(404);
		await testEnv.DB.prepare("DELETE FROM role_bindings WHERE api_key_id = ?").bind(key.id).run();
		expect(await put(url)).toBe(404);
		await testEnv.DB.prepare("UPDATE role_bindings SET role_name = 'app_uploader' WHERE api_key_id = ?")
			.bind(key.id)
			.run();
	});

	test("ends with the job's key, with a change of the publisher's claims and with the job's time", async () => {
		const own = await createTestApp(world);
		await trust("github", "preview", own);
		expect(await put(await link(await jobOf(number, {}, own), own)), "a good link").toBe(200);
		const key = await jobOf(number, {}, own);
		const url = await link(key, own);
		const [publisher] = (
			await world.request("GET", "/publisher", { key: world.adminKey, query: { app_id: own.appId } })
		).body;
		const changed = await world.request("PUT", "/publisher", {
			key: world.adminKey,
			body: { app_id: own.appId, id: publisher.id, claims: { repository_owner_id: "1", repository_id: "2" } },
		});
		expect(changed.status).toBe(200);
		expect(await put(url)).toBe(404);
	});

	test("ends with the policy and the expiry that end its key", async () => {
		const key = await createTestKey(world, "app_uploader", app);
		const url = await link(key.text);
		await testEnv.DB.prepare("UPDATE api_keys SET expires_at_ms = ? WHERE id = ?")
			.bind(world.clock.nowMs, key.id)
			.run();
		expect(await put(url)).toBe(404);
		await testEnv.DB.prepare("UPDATE api_keys SET expires_at_ms = NULL WHERE id = ?").bind(key.id).run();
		expect(await put(url), "the key is good again").toBe(200);
	});
});

describe("the page of a preview of others", () => {
	test("is not listed to a caller limited to its own work, by a job nor by a key; its own is", async () => {
		const other = await jobOf(number + 500);
		await upload(other, `0.0.0-pr-${number + 500}.1`);
		expect((await promote(other, `0.0.0-pr-${number + 500}.1`, `pr-${number + 500}`)).status).toBe(200);
		const own = await jobOf();
		await upload(own, `0.0.0-pr-${number}.1`);
		const pages = async (key: string) => {
			const { body } = await world.request("GET", "/preview", { key, query: { app_id: app.appId } });
			return new Map(body.map((row: { number: number; page_url: string | null }) => [row.number, row.page_url]));
		};
		expect((await pages(own)).get(number)).toContain("/p#");
		expect((await pages(own)).get(number + 500)).toBeNull();
		expect((await pages(stored.text)).get(number + 500)).toBeNull();
		expect((await pages(world.adminKey)).get(number + 500)).toContain("/p#");
		const linkOf = (key: string, query: object) =>
			world.request("GET", "/preview/link", { key, query: { app_id: app.appId, ...query } });
		for (const key of [own, stored.text, await exchanged(await github.token())]) {
			expect((await linkOf(key, { channel: `pr-${number + 500}` })).status).toBe(403);
			expect((await linkOf(key, { version: `0.0.0-pr-${number + 500}.1` })).status).toBe(403);
		}
		expect((await linkOf(own, { channel: `pr-${number}` })).status).toBe(200);
		await uploadTestBundle(world, app, `9.9.${number}`);
	});
});

describe("the address of a preview's page", () => {
	const pathOf = (url: string) => new URL(url).pathname + new URL(url).search;
	const open = (url: string) => world.request("GET", pathOf(url));
	const showPage = (page: string) =>
		world.request("POST", "/preview/show", { body: { token: new URL(page).hash.slice(1) } });
	const linkTo = async (query: object) =>
		(await world.request("GET", "/preview/link", { key: world.adminKey, query: { app_id: app.appId, ...query } })).body
			.payload_url as string;

	/** The page of an open preview with a bundle, and every link that opens it in the app. */
	async function opened() {
		const key = await jobOf();
		const version = `0.0.0-pr-${number}.1`;
		await upload(key, version);
		expect((await promote(key, version)).status).toBe(200);
		const { body } = await world.request("GET", "/preview", {
			key: world.adminKey,
			query: { app_id: app.appId, repository: REPOSITORY, number: String(number) },
		});
		const page = body[0].page_url as string;
		const links = [
			(await showPage(page)).body.payload_url as string,
			await linkTo({ channel: `pr-${number}` }),
			await linkTo({ version }),
		];
		for (const link of links) expect((await open(link)).body.version, "it opens").toBe(version);
		return { page, links, version };
	}

	test("ends with its replacement, and all links to the preview and its bundles with it", async () => {
		const { page, links, version } = await opened();
		const replaced = await post(world.adminKey, "/preview/page", { channel: `pr-${number}` });
		expect(replaced.status).toBe(200);
		for (const link of links) expect((await open(link)).status).toBe(404);
		world.clock.nowMs += 6_000;
		expect((await showPage(page)).status).toBe(404);
		const next = (await showPage(replaced.body.page_url)).body.payload_url as string;
		expect((await open(next)).body.version, "the new one opens").toBe(version);
		const forged = new URL(next);
		forged.searchParams.set("of", new URL(links[0] ?? "").searchParams.get("of") ?? "");
		expect((await open(forged.href)).status).toBe(403);
	});

	test("ends with a transfer of the app, and so do links to bundles outside of previews", async () => {
		const { page, links } = await opened();
		const live = await linkTo({ version: "1.0.0" });
		expect((await open(live)).status).toBe(200);
		const other = await world.request("PUT", "/organization", { key: world.adminKey, body: { name: "receiver" } });
		expect((await post(world.adminKey, "/app/transfer", { to_org: other.body.id })).status).toBeLessThan(300);
		const accepted = await post(world.adminKey, "/app/transfer/accept", {});
		expect(accepted.status, JSON.stringify(accepted.body)).toBeLessThan(300);
		world.clock.nowMs += 6_000;
		for (const link of [...links, live]) expect((await open(link)).status).toBe(404);
		expect((await showPage(page)).status).toBe(404);
	});
});
