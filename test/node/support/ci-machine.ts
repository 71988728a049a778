/**
 * A machine that runs written CI jobs as their system does: each job in a fresh clone, its steps in
 * a shell, in their folders, one after another. Package managers are stand-ins that refuse what the
 * real ones refuse: a lock file that is not there, an option of another version, a version that
 * nobody installed. npx stands for the command, and demands the build that it is given. turbo, nx
 * and pnpm's filter build the packages of the workspace that the named one depends on, and then
 * that one.
 */
import { spawnSync } from "node:child_process";
import {
	chmodSync,
	cpSync,
	existsSync,
	mkdirSync,
	mkdtempSync,
	readFileSync,
	symlinkSync,
	writeFileSync,
} from "node:fs";
import { dirname, join } from "node:path";

const NAMES = ["npm", "pnpm", "yarn", "bun", "bunx", "corepack", "npx"];
const STAND_IN = `#!/bin/bash
set -euo pipefail
name="$(basename "$0")"
all="$*"
echo "\${PWD#"$WORKSPACE"}|$name $all" >> "$MACHINE/log"
fail() { echo "$name in $PWD: $*" >&2; exit 1; }
need() { for file in "$@"; do [ ! -f "$file" ] || return 0; done; fail "no $*"; }
refuse() { case "$all" in *"$1"*) fail "does not know $1" ;; esac; }
given() { case "$all" in *"$1"*) ;; *) fail "lacks $1" ;; esac; }
# The version that package.json of this folder or of one above pins.
pinned() { local at="$PWD"; while :; do if grep -q '"packageManager"' "$at/package.json" 2>/dev/null; then sed -n 's/.*"packageManager": *"\\([^"]*\\)".*/\\1/p' "$at/package.json"; return; fi; [ "$at" != "$WORKSPACE" ] || return 0; at="$(dirname "$at")"; done; }
manager() {
	local wanted; wanted="$(pinned)"
	case "$name" in
		npm) return ;;
		bun) [ -e "$MACHINE/bun" ] || exit 127 ;;
		pnpm) [ -e "$MACHINE/corepack" ] || exit 127; [ -n "$wanted" ] || [ -e "$MACHINE/prepared-pnpm" ] || fail "no version" ;;
		yarn)
			if grep -q '^__metadata:' yarn.lock 2>/dev/null; then
				[ -e "$MACHINE/corepack" ] || fail "is version 1"
				[ -n "$wanted" ] || [ -e "$MACHINE/prepared-yarn" ] || fail "no version"
			fi ;;
	esac
	case "$wanted" in ""|"$name"@*) ;; *) fail "this project uses $wanted" ;; esac
}
run_build() {
	[ "\${1-build}" = build ] || fail "$all"; need package.json
	local at="$PWD"; while [ ! -d "$at/node_modules" ]; do [ "$at" != "$WORKSPACE" ] || fail "nothing is installed"; at="$(dirname "$at")"; done
	bash -ec "$(sed -n 's/.*"build": *"\\([^"]*\\)".*/\\1/p' package.json)"
}
build_with_needed() { [ -d node_modules ] || fail "nothing is installed"; node "$TOOLS/build-with-needed.cjs" "$1" || fail "cannot build $1"; }
# A program of an installed package.
program() {
	case "$*" in
		"turbo run build --filter="*...) need turbo.json turbo.jsonc; local of="\${4#--filter=}"; build_with_needed "\${of%...}" ;;
		"nx run "*:build) need nx.json; build_with_needed "\${3%:build}" ;;
		*) fail "$*" ;;
	esac
}
case "$name \${1-}" in
	"npx turbo"|"npx nx"|"bunx turbo"|"bunx nx") program "$@" ;;
	"pnpm exec") manager; program "\${@:2}" ;;
	"pnpm --filter") manager; need pnpm-workspace.yaml; [ "$3 $4" = "run build" ] || fail "$all"; build_with_needed "\${2%...}" ;;
	"yarn run") manager; if [ "$2" = build ]; then run_build; else program "\${@:2}"; fi ;;
	"npm ci") need package-lock.json npm-shrinkwrap.json; mkdir -p node_modules ;;
	"npm install")
		case "$all" in *"--global bun@"*) touch "$MACHINE/bun" ;; *"--global corepack@"*) ;; *--global*) fail "$all" ;; *) need package.json; mkdir -p node_modules ;; esac ;;
	"pnpm install") manager; if grep -q pnpmfileChecksum pnpm-lock.yaml 2>/dev/null; then refuse --ignore-pnpmfile; fi; if [ -f pnpm-lock.yaml ]; then given --frozen-lockfile; else given --no-frozen-lockfile; fi; mkdir -p node_modules ;;
	"bun install") manager; if [ -f bun.lock ] || [ -f bun.lockb ]; then given --frozen-lockfile; else refuse --frozen-lockfile; fi; mkdir -p node_modules ;;
	"yarn install")
		manager
		if [ ! -f yarn.lock ]; then case "$(pinned)" in yarn@1.*) refuse immutable ;; *) given --no-immutable ;; esac
		elif grep -q '^__metadata:' yarn.lock; then given --immutable; refuse --frozen-lockfile; refuse --ignore-scripts; else given --frozen-lockfile; refuse --immutable; refuse --mode; fi
		mkdir -p node_modules ;;
	*" run") manager; run_build "\${2-}" ;;
	"corepack enable") touch "$MACHINE/corepack" ;;
	"corepack prepare") [ -e "$MACHINE/corepack" ] || fail "is not enabled"; given --activate; touch "$MACHINE/prepared-\${2%@*}" ;;
	"npx --yes")
		case "$2" in https://updates.example.com/command/capstan-*.tgz) ;; *) fail "$2" ;; esac
		case "$3 $4" in
			"release "*) need "$4/index.html"; need package.json project.json ;;
			"preview upload")
				need "$5/index.html"; need package.json project.json
				while [ "$#" -gt 0 ]; do if [ "$1" = --url-file ]; then echo CAPSTAN_PREVIEW_URL=https://updates.example.com/p#1 >> "$2"; fi; shift; done ;;
			"preview close") ;;
			*) fail "$all" ;;
		esac
		exit "\${CAPSTAN_EXIT:-0}" ;;
	*) fail "$all" ;;
esac
`;

