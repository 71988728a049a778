/**
 * An organization as a team has it that comes with scripts for Capgo's public API: an app with two
 * bundles, two channels and devices that reported. A server of its own answers with the files of
 * external bundles.
 */
import * as v from "valibot";
import { consume } from "../../../src/consumer";
import {
	type Answer,
	createTestApp,
	createWorld,
	type RequestOptions,
	setTestChannel,
	sha256Hex,
	type TestApp,
	uploadTestBundle,
	type World,
} from "./world";
import { testBundle } from "./zip";

export interface CapgoScene {
	readonly world: World;
	readonly app: TestApp;
	/** Ids of the bundles 1.0.0 and 1.1.0, and of the channels production and beta. */
	readonly bundles: { readonly first: number; readonly second: number };
	readonly channels: { readonly production: number; readonly beta: number };
	readonly file: { readonly url: string; readonly checksum: string };
	readonly deviceId: string;
	/** Sends a request as a script does, with its key in the header that the script uses. */
	// biome-ignore lint/suspicious/noExplicitAny: tests look into answers of every shape
	send(method: string, path: string, options?: RequestOptions & { readonly keyHeader?: string }): Promise<Answer<any>>;
	/** Sends checks of devices and stores what they reported. */
	check(...deviceIds: readonly string[]): Promise<void>;
}

export async function createCapgoScene(): Promise<CapgoScene> {
	const bytes = testBundle("external");
	const fetch = async () => new Response(bytes, { headers: { "content-type": "application/zip" } });
	const world = await createWorld({ bindings: { fetch } });
	await world.request("POST", "/organization", {
		key: world.adminKey,
		body: { orgId: world.orgId, management_email: "ops@example.com" },
	});
	const app = await createTestApp(world);
	const [first, second] = [await uploadTestBundle(world, app, "1.0.0"), await uploadTestBundle(world, app, "1.1.0")];
	const production = await setTestChannel(world, app, "production", { public: true, version: "1.0.0" });
	const beta = await setTestChannel(world, app, "beta", { version: "1.1.0", allow_device_self_set: true });
	const check: CapgoScene["check"] = async (...deviceIds) => {
		world.deps.sent.length = 0;
		for (const device_id of deviceIds) {
			await world.request("POST", "/updates", {
				body: {
					app_id: app.appId,
					device_id,
					version_name: "builtin",
					version_build: "1.0.0",
					version_os: "17",
					platform: "ios",
					plugin_version: "8.51.23",
					is_prod: true,
					is_emulator: false,
				},
			});
		}
		const messages = world.deps.sent.splice(0).map((message) => ({ body: message }));
		await consume(world.deps, { messages: messages as never });
	};
	const deviceId = crypto.randomUUID();
	await check(deviceId);
	return {
		world,
		app,
		bundles: { first, second },
		channels: { production, beta },
		file: { url: "https://files.example.com/app-2.0.0.zip", checksum: await sha256Hex(bytes) },
		deviceId,
		check,
		send: (method, path, { keyHeader = "x-api-key", headers, ...options } = {}) =>
			world.request(method, path, { ...options, headers: { [keyHeader]: world.adminKey, ...headers } }),
	};
}

export const time = v.pipe(v.string(), v.isoTimestamp());
const text = v.string();
const nullable = v.nullable(text);

/**
 * Records as clients of that API read them, in our words: the fields that they name, with types.
 */
