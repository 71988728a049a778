/**
 * Repositories on this computer, `capstan init` in them, and the runs of the jobs that it writes. No
 * provider is asked: the only server that answers is that of the command.
 */
import { spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterAll, beforeAll, beforeEach } from "vitest";
import { parse } from "yaml";
import { runCommand } from "../../../cli/src/run";
import { stubCommandServer } from "../../unit/support/command-server";
import { createMachine, type GithubStep, type GitlabJob, runGithubJob, runGitlabJob } from "./ci-machine";
import { GITHUB, type Repository } from "./made-up-repositories";

export const SERVER = "https://updates.example.com";
let temporary: string;
let machine: ReturnType<typeof createMachine>;

/** For each file that uses the scene: files share this module, and hooks are of the file that calls. */
export function prepareInitScene(): void {
	beforeAll(() => {
		temporary = mkdtempSync(join(tmpdir(), "capstan-init-"));
		machine = createMachine(join(temporary, "machine"));
	});
	afterAll(() => rmSync(temporary, { recursive: true }));
	beforeEach(stubCommandServer);
}

let count = 0;
export const git = (directory: string, ...words: string[]) => {
	const identity = ["-c", "user.name=Ada", "-c", "user.email=ada@example.com", "-c", "protocol.file.allow=always"];
	const { status, stdout, stderr } = spawnSync("git", [...identity, ...words], { cwd: directory, encoding: "utf8" });
	if (status !== 0) throw new Error(`git ${words.join(" ")}: ${stderr}`);
	return stdout;
};

/** The repository on this computer, with the project. */
export function created(repository: Repository): string {
	const { files, head = "main", branches = [], remote = GITHUB, remoteHead, git: state } = repository;
	const { remoteName = "origin", otherRemote, isDetached, isTracking } = repository;
	count += 1;
	const root = join(temporary, `repository-${count}`);
	for (const [path, content] of Object.entries(files)) {
		mkdirSync(dirname(join(root, path)), { recursive: true });
		writeFileSync(join(root, path), content);
	}
	if (state === "none") return root;
	git(root, "init", "-q", "-b", head);
	if (otherRemote !== undefined) git(root, "remote", "add", ...otherRemote);
	if (remote !== "none") git(root, "remote", "add", remoteName, remote);
	if (state !== "no commits") {
		git(root, "add", "-A");
		git(root, "commit", "-qm", "Start");
	}
	for (const branch of branches) git(root, "checkout", "-qb", branch);
	if (remoteHead !== undefined) {
		git(root, "update-ref", `refs/remotes/${remoteName}/${remoteHead}`, "HEAD");
		git(root, "symbolic-ref", `refs/remotes/${remoteName}/HEAD`, `refs/remotes/${remoteName}/${remoteHead}`);
	}
	if (isTracking === true) git(root, "config", `branch.${head}.remote`, remoteName);
	if (isDetached === true) git(root, "checkout", "-q", "--detach");
	return root;
}

export async function init(directory: string, ...words: readonly string[]) {
	let out = "";
	let errors = "";
	const code = await runCommand(["init", "--server", SERVER, ...words], {
		out: { write: (text) => (out += text) },
		error: { write: (text) => (errors += text) },
		environment: { PATH: process.env.PATH, HOME: temporary },
		directory,
	});
	return { code, out, errors };
}

/**
 * The written jobs.
 * @returns each job's run by its name
 */
export function runner(root: string, file: string) {
	const store = join(temporary, `store-${count}`);
	const text = readFileSync(join(root, file), "utf8");
	const written = parse(text);
	const run = (job: string, environment: Readonly<Record<string, string>> = {}) => {
		const place = { machine, repository: root, store, environment };
		if (written.jobs !== undefined) return runGithubJob(written.jobs[job] as { steps: GithubStep[] }, place);
		const name = Object.keys(written).find((each) => each.endsWith(`-${job}`)) ?? "";
		return runGitlabJob(written[name] as GitlabJob, place);
	};
	return { run, written, text };
}

export const commit = (root: string, state: Repository["git"]) => {
	if (state === "none") git(root, "init", "-q", "-b", "main");
	git(root, "add", "-A");
	git(root, "commit", "-qm", "Add the jobs");
};
