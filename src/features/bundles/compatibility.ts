/**
 * GET /bundle/compatibility: whether a bundle fits the store builds of a channel, by the native
 * packages of its live bundle, and the store builds on which bundles with the same packages run.
 */
import * as v from "valibot";
import { bundleByName } from "../../db/bundles";
import { channelByName } from "../../db/channels";
import { bundlesWithSamePackages, packagesOfChannel, storeBuildsRunning } from "../../db/native-packages";
import { tryTelemetry } from "../../db/telemetry-reads";
import { compareVersions, readNativeVersion } from "../../domain/updates/version";
import { endpoint } from "../../http/endpoint";
import { bundleVersion, channelName, publicAppId } from "../../http/schemas";
import { appScope, bundleNotFound, channelNotFound } from "../../http/scope";
import { compatibilityAnswer, compatibilityFields, compatibilityWith } from "../channels/compatibility";

export const showCompatibility = endpoint({
	method: "GET",
	path: "/bundle/compatibility",
	tag: "Bundles",
	summary: "Show whether a bundle fits the store builds of a channel",
	description: [
		"The plugins with native code are part of the store build, and an update cannot change them.",
		"The bundle is compared with the live bundle of the channel, which its devices run: `incompatible` if",
		"it calls a package that the live bundle does not have (`added`), has in another version (`version`)",
		"or with other native code (`native_code`: the checksums of both bundles for a platform differ).",
		"A package that the bundle does not use any more is no problem.",
		"",
		"`unknown`, with the reason in `not_compared`: the store build is live (`store_build_live`), or a",
		"bundle lists no packages (`live_bundle_lists_none`, `bundle_lists_none`).",
		"`newer_store_builds_only`: the channel updates by `min_update_version`, and the bundle raises it, so",
		"devices with the store build of the live bundle are not offered it.",
		"",
		"`required` is the channel's `requireCompatibleBundle`: incompatible bundles, and those that list no",
		"packages although the live bundle does, are refused.",
		"`store_builds` are those on which a sample of the devices runs a bundle with exactly these packages.",
	],
	access: { permission: "app.read_bundles", scope: appScope("query.app_id") },
	query: v.object({ app_id: publicAppId, version: bundleVersion, channel: channelName }),
	response: v.strictObject({
		channel: v.string(),
		required: v.boolean(),
		...compatibilityFields,
		store_builds: v.array(v.string()),
	}),
	errors: ["bundle_not_found", "channel_not_found"],
	example: {
		query: { app_id: "com.example.app", version: "1.4.0", channel: "production" },
		response: {
			channel: "production",
			required: true,
			version: "1.4.0",
			live_version: "1.3.0",
			verdict: "incompatible" as const,
			not_compared: null,
			packages: [
				{ name: "@capacitor/camera", version: "7.1.0", live_version: "7.0.2", problem: "version" as const },
				{ name: "@capacitor/app", version: "7.0.0", live_version: "7.0.0", problem: null },
			],
			store_builds: ["2.1.0"],
		},
	},
	load: ({ query: { app_id, version, channel } }) => ({
		bundle: bundleByName(app_id, version),
		channel: channelByName(app_id, channel),
		packages: packagesOfChannel(app_id, { name: channel }),
		samePackages: bundlesWithSamePackages(app_id, version),
	}),
	async handle({ deps, loaded, scope, scopeRow }) {
		const [bundle] = loaded.bundle;
		const [channel] = loaded.channel;
		if (bundle === undefined) throw bundleNotFound();
		if (channel === undefined) throw channelNotFound();
		const live = loaded.packages.find(({ id }) => id === channel.version_id);
		const same = loaded.samePackages.map(({ name }) => name);
		const running = storeBuildsRunning(scope.appId, same);
		const builds = same.length === 0 ? [] : ((await tryTelemetry(deps, scopeRow.telemetry_binding, running)) ?? []);
		return {
			channel: channel.name,
			required: channel.require_compatible_bundle === 1,
			...compatibilityAnswer(compatibilityWith(channel, bundle, live)),
			store_builds: builds.map(({ version_build }) => version_build).sort(newestFirst),
		};
	},
});

/** Devices report any text. */
function newestFirst(one: string, other: string): number {
	const [left, right] = [readNativeVersion(one), readNativeVersion(other)];
	return left === null || right === null ? (one < other ? 1 : -1) : compareVersions(right, left);
}
