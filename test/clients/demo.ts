/**
 * `npm run demo`: the whole preview story, played with the stock clients against a product that is started for it and thrown away
 * afterwards. Every step says what happened; anything that is not as it should be ends it with exit code 1.
 */
import { createHash } from "node:crypto";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { styleText } from "node:util";
import { serveCapstan } from "../../src/cli/serve";
import { createClient } from "../../src/client/client";
import { type CliProject, createCliProject } from "./capgo-cli";
import { startElectronApp } from "./electron-app";

const APP_ID = "com.example.demo";
const PREVIEW = "pr-128";
const PREVIEW_VERSION = "1.1.0-pr.128";

const style = (format: "bold" | "green" | "dim", text: string) =>
	process.stdout.isTTY ? styleText(format, text) : text;
const chapter = (title: string) => console.log(`\n${style("bold", title)}`);
const done = (what: string) => console.log(`  ${style("green", "ok")}  ${what}`);

function must(condition: boolean, what: string): void {
	if (!condition) throw new Error(`This should be so and is not: ${what}`);
	done(what);
}

async function cli(project: CliProject, who: string, key: string, ...words: string[]) {
	console.log(style("dim", `  ${who}$ npx @capgo/cli ${words.join(" ")}`));
	return project.run(...words, "--apikey", key);
}

async function play(directory: string): Promise<void> {
	chapter("1. The product starts, with its database, object store and queue embedded");
	const capstan = await serveCapstan({ stateDirectory: join(directory, "state"), port: 0 });
	try {
		await story(directory, capstan.url, capstan.adminKey ?? "");
	} finally {
		await capstan.stop();
	}
}

