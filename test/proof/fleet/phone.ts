/**
 * A device and the state of its plugin. It follows the published clients: when they check, what
 * they report, in which order and under which version, and what they send again.
 */
import { DAY_MS } from "../../../src/domain/time";
import type { AppWorld, Platform } from "./app-world";
import { below, draw, happens, oneOf, type Stream, uuidOf } from "./random";
import type { KnownDevice, ReportedEvent } from "./truth";

export const BUILTIN = "builtin";

export interface Phone extends Stream {
	readonly app: AppWorld;
	/** Number of the device in the truth. */
	readonly number: number;
	/** Each device has an address in a different network. */
	readonly address: string;
	readonly deviceId: string;
	readonly platform: Platform;
	readonly known: KnownDevice;
	/**
	 * Randomness of the person; the times at which the app is opened do not depend on the product's
	 * answers.
	 */
	readonly life: Stream;
	/** Probability that the person opens the app on a day. */
	readonly habit: number;
	/** Last day before an absence, and the day of the return. */
	readonly awayFrom: number;
	readonly awayUntil: number;
	/** Error of the clock. */
	readonly clockAheadMs: number;
	readonly installSource: string;
	/** The store build reports its version instead of `builtin`. */
	readonly namesStoreBuild: boolean;
	build: string;
	plugin: string;
	os: string;
	customId: string;
	defaultChannel: string;
	current: string;
	/** The bundle that it falls back to when the current one does not start. */
	fallback: string;
	/** Downloaded, and set when the app goes to the background. */
	next: string | undefined;
	/** The bundle that was set does not start. */
	broken: boolean;
	/** Reports of the next start: the app crashed, hung or met errors since the bundle was set. */
	troubles: readonly string[];
	/** Bundles that failed; the plugin does not try them again. */
	failed: string[];
	/** Reports that were not sent yet. */
	pending: ReportedEvent[];
	lastTimestamp: number;
	/** End of the last session. */
	busyUntilMs: number;
	/** Time of the reported start of a download, by version. */
	readonly started: Map<string, number>;
}

const PLUGINS: Readonly<Record<Platform, readonly string[]>> = {
	ios: ["8.51.23", "8.51.23", "7.51.21", "6.51.16"],
	android: ["8.51.23", "8.51.23", "7.51.21", "6.51.16"],
	electron: ["0.0.1"],
};
const SYSTEMS: Readonly<Record<Platform, readonly string[]>> = {
	ios: ["26.0", "26.1", "18.7"],
	android: ["16", "15", "14"],
	electron: ["10.0.26100", "25.1.0"],
};
const STORES: Readonly<Record<Platform, readonly string[]>> = {
	ios: ["app_store", "testflight"],
	android: ["google_play", ""],
	electron: [""],
};
/** First byte of the address. */
const FIRST_NETWORK = 11;
/** Some clocks are slightly wrong, a few by years. */
const CLOCKS_MS = [0, 0, 0, 0, 0, 0, 2_000, -90_000, 3 * DAY_MS, -400 * DAY_MS, -58 * 365 * DAY_MS];

/** A fresh install on this day. */
export function newPhone(chance: Stream, app: AppWorld, platform: Platform, day: number, days: number): Phone {
	const own: Stream = { chance: Math.floor(draw(chance) * 4_294_967_296) };
	const deviceId = uuidOf(own);
	const awayFrom = happens(own, 0.3) ? day + below(own, days) : Number.POSITIVE_INFINITY;
	const returns = happens(own, 0.5);
	const phone = {
		app,
		deviceId,
		platform,
		habit: oneOf(own, [0.9, 0.6, 0.3, 0.15, 0.05]),
		awayFrom,
		awayUntil: returns ? awayFrom + 1 + below(own, days) : Number.POSITIVE_INFINITY,
		clockAheadMs: oneOf(own, CLOCKS_MS),
		installSource: oneOf(own, STORES[platform]),
		namesStoreBuild: platform === "electron" || happens(own, 0.2),
		build: "1.0.0",
		plugin: oneOf(own, PLUGINS[platform]),
		os: oneOf(own, SYSTEMS[platform]),
		customId: happens(own, 0.2) ? `person-${below(own, 1_000_000)}` : "",
		defaultChannel: "",
		current: BUILTIN,
		fallback: BUILTIN,
		next: undefined,
		broken: false,
		troubles: [],
		failed: [],
		pending: [],
		lastTimestamp: 0,
		busyUntilMs: 0,
		started: new Map<string, number>(),
	};
	const known: KnownDevice = {
		deviceId,
		platform,
		versionName: "",
		versionBuild: phone.build,
		osVersion: phone.os,
		pluginVersion: phone.plugin,
		isProd: !happens(own, 0.03),
		isEmulator: happens(own, 0.02),
		customId: phone.customId,
		channelId: null,
		lastSeenDay: -1,
	};
	const life = { chance: Math.floor(draw(own) * 4_294_967_296) };
	const number = app.truth.enter(known);
	const address = `${FIRST_NETWORK + (number >> 16)}.${(number >> 8) & 255}.${number & 255}.7`;
	return { ...phone, life, chance: own.chance, known, number, address };
}

/** The same phone after its app was removed and installed again. */
export function reinstalled(phone: Phone, day: number, days: number): Phone {
	const fresh = newPhone(phone.life, phone.app, phone.platform, day, days);
	return {
		...fresh,
		busyUntilMs: phone.busyUntilMs,
		habit: phone.habit,
		awayFrom: phone.awayFrom,
		awayUntil: phone.awayUntil,
	};
}

/** A new version from the store, which deletes the bundles of the old one. */
export function updateFromStore(phone: Phone, build: string): void {
	phone.build = build;
	phone.plugin = phone.platform === "electron" ? phone.plugin : "8.51.23";
	phone.current = BUILTIN;
	phone.fallback = BUILTIN;
	phone.next = undefined;
	phone.broken = false;
	phone.troubles = [];
	phone.failed = [];
}

/** Name of the running bundle in requests. */
export function nameOf(phone: Phone, version: string): string {
	return version === BUILTIN && phone.platform === "electron" ? phone.build : version;
}

/** Fields of the device in every request. */
export function infoOf(phone: Phone): Record<string, unknown> {
	const info = {
		platform: phone.platform,
		device_id: phone.deviceId,
		app_id: phone.app.appId,
		version_build: phone.build,
		version_code: "1",
		version_os: phone.os,
		plugin_version: phone.plugin,
		is_emulator: phone.known.isEmulator,
		is_prod: phone.known.isProd,
		defaultChannel: phone.defaultChannel,
	};
	switch (phone.platform) {
		case "ios":
			return {
				...info,
				install_source: phone.installSource,
				...(phone.customId === "" ? {} : { custom_id: phone.customId }),
			};
		case "android":
			return { ...info, install_source: phone.installSource, custom_id: phone.customId };
		case "electron":
			return { ...info, custom_id: phone.customId === "" ? null : phone.customId };
	}
}
