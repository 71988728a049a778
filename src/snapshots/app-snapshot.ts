/**
 * The snapshot of an app that update checks are answered from. Rows become domain objects here,
 * once per load, so that no check translates anything. A snapshot never changes after its load,
 * except for the two lookup tables that start empty.
 */
import type { AppId } from "../authz/decide";
import type { SnapshotAppRow, SnapshotBundleRow, SnapshotChannelRow, SnapshotOverrideRow } from "../db/snapshot-load";
import { DEFAULT_PREVIEW_PREFIX, hasPreviewForm } from "../domain/ci/preview-names";
import { type Bundle, type Channel, type Override, PLATFORMS, type Platform } from "../domain/updates/model";
import type { SnapshotRows } from "./rows";

interface SnapshotApp {
	/** UUID. */
	readonly id: AppId;
	/** Public id as it is stored; devices may send another case. */
	readonly publicId: string;
	readonly ownerOrg: string;
	readonly revision: number;
	/** Identifies the content of the snapshot. */
	readonly token: string;
	readonly exposesMetadata: boolean;
	readonly keepsCustomIds: boolean;
	readonly blocksReviewNetworks: boolean;
	readonly allowsPreviews: boolean;
}

/** A bundle with everything that an offer of it contains. */
export interface SnapshotBundle extends Bundle {
	readonly checksum: string | null;
	readonly sha256: string | null;
	readonly objectKey: string | null;
	readonly externalUrl: string | null;
	readonly sessionKey: string | null;
	readonly comment: string | null;
	readonly link: string | null;
	/** The page of its open preview. */
	readonly pageId: string | null;
}

export interface SnapshotChannel extends Channel {
	readonly bundle: SnapshotBundle | null;
	/** The page of its open preview. */
	readonly pageId: string | null;
}

export interface AppSnapshot {
	readonly app: SnapshotApp;
	readonly channelsByName: ReadonlyMap<string, SnapshotChannel>;
	readonly channelsById: ReadonlyMap<number, SnapshotChannel>;
	readonly publicChannels: Readonly<Partial<Record<Platform, SnapshotChannel>>>;
	readonly bundles: ReadonlyMap<number, SnapshotBundle>;
	/** An enabled rollout exists, so devices may have been offered its bundle. */
	readonly hasRollout: boolean;
	/** By device. Null: there are too many to hold. */
	readonly overrides: ReadonlyMap<string, Override> | null;
	/**
	 * Overrides that were looked up one by one, because there are too many to hold. Null: the
	 * device has none.
	 */
	readonly askedOverrides: Map<string, Override | null>;
	/** The bundle that the device gets as a zip, because its single files failed. */
	readonly zipOnly: ReadonlyMap<string, number>;
	/** Whether versions have a ready bundle. Valid as long as the snapshot is. */
	readonly readyVersions: ReadyVersions;
}

interface ReadyVersions {
	/** Undefined: the database must be asked. */
	get(version: string): boolean | undefined;
	set(version: string, exists: boolean): void;
	/** The versions that stay known after changes of the bundles with these versions. */
	without(versions: readonly string[]): ReadyVersions;
}

/**
 * Versions of an app with too many bundles that are cached one by one; at most 128 characters each.
 */
const MOST_READY_VERSIONS = 1_000;

/** @param areAll no other version has a ready bundle */
function readyVersionsOf(known: Map<string, boolean>, areAll: boolean): ReadyVersions {
	return {
		get: (version) => known.get(version) ?? (areAll ? false : undefined),
		set(version, exists) {
			// Devices can send any text as their version.
			if (known.size >= MOST_READY_VERSIONS) known.clear();
			known.set(version, exists);
		},
		without: (versions) =>
			readyVersionsOf(new Map([...known].filter(([version]) => !versions.includes(version))), false),
	};
}

