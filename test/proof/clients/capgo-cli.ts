/**
 * The published @capgo/cli in a dedicated Capacitor project, with a temporary home directory, no
 * terminal and no telemetry.
 */
import { spawn } from "node:child_process";
import { mkdir, mkdtemp, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

export const CLI = fileURLToPath(new URL("../../../node_modules/@capgo/cli/dist/index.js", import.meta.url));
const TIME_LIMIT_MS = 180_000;

export interface CliRun {
	readonly code: number | null;
	/** Standard output and error, without colours. */
	readonly output: string;
}

export interface CliProject {
	readonly directory: string;
	readonly home: string;
	run(...words: string[]): Promise<CliRun>;
	/** With variables of the environment, such as CAPGO_TOKEN. */
	runWith(env: Readonly<Record<string, string>>, ...words: string[]): Promise<CliRun>;
	/** Writes a file of the web build. */
	write(name: string, content: string | Uint8Array): Promise<void>;
}

/** A project whose Capacitor configuration names the server, ready to upload. */
export async function createCliProject(parent: string, url: string, appId: string): Promise<CliProject> {
	const directory = await mkdtemp(join(parent, "project-"));
	const home = await mkdtemp(join(parent, "home-"));
	const project: CliProject = {
		directory,
		home,
		run: (...words) => run(directory, home, {}, words),
		runWith: (env, ...words) => run(directory, home, env, words),
		write: (name, content) => writeFile(join(directory, "dist", name), content),
	};
	const plugin = join(directory, "node_modules/@capgo/capacitor-updater");
	await mkdir(plugin, { recursive: true });
	await mkdir(join(directory, "dist"));
	await mkdir(join(directory, "android/app"), { recursive: true });
	const version = "8.51.23";
	await Promise.all([
		writeFile(join(plugin, "package.json"), JSON.stringify({ name: "@capgo/capacitor-updater", version })),
		writeFile(
			join(directory, "package.json"),
			JSON.stringify({ name: "example", version: "1.0.0", dependencies: { "@capgo/capacitor-updater": version } }),
		),
		writeFile(
			join(directory, "capacitor.config.json"),
			JSON.stringify({
				appId,
				appName: "Example",
				webDir: "dist",
				plugins: {
					CapacitorUpdater: { localApi: url, localApiFiles: url, updateUrl: `${url}/updates`, version: "1.0.0" },
				},
			}),
		),
		writeFile(
			join(directory, "android/app/build.gradle"),
			`android {\n  defaultConfig {\n    applicationId "${appId}"\n    versionCode 1\n    versionName "1.0.0"\n  }\n}\n`,
		),
		project.write("index.html", '<!doctype html><script type="module" src="app.js"></script>'),
		project.write("app.js", "CapacitorUpdater.notifyAppReady();"),
	]);
	return project;
}

function run(cwd: string, home: string, extra: Readonly<Record<string, string>>, words: string[]): Promise<CliRun> {
	return new Promise((resolve, reject) => {
		const { CAPGO_TOKEN: _, ...inherited } = process.env;
		const child = spawn(process.execPath, [CLI, ...words], {
			cwd,
			env: {
				...inherited,
				...extra,
				HOME: home,
				CI: "1",
				NO_COLOR: "1",
				CAPGO_DISABLE_TELEMETRY: "1",
				NODE_NO_WARNINGS: "1",
			},
			stdio: ["ignore", "pipe", "pipe"],
			timeout: TIME_LIMIT_MS,
		});
		let output = "";
		child.stdout.on("data", (chunk) => {
			output += chunk;
		});
		child.stderr.on("data", (chunk) => {
			output += chunk;
		});
		child.on("error", reject);
		// biome-ignore lint/suspicious/noControlCharactersInRegex: terminal colours begin with one
		child.on("close", (code) => resolve({ code, output: output.replace(/\u001b\[[\d;?]*[a-zA-Z]/g, "") }));
	});
}
