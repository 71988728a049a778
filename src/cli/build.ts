/**
 * What stands beside the Worker's source: the static assets (openapi.json, the page that shows it, the pages for people, the dashboard
 * and the page that invitations lead to, with everything they need, so that they work offline) and the bundled Worker for local runs.
 * `npm run build` makes the assets.
 */
import { randomUUID } from "node:crypto";
import { mkdir, readdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";
import { unstable_readConfig } from "wrangler";
import { DASHBOARD_ASSETS, dashboardFiles } from "./dashboard";
import { GUIDES, guidePage } from "./guide";

export const PROJECT_DIRECTORY = fileURLToPath(new URL("../..", import.meta.url));
const ASSETS_DIRECTORY = join(PROJECT_DIRECTORY, "dist/assets");

const DOCS_PAGE = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Capstan API</title>
<link rel="icon" type="image/svg+xml" href="/favicon.svg">
<link rel="stylesheet" href="/docs-assets/swagger-ui.css">
</head>
<body>
<p class="guide">${Object.entries(GUIDES)
	.map(([name, title]) => `<a href="/docs/${name}">${title}</a>`)
	.join(" · ")}</p>
<div id="api"><p>Loading the API description…</p></div>
<script src="/docs-assets/swagger-ui-bundle.js"></script>
<script src="/docs-assets/start.js"></script>
</body>
</html>
`;

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

/** Nothing may be fetched from elsewhere; the page's library sets styles on elements, which is all that is let through. */
const ASSET_HEADERS = `/*
  X-Content-Type-Options: nosniff
  Referrer-Policy: no-referrer
  Cross-Origin-Opener-Policy: same-origin
  Strict-Transport-Security: max-age=31536000
/docs*
  Content-Security-Policy: default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'
/invitation
  Content-Security-Policy: default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'
/sign-in
  Content-Security-Policy: default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'
  Cache-Control: no-store
/dashboard/*
  Content-Security-Policy: default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'
/dashboard-assets/*
  Cache-Control: public, max-age=31536000, immutable
`;

/** Every address of the dashboard is its one page, which looks at the address itself. Some programs ask for the icon by its old name. */
const ASSET_REDIRECTS = "/dashboard/* /dashboard/ 200\n/favicon.ico /favicon.svg 301\n";

/** Brings dist/assets up to date. Files that are right already are left alone: another run may be serving them. */
export async function buildAssets(): Promise<void> {
	const swagger = dirname(createRequire(import.meta.url).resolve("swagger-ui-dist/package.json"));
	const copied = (path: string) => readFile(path);
	const page = (name: string) => readFile(join(PROJECT_DIRECTORY, "src/docs", name));
	const guides: Record<string, string> = {};
	for (const name of Object.keys(GUIDES))
		guides[`docs/${name}.html`] = guidePage((await page(`${name}.md`)).toString());
	const files: Readonly<Record<string, string | Buffer>> = {
		"openapi.json": await copied(join(PROJECT_DIRECTORY, "src/docs/openapi.json")),
		"favicon.svg": await page("favicon.svg"),
		"docs.html": DOCS_PAGE,
		...guides,
		"docs-assets/page.css": await page("page.css"),
		"docs-assets/swagger-ui.css": await copied(join(swagger, "swagger-ui.css")),
		"docs-assets/swagger-ui-bundle.js": await copied(join(swagger, "swagger-ui-bundle.js")),
		"docs-assets/start.js": DOCS_SCRIPT,
		"invitation.html": await page("invitation.html"),
		"invitation-assets/invitation.css": await page("invitation.css"),
		"invitation-assets/invitation.js": await pageScript("invitation.js"),
		"sign-in.html": await page("sign-in.html"),
		"sign-in-assets/sign-in.js": await pageScript("sign-in.js"),
		...(await dashboardFiles(PROJECT_DIRECTORY)),
		_headers: ASSET_HEADERS,
		_redirects: ASSET_REDIRECTS,
	};
	for (const folder of new Set(Object.keys(files).map(dirname)))
		await mkdir(join(ASSETS_DIRECTORY, folder), { recursive: true });
	for (const [name, content] of Object.entries(files))
		await putFile(join(ASSETS_DIRECTORY, name), Buffer.from(content));
	await removeOldScripts(Object.keys(files));
}

/** Files of the dashboard have their content's hash in their names; those of earlier builds would stay for ever. */
async function removeOldScripts(current: readonly string[]): Promise<void> {
	for (const name of await readdir(join(ASSETS_DIRECTORY, DASHBOARD_ASSETS))) {
		if (current.includes(`${DASHBOARD_ASSETS}/${name}`)) continue;
		await rm(join(ASSETS_DIRECTORY, DASHBOARD_ASSETS, name), { force: true });
	}
}

/** A page's script in one file with what it imports. */
async function pageScript(name: string): Promise<Buffer> {
	const { outputFiles } = await build({
		entryPoints: [join(PROJECT_DIRECTORY, "src/docs", name)],
		bundle: true,
		write: false,
		format: "esm",
		target: "es2022",
		minify: true,
		logLevel: "silent",
	});
	return Buffer.from(outputFiles[0]?.contents ?? []);
}

async function putFile(path: string, content: Buffer): Promise<void> {
	const current = await readFile(path).catch(() => undefined);
	if (current?.equals(content) === true) return;
	const temporary = `${path}.${randomUUID()}`;
	await writeFile(temporary, content);
	await rename(temporary, path);
}

export interface WorkerBuild {
	readonly script: string;
	readonly sizeBytes: number;
}

/** The Worker as one ES module, bundled with the conditions that wrangler bundles with. */
export async function buildWorker(options: { readonly minify?: boolean } = {}): Promise<WorkerBuild> {
	const { alias = {} } = unstable_readConfig({ config: join(PROJECT_DIRECTORY, "wrangler.toml") });
	const result = await build({
		entryPoints: [join(PROJECT_DIRECTORY, "src/worker.ts")],
		absWorkingDir: PROJECT_DIRECTORY,
		alias,
		bundle: true,
		write: false,
		format: "esm",
		target: "es2024",
		conditions: ["workerd", "worker", "browser"],
		external: ["node:*", "cloudflare:*"],
		minify: options.minify ?? false,
		keepNames: true,
		logLevel: "silent",
		outfile: "worker.js",
	});
	const [file] = result.outputFiles;
	if (file === undefined) throw new Error("esbuild made no output");
	return { script: file.text, sizeBytes: file.contents.length };
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
	await buildAssets();
	const page = await readFile(join(ASSETS_DIRECTORY, "openapi.json"));
	console.log(`dist/assets is ready (openapi.json: ${page.length} bytes)`);
}
