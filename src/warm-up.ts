/**
 * Answers made-up checks while the isolate starts, so that the first device does not wait for the
 * engine to compile the code: the platform charges start-up separately from requests. Everything is
 * made up, because start-up has no clock, no random numbers and no I/O; nothing of it stays in
 * memory.
 */
import { parseConfig } from "./config";
import type { Deps } from "./deps";
import { FAST_ENDPOINTS } from "./fast-endpoints";
import { createDeviceState } from "./http/device-state";
import { createFastPath } from "./http/fast-path";

const APP_ID = "com.example.warm";
const DEVICE_ID = "00000000-0000-4000-8000-000000000000";

/**
 * A row of the app, of its channel, of its bundle and of the change feed at the same time: every
 * statement gets this row.
 */
const ROW = {
	id: 1,
	app_id: APP_ID,
	owner_org: DEVICE_ID,
	revision: 1,
	expose_metadata: 0,
	allow_device_custom_id: 1,
	block_provider_infra_requests: 0,
	allow_preview: 0,
	preview_channel_prefix: null,
	name: "1.0.1",
	public: 1,
	ios: 1,
	android: 1,
	electron: 1,
	allow_device_self_set: 1,
	allow_emulator: 1,
	allow_device: 1,
	allow_dev: 1,
	allow_prod: 1,
	disable_auto_update: "major",
	update_package: "all",
	disable_auto_update_under_native: 1,
	is_preview: 0,
	version_id: 1,
	rollout_version_id: null,
	rollout_id: null,
	rollout_percentage_bps: 0,
	rollout_enabled: 0,
	rollout_paused_at_ms: null,
	named_by_fleet_at_ms: null,
	page_id: null,
	status: "ready",
	checksum: "",
	sha256: "",
	object_key: "warm/up/object",
	external_url: null,
	session_key: "",
	key_id: null,
	min_update_version: null,
	comment: null,
	link: null,
	has_manifest: 0,
	device_id: "none",
	channel_id: null,
	seq: 1,
	token: "warm",
	revision_token: "warm",
	public_app_id: APP_ID,
	current_public_id: APP_ID,
	is_live: 1,
};

const statement = { bind: () => statement };
const session = {
	prepare: () => statement,
	batch: async (statements: readonly unknown[]) => statements.map(() => ({ results: [ROW], meta: { changes: 0 } })),
};

const LIMIT = { limiter: { limit: async () => ({ success: true }) }, periodSeconds: 60 };
const ignore = () => undefined;
const never = () => new Promise<never>(ignore);

const madeUp = () =>
	({
		d1: { withSession: () => session },
		events: { send: never },
		now: () => 0,
		newId: () => DEVICE_ID,
		requestLimits: { newDevices: LIMIT, d1Reads: LIMIT },
		delay: never,
		deadline: never,
		log: ignore,
		config: parseConfig({ CAPSTAN_SECRET: "0".repeat(64) }),
	}) as unknown as Deps;

/**
 * @returns the texts of the answers: the first from the made-up database, the second from memory
 */
export async function warmUp(): Promise<readonly string[]> {
	const route = () => Promise.reject(new Error("a made-up check needs no router"));
	const texts: string[] = [];
	const keep = (text: string) => {
		texts.push(text);
		return new Response();
	};
	const check = createFastPath(createDeviceState(madeUp()), FAST_ENDPOINTS, route, keep);
	const text = JSON.stringify({
		app_id: APP_ID,
		device_id: DEVICE_ID,
		version_name: "builtin",
		version_build: "1.0.0",
		version_os: "1",
		platform: "ios",
		plugin_version: "8.0.0",
		is_emulator: false,
		is_prod: true,
		defaultChannel: "",
	});
	const request = {
		method: "POST",
		url: "https://warm.example.com/updates",
		headers: new Headers({
			"content-type": "application/json",
			"content-length": String(text.length),
			"cf-connecting-ip": "192.0.2.1",
		}),
		text: async () => text,
	} as unknown as Request;
	const context = { waitUntil: ignore } as unknown as ExecutionContext;
	for (let turn = 0; turn < 2; turn += 1) await check(request, context);
	return texts;
}
