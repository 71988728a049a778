/**
 * Whether git keeps the private key of an encrypted app: everybody who can read a repository with
 * the key can sign bundles that all devices of the app accept.
 */
import { basename, dirname, join } from "node:path";
import type { FileChange } from "./ci-files";
import { KEY_FILE, namesPublicKey } from "./encryption";
import { git } from "./git";
import { readText } from "./json-file";
import type { Project } from "./project";

/** `open`: the next `git add` takes it. `safe`: ignored, or outside of a repository. */
type Exposure = "tracked" | "open" | "safe";

export async function exposureOf(path: string): Promise<Exposure> {
	const [directory, name] = [dirname(path), basename(path)];
	const [isInside, tracked, ignored] = await Promise.all([
		git(directory, "rev-parse", "--is-inside-work-tree"),
		git(directory, "ls-files", "--error-unmatch", "--", name),
		git(directory, "check-ignore", "--quiet", "--", name),
	]);
	if (isInside !== "true") return "safe";
	return tracked !== undefined ? "tracked" : ignored === undefined ? "open" : "safe";
}

interface Problem {
	readonly exposure: Exclude<Exposure, "safe">;
	/** With the remedy. */
	readonly detail: string;
}

export async function exposureProblem(path: string): Promise<Problem | undefined> {
	const name = basename(path);
	const exposure = await exposureOf(path);
	if (exposure === "safe") return undefined;
	const detail =
		exposure === "open"
			? `git does not ignore ${name}, so the next commit may contain the private key; ${name === KEY_FILE ? "run capstan init, which adds it" : "add it"} to .gitignore`
			: `git has the private key ${name}, so every reader of the repository can sign bundles; run git rm --cached ${name}, and replace the key (/docs/encryption#a-new-key)`;
	return { exposure, detail };
}

/** The line of `.gitignore` that an encrypted app lacks. */
export async function ignoredKey(project: Project): Promise<FileChange | undefined> {
	const { directory } = project;
	const isUsed = namesPublicKey(project) || (await readText(join(directory, KEY_FILE))) !== undefined;
	if (!isUsed || (await exposureOf(join(directory, KEY_FILE))) !== "open") return undefined;
	const before = (await readText(join(directory, ".gitignore"))) ?? "";
	const end = before.includes("\r\n") ? "\r\n" : "\n";
	const whole = before === "" || before.endsWith("\n") ? before : before + end;
	return { path: ".gitignore", before, after: `${whole}${KEY_FILE}${end}` };
}
