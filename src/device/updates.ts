/**
 * POST /updates: a device asks what to run. The answer is what stock clients read strictly: a success carries neither `error` nor
 * `kind`, "no update" always carries both with HTTP 200, nothing is null, and the way back to the store build is a version alone.
 */
import type { CompiledQuery } from "kysely";
import * as v from "valibot";
import { endpoint } from "../api/endpoint";
import { acknowledgement, OK, optional, publicAppId, uuid } from "../api/schemas";
import {
	type CheckedApp,
	type CheckedBundle,
	type CheckedChannel,
	type CheckedFile,
	checkedApp,
	checkedChannels,
	checkedFiles,
} from "../db/updates";
import { BUILTIN, type Bundle, type Channel, type Device, decideUpdate, type Refusal } from "../domain/update-decision";
import { atLeastForMajor, readVersion } from "../domain/version";
import { signedDownloadUrl } from "../storage/links";

const PLATFORMS = ["ios", "android", "electron"] as const;
const textUpTo = (longest: number) =>
	v.pipe(v.string(), v.maxLength(longest, `must have at most ${longest} characters`));
const shortText = textUpTo(512);
const versionText = v.pipe(
	v.string(),
	v.minLength(1, "must not be empty"),
	v.maxLength(128, "must have at most 128 characters"),
);

export const deviceFields = {
	app_id: publicAppId,
	device_id: uuid,
	// Empty is the store build: some clients have no name for it.
	version_name: textUpTo(128),
	version_build: versionText,
	platform: v.picklist(PLATFORMS, `must be one of ${PLATFORMS.join(", ")}`),
	plugin_version: v.pipe(
		versionText,
		v.check((version) => readVersion(version) !== null, 'must be a version such as "8.51.23"'),
	),
	is_emulator: optional(v.boolean()),
	is_prod: optional(v.boolean()),
	defaultChannel: optional(shortText),
	key_id: optional(textUpTo(20)),
	custom_id: optional(shortText),
	install_source: optional(textUpTo(64)),
	version_os: optional(shortText),
	version_code: optional(shortText),
};

const updateAnswer = v.strictObject({
	version: v.string(),
	url: v.string(),
	session_key: v.string(),
	sessionKey: v.optional(v.string()),
	checksum: v.string(),
	manifest: v.optional(
		v.array(v.strictObject({ file_name: v.string(), file_hash: v.string(), download_url: v.string() })),
	),
	link: v.optional(v.string()),
	comment: v.optional(v.string()),
});
const builtinAnswer = v.strictObject({ version: v.literal(BUILTIN) });
const refusalAnswer = v.strictObject({
	error: v.string(),
	message: v.string(),
	kind: v.picklist(["up_to_date", "blocked", "failed"]),
	version: v.optional(v.string()),
	old: v.optional(v.string()),
	major: v.optional(v.boolean()),
	deviceKeyId: v.optional(v.string()),
	bundleKeyId: v.optional(v.string()),
});

/** From these versions on the native plugin reads a manifest. */
const READS_MANIFEST = { 5: "5.10.0", 6: "6.25.0", 7: "7.0.35", 8: "8.0.0" };
/** From these on it hands link and comment to the app. */
const READS_METADATA = { 5: "5.35.0", 6: "6.35.0", 7: "7.35.0", 8: "8.35.0" };

export const updatesHealth = endpoint({
	method: "GET",
	path: "/updates",
	tag: "Devices",
	summary: "Whether update checks are answered",
	access: { public: "It tells nothing but that the Worker answers." },
	response: acknowledgement,
	errors: [],
	example: { response: OK },
	async handle() {
		return OK;
	},
});

export const checkUpdate = endpoint({
	method: "POST",
	path: "/updates",
	tag: "Devices",
	summary: "Ask, as a device, which bundle to run",
	description:
		'HTTP 200 with a bundle, with `{"version":"builtin"}` (go back to the store build), or with `error`, `message` and `kind` when there is nothing to do: `up_to_date`, `blocked` by a rule of the channel, or `failed`.',
	access: { public: "Devices have no key. They learn of their own app's bundle what its channel gives to them." },
	body: v.object(deviceFields),
	response: v.union([updateAnswer, builtinAnswer, refusalAnswer]),
	errors: [],
	example: {
		body: {
			app_id: "com.example.app",
			device_id: "b5a3f9d2-6a60-4f2e-9a57-9f1f1f5a2d61",
			version_name: "builtin",
			version_build: "1.0.0",
			platform: "android",
			plugin_version: "8.51.23",
			is_emulator: false,
			is_prod: true,
			defaultChannel: "pr-128",
		},
		response: {
			version: "1.4.0-pr.128",
			url: "https://updates.example.com/files/download/…?expires=…&signature=…",
			session_key: "",
			checksum: "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
		},
	},
	load: ({ body }) => readsOf(deviceOf(body), body.app_id),
	async handle({ deps, input, loaded, origin, nowMs }) {
		const [app] = loaded[0].rows;
		if (app === undefined) {
			return { error: "app_not_found", message: "There is no such app on this server.", kind: "failed" as const };
		}
		const device = deviceOf(input.body);
		const channels = loaded[1].rows.map((row) => channelOf(row, readsManifest(device)));
		const decision = decideUpdate({ channels, currentBundleExists: app.current_exists === 1 }, device);
		if (decision.outcome === "builtin") return { version: BUILTIN } as const;
		if (decision.outcome === "none") return refusalOf(decision);

		const row = bundleRows(loaded[1].rows).find((bundle) => bundle.id === decision.bundle.id);
		if (row === undefined) throw new Error("the decided bundle is not among the loaded ones");
		const link = (objectKey: string) => signedDownloadUrl(deps, origin, objectKey, nowMs);
		return successOf(
			row,
			(loaded[2]?.rows ?? []).filter((file) => file.bundle_id === row.id),
			device,
			app.expose_metadata === 1,
			{ link, nothing: `${origin.replace(/^http:/, "https:")}/files/no-zip` },
		);
	},
});

