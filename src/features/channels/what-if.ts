/**
 * POST /channel/what_if: the effect of a channel change on devices. The plan comes from the code of
 * POST /channel. One request decides a page of devices; its answer has the position of the next
 * page.
 */
import * as v from "valibot";
import { EFFECT_DAYS } from "../../domain/defaults";
import { requiredForm } from "../../domain/updates/package";
import { ApiError } from "../../errors";
import { endpoint } from "../../http/endpoint";
import { optional, uuid } from "../../http/schemas";
import { appScope } from "../../http/scope";
import type { AppSnapshot } from "../../snapshots/app-snapshot";
import { channelBody } from "./body";
import { compatibilityAnswer, compatibilityFields, compatibilityOfChange, refuseIncompatible } from "./compatibility";
import { differenceOf } from "./difference";
import { fromVersionsSchema, outcomesSchema, readEffect, storeBuildsSchema } from "./effect";
import { formRequired } from "./guards";
import { channelChangeReads, requestOf } from "./reads";
import { drawn } from "./values";

export const whatIf = endpoint({
	method: "POST",
	path: "/channel/what_if",
	tag: "Channels",
	summary: "Show which devices would get another answer if a channel were changed",
	description: [
		"The body is that of POST /channel, with `days`: each device that was seen in the last `days`",
		`(${EFFECT_DAYS} by default) is decided with the channels as they are and as they would be, and`,
		"counted under both answers.",
		"`pinned`: an override sets its bundle.",
		"An answer without an update has its `error` and `kind`: `up_to_date`, `blocked` by a rule of",
		"the channel, or `failed`.",
		"Nothing is written.",
		"",
		"`channel_devices` are the devices that the channel decides after the change, and `store_builds`",
		"counts them by the version of their store build: how many are offered which bundle, are up to date,",
		"or are refused and why.",
		"`from_versions` counts the devices that the change",
		"gives another version by the version that they run.",
		"`first_seen_today` of them are new today (UTC): a rollout that starts today does not count them",
		"unless `rolloutCountNewDevices` is on.",
		"",
		"One request reads 5,000 devices in the order of their ids, which are random, so the counts of a",
		"large fleet are a fair sample (`sampled`).",
		"Send `next` as `after` to read the following devices; the counts of all answers add up to the fleet.",
		"A new rollout draws its devices when it starts, so its counts are those of one draw",
		"(`cohort_is_drawn_anew`).",
		"`compatibility` compares the native packages of the bundle that the change brings with those of the",
		"live bundle, as GET /bundle/compatibility does.",
	],
	body: v.object({
		...channelBody.entries,
		days: v.optional(
			v.pipe(
				v.number(),
				v.integer("must be a whole number of days"),
				v.minValue(1, "must be at least 1"),
				v.maxValue(365, "must be at most 365"),
			),
			EFFECT_DAYS,
		),
		after: optional(uuid),
	}),
	safe: true,
	load: ({ body }, nowMs) => channelChangeReads(body, nowMs),
	access: {
		permissions: ["app.read_devices", "channel.read"],
		// The app, because the answer covers all of its channels.
		scope: appScope("body.app_id"),
		choose: () => ["app.read_devices", "channel.read"],
	},
	response: v.strictObject({
		devices: v.number(),
		changed: v.number(),
		unjudged: v.number(),
		channel_devices: v.number(),
		first_seen_today: v.number(),
		sampled: v.boolean(),
		next: v.nullable(v.string()),
		cohort_is_drawn_anew: v.boolean(),
		store_builds: storeBuildsSchema,
		from_versions: fromVersionsSchema,
		compatibility: v.nullable(v.strictObject(compatibilityFields)),
		outcomes: outcomesSchema,
	}),
	errors: [
		"bundle_incompatible",
		"bundle_not_found",
		"bundle_not_ready",
		"bundle_not_signed",
		"channel_delta_required",
		"channel_has_no_platform",
		"channel_zip_required",
		"missing_rollout_version",
		"rollout_running",
		"setting_not_supported",
	],
	example: {
		body: { app_id: "com.example.app", channel: "production", version: "1.4.0", days: 30 },
		response: {
			devices: 1200,
			changed: 1100,
			unjudged: 3,
			channel_devices: 1150,
			first_seen_today: 12,
			sampled: false,
			next: null,
			cohort_is_drawn_anew: false,
			store_builds: [
				{
					version_build: "1.0.0",
					devices: 1150,
					offered: { "1.4.0": 1100 },
					up_to_date: 48,
					refused: { disable_auto_update_under_native: 2 },
				},
			],
			from_versions: [{ version_name: "1.3.0", devices: 1100 }],
			compatibility: {
				version: "1.4.0",
				live_version: "1.3.0",
				verdict: "compatible",
				not_compared: null,
				packages: [{ name: "@capacitor/camera", version: "7.0.2", live_version: "7.0.2", problem: null }],
			},
			outcomes: [
				{
					before: {
						outcome: "none",
						version: null,
						error: "no_new_version_available",
						kind: "up_to_date",
						channel: "production",
						package: null,
						pinned: false,
					},
					after: {
						outcome: "update",
						version: "1.4.0",
						error: null,
						kind: null,
						channel: "production",
						package: "zip",
						pinned: false,
					},
					changed: true,
					devices: 1100,
					examples: ["b5a3f9d2-6a60-4f2e-9a57-9f1f1f5a2d61"],
				},
			],
		},
	},
	async handle({ db, deps, scope, scopeRow, input, loaded, nowMs }) {
		const { body } = input;
		const difference = differenceOf(requestOf({ input, loaded }));
		if (difference instanceof ApiError) throw difference;
		const { channel: row, promoted, taken } = difference;
		const values = drawn(difference.values, deps.newId, nowMs);
		const packaged = [...promoted, ...loaded.packages];
		if (row !== undefined) refuseIncompatible(values, row, packaged);
		const compatibility = row === undefined ? undefined : compatibilityOfChange(values, row, packaged);
		const app = { appId: scope.appId, publicAppId: body.app_id, telemetry_binding: scopeRow.telemetry_binding };
		const check = (after: AppSnapshot) => {
			if (Object.keys(values).length > 0) refuseMissingForm(after, body.channel);
		};
		return {
			...(await readEffect({ deps, db }, app, body, { values, taken, row }, nowMs, check)),
			cohort_is_drawn_anew: typeof values.rollout_id === "string",
			compatibility: compatibility === undefined ? null : compatibilityAnswer(compatibility),
		};
	},
});

/** The check of `formGuards`, for a change that is not written. */
function refuseMissingForm({ channelsByName }: AppSnapshot, name: string): void {
	const channel = channelsByName.get(name);
	const form = requiredForm(channel?.updatePackage ?? "all");
	for (const bundle of [channel?.bundle, channel?.rollout?.bundle]) {
		if (form === undefined || bundle == null) continue;
		if (!(form === "zip" ? bundle.hasZip : bundle.hasManifest)) throw formRequired(form);
	}
}