const BUILD_WITH_NEEDED = `
const { readdirSync, readFileSync, existsSync } = require("node:fs");
const { spawnSync } = require("node:child_process");
const members = new Map();
(function walk(folder) {
	if (existsSync(folder + "/package.json")) {
		const manifest = JSON.parse(readFileSync(folder + "/package.json", "utf8"));
		members.set(manifest.name, { folder, manifest });
	} else if (existsSync(folder + "/project.json")) {
		const { name, targets } = JSON.parse(readFileSync(folder + "/project.json", "utf8"));
		members.set(name, { folder, manifest: { scripts: { build: targets.build.command } } });
	}
	for (const entry of readdirSync(folder, { withFileTypes: true }))
		if (entry.isDirectory() && !/^[.]|^(node_modules|examples)$/.test(entry.name)) walk(folder + "/" + entry.name);
})(process.cwd());
const done = new Set();
(function build(name) {
	const { folder, manifest } = members.get(name);
	if (done.has(name)) return;
	done.add(name);
	for (const each of Object.keys({ ...manifest.dependencies, ...manifest.devDependencies })) if (members.has(each)) build(each);
	const script = manifest.scripts?.build;
	if (script !== undefined && spawnSync("bash", ["-ec", script], { cwd: folder, stdio: "inherit" }).status !== 0) process.exit(1);
})(process.argv[2]);
`;

export interface Machine {
	/** The stand-ins, looked through before PATH. */
	readonly tools: string;
	readonly directory: string;
}

export function createMachine(directory: string): Machine {
	const tools = join(directory, "tools");
	mkdirSync(tools, { recursive: true });
	writeFileSync(join(tools, "stand-in"), STAND_IN);
	chmodSync(join(tools, "stand-in"), 0o755);
	writeFileSync(join(tools, "build-with-needed.cjs"), BUILD_WITH_NEEDED);
	for (const name of NAMES) symlinkSync("stand-in", join(tools, name));
	return { tools, directory };
}

export interface JobRun {
	readonly code: number;
	readonly errors: string;
	/** The commands that ran, each with its folder: `/apps/mobile|npm ci`. */
	readonly log: readonly string[];
	/** Addresses that the job gave to its environment. */
	readonly outputs: string;
}

interface Place {
	readonly machine: Machine;
	/** The repository to clone. */
	readonly repository: string;
	/** Artifacts of the pipeline. */
	readonly store: string;
	readonly environment?: Readonly<Record<string, string>>;
}

export interface GithubStep {
	readonly id?: string;
	readonly uses?: string;
	readonly run?: string;
	readonly with?: Readonly<Record<string, string>>;
	readonly env?: Readonly<Record<string, string>>;
	readonly "working-directory"?: string;
}

