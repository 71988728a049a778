/**
 * Reads the body of an update check without a schema: a device that checks first in an isolate
 * waits for neither the validation library nor the schemas. It takes plain bodies only and leaves
 * every other one to the endpoint, whose schema (device-request.ts) is the reference. A test holds
 * both equal.
 */
import { PLATFORMS, type Platform } from "../../domain/updates/model";
import { readVersion } from "../../domain/updates/version";

/** A device sends about 400 bytes. */
export const CHECK_LIMIT_BYTES = 16 * 1024;
/** Longer bodies may exceed the endpoint's limits on depth and number of values. */
const LONGEST_PLAIN_BODY = 4_000;

export const LONGEST_VERSION = 128;
export const LONGEST_TEXT = 512;
export const LONGEST_KEY_ID = 20;
export const LONGEST_INSTALL_SOURCE = 64;
/** Checks and reports cut longer texts, so that the row of a device stays below a kilobyte. */
export const LONGEST_CUSTOM_ID = 128;
export const LONGEST_OS_VERSION = 64;
export const LONGEST_VERSION_CODE = 64;

/** The body of an update check. */
export interface DeviceBody {
	readonly app_id: string;
	/** In lower case. */
	readonly device_id: string;
	/** Empty is the store build, for which some clients have no name. */
	readonly version_name: string;
	readonly version_build: string;
	readonly platform: Platform;
	readonly plugin_version: string;
	readonly is_emulator?: boolean | undefined;
	readonly is_prod?: boolean | undefined;
	readonly defaultChannel?: string | undefined;
	readonly key_id?: string | undefined;
	readonly custom_id?: string | undefined;
	readonly install_source?: string | undefined;
	readonly version_os?: string | undefined;
	readonly version_code?: string | undefined;
}

const APP_ID = /^[a-zA-Z0-9]+(\.[\w-]+)+$/;
const UUID = /^[0-9a-fA-F]{8}-([0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}$/;
const LONGEST_APP_ID = 128;

/** The object that a plain body contains; undefined if the endpoint must read it. */
export function readPlainObject(text: string): Readonly<Record<string, unknown>> | undefined {
	// U+FFFD may stand for bytes that were no UTF-8.
	if (text.length > LONGEST_PLAIN_BODY || text.includes("\uFFFD")) return undefined;
	// Nesting is for the endpoint, which limits its depth. A brace within a text looks like nesting.
	if (text.includes("[") || text.indexOf("{", 1) !== -1) return undefined;
	try {
		const sent: unknown = JSON.parse(text);
		return typeof sent === "object" && sent !== null ? (sent as Readonly<Record<string, unknown>>) : undefined;
	} catch {
		return undefined;
	}
}

export function isAppId(value: unknown): value is string {
	return typeof value === "string" && value.length <= LONGEST_APP_ID && APP_ID.test(value);
}

export function isUuid(value: unknown): value is string {
	return typeof value === "string" && UUID.test(value);
}

function isTextUpTo(longest: number, value: unknown): value is string {
	return typeof value === "string" && value.length <= longest;
}

/** The body of a plain check; undefined if the endpoint must read or refuse it. */
export function readDeviceBody(text: string): DeviceBody | undefined {
	const sent = readPlainObject(text);
	if (sent === undefined) return undefined;
	const { app_id, device_id, version_name, version_build, platform, plugin_version } = sent;
	if (!isAppId(app_id) || !isUuid(device_id) || !isTextUpTo(LONGEST_VERSION, version_name)) return undefined;
	if (!isTextUpTo(LONGEST_VERSION, version_build) || version_build === "") return undefined;
	if (!isTextUpTo(LONGEST_VERSION, plugin_version) || readVersion(plugin_version) === null) return undefined;
	const known = PLATFORMS.find((name) => name === platform);
	if (known === undefined) return undefined;

	const is_emulator = sent.is_emulator ?? undefined;
	const is_prod = sent.is_prod ?? undefined;
	if (!isOptionalBoolean(is_emulator) || !isOptionalBoolean(is_prod)) return undefined;
	const defaultChannel = sent.defaultChannel ?? undefined;
	const key_id = sent.key_id ?? undefined;
	const install_source = sent.install_source ?? undefined;
	if (defaultChannel !== undefined && !isTextUpTo(LONGEST_TEXT, defaultChannel)) return undefined;
	if (key_id !== undefined && !isTextUpTo(LONGEST_KEY_ID, key_id)) return undefined;
	if (install_source !== undefined && !isTextUpTo(LONGEST_INSTALL_SOURCE, install_source)) return undefined;
	const custom_id = sent.custom_id ?? undefined;
	const version_os = sent.version_os ?? undefined;
	const version_code = sent.version_code ?? undefined;
	if (!isOptionalText(custom_id) || !isOptionalText(version_os) || !isOptionalText(version_code)) return undefined;
	return {
		app_id,
		device_id: device_id.toLowerCase(),
		version_name,
		version_build,
		platform: known,
		plugin_version,
		is_emulator,
		is_prod,
		defaultChannel,
		key_id,
		custom_id: custom_id?.slice(0, LONGEST_CUSTOM_ID),
		install_source,
		version_os: version_os?.slice(0, LONGEST_OS_VERSION),
		version_code: version_code?.slice(0, LONGEST_VERSION_CODE),
	};
}

export function isOptionalBoolean(value: unknown): value is boolean | undefined {
	return value === undefined || typeof value === "boolean";
}

export function isOptionalText(value: unknown): value is string | undefined {
	return value === undefined || typeof value === "string";
}
