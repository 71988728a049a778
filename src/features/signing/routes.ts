/**
 * Signing keys: the RSA public keys that an organization's bundles are verified with. Changing them
 * needs the rights of an administrator and, for people, a recent sign-in, because a key protects
 * nothing if uploaders can replace it.
 */
import * as v from "valibot";
import { auditStatement } from "../../db/audit/entries";
import { guard, onUnique } from "../../db/client";
import {
	deleteSigningKey as deleteSigningKeyStatement,
	devicesByKey,
	hasRoomForSigningKey,
	insertSigningKey,
	MOST_COUNTED_DEVICES,
	MOST_SIGNING_KEYS,
	policyHasSigningKey,
	type SigningKeyRow,
	signingKeyExists,
	signingKeyNames,
	signingKeysOf,
	type UnsignedChannel,
	unsignedChannels,
} from "../../db/signing-keys";
import { openTelemetry } from "../../db/telemetry-reads";
import { keyIdOf, parsePublicKey, signingKeyOf } from "../../domain/bundles/signing-key";
import { ApiError, invalidRequest } from "../../errors";
import { endpoint, Reply } from "../../http/endpoint";
import { booleanText, label, optional, publicAppId, rfc3339, text, time, uuid } from "../../http/schemas";
import { appScope, hiddenAs, orgScope } from "../../http/scope";

const TAG = "Signing keys";
const EXAMPLE_ORG_ID = "b7c1d3de-8f5a-4f43-93d3-1b0f6a4c9e21";

const signingKeySchema = v.strictObject({
	id: v.string(),
	name: v.string(),
	key_id: v.string(),
	fingerprint: v.string(),
	public_key: v.string(),
	created_at: time,
});

function signingKeyAnswer(row: SigningKeyRow): v.InferOutput<typeof signingKeySchema> {
	return {
		id: row.id,
		name: row.name,
		key_id: keyIdOf(row.public_key),
		fingerprint: row.fingerprint,
		public_key: `-----BEGIN RSA PUBLIC KEY-----\n${row.public_key.replace(/.{64}(?=.)/g, "$&\n")}\n-----END RSA PUBLIC KEY-----\n`,
		created_at: rfc3339(row.created_at_ms),
	};
}

const EXAMPLE_KEY = {
	id: "3f1b8a52-64d1-4b0e-9c0e-0f6f3f1c7a10",
	name: "Release key 2026",
	key_id: "MIIBCgKCAQEAiKQwUADp",
	fingerprint: "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
	public_key: "-----BEGIN RSA PUBLIC KEY-----\nMIIBCgKCAQEAiKQwUADp…\n-----END RSA PUBLIC KEY-----\n",
	created_at: "2026-11-21T08:00:00.000Z",
};

const signingKeyNotFound = hiddenAs(
	"signing_key_not_found",
	"The organization has no signing key with this id; list them with GET /organization/signing_key.",
);

export const listSigningKeys = endpoint({
	method: "GET",
	path: "/organization/signing_key",
	tag: TAG,
	summary: "List the public keys that bundles are verified with, oldest first",
	description: "`key_id` is the first 20 characters of the key's base64 text, which bundles and devices carry.",
	access: { permission: "org.read", scope: orgScope("query.orgId") },
	query: v.object({ orgId: uuid }),
	response: v.array(signingKeySchema),
	errors: [],
	example: { query: { orgId: EXAMPLE_ORG_ID }, response: [EXAMPLE_KEY] },
	load: ({ query }) => ({ keys: signingKeysOf(query.orgId) }),
	async handle({ loaded }) {
		return loaded.keys.map(signingKeyAnswer);
	},
});

export const createSigningKey = endpoint({
	method: "POST",
	path: "/organization/signing_key",
	tag: TAG,
	summary: "Register a public key that bundles are verified with",
	description: [
		"`public_key` is the PEM that `key create` of the stock CLI writes to .capgo_key_v2.pub, or the same",
		"key as `PUBLIC KEY`; RSA with 2,048 bits.",
		"Older bundles are verified when they are next promoted.",
	],
	access: { permission: "org.update_settings", scope: orgScope("body.orgId") },
	recentSignIn: true,
	body: v.object({ orgId: uuid, name: label(), public_key: text(4096) }),
	status: [201],
	response: signingKeySchema,
	errors: ["signing_key_already_exists", "signing_key_limit_reached"],
	example: {
		body: { orgId: EXAMPLE_ORG_ID, name: EXAMPLE_KEY.name, public_key: EXAMPLE_KEY.public_key },
		response: EXAMPLE_KEY,
	},
	async handle({ db, deps, scope, input, nowMs, actor }) {
		const { name, public_key } = input.body;
		const publicKey = parsePublicKey(public_key);
		if (publicKey === undefined) {
			const message =
				"must be the PEM of an RSA public key with 2,048 bits and the exponent 65537, as `key create` writes it";
			throw invalidRequest([{ path: "public_key", message }]);
		}
		const { fingerprint } = await signingKeyOf(publicKey);
		const row = { id: deps.newId(), name, public_key: publicKey, fingerprint, created_at_ms: nowMs };
		await db.batch([
			guard(
				hasRoomForSigningKey(scope.orgId),
				() =>
					new ApiError(
						"signing_key_limit_reached",
						`An organization has at most ${MOST_SIGNING_KEYS} signing keys; remove one that no bundle needs.`,
						{ moreInfo: { limit: MOST_SIGNING_KEYS } },
					),
			),
			onUnique(
				insertSigningKey(scope.orgId, row),
				"signing_keys.org_id, signing_keys.fingerprint",
				() =>
					new ApiError(
						"signing_key_already_exists",
						"The organization already has this public key; list its keys with GET /organization/signing_key.",
					),
			),
			auditStatement(actor, nowMs, {
				orgId: scope.orgId,
				action: "signing_key.create",
				target: { type: "signing_key", id: row.id, name },
				after: { name, key_id: keyIdOf(publicKey), fingerprint },
			}),
		]);
		return new Reply(201, signingKeyAnswer({ ...row, org_id: scope.orgId }));
	},
});

