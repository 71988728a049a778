/**
 * Workspaces in which the app needs the builds of other packages, and the jobs that `capstan init`
 * must write for each: with turbo, nx and the package managers. The app's own build fails without
 * the others.
 */
import { BERRY, BUILD, type Case, CLASSIC, GITLAB, MOBILE, manifest, project } from "./made-up-repositories";

/** Packages that are built before the app, which fails without their builds. */
const needed = (root: object) => ({
	...project("apps/mobile"),
	"apps/mobile/package.json": manifest({
		name: "@acme/mobile",
		dependencies: { "@acme/ui": "*", react: "19.0.0" },
		scripts: { build: `test -f ../../packages/ui/dist/ui.js && ${BUILD}` },
	}),
	"packages/ui/package.json": manifest({
		name: "@acme/ui",
		devDependencies: { "@acme/tokens": "*" },
		scripts: { build: "test -f ../tokens/out/tokens.js && mkdir -p dist && echo ui > dist/ui.js" },
	}),
	"packages/tokens/package.json": manifest({
		name: "@acme/tokens",
		scripts: { build: "mkdir -p out && echo tokens > out/tokens.js" },
	}),
	// Not needed, and it does not build.
	"packages/server/package.json": manifest({ name: "@acme/server", scripts: { build: "exit 1" } }),
	// Not in the workspace.
	"examples/react/package.json": manifest({ name: "react", scripts: { build: "exit 1" } }),
	"package.json": JSON.stringify({ private: true, workspaces: ["apps/*", "packages/*"], ...root }, null, 1),
});
const TASKS = JSON.stringify({ tasks: { build: { dependsOn: ["^build"], outputs: ["dist/**"] } } });
const PUBLISHED: readonly [string, string] = ["/apps/mobile", "dist"];

