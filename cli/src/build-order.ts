/**
 * The commands that build an app in CI. In a workspace the packages that it needs come first,
 * because a fresh clone has none of their builds: with turbo, nx or pnpm, whichever the workspace
 * uses, and one after another with other package managers.
 */
import { join } from "node:path";
import type { Step } from "../../src/client/ci-facts";
import { shellWord } from "../../src/client/ci-steps";
import { type Installation, PACKAGE_MANAGERS } from "../../src/client/package-managers";
import type { Checkout } from "./git";
import { readJsonObject, readText } from "./json-file";
import { looseJson, type Manifest, neededMembers } from "./workspace";

/** Empty if the app has nothing that builds it. */
export async function buildOf({ root, folder }: Checkout, installation: Installation): Promise<readonly Step[]> {
	const { manager, folder: at } = installation;
	const { name, scripts } = (await readJsonObject<Manifest>(join(root, folder), "package.json")) ?? {};
	const hasScript = scripts?.build !== undefined;
	const workspace = join(root, at);
	const app = at === "" ? folder : folder.slice(at.length + 1);
	if (app !== "") {
		const tool = await toolOf(workspace, app, name, hasScript);
		if (tool !== undefined) return [{ folder: at, command: `${PACKAGE_MANAGERS[manager].exec} ${tool}` }];
	}
	if (!hasScript) return [];
	const run = `${PACKAGE_MANAGERS[manager].run} build`;
	const needed = (app === "" ? [] : await neededMembers(workspace, app)).filter(
		({ manifest }) => manifest.scripts?.build !== undefined,
	);
	// pnpm finds them itself, also those of a later commit.
	if (manager === "pnpm" && needed.length > 0 && name !== undefined) {
		return [{ folder: at, command: `pnpm --filter ${shellWord(`${name}...`)} run build` }];
	}
	return [
		...needed.map((member) => ({ folder: at === "" ? member.folder : `${at}/${member.folder}`, command: run })),
		{ folder, command: run },
	];
}

/**
 * The command of the workspace's own tool; undefined without one that builds this app and what it
 * needs.
 */
async function toolOf(
	workspace: string,
	app: string,
	name: string | undefined,
	hasScript: boolean,
): Promise<string | undefined> {
	const { dependencies, devDependencies } = (await looseJson<Manifest>(join(workspace, "package.json"))) ?? {};
	const isInstalled = (tool: string) => tool in { ...dependencies, ...devDependencies };
	const turbo = (await readText(join(workspace, "turbo.json"))) ?? (await readText(join(workspace, "turbo.jsonc")));
	if (turbo !== undefined && isInstalled("turbo") && hasScript && name !== undefined) {
		const isTask = new RegExp(`"(?:${escaped(name)}#)?build"\\s*:`).test(turbo);
		if (isTask && buildsNeeded(turbo)) return `turbo run build --filter=${shellWord(`${name}...`)}`;
	}
	const nx = await readText(join(workspace, "nx.json"));
	if (nx === undefined || !isInstalled("nx")) return undefined;
	const project = await looseJson<NxProject>(join(workspace, app, "project.json"));
	const called = project?.name ?? name;
	const target = project?.targets?.build;
	if (called === undefined || (target === undefined && !hasScript)) return undefined;
	return buildsNeeded(nx) || buildsNeeded(JSON.stringify(target ?? ""))
		? `nx run ${shellWord(`${called}:build`)}`
		: undefined;
}

interface NxProject {
	readonly name?: string;
	readonly targets?: Readonly<Record<string, object>>;
}

/**
 * Whether a task waits for the builds of what the app needs. Without that the tool builds the app
 * alone, or before them.
 */
const buildsNeeded = (text: string) => /"(?:\^|[^"]+[#:])build"(?!\s*:)/.test(text);

const escaped = (text: string) => text.replace(/[.*+?^${}()|[\]\\/]/g, "\\$&");
