/**
 * Changes an API key: its name, expiry, bindings, global permissions, addresses, or secret. Fields
 * that the request omits stay. The changed key must meet the organization's policies, so that no
 * change bypasses them. Regeneration keeps the id and the bindings; the old secret stays valid for
 * an overlap of at most a day, never past its own expiry.
 */
import { type CompiledQuery, sql } from "kysely";
import * as v from "valibot";
import type { OrgId } from "../../authz/decide";
import { refuseLongerLife, refuseMoreAddresses } from "../../authz/granting";
import { administersOrganization, type Role } from "../../authz/permissions";
import { type Principal, policyOf } from "../../authz/principal";
import { mintKey } from "../../authz/secrets";
import {
	type ApiKeyRow,
	apiKeyById,
	apiKeyRecord,
	apiKeyUnchanged,
	appsAreOf,
	clearReveals,
	currentKeyHash,
	markRevealed,
	type PoliciesElsewhere,
	policiesElsewhere,
	policiesElsewhereAre,
	updateApiKey,
} from "../../db/api-keys";
import { appUuidsInOrgOfKey } from "../../db/apps";
import { auditBindingsTaken } from "../../db/audit/bindings";
import { type Actor, auditStatement } from "../../db/audit/entries";
import { channelsExist, existingChannels } from "../../db/channels";
import { guard, jsonList, lastResult } from "../../db/client";
import { customRolesOfKey, rolesFrom, rolesUnchanged } from "../../db/custom-roles";
import { type PolicyColumns, policiesAre } from "../../db/organizations";
import { deleteBindings } from "../../db/role-bindings";
import { endUploadLinks } from "../../db/uploads";
import type { Deps } from "../../deps";
import { isInRanges } from "../../domain/network/ip-allow-list";
import { ApiError, fieldError, invalidRequest } from "../../errors";
import { endpoint } from "../../http/endpoint";
import { label, optional, timestamp } from "../../http/schemas";
import { auditedChange, bindingsAfter, gainsOf, type KeyAfter, keyAfter, NEVER } from "./difference";
import { organizationChanged } from "./policy-change";
import { givenBy, promoterGuards, secretGuards } from "./promoter-guards";
import {
	addressColumn,
	appsOf,
	channelsOf,
	EXAMPLE_KEY,
	globalPermissionNames,
	insertBindings,
	ipAllowList,
	keyAnswer,
	keySchema,
	keyWithSecretSchema,
	newBindings,
	secretColumns,
} from "./record";
import {
	refuseBrokenPolicy,
	refuseBrokenPolicyElsewhere,
	refuseGlobalPermissions,
	refuseMisplacedBindings,
	refusePast,
	refuseStrongerBindings,
	refuseStrongerPermissions,
	refuseToWeakenStrongerKey,
	rolesOfKey,
} from "./rules";
import { appsDeleted, keyChanged, keyNotFound, keyScope } from "./scope";

const LONGEST_OVERLAP_SECONDS = 24 * 60 * 60;

const body = v.object({
	name: optional(label()),
	expires_at: optional(v.union([v.literal(NEVER), timestamp], `must be an RFC 3339 time, or "${NEVER}"`)),
	bindings: optional(newBindings),
	global_permissions: optional(globalPermissionNames),
	ip_allow_list: optional(ipAllowList),
	regenerate: optional(v.boolean()),
	hashed: optional(v.boolean()),
	overlap_seconds: optional(
		v.pipe(
			v.number(),
			v.integer("must be a whole number of seconds"),
			v.minValue(0, "must be 0 or more"),
			v.maxValue(LONGEST_OVERLAP_SECONDS, `must be at most ${LONGEST_OVERLAP_SECONDS}, which is 24 hours`),
		),
	),
});
type ChangeInput = v.InferOutput<typeof body>;

