/**
 * The `capstan` command as a new user meets it: set up a project, sign in, see what is live, go
 * back, and ask why.
 */
import { spawn, spawnSync } from "node:child_process";
import { mkdtemp, readFile, rm, stat } from "node:fs/promises";
import { join } from "node:path";
import { beforeAll, describe, expect, test } from "vitest";
import { commandSteps } from "../../dashboard/src/screens/connect/connect-texts";
import { CLI_FILE } from "../../src/operator/cli-package";
import { type CapstanProject, createCapstanProject, hashesOf } from "./support/capstan-cli";
import { createProductApp, createProductKey, type Product, sharedProduct } from "./support/product";

let product: Product;
beforeAll(async () => {
	product = await sharedProduct();
});

async function newProject(): Promise<{
	readonly appId: string;
	readonly uuid: string;
	readonly project: CapstanProject;
}> {
	const appId = product.newAppId();
	const uuid = await createProductApp(product, appId);
	return { appId, uuid, project: await createCapstanProject(product, appId) };
}

test("the commands of the page Connect set up a project and release it", async () => {
	const appId = product.newAppId();
	const project = await createCapstanProject(product, appId);
	await project.write("capacitor.config.json", JSON.stringify({ webDir: "dist" }));
	const [login = "", ...commands] = commandSteps(product.url, appId).split("\n");
	expect(login).toBe(`npx --yes ${product.url}/capstan.tgz login --server ${product.url}`);
	// The first one asks for the key on a terminal.
	const child = spawn("sh", ["-ec", commands.join("\n")], {
		cwd: project.directory,
		env: {
			...project.environment,
			PATH: process.env.PATH,
			HOME: project.home,
			npm_config_cache: join(project.home, "npm"),
		},
		stdio: ["ignore", "pipe", "inherit"],
	});
	let out = "";
	child.stdout.on("data", (chunk) => {
		out += chunk;
	});
	expect(await new Promise((resolve) => child.once("close", resolve))).toBe(0);
	expect(out).toContain(`Live ${appId} 1.0.1 on production`);
});

describe("a fresh project", () => {
	test("is ready after login, init and release, and init is idempotent", async () => {
		const appId = product.newAppId();
		const project = await createCapstanProject(product, appId);
		await rm(join(project.directory, "capacitor.config.json"));
		const { CAPSTAN_TOKEN: key = "", ...rest } = project.environment;
		for (const name of Object.keys(project.environment)) delete project.environment[name];
		Object.assign(project.environment, rest);
		const text = `import type { CapacitorConfig } from '@capacitor/cli';\n\nconst config: CapacitorConfig = {\n  appId: '${appId}', // ours\n  webDir: 'dist',\n};\n\nexport default config;\n`;
		await project.write("capacitor.config.ts", text);

		const anonymous = await project.run("release", "--server", product.url, "--json");
		expect(anonymous.json.error.code).toBe("missing_key");
		expect(anonymous.code).toBe(4);
		const login = await project.start(["login", "--server", product.url, "--key", "-", "--json"], `${key}\n`).ended;
		expect(login.json, login.error).toMatchObject({ ok: true, organizations: ["My organization"] });
		expect(login.out + login.error).not.toContain(key);
		const stored = join(project.home, ".config/capstan/credentials.json");
		expect((await stat(stored)).mode & 0o777).toBe(0o600);

		const planned = await project.run("init", "--dry-run");
		expect(planned.out).toContain(`+     CapacitorUpdater: {`);
		expect(await project.read("capacitor.config.ts")).toBe(text);
		const init = await project.run("init", "--ci", "github", "--json");
		expect(init.json, init.error).toMatchObject({
			status: "ok",
			app: "created",
			app_id: appId,
			changed: ["capacitor.config.ts", ".github/workflows/capstan.yml"],
		});
		const config = await project.read("capacitor.config.ts");
		expect(config).toContain(`appId: '${appId}', // ours`);
		expect(config).toContain(`updateUrl: '${product.url}/updates',`);
		expect(await project.read(".github/workflows/capstan.yml")).toMatch(
			new RegExp(`npx --yes ${product.url}/command/capstan-[\\d.]+-[0-9a-f]{16}\\.tgz release dist`),
		);
		expect((await project.run("init", "--ci", "github", "--json")).json).toMatchObject({ app: "exists", changed: [] });
		expect(await project.read("capacitor.config.ts")).toBe(config);

		const release = await project.run("release");
		expect(release.code, release.error).toBe(0);
		expect(release.out).toContain(`Live ${appId} 1.0.1 on production`);
		const answer = await product.api("POST", "/updates", {
			app_id: appId,
			device_id: "b5a3f9d2-6a60-4f2e-9a57-9f1f1f5a2d61",
			version_name: "builtin",
			version_build: "1.0.0",
			platform: "ios",
			plugin_version: "8.51.23",
		});
		expect(answer.body.version).toBe("1.0.1");

		expect((await project.run("logout", "--json")).code).toBe(0);
		expect(await readFile(stored, "utf8")).not.toContain(key);
	});

	test("keeps a workflow that exists, and names what it cannot edit", async () => {
		const { project } = await newProject();
		await project.write(".github/workflows/capstan.yml", "name: mine\n");
		const init = await project.run("init", "--ci", "github", "--json");
		expect(init.json).toMatchObject({ kept: [".github/workflows/capstan.yml"], changed: ["capacitor.config.json"] });
		expect(await project.read(".github/workflows/capstan.yml")).toBe("name: mine\n");
		await rm(join(project.directory, "capacitor.config.json"));
		await project.write("capacitor.config.ts", "export default configFor(process.env.STAGE);\n");
		const computed = await project.run("init", "--server", product.url, "--app", product.newAppId(), "--json");
		expect(computed.json, computed.error).toMatchObject({ ok: true, app: "created", changed: [] });
		expect(computed.json.by_hand).toContain(`plugins.CapacitorUpdater.updateUrl: "${product.url}/updates"`);
	});
});