/** Limit of the channels that an answer names. */
export const MOST_UNSIGNED_CHANNELS = 100;

export const unsignedChannelFields = {
	unsigned_channels: v.array(v.strictObject({ app_id: v.string(), channel: v.string(), version: v.string() })),
	unsigned_channel_count: v.number(),
};

export function unsignedChannelsAnswer(rows: readonly UnsignedChannel[]) {
	return {
		unsigned_channels: rows.map(({ app_id, channel, version }) => ({ app_id, channel, version })),
		unsigned_channel_count: rows[0]?.total ?? 0,
	};
}

/**
 * 409: the organization requires signatures, or would, and would have no key to verify them with.
 */
export function signingKeyRequired(): ApiError {
	return new ApiError(
		"signing_key_required",
		"An organization that requires signed bundles needs a signing key; register one with POST /organization/signing_key, or send require_signed_bundles: false to POST /organization first.",
	);
}

export const deleteSigningKey = endpoint({
	method: "DELETE",
	path: "/organization/signing_key",
	tag: TAG,
	summary: "Remove a public key; bundles that it verified no longer count as signed",
	description: [
		"Channels keep serving their bundles.",
		"`unsigned_channels` names the first 100 channels with a bundle that no other key verifies;",
		"`unsigned_channel_count` counts them.",
		"`dry_run=true` changes nothing.",
		"The last key cannot be removed while the organization requires signed bundles.",
	],
	access: { permission: "org.update_settings", scope: orgScope("query.orgId") },
	recentSignIn: ({ query }) => query.dry_run !== true,
	query: v.object({ orgId: uuid, id: uuid, dry_run: optional(booleanText) }),
	queryOrBody: true,
	response: v.strictObject({ status: v.literal("ok"), dry_run: v.boolean(), ...unsignedChannelFields }),
	errors: ["signing_key_not_found", "signing_key_required"],
	example: {
		query: { orgId: EXAMPLE_ORG_ID, id: EXAMPLE_KEY.id, dry_run: "true" },
		response: {
			status: "ok",
			dry_run: true,
			unsigned_channels: [{ app_id: "com.example.app", channel: "production", version: "1.4.0" }],
			unsigned_channel_count: 1,
		},
	},
	load: ({ query }) => ({
		keys: signingKeysOf(query.orgId),
		unsigned: unsignedChannels(query.orgId, query.id, MOST_UNSIGNED_CHANNELS),
	}),
	async handle({ db, scope, input, loaded, nowMs, actor }) {
		const { id } = input.query;
		const row = loaded.keys.find((key) => key.id === id);
		if (row === undefined) throw signingKeyNotFound();
		const dryRun = input.query.dry_run === true;
		if (!dryRun) {
			await db.batch([
				guard(signingKeyExists(scope.orgId, id), signingKeyNotFound),
				deleteSigningKeyStatement(scope.orgId, id),
				guard(policyHasSigningKey(scope.orgId), signingKeyRequired),
				auditStatement(actor, nowMs, {
					orgId: scope.orgId,
					action: "signing_key.delete",
					target: { type: "signing_key", id, name: row.name },
					before: { name: row.name, key_id: keyIdOf(row.public_key), fingerprint: row.fingerprint },
				}),
			]);
		}
		return { status: "ok" as const, dry_run: dryRun, ...unsignedChannelsAnswer(loaded.unsigned) };
	},
});

export const listDeviceKeys = endpoint({
	method: "GET",
	path: "/device/key",
	tag: "Devices",
	summary: "Count the devices of an app by the public key that they carry",
	description: [
		"Devices report the `key_id` of their public key with",
		"each check, so this shows how many still have an old key.",
		"The first 50 key ids, most devices first.",
		`\`devices\` counts up to ${MOST_COUNTED_DEVICES}; \`more\` is true at that limit.`,
		"`signing_key` is the name of the organization's registered key with this id.",
		"Reports of devices are not verified.",
	],
	access: { permission: "app.read_devices", scope: appScope("query.app_id") },
	query: v.object({ app_id: publicAppId }),
	response: v.array(
		v.strictObject({
			key_id: v.string(),
			devices: v.number(),
			more: v.boolean(),
			registered: v.boolean(),
			signing_key: v.nullable(v.string()),
		}),
	),
	errors: [],
	example: {
		query: { app_id: "com.example.app" },
		response: [
			{
				key_id: EXAMPLE_KEY.key_id,
				devices: 1200,
				more: false,
				registered: true,
				signing_key: EXAMPLE_KEY.name,
			},
		],
	},
	async handle({ deps, db, scope, scopeRow }) {
		const [[{ rows }], [named]] = await Promise.all([
			openTelemetry(deps, scopeRow.telemetry_binding).batch([devicesByKey(scope.appId)]),
			db.batch([signingKeyNames(scope.orgId)]),
		]);
		const names = new Map(named.rows.map(({ key_id, name }) => [key_id, name]));
		return rows.map(({ key_id, devices }) => ({
			key_id,
			devices,
			more: devices === MOST_COUNTED_DEVICES,
			registered: names.has(key_id),
			signing_key: names.get(key_id) ?? null,
		}));
	},
});
