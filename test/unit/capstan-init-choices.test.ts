/**
 * The choices of `capstan init`: which of two projects in one directory it sets up, and whether it
 * may change the configuration. It never guesses between two, and never edits what is left alone.
 */
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterAll, beforeEach, describe, expect, test } from "vitest";
import { readProject } from "../../cli/src/project";
import { runCommand } from "../../cli/src/run";
import { stubCommandServer } from "./support/command-server";

const SERVER = "https://updates.example.com";
const temporary = mkdtempSync(join(tmpdir(), "capstan-choices-"));
afterAll(() => rmSync(temporary, { recursive: true }));
beforeEach(stubCommandServer);

let count = 0;
function directoryWith(files: Readonly<Record<string, string>>): string {
	count += 1;
	const directory = join(temporary, String(count));
	mkdirSync(directory);
	for (const [path, text] of Object.entries(files)) {
		mkdirSync(dirname(join(directory, path)), { recursive: true });
		writeFileSync(join(directory, path), text);
	}
	return directory;
}

async function run(directory: string, ...words: readonly string[]) {
	let out = "";
	let errors = "";
	const code = await runCommand(words, {
		out: { write: (text) => (out += text) },
		error: { write: (text) => (errors += text) },
		environment: { PATH: process.env.PATH, HOME: temporary },
		directory,
	});
	return { code, out, errors };
}

const contentOf = (directory: string) =>
	Object.fromEntries(
		readdirSync(directory, { recursive: true, withFileTypes: true })
			.filter((entry) => entry.isFile())
			.map((entry) => [entry.name, readFileSync(join(entry.parentPath, entry.name), "utf8")]),
	);

const packageWith = (packages: object) => ({
	"package.json": JSON.stringify({ name: "shop", dependencies: packages }),
});
const CAPACITOR = { "capacitor.config.ts": 'export default { appId: "com.acme.shop", webDir: "www" };\n' };
const ELECTRON = { "src/main.ts": 'new ElectronUpdater({ appId: "com.acme.desktop" });\n' };
const UPDATERS = { "@capgo/capacitor-updater": "8.0.0", "@capgo/electron-updater": "1.0.0" };

describe("a directory with a Capacitor and an Electron project", () => {
	test.each([
		["no updater", { electron: "38.0.0" }],
		["both updaters", { electron: "38.0.0", ...UPDATERS }],
	])("and %s is refused, names both, and changes nothing", async (_, packages) => {
		const directory = directoryWith({ ...packageWith(packages), ...CAPACITOR, ...ELECTRON });
		const before = contentOf(directory);
		const { code, errors } = await run(directory, "init", "--server", SERVER);
		expect(code).toBe(2);
		expect(errors).toContain("a Capacitor project (capacitor.config.ts) and an Electron project");
		expect(errors).toContain("--platform capacitor or --platform electron");
		expect(contentOf(directory)).toEqual(before);
	});

	test.each([
		[{ electron: "38.0.0", "@capgo/electron-updater": "1.0.0" }, {}, "electron", "com.acme.desktop"],
		[{ electron: "38.0.0", "@capgo/capacitor-updater": "8.0.0" }, {}, "capacitor", "com.acme.shop"],
		[{ electron: "38.0.0", ...UPDATERS }, { appId: "com.acme.desktop" }, "electron", "com.acme.desktop"],
		[{ electron: "38.0.0" }, { appId: "com.acme.shop" }, "capacitor", "com.acme.shop"],
		[{ electron: "38.0.0", ...UPDATERS }, { platform: "electron" }, "electron", "com.acme.desktop"],
	] as const)("with %j and %j is %s", async (packages, meant, kind, appId) => {
		const directory = directoryWith({ ...packageWith(packages), ...CAPACITOR, ...ELECTRON });
		expect(await readProject(directory, meant)).toMatchObject({ kind, appId, isAmbiguous: false, webDir: "www" });
	});

	test("gets the settings and jobs of each, side by side", async () => {
		const directory = directoryWith({ ...packageWith({ electron: "38.0.0" }), ...CAPACITOR, ...ELECTRON });
		for (const platform of ["capacitor", "electron"]) {
			const words = ["init", "--server", SERVER, "--ci", "github", "--platform", platform, "--json"];
			expect(JSON.parse((await run(directory, ...words)).out)).toMatchObject({ kind: platform, kept: [] });
			expect(JSON.parse((await run(directory, ...words)).out)).toMatchObject({ changed: [], kept: [] });
		}
		const files = contentOf(directory);
		expect(files["capacitor.config.ts"]).toContain(`updateUrl: "${SERVER}/updates"`);
		expect(files["main.ts"]).toContain(`updateUrl: "${SERVER}/updates"`);
		expect(files["capstan.yml"]).toContain("--app com.acme.shop --platform capacitor");
		expect(files["capstan-electron.yml"]).toContain("--app com.acme.desktop --platform electron");
	});
});

