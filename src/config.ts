/**
 * Settings of a deployment, from the Worker's variables, parsed once per isolate. An invalid value
 * is an error that names the variable. No other file reads `env` for a setting.
 */

import { RETENTION_DAYS } from "./domain/defaults";
import { DEFAULT_QUOTAS, QUOTA_NAMES, type QuotaLimits, type QuotaName } from "./domain/quotas";
import { parseSecret, SECRET_NAMES, type Secrets } from "./domain/secrets";

/** This release; package.json has the same. */
export const VERSION = "1.0.0";

export interface Config {
	/** Public origin of the service; undefined: the origin of each request. */
	readonly publicUrl: string | undefined;
	/**
	 * Public origin of an R2 custom domain, to which download links point; undefined: downloads go
	 * through the Worker.
	 */
	readonly bundlesUrl: string | undefined;
	readonly corsAllowedOrigins: readonly string[];
	readonly maxBundleBytes: number;
	/** Largest total unpacked size of a zip's entries. */
	readonly maxUncompressedBundleBytes: number;
	/** For signing links and codes, and sealing keys created with `hashed: false`. */
	readonly secrets: Secrets;
	/**
	 * Client address of all requests, for runs without Cloudflare; undefined: the address that
	 * Cloudflare reports.
	 */
	readonly clientAddress: string | undefined;
	/**
	 * Autonomous systems in which Google and Apple run apps for review; an app may refuse devices
	 * there.
	 */
	readonly reviewNetworks: ReadonlySet<number>;
	/** How `npm start` serves; undefined in a deployment. */
	readonly localRun: LocalRun | undefined;
	/** Days of deduplication of events by id; older events are not counted. */
	readonly eventMemoryDays: number;
	/** Retention of events of devices, days; 0: they are not kept. */
	readonly eventDays: number;
	/** Retention of statistics, days. */
	readonly statisticsDays: number;
	/** Retention of the audit log, days. */
	readonly auditDays: number;
	/** Days after which an inactive device is deleted, unless an operator configured it. */
	readonly deviceDays: number;
	/** Quotas of organizations, apps, keys and accounts. */
	readonly quotas: QuotaLimits;
	/** Factor for the limits on requests without a key; 0 disables them. */
	readonly addressLimitScale: number;
	/** New devices per app and day. */
	readonly newDevicesPerDay: number;
	/** Database size from which no telemetry is stored. */
	readonly telemetryMaxBytes: number;
	/** Mail provider for codes; undefined: no mail is sent. */
	readonly mail: MailConfig | undefined;
	/** Other ways to sign in, by the name in paths. */
	readonly providers: readonly ProviderConfig[];
	/**
	 * Validates answers against their declared schema and adds counters. For development and tests.
	 */
	readonly diagnostics: boolean;
}

interface LocalRun {
	/** Whether devices in the local network can reach it. */
	readonly servesNetwork: boolean;
	/** Addresses of this machine, likeliest first. */
	readonly networkAddresses: readonly string[];
}

export type MailConfig =
	/** Prints to the terminal of the service; set by `npm start` only. */
	| { readonly provider: "terminal" }
	| { readonly provider: MailProvider; readonly from: string; readonly apiKey: string };

const MAIL_PROVIDERS = ["resend", "postmark"] as const;
type MailProvider = (typeof MAIL_PROVIDERS)[number];

export interface ProviderConfig {
	readonly id: "github" | "oidc";
	/** Key of its accounts: a subject is unique only within its issuer, and OIDC_ISSUER may change. */
	readonly identity: string;
	/** Display name. */
	readonly name: string;
	readonly clientId: string;
	readonly clientSecret: string;
	/** Issuer of an OpenID provider, where its configuration is published. */
	readonly issuer: string;
}