export const changeKey = endpoint({
	method: "PUT",
	path: "/apikey/:id",
	tag: "API keys",
	summary: "Change an API key, or regenerate its secret",
	description: [
		"Omitted fields stay.",
		'`expires_at: "never"` removes the expiry; `ip_allow_list: []` removes the limit on addresses.',
		"`bindings` replaces the bindings in the key's organization.",
		"Bindings that stay keep their ids; bindings that the service created in other organizations stay.",
		"A key that loses its last administering role loses `org.create` as well.",
		"`regenerate: true` returns a new secret, shown once.",
		"`hashed` then decides whether it can be revealed later, and `overlap_seconds` (up to 86400) how long",
		"the old secret stays valid, never past its own expiry.",
	],
	access: { permission: "org.manage_apikeys", scope: keyScope },
	refusesUnknown: true,
	recentSignIn: ({ body: { name: _, ...rest } }) => Object.values(rest).some((value) => value !== undefined),
	body,
	response: v.union([keySchema, keyWithSecretSchema]),
	errors: [
		"api_key_not_found",
		"api_key_changed",
		"api_key_of_publisher",
		"organization_changed",
		"cannot_delete_own_api_key",
		"invalid_global_permissions",
		"hashed_api_key_required",
		"expiration_required",
		"expiration_exceeds_max",
	],
	example: {
		body: { regenerate: true, overlap_seconds: 3600, expires_at: "2027-02-28T00:00:00Z" },
		response: {
			...EXAMPLE_KEY,
			expires_at: "2027-02-28T00:00:00.000Z",
			previous_key_valid_until: "2026-11-21T09:00:00.000Z",
			key: "cap_…",
		},
	},
	load: ({ params, body }) => {
		const id = params.id.toLowerCase();
		return {
			key: apiKeyById(id),
			secret: currentKeyHash(id),
			apps: appUuidsInOrgOfKey(id, appsOf(body.bindings ?? [])),
			policies: policiesElsewhere(id),
			channels: existingChannels(channelsOf(body.bindings ?? [])),
			customRoles: customRolesOfKey(id),
		};
	},
	async handle({ db, deps, principal, scope, scopeRow, input, loaded, nowMs, actor }) {
		const [row] = loaded.key;
		const [secret] = loaded.secret;
		if (row === undefined || secret === undefined) throw keyNotFound();
		if (row.publisher_id !== null) {
			throw new ApiError(
				"api_key_of_publisher",
				"This key belongs to a trusted publisher and has no secret; change the publisher with PUT /publisher.",
				{ moreInfo: { publisher_id: row.publisher_id } },
			);
		}
		const { body: change } = input;
		const { orgId } = scope;
		const elsewhere = loaded.policies;
		const customRoles = rolesFrom(loaded.customRoles);
		refuseEmptyChange(change);
		const after = keyAfter(row, change, orgId);
		if (change.expires_at !== undefined) refusePast(after.expiresAtMs, nowMs);
		const apps = new Set(loaded.apps.map((app) => app.id));
		refuseMisplacedBindings(change.bindings ?? [], orgId, apps, loaded.channels, customRoles);
		const gains = refuseForbiddenChange({
			principal,
			row,
			change,
			after,
			orgId,
			policies: scopeRow,
			elsewhere,
			customRoles,
			nowMs,
		});
		if (row.id === principal.keyId) refuseLockout(change, after, orgId, actor.ipAddress);

		const minted = change.regenerate === true ? mintKey(deps.randomBytes) : undefined;
		const { bindings } = after;
		const results = await db.batch([
			guard(apiKeyUnchanged(row), keyChanged),
			guard(policiesAre(orgId, scopeRow), organizationChanged),
			guard(policiesElsewhereAre(elsewhere), keyChanged),
			guard(rolesUnchanged(rolesOfKey(row, bindings.added, customRoles)), keyChanged),
			...promoterGuards(principal, orgId, bindings.added.map(givenBy)),
			...(gains ? secretGuards(principal, row) : []),
			guard(appsAreOf(orgId, appsOf(bindings.added)), appsDeleted),
			guard(channelsExist(channelsOf(bindings.added)), appsDeleted),
			updateApiKey(orgId, row.id, {
				...columnsAfter(row, after, nowMs),
				...(minted === undefined
					? {}
					: {
							...(await secretColumns(minted, row.id, after.hashed, deps, nowMs)),
							...previousSecret(row, secret.key_hash, change.overlap_seconds ?? 0, nowMs),
						}),
			}),
			...(minted === undefined
				? []
				: [
						...recordReveals(orgId, row, principal, nowMs),
						endUploadLinks(orgId, row, nowMs + 1_000 * (change.overlap_seconds ?? 0)),
					]),
			...moveBindings({ actor, orgId, row, bindings, deps, nowMs }),
			auditStatement(actor, nowMs, {
				orgId,
				action: minted === undefined ? "api_key.update" : "api_key.regenerate",
				target: { type: "api_key", id: row.id, name: after.name },
				...auditedChange(row, after, nowMs),
				...(minted === undefined ? {} : { details: { overlap_seconds: change.overlap_seconds ?? 0 } }),
			}),
			apiKeyRecord(orgId, row.id),
		]);
		const [changed] = lastResult(results).rows;
		if (changed === undefined) throw keyNotFound();
		return { ...keyAnswer(changed, nowMs), ...(minted === undefined ? {} : { key: minted.text }) };
	},
});

const columnsAfter = (row: ApiKeyRow, after: KeyAfter, nowMs: number) => ({
	name: after.name,
	expires_at_ms: after.expiresAtMs,
	global_permissions: JSON.stringify(after.globalPermissions),
	ip_allow_list: addressColumn(after.addresses),
	// Strictly increasing, so that the guard detects a concurrent change within the same millisecond.
	updated_at_ms: Math.max(nowMs, row.updated_at_ms + 1),
});

interface MovedBindings {
	readonly actor: Actor;
	readonly orgId: OrgId;
	readonly row: ApiKeyRow;
	readonly bindings: KeyAfter["bindings"];
	readonly deps: Pick<Deps, "newId">;
	readonly nowMs: number;
}

