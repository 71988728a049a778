/**
 * Facts about an app that its snapshot does not hold because there are too many: they are read from
 * D1 one by one and kept with the snapshot, as long as it is valid.
 */

import type { Database } from "../db/client";
import { MOST_HELD_OVERRIDES, overrideOf, readyBundle } from "../db/snapshot-load";
import type { Override } from "../domain/updates/model";
import { type AppSnapshot, overrideFrom } from "./app-snapshot";

/**
 * The device's override in memory: null if it has none, undefined if the database must be asked.
 */
export function heldOverride(
	{ overrides, askedOverrides }: AppSnapshot,
	deviceId: string,
): Override | null | undefined {
	return overrides === null ? askedOverrides.get(deviceId) : (overrides.get(deviceId) ?? null);
}

/** The override that an operator set for the device. */
export async function overrideIn(db: Database, snapshot: AppSnapshot, deviceId: string): Promise<Override | undefined> {
	const held = heldOverride(snapshot, deviceId);
	if (held !== undefined) return held ?? undefined;
	const { askedOverrides } = snapshot;
	const [found] = await db.batch([overrideOf(snapshot.app.id, deviceId)]);
	const [row] = found.rows;
	const override = row === undefined ? undefined : overrideFrom(row, snapshot);
	if (askedOverrides.size >= MOST_HELD_OVERRIDES) askedOverrides.clear();
	askedOverrides.set(deviceId, override ?? null);
	return override;
}

/** Whether a ready bundle has this version. */
export async function hasReadyBundle(db: Database, snapshot: AppSnapshot, version: string): Promise<boolean> {
	const { readyVersions } = snapshot;
	const known = readyVersions.get(version);
	if (known !== undefined) return known;
	const [found] = await db.batch([readyBundle(snapshot.app.id, version)]);
	const exists = found.rows.length > 0;
	readyVersions.set(version, exists);
	return exists;
}
