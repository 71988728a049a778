/**
 * Work of an app's operators during the simulation: publish, roll out and roll back, set and remove
 * overrides, return to the store build, delete bundles and channels. Each app has a rhythm, so most
 * days have changes.
 */
import type { AppWorld } from "./app-world";
import { BUILTIN, type Phone } from "./phone";
import { below, happens, oneOf, type Stream } from "./random";

export const BETA = "beta";
const PRODUCTION = "production";
const DESKTOP = "desktop";
/** Days between two releases. */
const RELEASE_DAYS = 3;
/** Bundles that are kept. */
const KEPT_BUNDLES = 4;

/** Work on the first day. */
export async function openShop(app: AppWorld, chance: Stream): Promise<void> {
	const first = await app.publish(chance, false);
	await app.setChannel(PRODUCTION, { public: true, electron: false, version: first.version });
	await app.setChannel(DESKTOP, { public: true, ios: false, android: false, version: first.version });
	await app.setChannel(BETA, { allow_device_self_set: true, version: first.version });
}

/** Work on every later day, before or between the waves of checks. */
export async function workDay(app: AppWorld, chance: Stream, day: number, phones: readonly Phone[]): Promise<void> {
	const phase = day % (RELEASE_DAYS * 2);
	if (phase === 0) await releaseToAll(app, chance);
	// The next bundle is rolled out in steps, and every second one is rolled back.
	if (phase === 3) await beginRollout(app, chance);
	if (phase === 4) await app.setChannel(PRODUCTION, { rolloutPercentage: 50 });
	if (phase === 5) await endRollout(app, happens(chance, 0.5));
	await steerDevices(app, chance, phones);
	if (day % 7 === 5) await deleteOldBundles(app);
	if (day % 10 === 6) {
		// Devices that chose the channel fall back to the public channel until it exists again.
		await app.deleteChannel(BETA);
	} else if (day % 10 === 8) {
		await app.setChannel(BETA, { allow_device_self_set: true, version: app.live[0]?.version ?? BUILTIN });
	}
	if (day % 12 === 10) await app.setChannel(DESKTOP, { version: BUILTIN });
	if (day % 12 === 11) await app.setChannel(DESKTOP, { version: app.live[0]?.version ?? BUILTIN });
}

async function releaseToAll(app: AppWorld, chance: Stream): Promise<void> {
	const bundle = await app.publish(chance, happens(chance, 0.6));
	await app.setChannel(PRODUCTION, { version: bundle.version });
	await app.setChannel(DESKTOP, { version: bundle.version });
	if (app.channels.has(BETA)) await app.setChannel(BETA, { version: bundle.version });
}

async function beginRollout(app: AppWorld, chance: Stream): Promise<void> {
	const bundle = await app.publish(chance, happens(chance, 0.6));
	await app.setChannel(PRODUCTION, { rolloutVersion: bundle.version, rolloutPercentage: 10, rolloutEnabled: true });
	if (app.channels.has(BETA)) await app.setChannel(BETA, { version: bundle.version });
}

async function endRollout(app: AppWorld, well: boolean): Promise<void> {
	await app.setChannel(PRODUCTION, well ? { promoteToStable: true } : { rollback: true });
}

async function steerDevices(app: AppWorld, chance: Stream, phones: readonly Phone[]): Promise<void> {
	const own = phones.filter((phone) => phone.app === app);
	for (let times = below(chance, 4); times > 0 && own.length > 0; times -= 1) {
		const { deviceId } = oneOf(chance, own);
		if (app.truth.overrides.has(deviceId)) {
			await app.unsetOverride(deviceId);
			continue;
		}
		const channel = app.channels.has(BETA) && happens(chance, 0.6) ? BETA : undefined;
		const bundle = channel === undefined || happens(chance, 0.3) ? oneOf(chance, app.live.slice(0, 3)) : undefined;
		await app.setOverride(deviceId, channel, bundle);
	}
}

/** Deletes old bundles that some devices still run. */
async function deleteOldBundles(app: AppWorld): Promise<void> {
	for (const bundle of app.live.slice(KEPT_BUNDLES)) await app.deleteBundle(bundle);
}