export function runGithubJob({ steps }: { readonly steps: readonly GithubStep[] }, place: Place): JobRun {
	const job = jobOn(place);
	const output = join(job.directory, "output");
	writeFileSync(output, "");
	for (const step of steps) {
		const problem = job.take(step, output);
		if (problem !== undefined) return job.ended(1, problem, output);
	}
	return job.ended(0, "", output);
}

export interface GitlabJob {
	readonly script: readonly string[];
	readonly needs?: readonly string[];
	readonly variables?: Readonly<Record<string, string>>;
	readonly cache?: { readonly key: { readonly files: readonly string[] } };
	readonly artifacts?: {
		readonly paths?: readonly string[];
		readonly reports?: { readonly dotenv: string };
	};
}

export function runGitlabJob(spec: GitlabJob, place: Place): JobRun {
	const job = jobOn(place);
	const { variables = {}, needs = [], artifacts = {}, script, cache } = spec;
	if (variables.GIT_STRATEGY !== "none") job.clone();
	if ((needs[0] ?? "") !== "") cpSync(place.store, job.workspace, { recursive: true });
	for (const file of cache?.key.files ?? [])
		if (!existsSync(join(job.workspace, file))) return job.ended(1, `no ${file}`);
	const code = job.shell(script.join("\n"), "", { CI_PROJECT_DIR: job.workspace });
	if (code !== undefined) return job.ended(1, code);
	for (const path of artifacts.paths ?? []) {
		if (!existsSync(join(job.workspace, path))) return job.ended(1, `no artifact ${path}`);
		cpSync(join(job.workspace, path), join(place.store, path), { recursive: true });
	}
	const { dotenv } = artifacts.reports ?? {};
	return job.ended(0, "", dotenv === undefined ? undefined : join(job.workspace, dotenv));
}

function jobOn({ machine, repository, store, environment = {} }: Place) {
	const directory = mkdtempSync(join(machine.directory, "job-"));
	const workspace = join(directory, "workspace");
	mkdirSync(workspace);
	const shell = (command: string, folder: string, more: Readonly<Record<string, string>>): string | undefined => {
		const cwd = join(workspace, folder);
		if (!existsSync(cwd)) return `no folder ${folder}`;
		const { status, stderr } = spawnSync("bash", ["-e", "-c", command], {
			cwd,
			encoding: "utf8",
			env: {
				PATH: `${machine.tools}:/usr/bin:/bin`,
				HOME: directory,
				MACHINE: directory,
				TOOLS: machine.tools,
				WORKSPACE: workspace,
				...environment,
				...more,
			},
		});
		return status === 0 ? undefined : `${command}\n${stderr}`;
	};
	const clone = () => {
		const { status, stderr } = spawnSync("git", ["clone", "-q", repository, workspace], { encoding: "utf8" });
		if (status !== 0) throw new Error(stderr);
	};
	const take = (step: GithubStep, output: string): string | undefined => {
		const { uses = "", run, env = {}, with: inputs = {} } = step;
		if (run !== undefined) return shell(run, step["working-directory"] ?? "", { GITHUB_OUTPUT: output, ...env });
		const action = uses.split("@")[0];
		const { path = "", cache, "cache-dependency-path": lock } = inputs;
		if (action === "actions/checkout") clone();
		else if (action === "actions/setup-node") {
			for (const file of [lock, inputs["node-version-file"]])
				if (file !== undefined && !existsSync(join(workspace, file))) return `no ${file}`;
			if (cache === "pnpm" && !existsSync(join(directory, "corepack"))) return "pnpm is not there yet";
		} else if (action === "actions/upload-artifact") {
			if (!existsSync(join(workspace, path))) return `no artifact ${path}`;
			cpSync(join(workspace, path), store, { recursive: true });
		} else if (action === "actions/download-artifact") {
			mkdirSync(dirname(join(workspace, path)), { recursive: true });
			cpSync(store, join(workspace, path), { recursive: true });
		} else if (action !== "actions/cache") return `${uses} is unknown`;
		return undefined;
	};
	const ended = (code: number, errors: string, output?: string): JobRun => {
		const log = join(directory, "log");
		const read = (file: string) => (existsSync(file) ? readFileSync(file, "utf8") : "");
		return {
			code,
			errors,
			log: read(log).trimEnd().split("\n"),
			outputs: output === undefined ? "" : read(output),
		};
	};
	return { directory, workspace, shell, clone, take, ended };
}
