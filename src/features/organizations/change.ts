/**
 * Changes an organization and its policies. A change of policies never leaves an organization
 * without a valid administering key that it had before.
 */
import * as v from "valibot";
import type { OrgId } from "../../authz/decide";
import { ADMINISTERING_ROLES, OWNING_ROLES } from "../../authz/member-roles";
import { auditStatement } from "../../db/audit/entries";
import { guard } from "../../db/client";
import {
	keysUnderPolicy,
	type OrganizationRow,
	organizationById,
	organizationIsAsRead,
	someKeyStillAdministers,
	updateOrganization as updateOrganizationStatement,
} from "../../db/organizations";
import { policyHasSigningKey, unsignedChannels } from "../../db/signing-keys";
import { KEY_POLICY_NAMES, MOST_EXPIRATION_DAYS } from "../../domain/key-policy";
import { ApiError } from "../../errors";
import { endpoint } from "../../http/endpoint";
import { refusedFields, refuseSettings } from "../../http/pipeline/stock-settings";
import {
	booleanText,
	emailAddress,
	imageUrl,
	label,
	nullableRfc3339,
	nullableTime,
	optional,
	uuid,
	webUrl,
} from "../../http/schemas";
import { organizationNotFound, orgScope } from "../../http/scope";
import {
	type BeforeAndAfter,
	changesPolicy,
	organizationChanged,
	type PolicyEffect,
	policyEffect,
} from "../keys/policy-change";
import {
	MOST_UNSIGNED_CHANNELS,
	signingKeyRequired,
	unsignedChannelFields,
	unsignedChannelsAnswer,
} from "../signing/routes";
import { EXAMPLE_ORGANIZATION, organizationAnswer, organizationSchema } from "./read";

/** Suspended keys that a response lists; `stopped_api_key_count` counts all. */
const MOST_SUSPENDED_KEYS = 100;
/** Candidate keys for the guard that one administering key stays valid. */
const MOST_WITNESSES = 50;

const suspendedKeySchema = v.strictObject({
	id: v.string(),
	name: v.string(),
	org_id: v.string(),
	policy: v.picklist(KEY_POLICY_NAMES),
	expires_at: nullableTime,
});

/** An optional field that "" clears. */
const clearable = <const Schema extends v.GenericSchema<string, string>>(schema: Schema) =>
	optional(v.union([v.literal(""), schema]));

const body = v.object({
	orgId: uuid,
	name: optional(label()),
	management_email: clearable(emailAddress),
	website: clearable(webUrl),
	logo: clearable(imageUrl),
	enforce_hashed_api_keys: optional(v.boolean()),
	require_apikey_expiration: optional(v.boolean()),
	max_apikey_expiration_days: optional(
		v.pipe(
			v.number(),
			v.integer("must be a whole number of days"),
			v.minValue(0, "must be 1 or more, or 0 for no limit"),
			v.maxValue(MOST_EXPIRATION_DAYS, `must be at most ${MOST_EXPIRATION_DAYS} days`),
		),
	),
	require_signed_bundles: optional(v.boolean()),
	dry_run: optional(v.boolean()),
	...refusedFields("POST /organization"),
});
type UpdateBody = v.InferOutput<typeof body>;

