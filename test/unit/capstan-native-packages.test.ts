/**
 * Which dependencies of a project `capstan` sends as native packages, with their installed version
 * and a hash of their native code.
 */
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { nativePackagesOf } from "../../cli/src/native-packages";
import { readProject } from "../../cli/src/project";

let root: string;
beforeEach(async () => {
	root = await mkdtemp(join(tmpdir(), "capstan-packages-"));
});
afterEach(() => rm(root, { recursive: true }));

async function write(files: Readonly<Record<string, string>>, under = root): Promise<void> {
	for (const [name, text] of Object.entries(files)) {
		await mkdir(dirname(join(under, name)), { recursive: true });
		await writeFile(join(under, name), text);
	}
}
const project = (dependencies: Readonly<Record<string, string>>, more: object = {}) =>
	write({
		"package.json": JSON.stringify({ name: "shop", dependencies, ...more }),
		"capacitor.config.json": '{"appId":"com.example.shop"}',
	});
const found = async () => nativePackagesOf(await readProject(root));

test("Capacitor and Cordova plugins are found with their installed version and native code; other packages are not", async () => {
	await project(
		{ "@acme/camera": "^7.0.0", "cordova-plugin-x": "1.x", lodash: "4.17.21" },
		{ devDependencies: { vite: "6" } },
	);
	await write({
		"node_modules/@acme/camera/package.json":
			'{"version":"7.0.2","capacitor":{"ios":{"src":"ios"},"android":{"src":"android"}}}',
		"node_modules/@acme/camera/ios/Sources/Camera.swift": "class Camera {}",
		"node_modules/@acme/camera/android/src/Camera.kt": "class Camera",
		"node_modules/@acme/camera/Camera.podspec": "pod",
		"node_modules/cordova-plugin-x/package.json": '{"version":"1.4.0"}',
		"node_modules/cordova-plugin-x/plugin.xml": "<plugin/>",
		"node_modules/cordova-plugin-x/src/android/X.java": "class X {}",
		// Native code, but no plugin; and a plugin without native code.
		"node_modules/lodash/package.json": '{"version":"4.17.21"}',
		"node_modules/lodash/Trap.java": "class Trap {}",
		"node_modules/vite/package.json": '{"version":"6.0.0","capacitor":{"ios":{}}}',
	});
	const { packages, missing } = await found();
	expect(missing).toBeUndefined();
	const digest = expect.stringMatching(/^[0-9a-f]{64}$/);
	expect(packages).toEqual([
		{
			name: "@acme/camera",
			version: "7.0.2",
			requested_version: "^7.0.0",
			ios_checksum: digest,
			android_checksum: digest,
		},
		{ name: "cordova-plugin-x", version: "1.4.0", requested_version: "1.x" },
	]);
	await write({ "node_modules/@acme/camera/android/src/Camera.kt": "class Camera // changed" });
	const [before, after] = [packages?.[0], (await found()).packages?.[0]];
	expect(after?.ios_checksum).toBe(before?.ios_checksum);
	expect(after?.android_checksum).not.toBe(before?.android_checksum);
});

test("the list is absent when a dependency is not installed, which is named", async () => {
	await project({ lodash: "4", "@acme/camera": "7" });
	await write({ "node_modules/lodash/package.json": "{}" });
	expect(await found()).toEqual({ packages: undefined, missing: "@acme/camera" });
});

test("a package of the workspace above is found", async () => {
	await write({
		"node_modules/plugin/package.json": '{"version":"2.0.0","capacitor":{"android":{}}}',
		"node_modules/plugin/android/P.kt": "",
		"apps/shop/package.json": '{"dependencies":{"plugin":"*"}}',
		"apps/shop/capacitor.config.json": "{}",
	});
	const { packages } = await nativePackagesOf(await readProject(join(root, "apps/shop")));
	expect(packages).toMatchObject([{ name: "plugin", version: "2.0.0" }]);
});
