/**
 * `capstan preview` from the receiving end: a device on the preview's channel gets what a CI job
 * uploaded, the pull request has one comment, and the end of the pull request leaves nothing. A
 * stand-in plays GitHub and GitLab.
 */
import { randomUUID } from "node:crypto";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { startRecorder } from "../proof/clients/recorder";
import { type CapstanProject, createCapstanProject } from "./support/capstan-cli";
import { type CiProvider, startCiProvider } from "./support/ci-provider";
import { answerOf, createProductApp, createProductKey, type Product, sha256, sharedProduct } from "./support/product";

let product: Product;
let provider: CiProvider;
beforeAll(async () => {
	product = await sharedProduct();
	provider = await startCiProvider();
});
afterAll(() => provider.stop());

interface Scene {
	readonly appId: string;
	readonly project: CapstanProject;
	/** The version that a device on the channel would get. */
	received(channel: string): Promise<string | undefined>;
	/** SHA-256 of each file that it would get, as downloaded. */
	receivedFiles(channel: string): Promise<Record<string, string>>;
}

let scenes = 0;
/** An app with a live bundle, and a project whose key may only create previews. */
async function newScene(): Promise<Scene> {
	const appId = product.newAppId();
	const uuid = await createProductApp(product, appId);
	const project = await createCapstanProject(product, appId);
	await project.write("dist/unchanged.js", "export const unchanged = true;");
	const live = await project.run("release", "--json");
	expect(live.json, live.error).toMatchObject({ version: "1.0.1", status: "live" });
	project.environment.CAPSTAN_TOKEN = await createProductKey(product, "app_preview", uuid);
	await project.write("dist/app.js", "CapacitorUpdater.notifyAppReady(); // preview");
	const check = async (channel: string) => {
		const device = { device_id: randomUUID(), version_name: "1.0.1", version_build: "1.0.0", platform: "android" };
		const body = { app_id: appId, ...device, plugin_version: "8.51.23", defaultChannel: channel };
		return (await product.api("POST", "/updates", body)).body;
	};
	return {
		appId,
		project,
		received: async (channel) => (await check(channel)).version,
		async receivedFiles(channel) {
			const files: Record<string, string> = {};
			for (const { file_name, download_url } of (await check(channel)).manifest) {
				files[file_name] = sha256(new Uint8Array(await (await answerOf(download_url)).arrayBuffer()));
			}
			return files;
		},
	};
}

const at = (minutes: number) => new Date(Date.now() + minutes * 60_000).toISOString();

interface PullRequestFacts {
	readonly number: number;
	readonly state?: "open" | "closed";
	readonly updatedAt?: string;
	readonly headRepository?: number;
}

/** Makes the runs of the project those of a GitHub job of the pull request. */
async function asGithubJob({ project }: Scene, facts: PullRequestFacts): Promise<void> {
	const { number, state = "open", updatedAt = at(-10), headRepository = 456_789 } = facts;
	scenes += 1;
	const file = `event-${scenes}.json`;
	const pull_request = {
		number,
		title: "New checkout",
		state,
		updated_at: updatedAt,
		closed_at: state === "closed" ? updatedAt : null,
		head: { sha: "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b", repo: { id: headRepository } },
		base: { repo: { id: 456_789 } },
	};
	await project.write(file, JSON.stringify({ pull_request, repository: { id: 456_789, full_name: "acme/shop" } }));
	Object.assign(project.environment, {
		CI: "true",
		GITHUB_ACTIONS: "true",
		GITHUB_REPOSITORY: "acme/shop",
		GITHUB_EVENT_PATH: join(project.directory, file),
		GITHUB_SHA: "c".repeat(40),
		GITHUB_API_URL: provider.url,
		GITHUB_TOKEN: provider.bearer,
	});
}

const numbers = { next: 100 };
const newNumber = () => {
	numbers.next += 1;
	return numbers.next;
};

const bundlesOf = async (appId: string): Promise<string[]> =>
	(await product.api("GET", `/bundle?app_id=${appId}`)).body.map(({ name }: { name: string }) => name);

