/**
 * The store builds of an app's devices, for the problems of its channels, from the database of its
 * reports. An isolate keeps the sample of devices that they come from, and so saves most requests a
 * second round trip: for two seconds, or for a minute once the sample is full, because it hardly
 * changes then.
 */
import type { AppId } from "../../authz/decide";
import { storeBuildsOf } from "../../db/store-versions";
import { tryTelemetry } from "../../db/telemetry-reads";
import type { Deps } from "../../deps";
import { recentMap } from "../../domain/recent";
import { MINUTE_MS } from "../../domain/time";

const KEPT_MS = 2_000;
const KEPT_FULL_MS = MINUTE_MS;
/** About a kilobyte each. */
const MOST_APPS = 500;

const sampleMap = () => recentMap<{ readonly builds: string; readonly untilMs: number }>(MOST_APPS);
const samplesOf = new WeakMap<Deps, ReturnType<typeof sampleMap>>();

/**
 * @returns JSON array of `[version_build, last_seen_at_ms]`; empty if the database of the reports
 * does not answer
 */
export async function reportedStoreBuilds(deps: Deps, telemetry: string, appId: AppId, nowMs: number): Promise<string> {
	const samples = samplesOf.get(deps) ?? sampleMap();
	samplesOf.set(deps, samples);
	const known = samples.get(appId);
	if (known !== undefined && nowMs < known.untilMs) return known.builds;
	const [row] = (await tryTelemetry(deps, telemetry, storeBuildsOf(appId))) ?? [];
	if (row === undefined) return "[]";
	const builds = row.store_builds;
	samples.set(appId, { builds, untilMs: nowMs + (row.is_full === 1 ? KEPT_FULL_MS : KEPT_MS) });
	return builds;
}
