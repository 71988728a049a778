/**
 * Every code block of the guides is held to something: commands run (test/node/docs.test.ts),
 * TypeScript compiles against the published plugins, configurations have only fields that they
 * know, and everything else parses. A block in another language fails, and so does a command in a
 * guide whose examples no test runs.
 */
import { execFileSync } from "node:child_process";
import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { DOMParser } from "@xmldom/xmldom";
import { describe, expect, test } from "vitest";
import { unstable_readConfig } from "wrangler";
import { parse } from "yaml";
import { runCommand } from "../../cli/src/run";
import { devDependencies, scripts } from "../../package.json";
import { GUIDE_NAMES } from "../../src/operator/docs-pages";
import { EXECUTED_GUIDES } from "../node/support/executed-guides";
import { type Block, blocksOf, GUIDE_FILES } from "../node/support/guide-blocks";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const BLOCKS = GUIDE_FILES.flatMap((guide) => blocksOf(guide));
const of = (...languages: string[]) =>
	BLOCKS.filter(({ language }) => languages.includes(language)).map((block) => [where(block), block] as const);
const where = ({ guide, line }: Block) => `${guide}.md, line ${line}`;

/**
 * Output and answers stand directly below the command that prints them, and the run of the guide
 * compares them.
 */
const isOutput = ({ after }: Block) => after === "sh" || after === "bash";
const VALUES = BLOCKS.filter((block) => block.language === "json" && !isOutput(block));

test("every guide is in the navigation, and its blocks are in languages that a test understands", () => {
	expect([...GUIDE_FILES].sort()).toEqual([...GUIDE_NAMES].sort());
	const known = ["sh", "json", "text", "console", "ts", "yaml", "toml", "xml"];
	expect(BLOCKS.filter(({ language }) => !known.includes(language)).map(where)).toEqual([]);
});

test("every command block is in a guide whose examples run, and every text is the output of one", () => {
	const isRun = ({ guide }: Block) => EXECUTED_GUIDES.includes(guide);
	expect(of("sh").filter(([, block]) => !isRun(block))).toEqual([]);
	expect(of("text").filter(([, block]) => !isOutput(block))).toEqual([]);
	expect(of("sh").length).toBeGreaterThan(60);
});

/** Programs of a reader's machine; their arguments are the reader's. */
const PROGRAMS = ["git", "mkdir", "cp", "export"];

/** Why the arguments of the capstan command are none that its help knows. */
async function problemOfCapstan(words: readonly string[]): Promise<string | undefined> {
	let help = "";
	const out = {
		isTTY: false,
		write(text: string) {
			help += text;
			return true;
		},
	};
	const options = words.filter((word) => word.startsWith("--"));
	await runCommand([...words.filter((word) => !word.startsWith("-")).slice(0, 1), "--help"], {
		out,
		error: out,
		environment: {},
		directory: ROOT,
	});
	const missing = options.filter((option) => !help.split(/[\s,]+/).includes(option.split("=")[0] ?? ""));
	return help.includes("Usage") && missing.length === 0 ? undefined : `no ${words[0]} ${missing.join(" ")}`;
}

/** Why a command of a `console` block is not one that exists; undefined if it is. */
async function problemOf(command: string): Promise<string | undefined> {
	const words = command.replace(/^(?:[A-Z_]+=(?:<[^>]*>|\S+) )*/, "").split(" ");
	const [program = "", first = "", second = ""] = words;
	const packed = words.findIndex((word) => word.endsWith("/capstan.tgz"));
	if (program === "npx" && packed !== -1) return problemOfCapstan(words.slice(packed + 1));
	if (PROGRAMS.includes(program)) return undefined;
	if (program === "npm" && first === "run")
		return second in scripts || second === "build" ? undefined : `no script ${second}`;
	if (program === "npm" && ["start", "ci"].includes(first)) return undefined;
	// A package that is installed is one that the tests use; one that is removed is that of another
	// service.
	if (program === "npm" && first === "uninstall") return undefined;
	if (program === "npm" && first === "install") return second in devDependencies ? undefined : `no package ${second}`;
	return program === "npx" && ["wrangler", "cap"].includes(first) ? undefined : `unknown command ${command}`;
}

test.each(of("console"))("%s: the commands exist", async (_, { text }) => {
	const commands = text.split("\n").flatMap((line) => (line.startsWith("$ ") ? line.slice(2).split(" && ") : []));
	expect(commands.length).toBeGreaterThan(0);
	const problems = await Promise.all(commands.map(problemOf));
	expect(problems.filter((problem) => problem !== undefined)).toEqual([]);
});

