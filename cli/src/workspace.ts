/**
 * The packages of a workspace that an app is built from: those that its package.json names, and
 * those that these name, as the package manager links them. Only folders of the workspace count,
 * because a registry may have a package of the same name.
 */
import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { plainJson, readText } from "./json-file";
import { yamlList } from "./yaml-list";

export interface Manifest {
	readonly name?: string;
	readonly scripts?: Readonly<Record<string, string>>;
	readonly dependencies?: Readonly<Record<string, string>>;
	readonly devDependencies?: Readonly<Record<string, string>>;
	readonly optionalDependencies?: Readonly<Record<string, string>>;
	readonly peerDependencies?: Readonly<Record<string, string>>;
	/** A list of patterns, or an object with the list `packages`. */
	readonly workspaces?: unknown;
}

export interface Member {
	/** Below the root of the workspace. */
	readonly folder: string;
	readonly manifest: Manifest;
}

const DEEPEST = 5;
const MOST_FOLDERS = 5_000;

/**
 * A file that cannot be read as JSON counts as one that is not there: only the app's own files are
 * reported.
 */
export async function looseJson<Shape extends object>(path: string): Promise<Shape | undefined> {
	const text = await readText(path);
	try {
		const value: unknown = text === undefined ? undefined : JSON.parse(plainJson(text));
		return typeof value === "object" && value !== null ? (value as Shape) : undefined;
	} catch {
		return undefined;
	}
}

/**
 * @returns the packages that the app needs, each after those that it needs itself, without the app
 */
export async function neededMembers(root: string, app: string): Promise<readonly Member[]> {
	const members = await membersOf(root);
	const byName = new Map(members.map((member) => [member.manifest.name ?? "", member]));
	const own = (await looseJson<Manifest>(join(root, app, "package.json"))) ?? {};
	const sorted = new Set<Member>();
	const seen = new Set<string>([own.name ?? ""]);
	const visit = (manifest: Manifest) => {
		for (const name of namesOf(manifest)) {
			const member = byName.get(name);
			if (member === undefined || seen.has(name)) continue;
			seen.add(name);
			visit(member.manifest);
			sorted.add(member);
		}
	};
	visit(own);
	return [...sorted];
}

const namesOf = ({ dependencies, devDependencies, optionalDependencies, peerDependencies }: Manifest) =>
	Object.keys({ ...dependencies, ...devDependencies, ...optionalDependencies, ...peerDependencies });

async function membersOf(root: string): Promise<readonly Member[]> {
	const patterns = await patternsOf(root);
	if (patterns.length === 0) return [];
	const isWanted = (folder: string) =>
		patterns.reduce((is, { isExcluded, expression }) => (expression.test(folder) ? !isExcluded : is), false);
	const members: Member[] = [];
	const queue = [""];
	for (let count = 0; count < MOST_FOLDERS; count += 1) {
		const at = queue.shift();
		if (at === undefined) break;
		const manifest = isWanted(at) ? await looseJson<Manifest>(join(root, at, "package.json")) : undefined;
		if (manifest !== undefined) members.push({ folder: at, manifest });
		if (at !== "" && at.split("/").length >= DEEPEST) continue;
		for (const entry of await readdir(join(root, at), { withFileTypes: true }).catch(() => [])) {
			if (!entry.isDirectory() || entry.name === "node_modules" || entry.name.startsWith(".")) continue;
			queue.push(at === "" ? entry.name : `${at}/${entry.name}`);
		}
	}
	return members;
}

async function patternsOf(root: string) {
	const { workspaces } = (await looseJson<Manifest>(join(root, "package.json"))) ?? {};
	const named = isRecord(workspaces) ? workspaces.packages : workspaces;
	const list = [
		...(Array.isArray(named) ? named.filter((pattern) => typeof pattern === "string") : []),
		...(yamlList((await readText(join(root, "pnpm-workspace.yaml"))) ?? "", "packages") ?? []),
	];
	return list.map((pattern) => ({ isExcluded: pattern.startsWith("!"), expression: expressionOf(pattern) }));
}

const isRecord = (value: unknown): value is Readonly<Record<string, unknown>> =>
	typeof value === "object" && value !== null && !Array.isArray(value);

/** A pattern such as `packages/*`, `apps/**` or `!legacy`. */
function expressionOf(pattern: string): RegExp {
	const plain = pattern.replace(/^!/, "").replace(/^\.\//, "").replace(/\/+$/, "");
	const source = plain
		.split("/")
		.map((part) => (part === "**" ? "**" : part.replace(/[.+?^${}()|[\]\\]/g, "\\$&").replaceAll("*", "[^/]*")))
		.join("/")
		.replace(/\/\*\*$/, "(?:/.+)?")
		.replace(/\*\*\//g, "(?:.+/)?");
	return new RegExp(`^${source === "**" ? ".+" : source}$`);
}