async function story(directory: string, url: string, adminKey: string): Promise<void> {
	done(`Capstan runs at ${url}`);
	const admin = createClient({ baseUrl: url, key: adminKey });
	const organizations = await admin("GET /organization", {});
	const organization = Array.isArray(organizations) ? organizations[0] : organizations;
	if (organization === undefined) throw new Error("a first run makes an organization");

	chapter("2. An administrator makes the app, its main channel, and keys for CI that can do previews and nothing else");
	const app = await admin("POST /app", { body: { app_id: APP_ID, name: "Demo", owner_org: organization.id } });
	const previewKey = async (name: string) => {
		const binding = { role_name: "app_preview", scope_type: "app", org_id: organization.id, app_id: app.id } as const;
		return (await admin("POST /apikey", { body: { name, hashed: true, bindings: [binding] } })).key;
	};
	const [ci, otherCi] = [await previewKey("CI"), await previewKey("another CI")];
	const project = await createCliProject(directory, url, APP_ID);
	const main = await cli(project, "admin", adminKey, "channel", "add", "production", APP_ID, "--default");
	must(main.code === 0, "the public channel production is there");
	const first = await cli(
		project,
		"admin",
		adminKey,
		"bundle",
		"upload",
		APP_ID,
		"--bundle",
		"1.0.1",
		"--channel",
		"production",
	);
	must(first.code === 0, "bundle 1.0.1 is live on it");

	chapter("3. CI uploads the bundle of a pull request, with its preview key");
	await project.write("app.js", "CapacitorUpdater.notifyAppReady(); // what the pull request changes");
	const upload = ["bundle", "upload", APP_ID, "--bundle", PREVIEW_VERSION, "--channel", PREVIEW, "--self-assign"];
	must(
		(await cli(project, "ci", ci, ...upload)).code === 0,
		`channel ${PREVIEW} was created and points to ${PREVIEW_VERSION}`,
	);
	const channel = await admin("GET /channel", { query: { app_id: APP_ID, channel: PREVIEW } });
	must(!Array.isArray(channel) && !channel.public, "it is private");

	chapter("4. A tester's device asks for it; everybody else's does not see it");
	const check = async (defaultChannel: string, versionName: string) => {
		const answer = await createClient({ baseUrl: url })("POST /updates", {
			body: {
				app_id: APP_ID,
				device_id: "b5a3f9d2-6a60-4f2e-9a57-9f1f1f5a2d61",
				version_name: versionName,
				version_build: "1.0.0",
				platform: "android",
				plugin_version: "8.51.23",
				is_emulator: false,
				is_prod: true,
				defaultChannel,
			},
		});
		return answer;
	};
	const offered = await check(PREVIEW, "1.0.1");
	if (!("url" in offered)) throw new Error(`the tester gets no bundle: ${JSON.stringify(offered)}`);
	const bytes = new Uint8Array(await (await fetch(offered.url)).arrayBuffer());
	const sha256 = createHash("sha256").update(bytes).digest("hex");
	must(
		offered.version === PREVIEW_VERSION && sha256 === offered.checksum,
		`it downloads ${bytes.length} bytes whose SHA-256 is right`,
	);
	const others = await check("", "1.0.1");
	must(
		"error" in others && others.error === "no_new_version_available",
		"a device without the channel is up to date on 1.0.1",
	);
	const electron = await startElectronApp({
		url,
		appId: APP_ID,
		version: "1.0.0",
		userDirectory: await mkdtemp(join(directory, "user-")),
		defaultChannel: PREVIEW,
	});
	const latest = await electron.updater.getLatest();
	const installed = await electron.updater.download({
		url: latest.url ?? "",
		version: latest.version,
		checksum: latest.checksum ?? "",
	});
	await electron.updater.set({ id: installed.id });
	must(
		(await electron.updater.current()).bundle.version === PREVIEW_VERSION,
		"the stock Electron updater installs and runs it",
	);

	chapter("5. Another pull request's key keeps its hands off");
	const theft = await cli(project, "other-ci", otherCi, "channel", "delete", PREVIEW, APP_ID, "--delete-bundle");
	const stillThere = await check(PREVIEW, "1.0.1");
	must(
		theft.code !== 0 && "version" in stillThere && stillThere.version === PREVIEW_VERSION,
		"it cannot delete the preview",
	);
	await project.write("app.js", "CapacitorUpdater.notifyAppReady(); // something else");
	const push = ["bundle", "upload", APP_ID, "--bundle", "6.6.6", "--channel", "production"];
	const pushed = await cli(project, "other-ci", otherCi, ...push);
	const production = await admin("GET /channel", { query: { app_id: APP_ID, channel: "production" } });
	must(
		pushed.code !== 0 && !Array.isArray(production) && production.version?.name === "1.0.1",
		"it cannot touch production",
	);

	chapter("6. The pull request is closed: one atomic clean-up");
	const clean = await cli(project, "ci", ci, "channel", "delete", PREVIEW, APP_ID, "--delete-bundle");
	must(clean.code === 0, "channel and bundle are gone together");
	const bundles = await admin("GET /bundle", { query: { app_id: APP_ID, version: PREVIEW_VERSION } });
	must(bundles.length === 0 && (await fetch(offered.url)).status === 404, "and so are the bytes");
	const home = await check(PREVIEW, PREVIEW_VERSION);
	must("version" in home && home.version === "1.0.1", "the tester's device goes home to 1.0.1");
}

const startedAtMs = Date.now();
const directory = await mkdtemp(join(tmpdir(), "capstan-demo-"));
// The stock clients print what they do; the story is ours.
const log = console.log;
try {
	console.log = (...words: unknown[]) => {
		if (!String(words[0]).startsWith("[ElectronUpdater]")) log(...words);
	};
	await play(directory);
	console.log(
		`\n${style("bold", "That was the whole story")}, in ${Math.round((Date.now() - startedAtMs) / 1000)} seconds.`,
	);
} catch (error) {
	console.error(error instanceof Error ? error.message : error);
	process.exitCode = 1;
} finally {
	await rm(directory, { recursive: true, force: true });
}
// The Electron updater would wait ten seconds more for an app that never says it is ready.
process.exit();