export interface ConfigVariables {
	readonly MAIL_PROVIDER?: string;
	readonly MAIL_FROM?: string;
	readonly MAIL_API_KEY?: string;
	readonly GITHUB_CLIENT_ID?: string;
	readonly GITHUB_CLIENT_SECRET?: string;
	readonly OIDC_ISSUER?: string;
	readonly OIDC_NAME?: string;
	readonly OIDC_CLIENT_ID?: string;
	readonly OIDC_CLIENT_SECRET?: string;
	readonly CAPSTAN_MAIL_TO_TERMINAL?: string;
	readonly PUBLIC_URL?: string;
	readonly BUNDLES_URL?: string;
	readonly CORS_ALLOWED_ORIGINS?: string;
	readonly MAX_BUNDLE_BYTES?: string;
	readonly MAX_UNCOMPRESSED_BUNDLE_BYTES?: string;
	readonly REVIEW_NETWORKS?: string;
	readonly EVENT_MEMORY_DAYS?: string;
	readonly EVENT_DAYS?: string;
	readonly STATISTICS_DAYS?: string;
	readonly AUDIT_DAYS?: string;
	readonly DEVICE_DAYS?: string;
	readonly QUOTAS?: string;
	readonly ADDRESS_LIMIT_SCALE?: string;
	readonly NEW_DEVICES_PER_DAY?: string;
	readonly TELEMETRY_MAX_BYTES?: string;
	readonly CAPSTAN_SECRET?: string;
	readonly CAPSTAN_SECRET_2?: string;
	readonly CAPSTAN_CLIENT_ADDRESS?: string;
	readonly CAPSTAN_LOCAL_RUN?: string;
	readonly CAPSTAN_NETWORK_ADDRESSES?: string;
	readonly CAPSTAN_DIAGNOSTICS?: string;
}

/** A bundle is one R2 upload, which is limited to 5 GiB. */
const LARGEST_BUNDLE_BYTES = 5 * 1024 ** 3;
const DEFAULT_MAX_BUNDLE_BYTES = 1024 ** 3;
const LARGEST_UNCOMPRESSED_BYTES = 100 * 1024 ** 3;
/** Google (its own network, and Google Cloud, where pre-launch reports run) and Apple. */
const DEFAULT_REVIEW_NETWORKS = "15169,396982,714,6185";

export class ConfigError extends Error {
	override readonly name = "ConfigError";
}

/** @throws {ConfigError} for the first invalid variable */
export function parseConfig(variables: ConfigVariables): Config {
	const maxBundleBytes = parseMaxBundleBytes(variables.MAX_BUNDLE_BYTES ?? "");
	const publicUrl = parsePublicUrl(variables.PUBLIC_URL ?? "");
	return {
		publicUrl,
		bundlesUrl: parseBundlesUrl(variables.BUNDLES_URL ?? "", publicUrl),
		corsAllowedOrigins: listOf(variables.CORS_ALLOWED_ORIGINS),
		maxBundleBytes,
		maxUncompressedBundleBytes: parseMaxUncompressedBytes(
			variables.MAX_UNCOMPRESSED_BUNDLE_BYTES ?? "",
			2 * maxBundleBytes,
		),
		reviewNetworks: parseReviewNetworks(variables.REVIEW_NETWORKS ?? ""),
		eventMemoryDays: parseDays("EVENT_MEMORY_DAYS", variables.EVENT_MEMORY_DAYS ?? ""),
		eventDays: parseDays("EVENT_DAYS", variables.EVENT_DAYS ?? ""),
		statisticsDays: parseDays("STATISTICS_DAYS", variables.STATISTICS_DAYS ?? ""),
		auditDays: parseDays("AUDIT_DAYS", variables.AUDIT_DAYS ?? ""),
		// At least as long as events are deduplicated, because an old event would create the device row
		// again.
		deviceDays: parseDays("DEVICE_DAYS", variables.DEVICE_DAYS ?? ""),
		quotas: parseQuotas(variables.QUOTAS ?? ""),
		addressLimitScale: parseScale(variables.ADDRESS_LIMIT_SCALE ?? ""),
		newDevicesPerDay: parseWhole("NEW_DEVICES_PER_DAY", variables.NEW_DEVICES_PER_DAY ?? "", 100_000),
		telemetryMaxBytes: parseWhole("TELEMETRY_MAX_BYTES", variables.TELEMETRY_MAX_BYTES ?? "", 9_000_000_000),
		secrets: parseSecrets(variables),
		localRun: parseLocalRun(variables),
		clientAddress: variables.CAPSTAN_CLIENT_ADDRESS || undefined,
		mail: parseMail(variables),
		providers: [...parseGitHub(variables), ...parseOpenId(variables)],
		diagnostics: variables.CAPSTAN_DIAGNOSTICS === "true",
	};
}

