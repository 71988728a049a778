/**
 * `npm run test:node-versions`: `npm start` and the unit tests on each Node of `engines`, beside
 * the one that npm scripts use. Each Node is an ordinary npm package, installed into a temporary
 * directory, and comes first in the PATH of what it runs.
 */
import { spawn, spawnSync } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { PROJECT_DIRECTORY } from "../src/operator/project";

/** The oldest and the newest supported ones, as `node-<platform>-<arch>` has them. */
const VERSIONS = ["22.12.0", "22.23.3", "24.21.0"];
const START_LIMIT_MS = 120_000;
const RUNNING = "Capstan is running";

const directory = await mkdtemp(join(tmpdir(), "capstan-node-"));
let failed = false;
try {
	for (const version of VERSIONS) {
		const platform = process.platform === "win32" ? "win" : process.platform;
		const prefix = join(directory, version);
		const words = ["install", "--no-save", "--prefix", prefix, `node-${platform}-${process.arch}@${version}`];
		if (spawnSync("npm", words, { stdio: ["ignore", "ignore", "inherit"] }).status !== 0) {
			console.log(`Node ${version}: not published for this machine`);
			failed = true;
			continue;
		}
		const bin = join(prefix, "node_modules/.bin");
		const environment = {
			...process.env,
			PATH: `${bin}${delimiter}${process.env.PATH}`,
			CAPSTAN_STATE: join(prefix, "state"),
			PORT: "0",
		};
		const node = join(bin, "node");
		const started = await starts(node, environment);
		const unitTests = ["node_modules/vitest/vitest.mjs", "run", "-c", "test/vitest.config.ts", "--project", "unit"];
		const tested = spawnSync(node, unitTests, { cwd: PROJECT_DIRECTORY, env: environment, encoding: "utf8" });
		if (tested.status !== 0) console.log(tested.stdout, tested.stderr);
		console.log(
			`Node ${version}: start ${started ? "works" : "fails"}, unit tests ${tested.status === 0 ? "pass" : "fail"}`,
		);
		failed ||= !started || tested.status !== 0;
	}
} finally {
	await rm(directory, { recursive: true, force: true });
}
process.exitCode = failed ? 1 : 0;

/** Prints the output of a start that fails. */
async function starts(node: string, env: NodeJS.ProcessEnv): Promise<boolean> {
	const child = spawn(node, ["src/operator/launch.js", "src/operator/start.ts"], {
		cwd: PROJECT_DIRECTORY,
		env,
		stdio: ["ignore", "pipe", "pipe"],
	});
	let output = "";
	const ended = new Promise<void>((resolve) => child.once("close", () => resolve()));
	const running = new Promise<boolean>((resolve) => {
		const limit = setTimeout(() => resolve(false), START_LIMIT_MS);
		for (const stream of [child.stdout, child.stderr])
			stream.on("data", (chunk) => {
				output += chunk;
				if (output.includes(RUNNING)) resolve(true);
			});
		void ended.then(() => resolve(false));
		void Promise.race([ended]).finally(() => clearTimeout(limit));
	});
	const works = await running;
	child.kill("SIGINT");
	await ended;
	if (!works) console.log(output);
	return works;
}