type DeviceBody = v.InferOutput<ReturnType<typeof deviceObject>>;
const deviceObject = () => v.object(deviceFields);

/** The app, its channels that can matter, and their manifests where the client reads any: one round trip. */
function readsOf(
	device: Device,
	appId: string,
): readonly [CompiledQuery<CheckedApp>, CompiledQuery<CheckedChannel>, ...CompiledQuery<CheckedFile>[]] {
	const { platform, defaultChannel, versionName } = device;
	return [
		checkedApp(appId, versionName),
		checkedChannels(appId, platform, defaultChannel),
		...(readsManifest(device) ? [checkedFiles(appId, platform, defaultChannel, versionName)] : []),
	];
}

function deviceOf(body: DeviceBody): Device {
	return {
		deviceId: body.device_id,
		platform: body.platform,
		versionName: body.version_name,
		versionBuild: body.version_build,
		pluginVersion: body.plugin_version,
		isEmulator: body.is_emulator ?? false,
		isProd: body.is_prod ?? true,
		defaultChannel: body.defaultChannel ?? "",
		keyId: body.key_id,
	};
}

function parseBundle(json: string | null): CheckedBundle | null {
	return json === null ? null : JSON.parse(json);
}

function bundleRows(channels: readonly CheckedChannel[]): CheckedBundle[] {
	return channels.flatMap((channel) =>
		[parseBundle(channel.stable), parseBundle(channel.rollout)].filter((bundle) => bundle !== null),
	);
}

/** Electron's updater wants the zip whatever else there is. */
function readsManifest(device: Device): boolean {
	return device.platform !== "electron" && atLeastForMajor(device.pluginVersion, READS_MANIFEST);
}

function bundleOf(row: CheckedBundle, manifestIsRead: boolean): Bundle {
	return {
		id: row.id,
		version: row.name,
		ready: row.status === "ready",
		keyId: row.key_id,
		minUpdateVersion: row.min_update_version,
		hasContent: row.object_key !== null || row.external_url !== null || (manifestIsRead && row.has_manifest === 1),
	};
}

function channelOf(row: CheckedChannel, manifestIsRead: boolean): Channel {
	const stable = parseBundle(row.stable);
	const rollout = parseBundle(row.rollout);
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
		bundle: stable === null ? null : bundleOf(stable, manifestIsRead),
		rollout:
			rollout === null
				? null
				: {
						id: row.rollout_id ?? "",
						bundle: bundleOf(rollout, manifestIsRead),
						percentageBps: row.rollout_percentage_bps,
						enabled: row.rollout_enabled === 1,
						paused: row.rollout_paused_at_ms !== null,
					},
	};
}

function refusalOf({ error, message, kind, extra }: Refusal): v.InferOutput<typeof refusalAnswer> {
	return { error, message, kind, ...extra };
}

function successOf(
	bundle: CheckedBundle,
	files: readonly CheckedFile[],
	device: Device,
	exposeMetadata: boolean,
	links: { readonly link: (objectKey: string) => string; readonly nothing: string },
): v.InferOutput<typeof updateAnswer> {
	const electron = device.platform === "electron";
	const sessionKey = bundle.session_key ?? "";
	const stored = bundle.object_key === null ? links.nothing : links.link(bundle.object_key);
	const manifest = bundle.external_url === null && readsManifest(device);
	const metadata = exposeMetadata && atLeastForMajor(device.pluginVersion, READS_METADATA);
	return {
		version: bundle.name,
		url: bundle.external_url ?? stored,
		session_key: sessionKey,
		// Electron's updater checks the bytes as they come and reads another spelling.
		...(electron ? { sessionKey } : {}),
		checksum: (electron ? bundle.sha256 : bundle.checksum) ?? bundle.sha256 ?? "",
		...(manifest && files.length > 0
			? {
					manifest: files.map((file) => ({
						file_name: file.file_name,
						file_hash: file.file_hash,
						download_url: links.link(file.object_key),
					})),
				}
			: {}),
		...(metadata && bundle.link !== null ? { link: bundle.link } : {}),
		...(metadata && bundle.comment !== null ? { comment: bundle.comment } : {}),
	};
}
