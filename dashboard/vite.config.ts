/**
 * Builds the dashboard: one page under /dashboard/, and files under /dashboard-assets/ with a
 * content hash in their names, so that browsers can cache them forever. Nothing is inlined, because
 * the page's Content-Security-Policy forbids it.
 */
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { defineConfig } from "vite";

const { devDependencies } = JSON.parse(readFileSync(new URL("../package.json", import.meta.url), "utf8"));

/** Parts of the first screens. */
const FIGURES = /dashboard\/src\/(charts\/(sparkline|charts)|releases\.ts|components\/(sentence|steps))|Code\/Code/;

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
					groups: [
						{ name: "common", minShareCount: 10 },
						{ name: "figures", test: FIGURES, minShareCount: 2 },
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
