/**
 * Jobs whose identity token names the source branch and no number: those of GitHub after the merge,
 * which only close their preview, and all jobs of GitLab, whose first one gives the preview its
 * branch. A job of another branch or project reaches nothing of it.
 */
import { beforeAll, beforeEach, describe, expect, test } from "vitest";
import { query } from "../../../src/db/client";
import { DAY_MS } from "../../../src/domain/time";
import { runJobs } from "../../../src/schedule";
import { rows } from "../support/bytes";
import { createTestApp } from "../support/world";
import {
	app,
	bundleNamed,
	CLOSED,
	close,
	exchanged,
	github,
	gitlab,
	gitlabJobOf,
	jobOf,
	list,
	mergedJobOf,
	number,
	offered,
	prepareJobs,
	promote,
	REPOSITORY,
	show,
	startRequest,
	trust,
	upload,
	world,
} from "./publisher-scene";

const REFUSED = { status: 403, body: { error: "permission_denied" } };
const PROJECT = "group/project";

beforeAll(async () => {
	await prepareJobs();
	await trust("gitlab");
});
beforeEach(startRequest);

describe("a job of GitHub after the merge", () => {
	/** The preview of a pull request from this branch, with a bundle that its testers get. */
	async function opened(branch: string) {
		const key = await jobOf(number, { head_ref: branch });
		const version = `0.0.0-pr-${number}.1`;
		expect((await upload(key, version)).status).toBe(200);
		expect((await promote(key, version)).status).toBe(200);
		expect(await offered(`pr-${number}`)).toBe(version);
		return version;
	}

	test("closes the preview of its source branch, with everything in it, and closing it again succeeds", async () => {
		const branch = `feature-${number}`;
		const version = await opened(branch);
		const closed = await close({}, await mergedJobOf(branch));
		expect(closed).toMatchObject({ status: 200, body: { state: "closed", removed: { bundles: 1 } } });
		expect(await offered(`pr-${number}`)).toBe("1.0.0");
		expect(await bundleNamed(version)).toEqual([]);
		expect((await close({}, await mergedJobOf(branch))).status).toBe(200);
		expect(await upload(await jobOf(number, { head_ref: branch }), version)).toMatchObject(CLOSED);
	});

	test("closes it also after a later push renewed it, and after its time was over", async () => {
		const branch = `feature-${number}`;
		await opened(branch);
		await upload(await jobOf(number, { head_ref: branch }), `0.0.0-pr-${number}.2`);
		world.clock.nowMs += 15 * DAY_MS;
		await runJobs(world.deps);
		expect(await show()).toMatchObject({ state: "closed", closed_as: "time" });
		const seconds = world.clock.nowMs / 1000;
		const late = await mergedJobOf(branch, { iat: seconds, nbf: seconds, exp: seconds + 300 });
		expect((await close({}, late)).status).toBe(200);
		expect(await show()).toMatchObject({ state: "closed", closed_as: "request" });
	});

	test("closes nothing of another branch, of another repository, and nothing that no job opened", async () => {
		const branch = `feature-${number}`;
		await opened(branch);
		const others = [
			await mergedJobOf(`${branch}-2`),
			await mergedJobOf(branch.toUpperCase()),
			await mergedJobOf(branch, { repository: "octo-org/renamed" }),
			await mergedJobOf(branch, { head_ref: "" }),
			await exchanged(await github.token({ head_ref: branch })),
		];
		for (const [index, key] of others.entries()) expect(await close({}, key), `job ${index}`).toMatchObject(REFUSED);
		const own = await mergedJobOf(branch);
		expect(await close({ number: "99999" }, own), "nothing is open").toMatchObject({
			status: 200,
			body: { removed: { bundles: 0 } },
		});
		expect(
			await rows(query.selectFrom("previews").select("id").where("number", "=", 99_999)),
			"and nothing is closed in advance",
		).toEqual([]);
		expect(await close({ repository: "octo-org/other" }, own)).toMatchObject(REFUSED);
		expect(await show()).toMatchObject({ state: "open", bundles: 1 });
		const stored = { app_id: app.appId, repository: REPOSITORY, number: 88_000 + number };
		expect((await world.request("POST", "/preview", { key: world.adminKey, body: stored })).status).toBe(201);
		expect(await close({ number: String(stored.number) }, own), "no branch").toMatchObject(REFUSED);
	});

	test("opens, renews and uploads nothing, and replaces no page", async () => {
		const branch = `feature-${number}`;
		const version = await opened(branch);
		const key = await mergedJobOf(branch);
		const body = { app_id: app.appId, repository: REPOSITORY, number };
		expect(await world.request("POST", "/preview", { key, body })).toMatchObject(REFUSED);
		expect(await world.request("POST", "/preview", { key, body: { ...body, number: 77_000 } })).toMatchObject(REFUSED);
		const page = { app_id: app.appId, channel: `pr-${number}` };
		expect(await world.request("POST", "/preview/page", { key, body: page })).toMatchObject(REFUSED);
		expect((await upload(key, `0.0.0-pr-${number}.2`)).status).toBe(409);
		expect((await upload(key, `9.0.0-other.${number}`)).status).toBe(200);
		expect(await promote(key, `9.0.0-other.${number}`)).toMatchObject({ status: 403 });
		expect(await promote(key, version)).toMatchObject({ status: 403 });
		expect(await show()).toMatchObject({ state: "open", bundles: 1, version });
	});
});

