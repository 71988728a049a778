/**
 * The package manager of a project: that of the nearest lock file from the project up to the root
 * of its repository, which in a workspace stands above the project.
 */
import { join } from "node:path";
import { type Installation, type ManagerName, PACKAGE_MANAGERS } from "../../src/client/package-managers";
import { type Checkout, checkoutOf, upwards } from "./git";
import { readJsonObject, readText } from "./json-file";

interface Manifest {
	readonly packageManager: string;
}

/**
 * In the order in which a folder with several lock files is read, unless `packageManager` names
 * one.
 */
const ORDER = ["pnpm", "yarn", "bun", "npm"] as const satisfies readonly ManagerName[];

export async function installationOf(checkout: Checkout): Promise<Installation> {
	const { root, folder } = checkout;
	const folders = upwards(checkout);
	const pinned = await pinnedIn(root, folders);
	for (const at of folders) {
		const found: Installation[] = [];
		for (const name of ORDER) {
			for (const lock of PACKAGE_MANAGERS[name].locks) {
				const text = await readText(join(root, at, lock));
				if (text === undefined) continue;
				found.push({ manager: name === "yarn" ? yarnOf(text) : name, pinned: undefined, folder: at, lock });
			}
		}
		const named = found.find(({ manager }) => pinned !== undefined && isPinned(manager, pinned)) ?? found[0];
		if (named === undefined) continue;
		if (pinned === undefined || isPinned(named.manager, pinned)) return { ...named, pinned };
		// npm and Bun install whatever is pinned. Corepack and pnpm refuse every other manager.
		if (named.manager === "npm" || named.manager === "bun") return { ...named, pinned: undefined };
		return { ...withoutLock(at, pinned), ignoredLock: named.lock };
	}
	return withoutLock(folder, pinned);
}

function withoutLock(folder: string, pinned: string | undefined): Installation {
	const name = ORDER.find((each) => pinned?.startsWith(`${each}@`) === true) ?? "npm";
	const manager = name === "yarn" && /^yarn@[01]\./.test(pinned ?? "") ? "yarnClassic" : name;
	return { manager, pinned, folder, lock: undefined };
}

/** The characters of a version or an address. Others would be read by the shell of the jobs. */
const PINNED = /^[a-z]+@[\w.+:/#-]+$/;

/** As Corepack reads it: in the nearest package.json that has it. */
async function pinnedIn(root: string, folders: readonly string[]): Promise<string | undefined> {
	for (const at of folders) {
		const { packageManager } = (await readJsonObject<Manifest>(join(root, at), "package.json")) ?? {};
		if (typeof packageManager === "string") return PINNED.test(packageManager) ? packageManager : undefined;
	}
	return undefined;
}

const isPinned = (manager: ManagerName, pinned: string) =>
	pinned.startsWith(`${manager === "yarnClassic" ? "yarn" : manager}@`);

/** Only the lock files of later versions have this entry. */
const yarnOf = (lock: string): ManagerName => (/^__metadata:/m.test(lock) ? "yarn" : "yarnClassic");

/** The command that installs one more package, in the words of the project's package manager. */
export async function addCommand(directory: string, name: string): Promise<string> {
	const { manager } = await installationOf(await checkoutOf(directory));
	return `${PACKAGE_MANAGERS[manager].add} ${name}`;
}

/** The command that runs a program of an installed package. */
export async function execCommand(directory: string, words: string): Promise<string> {
	const { manager } = await installationOf(await checkoutOf(directory));
	return `${PACKAGE_MANAGERS[manager].exec} ${words}`;
}
