/**
 * What the page "Connect" prints, run as it stands: its configuration in a project of its own, and every command of its workflows with the
 * published CLI and a key of the role that the page names.
 */
import { spawn } from "node:child_process";
import { chmod, mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { parse } from "yaml";
import { configuration, previewWorkflow, releaseWorkflow } from "../../dashboard/src/connect-texts";
import { devDependencies } from "../../package.json";
import { CLI, type CliProject, createCliProject } from "../clients/capgo-cli";
import { createProductApp, createProductKey, type Product, startProduct } from "./support/product";

const CLI_VERSION = devDependencies["@capgo/cli"];
const APP = "com.example.printed";
let product: Product;
let project: CliProject;
let uuid: string;
beforeAll(async () => {
	product = await startProduct();
	uuid = await createProductApp(product, APP);
	project = await createCliProject(product.directory, "http://nowhere.invalid", APP);
	const text = configuration({ origin: product.url, appId: APP, appName: "Printed", webDir: "dist" });
	await writeFile(join(project.directory, "capacitor.config.json"), text);
	await mkdir(join(project.home, "bin"));
	// `npx` would ask a registry for the package that is installed here.
	const npx = join(project.home, "bin/npx");
	await writeFile(
		npx,
		`#!/bin/bash\n[ "$1" = "@capgo/cli@${CLI_VERSION}" ] || exit 64\nshift\nexec "${process.execPath}" "${CLI}" "$@"\n`,
	);
	await chmod(npx, 0o755);
});
afterAll(() => product?.stop());

interface Workflow {
	readonly jobs: Readonly<Record<string, { readonly steps: readonly { readonly run?: string }[] }>>;
}

/** Runs what a job of the workflow says about this service, as the CI's shell does. */
async function runJob(text: string, job: string, key: string, facts: Readonly<Record<string, string>>): Promise<void> {
	const { jobs } = parse(text) as Workflow;
	const commands = (jobs[job]?.steps ?? []).flatMap(({ run }) => (run?.includes("@capgo/cli") === true ? [run] : []));
	expect(commands).toHaveLength(1);
	for (const command of commands) {
		const filled = command.replace(/\$\{\{ github\.([\w.]+) \}\}/g, (_, name: string) => facts[name] ?? `no ${name}`);
		const { code, output } = await shell(filled, key);
		expect(code, output).toBe(0);
	}
}

function shell(script: string, key: string): Promise<{ code: number | null; output: string }> {
	return new Promise((resolve, reject) => {
		const { CAPGO_TOKEN: _, PATH = "", ...inherited } = process.env;
		const child = spawn("bash", ["-e", "-c", script], {
			cwd: project.directory,
			env: {
				...inherited,
				PATH: `${join(project.home, "bin")}:${PATH}`,
				HOME: project.home,
				CAPSTAN_KEY: key,
				CI: "1",
				NO_COLOR: "1",
				CAPGO_DISABLE_TELEMETRY: "1",
			},
			stdio: ["ignore", "pipe", "pipe"],
		});
		let output = "";
		for (const stream of [child.stdout, child.stderr]) stream.on("data", (chunk) => (output += chunk));
		child.on("error", reject);
		child.on("close", (code) => resolve({ code, output }));
	});
}

const bundles = async (): Promise<string[]> =>
	(await product.api("GET", `/bundle?app_id=${APP}`)).body.map(({ name }: { name: string }) => name).sort();
const channels = async (): Promise<string[]> =>
	(await product.api("GET", `/channel?app_id=${APP}`)).body.map(({ name }: { name: string }) => name).sort();

test("the release workflow uploads with the printed configuration and a key of an uploader, and the channel serves it", async () => {
	await product.api("POST", "/channel", { app_id: APP, channel: "production", public: true });
	const key = await createProductKey(product, "app_uploader", uuid);
	// Whoever runs a job again gets the same number with another attempt, and has changed nothing.
	for (const [run_attempt, version] of [
		["1", "1.0.701"],
		["2", "1.0.702"],
	] as const) {
		const facts = { run_number: "7", run_attempt };
		await runJob(releaseWorkflow(CLI_VERSION, APP, "production"), "release", key, facts);
		const { body } = await product.api("GET", `/channel?app_id=${APP}&channel=production`);
		expect(body.version.name).toBe(version);
	}
});

test("the preview workflow keeps testers on one channel from push to push, and leaves no bundle of the pull request behind", async () => {
	const key = await createProductKey(product, "app_preview", uuid);
	const text = previewWorkflow(CLI_VERSION, APP);
	const push = async (number: string, run: string, attempt = "1") => {
		// Once more is with the same files.
		await project.write("app.js", `CapacitorUpdater.notifyAppReady(); // ${number} ${run}`);
		await runJob(text, "preview", key, { "event.number": number, run_number: run, run_attempt: attempt });
	};
	const before = await bundles();
	for (const run of ["1", "2", "3"]) await push("1", run);
	await push("1", "3", "2");
	// Another pull request whose number begins alike.
	await push("12", "4");
	const { body } = await product.api("GET", `/channel?app_id=${APP}&channel=pr-1`);
	expect(body).toMatchObject({ version: { name: "1.0.0-pr.1.3.2" }, allow_device_self_set: true });
	await runJob(text, "clean-up", key, { "event.number": "1" });
	expect(await bundles()).toEqual(["1.0.0-pr.12.4.1", ...before]);
	expect(await channels()).toEqual(["pr-12", "production"]);
	// Once more is no failure: a pull request may be closed whose build never ran.
	await runJob(text, "clean-up", key, { "event.number": "1" });
	expect(await bundles()).toEqual(["1.0.0-pr.12.4.1", ...before]);
});
