/**
 * `npm run demo`: a preview from upload to clean-up with the stock clients inside the running
 * product, so that the dashboard shows it; without a running one, inside a temporary product. It
 * uses a dedicated app and keys, which `npm run demo -- --remove` deletes. Every step prints its
 * result, and the first one that fails ends the demo with exit code 1.
 */
import { createHash } from "node:crypto";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { styleText } from "node:util";
import { CapstanError, createClient } from "../../../src/client/client";
import { serveCapstan } from "../../../src/operator/serve";
import { runningUrl, statePaths } from "../../../src/operator/state";
import { type CliProject, createCliProject } from "./capgo-cli";
import { startElectronApp } from "./electron-app";

const APP_ID = "com.example.demo";
const PREVIEW = "pr-128";
const PREVIEW_VERSION = "1.1.0-pr.128";
const KEY_NAMES = ["Demo: administrator", "Demo: CI of pull request 128", "Demo: CI of another pull request"] as const;
const KEY_LIFETIME_MS = 24 * 60 * 60 * 1000;

const style = (format: "bold" | "green" | "dim", text: string) =>
	process.stdout.isTTY ? styleText(format, text) : text;
const chapter = (title: string) => console.log(`\n${style("bold", title)}`);
const done = (what: string) => console.log(`  ${style("green", "ok")}  ${what}`);

function must(condition: boolean, what: string): void {
	if (!condition) throw new Error(`This should be true and is not: ${what}`);
	done(what);
}

async function cli(project: CliProject, who: string, key: string, ...words: string[]) {
	console.log(style("dim", `  ${who}$ npx @capgo/cli ${words.join(" ")}`));
	return project.run(...words, "--apikey", key);
}

interface Place {
	readonly url: string;
	readonly adminKey: string;
}

const adminOf = ({ url, adminKey }: Place) => createClient({ baseUrl: url, key: adminKey });

/** The product that runs in the state directory; undefined when none does. */
async function runningPlace(): Promise<Place | undefined> {
	const paths = statePaths(resolve(process.env.CAPSTAN_STATE || ".capstan"));
	const url = await runningUrl(paths);
	if (url === undefined) return undefined;
	const adminKey = (await readFile(paths.adminKey, "utf8").catch(() => "")).trim();
	if (adminKey === "") {
		throw new Error(
			`Capstan runs at ${url}, but ${paths.adminKey} is gone. Restart it with npm start -- --new-admin-key.`,
		);
	}
	return { url, adminKey };
}

/**
 * Deletes the demo's app with everything in it, and its keys. Returns whether there was anything.
 */
async function removeDemo(place: Place): Promise<boolean> {
	const admin = adminOf(place);
	const app = await admin("GET /app/:app_id", { params: { app_id: APP_ID } }).catch((error: unknown) => {
		if (error instanceof CapstanError && error.status === 404) return undefined;
		throw error;
	});
	const owner = app?.owner_org ?? (await firstOrganization(place));
	let isFound = app !== undefined;
	for (const { id } of await demoKeys(place, owner)) {
		await admin("DELETE /apikey/:id", { params: { id } });
		isFound = true;
	}
	if (app !== undefined) await admin("DELETE /app/:app_id", { params: { app_id: APP_ID }, query: {} });
	return isFound;
}

async function demoKeys(place: Place, orgId: string) {
	const admin = adminOf(place);
	const found: { readonly id: string }[] = [];
	for (let page = 0; ; page++) {
		const keys = await admin("GET /apikey", { query: { org_id: orgId, page: String(page) } });
		if (keys.length === 0) return found;
		found.push(...keys.filter(({ name }) => KEY_NAMES.some((own) => own === name)));
	}
}

async function firstOrganization(place: Place): Promise<string> {
	const organizations = await adminOf(place)("GET /organization", {});
	const organization = Array.isArray(organizations) ? organizations[0] : organizations;
	if (organization === undefined) throw new Error("The admin key sees no organization.");
	return organization.id;
}

