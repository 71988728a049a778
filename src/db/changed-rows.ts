/**
 * The statements that bring a snapshot of an earlier revision up to date: they read the app's row,
 * and the rows of the parts that `changed_items` names since that revision. They are constant text
 * (`plain`), because checks of devices run them.
 */
import type { CompiledQuery } from "kysely";
import { plain } from "./plain";
import type { Flag } from "./schema";
import {
	APP_COLUMNS,
	APP_ID,
	APP_ROW,
	BUNDLE_COLUMNS,
	CHANNEL_FIELDS,
	type SnapshotAppRow,
	type SnapshotBundleRow,
	type SnapshotChannelRow,
	type SnapshotOverrideRow,
	type SnapshotZipOnlyRow,
} from "./snapshot-load";

/** If more parts changed, the whole app is read. */
const MOST_ITEMS = 200;

export interface FollowedAppRow extends SnapshotAppRow {
	/** 0: the revision is not of this history, is too old, or too much changed since. */
	readonly is_followed: Flag;
}

export interface ChangedItemRow {
	readonly kind: "channel" | "bundle" | "device" | "all";
	readonly item: string;
}

export interface ChangedNameRow {
	readonly name: string;
	readonly is_ready: Flag;
}

/** The revision itself as well: the statements after the one that raised it have its number. */
const ITEMS = `(SELECT DISTINCT kind, item FROM changed_items
	WHERE app_id = ${APP_ID} AND revision >= ?2 AND kind <> 'token' LIMIT ${MOST_ITEMS + 1}) AS wanted`;
const OVERRIDDEN = `${ITEMS} CROSS JOIN device_overrides o ON o.app_id = ${APP_ID} AND o.device_id = wanted.item WHERE wanted.kind = 'device'`;
const CHANNELS = `${ITEMS} CROSS JOIN channels ON channels.id = CAST(wanted.item AS INTEGER) AND +channels.app_id = ${APP_ID}
	WHERE wanted.kind = 'channel'`;

const TEXTS = {
	app: `SELECT ${APP_COLUMNS}, (apps.revision_token = ?3 OR EXISTS (SELECT 1 FROM changed_items c
				WHERE c.app_id = apps.id AND c.revision = ?2 AND c.kind = 'token' AND c.item = ?3))
			AND (SELECT count(*) + ${MOST_ITEMS} * coalesce(sum(wanted.kind = 'all'), 0) FROM ${ITEMS}) <= ${MOST_ITEMS} AS is_followed
		FROM ${APP_ROW}`,
	items: `SELECT wanted.kind, wanted.item FROM ${ITEMS}`,
	channels: `SELECT ${CHANNEL_FIELDS} FROM ${CHANNELS}`,
	bundles: `SELECT ${BUNDLE_COLUMNS} FROM bundles b WHERE +b.app_id = ${APP_ID} AND b.id IN (
			SELECT CAST(wanted.item AS INTEGER) FROM ${ITEMS} WHERE wanted.kind = 'bundle'
			UNION ALL SELECT channels.version_id FROM ${CHANNELS}
			UNION ALL SELECT channels.rollout_version_id FROM ${CHANNELS}
			UNION ALL SELECT o.version_id FROM ${OVERRIDDEN})`,
	overrides: `SELECT o.device_id, o.channel_id, o.version_id FROM ${OVERRIDDEN}`,
	names: `SELECT b.name, EXISTS (SELECT 1 FROM bundles r WHERE r.app_id = b.app_id AND r.name = b.name AND r.status = 'ready'
				AND r.deleted_at_ms IS NULL) AS is_ready
		FROM ${ITEMS} CROSS JOIN bundles b ON b.id = CAST(wanted.item AS INTEGER) AND +b.app_id = ${APP_ID} WHERE wanted.kind = 'bundle'`,
	zipOnly: `SELECT z.device_id, z.version_id FROM ${ITEMS} CROSS JOIN zip_only_devices z ON z.app_id = ${APP_ID}
			AND z.device_id = wanted.item WHERE wanted.kind = 'device' AND z.ended_at_ms IS NULL`,
} as const;

/** For one batch. Nobody sees the revision's token, so a snapshot with it is of this app. */
export function changedRows(publicAppId: string, { revision, revision_token: token }: SnapshotAppRow) {
	const read = <Row>(text: string): CompiledQuery<Row> => plain(text, publicAppId, revision);
	return [
		plain<FollowedAppRow>(TEXTS.app, publicAppId, revision, token),
		read<ChangedItemRow>(TEXTS.items),
		read<SnapshotChannelRow>(TEXTS.channels),
		read<SnapshotBundleRow>(TEXTS.bundles),
		read<SnapshotOverrideRow>(TEXTS.overrides),
		read<ChangedNameRow>(TEXTS.names),
		read<SnapshotZipOnlyRow>(TEXTS.zipOnly),
	] as const;
}
