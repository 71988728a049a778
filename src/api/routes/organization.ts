/**
 * Organizations: the tenants. A key sees those in which a binding of its own lets it; whoever creates one administers it, the key
 * as well as the account that the key acts for. Policies are changed in such a way that no organization can lock itself out.
 */
import * as v from "valibot";
import { decide, deletedOrgsWhere, orgsWhere } from "../../authz/decide";
import { ADMINISTERING_ROLES, OWNING_ROLES } from "../../authz/member-roles";
import { lacksPermission, violatesPolicy } from "../../authz/principal";
import { auditStatement } from "../../db/audit";
import { batchOrFail, guard } from "../../db/client";
import {
	deletedOrganizationsPage,
	keysUnderPolicy,
	type OrganizationRow,
	organizationById,
	organizationIsAsRead,
	organizationsPage,
	RESTORABLE_MS,
	someKeyStillAdministers,
	updateOrganization as updateOrganizationStatement,
} from "../../db/organizations";
import { policyHasSigningKey, unsignedChannels } from "../../db/signing-keys";
import { KEY_POLICY_NAMES, MOST_EXPIRATION_DAYS } from "../../domain/key-policy";
import { ApiError } from "../../errors";
import { endpoint, Reply } from "../endpoint";
import { addOrganization } from "../organization-creation";
import { pageBounds, pageReply } from "../page";
import { changesPolicy, keysStoppedBy, organizationChanged } from "../policy-change";
import {
	booleanText,
	emailAddress,
	imageUrl,
	label,
	nullableRfc3339,
	nullableTime,
	optional,
	pageNumber,
	rfc3339,
	time,
	uuid,
	webUrl,
} from "../schemas";
import { organizationNotFound, orgScope } from "../scope";
import { refusedFields, refuseSettings } from "../stock-settings";
import {
	MOST_UNSIGNED_CHANNELS,
	signingKeyRequired,
	unsignedChannelFields,
	unsignedChannelsAnswer,
} from "./signing-key";

const organizationSchema = v.strictObject({
	id: v.string(),
	name: v.string(),
	logo: v.nullable(v.string()),
	website: v.nullable(v.string()),
	management_email: v.nullable(v.string()),
	created_by: v.string(),
	created_at: time,
	updated_at: time,
	enforce_hashed_api_keys: v.boolean(),
	require_apikey_expiration: v.boolean(),
	max_apikey_expiration_days: v.nullable(v.number()),
	require_signed_bundles: v.boolean(),
});

const deletedOrganizationSchema = v.strictObject({
	...organizationSchema.entries,
	deleted_at: time,
	restorable_until: time,
});

function organizationAnswer(row: OrganizationRow): v.InferOutput<typeof organizationSchema> {
	return {
		id: row.id,
		name: row.name,
		logo: row.logo,
		website: row.website,
		management_email: row.management_email,
		created_by: row.created_by,
		created_at: rfc3339(row.created_at_ms),
		updated_at: rfc3339(row.updated_at_ms),
		enforce_hashed_api_keys: row.enforce_hashed_api_keys === 1,
		require_apikey_expiration: row.require_apikey_expiration === 1,
		max_apikey_expiration_days: row.max_apikey_expiration_days,
		require_signed_bundles: row.require_signed_bundles === 1,
	};
}

const EXAMPLE_ORGANIZATION = {
	id: "b7c1d3de-8f5a-4f43-93d3-1b0f6a4c9e21",
	name: "My organization",
	logo: null,
	website: null,
	management_email: null,
	created_by: "0c7f0c5e-34a5-4f5c-8b60-8a2f0b8c1d11",
	created_at: "2026-11-21T08:00:00.000Z",
	updated_at: "2026-11-21T08:00:00.000Z",
	enforce_hashed_api_keys: false,
	require_apikey_expiration: false,
	max_apikey_expiration_days: null,
	require_signed_bundles: false,
};

