/**
 * The end of `npm start`: whatever ends it, what devices have reported before is counted by the
 * next start, and the system's temporary directory is left as it was.
 */
import { mkdir, readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { LAST_LINE, startScene, URL_PATTERN } from "./support/npm-start";

const scene = startScene();
const APP = "com.example.stop";
const REPORTS = 60;

test("SIGTERM and SIGINT lose no report that was acknowledged, and leave nothing in the temporary directory", async () => {
	const state = await scene.copiedState();
	const temporary = join(scene.directory(), "tmp");
	await mkdir(temporary);
	const key = (await readFile(join(state, "admin.key"), "utf8")).trimEnd();
	const headers = { authorization: key, "content-type": "application/json" };
	const started = async () => {
		const run = scene.start({ CAPSTAN_STATE: state, TMPDIR: temporary });
		await run.until(LAST_LINE);
		return { run, url: URL_PATTERN.exec(run.output())?.[0] ?? "" };
	};
	let { run, url } = await started();
	const [organization] = (await (await fetch(`${url}/organization`, { headers })).json()) as { id: string }[];
	const app = { app_id: APP, name: "Stop", owner_org: organization?.id };
	expect((await fetch(`${url}/app`, { method: "POST", headers, body: JSON.stringify(app) })).status).toBe(201);
	for (const [number, signal] of (["SIGTERM", "SIGINT"] as const).entries()) {
		const reports = Array.from({ length: REPORTS }, async (_, index) => {
			const device = `0000000${number}-0000-4000-8000-${String(index).padStart(12, "0")}`;
			const report = {
				app_id: APP,
				device_id: device,
				action: "set",
				version_name: "1.0.0",
				version_build: "1.0.0",
				platform: "android",
				plugin_version: "8.51.23",
				timestamp: Date.now(),
			};
			const init = { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(report) };
			return (await fetch(`${url}/stats`, init)).status;
		});
		expect(new Set(await Promise.all(reports))).toEqual(new Set([200]));
		expect(await run.stop(signal), run.output()).toBe(0);
		// The loader of TypeScript keeps one folder for all its runs.
		expect((await readdir(temporary)).filter((name) => !name.startsWith("tsx-"))).toEqual([]);
		({ run, url } = await started());
		const days = (await (await fetch(`${url}/statistics/app/${APP}`, { headers })).json()) as { install: number }[];
		expect(days.reduce((sum, { install }) => sum + install, 0)).toBe(REPORTS * (number + 1));
	}
	await run.stop();
});