function listOf(text = ""): string[] {
	return text
		.split(",")
		.map((item) => item.trim())
		.filter((item) => item !== "");
}

function parseLocalRun(variables: ConfigVariables): LocalRun | undefined {
	const { CAPSTAN_LOCAL_RUN: run = "" } = variables;
	if (run === "") return undefined;
	return { servesNetwork: run === "network", networkAddresses: listOf(variables.CAPSTAN_NETWORK_ADDRESSES) };
}

function parsePublicUrl(text: string): string | undefined {
	if (text === "") return undefined;
	const url = URL.canParse(text) ? new URL(text) : undefined;
	if (url === undefined || !/^https?:$/.test(url.protocol)) {
		throw new ConfigError('PUBLIC_URL must be an http or https address such as "https://updates.example.com".');
	}
	return url.origin;
}

function parseBundlesUrl(text: string, publicUrl: string | undefined): string | undefined {
	if (text === "") return undefined;
	const url = URL.canParse(text) ? new URL(text) : undefined;
	// R2 serves an object at its key, so a path in front of it would lead to nothing.
	if (url?.protocol !== "https:" || `${url.origin}/` !== url.href) {
		throw new ConfigError(
			'BUNDLES_URL must be the https address of a custom domain of the bucket, without a path, such as "https://bundles.example.com".',
		);
	}
	if (url.origin === publicUrl) {
		throw new ConfigError("BUNDLES_URL must be another address than PUBLIC_URL, because the bucket answers there.");
	}
	return url.origin;
}

function parseMaxBundleBytes(text: string): number {
	if (text === "") return DEFAULT_MAX_BUNDLE_BYTES;
	const bytes = Number(text);
	if (!Number.isInteger(bytes) || bytes < 1 || bytes > LARGEST_BUNDLE_BYTES) {
		throw new ConfigError(`MAX_BUNDLE_BYTES must be a whole number of bytes from 1 to ${LARGEST_BUNDLE_BYTES}.`);
	}
	return bytes;
}

function parseMaxUncompressedBytes(text: string, usual: number): number {
	if (text === "") return usual;
	const bytes = Number(text);
	if (!Number.isInteger(bytes) || bytes < 1 || bytes > LARGEST_UNCOMPRESSED_BYTES) {
		throw new ConfigError(
			`MAX_UNCOMPRESSED_BUNDLE_BYTES must be empty or a whole number of bytes from 1 to ${LARGEST_UNCOMPRESSED_BYTES}.`,
		);
	}
	return bytes;
}

function parseReviewNetworks(text: string): ReadonlySet<number> {
	const numbers = (text === "" ? DEFAULT_REVIEW_NETWORKS : text).split(",").map((part) => part.trim());
	if (!numbers.every((number) => /^[1-9]\d{0,9}$/.test(number))) {
		throw new ConfigError(
			`REVIEW_NETWORKS must be comma-separated numbers of autonomous systems, such as "${DEFAULT_REVIEW_NETWORKS}".`,
		);
	}
	return new Set(numbers.map(Number));
}

function parseDays(name: keyof typeof RETENTION_DAYS, text: string): number {
	const { least, most, default: defaultDays } = RETENTION_DAYS[name];
	if (text === "") return defaultDays;
	const days = Number(text);
	if (!Number.isInteger(days) || days < least || days > most) {
		throw new ConfigError(`${name} must be a whole number of days from ${least} to ${most}.`);
	}
	return days;
}

function parseQuotas(text: string): QuotaLimits {
	const given = listOf(text).map((part): [QuotaName, number] => {
		const [name = "", limit = ""] = part.split("=").map((side) => side.trim());
		const known = QUOTA_NAMES.find((quota) => quota === name);
		if (known === undefined || !/^\d{1,15}$/.test(limit)) {
			throw new ConfigError(
				`QUOTAS must be empty or comma-separated limits, such as "channels_per_app=10000"; the names are ${QUOTA_NAMES.join(", ")}.`,
			);
		}
		return [known, Number(limit)];
	});
	return { ...DEFAULT_QUOTAS, ...Object.fromEntries(given) };
}