test.each([
	["electron", CAPACITOR, "There is no Electron project here: no electron in package.json."],
	["capacitor", ELECTRON, "There is no Capacitor project here: no capacitor.config."],
	["android", CAPACITOR, '--platform must be capacitor or electron; it is "android".'],
])("--platform %s in a directory without it is refused", async (platform, files, sentence) => {
	const packages = files === ELECTRON ? { electron: "38.0.0" } : {};
	const directory = directoryWith({ ...packageWith(packages), ...files });
	const { code, errors } = await run(directory, "init", "--server", SERVER, "--platform", platform);
	expect([code, errors]).toEqual([2, expect.stringContaining(sentence)]);
});

describe("--config none", () => {
	const ALL = ["autoUpdate", "localApi", "localApiFiles", "updateUrl", "statsUrl", "channelUrl"];

	test.each([
		["capacitor.config.ts", CAPACITOR["capacitor.config.ts"]],
		["capacitor.config.json", '{ "appId": "com.acme.shop", "webDir": "www" }'],
		["capacitor.config.ts", "export default () => configOf(process.env);\n"],
	])("leaves %s alone, names what to set, and is silent once it is set: %s", async (name, text) => {
		const directory = directoryWith({ ...packageWith({}), [name]: text });
		const words = ["init", "--server", SERVER, "--app", "com.acme.shop", "--ci", "none", "--config", "none"];
		const { code, out } = await run(directory, ...words);
		expect(code, out).toBe(0);
		expect(out).toContain(`${name} was not changed. Set these values yourself:`);
		for (const field of ALL) expect(out).toContain(`  plugins.CapacitorUpdater.${field}: `);
		expect(contentOf(directory)[name]).toBe(text);

		const set = directoryWith({ ...packageWith({}), [name]: text });
		await run(set, "init", "--server", SERVER, "--app", "com.acme.shop", "--ci", "none");
		const written = contentOf(set)[name] ?? "";
		const fields = (JSON.parse((await run(set, ...words, "--json")).out).by_hand ?? []) as string[];
		if (written === text) expect(fields).toHaveLength(ALL.length);
		else expect(fields).toEqual([]);
	});

	test("names plain HTTP that the app allows although its next server has HTTPS", async () => {
		const config = {
			appId: "com.acme.shop",
			server: { cleartext: true },
			plugins: { CapacitorUpdater: { updateUrl: "http://192.168.1.20:8787/updates" } },
		};
		const directory = directoryWith({ ...packageWith({}), "capacitor.config.json": JSON.stringify(config) });
		const { out } = await run(directory, "init", "--server", SERVER, "--ci", "none", "--config", "none");
		expect(out).toContain("  server.cleartext: remove it");
	});

	test("names what to set for a project of a kind that a person names", async () => {
		const directory = directoryWith(packageWith({}));
		const words = ["init", "--server", SERVER, "--app", "com.acme.shop", "--ci", "none", "--config", "none"];
		const unknown = await run(directory, ...words);
		expect([unknown.code, unknown.errors]).toEqual([2, expect.stringContaining("name what it is with --platform")]);
		const { out } = await run(directory, ...words, "--platform", "electron");
		expect(out).toContain("The configuration was not changed. Set these values yourself:");
		expect(out).toContain(`  updateUrl: "${SERVER}/updates"`);
	});

	test("has no other value", async () => {
		const { code, errors } = await run(directoryWith(CAPACITOR), "init", "--server", SERVER, "--config", "x");
		expect([code, errors]).toEqual([2, expect.stringContaining("--config must be none")]);
	});
});
