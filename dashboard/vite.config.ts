/**
 * Builds the dashboard: one page under /dashboard/, and files under /dashboard-assets/ with a
 * content hash in their names, so that browsers can cache them forever. Nothing is inlined, because
 * the page's Content-Security-Policy forbids it.
 */
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { defineConfig, type Rolldown } from "vite";

const { devDependencies } = JSON.parse(readFileSync(new URL("../package.json", import.meta.url), "utf8"));

/** Module of the script that every screen starts with. */
const ENTRY = "main.tsx";

/**
 * The screens that open first, in this order, with the file of the modules that they share with
 * other screens. Each file is one request more.
 */
const SCREENS = [
	["screens/apps/apps.tsx", "apps-shared"],
	["screens/apps/overview.tsx", "home-shared"],
] as const;

type Modules = Parameters<Extract<Rolldown.CodeSplittingGroup["name"], (...words: never) => unknown>>[1];

/** The file of a module of several screens, if it is not part of what every screen has. */
function sharedFile(id: string, modules: Modules): string | null {
	if ((modules.getModuleInfo(id)?.dynamicImporters.length ?? 0) > 0) return null;
	const users = [...usersOf(id, modules)];
	const isUsedBy = (name: string) => users.some((user) => user.endsWith(`/dashboard/src/${name}`));
	if (isUsedBy(ENTRY)) return null;
	return SCREENS.find(([screen]) => isUsedBy(screen))?.[1] ?? null;
}

/** The module and all that import it statically, so that it loads with them. */
function usersOf(id: string, modules: Modules): ReadonlySet<string> {
	const users = new Set([id]);
	for (const user of users) for (const importer of modules.getModuleInfo(user)?.importers ?? []) users.add(importer);
	return users;
}

export default defineConfig({
	root: fileURLToPath(new URL(".", import.meta.url)),
	base: "/",
	logLevel: "warn",
	publicDir: false,
	resolve: {
		// The names are React's, because the component library is written for it.
		alias: [
			{ find: /^react-dom\/client$/, replacement: "preact/compat/client" },
			{ find: /^react-dom$/, replacement: "preact/compat" },
			{ find: /^react\/jsx-runtime$/, replacement: "preact/jsx-runtime" },
			{ find: /^react$/, replacement: fileURLToPath(new URL("./react.js", import.meta.url)) },
		],
	},
	// The version of the stock CLI that the tests run against the service.
	define: { __CLI_VERSION__: JSON.stringify(devDependencies["@capgo/cli"]) },
	build: {
		target: "es2023",
		cssCodeSplit: false,
		assetsDir: "dashboard-assets",
		assetsInlineLimit: 0,
		modulePreload: { polyfill: false },
		reportCompressedSize: false,
		chunkSizeWarningLimit: 600,
		emptyOutDir: true,
		manifest: "dashboard-assets/manifest.json",
		rolldownOptions: {
			// Modules of many screens are one file, because each file is one request more.
			output: {
				codeSplitting: {
					includeDependenciesRecursively: false,
					groups: [
						{ name: "common", minShareCount: 10 },
						// Index files, which every screen has, hide who uses these; the others are small and first.
						{ name: "common", test: /@tabler|@tanstack|Code\/Code|\/noop/, minShareCount: 2 },
						{ name: sharedFile, debugName: "of a screen", minShareCount: 2 },
					],
				},
			},
			// Hundreds of the component library's files say "use client", which has no meaning here.
			onLog(level, log, next) {
				if (log.code !== "MODULE_LEVEL_DIRECTIVE") next(level, log);
			},
		},
	},
});