export const listOrganizations = endpoint({
	method: "GET",
	path: "/organization",
	tag: "Organizations",
	summary: "List the organizations that the caller can read, or show one",
	description:
		"With `orgId` the answer is that one organization instead of a list. `deleted=true` lists the deleted ones that the caller may bring back with POST /organization/restore, the last deleted first; they are gone for good at `restorable_until`.",
	access: { anyKey: "Shows the organizations in which a binding of the caller holds org.read." },
	query: v.pipe(
		v.object({ orgId: optional(uuid), deleted: optional(booleanText), page: pageNumber }),
		v.forward(
			v.partialCheck(
				[["orgId"], ["deleted"]],
				({ orgId, deleted }) => orgId === undefined || deleted !== true,
				"is for the list; leave orgId out",
			),
			["deleted"],
		),
	),
	response: v.union([v.array(organizationSchema), v.array(deletedOrganizationSchema), organizationSchema]),
	errors: ["permission_denied", "organization_not_found"],
	example: { query: { page: "0" }, response: [EXAMPLE_ORGANIZATION] },
	async handle({ db, principal, input, request, origin, nowMs }) {
		const { orgId, deleted, page } = input.query;
		if (deleted === true) {
			const { limit, offset } = pageBounds(page);
			const restorable = deletedOrgsWhere(principal, "org.delete");
			const [organizations] = await db.batch([
				deletedOrganizationsPage(restorable, nowMs - RESTORABLE_MS, limit, offset),
			]);
			return pageReply({ request, origin }, page, organizations.rows, (row) => ({
				...organizationAnswer(row),
				deleted_at: rfc3339(row.deleted_at_ms),
				restorable_until: rfc3339(row.deleted_at_ms + RESTORABLE_MS),
			}));
		}
		const readable = orgsWhere(principal, "org.read");
		if (orgId === undefined) {
			const { limit, offset } = pageBounds(page);
			const [organizations] = await db.batch([organizationsPage(readable, limit, offset)]);
			return pageReply({ request, origin }, page, organizations.rows, organizationAnswer);
		}
		const decision = decide(principal, "org.read", { orgId });
		if (decision.outcome === "hidden") throw organizationNotFound();
		if (decision.outcome === "stopped") throw violatesPolicy(decision.policy, orgId);
		if (decision.outcome === "forbidden") throw lacksPermission(principal, decision.permission, decision.scope);
		const [organizations] = await db.batch([
			organizationsPage(
				readable.filter((id) => id === orgId),
				1,
				0,
			),
		]);
		const [organization] = organizations.rows;
		if (organization === undefined) throw organizationNotFound();
		return organizationAnswer(organization);
	},
});

export const createOrganization = endpoint({
	method: "PUT",
	path: "/organization",
	tag: "Organizations",
	summary: "Create an organization",
	description:
		"The calling key administers the new organization, and the account that it acts for becomes a member of it with the same role. A body with `orgId` means a change, which is POST, and is refused.",
	access: { globalPermission: "org.create" },
	body: v.object({
		// First, so that its message comes first: elsewhere PUT changes an organization, and sends only what changes.
		orgId: optional(
			v.pipe(
				v.string(),
				v.check(
					() => false,
					"is for a change; PUT creates, POST /organization changes: send it this body, or use the settings of the organization in the dashboard",
				),
			),
		),
		name: label(),
		management_email: optional(emailAddress),
		website: optional(webUrl),
		logo: optional(imageUrl),
		...refusedFields("PUT /organization"),
	}),
	status: [201],
	response: v.strictObject({ status: v.literal("Organization created"), id: v.string() }),
	errors: ["quota_exceeded", "setting_not_supported"],
	example: {
		body: { name: "Example Ltd", management_email: "ada@example.com", website: "https://example.com" },
		response: { status: "Organization created", id: EXAMPLE_ORGANIZATION.id },
	},
	async handle(context) {
		const fields = context.input.body;
		refuseSettings("PUT /organization", fields);
		return new Reply(201, { status: "Organization created" as const, id: await addOrganization(context, fields) });
	},
});

/** Keys that an answer names; the count says how many there are. */
const MOST_STOPPED_KEYS = 100;
/** Keys of which a change of policies makes sure that one is left. */
const MOST_WITNESSES = 50;