export const WORKSPACES: readonly Case[] = [
	[
		"a workspace of npm whose packages need builds",
		{ at: "apps/mobile", files: { ...needed({}), "package-lock.json": "{}" } },
		{
			file: MOBILE,
			build: ["|npm ci", "/packages/tokens|npm run build", "/packages/ui|npm run build", "/apps/mobile|npm run build"],
			publish: PUBLISHED,
		},
	],
	[
		"a workspace of Yarn 1 whose packages need builds, below the root, on GitLab",
		{
			at: "web/apps/mobile",
			files: Object.fromEntries(
				Object.entries({
					...needed({ workspaces: { packages: ["apps/**", "./packages/*/", "!packages/server"] } }),
					"yarn.lock": CLASSIC,
				}).map(([path, content]) => [`web/${path}`, content]),
			),
			remote: GITLAB,
		},
		{
			file: ".gitlab/capstan-web-apps-mobile.yml",
			build: [
				"/web|yarn install --frozen-lockfile",
				"/web/packages/tokens|yarn run build",
				"/web/packages/ui|yarn run build",
				"/web/apps/mobile|yarn run build",
			],
			publish: ["/web/apps/mobile", "dist"],
		},
	],
	[
		"a workspace of pnpm whose packages need builds",
		{
			at: "apps/mobile",
			files: {
				...needed({ packageManager: "pnpm@9.15.0", workspaces: undefined }),
				"pnpm-lock.yaml": "",
				"pnpm-workspace.yaml": "packages:\n  # Ours.\n  - 'apps/*'\n  - packages/* # shared\n",
			},
		},
		{
			file: MOBILE,
			build: ["|corepack enable", "|pnpm install --frozen-lockfile", "|pnpm --filter @acme/mobile... run build"],
			publish: PUBLISHED,
		},
	],
	[
		"turbo with npm",
		{
			at: "apps/mobile",
			files: {
				...needed({ devDependencies: { turbo: "2.5.0" } }),
				"package-lock.json": "{}",
				"turbo.json": `// Tasks.\n${TASKS}`,
			},
		},
		{ file: MOBILE, build: ["|npm ci", "|npx turbo run build --filter=@acme/mobile..."], publish: PUBLISHED },
	],
	[
		"turbo with pnpm, on GitLab",
		{
			at: "apps/mobile",
			files: {
				...needed({ packageManager: "pnpm@9.15.0", devDependencies: { turbo: "2.5.0" } }),
				"pnpm-lock.yaml": "",
				"pnpm-workspace.yaml": "packages: [apps/*, packages/*]",
				"turbo.json": TASKS,
			},
			remote: GITLAB,
		},
		{
			file: ".gitlab/capstan-apps-mobile.yml",
			build: [
				"|corepack enable",
				"|pnpm install --frozen-lockfile",
				"|pnpm exec turbo run build --filter=@acme/mobile...",
			],
			publish: PUBLISHED,
		},
	],
	[
		"turbo with Yarn 4, with a task of the app",
		{
			at: "apps/mobile",
			files: {
				...needed({ packageManager: "yarn@4.5.0", devDependencies: { turbo: "1.13.0" } }),
				"yarn.lock": BERRY,
				"turbo.json": JSON.stringify({ pipeline: { "@acme/mobile#build": { dependsOn: ["^build"] } } }),
			},
		},
		{
			file: MOBILE,
			build: ["|corepack enable", "|yarn install --immutable", "|yarn run turbo run build --filter=@acme/mobile..."],
			publish: PUBLISHED,
		},
	],
	[
		"turbo with Bun",
		{
			at: "apps/mobile",
			files: { ...needed({ devDependencies: { turbo: "2.5.0" } }), "bun.lock": "{}", "turbo.jsonc": TASKS },
		},
		{
			file: MOBILE,
			build: [
				"|npm install --global bun@1",
				"|bun install --frozen-lockfile",
				"|bunx turbo run build --filter=@acme/mobile...",
			],
			publish: PUBLISHED,
		},
	],
	[
		"turbo whose builds wait for nothing",
		{
			at: "apps/mobile",
			files: {
				...needed({ devDependencies: { turbo: "2.5.0" } }),
				"package-lock.json": "{}",
				"turbo.json": JSON.stringify({ tasks: { build: {} } }),
			},
		},
		{
			file: MOBILE,
			build: ["|npm ci", "/packages/tokens|npm run build", "/packages/ui|npm run build", "/apps/mobile|npm run build"],
			publish: PUBLISHED,
		},
	],
	[
		"nx",
		{
			at: "apps/mobile",
			files: {
				...needed({ devDependencies: { nx: "21.0.0" } }),
				"package-lock.json": "{}",
				"nx.json": JSON.stringify({ targetDefaults: { build: { dependsOn: ["^build"] } } }),
			},
		},
		{ file: MOBILE, build: ["|npm ci", "|npx nx run @acme/mobile:build"], publish: PUBLISHED },
	],
	[
		"nx with a target of the project",
		{
			at: "apps/mobile",
			files: {
				...needed({ packageManager: "pnpm@9.15.0", devDependencies: { nx: "21.0.0" } }),
				"pnpm-lock.yaml": "",
				"nx.json": "{}",
				"apps/mobile/project.json": JSON.stringify({
					name: "@acme/mobile",
					targets: { build: { dependsOn: ["^build"] } },
				}),
			},
		},
		{
			file: MOBILE,
			build: ["|corepack enable", "|pnpm install --frozen-lockfile", "|pnpm exec nx run @acme/mobile:build"],
			publish: PUBLISHED,
		},
	],
	[
		"nx with an app that has no package.json",
		{
			at: "apps/mobile",
			files: {
				"package.json": manifest({ version: "2.1.0", devDependencies: { nx: "21.0.0" } }),
				"package-lock.json": "{}",
				"nx.json": JSON.stringify({ targetDefaults: { build: { dependsOn: ["^build"] } } }),
				"apps/mobile/capacitor.config.json": '{ "appId": "com.acme.shop", "webDir": "../../dist/apps/mobile" }',
				"apps/mobile/project.json": JSON.stringify({
					name: "mobile",
					targets: {
						build: { command: `cd ../.. && mkdir -p dist/apps/mobile && echo app > dist/apps/mobile/index.html` },
					},
				}),
			},
		},
		{
			file: MOBILE,
			build: ["|npm ci", "|npx nx run mobile:build"],
			publish: ["/apps/mobile", "../../dist/apps/mobile"],
		},
	],
];
