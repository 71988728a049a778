/**
 * The package managers of projects: how each is recognized, installs a lock file exactly, installs
 * without running scripts of dependencies, and runs a script. CI jobs and messages of the command
 * derive from this table.
 */

interface Manager {
	readonly locks: readonly string[];
	/** Installs exactly what the lock file has. */
	readonly locked: string;
	/** For a project without a lock file, which the command above demands. */
	readonly unlocked: string;
	/** Added to either one, runs no script of a dependency. */
	readonly withoutScripts: string;
	/** Installs one more package, and runs a script of the project. */
	readonly add: string;
	readonly run: string;
	/** Runs a command of an installed package; `yarn run` does in every version of Yarn. */
	readonly exec: string;
	/** The variable that says where downloads are kept. */
	readonly cacheVariable: string;
	/** Its name in setup-node, for the cache of its downloads. */
	readonly nodeCache: "npm" | "pnpm" | "yarn" | undefined;
	/** The version to install if the project pins none; undefined if images for Node have one. */
	readonly usual: string | undefined;
}

export const PACKAGE_MANAGERS = {
	npm: {
		locks: ["package-lock.json", "npm-shrinkwrap.json"],
		locked: "npm ci",
		unlocked: "npm install",
		withoutScripts: "--ignore-scripts",
		add: "npm install",
		run: "npm run",
		exec: "npx",
		cacheVariable: "npm_config_cache",
		nodeCache: "npm",
		usual: undefined,
	},
	pnpm: {
		locks: ["pnpm-lock.yaml"],
		locked: "pnpm install --frozen-lockfile",
		unlocked: "pnpm install --no-frozen-lockfile",
		// Without .pnpmfile.cjs, pnpm refuses the lock file that was made with it.
		withoutScripts: "--ignore-scripts",
		add: "pnpm add",
		run: "pnpm run",
		exec: "pnpm exec",
		cacheVariable: "npm_config_store_dir",
		nodeCache: "pnpm",
		usual: "pnpm@10",
	},
	yarn: {
		locks: ["yarn.lock"],
		locked: "yarn install --immutable",
		unlocked: "yarn install --no-immutable",
		withoutScripts: "--mode=skip-build",
		add: "yarn add",
		run: "yarn run",
		exec: "yarn run",
		cacheVariable: "YARN_CACHE_FOLDER",
		nodeCache: "yarn",
		usual: "yarn@4",
	},
	/** Version 1. */
	yarnClassic: {
		locks: ["yarn.lock"],
		locked: "yarn install --frozen-lockfile",
		unlocked: "yarn install",
		withoutScripts: "--ignore-scripts",
		add: "yarn add",
		run: "yarn run",
		exec: "yarn run",
		cacheVariable: "YARN_CACHE_FOLDER",
		nodeCache: "yarn",
		usual: undefined,
	},
	bun: {
		locks: ["bun.lock", "bun.lockb"],
		locked: "bun install --frozen-lockfile",
		unlocked: "bun install",
		withoutScripts: "--ignore-scripts",
		add: "bun add",
		run: "bun run",
		exec: "bunx",
		cacheVariable: "BUN_INSTALL_CACHE_DIR",
		nodeCache: undefined,
		usual: "bun@1",
	},
} as const satisfies Readonly<Record<string, Manager>>;

export type ManagerName = keyof typeof PACKAGE_MANAGERS;

/** The package manager of a project, and what it installs. */
export interface Installation {
	readonly manager: ManagerName;
	/** E.g. `pnpm@9.15.0`, as `packageManager` of package.json pins it. */
	readonly pinned: string | undefined;
	/** The folder of the lock file in the repository; empty for its root. */
	readonly folder: string;
	/** The name of the lock file; undefined without one. */
	readonly lock: string | undefined;
	/** The lock file of a package manager that refuses to run, because another one is pinned. */
	readonly ignoredLock?: string | undefined;
}

/**
 * Commands that put the package manager onto a machine with Node. None of them runs code of the
 * repository's dependencies.
 */
export function setUpCommands({ manager, pinned }: Installation): readonly string[] {
	// The hash after a plus sign is Corepack's.
	const version = pinned?.replace(/\+.*/, "") ?? PACKAGE_MANAGERS[manager].usual;
	if (version === undefined || manager === "npm") return [];
	if (manager === "bun") return [`npm install --global ${version}`];
	// Corepack reads the version that the project pins.
	return pinned === undefined ? ["corepack enable", `corepack prepare ${version} --activate`] : ["corepack enable"];
}

export function installCommand({ manager, lock }: Installation, withScripts: boolean): string {
	const { locked, unlocked, withoutScripts } = PACKAGE_MANAGERS[manager];
	const install = lock === undefined ? unlocked : locked;
	return withScripts ? install : `${install} ${withoutScripts}`;
}
