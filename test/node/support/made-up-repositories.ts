/**
 * Repositories of every shape that `capstan init` may meet, and the jobs that it must write for
 * each: package managers, workspaces, nested apps, branches and remotes.
 */
import { join } from "node:path";

export const BERRY = "__metadata:\n  version: 8\n";
export const CLASSIC = "# yarn lockfile v1\n";
export const BUILD = "mkdir -p dist && echo app > dist/index.html";
export const GITHUB = "git@github.com:acme/shop.git";
export const GITLAB = "git@gitlab.com:acme/shop.git";

export interface Repository {
	/** The project's folder; default: the root. */
	readonly at?: string;
	readonly files: Readonly<Record<string, string>>;
	/** The branch that is checked out. */
	readonly head?: string;
	readonly branches?: readonly string[];
	/** Default: GitHub. */
	readonly remote?: string;
	/** Default: origin. */
	readonly remoteName?: string;
	/** Another remote, added first. */
	readonly otherRemote?: readonly [name: string, address: string];
	/** The branch that is checked out follows one of the remote. */
	readonly isTracking?: boolean;
	/** The branch of the remote's HEAD. */
	readonly remoteHead?: string;
	/** A commit is checked out, and no branch. */
	readonly isDetached?: boolean;
	readonly git?: "none" | "no commits";
	readonly words?: readonly string[];
}
export interface Expected {
	/** The written file, in the repository. */
	readonly file?: string;
	readonly branch?: string;
	/** Commands of the job that builds, with their folders. */
	readonly build: readonly string[];
	/** The folder of the project, and its build folder. */
	readonly publish?: readonly [folder: string, webDir: string];
	/** Named in the jobs of a directory with both. */
	readonly platform?: "capacitor" | "electron";
	/** The configuration keeps its content. */
	readonly isByHand?: boolean;
}

export const manifest = (more: object = {}) =>
	JSON.stringify({ name: "app", version: "1.0.0", scripts: { build: BUILD }, ...more }, null, 1);
const capacitor = (more: object = {}) => JSON.stringify({ appId: "com.acme.shop", webDir: "dist", ...more });
/** A project in a folder, and files beside it. */
export const project = (at: string, more: Readonly<Record<string, string>> = {}) => ({
	[join(at, "package.json")]: manifest(),
	[join(at, "capacitor.config.json")]: capacitor(),
	...more,
});
const workspace = (more: object = {}) => JSON.stringify({ private: true, workspaces: ["apps/*"], ...more }, null, 1);

export const ROOT = ".github/workflows/capstan.yml";
export const MOBILE = ".github/workflows/capstan-apps-mobile.yml";
const npmAt = (folder: string) => ["|npm ci", `${folder}|npm run build`];

/** A name, the repository, and its jobs. */
export type Case = readonly [string, Repository, Expected];