test("a command that does not exist is found", async () => {
	const capstan = "npx --yes http://127.0.0.1:8787/capstan.tgz";
	const wrong = [
		"npm run deplyo",
		"npm install left-pad",
		"capgo upload",
		`${capstan} login --serve x`,
		`${capstan} relase`,
	];
	for (const command of wrong) expect(await problemOf(command), command).toBeTypeOf("string");
	expect(await problemOf("CAPSTAN_SECRET=<the secret> npm run deploy -- --name=x")).toBe(undefined);
});

test.each(VALUES.map((block) => [where(block), block] as const))("%s: the JSON parses", (_, { text }) => {
	expect(() => JSON.parse(text)).not.toThrow();
});

test.each(of("yaml"))("%s: the YAML parses", (_, { text }) => {
	expect(parse(text)).toBeTypeOf("object");
});

test.each(of("xml"))("%s: the XML is well-formed", (_, { text }) => {
	const errors: string[] = [];
	const parser = new DOMParser({ onError: (level, message) => errors.push(`${level}: ${message}`) });
	parser.parseFromString(`<dict>${text}</dict>`, "text/xml");
	expect(errors).toEqual([]);
});

const SCRATCH = join(ROOT, "dist/checks/guides");

test.each(of("toml"))("%s: the TOML is a configuration of wrangler", (_, { text }) => {
	mkdirSync(SCRATCH, { recursive: true });
	const path = join(SCRATCH, "wrangler.toml");
	writeFileSync(path, `name = "x"\ncompatibility_date = "2026-01-01"\n${text}`);
	expect(() => unstable_readConfig({ config: path })).not.toThrow();
});

/** Modules that the examples import and the tests have not installed. */
const AMBIENT = `declare module "@capacitor/cli" {
	export interface PluginsConfig { SplashScreen?: { launchAutoHide?: boolean } }
	export interface CapacitorConfig {
		appId?: string; appName?: string; webDir?: string;
		server?: { cleartext?: boolean }; plugins?: PluginsConfig;
	}
}
declare module "@capacitor/app" {
	export const App: { addListener(event: "appUrlOpen", listener: (event: { url: string }) => void): Promise<unknown> };
}
declare module "electron" { export type BrowserWindow = { readonly id: number } }
`;

/** The messages of the compiler for these files, by name. */
function compile(files: Readonly<Record<string, string>>): string[] {
	const directory = join(SCRATCH, "types");
	rmSync(directory, { recursive: true, force: true });
	mkdirSync(directory, { recursive: true });
	const config = {
		compilerOptions: {
			strict: true,
			noUncheckedIndexedAccess: true,
			exactOptionalPropertyTypes: true,
			skipLibCheck: true,
			noEmit: true,
			target: "ES2022",
			module: "ESNext",
			moduleResolution: "Bundler",
			lib: ["ES2022", "DOM"],
			types: [],
		},
		include: ["."],
	};
	const all = { ...files, "ambient.d.ts": AMBIENT, "tsconfig.json": JSON.stringify(config) };
	for (const [name, text] of Object.entries(all)) writeFileSync(join(directory, name), text);
	try {
		execFileSync(join(ROOT, "node_modules/.bin/tsc"), ["-b", directory, "--pretty", "false"], {
			encoding: "utf8",
			stdio: "pipe",
		});
		return [];
	} catch (error) {
		return String((error as { readonly stdout: string }).stdout)
			.split("\n")
			.filter(Boolean);
	}
}

const CONFIGURATION = (value: string) =>
	`import type { CapacitorConfig } from "@capacitor/cli";\nimport "@capgo/capacitor-updater";\nexport const config: CapacitorConfig = ${value};\n`;

describe("TypeScript and configurations", () => {
	const files = Object.fromEntries([
		...of("ts").map(([, { guide, line, text }]) => [`${guide}-${line}.ts`, `${text}\nexport {};\n`]),
		...VALUES.filter(({ text }) => text.includes('"plugins"')).map(({ guide, line, text }) => [
			`${guide}-${line}-config.ts`,
			CONFIGURATION(text),
		]),
	]);

	test("compile against the published plugins, and an error in one is found", { timeout: 180_000 }, () => {
		expect(Object.keys(files).length).toBeGreaterThan(10);
		const wrong = {
			"wrong-call.ts":
				'import { CapacitorUpdater } from "@capgo/capacitor-updater";\nCapacitorUpdater.notifyReady();\n',
			"wrong-field.ts": CONFIGURATION('{ "plugins": { "CapacitorUpdater": { "autoUpdat": true } } }'),
		};
		const messages = compile({ ...files, ...wrong });
		expect(messages.filter((message) => !message.includes("wrong-") && !message.startsWith(" "))).toEqual([]);
		for (const name of Object.keys(wrong)) expect(messages.join("\n"), name).toContain(name);
	});
});