const LARGEST_SCALE = 1_000;

function parseScale(text: string): number {
	const scale = text === "" ? 1 : Number(text);
	if (text.trim() !== text || !(scale >= 0 && scale <= LARGEST_SCALE)) {
		throw new ConfigError(`ADDRESS_LIMIT_SCALE must be a number from 0 (no limits) to ${LARGEST_SCALE}.`);
	}
	return scale;
}

function parseWhole(name: string, text: string, usual: number): number {
	if (text === "") return usual;
	const number = Number(text);
	if (!Number.isSafeInteger(number) || number < 0) throw new ConfigError(`${name} must be a whole number.`);
	return number;
}

function parseSecrets(variables: ConfigVariables): Secrets {
	const given = SECRET_NAMES.filter((name) => (variables[name] ?? "") !== "");
	const [first, ...more] = (given.length === 0 ? [SECRET_NAMES[0]] : given).map((name) => {
		const secret = parseSecret(variables[name] ?? "");
		if (secret !== undefined) return secret;
		throw new ConfigError(
			`${name} must be 64 lower-case hexadecimal digits; create one with \`openssl rand -hex 32\`.`,
		);
	});
	if (first === undefined) throw new Error("no secret was read");
	return [first, ...more];
}

function parseMail(variables: ConfigVariables): MailConfig | undefined {
	const { MAIL_PROVIDER: name = "", MAIL_FROM: from = "", MAIL_API_KEY: apiKey = "" } = variables;
	if (name === "") return variables.CAPSTAN_MAIL_TO_TERMINAL === "true" ? { provider: "terminal" } : undefined;
	const provider = MAIL_PROVIDERS.find((one) => one === name);
	if (provider === undefined)
		throw new ConfigError(`MAIL_PROVIDER must be empty or one of ${MAIL_PROVIDERS.join(", ")}.`);
	if (!/^[^<>]*<?[^\s<>@]+@[^\s<>@]+>?$/.test(from)) {
		throw new ConfigError('MAIL_FROM must be the address of the sender, such as "Capstan <updates@example.com>".');
	}
	if (apiKey === "")
		throw new ConfigError("MAIL_API_KEY is missing; set it with `npx wrangler secret put MAIL_API_KEY`.");
	return { provider, from, apiKey };
}

function parseGitHub(variables: ConfigVariables): ProviderConfig[] {
	const { GITHUB_CLIENT_ID: clientId = "", GITHUB_CLIENT_SECRET: clientSecret = "" } = variables;
	if (clientId === "") return [];
	if (clientSecret === "")
		throw new ConfigError("GITHUB_CLIENT_SECRET is missing; set it as well as GITHUB_CLIENT_ID.");
	return [{ id: "github", identity: "github", name: "GitHub", clientId, clientSecret, issuer: "https://github.com" }];
}

function parseOpenId(variables: ConfigVariables): ProviderConfig[] {
	const { OIDC_ISSUER: issuer = "", OIDC_NAME: name = "", OIDC_CLIENT_ID: clientId = "" } = variables;
	const { OIDC_CLIENT_SECRET: clientSecret = "" } = variables;
	if (issuer === "") return [];
	if (!URL.canParse(issuer) || new URL(issuer).protocol !== "https:") {
		throw new ConfigError('OIDC_ISSUER must be an https address such as "https://accounts.google.com".');
	}
	if (clientId === "") throw new ConfigError("OIDC_CLIENT_ID is missing; set it as well as OIDC_ISSUER.");
	if (clientSecret === "") throw new ConfigError("OIDC_CLIENT_SECRET is missing; set it as well as OIDC_ISSUER.");
	const shownName = name === "" ? new URL(issuer).hostname : name;
	return [{ id: "oidc", identity: `oidc ${issuer}`, name: shownName, clientId, clientSecret, issuer }];
}