export const updateOrganization = endpoint({
	method: "POST",
	path: "/organization",
	tag: "Organizations",
	summary: "Change an organization and its policies",
	description: [
		'Omitted fields stay; "" clears an address, and 0 removes `max_apikey_expiration_days`.',
		"`stopped_api_keys` lists the valid keys that the new policies suspend, the first 100 of",
		"`stopped_api_key_count`.",
		"`dry_run` (in the body or as `?dry_run=true`) shows this and changes nothing.",
		"A change that would suspend every administering key",
		"or every owning key of the organization is refused.",
		"`require_signed_bundles` requires that new bundles are encrypted with the private key of a",
		"registered signing key, and that only such bundles are promoted; the response to enabling it lists",
		"the first 100 channels that serve other bundles",
		"(`unsigned_channels`), which they serve until they are replaced.",
	],
	access: { permission: "org.update_settings", scope: orgScope("body.orgId") },
	recentSignIn: ({ query, body }) =>
		query.dry_run !== true &&
		body.dry_run !== true &&
		(body.require_signed_bundles === false || KEY_POLICY_NAMES.some((name) => body[name] !== undefined)),
	query: v.object({ dry_run: optional(booleanText) }),
	body,
	response: v.strictObject({
		status: v.picklist(["Organization updated", "Dry run: nothing was changed"]),
		id: v.string(),
		data: organizationSchema,
		stopped_api_keys: v.array(suspendedKeySchema),
		stopped_api_key_count: v.number(),
		...unsignedChannelFields,
	}),
	errors: ["signing_key_required", "policy_stops_every_admin_key", "organization_changed", "setting_not_supported"],
	example: {
		query: { dry_run: "true" },
		body: { orgId: EXAMPLE_ORGANIZATION.id, require_apikey_expiration: true },
		response: {
			status: "Dry run: nothing was changed",
			id: EXAMPLE_ORGANIZATION.id,
			data: { ...EXAMPLE_ORGANIZATION, require_apikey_expiration: true },
			stopped_api_keys: [
				{
					id: "5d0c7f3a-7c2e-4a2b-9f60-2f4f1c9f7a31",
					name: "Nightly build",
					org_id: EXAMPLE_ORGANIZATION.id,
					policy: "require_apikey_expiration",
					expires_at: null,
				},
			],
			stopped_api_key_count: 1,
			unsigned_channels: [],
			unsigned_channel_count: 0,
		},
	},
	load: ({ body }, nowMs) => ({
		organization: organizationById(body.orgId),
		keys: changesPolicy(policiesOf(body))
			? keysUnderPolicy(body.orgId, ADMINISTERING_ROLES, OWNING_ROLES, nowMs)
			: undefined,
		unsigned:
			body.require_signed_bundles === true ? unsignedChannels(body.orgId, "", MOST_UNSIGNED_CHANNELS) : undefined,
	}),
	async handle({ db, scope, input, loaded, nowMs, actor }) {
		refuseSettings("POST /organization", input.body);
		const { orgId } = scope;
		const [before] = loaded.organization;
		if (before === undefined) throw organizationNotFound();
		const changes = changedFields(before, fieldsOf(input.body));
		const after: OrganizationRow = { ...before, ...changes };
		const effect = policyEffect(before, after, loaded.keys, nowMs);
		const suspendedKeys = effect.suspended.slice(0, MOST_SUSPENDED_KEYS).map(({ key, policy }) => ({
			id: key.id,
			name: key.name,
			org_id: key.org_id,
			policy,
			expires_at: nullableRfc3339(key.expires_at_ms),
		}));
		const suspendsEveryAdminKey = () => policyStopsEveryAdminKey(suspendedKeys);
		if (suspendsAllAdministration(effect)) throw suspendsEveryAdminKey();

		const dryRun = input.query.dry_run === true || input.body.dry_run === true;
		if (Object.keys(changes).length > 0 && !dryRun) {
			// Strictly increasing, so that the guard detects a concurrent change within the same
			// millisecond.
			after.updated_at_ms = Math.max(nowMs, before.updated_at_ms + 1);
			await db.batch([
				guard(organizationIsAsRead(orgId, before), organizationChanged),
				...guardsOfAdministration(orgId, effect, nowMs, suspendsEveryAdminKey),
				updateOrganizationStatement(orgId, { ...changes, updated_at_ms: after.updated_at_ms }),
				guard(policyHasSigningKey(orgId), signingKeyRequired),
				auditStatement(actor, nowMs, {
					orgId,
					action: "organization.update",
					target: { type: "organization", id: orgId, name: after.name },
					before: shownFields(before, changes),
					after: shownFields(after, changes),
					...(effect.suspended.length === 0 ? {} : { details: { stopped_api_key_count: effect.suspended.length } }),
				}),
			]);
		}
		return {
			status: dryRun ? ("Dry run: nothing was changed" as const) : ("Organization updated" as const),
			id: orgId,
			data: organizationAnswer(after),
			stopped_api_keys: suspendedKeys,
			stopped_api_key_count: effect.suspended.length,
			...unsignedChannelsAnswer(loaded.unsigned),
		};
	},
});