test("status, what-if, rollback, promote, explain and logs follow what is live", async () => {
	const { appId, project } = await newProject();
	const device = "7c3a2f10-58f7-4f0a-9a5d-3f2b1c0d9e8f";
	for (const content of ["one", "two"]) {
		await project.write("dist/app.js", `CapacitorUpdater.notifyAppReady(); // ${content}`);
		expect((await project.run("release", "--json")).code).toBe(0);
	}
	const known = {
		app_id: appId,
		device_id: device,
		version_name: "1.0.1",
		version_build: "1.0.0",
		platform: "android",
		plugin_version: "8.51.23",
		is_prod: true,
		is_emulator: false,
		custom_id: "tester-7",
	};
	await product.api("POST", "/stats", { ...known, action: "set" });
	await expect.poll(async () => (await project.run("logs", "--json")).json.events.length).toBeGreaterThan(0);

	const status = await project.run("status", "--json");
	expect(status.json).toMatchObject({
		channels: [{ name: "production", public: true, version: "1.0.2", rollout: null, problems: [] }],
		installs: { install: 1, fail: 0 },
	});
	expect((await project.run("what-if", "1.0.1", "--json")).json).toMatchObject({ devices: 1, channel: "production" });
	expect((await project.run("rollback", "--dry-run", "--json")).json).toMatchObject({
		status: "planned",
		version: "1.0.1",
	});
	expect((await project.run("rollback", "--json")).json).toMatchObject({
		version: "1.0.1",
		previous_version: "1.0.2",
		changed: true,
	});
	const upToDate = await project.run("explain", "tester-7", "--json");
	expect(upToDate.json, upToDate.error).toMatchObject({ outcome: "none", device: { device_id: device } });
	expect((await project.run("promote", "1.0.2", "--rollout", "50", "--json")).json).toMatchObject({
		rollout_percentage: 50,
	});
	expect((await project.run("status")).out).toMatch(/production +1\.0\.1 +1\.0\.2 50 % running/);
	const explained = await project.run("explain", "--platform", "android", "--store-build", "1.0.0", "--rules");
	expect(explained.out).toMatch(/Such a device \(android, store build 1\.0\.0, runs builtin\) gets 1\.0\.[12]:/);
	expect((await project.run("promote", "9.9.9", "--json")).json.error.code).toBe("bundle_not_found");
	expect((await project.run("promote", "1.0.2", "--channel", "prod", "--json")).json.error).toMatchObject({
		code: "channel_not_found",
		details: { channels: ["production"] },
	});
});

