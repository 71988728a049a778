/**
 * Repositories with a Capacitor and an Electron project in one directory, and with a configuration
 * that must not change. Each project has jobs of its own, which name it.
 */
import { type Case, GITLAB, manifest, project } from "./made-up-repositories";

const LOCK = { "package-lock.json": "{}" };
const BUILD = ["|npm ci", "|npm run build"];
const ELECTRON_MAIN = 'new ElectronUpdater({ appId: "com.acme.shop" });\n';
/** Both, with one id. */
const both = (more: object = {}) => ({
	...project("", LOCK),
	"package.json": manifest({ devDependencies: { electron: "38.0.0" }, ...more }),
	"src/main.ts": ELECTRON_MAIN,
});
const COMPUTED = { "capacitor.config.ts": "export default configOf(process.env);\n" };
const withComputed = (files: Readonly<Record<string, string>>) => {
	const { "capacitor.config.json": _, ...others } = files;
	return { ...others, ...COMPUTED };
};

export const PAIRS: readonly Case[] = [
	[
		"Capacitor of a directory with both",
		{ files: both(), words: ["--platform", "capacitor"] },
		{ build: BUILD, platform: "capacitor" },
	],
	[
		"Electron of a directory with both",
		{ files: both(), words: ["--platform", "electron"] },
		{ file: ".github/workflows/capstan-electron.yml", build: BUILD, platform: "electron" },
	],
	[
		"Electron of a directory with both, on GitLab",
		{ files: both(), remote: GITLAB, words: ["--platform", "electron"] },
		{ file: ".gitlab/capstan-electron.yml", build: BUILD, platform: "electron" },
	],
	[
		"Electron of a nested directory with both",
		{
			at: "apps/mobile",
			files: Object.fromEntries(Object.entries(both()).map(([path, text]) => [`apps/mobile/${path}`, text])),
			words: ["--platform", "electron"],
		},
		{
			file: ".github/workflows/capstan-apps-mobile-electron.yml",
			build: ["/apps/mobile|npm ci", "/apps/mobile|npm run build"],
			publish: ["/apps/mobile", "dist"],
			platform: "electron",
		},
	],
	[
		"a directory with both, of which one has its updater",
		{ files: both({ dependencies: { "@capgo/electron-updater": "1.0.0" } }) },
		{ file: ".github/workflows/capstan-electron.yml", build: BUILD, platform: "electron" },
	],
	[
		"a directory with both, of which one has the app's id",
		{
			files: { ...both(), "src/main.ts": ELECTRON_MAIN.replace("shop", "desktop") },
			words: ["--app", "com.acme.shop"],
		},
		{ build: BUILD, platform: "capacitor" },
	],
	[
		"Electron beside a Capacitor configuration that is left alone",
		{ files: both(), words: ["--config", "none", "--platform", "electron"] },
		{ file: ".github/workflows/capstan-electron.yml", build: BUILD, platform: "electron" },
	],
	[
		"a configuration that is left alone",
		{ files: project("", LOCK), words: ["--config", "none"] },
		{ build: BUILD, isByHand: true },
	],
	[
		"a computed configuration that is left alone",
		{ files: withComputed(project("", LOCK)), words: ["--config", "none", "--app", "com.acme.shop"] },
		{ build: BUILD, isByHand: true },
	],
	[
		"a configuration of another name",
		{
			files: { "package.json": manifest(), "shop.config.yaml": "appId: com.acme.shop\n", ...LOCK },
			words: ["--config", "none", "--app", "com.acme.shop", "--platform", "capacitor"],
		},
		{ build: BUILD, isByHand: true },
	],
];
