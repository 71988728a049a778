/**
 * GET /device/explain: why a device gets what it gets. The decision of the live check itself, with every rule that was looked at, what
 * it found and what to change to get past it, for a device that is known or for one that is made up in the query.
 */
import * as v from "valibot";
import { endpoint } from "../api/endpoint";
import { booleanText, optional, publicAppId, uuid } from "../api/schemas";
import { appNotFound, appScope } from "../api/scope";
import { type AppRow, appByPublicId } from "../db/apps";
import { deviceById } from "../db/devices";
import { DECIDED_BY, explainDecision, type Remedy } from "../domain/explanation";
import type { Decision, Platform } from "../domain/update-decision";
import { invalidRequest } from "../errors";
import { type DeviceBody, decisionSnapshot, deviceFields, deviceOf, textUpTo } from "./device";
import { answerTo, updatesAnswer } from "./updates";

const deviceShown = v.strictObject({
	device_id: v.string(),
	platform: v.string(),
	version_name: v.string(),
	version_build: v.string(),
	plugin_version: v.string(),
	is_emulator: v.boolean(),
	is_prod: v.boolean(),
	defaultChannel: v.string(),
	key_id: v.nullable(v.string()),
});

const isTrue = v.literal(true);
/** A change of one channel, as POST /channel takes it beside `app_id`. */
const settingsSchema = v.strictObject({
	channel: v.string(),
	ios: v.optional(isTrue),
	android: v.optional(isTrue),
	electron: v.optional(isTrue),
	allow_device_self_set: v.optional(isTrue),
	allow_emulator: v.optional(isTrue),
	allow_device: v.optional(isTrue),
	allow_dev: v.optional(isTrue),
	allow_prod: v.optional(isTrue),
	disableAutoUpdate: v.optional(v.literal("none")),
	disableAutoUpdateUnderNative: v.optional(v.literal(false)),
});

/** For a made-up device: any id draws its place in a rollout. */
const NOBODY = "00000000-0000-0000-0000-000000000000";

/** Rules that a newer store build gets past. */
const NEEDS_STORE_BUILD: ReadonlySet<string> = new Set([
	"disable_auto_update_to_major",
	"disable_auto_update_to_minor",
	"disable_auto_update_to_patch",
	"disable_auto_update_to_metadata",
]);

/** Store page of the app for the device's platform. */
const storeUrlOf = (platform: Platform, app: AppRow | undefined) =>
	platform === "ios" ? app?.ios_store_url : platform === "android" ? app?.android_store_url : undefined;

function withStoreUrl(remedy: Remedy | null, decision: Decision, storeUrl: string | null | undefined): Remedy | null {
	const isHelped = decision.outcome === "none" && NEEDS_STORE_BUILD.has(decision.error);
	if (remedy === null || !isHelped || storeUrl == null) return remedy;
	return { ...remedy, message: `${remedy.message} Testers install the newest store build from ${storeUrl}` };
}

