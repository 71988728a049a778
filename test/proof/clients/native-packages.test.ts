/**
 * Native packages with the published @capgo/cli 8.68.1: the stock CLI and the capstan command find
 * the same packages in a project, and the CLI's own check of a channel passes for bundles of
 * either.
 */
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { nativePackagesOf } from "../../../cli/src/native-packages";
import { readProject } from "../../../cli/src/project";
import { type CliScene, startCliScene, succeed } from "../../node/support/cli-scene";
import { makeZip } from "../../node/support/product";

let scene: CliScene;
beforeAll(async () => {
	scene = await startCliScene();
});
afterAll(() => scene?.stop());

const PLUGIN: Readonly<Record<string, string>> = {
	"package.json": JSON.stringify({ version: "7.0.2", capacitor: { ios: { src: "ios" }, android: { src: "android" } } }),
	"Camera.podspec": "pod",
	"Package.swift": "// root",
	"ios/Package.swift": "// nested",
	"ios/Sources/Camera/Camera.swift": "class Camera {}",
	"android/build.gradle": "plugins {}",
	"android/src/main/java/Camera.java": "class Camera {}",
	"dist/plugin.js": "export {}",
};

test("both commands list the same packages, and the stock CLI's check agrees with the server", async () => {
	const { cli, appId } = await scene.newProject();
	const write = async (file: string, text: string) => {
		const path = join(cli.directory, "node_modules/@acme/camera", file);
		await mkdir(dirname(path), { recursive: true });
		await writeFile(path, text);
	};
	for (const [file, text] of Object.entries(PLUGIN)) await write(file, text);
	const manifest = join(cli.directory, "package.json");
	const { dependencies, ...rest } = JSON.parse(await readFile(manifest, "utf8"));
	await writeFile(manifest, JSON.stringify({ ...rest, dependencies: { ...dependencies, "@acme/camera": "^7.0.0" } }));
	await scene.createChannel(appId);

	await succeed(cli.run("bundle", "upload", appId, "--bundle", "1.1.0", "--channel", "production", ...scene.admin()));
	const packagesOf = async (version: string) =>
		(await scene.product.api("GET", `/bundle?app_id=${appId}&version=${version}`)).body[0].native_packages;
	const ours = await nativePackagesOf(await readProject(cli.directory));
	const listed = await packagesOf("1.1.0");
	expect(listed.map(({ name }: { name: string }) => name)).toContain("@acme/camera");
	expect(ours.packages?.toSorted((one, other) => (one.name < other.name ? -1 : 1))).toEqual(listed);

	const { body } = await scene.product.api("POST", "/bundle", {
		app_id: appId,
		version: "1.2.0",
		native_packages: ours.packages,
	});
	expect((await fetch(body.upload_url, { method: "PUT", body: makeZip("1.2.0") as BodyInit })).status).toBe(200);
	await scene.product.api("POST", "/channel", { app_id: appId, channel: "production", version: "1.2.0" });
	const check = () => cli.run("bundle", "compatibility", appId, "--channel", "production", "--text", ...scene.admin());
	const fits = await check();
	expect([fits.code, fits.output]).toEqual([0, expect.stringMatching(/camera.*OK/)]);

	await write("android/src/main/java/Camera.java", "class Camera { int changed; }");
	expect((await check()).output).toMatch(/camera.*FAIL.*Android native code changed/);
	const changed = await nativePackagesOf(await readProject(cli.directory));
	const next = { app_id: appId, version: "1.3.0", native_packages: changed.packages };
	expect((await scene.product.api("POST", "/bundle", next)).status).toBe(201);
	const verdict = `/bundle/compatibility?app_id=${appId}&version=1.3.0&channel=production`;
	expect((await scene.product.api("GET", verdict)).body).toMatchObject({
		verdict: "incompatible",
		packages: expect.arrayContaining([expect.objectContaining({ name: "@acme/camera", problem: "native_code" })]),
	});
});
