/**
 * What the stock CLI asks about the server before it does anything: addresses, upload limits, and where its events go (nowhere).
 */
import * as v from "valibot";
import { ANONYMOUS_VALUE } from "../../api/credentials";
import { endpoint } from "../../api/endpoint";
import { acknowledgement, OK } from "../../api/schemas";
import { PREFIX } from "./postgrest";

const TAG = "Stock CLI";
/** The oldest version that runs against this server's tests. */
const OLDEST_CLI_VERSION = "8.45.3";
/** One PATCH of a resumable upload; far below what any Cloudflare plan takes in one request. */
const CHUNK_BYTES = 32 * 1024 * 1024;
/** From this size on the CLI advises to make the bundle smaller. */
const ALERT_BYTES = 20 * 1024 * 1024;

export const config = endpoint({
	method: "GET",
	path: "/private/config",
	tag: TAG,
	summary: "Where the stock CLI finds what it needs",
	access: { public: "It tells addresses and a value that grants nothing." },
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
	summary: "How the stock CLI may upload",
	access: { public: "It tells limits that documentation tells too." },
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
	summary: "The stock CLI's usage events, which are not kept",
	access: { anyKey: "Nothing is read or written." },
	response: acknowledgement,
	errors: [],
	example: { response: OK },
	async handle() {
		return OK;
	},
});
