/**
 * How the dashboard is built: one page under /dashboard/, its files under /dashboard-assets/ with a hash of their content in the name, so
 * that they may be kept for ever. Nothing inline: the page's Content-Security-Policy lets nothing inline run.
 */
import { fileURLToPath } from "node:url";
import { defineConfig } from "vite";

export default defineConfig({
	root: fileURLToPath(new URL(".", import.meta.url)),
	base: "/",
	logLevel: "warn",
	publicDir: false,
	build: {
		target: "es2023",
		assetsDir: "dashboard-assets",
		assetsInlineLimit: 0,
		modulePreload: { polyfill: false },
		reportCompressedSize: false,
		chunkSizeWarningLimit: 600,
		emptyOutDir: true,
		manifest: "dashboard-assets/manifest.json",
		rolldownOptions: {
			// Hundreds of the component library's files say "use client", which has no meaning here.
			onLog(level, log, next) {
				if (log.code !== "MODULE_LEVEL_DIRECTIVE") next(level, log);
			},
		},
	},
});
