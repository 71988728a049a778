/**
 * Builds the static assets (openapi.json, /docs, the guides, sign-in, invitation, dashboard). They
 * load nothing from elsewhere, so they work offline. Also bundles the Worker for local runs, and
 * the command of cli/.
 */
import { mkdir, readdir, readFile, rm } from "node:fs/promises";
import { createRequire } from "node:module";
import { basename, dirname, join, relative, sep } from "node:path";
import { build, type Plugin } from "esbuild";
import { withMark } from "../domain/words/mark";
import { cliPackage } from "./cli-package";
import { dashboardBuild } from "./dashboard";
import { preloadRules } from "./dashboard-preloads";
import { frontPage, GUIDE_NAMES, type GuideName, guidePage, referencePage, searchIndex } from "./docs-pages";
import { openApiText } from "./openapi";
import { PROJECT_DIRECTORY } from "./project";
import { putFile } from "./put-file";

const ASSETS_DIRECTORY = join(PROJECT_DIRECTORY, "dist/assets");

const DOCS_SCRIPT = `SwaggerUIBundle({
	url: "/openapi.json",
	dom_id: "#api",
	deepLinking: true,
	docExpansion: "list",
	defaultModelsExpandDepth: -1,
	displayRequestDuration: true,
	filter: true,
	validatorUrl: null,
});
`;

const STRICT =
	"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/**
 * Pages load nothing from elsewhere. /docs/api allows inline styles, because Swagger UI sets styles
 * on elements.
 */
const ASSET_HEADERS = `/*
  X-Content-Type-Options: nosniff
  Referrer-Policy: no-referrer
  Cross-Origin-Opener-Policy: same-origin
  Strict-Transport-Security: max-age=31536000
${["/docs", ...GUIDE_NAMES.map((name) => `/docs/${name}`)].map((path) => `${path}\n  Content-Security-Policy: ${STRICT}`).join("\n")}
/docs/api
  Content-Security-Policy: default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'
/invitation
  Content-Security-Policy: ${STRICT}
/p
  Content-Security-Policy: ${STRICT}
/sign-in
  Content-Security-Policy: ${STRICT}
  Cache-Control: no-store
/dashboard/*
  Content-Security-Policy: default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'
/command/*
  Cache-Control: no-store
/dashboard-assets/*
  Cache-Control: public, max-age=31536000, immutable
`;

/**
 * Every path of the dashboard serves its one page, which routes by itself. Some programs request
 * the icon by its old name.
 */
const ASSET_REDIRECTS = "/dashboard/* /dashboard/ 200\n/favicon.ico /favicon.svg 301\n";

/** Updates dist/assets. Writes only files that changed, because another run may be serving them. */
export async function buildAssets(): Promise<void> {
	const swagger = dirname(createRequire(import.meta.url).resolve("swagger-ui-dist/package.json"));
	const copied = (path: string) => readFile(path);
	const page = (name: string) => readFile(join(PROJECT_DIRECTORY, "src/pages", name));
	const marked = async (name: string) => withMark((await page(name)).toString());
	const tokens = await page("tokens.css");
	const styles = async (name: string) => Buffer.concat([tokens, await page(name)]);
	const openapi = openApiText();
	const guides = new Map<GuideName, string>();
	for (const name of GUIDE_NAMES)
		guides.set(name, await readFile(join(PROJECT_DIRECTORY, `src/docs/${name}.md`), "utf8"));
	const dashboard = await dashboardBuild(PROJECT_DIRECTORY);
	const files: Readonly<Record<string, string | Buffer>> = {
		"openapi.json": openapi,
		"command/capstan.tgz": await cliPackage(),
		"favicon.svg": await marked("favicon.svg"),
		"docs.html": frontPage(guides.get("first-update") ?? ""),
		"docs/api.html": referencePage(),
		...Object.fromEntries([...guides].map(([name, text]) => [`docs/${name}.html`, guidePage(name, text)])),
		"docs-assets/page.css": await styles("docs.css"),
		"docs-assets/docs.js": await pageScript("docs.js"),
		"docs-assets/search.json": JSON.stringify(searchIndex(guides, JSON.parse(openapi))),
		"docs-assets/swagger-ui.css": await copied(join(swagger, "swagger-ui.css")),
		"docs-assets/swagger-ui-bundle.js": await copied(join(swagger, "swagger-ui-bundle.js")),
		"docs-assets/start.js": DOCS_SCRIPT,
		"invitation.html": await marked("invitation.html"),
		"invitation-assets/invitation.css": await styles("invitation.css"),
		"invitation-assets/invitation.js": await pageScript("invitation.js"),
		"p.html": await marked("preview.html"),
		"preview-assets/preview.css": await page("preview.css"),
		"preview-assets/preview.js": await pageScript("preview.js"),
		"sign-in.html": await marked("sign-in.html"),
		"sign-in-assets/sign-in.js": await pageScript("sign-in.js"),
		...dashboard.files,
		_headers: ASSET_HEADERS + preloadRules(dashboard.manifest),
		_redirects: ASSET_REDIRECTS,
	};
	for (const folder of new Set(Object.keys(files).map(dirname)))
		await mkdir(join(ASSETS_DIRECTORY, folder), { recursive: true });
	for (const [name, content] of Object.entries(files))
		await putFile(join(ASSETS_DIRECTORY, name), Buffer.from(content));
	await removeOldFiles(Object.keys(files));
}