test("doctor finds nothing in a healthy project, and names each problem with its remedy", async () => {
	const { uuid, project } = await newProject();
	await project.write(
		"package.json",
		JSON.stringify({ version: "1.0.0", dependencies: { "@capgo/capacitor-updater": "8.51.23" } }),
	);
	await project.run("init", "--ci", "none");
	const healthy = await project.run("doctor", "--json");
	expect(healthy.json.findings.filter(({ state }: { state: string }) => state === "failed")).toEqual([]);
	expect(healthy.json.findings).toContainEqual({ check: "webhooks", state: "ok", detail: "0 deliveries due" });
	expect(healthy.code).toBe(0);
	await project.write("dist/app.js", "nothing");
	await project.write("package.json", "{}");
	project.environment.CAPSTAN_TOKEN = await createProductKey(product, "app_admin", uuid);
	const member = await project.run("doctor", "--server", new URL(product.url).host, "--json");
	expect(member.json.findings).toContainEqual(expect.objectContaining({ check: "server", state: "ok" }));
	expect(member.json.findings.map(({ check }: { check: string }) => check)).not.toContain("webhooks");
	project.environment.CAPSTAN_TOKEN = "cap_wrong_key_that_nobody_has";
	const ill = await project.run("doctor", "--json");
	expect(ill.code).toBe(1);
	const failed = ill.json.findings.filter(({ state }: { state: string }) => state === "failed");
	expect(failed.map(({ check }: { check: string }) => check).sort()).toEqual(["build", "key", "plugin"]);
});

test("a directory that was deleted is named", async () => {
	const directory = await mkdtemp(join(product.directory, "deleted-"));
	const script = 'cd "$1" && rmdir "$1" && exec "$2" "$3" status';
	const { status, stderr } = spawnSync("bash", ["-c", script, "-", directory, process.execPath, CLI_FILE], {
		encoding: "utf8",
	});
	expect([status, stderr]).toEqual([
		2,
		"Error The current directory was deleted. Go to another one, and run the command again. (no_directory)\n",
	]);
});

test("a key is in no output and, once the command runs, in no process list", async () => {
	const { uuid, project } = await newProject();
	const key = await createProductKey(product, "app_reader", uuid);
	project.environment.CAPSTAN_TOKEN = "";
	const { child, ended } = project.start(["release", "--key", key]);
	let seen: string | undefined;
	while (child.exitCode === null) {
		const line = await readFile(`/proc/${child.pid}/cmdline`, "utf8").catch(() => undefined);
		if (line?.startsWith("capstan")) seen = line;
		await new Promise(setImmediate);
	}
	const { code, out, error } = await ended;
	expect(code).toBe(4);
	expect(error).toContain("permission_denied");
	expect(out + error).not.toContain(key);
	// Other systems have no such file.
	if (process.platform === "linux") {
		expect(seen).toBeDefined();
		expect(seen).not.toContain(key);
	}
});

test.each([
	[["relase"], 2, "unknown_command"],
	[["release", "nowhere"], 2, "build_not_found"],
	[["release", "--rollout", "200"], 2, "invalid_option"],
	[["release", "--bundle", "next"], 2, "invalid_option"],
	[["explain", "11111111-1111-4111-8111-111111111111"], 2, "device_not_found"],
	[["status", "--app", "com.example.nowhere"], 1, "app_not_found"],
	[["release", "--server", "http://127.0.0.1:9"], 5, "server_unreachable"],
])("capstan %j exits with %i", async (words, exitCode, code) => {
	const { project } = await newProject();
	const run = await project.run(...words, "--json");
	expect(run.code).toBe(exitCode);
	expect(run.json).toMatchObject({ ok: false, error: { code } });
	expect(run.json.error.message, "a person at the command calls no API").not.toMatch(/GET \/|POST \//);
	expect(Object.keys(await hashesOf(join(project.directory, "dist")))).toHaveLength(2);
});
