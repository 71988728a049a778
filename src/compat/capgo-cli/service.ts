/**
 * Requests of the stock CLI about the server: addresses, upload limits, usage events (not stored),
 * and services that do not exist here.
 */
import * as v from "valibot";
import type { ApiError } from "../../errors";
import { endpoint } from "../../http/endpoint";
import { ANONYMOUS_VALUE } from "../../http/pipeline/credential-headers";
import { type SettingsRequest, settingNotSupported } from "../../http/pipeline/stock-settings";
import { acknowledgement, OK } from "../../http/schemas";
import { PREFIX, TAG } from "./postgrest";

/** The oldest version that the tests run. */
const OLDEST_CLI_VERSION = "8.45.3";
/** One PATCH of a resumable upload; far below the request limit of every Cloudflare plan. */
const CHUNK_BYTES = 32 * 1024 * 1024;
/** Above this size the CLI advises to make the bundle smaller. */
const ALERT_BYTES = 20 * 1024 * 1024;

export const config = endpoint({
	method: "GET",
	path: "/private/config",
	tag: TAG,
	summary: "Show the addresses that the stock CLI uses",
	access: { public: "It shows addresses and a value that grants nothing." },
	response: v.strictObject({
		supaHost: v.string(),
		supaKey: v.string(),
		minCliVersion: v.string(),
		minCliVersionReason: v.string(),
		useNewFinalizeBundleUpload: v.boolean(),
	}),
	errors: [],
	example: {},
	async handle({ origin }) {
		return {
			supaHost: `${origin}${PREFIX}`,
			supaKey: ANONYMOUS_VALUE,
			minCliVersion: OLDEST_CLI_VERSION,
			minCliVersionReason: `This server is tested with @capgo/cli ${OLDEST_CLI_VERSION} and newer.`,
			useNewFinalizeBundleUpload: true,
		};
	},
});

export const filesConfig = endpoint({
	method: "GET",
	path: "/files/config",
	tag: TAG,
	summary: "Show the upload limits for the stock CLI",
	access: { public: "It shows limits that are documented." },
	response: v.strictObject({
		partialUpload: v.boolean(),
		partialUploadForced: v.boolean(),
		TUSUpload: v.boolean(),
		TUSUploadForced: v.boolean(),
		maxUploadLength: v.number(),
		maxChunkSize: v.number(),
		alertUploadSize: v.number(),
	}),
	errors: [],
	example: {},
	async handle({ deps }) {
		return {
			partialUpload: true,
			partialUploadForced: false,
			TUSUpload: true,
			TUSUploadForced: false,
			maxUploadLength: deps.config.maxBundleBytes,
			maxChunkSize: CHUNK_BYTES,
			alertUploadSize: ALERT_BYTES,
		};
	},
});

export const events = endpoint({
	method: "POST",
	path: "/private/events",
	tag: TAG,
	summary: "Accept the stock CLI's usage events without storing them",
	access: { anyKey: "Nothing is read or written." },
	response: acknowledgement,
	errors: [],
	example: { response: OK },
	async handle() {
		return OK;
	},
});

/**
 * Requests of the stock CLI for services that do not exist here, with the setting that the message
 * names. The CLI prints the message. No data is read, so these are not endpoints and need no key.
 */
const REFUSED: readonly (readonly [path: RegExp, request: SettingsRequest, field: string])[] = [
	// `app add --icon` continues without the icon; `app set --icon` prints the message and fails.
	[new RegExp(`^${PREFIX}/storage/v1/object/images/.`), "storage upload", "icon"],
	[/^\/notifications\/update-check$/, "update notification", "send_update_notification"],
	[/^\/bundle\/ai_bump_level$/, "automatic version", "auto_bump"],
	[new RegExp(`^${PREFIX}/rest/v1/rpc/has_2fa_enabled$`), "two-factor check", "enforcing_2fa"],
	[new RegExp(`^${PREFIX}/rest/v1/rpc/check_org_members_password_policy$`), "password check", "password_policy_config"],
];

/**
 * The error for a request without an endpoint; undefined if the stock CLI sends no such request.
 */
export function refusedRequest(method: string, path: string): ApiError | undefined {
	if (method !== "POST" && method !== "PUT") return undefined;
	const found = REFUSED.find(([pattern]) => pattern.test(path));
	return found === undefined ? undefined : settingNotSupported(found[1], found[2]);
}
