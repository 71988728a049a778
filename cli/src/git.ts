/**
 * The git repository around a project, as git itself describes it, so that rewritten addresses and
 * branches count as git counts them. Its root is found without git, because jobs must stand there
 * also where git is not installed or refuses the directory of another owner. Every function answers
 * outside of a repository.
 */
import { execFile } from "node:child_process";
import { stat } from "node:fs/promises";
import { dirname, join, relative, sep } from "node:path";
import { promisify } from "node:util";
import type { CiSystem } from "../../src/client/ci-workflow";

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
	/** By the name of the host; undefined if the name does not say. */
	readonly system: CiSystem | undefined;
}

/** `git@host:path`, `ssh://git@host/path` and `https://host/path`, each with or without `.git`. */
const REMOTE =
	/^(?:(https?):\/\/(?:[^/@]*@)?|ssh:\/\/(?:[^/@]*@)?|[^/@:]+@)([^/:]+(?::\d+(?=\/))?)[/:](.+?)(?:\.git)?\/?$/;

/**
 * Names of public hosts for SSH: on the port of HTTPS, and as people name a second account in their
 * configuration of SSH.
 */
const PUBLIC_NAMES = /^(?:(?:ssh|altssh)\.)?(github\.com|gitlab\.com)(?:-.*)?$/;

/** The place that the remote names; undefined without one. */
export async function placeOf(directory: string): Promise<Place | undefined> {
	const remote = await remoteOf(directory);
	if (remote === undefined) return undefined;
	const [, scheme, named, path] = REMOTE.exec((await git(directory, "remote", "get-url", remote)) ?? "") ?? [];
	if (named === undefined || path === undefined) return undefined;
	const host = named.toLowerCase();
	// The port of an SSH address is that of SSH.
	const name = host.replace(/:\d+$/, "");
	const origin = scheme === undefined ? `https://${PUBLIC_NAMES.exec(name)?.[1] ?? name}` : `${scheme}://${host}`;
	return { origin, path, system: systemOf(name) };
}

function systemOf(hostname: string): CiSystem | undefined {
	if (hostname.includes("gitlab")) return "gitlab";
	// The last one is GitHub's cloud with the data in a region.
	return hostname.includes("github") || hostname.endsWith(".ghe.com") ? "github" : undefined;
}

const linesOf = (text = "") => text.split("\n").filter((line) => line !== "");

/** `origin`, or else the remote of the branch that is checked out, or else the first one. */
async function remoteOf(directory: string): Promise<string | undefined> {
	const names = linesOf(await git(directory, "remote"));
	if (names.length < 2 || names.includes("origin")) return names.find((name) => name === "origin") ?? names[0];
	const tracked = await git(directory, "config", `branch.${await headOf(directory)}.remote`);
	return names.find((name) => name === tracked) ?? names[0];
}

/** The branch that is checked out. The short form of git differs where a tag has the same name. */
export const headOf = async (directory: string) =>
	(await git(directory, "symbolic-ref", "HEAD"))?.replace(/^refs\/heads\//, "");

export interface Checkout {
	/** The directory of the repository; the project itself outside of a repository. */
	readonly root: string;
	/** The folder of the project in it, with `/`; empty for the root. */
	readonly folder: string;
}

export async function checkoutOf(directory: string): Promise<Checkout> {
	for (let at = directory; ; at = dirname(at)) {
		// A file in worktrees and submodules.
		if (await isThere(join(at, ".git"))) return { root: at, folder: relative(at, directory).split(sep).join("/") };
		if (dirname(at) === at) return { root: directory, folder: "" };
	}
}

/** The folder of the project and those above it, up to the root. */
export function upwards({ folder }: Checkout): readonly string[] {
	const parts = folder === "" ? [] : folder.split("/");
	return [...parts, ""].map((_, index) => parts.slice(0, parts.length - index).join("/"));
}

const isThere = (path: string) =>
	stat(path).then(
		() => true,
		() => false,
	);

/** Why git says nothing about a repository that is there, for people. */
export async function refusalOf(directory: string): Promise<string | undefined> {
	if (!(await isThere(join((await checkoutOf(directory)).root, ".git")))) return undefined;
	try {
		await run("git", ["rev-parse", "--git-dir"], { cwd: directory, timeout: TIME_LIMIT_MS });
		return undefined;
	} catch (error) {
		const { code, stderr = "" } = error as { readonly code?: unknown; readonly stderr?: string };
		return code === "ENOENT" ? "git is not installed" : (linesOf(stderr)[0] ?? "git does not answer");
	}
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
	const remotes = `refs/remotes/${(await remoteOf(directory)) ?? "origin"}/`;
	const [remote, head, list] = await Promise.all([
		git(directory, "symbolic-ref", `${remotes}HEAD`),
		headOf(directory),
		git(directory, "for-each-ref", "--format=%(refname)", "refs/heads", remotes),
	]);
	if (remote !== undefined) return { name: remote.slice(remotes.length), isGuess: false };
	const names = linesOf(list).map((ref) => ref.slice((ref.startsWith(remotes) ? remotes : "refs/heads/").length));
	const others = [...new Set(names)].filter((name) => name !== head);
	if (head !== undefined && (USUAL_BRANCHES.includes(head) || others.length === 0))
		return { name: head, isGuess: false };
	const usual = USUAL_BRANCHES.filter((name) => others.includes(name));
	// Nothing is checked out by name in a clone of one commit.
	const [only] = head === undefined && others.length === 1 ? others : [];
	return { name: usual[0] ?? head ?? only ?? "main", isGuess: usual.length !== 1 && only === undefined };
}
