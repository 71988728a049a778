/**
 * The project that the guides for the app speak of: a built Capacitor app. Their examples run in
 * its folder, as a reader's do: with the published CLI installed, and signed in, because nobody
 * confirms in a browser here. Each guide has its own app.
 */
import { mkdir, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { Example } from "./examples";
import { PROJECT_GUIDES } from "./executed-guides";
import { PAGE_SERVER } from "./guide-blocks";
import type { Product } from "./product";

const MODULES = fileURLToPath(new URL("../../../node_modules", import.meta.url));
/** Installed in the project: the plugin as its dependency, and the stock CLI. */
const PACKAGES = ["@capgo/capacitor-updater", "@capgo/cli", "@capacitor/core"];
const DEVICE = "b5a3f9d2-6a60-4f2e-9a57-9f1f1f5a2d61";

export type ProjectGuide = keyof typeof PROJECT_GUIDES;

const capstan = `npx --yes ${PAGE_SERVER}/capstan.tgz`;

function preludeOf(guide: ProjectGuide, appId: string): string {
	const steps: string = PROJECT_GUIDES[guide];
	const lines = [
		`${capstan} login --server ${PAGE_SERVER} --key - <<< "$CAPSTAN_TOKEN"`,
		...(steps === "" ? [] : [`${capstan} init --server ${PAGE_SERVER} --ci none`, `${capstan} release --bundle 1.4.0`]),
		...(steps.includes("check")
			? [
					`curl -s ${PAGE_SERVER}/updates -H 'content-type: application/json' -d '${JSON.stringify({
						app_id: appId,
						device_id: DEVICE,
						platform: "android",
						version_name: "builtin",
						version_build: "1.5.0",
						plugin_version: "8.51.23",
					})}'`,
					// The report waits for the Queue.
					`for try in $(seq 100); do ${capstan} explain ${DEVICE} > device.txt && break; sleep 0.2; done`,
				]
			: []),
	];
	return lines.join("\n");
}

/**
 * The folder of the guide's project, the environment of its examples, and what runs before them.
 */
export async function guideScene(product: Product, guide: ProjectGuide) {
	const appId = `com.example.${guide.replaceAll("-", "")}`;
	const directory = join(product.directory, guide);
	await mkdir(join(directory, "dist"), { recursive: true });
	await mkdir(join(directory, "node_modules/.bin/@capgo"), { recursive: true });
	for (const scope of ["@capgo", "@capacitor"]) await mkdir(join(directory, "node_modules", scope));
	for (const name of PACKAGES) await symlink(join(MODULES, name), join(directory, "node_modules", name));
	await symlink(join(MODULES, "@capgo/cli/dist/index.js"), join(directory, "node_modules/.bin/@capgo/cli"));
	const files = {
		"package.json": JSON.stringify({
			name: "shop",
			version: "1.0.0",
			private: true,
			dependencies: { "@capacitor/core": "*", "@capgo/capacitor-updater": "*" },
		}),
		"capacitor.config.json": JSON.stringify({ appId, appName: "Shop", webDir: "dist" }),
		"dist/index.html": "<h1>Shop</h1><script>CapacitorUpdater.notifyAppReady()</script>",
	};
	for (const [name, text] of Object.entries(files)) await writeFile(join(directory, name), text);
	const prelude: Example = { line: 0, commands: preludeOf(guide, appId), shown: undefined, printed: undefined };
	const environment = {
		CAPSTAN_TOKEN: product.adminKey,
		APP_ID: appId,
		DEVICE,
		ORG: product.orgId,
		CI: "true",
	};
	return { directory, environment, prelude };
}