export const explainDevice = endpoint({
	method: "GET",
	path: "/device/explain",
	tag: "Devices",
	summary: "Why a device gets what it gets",
	description:
		"`answer` is what POST /updates answers with, but for the files of a manifest, from what the database has at this moment; `because` says why in one clause, and `decided_by` names what decided: an override, the channel that serves, one of its rules, the bundle, or the device. Where the device gets nothing, `remedy` says what to do; its `settings`, sent to POST /channel with `app_id`, are the change with which the device gets the bundle. `trace` is every rule in its order with what it found. A known `device_id` brings what was last seen of the device, the other parameters replace it, so that a question can begin with what if. Without one, `platform`, `version_build` and `plugin_version` are needed.",
	access: { permission: "app.read_devices", scope: appScope("query.app_id") },
	query: v.object({
		app_id: publicAppId,
		device_id: optional(uuid),
		platform: optional(deviceFields.platform),
		version_name: optional(textUpTo(128)),
		version_build: optional(deviceFields.version_build),
		plugin_version: optional(deviceFields.plugin_version),
		is_emulator: optional(booleanText),
		is_prod: optional(booleanText),
		defaultChannel: optional(textUpTo(512)),
		key_id: optional(textUpTo(20)),
	}),
	response: v.strictObject({
		outcome: v.picklist(["update", "builtin", "none"]),
		answer: updatesAnswer,
		channel: v.nullable(v.string()),
		decided_by: v.picklist(DECIDED_BY),
		because: v.string(),
		remedy: v.nullable(v.strictObject({ message: v.string(), settings: v.nullable(settingsSchema) })),
		trace: v.array(
			v.strictObject({
				rule: v.string(),
				outcome: v.picklist(["passed", "decided", "skipped"]),
				finding: v.string(),
				remedy: v.optional(v.string()),
			}),
		),
		device: deviceShown,
	}),
	errors: [],
	example: {
		query: { app_id: "com.example.app", platform: "android", version_build: "1.0.0", plugin_version: "8.51.23" },
		response: {
			outcome: "none",
			answer: {
				error: "no_channel",
				message: "No public channel serves this device, and it has no default channel that may.",
				kind: "failed",
			},
			channel: null,
			decided_by: "no_channel",
			because: "android has no public channel that can serve",
			remedy: { message: "Make a channel public for android.", settings: null },
			trace: [
				{
					rule: "public_channel",
					outcome: "skipped",
					finding: "no public channel for android",
					remedy: "Make a channel public for android.",
				},
			],
			device: {
				device_id: NOBODY,
				platform: "android",
				version_name: "builtin",
				version_build: "1.0.0",
				plugin_version: "8.51.23",
				is_emulator: false,
				is_prod: true,
				defaultChannel: "",
				key_id: null,
			},
		},
	},
	load: ({ query }) => [deviceById(query.app_id, query.device_id ?? ""), appByPublicId(query.app_id)] as const,
	async handle({ deps, db, input, loaded, snapshots, origin, nowMs }) {
		const { query } = input;
		const [known] = loaded[0].rows;
		const missing = (["platform", "version_build", "plugin_version"] as const).filter(
			(field) => query[field] === undefined && (known === undefined || known[field] === null),
		);
		if (missing.length > 0) {
			const message = "is required: nothing is known of it, or of such a device";
			throw invalidRequest(missing.map((path) => ({ path, message })));
		}
		const device = deviceOf({
			app_id: query.app_id,
			device_id: query.device_id ?? NOBODY,
			platform: (query.platform ?? known?.platform ?? "") as DeviceBody["platform"],
			version_name: query.version_name ?? known?.version_name ?? "builtin",
			version_build: query.version_build ?? known?.version_build ?? "",
			plugin_version: query.plugin_version ?? known?.plugin_version ?? "",
			is_emulator: query.is_emulator ?? known?.is_emulator === 1,
			is_prod: query.is_prod ?? known?.is_prod !== 0,
			defaultChannel: query.defaultChannel ?? known?.default_channel ?? undefined,
			key_id: query.key_id ?? known?.key_id ?? undefined,
			custom_id: undefined,
			install_source: undefined,
			version_os: undefined,
			version_code: undefined,
		});
		const snapshot = await snapshots.readNow(db, query.app_id, device.versionName);
		if (snapshot === null) throw appNotFound();
		const { decision, answer } = await answerTo({ deps, db, snapshots, origin, nowMs }, snapshot, device, false);
		const override = await snapshots.override(db, snapshot, device.deviceId);
		const exists = await snapshots.hasReadyBundle(db, snapshot, device.versionName);
		const explained = explainDecision(decisionSnapshot(snapshot, device, override, exists), device);
		const { decidedBy, because } = explained;
		const storeUrl = storeUrlOf(device.platform, loaded[1].rows[0]);
		const remedy = withStoreUrl(explained.remedy, decision, storeUrl);
		return {
			outcome: decision.outcome,
			answer,
			channel: decision.resolved?.name ?? null,
			decided_by: decidedBy,
			because,
			remedy: remedy === null ? null : { message: remedy.message, settings: remedy.settings },
			trace: decision.trace.map((step) =>
				step.outcome === "decided" && remedy !== null ? { ...step, remedy: remedy.message } : { ...step },
			),
			device: {
				device_id: device.deviceId,
				platform: device.platform,
				version_name: device.versionName,
				version_build: device.versionBuild,
				plugin_version: device.pluginVersion,
				is_emulator: device.isEmulator,
				is_prod: device.isProd,
				defaultChannel: device.defaultChannel,
				key_id: device.keyId ?? null,
			},
		};
	},
});
