/**
 * A report of a device, and its plain body read without a schema, as updates/device-body.ts reads
 * checks: every other body is left to the endpoint, whose schema (ingest.ts) is the reference. A
 * test holds both equal.
 */
import {
	isAppId,
	isOptionalBoolean,
	isOptionalText,
	isUuid,
	LONGEST_CUSTOM_ID,
	LONGEST_OS_VERSION,
	readPlainObject,
} from "../updates/device-body";

/**
 * Longest texts of a report. Longer ones are cut and not refused, so that a long text does not lose
 * the event.
 */
export const LONGEST_REPORT_TEXTS = {
	platform: 64,
	version_name: 512,
	old_version_name: 512,
	version_os: LONGEST_OS_VERSION,
	version_build: 128,
	version_code: 128,
	plugin_version: 128,
	action: 128,
	install_source: 64,
	custom_id: LONGEST_CUSTOM_ID,
	key_id: 64,
	channel: 128,
	defaultChannel: 512,
} as const;

type ReportText = keyof typeof LONGEST_REPORT_TEXTS;
const TEXTS = Object.entries(LONGEST_REPORT_TEXTS) as [ReportText, number][];

export type StatsEvent = { readonly [Name in ReportText]?: string | undefined } & {
	readonly app_id: string;
	/** In lower case. */
	readonly device_id: string;
	readonly is_emulator?: boolean | undefined;
	readonly is_prod?: boolean | undefined;
	readonly timestamp?: number | string | undefined;
	/** Sent with health signals; see readMetadata. */
	readonly metadata?: unknown;
};

const LONGEST_MESSAGE = 160;

/**
 * Metadata of a health signal: the length of a launch, and the time at which the app ended. In
 * milliseconds; null if absent or no such number.
 */
export interface Metadata {
	readonly durationMs: number | null;
	readonly exitAtMs: number | null;
	/** Text of an error, or the description of an exit. */
	readonly message: string | undefined;
}

/** The plugin sends texts. An unexpected value does not discard the report. */
export function readMetadata(sent: unknown): Metadata | undefined {
	if (typeof sent !== "object" || sent === null) return undefined;
	const { duration_ms, exit_timestamp, message, exit_description } = sent as Readonly<Record<string, unknown>>;
	const durationMs = wholeNumber(duration_ms);
	const exitAtMs = wholeNumber(exit_timestamp);
	const text = [message, exit_description].find((value) => typeof value === "string" && value !== "");
	return { durationMs, exitAtMs, message: typeof text === "string" ? text.slice(0, LONGEST_MESSAGE) : undefined };
}

function wholeNumber(value: unknown): number | null {
	const number = typeof value === "string" && value.trim() !== "" ? Number(value) : value;
	return typeof number === "number" && Number.isFinite(number) && number >= 0 ? Math.round(number) : null;
}

/** The report in a plain body; undefined if the endpoint must read or refuse it. */
export function readReport(text: string): StatsEvent | undefined {
	const sent = readPlainObject(text);
	if (sent === undefined) return undefined;
	const { app_id, device_id } = sent;
	if (!isAppId(app_id) || !isUuid(device_id)) return undefined;
	const is_emulator = sent.is_emulator ?? undefined;
	const is_prod = sent.is_prod ?? undefined;
	if (!isOptionalBoolean(is_emulator) || !isOptionalBoolean(is_prod)) return undefined;
	const timestamp = sent.timestamp ?? undefined;
	if (typeof timestamp !== "number" && !isOptionalText(timestamp)) return undefined;
	const texts: { [Name in ReportText]?: string | undefined } = {};
	for (const [name, longest] of TEXTS) {
		const value = sent[name] ?? undefined;
		if (!isOptionalText(value)) return undefined;
		texts[name] = value !== undefined && value.length > longest ? value.slice(0, longest) : value;
	}
	return {
		...texts,
		app_id,
		device_id: device_id.toLowerCase(),
		is_emulator,
		is_prod,
		timestamp,
		metadata: sent.metadata ?? undefined,
	};
}
