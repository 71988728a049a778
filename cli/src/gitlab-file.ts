/**
 * The `.gitlab-ci.yml` of a repository, to which `capstan init` adds one include: its other lines
 * stay as they are, byte for byte. The written jobs use stages of the file, because GitLab refuses
 * a pipeline with a job of another stage.
 */
import { join } from "node:path";
import { type Stages, USUAL_STAGES } from "../../src/client/ci-facts";
import { readText } from "./json-file";
import { plainScalar, topLevelEntry, yamlList } from "./yaml-list";

export const GITLAB_FILE = ".gitlab-ci.yml";
const MOST_INCLUDES = 50;

interface Found {
	/** The names of the stages; undefined: GitLab's own. */
	readonly names: readonly string[] | undefined;
	/** Whether they may come from a file that is not in the repository. */
	readonly isGuess: boolean;
}

/**
 * The stages of the jobs: those called build and deploy, and otherwise the first and the last one.
 */
export async function stagesOf(root: string): Promise<Stages & { readonly isGuess: boolean }> {
	const { names, isGuess } = await namesOf(root, GITLAB_FILE, new Set());
	const first = names?.[0];
	const last = names?.at(-1);
	if (names === undefined || first === undefined || last === undefined) return { ...USUAL_STAGES, isGuess };
	const build = names.includes(USUAL_STAGES.build) ? USUAL_STAGES.build : first;
	const publish = names.indexOf(USUAL_STAGES.publish) >= names.indexOf(build) ? USUAL_STAGES.publish : last;
	return { build, publish, isGuess };
}

/**
 * The file's own list counts before those of its includes, and a later include before an earlier
 * one.
 */
async function namesOf(root: string, path: string, seen: Set<string>): Promise<Found> {
	const text = seen.has(path) || seen.size > MOST_INCLUDES ? undefined : await readText(join(root, path));
	seen.add(path);
	if (text === undefined) return { names: undefined, isGuess: false };
	const names = yamlList(text, "stages");
	if (names !== undefined) return { names, isGuess: false };
	if (topLevelEntry(text, "stages") !== undefined) return { names: undefined, isGuess: true };
	const { local, hasOther } = includesOf(text);
	let isGuess = hasOther;
	for (const included of [...local].reverse()) {
		const found = /[*?]/.test(included) ? { names: undefined, isGuess: true } : await namesOf(root, included, seen);
		if (found.names !== undefined) return found;
		isGuess ||= found.isGuess;
	}
	return { names: undefined, isGuess };
}

/** The files of the repository that a file includes, and whether it includes others. */
function includesOf(text: string): { readonly local: readonly string[]; readonly hasOther: boolean } {
	const entry = topLevelEntry(text, "include");
	if (entry === undefined) return { local: [], hasOther: false };
	const content = [entry.inline, ...entry.lines].filter((line) => !/^\s*#/.test(line)).join("\n");
	const named = [...content.matchAll(/\blocal\s*:\s*("[^"]*"|'[^']*'|[^\s,}#]+)/g)].map(([, path = ""]) => path);
	const item = itemOf(entry.lines);
	const texts = [
		...entry.lines
			.filter((line) => item !== undefined && line.startsWith(item))
			.map((line) => line.slice(item?.length)),
		...[...content.matchAll(/(?<=[[,])\s*("[^"]*"|'[^']*'|[^\s,{}[\]:]+)\s*(?=[,\]])/g)].map(([, text = ""]) => text),
		entry.inline,
	];
	const bare = texts.map(plainScalar).filter((path) => path !== undefined && path !== "" && !/^https?:/.test(path));
	const local = [...named, ...bare].map((path = "") => path.replace(/^["']|["']$/g, "").replace(/^\//, ""));
	return { local, hasOther: /\b(?:remote|template|project|component)\s*:|https?:/.test(content) };
}

/** Whether the file's rules keep pipelines of merge requests from starting, as far as it shows them. */
export async function refusesMergeRequests(root: string): Promise<boolean> {
	const entry = topLevelEntry((await readText(join(root, GITLAB_FILE))) ?? "", "workflow");
	if (entry === undefined) return false;
	const rules = entry.lines.map((line) => line.replace(/(^|\s)#.*/, ""));
	// The last rule may be one for every other pipeline.
	return !rules.some((line) => /merge_request/i.test(line) || /^\s*-\s+when:\s*always\s*$/.test(line));
}

/** The beginning of each item of a list. */
const itemOf = (lines: readonly string[]) =>
	/^[ \t]*-[ \t]+/.exec(lines.find((line) => !/^\s*(#|$)/.test(line)) ?? "")?.[0];

export const isIncluded = (text: string, path: string) => includesOf(text).local.includes(path);

/** The file with one more include; undefined if only a person can add it. */
export function withInclude(text: string, path: string): string | undefined {
	const end = /\r\n/.test(text) ? "\r\n" : "\n";
	// A file of two documents begins with the inputs of a component.
	if (/^---/m.test(text.replace(/^(?:[ \t]*(?:#.*)?\r?\n)*---[ \t]*\r?\n/, ""))) return undefined;
	const entry = topLevelEntry(text, "include");
	if (entry === undefined) {
		const whole = text === "" || text.endsWith("\n") ? text : `${text}${end}`;
		return `${whole}${whole.trim() === "" ? "" : end}include:${end}  - local: ${path}${end}`;
	}
	const { inline, start, end: last, lines } = entry;
	const [before, after] = [text.slice(0, start), text.slice(start)];
	if (/^\[/.test(inline)) {
		return `${before}${after.replace(/\[(\s*)(\]?)/, (_, space: string, close: string) => `[${space}{ local: ${path} }${close === "" ? ", " : close}`)}`;
	}
	const scalar = plainScalar(inline);
	if (inline !== "" && scalar !== undefined && !/^&/.test(text.slice(start).trim())) {
		return `${before}${end}  - ${inline}${end}  - local: ${path}${text.slice(start + (/^[^\r\n]*/.exec(after)?.[0].length ?? 0))}`;
	}
	const item = itemOf(lines);
	if (inline !== "" || item === undefined) return undefined;
	const [head, tail] = [text.slice(0, last), text.slice(last)];
	return `${head}${head.endsWith("\n") ? "" : end}${item}local: ${path}${end}${tail}`;
}