describe("capstan preview", () => {
	test("opens, uploads only changed files, reaches a device on its channel, and closes without a trace", async () => {
		const scene = await newScene();
		const { appId, project } = scene;
		const number = newNumber();
		await asGithubJob(scene, { number });
		const opened = await project.run("preview", "open", "--json");
		expect(opened.json, opened.error).toMatchObject({
			ok: true,
			command: "preview open",
			status: "open",
			repository: "acme/shop",
			number,
			channel: `pr-${number}`,
			version_prefix: `0.0.0-pr-${number}.`,
			page_url: expect.stringContaining(`${product.url}/p#`),
		});
		const { body: listed } = await product.api("GET", `/preview?app_id=${appId}`);
		expect(listed).toMatchObject([{ title: "New checkout", commit: "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b" }]);
		const uploaded = await project.run("preview", "upload", "--json");
		expect(uploaded.json, uploaded.error).toMatchObject({
			ok: true,
			command: "preview upload",
			channel: `pr-${number}`,
			package: "delta",
			version: expect.stringMatching(`^0\\.0\\.0-pr-${number}\\.1\\.h[0-9a-f]{8}$`),
			files: 3,
			uploaded_files: 1,
		});
		expect(await scene.received(`pr-${number}`)).toBe(uploaded.json.version);
		expect(await scene.receivedFiles(`pr-${number}`)).toEqual(await project.hashes());
		expect(await scene.received("")).toBeUndefined();

		const again = await project.run("preview", "upload", "--json");
		expect(again.json).toMatchObject({ version: uploaded.json.version, uploaded_files: 0 });
		await project.write("dist/app.js", "CapacitorUpdater.notifyAppReady(); // second push");
		const second = await project.run("preview", "upload", "dist", "--json");
		expect(second.json.version).toMatch(`pr-${number}.2.`);
		expect(await scene.received(`pr-${number}`)).toBe(second.json.version);

		await asGithubJob(scene, { number, state: "closed", updatedAt: at(-5) });
		const closed = await project.run("preview", "close", "--json");
		expect(closed.json, closed.error).toMatchObject({
			ok: true,
			command: "preview close",
			status: "closed",
			removed_bundles: 2,
		});
		expect(await bundlesOf(appId)).toEqual(["1.0.1"]);
		expect((await product.api("GET", `/channel?app_id=${appId}&channel=pr-${number}`)).status).toBe(404);
		const repeated = await project.run("preview", "close", "--json");
		expect([repeated.code, repeated.json.status, repeated.json.removed_bundles]).toEqual([0, "closed", 0]);
	});

	test("refuses an upload that outlasts the pull request with preview_closed and exit code 6, and opens again for a later push", async () => {
		const scene = await newScene();
		const { appId, project } = scene;
		const number = newNumber();
		await asGithubJob(scene, { number });
		const first = await project.run("preview", "upload", "--json");
		await asGithubJob(scene, { number, state: "closed", updatedAt: at(-5) });
		expect((await project.run("preview", "close")).code).toBe(0);
		const ofClosed = await project.run("preview", "upload", "--json");
		expect([ofClosed.code, ofClosed.json.error.code]).toEqual([6, "preview_closed"]);
		await asGithubJob(scene, { number });
		const late = await project.run("preview", "upload", "--json");
		expect([late.code, late.json.error.code]).toEqual([6, "preview_closed"]);
		expect(late.json.error.message).toContain("or a person closed it");
		expect(late.json.error.message).toContain("--event-at");
		expect(late.json.error.message).not.toContain("POST /preview");
		expect(await bundlesOf(appId)).toEqual(["1.0.1"]);

		await asGithubJob(scene, { number, updatedAt: at(-1) });
		await project.write("dist/app.js", "CapacitorUpdater.notifyAppReady(); // reopened");
		const reopened = await project.run("preview", "upload", "--json");
		expect(reopened.code, reopened.error).toBe(0);
		expect(reopened.json.version, "a device may still have the former bundle").not.toBe(first.json.version);
		await asGithubJob(scene, { number, state: "closed", updatedAt: at(-5) });
		expect((await project.run("preview", "close", "--json")).json.status, "an older end").toBe("open");
	});

	test("exits with 6 if the pull request ends before any request of the upload, and leaves nothing", async () => {
		const { appId, project } = await newScene();
		const network = await startRecorder(product.url);
		project.environment.CAPSTAN_SERVER = network.url;
		let requests = 0;
		for (let endsBefore = 2; ; endsBefore++) {
			const number = newNumber();
			const named = ["--repository", "acme/shop", "--number", String(number)];
			await project.write("dist/app.js", `CapacitorUpdater.notifyAppReady(); // ${number}`);
			requests = 0;
			const end = { app_id: appId, repository: "acme/shop", number };
			network.fault = () => {
				requests += 1;
				if (requests !== endsBefore) return undefined;
				ended = product.api("DELETE", "/preview", end);
				// The command sends the request again when the preview has ended.
				return { status: 503, headers: { "retry-after": "0.3" } };
			};
			let ended: ReturnType<Product["api"]> | undefined;
			const run = await project.run("preview", "upload", ...named, "--event-at", at(-10), "--json");
			if (ended === undefined) break;
			expect((await ended).status).toBe(200);
			expect([run.code, run.json.error?.code], `${endsBefore}: ${run.out}`).toEqual([6, "preview_closed"]);
			expect(await bundlesOf(appId)).toEqual(["1.0.1"]);
		}
		await network.stop();
		expect(requests).toBeGreaterThan(6);
	});

	test("names what is missing outside of a pull request, and takes it from options", async () => {
		const { project } = await newScene();
		const missing = await project.run("preview", "open", "--json");
		expect([missing.code, missing.json.error.code]).toEqual([2, "missing_pull_request"]);
		const named = ["--repository", "acme/app", "--number", "7", "--title", "By hand", "--days", "3"];
		expect((await project.run("preview", "open", ...named, "--json")).json).toMatchObject({ channel: "pr-7" });
		expect((await project.run("preview", "close", "--repository", "acme/app", "--number", "8")).code).toBe(0);
		for (const wrong of [
			["--event-at", "yesterday"],
			["--repository", "acme"],
		]) {
			const refused = await project.run(
				"preview",
				"open",
				...named,
				...wrong,
				"--server",
				"http://127.0.0.1:9",
				"--json",
			);
			expect([refused.code, refused.json.error.code]).toEqual([2, "invalid_option"]);
		}
		Object.assign(project.environment, { GITHUB_ACTIONS: "true", GITHUB_EVENT_PATH: "/no/such/event.json" });
		const unreadable = await project.run("preview", "open", "--json");
		expect([unreadable.code, unreadable.json.error.code]).toEqual([2, "event_file_unreadable"]);
		expect((await project.run("preview", "open", ...named)).code).toBe(0);
		const incomplete = await project.run("preview", "--json");
		expect(incomplete.json.error.message).toContain('There is no command "preview". Commands: preview open');
		const unknown = await project.run("preview", "delete", "--json");
		expect([unknown.code, unknown.json.error.code]).toEqual([2, "unknown_command"]);
		expect(unknown.json.error.message).toContain("preview open, preview upload");
		expect((await project.run("preview", "upload", "--help")).out).toContain("--post-comment");
		expect((await project.run("help", "preview", "close")).out).toContain("Usage: capstan preview close");
		expect(await project.run("preview", "--help")).toMatchObject({
			code: 0,
			out: expect.stringContaining("preview open"),
		});
	});

	test("says that the job of a fork has no identity token, with exit code 4", async () => {
		const scene = await newScene();
		await asGithubJob(scene, { number: newNumber(), headRepository: 1 });
		delete scene.project.environment.CAPSTAN_TOKEN;
		const refused = await scene.project.run("preview", "upload", "--json");
		expect([refused.code, refused.json.error.code]).toEqual([4, "fork_without_identity"]);
		expect(refused.json.error.message).toContain("no identity token");
	});
});

