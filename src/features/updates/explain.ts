/**
 * GET /device/explain: why a device gets its answer. Runs the decision of the update check for a
 * known device or for one that the query describes, and returns every rule with its finding and the
 * change that gets the device past it.
 */
import * as v from "valibot";
import { type AppRow, appByPublicId } from "../../db/apps";
import { deviceById } from "../../db/devices";
import { tryTelemetry } from "../../db/telemetry-reads";
import type { Decision, TraceStep } from "../../domain/updates/decision";
import { DECIDED_BY, explainDecision, type Remedy } from "../../domain/updates/explanation";
import type { Platform } from "../../domain/updates/model";
import { needsStoreBuild } from "../../domain/updates/refusals";
import { RULE_NAMES } from "../../domain/updates/rule-names";
import { invalidRequest, serviceUnavailable } from "../../errors";
import { endpoint } from "../../http/endpoint";
import { booleanText, optional, publicAppId, refusalSettings, textUpTo, uuid } from "../../http/schemas";
import { appNotFound, appScope } from "../../http/scope";
import { hasReadyBundle, overrideIn } from "../../snapshots/lookups";
import { answerTo } from "./answer";
import { updatesAnswer } from "./check";
import { decisionInput, deviceOf } from "./device";
import type { DeviceBody } from "./device-body";
import { deviceFields } from "./device-request";

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

/** A change of one channel, as POST /channel takes it beside `app_id`. */
const settingsSchema = v.strictObject({ channel: v.string(), ...refusalSettings });

/** Id of a device that only the query describes; it has a place in rollouts like any other id. */
const NO_DEVICE = "00000000-0000-0000-0000-000000000000";

/** Store page of the app for the device's platform. */
const storeUrlOf = (platform: Platform, app: AppRow | undefined) =>
	platform === "ios" ? app?.ios_store_url : platform === "android" ? app?.android_store_url : undefined;

function withStoreUrl(remedy: Remedy | null, decision: Decision, storeUrl: string | null | undefined): Remedy | null {
	const isHelped = decision.outcome === "none" && needsStoreBuild(decision.error);
	if (remedy === null || !isHelped || storeUrl == null) return remedy;
	const install = `Testers install the newest store build from ${storeUrl}`;
	const { message, otherwise, settings } = remedy;
	return {
		message: `${message} ${install}`,
		settings,
		otherwise: otherwise === null ? install : `${otherwise} ${install}`,
	};
}

export const explainDevice = endpoint({
	method: "GET",
	path: "/device/explain",
	tag: "Devices",
	summary: "Explain why a device gets its answer",
	description: [
		"`answer` is the answer of POST /updates from the current",
		"state of the database, without the files of a manifest.",
		"`because` gives the reason in one clause, and `decided_by` names the deciding factor: an override,",
		"the serving channel, one of its rules, the bundle, or the device.",
		"If the device gets nothing, `remedy` says what to do; its `settings`, sent to POST /channel with",
		"`app_id`, are the change with which the device gets the bundle.",
		"`trace` lists every rule in order with its finding.",
		"A known `device_id` uses the properties that the device last reported; other parameters replace",
		"them, to ask what would happen if.",
		"Without a known device, `platform`, `version_build` and `plugin_version` are required.",
	],
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
		remedy: v.nullable(
			v.strictObject({
				message: v.string(),
				settings: v.nullable(settingsSchema),
				/** The remedy besides `settings`, in words for people; null if only settings help. */
				otherwise: v.nullable(v.string()),
			}),
		),
		trace: v.array(
			v.strictObject({
				rule: v.picklist(RULE_NAMES),
				outcome: v.picklist(["passed", "decided", "skipped"]),
				finding: v.string(),
				remedy: v.optional(v.string()),
				/** The change of a channel with which the rule passes. */
				settings: v.optional(settingsSchema),
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
			remedy: {
				message: "Make a channel public for android.",
				settings: null,
				otherwise: "Make a channel public for android.",
			},
			trace: [
				{
					rule: "public_channel",
					outcome: "skipped",
					finding: "no public channel for android",
					remedy: "Make a channel public for android.",
				},
			],
			device: {
				device_id: NO_DEVICE,
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
	load: ({ query }) => ({ app: appByPublicId(query.app_id) }),
	async handle({ deps, db, input, loaded, scope, scopeRow, snapshots, failedFiles, origin, nowMs, waitUntil }) {
		const { query } = input;
		const reported =
			query.device_id === undefined
				? undefined
				: await tryTelemetry(deps, scopeRow.telemetry_binding, deviceById(scope.appId, query.device_id));
		const known = reported?.[0];
		const missing = (["platform", "version_build", "plugin_version"] as const).filter(
			(field) => query[field] === undefined && (known === undefined || known[field] === null),
		);
		if (missing.length > 0 && query.device_id !== undefined && reported === undefined) {
			throw serviceUnavailable(new Error(`${scopeRow.telemetry_binding} does not answer`));
		}
		if (missing.length > 0) {
			const message = "is required, because this device has not reported it";
			throw invalidRequest(missing.map((path) => ({ path, message })));
		}
		const device = deviceOf(
			{
				app_id: query.app_id,
				device_id: query.device_id ?? NO_DEVICE,
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
			},
			query.device_id === undefined ? undefined : failedFiles.of(scopeRow.app_id, query.device_id),
		);
		const snapshot = await snapshots.readNow(db, query.app_id);
		if (snapshot === null) throw appNotFound();
		const { decision, answer } = await answerTo(
			{ deps, db, snapshots, origin, nowMs, waiter: { waitUntil } },
			snapshot,
			device,
		);
		const override = await overrideIn(db, snapshot, device.deviceId);
		const exists = await hasReadyBundle(db, snapshot, device.versionName);
		const trace: TraceStep[] = [];
		const explained = explainDecision(decisionInput(snapshot, device, override, exists), device, trace);
		const { decidedBy, because } = explained;
		const storeUrl = storeUrlOf(device.platform, loaded.app[0]);
		const remedy = withStoreUrl(explained.remedy, decision, storeUrl);
		return {
			outcome: decision.outcome,
			answer,
			channel: decision.resolved?.name ?? null,
			decided_by: decidedBy,
			because,
			remedy,
			trace: trace.map((step) =>
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
