/**
 * Repositories whose remote, branch or lock file is not the usual one, and the jobs that
 * `capstan init` must write for each.
 */
import { BERRY, type Case, GITLAB, manifest, project } from "./made-up-repositories";

const LOCK = { "package-lock.json": "{}" };
const NPM = ["|npm ci", "|npm run build"];

export const REMOTES: readonly Case[] = [
	[
		"a remote of another name, whose main branch has a slash",
		{ files: project("", LOCK), remote: GITLAB, remoteName: "company", head: "fix", remoteHead: "release/next" },
		{ file: ".gitlab/capstan.yml", branch: "release/next", build: NPM },
	],
	[
		"two remotes, of which origin counts",
		{ files: project("", LOCK), remote: GITLAB, otherRemote: ["backup", "git@bitbucket.org:acme/shop.git"] },
		{ file: ".gitlab/capstan.yml", build: NPM },
	],
	[
		"two remotes, of which the branch follows one",
		{
			files: project("", LOCK),
			remote: GITLAB,
			remoteName: "company",
			otherRemote: ["backup", "git@bitbucket.org:acme/shop.git"],
			isTracking: true,
		},
		{ file: ".gitlab/capstan.yml", build: NPM },
	],
	[
		"GitHub by SSH on the port of HTTPS",
		{ files: project("", LOCK), remote: "ssh://git@ssh.github.com:443/acme/shop.git" },
		{ build: NPM },
	],
	[
		"GitHub's cloud with the data in a region",
		{ files: project("", LOCK), remote: "https://acme.ghe.com/acme/shop.git" },
		{ build: NPM },
	],
	["a host in capitals", { files: project("", LOCK), remote: "git@GitHub.com:acme/shop.git" }, { build: NPM }],
	[
		"a commit without a branch, in a repository on develop",
		{ files: project("", LOCK), head: "develop", branches: ["fix"], isDetached: true },
		{ branch: "develop", build: NPM },
	],
	[
		"a commit without a branch, in a repository with one of its own name",
		{ files: project("", LOCK), head: "release/2", isDetached: true },
		{ branch: "release/2", build: NPM },
	],
];

/** Written on Windows. */
export const WINDOWS: readonly Case[] = [
	[
		"a build folder with backslashes",
		{
			at: "apps/mobile",
			files: {
				...project("apps/mobile", { "package.json": "{}", ...LOCK }),
				"apps/mobile/capacitor.config.json": '{ "appId": "com.acme.shop", "webDir": "..\\\\web\\\\dist" }\r\n',
				"apps/mobile/package.json": manifest({
					scripts: { build: "mkdir -p ../web/dist && echo app > ../web/dist/index.html" },
				}),
			},
		},
		{
			file: ".github/workflows/capstan-apps-mobile.yml",
			build: ["|npm ci", "/apps/mobile|npm run build"],
			publish: ["/apps/mobile", "../web/dist"],
		},
	],
];

const COREPACK = "|corepack enable";

export const UNLOCKED: readonly Case[] = [
	[
		"pnpm with hooks, whose checksum the lock file has",
		{
			files: project("", {
				"package.json": manifest({ packageManager: "pnpm@9.15.0" }),
				"pnpm-lock.yaml": "lockfileVersion: '9.0'\npnpmfileChecksum: sha256-KrNO7OaItEmRagMH4D\n",
				".pnpmfile.cjs": "module.exports = { hooks: {} };\n",
			}),
		},
		{ build: [COREPACK, "|pnpm install --frozen-lockfile", "|pnpm run build"] },
	],
	[
		"pinned pnpm without a lock file",
		{ files: project("", { "package.json": manifest({ packageManager: "pnpm@9.15.0" }) }) },
		{ build: [COREPACK, "|pnpm install --no-frozen-lockfile", "|pnpm run build"] },
	],
	[
		"pinned Yarn 4 without a lock file",
		{ files: project("", { "package.json": manifest({ packageManager: "yarn@4.5.0" }) }) },
		{ build: [COREPACK, "|yarn install --no-immutable", "|yarn run build"] },
	],
	[
		"pinned Yarn 1 without a lock file",
		{ files: project("", { "package.json": manifest({ packageManager: "yarn@1.22.22" }) }), remote: GITLAB },
		{ file: ".gitlab/capstan.yml", build: [COREPACK, "|yarn install", "|yarn run build"] },
	],
	[
		"pinned Bun without a lock file",
		{ files: project("", { "package.json": manifest({ packageManager: "bun@1.1.38" }) }) },
		{ build: ["|npm install --global bun@1.1.38", "|bun install", "|bun run build"] },
	],
	[
		"pinned Yarn 4 with the lock file of pnpm",
		{
			files: project("", {
				"package.json": manifest({ packageManager: "yarn@4.5.0" }),
				"pnpm-lock.yaml": "lockfileVersion: '9.0'",
			}),
		},
		{ build: [COREPACK, "|yarn install --no-immutable", "|yarn run build"] },
	],
	[
		"pinned npm with the lock file of Yarn 4",
		{ files: project("", { "package.json": manifest({ packageManager: "npm@10.9.0" }), "yarn.lock": BERRY }) },
		{ build: ["|npm install", "|npm run build"] },
	],
	[
		"pinned pnpm with the lock file of npm, which installs whatever is pinned",
		{ files: project("", { "package.json": manifest({ packageManager: "pnpm@9.15.0" }), ...LOCK }) },
		{ build: NPM },
	],
];