async function play(directory: string): Promise<void> {
	const place = await runningPlace();
	if (place === undefined) {
		chapter("1. No Capstan runs here, so one is started for the demo and thrown away afterwards");
		const capstan = await serveCapstan({ stateDirectory: join(directory, "state"), port: 0 });
		try {
			done(`Capstan runs at ${capstan.url}`);
			await story(directory, { url: capstan.url, adminKey: capstan.adminKey ?? "" });
			console.log("\nTo watch it in the dashboard, start Capstan with npm start and run the demo in another terminal.");
		} finally {
			await capstan.stop();
		}
		return;
	}
	chapter(`1. Capstan runs at ${place.url}; the demo plays in it`);
	console.log(`  Watch it: ${place.url}/dashboard/apps/${APP_ID}/overview`);
	if (await removeDemo(place)) done("the app and the keys of an earlier demo are removed");
	await story(directory, place);
	console.log(`\nLook at it: ${place.url}/dashboard/apps/${APP_ID}/overview`);
	console.log("Remove its app and keys: npm run demo -- --remove");
}

async function remove(): Promise<void> {
	const place = await runningPlace();
	if (place === undefined) throw new Error("No Capstan runs here. Start it with npm start, then remove the demo.");
	console.log((await removeDemo(place)) ? "The demo's app and keys are removed." : "There is no demo to remove.");
}

async function story(directory: string, place: Place): Promise<void> {
	const { url } = place;
	const admin = adminOf(place);
	const orgId = await firstOrganization(place);

	chapter(
		"2. An administrator creates the app, its main channel, and keys for CI that can do previews and nothing else",
	);
	const app = await admin("POST /app", { body: { app_id: APP_ID, name: "Demo", owner_org: orgId } });
	const [adminName, ciName, otherName] = KEY_NAMES;
	const keyFor = async (name: string, role_name: "app_admin" | "app_preview") => {
		const binding = { role_name, scope_type: "app", org_id: orgId, app_id: app.id } as const;
		const expires_at = new Date(Date.now() + KEY_LIFETIME_MS).toISOString();
		return (await admin("POST /apikey", { body: { name, hashed: true, expires_at, bindings: [binding] } })).key;
	};
	const adminKey = await keyFor(adminName, "app_admin");
	const [ci, otherCi] = [await keyFor(ciName, "app_preview"), await keyFor(otherName, "app_preview")];
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
		`channel ${PREVIEW} was created and serves ${PREVIEW_VERSION}`,
	);
	const channel = await admin("GET /channel", { query: { app_id: APP_ID, channel: PREVIEW } });
	must(!Array.isArray(channel) && !channel.public, "it is private");

	chapter("4. A tester's device receives it; other devices do not");
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
	await electron.updater.notifyAppReady();
	must(
		(await electron.updater.current()).bundle.version === PREVIEW_VERSION,
		"the stock Electron updater installs and runs it",
	);

	chapter("5. The key of another pull request cannot touch it");
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
	must("version" in home && home.version === "1.0.1", "the tester's device returns to 1.0.1");
}

const startedAtMs = Date.now();
const directory = await mkdtemp(join(tmpdir(), "capstan-demo-"));
// The stock clients print what they do; the story is ours.
const log = console.log;
try {
	console.log = (...words: unknown[]) => {
		if (!String(words[0]).startsWith("[ElectronUpdater]")) log(...words);
	};
	if (process.argv.includes("--remove")) await remove();
	else {
		await play(directory);
		console.log(style("dim", `The whole story took ${Math.round((Date.now() - startedAtMs) / 1000)} seconds.`));
	}
} catch (error) {
	console.error(error instanceof Error ? error.message : error);
	process.exitCode = 1;
} finally {
	await rm(directory, { recursive: true, force: true });
}
// The Electron updater would wait ten seconds more for an app that never says it is ready.
process.exit();
