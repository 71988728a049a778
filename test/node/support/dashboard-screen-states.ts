/**
 * States of the dashboard that a picture needs and the scene does not have: a chosen file, a
 * changed channel, and the figures of a rollout that no scene could make in seconds.
 */
import { type Zippable, zipSync } from "fflate";
import type { Page } from "playwright-core";

/** Chooses a zip of the given files in the upload dialog. */
export function choose(page: Page, files: Zippable): Promise<void> {
	const buffer = Buffer.from(zipSync(files));
	return page.locator("input[type=file]").setInputFiles({ name: "app.zip", mimeType: "application/zip", buffer });
}

/** In the browser. Chromium counts a request as under way until its answer is read. */
export async function changeProduction([path, fields]: readonly [path: string, fields: object]): Promise<void> {
	const body = JSON.stringify({ app_id: "com.example.shop", channel: "production", ...fields });
	const answer = await fetch(path, { method: "POST", headers: { "content-type": "application/json" }, body });
	await answer.text();
}

/** In the browser: gives the device a channel and a bundle. */
export async function setByHand({
	app_id,
	device_id,
}: {
	readonly app_id: string;
	readonly device_id: string;
}): Promise<void> {
	const found = await fetch(`/bundle?app_id=${app_id}&version=1.1.0`);
	const [bundle] = (await found.json()) as { id: number }[];
	const body = JSON.stringify({ app_id, device_id, channel: "beta", version_id: bundle?.id });
	await fetch("/device", { method: "POST", headers: { "content-type": "application/json" }, body });
}

/** Reports of a rollout that no scene could make in seconds. */
export const HEALTHY = {
	steps: [5, 25, 100],
	running: 1_460,
	devices: { served: 1_578, installed: 1_452, failed: 8, silent: 118 },
	signals: { crashed: 4, errored: 61 },
	notCounted: { newer: 128, sharedNetwork: 61, more: false },
	health: { failureRate: 0.0055, lowerBound: 0.0028, upperBound: 0.0108, limit: 0.02, confidence: 0.95 },
	rates: [
		{ kind: "failed", devices: 8, of: 1_460, lowerBound: 0.0028, upperBound: 0.0108, limit: 0.02 },
		{ kind: "crashed", devices: 4, of: 1_452, lowerBound: 0.0011, upperBound: 0.0071, limit: 0.005 },
	],
	next: {
		percentageBps: 10_000,
		at: new Date(Date.now() + 18 * 60_000).toISOString(),
		devicesNeeded: 0,
		waitingFor: [],
	},
};