export const REPOSITORIES: readonly Case[] = [
	[
		"a single app with npm",
		{ remote: "none", files: project("", { "package-lock.json": "{}" }) },
		{ build: npmAt("") },
	],
	["a shrinkwrap", { files: project("", { "npm-shrinkwrap.json": "{}" }) }, { build: npmAt("") }],
	["no lock file", { files: project("") }, { build: ["|npm install", "|npm run build"] }],
	[
		"pnpm with a pinned version",
		{
			files: project("", {
				"package.json": manifest({ packageManager: "pnpm@9.15.0" }),
				"pnpm-lock.yaml": "lockfileVersion: '9.0'",
			}),
		},
		{ build: ["|corepack enable", "|pnpm install --frozen-lockfile", "|pnpm run build"] },
	],
	[
		"pnpm without a pinned version",
		{ files: project("", { "pnpm-lock.yaml": "lockfileVersion: '9.0'" }) },
		{
			build: [
				"|corepack enable",
				"|corepack prepare pnpm@10 --activate",
				"|pnpm install --frozen-lockfile",
				"|pnpm run build",
			],
		},
	],
	[
		"Yarn 1",
		{ files: project("", { "yarn.lock": CLASSIC }) },
		{ build: ["|yarn install --frozen-lockfile", "|yarn run build"] },
	],
	[
		"Yarn 1, pinned",
		{
			files: project("", { "package.json": manifest({ packageManager: "yarn@1.22.22" }), "yarn.lock": CLASSIC }),
		},
		{ build: ["|corepack enable", "|yarn install --frozen-lockfile", "|yarn run build"] },
	],
	[
		"Yarn 4",
		{
			files: project("", { "package.json": manifest({ packageManager: "yarn@4.5.0" }), "yarn.lock": BERRY }),
		},
		{ build: ["|corepack enable", "|yarn install --immutable", "|yarn run build"] },
	],
	[
		"Bun",
		{ files: project("", { "bun.lock": "{}" }) },
		{
			build: ["|npm install --global bun@1", "|bun install --frozen-lockfile", "|bun run build"],
		},
	],
	[
		"Bun with the binary lock file, pinned",
		{
			files: project("", { "package.json": manifest({ packageManager: "bun@1.1.38" }), "bun.lockb": "" }),
		},
		{
			build: ["|npm install --global bun@1.1.38", "|bun install --frozen-lockfile", "|bun run build"],
		},
	],
	[
		"two lock files, one of them pinned",
		{
			files: project("", {
				"package.json": manifest({ packageManager: "npm@10.9.0" }),
				"package-lock.json": "{}",
				"yarn.lock": CLASSIC,
			}),
		},
		{ build: npmAt("") },
	],
	[
		"a workspace of npm",
		{
			at: "apps/mobile",
			files: project("apps/mobile", { "package.json": workspace(), "package-lock.json": "{}" }),
		},
		{ file: MOBILE, build: npmAt("/apps/mobile"), publish: ["/apps/mobile", "dist"] },
	],
	[
		"a workspace of pnpm",
		{
			at: "apps/mobile",
			files: project("apps/mobile", {
				"package.json": workspace({ packageManager: "pnpm@9.15.0" }),
				"pnpm-lock.yaml": "",
				"pnpm-workspace.yaml": "packages: [apps/*]",
			}),
		},
		{
			file: MOBILE,
			build: ["|corepack enable", "|pnpm install --frozen-lockfile", "/apps/mobile|pnpm run build"],
			publish: ["/apps/mobile", "dist"],
		},
	],
	[
		"a workspace of Yarn 1",
		{
			at: "apps/mobile",
			files: project("apps/mobile", { "package.json": workspace(), "yarn.lock": CLASSIC }),
		},
		{
			file: MOBILE,
			build: ["|yarn install --frozen-lockfile", "/apps/mobile|yarn run build"],
			publish: ["/apps/mobile", "dist"],
		},
	],
	[
		"a workspace of Yarn 4",
		{
			at: "apps/mobile",
			files: project("apps/mobile", {
				"package.json": workspace({ packageManager: "yarn@4.5.0" }),
				"yarn.lock": BERRY,
			}),
		},
		{
			file: MOBILE,
			build: ["|corepack enable", "|yarn install --immutable", "/apps/mobile|yarn run build"],
			publish: ["/apps/mobile", "dist"],
		},
	],
	[
		"a workspace of Bun",
		{
			at: "apps/mobile",
			files: project("apps/mobile", { "package.json": workspace(), "bun.lock": "{}" }),
		},
		{
			file: MOBILE,
			build: ["|npm install --global bun@1", "|bun install --frozen-lockfile", "/apps/mobile|bun run build"],
			publish: ["/apps/mobile", "dist"],
		},
	],
	[
		"a workspace below the root of the repository",
		{
			at: "web/apps/shop",
			files: project("web/apps/shop", {
				"web/package.json": workspace(),
				"web/package-lock.json": "{}",
				"go.mod": "module acme",
			}),
		},
		{
			file: ".github/workflows/capstan-web-apps-shop.yml",
			build: ["/web|npm ci", "/web/apps/shop|npm run build"],
			publish: ["/web/apps/shop", "dist"],
		},
	],
	[
		"a nested app with a lock file of its own",
		{
			at: "mobile",
			files: project("mobile", {
				"mobile/package-lock.json": "{}",
				"package-lock.json": "{}",
				"package.json": manifest(),
			}),
		},
		{
			file: ".github/workflows/capstan-mobile.yml",
			build: ["/mobile|npm ci", "/mobile|npm run build"],
			publish: ["/mobile", "dist"],
		},
	],
	[
		"a build folder beside the app",
		{
			at: "apps/mobile",
			files: {
				...project("apps/mobile", { "package.json": workspace(), "package-lock.json": "{}" }),
				"apps/mobile/capacitor.config.json": capacitor({ webDir: "../web/dist" }),
				"apps/mobile/package.json": manifest({
					scripts: { build: "mkdir -p ../web/dist && echo app > ../web/dist/index.html" },
				}),
			},
		},
		{ file: MOBILE, build: npmAt("/apps/mobile"), publish: ["/apps/mobile", "../web/dist"] },
	],
	[
		"names with spaces and quotes",
		{
			at: "our apps/it's",
			files: {
				...project("our apps/it's", { "our apps/it's/package-lock.json": "{}" }),
				"our apps/it's/capacitor.config.json": capacitor({ webDir: "my build" }),
				"our apps/it's/package.json": manifest({
					scripts: { build: "mkdir -p 'my build' && echo app > 'my build/index.html'" },
				}),
			},
		},
		{
			file: ".github/workflows/capstan-our-apps-it-s.yml",
			build: ["/our apps/it's|npm ci", "/our apps/it's|npm run build"],
			publish: ["/our apps/it's", "my build"],
		},
	],
	[
		"a folder with letters of another alphabet, on a GitLab of its own",
		{
			at: "apps/Äpp 店",
			remote: "ssh://git@gitlab.acme.example:2222/mobile/shop.git",
			files: project("apps/Äpp 店", { "apps/Äpp 店/package-lock.json": "{}" }),
		},
		{
			file: ".gitlab/capstan-apps-uc4pp-u5e97.yml",
			build: npmAt("/apps/Äpp 店").map((line) => line.replace(/^\|/, "/apps/Äpp 店|")),
			publish: ["/apps/Äpp 店", "dist"],
		},
	],
	[
		"Electron beside Capacitor",
		{
			at: "desktop",
			files: {
				...project("mobile"),
				"desktop/package.json": manifest({ devDependencies: { electron: "38.0.0" } }),
				"desktop/src/main.ts": 'new ElectronUpdater({ appId: "com.acme.shop" });\n',
				"desktop/dist/.keep": "",
				"package.json": workspace(),
				"package-lock.json": "{}",
			},
		},
		{
			file: ".github/workflows/capstan-desktop.yml",
			build: npmAt("/desktop"),
			publish: ["/desktop", "dist"],
		},
	],
	[
		"the branch develop",
		{ files: project("", { "package-lock.json": "{}" }), head: "develop" },
		{ branch: "develop", build: npmAt("") },
	],
	[
		"the branch master",
		{ files: project("", { "package-lock.json": "{}" }), head: "master" },
		{ branch: "master", build: npmAt("") },
	],
	[
		"a feature branch of master",
		{
			files: project("", { "package-lock.json": "{}" }),
			head: "master",
			branches: ["feature/checkout"],
		},
		{ branch: "master", build: npmAt("") },
	],
	[
		"a remote with another main branch",
		{ files: project("", { "package-lock.json": "{}" }), head: "develop", remoteHead: "stable" },
		{ branch: "stable", build: npmAt("") },
	],
	[
		"a branch by option",
		{ files: project("", { "package-lock.json": "{}" }), words: ["--branch", "release/2"] },
		{ branch: "release/2", build: npmAt("") },
	],
	["no remote", { remote: "none", files: project("", { "package-lock.json": "{}" }) }, { build: npmAt("") }],
	[
		"no commits",
		{ files: project("", { "package-lock.json": "{}" }), head: "trunk", git: "no commits" },
		{ branch: "trunk", build: npmAt("") },
	],
	["no git", { remote: "none", files: project("", { "package-lock.json": "{}" }), git: "none" }, { build: npmAt("") }],
	[
		"an encrypted app",
		{
			files: {
				...project("", { "package-lock.json": "{}" }),
				"capacitor.config.json": capacitor({ plugins: { CapacitorUpdater: { publicKey: "RSA" } } }),
			},
		},
		{ build: npmAt("") },
	],
	[
		"GitHub Enterprise",
		{ files: project("", { "package-lock.json": "{}" }), remote: "https://github.acme.example/acme/shop" },
		{ build: npmAt("") },
	],
	[
		"GitLab by its remote, with files of GitHub",
		{ files: project("", { "package-lock.json": "{}", ".github/ISSUE_TEMPLATE.md": "" }), remote: GITLAB },
		{ file: ".gitlab/capstan.yml", build: npmAt("") },
	],
	[
		"GitLab by its file",
		{
			remote: "none",
			files: project("", { "package-lock.json": "{}", ".gitlab-ci.yml": "stages: [build, deploy]\n" }),
		},
		{ file: ".gitlab/capstan.yml", build: npmAt("") },
	],
	[
		"a workspace of pnpm on GitLab",
		{
			at: "apps/mobile",
			files: project("apps/mobile", {
				"package.json": workspace({ packageManager: "pnpm@9.15.0" }),
				"pnpm-lock.yaml": "",
			}),
			remote: GITLAB,
			head: "develop",
		},
		{
			file: ".gitlab/capstan-apps-mobile.yml",
			branch: "develop",
			build: ["|corepack enable", "|pnpm install --frozen-lockfile", "/apps/mobile|pnpm run build"],
			publish: ["/apps/mobile", "dist"],
		},
	],
	[
		"Bun on GitLab, below the root",
		{ at: "it's", files: project("it's", { "it's/bun.lock": "{}" }), remote: GITLAB },
		{
			file: ".gitlab/capstan-it-s.yml",
			build: ["/it's|npm install --global bun@1", "/it's|bun install --frozen-lockfile", "/it's|bun run build"],
			publish: ["/it's", "dist"],
		},
	],
];