describe("a job of GitLab", () => {
	const named = () => ({ app_id: app.appId, repository: PROJECT, number });
	const open = (key: string) => world.request("POST", "/preview", { key, body: named(), mostTrips: 8 });
	const end = (key: string) => close({ repository: PROJECT }, key);
	const shown = async () => (await list(app, { repository: PROJECT, number: String(number) }))[0];

	/** The preview of a merge request from this branch, with a bundle that its testers get. */
	async function opened(branch: string, key: string) {
		const { status, body } = await open(key);
		expect(status, branch).toBe(201);
		const version = `${body.version_prefix}1`;
		expect((await upload(key, version)).status).toBe(200);
		expect((await promote(key, version, body.channel)).status).toBe(200);
		expect(await offered(body.channel)).toBe(version);
		return { channel: body.channel, version, prefix: body.version_prefix };
	}

	test("opens the preview of its merge request, and further jobs of the branch renew, close and open it", async () => {
		const branch = `checkout/${number}`;
		const { channel, prefix } = await opened(branch, await gitlabJobOf(branch));
		const next = await gitlabJobOf(branch);
		expect((await open(next)).status).toBe(200);
		expect((await upload(next, `${prefix}2`)).status).toBe(200);
		expect((await promote(next, `${prefix}2`, channel)).status).toBe(200);
		expect(await offered(channel)).toBe(`${prefix}2`);
		expect(await shown()).toMatchObject({ state: "open", bundles: 2, keys: 1 });
		expect(await end(await gitlabJobOf(branch))).toMatchObject({ status: 200, body: { removed: { bundles: 2 } } });
		expect(await offered(channel)).toBe("1.0.0");
		expect((await end(await gitlabJobOf(branch))).status).toBe(200);
		expect(await open(await gitlabJobOf(branch))).toMatchObject(CLOSED);
		world.clock.nowMs += 2_000;
		const event_at = new Date(world.clock.nowMs - 1_000).toISOString();
		const reopened = { key: await gitlabJobOf(branch), body: { ...named(), event_at } };
		expect((await world.request("POST", "/preview", reopened)).status).toBe(201);
	});

	test("of another branch is refused on the number, and reaches neither channel nor bundles, open or closed", async () => {
		const branch = `checkout/${number}`;
		const { channel, version, prefix } = await opened(branch, await gitlabJobOf(branch));
		for (const other of [`checkout/${number}-2`, "main"]) {
			const key = await gitlabJobOf(other);
			expect(await open(key)).toMatchObject(REFUSED);
			expect(await end(key)).toMatchObject(REFUSED);
			expect((await upload(key, `${prefix}9`)).status).toBe(409);
			expect(await promote(key, version, channel)).toMatchObject({ status: 403 });
			const builtin = { app_id: app.appId, channel, version: "builtin" };
			expect((await world.request("POST", "/channel", { key, body: builtin })).status).toBe(403);
			const page = { app_id: app.appId, channel };
			expect(await world.request("POST", "/preview/page", { key, body: page })).toMatchObject(REFUSED);
		}
		expect(await offered(channel)).toBe(version);
		await end(await gitlabJobOf(branch));
		expect(await open(await gitlabJobOf("main")), "its end is later than any event").toMatchObject(CLOSED);
	});

	test("of another project, or of no merge request, reaches nothing", async () => {
		const branch = `checkout/${number}`;
		await opened(branch, await gitlabJobOf(branch));
		for (const claims of [
			{ pipeline_source: "push" },
			{ pipeline_source: "parent_pipeline" },
			{ project_path: "group/other" },
			{ ref_path: "refs/tags/v1" },
			{ ref_path: "refs/heads/" },
			{ ref_path: `refs/merge-requests/${number}/head` },
		]) {
			const key = await gitlabJobOf(branch, claims);
			expect(await open(key), JSON.stringify(claims)).toMatchObject(REFUSED);
			expect(await end(key), JSON.stringify(claims)).toMatchObject(REFUSED);
		}
		const foreign = { token: await gitlab.token({ pipeline_source: "merge_request_event", project_id: "21" }) };
		const exchange = await world.request("POST", "/oidc/token", {
			body: { ...foreign, app_id: app.appId, stage: "preview" },
			mostTrips: 4,
		});
		expect(exchange.body).toMatchObject({ error: "no_matching_publisher", moreInfo: { claim: "project_id" } });
		expect(await shown()).toMatchObject({ state: "open", bundles: 1 });
	});

	test("closes nothing that it did not open, and takes no preview that an administrator opened", async () => {
		const key = await gitlabJobOf(`checkout/${number}`);
		expect(await end(key), "nothing is open").toMatchObject({ status: 200, body: { removed: { bundles: 0 } } });
		expect(await shown(), "and nothing is closed in advance").toBeUndefined();
		expect((await open(world.adminKey)).status).toBe(201);
		expect(await open(key)).toMatchObject(REFUSED);
		expect(await end(key)).toMatchObject(REFUSED);
	});

	test("opens a number that a job of a wrong branch took, once an administrator closed, opened and closed it", async () => {
		await open(await gitlabJobOf("wrong"));
		const later = () => {
			world.clock.nowMs += 2_000;
			return { ...named(), event_at: new Date(world.clock.nowMs).toISOString() };
		};
		const key = await gitlabJobOf(`checkout/${number}`);
		expect((await end(world.adminKey)).status).toBe(200);
		const opened = await world.request("POST", "/preview", { key: world.adminKey, body: later() });
		expect(opened.status).toBe(201);
		expect((await world.request("POST", "/preview", { key, body: later() })).status).toBe(403);
		expect((await end(world.adminKey)).status).toBe(200);
		expect((await world.request("POST", "/preview", { key, body: later() })).status).toBe(201);
		expect(await end(await gitlabJobOf("wrong"))).toMatchObject(REFUSED);
	});

	test("of the same branch in another app reaches only that app's preview", async () => {
		const branch = `checkout/${number}`;
		await opened(branch, await gitlabJobOf(branch));
		const own = await createTestApp(world);
		await trust("gitlab", "preview", own);
		const key = await gitlabJobOf(branch, {}, own);
		expect((await open(key)).status).toBe(404);
		expect((await end(key)).status).toBe(404);
		expect(await shown()).toMatchObject({ state: "open", bundles: 1 });
	});

	test("of two branches at the same time, one gets the number", async () => {
		const keys = [await gitlabJobOf(`one/${number}`), await gitlabJobOf(`two/${number}`)];
		const answers = await Promise.all(keys.map(open));
		expect(answers.map(({ status }) => status).sort()).toEqual([201, 403]);
		expect(await shown()).toMatchObject({ keys: 1 });
	});
});