export const RECORDS = {
	organization: v.looseObject({
		id: text,
		name: text,
		logo: nullable,
		website: nullable,
		management_email: nullable,
		customer_id: nullable,
		created_at: time,
		updated_at: time,
		created_by: text,
	}),
	member: v.looseObject({
		uid: text,
		email: v.pipe(text, v.email()),
		image_url: text,
		role: text,
		is_tmp: v.boolean(),
	}),
	key: v.looseObject({
		id: text,
		name: text,
		user_id: text,
		rbac_id: text,
		created_at: time,
		updated_at: time,
		expires_at: v.nullable(time),
		is_hashed_key: v.boolean(),
		global_permissions: v.array(text),
		mode: v.picklist(["read", "upload", "write", "all"]),
		limited_to_orgs: v.array(text),
		limited_to_apps: v.array(text),
	}),
	app: v.looseObject({
		id: text,
		app_id: text,
		name: text,
		owner_org: text,
		icon_url: nullable,
		user_id: nullable,
		last_version: nullable,
		default_upload_channel: text,
		retention: v.number(),
		created_at: time,
		updated_at: time,
		expose_metadata: v.boolean(),
		allow_preview: v.boolean(),
		allow_device_custom_id: v.boolean(),
		block_provider_infra_requests: v.boolean(),
		ios_store_url: nullable,
		android_store_url: nullable,
		need_onboarding: v.boolean(),
		existing_app: v.boolean(),
		transfer_history: v.nullable(v.unknown()),
	}),
	channel: v.looseObject({
		id: v.number(),
		name: text,
		app_id: text,
		created_by: text,
		created_at: time,
		updated_at: time,
		version: v.nullable(v.looseObject({ id: v.number(), name: text })),
		public: v.boolean(),
		disableAutoUpdateUnderNative: v.boolean(),
		disableAutoUpdate: text,
		allow_device_self_set: v.boolean(),
		allow_emulator: v.boolean(),
		allow_device: v.boolean(),
		allow_dev: v.boolean(),
		allow_prod: v.boolean(),
		ios: v.boolean(),
		android: v.boolean(),
		electron: v.boolean(),
		rollout_version: v.nullable(v.number()),
		rollout_id: nullable,
		rolloutPercentageBps: v.number(),
		rolloutEnabled: v.boolean(),
		rolloutPausedAt: v.nullable(time),
		rolloutPauseReason: nullable,
		rolloutCacheTtlSeconds: v.number(),
		autoPauseEnabled: v.boolean(),
		autoPauseAction: text,
		autoPauseLastTriggeredAt: v.nullable(time),
		autoPauseLastCheckedAt: v.nullable(time),
	}),
	device: v.looseObject({
		device_id: text,
		app_id: text,
		platform: v.picklist(["ios", "android", "electron"]),
		custom_id: nullable,
		version: v.nullable(v.number()),
		version_name: nullable,
		version_build: nullable,
		os_version: nullable,
		plugin_version: nullable,
		is_prod: v.boolean(),
		is_emulator: v.boolean(),
		key_id: nullable,
		install_source: nullable,
		country_code: nullable,
		created_at: time,
		updated_at: time,
	}),
	bundle: v.looseObject({
		id: v.number(),
		app_id: text,
		name: text,
		checksum: nullable,
		storage_provider: text,
		external_url: nullable,
		session_key: nullable,
		key_id: nullable,
		min_update_version: nullable,
		minUpdateVersion: nullable,
		deleted: v.literal(false),
		owner_org: text,
		user_id: nullable,
		r2_path: nullable,
		bucket_id: nullable,
		link: nullable,
		comment: nullable,
		created_at: time,
		updated_at: time,
	}),
	day: v.looseObject({ date: time, mau: v.number(), storage: v.number(), bandwidth: v.number() }),
	usage: v.looseObject({
		labels: v.array(v.pipe(text, v.isoDate())),
		datasets: v.array(v.looseObject({ label: text, data: v.array(v.number()), metaCounts: v.array(v.number()) })),
	}),
	status: v.looseObject({ status: text }),
} as const;

/** The first problem of an answer, or undefined. */
export function problemOf(schema: v.GenericSchema, body: unknown): string | undefined {
	const { issues } = v.safeParse(schema, body);
	return issues?.map((issue) => `${v.getDotPath(issue) ?? ""}: ${issue.message}`).join("; ");
}
