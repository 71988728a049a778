/**
 * The part of an app that decides given devices, for the effect of a change: the channels that are
 * open to all devices, those that a device names or is set to, and the changed ones, with the
 * bundles that they serve. It grows with the devices and not with the app. Devices come in pages by
 * their ids, so that a range finds their overrides.
 */
import type { CompiledQuery } from "kysely";
import type { AppId } from "../authz/decide";
import type { ReportedDevice } from "./fleet";
import { plain } from "./plain";
import {
	APP_COLUMNS,
	APP_ROW,
	BUNDLE_COLUMNS,
	CHANNEL_FIELDS,
	type SnapshotAppRow,
	type SnapshotBundleRow,
	type SnapshotChannelRow,
	type SnapshotOverrideRow,
} from "./snapshot-load";

const OF_PAGE = "o.app_id = ?1 AND o.device_id BETWEEN ?3 AND ?4";
/** Places of the channels, each found from an index; a channel may be in several. */
const DECIDING = [
	"channels WHERE channels.app_id = ?1 AND channels.public = 1",
	"json_each(?2) AS named CROSS JOIN channels ON channels.app_id = ?1 AND channels.name = named.value",
	`device_overrides o CROSS JOIN channels ON channels.id = o.channel_id AND channels.app_id = ?1 WHERE ${OF_PAGE}`,
] as const;
const EACH = (columns: string) => DECIDING.map((place) => `SELECT ${columns} FROM ${place}`).join("\nUNION ALL ");

const TEXTS = {
	app: `SELECT ${APP_COLUMNS} FROM ${APP_ROW}`,
	channels: EACH(CHANNEL_FIELDS),
	// The plus sign: by id, because the app may have many more bundles.
	bundles: `WITH deciding AS MATERIALIZED (${EACH("channels.version_id, channels.rollout_version_id")})
		SELECT ${BUNDLE_COLUMNS} FROM bundles b WHERE +b.app_id = ?1 AND b.id IN (
			SELECT version_id FROM deciding UNION ALL SELECT rollout_version_id FROM deciding
			UNION ALL SELECT o.version_id FROM device_overrides o WHERE ${OF_PAGE}
			UNION ALL SELECT value FROM json_each(?5))`,
	overrides: `SELECT o.device_id, o.channel_id, o.version_id FROM device_overrides o WHERE ${OF_PAGE}`,
	readyVersions: `SELECT b.name FROM json_each(?2) AS version CROSS JOIN bundles b
		ON b.app_id = ?1 AND b.name = version.value AND b.status = 'ready' AND b.deleted_at_ms IS NULL`,
} as const;

/**
 * For one batch: the app, the channels, their bundles and `bundleIds`, the overrides of the
 * devices, and which of the versions that they run have a ready bundle.
 * @param changed names of channels
 * @param devices a page in the order of their ids
 */
export function decidedChannels(
	{ appId, publicAppId }: { readonly appId: AppId; readonly publicAppId: string },
	changed: readonly string[],
	devices: readonly Pick<ReportedDevice, "device_id" | "default_channel" | "version_name">[],
	bundleIds: readonly number[],
) {
	const listOf = (values: readonly (string | null)[]) => JSON.stringify([...new Set(values)].filter(Boolean));
	const page = [devices[0]?.device_id ?? "", devices.at(-1)?.device_id ?? ""] as const;
	const names = listOf([...changed, ...devices.map(({ default_channel }) => default_channel)]);
	const versions = listOf(devices.map(({ version_name }) => version_name));
	const reads: readonly [
		CompiledQuery<SnapshotAppRow>,
		CompiledQuery<SnapshotChannelRow>,
		CompiledQuery<SnapshotBundleRow>,
		CompiledQuery<SnapshotOverrideRow>,
		CompiledQuery<{ readonly name: string }>,
	] = [
		plain(TEXTS.app, publicAppId),
		plain(TEXTS.channels, appId, names, ...page),
		plain(TEXTS.bundles, appId, names, ...page, JSON.stringify(bundleIds)),
		plain(TEXTS.overrides, appId, null, ...page),
		plain(TEXTS.readyVersions, appId, versions),
	];
	return reads;
}
