/**
 * An API key in requests, responses and columns. Only the responses to creation, regeneration and
 * reveal use the schema with the secret; no other record holds it.
 */
import type { CompiledQuery } from "kysely";
import * as v from "valibot";
import type { OrgId } from "../../authz/decide";
import { GLOBAL_PERMISSIONS, ROLE_NAMES, ROLES } from "../../authz/permissions";
import { type MintedKey, sealKey } from "../../authz/secrets";
import type { ApiKeyRow, BindingRecord } from "../../db/api-keys";
import type { ChannelOfApp } from "../../db/channels";
import { type Holder, insertBinding } from "../../db/role-bindings";
import type { Deps } from "../../deps";
import { normalizedRange } from "../../domain/network/ip-allow-list";
import { signingSecret } from "../../domain/secrets";
import {
	customRoleName,
	integerId,
	nullableRfc3339,
	nullableTime,
	rfc3339,
	text,
	time,
	uuid,
} from "../../http/schemas";

const MOST_BINDINGS = 100;
const MOST_RANGES = 100;
const LONGEST_RANGE = 64;
const ASSIGNABLE_ROLES = ROLE_NAMES.filter((name) => ROLES[name].assignable);

export const bindingSchema = v.strictObject({
	id: v.string(),
	role_name: v.string(),
	scope_type: v.picklist(["org", "app", "channel"]),
	org_id: v.string(),
	app_id: v.nullable(v.string()),
	channel_id: v.nullable(v.number()),
	parent_binding_id: v.nullable(v.string()),
	expires_at: nullableTime,
});

const keyFields = {
	id: v.string(),
	name: v.string(),
	org_id: v.string(),
	user_id: v.string(),
	is_hashed_key: v.boolean(),
	key_hint: v.string(),
	expires_at: nullableTime,
	created_at: time,
	updated_at: time,
	last_used_at: nullableTime,
	bindings: v.array(bindingSchema),
	/**
	 * The public ids of the apps in the bindings, without those of bindings that grant nothing any
	 * more.
	 */
	app_ids: v.array(v.string()),
	global_permissions: v.array(v.string()),
	ip_allow_list: v.array(v.string()),
	/**
	 * The time at which the stored secret was last revealed, and the account that saw it; null: never.
	 */
	revealed_at: nullableTime,
	revealed_by: v.nullable(v.string()),
	/**
	 * The time until which the secret before the last regeneration stays valid; null: it is not valid.
	 */
	previous_key_valid_until: nullableTime,
	/** The trusted publisher that acts by this key; null: an ordinary key. */
	publisher_id: v.nullable(v.string()),
};
export const keySchema = v.strictObject(keyFields);
export const keyWithSecretSchema = v.strictObject({ ...keyFields, key: v.string() });

function liveApps({ apps }: ApiKeyRow, nowMs: number): string[] {
	const bound: readonly (readonly [appId: string, expiresAtMs: number | null])[] = JSON.parse(apps);
	return [...new Set(bound.filter(([, expiresAtMs]) => (expiresAtMs ?? nowMs + 1) > nowMs).map(([appId]) => appId))];
}

/** @param nowMs decides whether the previous secret and the bindings are still valid */
export function keyAnswer(row: ApiKeyRow, nowMs: number): v.InferOutput<typeof keySchema> {
	const bindings: BindingRecord[] = JSON.parse(row.bindings);
	const previousValidUntilMs = row.previous_valid_until_ms ?? 0;
	return {
		id: row.id,
		name: row.name,
		org_id: row.org_id,
		user_id: row.user_id,
		is_hashed_key: row.is_hashed_key === 1,
		key_hint: row.key_hint,
		expires_at: nullableRfc3339(row.expires_at_ms),
		created_at: rfc3339(row.created_at_ms),
		updated_at: rfc3339(row.updated_at_ms),
		last_used_at: nullableRfc3339(row.last_used_at_ms),
		bindings: bindings.map(({ expires_at_ms, in_deleted_organization: _, custom_permissions: __, ...binding }) => ({
			...binding,
			expires_at: nullableRfc3339(expires_at_ms),
		})),
		app_ids: liveApps(row, nowMs),
		global_permissions: JSON.parse(row.global_permissions),
		ip_allow_list: JSON.parse(row.ip_allow_list ?? "[]"),
		revealed_at: nullableRfc3339(row.revealed_at_ms),
		revealed_by: row.revealed_by,
		previous_key_valid_until: previousValidUntilMs > nowMs ? rfc3339(previousValidUntilMs) : null,
		publisher_id: row.publisher_id,
	};
}

