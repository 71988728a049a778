/**
 * Every kind of configuration that `capstan init` meets: what can be edited is edited, what is
 * computed is named, and the app and its jobs are created all the same.
 */
import { mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { configure } from "../../cli/src/configuration";
import { invocationOf } from "../../cli/src/invocation";
import { readProject } from "../../cli/src/project";
import { runCommand } from "../../cli/src/run";
import { withoutSetting } from "../../cli/src/source-object";
import { stubCommandServer } from "./support/command-server";

const SERVER = "https://updates.example.com";
const directories: string[] = [];
afterAll(() => Promise.all(directories.map((directory) => rm(directory, { recursive: true }))));

async function projectWith(files: Readonly<Record<string, string>>): Promise<string> {
	const directory = await mkdtemp(join(tmpdir(), "capstan-configuration-"));
	directories.push(directory);
	for (const [name, text] of Object.entries(files)) await writeFile(join(directory, name), text);
	return directory;
}

async function run(directory: string, words: readonly string[], invocation?: string) {
	let out = "";
	let errors = "";
	const code = await runCommand(words, {
		out: { write: (text) => (out += text) },
		error: { write: (text) => (errors += text) },
		environment: { PATH: process.env.PATH, HOME: directory },
		directory,
		...(invocation === undefined ? {} : { invocation }),
	});
	return { code, out, errors };
}

const PACKAGE = { "package.json": '{ "scripts": { "build": "vite build" } }' };

describe("init --app", () => {
	beforeEach(stubCommandServer);

	test.each([
		[
			"capacitor.config.ts",
			"const config = { appId: process.env.FLAVOR || 'com.acme.a', webDir: 'www' };\nexport default config;\n",
			0,
		],
		["capacitor.config.ts", "export default () => ({ appId: 'com.acme.a' });\n", 6],
		["capacitor.config.ts", "const base = { webDir: 'www' };\nexport default { ...base, appId: 'com.acme.a' };\n", 6],
		[
			"capacitor.config.js",
			"module.exports = { appId: 'com.acme.a', plugins: { CapacitorUpdater: { updateUrl: url() } } };\n",
			1,
		],
		["capacitor.config.mjs", "export default { appId: 'com.acme.a' };\n", 0],
		["capacitor.config.cjs", "module.exports = { appId: 'com.acme.a' };\n", 0],
		["capacitor.config.json", '{\n  // ours\n  "appId": "com.acme.a",\n}\n', 0],
		[
			"capacitor.config.ts",
			"export default { appId: 'com.acme.a', plugins: { CapacitorUpdater: { ...flags } } };\n",
			6,
		],
		["capacitor.config.js", "module.exports = { appId: 'com.acme.a', plugins: { ...plugins(), [name]: 1 } };\n", 6],
		[
			"capacitor.config.ts",
			"export default { appId: 'com.acme.a', plugins: { CapacitorUpdater: { url() {} } } };\n",
			6,
		],
	])("with %s: %j writes the jobs, and names %i values to set", async (name, text, byHand) => {
		const directory = await projectWith({ ...PACKAGE, [name]: text });
		const words = ["init", "--server", SERVER, "--app", "com.acme.b", "--ci", "github", "--json"];
		const { code, out, errors } = await run(directory, words);
		expect(code, out + errors).toBe(0);
		const answer = JSON.parse(out);
		expect(answer.changed).toContain(".github/workflows/capstan.yml");
		expect(answer.by_hand ?? []).toHaveLength(byHand);
		expect(await readFile(join(directory, ".github/workflows/capstan.yml"), "utf8")).toContain("--app com.acme.b");
		const written = await readFile(join(directory, name), "utf8");
		if (byHand < 6) expect(written).toContain(`${SERVER}/stats`);
		else expect(written).toBe(text);
		// Values that a person has set are recognized.
		const values: readonly string[] = answer.by_hand ?? [];
		const fields = values.map(
			(each) => `${each.split(":")[0]?.split(".").at(-1)}: ${each.slice(each.indexOf(":") + 2)},`,
		);
		await writeFile(join(directory, name), `${written}\n/* ${fields.join("\n")} */\n`);
		if (byHand > 0) expect(JSON.parse((await run(directory, words)).out).by_hand).toBeUndefined();
	});

	test.each([
		[`updateUrl: process.env.UPDATES ?? "${SERVER}/updates"`],
		[`updateUrl: isLocal ? "http://localhost:8787/updates" : '${SERVER}/updates'`],
		[`updateUrl: \`\${server}/updates\``],
		["updateUrl: updates"],
	])("recognizes %s", async (field) => {
		const text = `const server: string = "${SERVER}";\nconst updates = \`${SERVER}/updates\`;\nexport default { plugins: { CapacitorUpdater: { ${field} } } };\n`;
		const directory = await projectWith({ ...PACKAGE, "capacitor.config.ts": text });
		const words = ["init", "--server", SERVER, "--app", "com.acme.b", "--ci", "none", "--json"];
		expect(JSON.parse((await run(directory, words)).out).by_hand).toBeUndefined();
		const other = ["init", "--server", "https://other.example.com", ...words.slice(3)];
		expect(JSON.parse((await run(directory, other)).out).by_hand).toEqual([
			'plugins.CapacitorUpdater.updateUrl: "https://other.example.com/updates"',
		]);
	});

	test("names what it cannot see in full once, and in one line after that", async () => {
		vi.stubGlobal("fetch", async () => Response.json({ app_id: "com.acme.a" }));
		const text = "export default { appId: 'com.acme.a', plugins: { CapacitorUpdater: { updateUrl: url() } } };\n";
		const directory = await projectWith({ ...PACKAGE, "capacitor.config.ts": text });
		const words = ["init", "--server", SERVER, "--ci", "none", "--key", "cap_key_of_this_test"];
		const first = await run(directory, words);
		expect(first.out).toContain(
			`Set these values yourself:\n  plugins.CapacitorUpdater.updateUrl: "${SERVER}/updates"\n`,
		);
		const again = await run(directory, words);
		expect(again.out).toContain(
			"The computed values were not checked: updateUrl. capstan init --config none lists them.\n",
		);
		expect(again.out).not.toContain("yourself");
		expect(again.out).not.toContain("set the values above");
		expect(JSON.parse((await run(directory, ["doctor", "--json"])).out).findings).toContainEqual({
			check: "config",
			state: "warning",
			detail: "capacitor.config.ts computes updateUrl, so it cannot be checked",
		});
		expect((await run(directory, [...words, "--config", "none"])).out).toContain("Set these values yourself:");
	});

	test.each([
		["capacitor.config.json", '{ "appId": "com.acme.a" }'],
		["capacitor.config.json", '{\n  "appId": "com.acme.a", // ours\n  "webDir": "www",\n}\n'],
		["capacitor.config.ts", "export default {\n\tappId: 'com.acme.a', // ours\n\tplugins: {},\n};\n"],
	])("keeps the line ends and the byte order mark of Windows in %s: %j", async (name, text) => {
		const windows = `\uFEFF${text.replaceAll("\n", "\r\n")}`;
		const [directory, plain] = [
			await projectWith({ ...PACKAGE, [name]: windows }),
			await projectWith({ ...PACKAGE, [name]: text }),
		];
		for (const each of [directory, plain, directory]) {
			expect((await run(each, ["init", "--server", SERVER, "--ci", "none"])).code).toBe(0);
		}
		const written = await readFile(join(directory, name), "utf8");
		expect(written).toContain(`${SERVER}/updates`);
		const expected = await readFile(join(plain, name), "utf8");
		expect(written).toBe(`\uFEFF${expected.replaceAll("\n", "\r\n")}`);
	});

	test("leads on to a release of the same app, and names what it cannot edit", async () => {
		vi.stubGlobal("fetch", async () => Response.json({ app_id: "com.acme.a" }));
		const text = "export default { appId: appId(), plugins: { CapacitorUpdater: { ...flags } } };\n";
		const directory = await projectWith({ ...PACKAGE, "capacitor.config.ts": text });
		const words = ["init", "--server", SERVER, "--ci", "none", "--key", "cap_key_of_this_test", "--app", "com.acme.a"];
		await run(directory, words);
		// The app is on the server already, and a missing value is named each time.
		const { out } = await run(directory, words);
		expect(out).toContain('capacitor.config.ts: "...flags } } };" is not a plain name and value. Set these');
		expect(out).toMatch(/then capstan release --app com\.acme\.a\n$/);
	});

	test("without an id that can be read asks for one", async () => {
		const directory = await projectWith({
			...PACKAGE,
			"capacitor.config.ts": "export default configOf(process.env);\n",
		});
		const { code, errors } = await run(directory, ["init", "--server", SERVER]);
		expect([code, errors]).toEqual([
			2,
			expect.stringContaining("capacitor.config.ts names no appId that can be read; pass --app"),
		]);
	});
});

describe("a configuration that passes another file on", () => {
	beforeEach(stubCommandServer);
	const OBJECT = "{ appId: 'com.acme.a', webDir: 'www' }";

	test.each([
		["capacitor.config.ts", "export { default } from './shared';\n", "shared.ts", `export default ${OBJECT};\n`],
		[
			"capacitor.config.ts",
			"import base from './shared.js';\n\n// One for all.\nexport default base;\n",
			"shared.ts",
			`const config: CapacitorConfig = ${OBJECT};\nexport default config;\n`,
		],
		["capacitor.config.js", "module.exports = require('./shared');\n", "shared.js", `module.exports = ${OBJECT};\n`],
		[
			"capacitor.config.ts",
			"import c from './shared.json';\nexport default c;\n",
			"shared.json",
			'{ "appId": "com.acme.a" }\n',
		],
	])("%s with %j is edited there", async (name, text, shared, object) => {
		const directory = await projectWith({ ...PACKAGE, [name]: text, [shared]: object });
		const words = ["init", "--server", SERVER, "--ci", "none", "--json"];
		const { code, out } = await run(directory, words);
		expect(code, out).toBe(0);
		expect(JSON.parse(out)).toMatchObject({ app_id: "com.acme.a", changed: [shared] });
		expect(JSON.parse(out).by_hand).toBeUndefined();
		expect(await readFile(join(directory, shared), "utf8")).toContain(`${SERVER}/stats`);
		expect(await readFile(join(directory, name), "utf8")).toBe(text);
	});

	test.each([
		["import base from './shared';\nexport default { ...base, appId: 'com.acme.b' };\n"],
		["import base from './shared';\nexport default withFlavor(base);\n"],
		["export { default } from './missing';\n"],
		["export { default } from '@acme/shared';\n"],
	])("%j changes what it passes on, so a person edits it", async (text) => {
		const directory = await projectWith({ "capacitor.config.ts": text, "shared.ts": `export default ${OBJECT};\n` });
		const words = ["init", "--server", SERVER, "--ci", "none", "--app", "com.acme.b", "--json"];
		const answer = JSON.parse((await run(directory, words)).out);
		expect(answer).toMatchObject({ changed: [] });
		expect(answer.by_hand).not.toHaveLength(0);
		expect(await readFile(join(directory, "shared.ts"), "utf8")).not.toContain(SERVER);
	});
});

describe("the name that the Android emulator has for this computer", () => {
	afterEach(() => vi.unstubAllGlobals());

	test("is written for the app, and commands ask this computer", async () => {
		const asked: string[] = [];
		vi.stubGlobal("fetch", async (url: string) => {
			asked.push(new URL(url).origin);
			const isList = /organization|channel|rollout|proposal/.test(url);
			return Response.json(isList ? [] : { app_id: "com.acme.a", status: "ok" });
		});
		const directory = await projectWith({ ...PACKAGE, "capacitor.config.json": '{ "appId": "com.acme.a" }' });
		const login = ["login", "--server", "http://localhost:8787", "--key", "cap_key_of_this_test"];
		expect((await run(directory, login)).code).toBe(0);
		const init = await run(directory, ["init", "--server", "http://10.0.2.2:8787", "--ci", "none"]);
		expect([init.code, init.out]).toEqual([0, expect.stringContaining("The app exists on the server.")]);
		const written = await readFile(join(directory, "capacitor.config.json"), "utf8");
		expect(written).toContain('"http://10.0.2.2:8787/updates"');
		expect(written).not.toContain("localhost");
		const status = await run(directory, ["status", "--json"]);
		expect(status.out).not.toContain("missing_key");
		const doctor = await run(directory, ["doctor", "--server", "http://localhost:8787", "--json"]);
		expect(doctor.out).not.toContain("and this checks");
		expect(new Set(asked)).toEqual(new Set(["http://localhost:8787"]));
	});
});

describe("the next steps of init", () => {
	afterEach(() => vi.unstubAllGlobals());
	const PLUGIN = "@capgo/capacitor-updater";
	const words = ["init", "--server", SERVER, "--app", "com.acme.a", "--ci", "none", "--key", "cap_key_of_this_test"];
	const CONFIG = { "capacitor.config.json": '{ "appId": "com.acme.a" }' };
	const installed = (name: string) => JSON.stringify({ dependencies: { [name]: "8.0.0" } });

	test.each<[string, Readonly<Record<string, string>>, string, string]>([
		[
			"without the plugin",
			{ "package.json": "{}", "package-lock.json": "{}", ...CONFIG },
			`npm install ${PLUGIN}, then build your app, then npx cap sync, then capstan release`,
			`npm install ${PLUGIN}, then build your app, then npx cap sync, then capstan release`,
		],
		[
			"with the plugin, and Yarn",
			{ "package.json": installed(PLUGIN), "yarn.lock": "", ...CONFIG },
			"build your app, then yarn run cap sync, then capstan release",
			"build your app, then capstan release",
		],
		[
			"with a configuration to set by hand",
			{ "package.json": installed(PLUGIN), "capacitor.config.ts": "export default configOf();\n" },
			"set the values above, then build your app, then npx cap sync, then capstan release --app com.acme.a",
			"set the values above, then build your app, then npx cap sync, then capstan release --app com.acme.a",
		],
		[
			"for Electron",
			{ "package.json": installed("electron"), "bun.lock": "{}", "main.js": "new ElectronUpdater({});\n" },
			"bun add @capgo/electron-updater, then build your app, then capstan release --app com.acme.a",
			"bun add @capgo/electron-updater, then build your app, then capstan release",
		],
	])("%s work before the first build, also when it runs again", async (_, files, first, again) => {
		vi.stubGlobal("fetch", async () => Response.json({ app_id: "com.acme.a" }));
		const directory = await projectWith(files);
		expect((await run(directory, words)).out).toContain(`Next: ${first}\n`);
		expect((await run(directory, words)).out).toContain(`Next: ${again}\n`);
	});
});

describe("cleartext", () => {
	beforeEach(stubCommandServer);
	const LOCAL = "http://192.168.1.20:8787";
	const config = (server: string) =>
		`{\n  "appId": "com.acme.a",\n  "server": {\n    "cleartext": true${server}\n  },\n  "plugins": { "CapacitorUpdater": { "updateUrl": "${LOCAL}/updates" } }\n}\n`;

	test.each([
		["", undefined],
		[',\n    "hostname": "app"', { hostname: "app" }],
	])("of a local server leaves with the first one that has HTTPS, beside %j", async (more, server) => {
		const directory = await projectWith({ ...PACKAGE, "capacitor.config.json": config(more) });
		const { change } = configure(await readProject(directory), SERVER, "com.acme.a");
		expect(JSON.parse(change?.after ?? "").server).toEqual(server);
		const local = configure(await readProject(directory), LOCAL, "com.acme.a");
		expect(JSON.parse(local.change?.after ?? "").server).toMatchObject({ cleartext: true });
	});

	test.each([
		["{ a: 1, server: { cleartext: true } }", "{ a: 1 }"],
		[
			"{\n  server: {\n    cleartext: true, // dev\n    hostname: 'x',\n  },\n}",
			"{\n  server: {\n    hostname: 'x',\n  },\n}",
		],
		[
			"{\n  server: {\n    hostname: 'x', // ours\n    cleartext: true\n  }\n}",
			"{\n  server: {\n    hostname: 'x' // ours\n  }\n}",
		],
		["{ a: 1 }", "{ a: 1 }"],
	])("is removed from %j", (before, after) => {
		expect(withoutSetting(`export default ${before};`, false, ["server", "cleartext"])).toBe(
			`export default ${after};`,
		);
	});

	test("of an app whose server has HTTPS is a failure of doctor", async () => {
		const text = config("").replace(LOCAL, "https://127.0.0.1:9");
		const { code, out } = await run(await projectWith({ ...PACKAGE, "capacitor.config.json": text }), [
			"doctor",
			"--json",
		]);
		expect(code).toBe(1);
		expect(JSON.parse(out).findings).toContainEqual(
			expect.objectContaining({
				check: "cleartext",
				state: "failed",
				detail: expect.stringContaining("server.cleartext is true"),
			}),
		);
	});
});

describe("a server that is down", () => {
	const commands = [["login"], ["status", "--key", "cap_key_of_this_test", "--app", "com.acme.a"]] as const;
	test.concurrent.each([
		// Nothing listens, and packets to an address for documentation get no answer.
		[commands[0], "http://127.0.0.1:18099"],
		[commands[1], "http://127.0.0.1:18099"],
		[commands[0], "http://192.0.2.1"],
	])("is reported within three seconds by %j at %s", async (words, server) => {
		const startedMs = Date.now();
		const { code, errors } = await run(await projectWith({}), [...words, "--server", server]);
		expect([code, errors]).toEqual([5, expect.stringContaining(`${server} does not answer (`)]);
		expect(errors).not.toContain("Open this address");
		expect(Date.now() - startedMs).toBeLessThan(5_000);
	});
});

describe("a mistyped", () => {
	test.each([
		[["relase"], 'Did you mean "release"?'],
		[["release", "--chanel", "beta"], "Unknown option '--chanel'. Did you mean --channel?"],
		[["init", "--colour", "red"], "Unknown option '--colour'"],
	])("word in %j is answered with the likely one", async (words, sentence) => {
		const { code, errors } = await run(await projectWith({}), words);
		expect([code, errors]).toEqual([2, expect.stringContaining(sentence)]);
	});
});

describe("messages", () => {
	test("name the command that the person used", async () => {
		const invocation = `npx ${SERVER}/capstan.tgz`;
		const { errors } = await run(await projectWith({}), ["status"], invocation);
		expect(errors).toContain(`After ${invocation} login or init with it`);
		for (const words of [["help"], ["help", "init"], ["release", "--help"], ["preview", "--help"]]) {
			const { out } = await run(await projectWith({}), words, invocation);
			expect(out.replaceAll(`${invocation} `, "").replaceAll("capstan.tgz", "")).not.toMatch(/\bcapstan [a-z<]/);
		}
	});

	test("find it in what npx keeps beside its copy, and by the package manager", async () => {
		const npx = join(await projectWith({}), "_npx/0a1b");
		await mkdir(npx, { recursive: true });
		await writeFile(join(npx, "package.json"), JSON.stringify({ _npx: { packages: [`${SERVER}/capstan.tgz`] } }));
		const script = (directory: string) => join(directory, "node_modules/capstan/dist/capstan.js");
		expect(invocationOf(script(npx), {})).toBe(`npx ${SERVER}/capstan.tgz`);
		const variables = (agent: string) => ({ npm_execpath: "npm", npm_config_user_agent: `${agent}/1.0.0 node/v22` });
		expect(invocationOf(script("/app"), variables("npm"))).toBe("npx capstan");
		expect(invocationOf(script("/app"), variables("pnpm"))).toBe("pnpm exec capstan");
		expect(invocationOf("/usr/lib/node_modules/capstan/dist/capstan.js", {})).toBe("capstan");
	});
});