/**
 * True if the change suspends every valid key that administers the organization, or every one that
 * owns it.
 */
function suspendsAllAdministration({ tightens, administering, owning }: PolicyEffect): boolean {
	const losesAll = ({ before, after }: BeforeAndAfter) => before.length > 0 && after.length === 0;
	return tightens && (losesAll(administering) || losesAll(owning));
}

/**
 * If valid keys own the organization, one of them must stay valid; otherwise one administering key.
 * Policies do not apply to people, so an organization without administering keys needs no guard.
 */
function guardsOfAdministration(
	orgId: OrgId,
	{ tightens, administering, owning }: PolicyEffect,
	nowMs: number,
	failure: () => ApiError,
) {
	const [keys, roles] =
		owning.after.length > 0 ? [owning.after, OWNING_ROLES] : [administering.after, ADMINISTERING_ROLES];
	if (!tightens || keys.length === 0) return [];
	return [guard(someKeyStillAdministers(orgId, keys.slice(0, MOST_WITNESSES), roles, nowMs), failure)];
}

const ORGANIZATION_FIELDS = [
	"name",
	"management_email",
	"website",
	"logo",
	"require_signed_bundles",
	...KEY_POLICY_NAMES,
] as const;
type OrganizationFields = { -readonly [Field in (typeof ORGANIZATION_FIELDS)[number]]?: OrganizationRow[Field] };

const flag = (value: boolean | undefined) => (value === undefined ? undefined : value ? 1 : 0);
const cleared = <Value>(value: Value, empty: Value) => (value === empty ? null : value);
const given = (fields: { readonly [Field in keyof OrganizationFields]: OrganizationFields[Field] | undefined }) =>
	Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as OrganizationFields;

const policiesOf = (body: UpdateBody) =>
	given({
		enforce_hashed_api_keys: flag(body.enforce_hashed_api_keys),
		require_apikey_expiration: flag(body.require_apikey_expiration),
		max_apikey_expiration_days: cleared(body.max_apikey_expiration_days, 0),
	});

const fieldsOf = (body: UpdateBody) =>
	given({
		name: body.name,
		management_email: cleared(body.management_email, ""),
		website: cleared(body.website, ""),
		logo: cleared(body.logo, ""),
		require_signed_bundles: flag(body.require_signed_bundles),
		...policiesOf(body),
	});

/** The given fields whose value differs from the row. */
function changedFields(row: OrganizationRow, given: OrganizationFields): OrganizationFields {
	return Object.fromEntries(
		ORGANIZATION_FIELDS.filter((field) => field in given && given[field] !== row[field]).map((field) => [
			field,
			given[field],
		]),
	);
}

/** The changed fields as responses show them, for the audit log. */
function shownFields(row: OrganizationRow, changes: OrganizationFields): Record<string, unknown> {
	const answer = organizationAnswer(row);
	return Object.fromEntries(
		ORGANIZATION_FIELDS.filter((field) => field in changes).map((field) => [field, answer[field]]),
	);
}

const policyStopsEveryAdminKey = (suspendedKeys: readonly { readonly id: string; readonly name: string }[]) =>
	new ApiError(
		"policy_stops_every_admin_key",
		"This policy would suspend every key that owns or administers the organization. First regenerate one with hashed: true, or set its expires_at within the limit.",
		{ moreInfo: { stopped_api_keys: suspendedKeys } },
	);
