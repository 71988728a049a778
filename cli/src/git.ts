/**
 * The git repository around a project, as git itself describes it, so that worktrees, submodules
 * and rewritten addresses count as git counts them. Every function answers without git and outside
 * of a repository.
 */
import { execFile } from "node:child_process";
import { join } from "node:path";
import { promisify } from "node:util";

const TIME_LIMIT_MS = 5_000;
const run = promisify(execFile);

/** The output; undefined if git fails or is not installed. */
export async function git(directory: string, ...words: readonly string[]): Promise<string | undefined> {
	try {
		const options = { cwd: directory, timeout: TIME_LIMIT_MS, encoding: "utf8" as const };
		return (await run("git", [...words], options)).stdout.trim();
	} catch {
		return undefined;
	}
}

export interface Place {
	/** E.g. `https://github.com`. */
	readonly origin: string;
	/** E.g. `acme/shop`. */
	readonly path: string;
}

/** `git@host:path`, `ssh://git@host/path` and `https://host/path`, each with or without `.git`. */
const REMOTE =
	/^(?:(https?):\/\/(?:[^/@]*@)?|ssh:\/\/(?:[^/@]*@)?|[^/@:]+@)([^/:]+(?::\d+(?=\/))?)[/:](.+?)(?:\.git)?\/?$/;

/** The place that the remote `origin` names; undefined without one. */
export async function placeOf(directory: string): Promise<Place | undefined> {
	const [, scheme, host, path] = REMOTE.exec((await git(directory, "remote", "get-url", "origin")) ?? "") ?? [];
	if (host === undefined || path === undefined) return undefined;
	// The port of an SSH address is that of SSH.
	return { origin: scheme === undefined ? `https://${host.replace(/:\d+$/, "")}` : `${scheme}://${host}`, path };
}

export interface Checkout {
	/** The directory of the repository; the project itself outside of a repository. */
	readonly root: string;
	/** The folder of the project in it, with `/`; empty for the root. */
	readonly folder: string;
}

export async function checkoutOf(directory: string): Promise<Checkout> {
	const [prefix, up] = await Promise.all([
		git(directory, "rev-parse", "--show-prefix"),
		git(directory, "rev-parse", "--show-cdup"),
	]);
	if (prefix === undefined || up === undefined) return { root: directory, folder: "" };
	return { root: join(directory, up), folder: prefix.replace(/\/$/, "") };
}

const USUAL_BRANCHES = ["main", "master", "develop", "trunk"];

export interface Branch {
	readonly name: string;
	/** Nothing says that it is the main branch. */
	readonly isGuess: boolean;
}

/**
 * The main branch: that of the remote, or the one that is checked out, unless another one has a
 * usual name.
 */
export async function mainBranchOf(directory: string): Promise<Branch> {
	const [remote, head, list] = await Promise.all([
		git(directory, "symbolic-ref", "--short", "refs/remotes/origin/HEAD"),
		git(directory, "symbolic-ref", "--short", "HEAD"),
		git(directory, "for-each-ref", "--format=%(refname)", "refs/heads", "refs/remotes/origin"),
	]);
	if (remote !== undefined) return { name: remote.replace(/^origin\//, ""), isGuess: false };
	if (head === undefined) return { name: "main", isGuess: true };
	const names = (list ?? "").split("\n").map((ref) => ref.replace(/^refs\/(heads|remotes\/origin)\//, ""));
	const others = new Set(names.filter((name) => name !== "" && name !== head));
	if (USUAL_BRANCHES.includes(head) || others.size === 0) return { name: head, isGuess: false };
	const usual = USUAL_BRANCHES.filter((name) => others.has(name));
	return { name: usual[0] ?? head, isGuess: usual.length !== 1 };
}