/** @param readyVersions those that are known of an app with too many bundles to hold their names */
export function assembleSnapshot(rows: SnapshotRows, readyVersions?: ReadyVersions): AppSnapshot {
	const { app, channels: channelRows, names } = rows;
	const bundles = new Map(rows.bundles.map((row) => [row.id, bundleOf(row)]));
	const bundle = (id: number | null) => (id === null ? null : (bundles.get(id) ?? null));
	const channels = channelRows.map((row) => ({
		...channelOf(row, bundle(row.version_id), bundle(row.rollout_version_id), app.preview_channel_prefix),
		pageId: row.page_id,
	}));
	const publicChannels: Partial<Record<Platform, SnapshotChannel>> = {};
	for (const platform of PLATFORMS) {
		const open = channels.find((channel) => channel.public && channel.platforms[platform]);
		if (open !== undefined) publicChannels[platform] = open;
	}
	const snapshot = {
		app: appOf(app),
		channelsByName: new Map(channels.map((channel) => [channel.name, channel])),
		channelsById: new Map(channels.map((channel) => [channel.id, channel])),
		publicChannels,
		bundles,
		hasRollout: channelRows.some((row) => row.rollout_enabled === 1),
		askedOverrides: new Map(),
		zipOnly: new Map(rows.zipOnly.map(({ device_id, version_id }) => [device_id, version_id])),
		readyVersions:
			names === null
				? (readyVersions ?? readyVersionsOf(new Map(), false))
				: readyVersionsOf(new Map(names.map((name) => [name, true])), true),
	};
	const overrides =
		rows.overrides === null ? null : new Map(rows.overrides.map((row) => [row.device_id, overrideFrom(row, snapshot)]));
	return { ...snapshot, overrides };
}

function appOf(row: SnapshotAppRow): SnapshotApp {
	return {
		id: row.id as AppId,
		publicId: row.app_id,
		ownerOrg: row.owner_org,
		revision: row.revision,
		token: row.revision_token ?? "",
		exposesMetadata: row.expose_metadata === 1,
		keepsCustomIds: row.allow_device_custom_id === 1,
		blocksReviewNetworks: row.block_provider_infra_requests === 1,
		allowsPreviews: row.allow_preview === 1,
	};
}

export function bundleOf(row: SnapshotBundleRow): SnapshotBundle {
	return {
		id: row.id,
		version: row.name,
		ready: row.status === "ready",
		keyId: row.key_id,
		minUpdateVersion: row.min_update_version,
		hasZip: row.object_key !== null || row.external_url !== null,
		// An external bundle is offered only as a whole.
		hasManifest: row.has_manifest === 1 && row.external_url === null,
		checksum: row.checksum,
		sha256: row.sha256,
		objectKey: row.object_key,
		externalUrl: row.external_url,
		sessionKey: row.session_key,
		comment: row.comment,
		link: row.link,
		pageId: row.page_id,
	};
}

/**
 * @param bundle the bundle of `version_id`
 * @param rollout the one of `rollout_version_id`
 * @param prefix `preview_channel_prefix` of the app
 */
export function channelOf<Served extends Bundle>(
	row: Omit<SnapshotChannelRow, "page_id">,
	bundle: Served | null,
	rollout: Bundle | null,
	prefix: string | null,
): Channel & { readonly bundle: Served | null } {
	return {
		id: row.id,
		name: row.name,
		public: row.public === 1,
		platforms: { ios: row.ios === 1, android: row.android === 1, electron: row.electron === 1 },
		allowDeviceSelfSet: row.allow_device_self_set === 1,
		allowEmulator: row.allow_emulator === 1,
		allowDevice: row.allow_device === 1,
		allowDev: row.allow_dev === 1,
		allowProd: row.allow_prod === 1,
		disableAutoUpdate: row.disable_auto_update,
		disableAutoUpdateUnderNative: row.disable_auto_update_under_native === 1,
		updatePackage: row.update_package,
		bundle,
		preview:
			row.is_preview === 1
				? {
						hasForm: hasPreviewForm(row.name, prefix ?? DEFAULT_PREVIEW_PREFIX),
						isNamedByFleet: row.named_by_fleet_at_ms !== null,
					}
				: null,
		rollout:
			rollout === null
				? null
				: {
						id: row.rollout_id ?? "",
						bundle: rollout,
						percentageBps: row.rollout_percentage_bps,
						enabled: row.rollout_enabled === 1,
						paused: row.rollout_paused_at_ms !== null,
					},
	};
}

/** A channel or bundle that the snapshot does not know is left out. */
export function overrideFrom(
	row: Pick<SnapshotOverrideRow, "channel_id" | "version_id">,
	{ channelsById, bundles }: Pick<AppSnapshot, "channelsById" | "bundles">,
): Override {
	return {
		channel: row.channel_id === null ? null : (channelsById.get(row.channel_id) ?? null),
		bundle: row.version_id === null ? null : (bundles.get(row.version_id) ?? null),
	};
}