describe("the comment", () => {
	const commentsOf = (number: number) => provider.comments.get(`acme/shop#${number}`) ?? [];

	test("is one, which the second run updates and the end replaces", async () => {
		const scene = await newScene();
		const { appId, project } = scene;
		const number = newNumber();
		const marker = `<!-- capstan preview ${appId} ${new URL(product.url).host} -->`;
		const strangers = Array.from({ length: 120 }, (_, index) => ({
			id: 9_000 + index,
			body: index === 7 || index === 8 ? `${marker}\nmine` : "A remark",
			user: index === 8 ? { id: 6, type: "Bot" as const, login: "other[bot]" } : { id: 5, type: "User" as const },
		}));
		provider.comments.set(`acme/shop#${number}`, strangers);
		await asGithubJob(scene, { number });
		const first = await project.run("preview", "upload", "--post-comment", "--json");
		expect(first.json, first.error).toMatchObject({ comment: { created: true, url: expect.stringContaining("http") } });
		expect(commentsOf(number)).toHaveLength(121);
		const own = () => commentsOf(number).at(-1)?.body ?? "";
		const text = own();
		expect(text.startsWith(`${marker}\n`)).toBe(true);
		expect(text).toContain(`(${first.json.page_url})`);
		expect(text).toContain("QR code");
		expect(text).toContain(first.json.version);
		expect(text).toMatch(/Compared with the live version `1\.0\.1`: 1 file changed; \d+ B to download/);
		await project.write("dist/added.js", "export const added = true;");
		const second = await project.run("preview", "upload", "--json");
		const updated = await project.run("preview", "comment", "--json");
		expect(updated.json, updated.error).toMatchObject({ command: "preview comment", comment: { created: false } });
		expect(commentsOf(number)).toHaveLength(121);
		expect(own()).toContain(second.json.version);
		expect(own()).toContain("1 file changed, 1 added;");
		expect(commentsOf(number)[7]?.body, "a stranger's comment").toBe(`${marker}\nmine`);
		expect(commentsOf(number)[8]?.body, "another bot's comment").toBe(`${marker}\nmine`);

		await asGithubJob(scene, { number, state: "closed", updatedAt: at(-5) });
		const closed = await project.run("preview", "close", "--post-comment", "--json");
		expect(closed.json.comment, closed.error).toMatchObject({ created: false });
		expect(own()).toContain("The preview is closed");
		expect(own()).not.toContain(first.json.page_url);
	});

	test("is not written for the end of a pull request that has none", async () => {
		const scene = await newScene();
		const number = newNumber();
		await asGithubJob(scene, { number, state: "closed" });
		const closed = await scene.project.run("preview", "close", "--post-comment", "--json");
		expect([closed.code, closed.json.comment]).toEqual([0, null]);
		expect(commentsOf(number)).toEqual([]);
	});

	test("that is refused names the permission and what was uploaded, with exit code 4, and shows no token", async () => {
		const scene = await newScene();
		const number = newNumber();
		await asGithubJob(scene, { number });
		scene.project.environment.GITHUB_TOKEN = provider.reader;
		const refused = await scene.project.run("preview", "upload", "--post-comment", "--json");
		expect([refused.code, refused.json.error.code]).toEqual([4, "comment_refused"]);
		expect(refused.json.error.message).toContain("pull-requests: write");
		expect(refused.json.error.details).toMatchObject({ channel: `pr-${number}` });
		expect(refused.out + refused.error).not.toContain(provider.reader);
		expect(await scene.received(`pr-${number}`)).toBe(refused.json.error.details.version);
		scene.project.environment.GITHUB_TOKEN = provider.bearer;
		expect((await scene.project.run("preview", "comment")).code).toBe(0);
		await asGithubJob(scene, { number, state: "closed", updatedAt: at(-5) });
		scene.project.environment.GITHUB_TOKEN = provider.reader;
		const closed = await scene.project.run("preview", "close", "--post-comment", "--json");
		expect([closed.code, closed.json.error.code]).toEqual([4, "comment_refused"]);
		expect(closed.json.error.message).toContain("The preview is closed; only the comment is missing.");
		expect(closed.json.error.details).toMatchObject({ status: "closed", removed_bundles: 1 });
		expect(await bundlesOf(scene.appId)).toEqual(["1.0.1"]);
	});

	test("without a usable token changes nothing, neither for an upload nor for the end", async () => {
		const scene = await newScene();
		const number = newNumber();
		await asGithubJob(scene, { number });
		const statesOf = async () =>
			(await product.api("GET", `/preview?app_id=${scene.appId}`)).body.map(({ state }: { state: string }) => state);
		const refusals = async (word: string) => {
			scene.project.environment.GITHUB_TOKEN = "wrong-token-1234";
			const wrong = await scene.project.run("preview", word, "--post-comment", "--json");
			expect([wrong.code, wrong.json.error.code]).toEqual([4, "comment_refused"]);
			expect(wrong.json.error.message).toContain("GITHUB_TOKEN is wrong");
			expect(wrong.json.error.message).not.toContain("pull-requests: write");
			expect(wrong.out + wrong.error).not.toContain("wrong-token-1234");
			delete scene.project.environment.GITHUB_TOKEN;
			const without = await scene.project.run("preview", word, "--post-comment", "--json");
			expect([without.code, without.json.error.code]).toEqual([4, "missing_comment_token"]);
		};
		await refusals("upload");
		expect(await statesOf()).toEqual([]);
		expect((await scene.project.run("preview", "open")).code).toBe(0);
		await refusals("close");
		expect(await statesOf()).toEqual(["open"]);
		delete scene.project.environment.GITHUB_TOKEN;
		const without = await scene.project.run("preview", "comment", "--json");
		expect([without.code, without.json.error.code]).toEqual([4, "missing_comment_token"]);
	});
});