const stoppedKeySchema = v.strictObject({
	id: v.string(),
	name: v.string(),
	org_id: v.string(),
	policy: v.picklist(KEY_POLICY_NAMES),
	expires_at: nullableTime,
});

/** "" clears. */
const clearable = <const Schema extends v.GenericSchema<string, string>>(schema: Schema) =>
	optional(v.union([v.literal(""), schema]));

export const updateOrganization = endpoint({
	method: "POST",
	path: "/organization",
	tag: "Organizations",
	summary: "Change an organization, its policies included",
	description:
		'Fields that are left out stay as they are; "" clears an address, 0 switches `max_apikey_expiration_days` off. `stopped_api_keys` are the keys that work now and that the changed policies stop, the first 100 of `stopped_api_key_count`. `dry_run` (here or as `?dry_run=true`) tells all that and changes nothing. A change that would leave no working key which administers the organization, or none of those that own it, is refused. `require_signed_bundles` demands that new bundles are encrypted with the private key of a registered signing key, and lets only such be promoted; the answer to switching it on names the first 100 channels that serve others (`unsigned_channels`), which stay served until they are replaced.',
	access: { permission: "org.update_settings", scope: orgScope("body.orgId") },
	recentSignIn: ({ query, body }) =>
		query.dry_run !== true &&
		body.dry_run !== true &&
		(body.require_signed_bundles === false || KEY_POLICY_NAMES.some((name) => body[name] !== undefined)),
	query: v.object({ dry_run: optional(booleanText) }),
	body: v.object({
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
	}),
	response: v.strictObject({
		status: v.picklist(["Organization updated", "Dry run: nothing was changed"]),
		id: v.string(),
		data: organizationSchema,
		stopped_api_keys: v.array(stoppedKeySchema),
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
	load: ({ body }, nowMs) =>
		[
			organizationById(body.orgId),
			keysUnderPolicy(body.orgId, ADMINISTERING_ROLES, OWNING_ROLES, nowMs, changesPolicy(policiesOf(body))),
			unsignedChannels(body.orgId, "", MOST_UNSIGNED_CHANNELS, body.require_signed_bundles === true),
		] as const,
	async handle({ db, scope, input, loaded, nowMs, actor }) {
		refuseSettings("POST /organization", input.body);
		const [before] = loaded[0].rows;
		if (before === undefined) throw organizationNotFound();
		const changes = changedFields(before, fieldsOf(input.body));
		const after: OrganizationRow = { ...before, ...changes };
		const { stopped, tightens, administering, owning } = keysStoppedBy(before, after, loaded[1].rows, nowMs);
		const stoppedKeys = stopped.slice(0, MOST_STOPPED_KEYS).map(({ key, policy }) => ({
			id: key.id,
			name: key.name,
			org_id: key.org_id,
			policy,
			expires_at: nullableRfc3339(key.expires_at_ms),
		}));
		const losesAll = ({ before, after }: typeof owning) => before.length > 0 && after.length === 0;
		if (tightens && (losesAll(administering) || losesAll(owning))) throw stopsEveryAdminKey(stoppedKeys);
		// Where keys that own it work, one of them must go on to; else one that administers it. Where people alone administer it there is
		// nothing to stop: policies do not concern them.
		const [left, roles] =
			owning.after.length > 0 ? [owning.after, OWNING_ROLES] : [administering.after, ADMINISTERING_ROLES];

		const changed = Object.keys(changes).length > 0;
		const dryRun = input.query.dry_run === true || input.body.dry_run === true;
		if (changed && !dryRun) {
			// Never twice the same, so that a change made meanwhile is seen even within a millisecond.
			after.updated_at_ms = Math.max(nowMs, before.updated_at_ms + 1);
			const witnesses = left.slice(0, MOST_WITNESSES);
			await batchOrFail(
				db,
				[
					guard("as_read", organizationIsAsRead(scope.orgId, before)),
					...(tightens && left.length > 0
						? [guard("admin_key_left", someKeyStillAdministers(scope.orgId, witnesses, roles, nowMs))]
						: []),
					updateOrganizationStatement(scope.orgId, { ...changes, updated_at_ms: after.updated_at_ms }),
					guard("has_signing_key", policyHasSigningKey(scope.orgId)),
					auditStatement(actor, nowMs, {
						orgId: scope.orgId,
						action: "organization.update",
						target: { type: "organization", id: scope.orgId, name: after.name },
						before: shownFields(before, changes),
						after: shownFields(after, changes),
						...(stopped.length === 0 ? {} : { details: { stopped_api_key_count: stopped.length } }),
					}),
				],
				{
					as_read: organizationChanged,
					has_signing_key: signingKeyRequired,
					admin_key_left: () => stopsEveryAdminKey(stoppedKeys),
				},
			);
		}
		return {
			status: dryRun ? ("Dry run: nothing was changed" as const) : ("Organization updated" as const),
			id: scope.orgId,
			data: organizationAnswer(after),
			stopped_api_keys: stoppedKeys,
			stopped_api_key_count: stopped.length,
			...unsignedChannelsAnswer(loaded[2].rows),
		};
	},
});

const ORGANIZATION_FIELDS = [
	"name",
	"management_email",
	"website",
	"logo",
	"require_signed_bundles",
	...KEY_POLICY_NAMES,
] as const;
type OrganizationFields = { -readonly [Field in (typeof ORGANIZATION_FIELDS)[number]]?: OrganizationRow[Field] };

interface UpdateBody {
	readonly name?: string | undefined;
	readonly management_email?: string | undefined;
	readonly website?: string | undefined;
	readonly logo?: string | undefined;
	readonly enforce_hashed_api_keys?: boolean | undefined;
	readonly require_apikey_expiration?: boolean | undefined;
	readonly max_apikey_expiration_days?: number | undefined;
	readonly require_signed_bundles?: boolean | undefined;
}

const flag = (value: boolean) => (value ? 1 : 0);

function policiesOf(body: UpdateBody): OrganizationFields {
	const { enforce_hashed_api_keys: hashed, require_apikey_expiration: expiry, max_apikey_expiration_days: days } = body;
	return {
		...(hashed === undefined ? {} : { enforce_hashed_api_keys: flag(hashed) }),
		...(expiry === undefined ? {} : { require_apikey_expiration: flag(expiry) }),
		...(days === undefined ? {} : { max_apikey_expiration_days: days === 0 ? null : days }),
	};
}

function fieldsOf(body: UpdateBody): OrganizationFields {
	return {
		...(body.name === undefined ? {} : { name: body.name }),
		...(body.management_email === undefined ? {} : { management_email: body.management_email || null }),
		...(body.website === undefined ? {} : { website: body.website || null }),
		...(body.logo === undefined ? {} : { logo: body.logo || null }),
		...(body.require_signed_bundles === undefined ? {} : { require_signed_bundles: flag(body.require_signed_bundles) }),
		...policiesOf(body),
	};
}

/** The given fields that have another value now. */
function changedFields(row: OrganizationRow, given: OrganizationFields): OrganizationFields {
	return Object.fromEntries(
		ORGANIZATION_FIELDS.filter((field) => field in given && given[field] !== row[field]).map((field) => [
			field,
			given[field],
		]),
	);
}

/** The changed fields as answers show them. */
function shownFields(row: OrganizationRow, changes: OrganizationFields): Record<string, unknown> {
	const answer = organizationAnswer(row);
	return Object.fromEntries(
		ORGANIZATION_FIELDS.filter((field) => field in changes).map((field) => [field, answer[field]]),
	);
}

const stopsEveryAdminKey = (stoppedKeys: readonly { readonly id: string; readonly name: string }[]) =>
	new ApiError(
		"policy_stops_every_admin_key",
		"No key of the organization's owners, or none that administers it, would work any more; first regenerate one with hashed: true, or give one an expires_at within the limit.",
		{ moreInfo: { stopped_api_keys: stoppedKeys } },
	);