function moveBindings({ actor, orgId, row, bindings, deps, nowMs }: MovedBindings): CompiledQuery[] {
	const { added, removedIds } = bindings;
	return [
		// Bindings that came from the removed ones; the entry of the change itself names the removed ones.
		auditBindingsTaken(
			actor,
			nowMs,
			orgId,
			sql`b.api_key_id = ${row.id} AND b.parent_binding_id IN ${jsonList(JSON.stringify(removedIds))}`,
			{ reason: "parent_binding_removed" },
		),
		deleteBindings(orgId, row.id, removedIds),
		...insertBindings({ userId: row.user_id, keyId: row.id }, orgId, added, deps, nowMs),
	];
}

function refuseEmptyChange(change: ChangeInput): void {
	if (change.regenerate !== true) {
		const issues = (["hashed", "overlap_seconds"] as const)
			.filter((field) => change[field] !== undefined)
			.map((path) => ({ path, message: "applies only with regenerate: true; send both or neither" }));
		if (issues.length > 0) throw invalidRequest(issues);
	}
	if (Object.values(change).some((value) => value !== undefined && value !== false)) return;
	throw invalidRequest([{ path: "", message: "The body changes nothing; send at least one field." }]);
}

interface ChangeToCheck {
	readonly principal: Principal;
	readonly row: ApiKeyRow;
	readonly change: ChangeInput;
	readonly after: KeyAfter;
	readonly orgId: OrgId;
	readonly policies: PolicyColumns;
	readonly elsewhere: readonly PoliciesElsewhere[];
	readonly customRoles: readonly Role[];
	readonly nowMs: number;
}

/**
 * @returns whether who has the key, or gets its new secret, gains by the change
 * @throws {ApiError} when the key would violate a policy, or the change exceeds the caller's rights
 */
function refuseForbiddenChange({
	principal,
	row,
	change,
	after,
	orgId,
	policies,
	elsewhere,
	customRoles,
	nowMs,
}: ChangeToCheck): boolean {
	const gains = gainsOf(row, after, customRoles);
	// The key can use added rights until its expiry and from all its addresses, so a gain requires the
	// checks of both.
	const renewed = gains.rights || change.regenerate === true;
	const onlyWeakens = !renewed && !gains.life && !gains.addresses;
	const policy = policyOf(policies);
	// A key that a policy suspends can still be restricted, but an expiry that this request sets must
	// meet the policy.
	const restricts = onlyWeakens && (change.bindings ?? change.ip_allow_list ?? change.expires_at) !== undefined;
	if (!restricts) refuseBrokenPolicy(policy, after, nowMs);
	else if (change.expires_at !== undefined) refuseBrokenPolicy({ ...policy, enforceHashed: false }, after, nowMs);
	if (onlyWeakens) refuseToWeakenStrongerKey(principal, row, orgId);
	else refuseStrongerPermissions(principal, row);
	// Only after the strength checks, because the error reveals another organization's policies.
	const before = { hashed: row.is_hashed_key === 1, expiresAtMs: row.expires_at_ms };
	refuseBrokenPolicyElsewhere(elsewhere, before, after, nowMs);
	refuseStrongerBindings(principal, change.bindings ?? [], customRoles);
	if (change.global_permissions !== undefined) {
		const roles = bindingsAfter(after).map((binding) => binding.role_name);
		refuseGlobalPermissions(principal, after.globalPermissions, roles);
	}
	if (renewed || gains.life) refuseLongerLife(principal, after.expiresAtMs, nowMs);
	if (renewed || gains.addresses) refuseMoreAddresses(principal, after.addresses);
	return !onlyWeakens;
}

/**
 * Refuses a key that removes its own administering role or address, because no other key might be
 * able to restore it.
 */
function refuseLockout(change: ChangeInput, after: KeyAfter, orgId: OrgId, ipAddress: string | null): void {
	const administers = bindingsAfter(after).some(
		(binding) => binding.org_id === orgId && administersOrganization(binding.role_name),
	);
	if (change.bindings !== undefined && !administers) {
		throw fieldError(
			"cannot_delete_own_api_key",
			"bindings",
			"a key cannot remove its own administering role. Use another key of the organization.",
		);
	}
	const { addresses } = after;
	if (change.ip_allow_list !== undefined && addresses.length > 0 && !isInRanges(addresses, ipAddress)) {
		const message = "must include the address of this request, or the key would lock itself out";
		throw invalidRequest([{ path: "ip_allow_list", message, received: ipAddress ?? "unknown" }]);
	}
}

/**
 * After a regeneration only the actor has seen the secret; it is recorded if the key belongs to
 * another account.
 */
function recordReveals(orgId: OrgId, row: ApiKeyRow, { userId }: Principal, nowMs: number): CompiledQuery[] {
	const seen = row.user_id === userId ? [] : [markRevealed(orgId, row.id, userId, nowMs)];
	return [clearReveals(orgId, row.id), ...seen];
}

/** The columns of the replaced secret: valid for the overlap, and never past its own expiry. */
function previousSecret(row: ApiKeyRow, keyHash: string, overlapSeconds: number, nowMs: number) {
	if (overlapSeconds === 0) return { previous_key_hash: null, previous_valid_until_ms: null };
	const endMs = nowMs + overlapSeconds * 1000;
	return {
		previous_key_hash: keyHash,
		previous_valid_until_ms: row.expires_at_ms === null ? endMs : Math.min(endMs, row.expires_at_ms),
	};
}