export const EXAMPLE_KEY = {
	id: "5d0c7f3a-7c2e-4a2b-9f60-2f4f1c9f7a31",
	name: "Previews of pull requests",
	org_id: "b7c1d3de-8f5a-4f43-93d3-1b0f6a4c9e21",
	user_id: "0c7f0c5e-34a5-4f5c-8b60-8a2f0b8c1d11",
	is_hashed_key: true,
	key_hint: "cap_a1B2…",
	expires_at: "2027-01-31T00:00:00.000Z",
	created_at: "2026-11-21T08:00:00.000Z",
	updated_at: "2026-11-21T08:00:00.000Z",
	last_used_at: "2026-11-21T08:05:00.000Z",
	bindings: [
		{
			id: "9a0d3c55-4b4d-4b39-8f0a-7d9f1e2c3b41",
			role_name: "app_preview",
			scope_type: "app" as const,
			org_id: "b7c1d3de-8f5a-4f43-93d3-1b0f6a4c9e21",
			app_id: "3f1b8a52-64d1-4b0e-9c0e-0f6f3f1c7a10",
			channel_id: null,
			parent_binding_id: null,
			expires_at: null,
		},
	],
	app_ids: ["com.example.app"],
	global_permissions: [],
	ip_allow_list: ["192.0.2.0/24"],
	revealed_at: null,
	revealed_by: null,
	previous_key_valid_until: null,
	publisher_id: null,
};

/** The request for the bindings of EXAMPLE_KEY. */
export const EXAMPLE_BINDINGS = [
	{
		role_name: "app_preview",
		scope_type: "app",
		org_id: EXAMPLE_KEY.org_id,
		app_id: "3f1b8a52-64d1-4b0e-9c0e-0f6f3f1c7a10",
	},
];

const roleName = v.union(
	[v.picklist(ASSIGNABLE_ROLES), customRoleName],
	`must be one of ${ASSIGNABLE_ROLES.join(", ")}, or the name of a custom role of the organization`,
);

const newBindingSchema = v.variant(
	"scope_type",
	[
		v.object({ scope_type: v.literal("org"), role_name: roleName, org_id: uuid }),
		v.object({ scope_type: v.literal("app"), role_name: roleName, org_id: uuid, app_id: uuid }),
		v.object({
			scope_type: v.literal("channel"),
			role_name: roleName,
			org_id: uuid,
			app_id: uuid,
			channel_id: integerId,
		}),
	],
	"must be org, app or channel",
);
export type NewBindingInput = v.InferOutput<typeof newBindingSchema>;

/** The app of a binding; undefined: the whole organization. */
export const appOf = (binding: NewBindingInput) => ("app_id" in binding ? binding.app_id : undefined);

/** The channel of a binding; undefined: the whole app or organization. */
export const channelOf = (binding: NewBindingInput) => ("channel_id" in binding ? binding.channel_id : undefined);

/** The part of a binding that is unique among the bindings of one key in one organization. */
export const identityOf = (role: string, appId: string | null | undefined, channelId: number | null | undefined) =>
	`${role} ${appId ?? ""} ${channelId ?? ""}`;

/** The channels of the bindings, each with its app. */
export function channelsOf(bindings: readonly NewBindingInput[]): ChannelOfApp[] {
	return bindings.flatMap((binding) =>
		"channel_id" in binding ? [{ id: binding.channel_id, app_id: binding.app_id }] : [],
	);
}

/** The ids of the apps in the bindings. */
export function appsOf(bindings: readonly NewBindingInput[]): string[] {
	return bindings.map(appOf).filter((appId) => appId !== undefined);
}

export const newBindings = v.pipe(
	v.array(newBindingSchema),
	v.maxLength(MOST_BINDINGS, `must have at most ${MOST_BINDINGS} bindings`),
);

export const globalPermissionNames = v.array(
	v.picklist(GLOBAL_PERMISSIONS, `must be one of ${GLOBAL_PERMISSIONS.join(", ")}`),
);

/** CIDR ranges, normalized so that equal ranges have one form. */
export const ipAllowList = v.pipe(
	v.array(
		v.pipe(
			text(LONGEST_RANGE),
			v.check(
				(range) => normalizedRange(range) !== undefined,
				'must be an IPv4 or IPv6 address or range such as "192.0.2.0/24" or "2001:db8::/32"',
			),
			v.transform((range) => normalizedRange(range) ?? range),
		),
	),
	v.maxLength(MOST_RANGES, `must have at most ${MOST_RANGES} ranges`),
	v.transform((ranges) => [...new Set(ranges)]),
);

/** The column of an address list; an empty list means any address. */
export const addressColumn = (addresses: readonly string[]) =>
	addresses.length === 0 ? null : JSON.stringify(addresses);

/** The columns of a new secret, which is stored sealed unless the key is hashed. */
export async function secretColumns(
	{ text, hash, hint }: MintedKey,
	keyId: string,
	hashed: boolean,
	{ config, randomBytes }: Deps,
	nowMs: number,
) {
	const sealed = hashed ? null : await sealKey(text, keyId, signingSecret(config.secrets, nowMs), randomBytes);
	return { key_hash: hash, key_hint: hint, key_ciphertext: sealed };
}

/** The statements that insert the bindings of a key. */
export function insertBindings(
	holder: Holder,
	orgId: OrgId,
	bindings: readonly NewBindingInput[],
	{ newId }: Pick<Deps, "newId">,
	nowMs: number,
): CompiledQuery[] {
	return bindings.map((binding) =>
		insertBinding(binding.scope_type, {
			id: newId(),
			holder,
			role: binding.role_name,
			orgId,
			appId: appOf(binding) ?? null,
			channelId: channelOf(binding) ?? null,
			createdAtMs: nowMs,
		}),
	);
}