/**
 * Files of earlier builds would be served still: a static asset comes before an endpoint of its
 * path.
 */
async function removeOldFiles(current: readonly string[]): Promise<void> {
	for (const entry of await readdir(ASSETS_DIRECTORY, { recursive: true, withFileTypes: true })) {
		const path = join(entry.parentPath, entry.name);
		const name = relative(ASSETS_DIRECTORY, path).split(sep).join("/");
		if (entry.isFile() && !current.includes(name)) await rm(path, { force: true });
	}
}

/** Bundles a page's script with its imports. */
async function pageScript(name: string): Promise<Buffer> {
	const { outputFiles } = await build({
		entryPoints: [join(PROJECT_DIRECTORY, "src/pages", name)],
		bundle: true,
		write: false,
		format: "esm",
		target: "es2022",
		minify: true,
		logLevel: "silent",
	});
	return Buffer.from(outputFiles[0]?.contents ?? []);
}

interface WorkerModule {
	/** File name; modules import each other as `./name`. */
	readonly name: string;
	readonly contents: string;
}

/** The first module is the entry. */
export type WorkerModules = readonly [WorkerModule, ...WorkerModule[]];

interface WorkerBuild {
	readonly modules: WorkerModules;
	/** Modules that a check of a device loads: those that the entry imports before it runs. */
	readonly devicePath: WorkerModules;
}

const ENTRY = "worker.js";
export const WORKER_DIRECTORY = join(PROJECT_DIRECTORY, "dist/worker");
export const WORKER_ENTRY = join(WORKER_DIRECTORY, ENTRY);

/** A description of an endpoint in several sentences. */
const PROSE = /^\tdescription: \[\n(?:\t\t.*\n)+?\t\],$/gm;

/**
 * Leaves the descriptions of endpoints out of the Worker, because only the documents of the API read
 * them, and these are written here. Lines keep their numbers.
 */
const withoutProse: Plugin = {
	name: "without prose",
	setup({ onLoad }) {
		onLoad({ filter: /[\\/]src[\\/](features|compat)[\\/].*\.ts$/ }, async ({ path }) => ({
			contents: (await readFile(path, "utf8")).replace(PROSE, (text) => text.replace(/.+/g, "")),
			loader: "ts",
		}));
	},
};

/**
 * The Worker as ES modules, bundled with the same conditions as wrangler. Code that is imported on
 * demand is in separate modules. Names of functions are not kept, because keeping them takes 7 % of
 * the CPU time of a check.
 */
export async function buildWorker(options: { readonly minify?: boolean } = {}): Promise<WorkerBuild> {
	const { unstable_readConfig } = await import("wrangler");
	const { alias = {} } = unstable_readConfig({ config: join(PROJECT_DIRECTORY, "wrangler.toml") });
	const { outputFiles, metafile } = await build({
		entryPoints: { worker: join(PROJECT_DIRECTORY, "src/worker.ts") },
		absWorkingDir: PROJECT_DIRECTORY,
		alias,
		bundle: true,
		splitting: true,
		write: false,
		metafile: true,
		format: "esm",
		target: "es2024",
		conditions: ["workerd", "worker", "browser"],
		external: ["node:*", "cloudflare:*"],
		plugins: [withoutProse],
		minify: options.minify ?? false,
		logLevel: "silent",
		outdir: ".",
	});
	const files = new Map(outputFiles.map(({ path, text }) => [basename(path), text]));
	const moduleOf = (name: string): WorkerModule => ({ name, contents: files.get(name) ?? "" });
	const loaded = new Set([ENTRY]);
	for (const name of loaded) {
		const { imports = [] } = metafile.outputs[name] ?? {};
		for (const { path, kind } of imports) if (kind === "import-statement" && files.has(path)) loaded.add(path);
	}
	const names = [...loaded, ...[...files.keys()].filter((name) => !loaded.has(name))];
	const entryFirst = (list: readonly string[]) => list.map(moduleOf) as unknown as WorkerModules;
	return { modules: entryFirst(names), devicePath: entryFirst([...loaded]) };
}

/** Writes the minified modules for `wrangler deploy`, which would bundle them into one. */
export async function writeWorker(): Promise<void> {
	const { modules } = await buildWorker({ minify: true });
	await mkdir(WORKER_DIRECTORY, { recursive: true });
	for (const { name, contents } of modules) await putFile(join(WORKER_DIRECTORY, name), Buffer.from(contents));
	// Names contain a hash of the content; wrangler uploads every module that it finds.
	for (const name of await readdir(WORKER_DIRECTORY)) {
		if (!modules.some((current) => current.name === name)) await rm(join(WORKER_DIRECTORY, name), { force: true });
	}
}
