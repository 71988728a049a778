/**
 * Changing an API key: its name, expiry, bindings, global permissions, addresses, and its secret. A change keeps what it does not name,
 * and the key must meet the organization's policies afterwards whatever was changed, so no change is a way around them. Regeneration
 * keeps the id and the bindings; for an overlap of at most a day the old secret works beside the new one, never past its own expiry.
 */
import { type CompiledQuery, sql } from "kysely";
import * as v from "valibot";
import type { OrgId } from "../../authz/decide";
import { mintKey, sealKey } from "../../authz/keys";
import { administersOrganization, GLOBAL_PERMISSIONS, isRoleName, ROLES } from "../../authz/permissions";
import { policyOf } from "../../authz/principal";
import {
	type ApiKeyRow,
	apiKeyById,
	apiKeyRecord,
	apiKeyUnchanged,
	appsAreOf,
	type BindingRecord,
	clearReveals,
	currentKeyHash,
	deleteBindings,
	type Holder,
	insertBinding,
	markRevealed,
	policiesElsewhere,
	policiesElsewhereAre,
	updateApiKey,
} from "../../db/api-keys";
import { appUuidsInOrgOfKey } from "../../db/apps";
import { auditStatement } from "../../db/audit";
import { auditBindingsTaken } from "../../db/binding-audit";
import { batchOrFail, guard, jsonList } from "../../db/client";
import { policiesAre } from "../../db/organizations";
import { firstRangeOutside, isInRanges } from "../../domain/ip-allow-list";
import { signingSecret } from "../../domain/secrets";
import { ApiError, invalidRequest } from "../../errors";
import {
	apiKeyAnswer,
	apiKeySchema,
	apiKeyWithSecretSchema,
	EXAMPLE_KEY,
	ipAllowList,
	type NewBindingInput,
	newBindings,
} from "../api-key-record";
import { endpoint } from "../endpoint";
import {
	refuseBrokenPolicy,
	refuseBrokenPolicyElsewhere,
	refuseGlobalPermissions,
	refuseLongerLife,
	refuseMisplacedBindings,
	refuseMoreAddresses,
	refuseStrongerBindings,
	refuseStrongerPermissions,
	refuseToWeakenStrongerKey,
} from "../key-rules";
import { organizationChanged } from "../policy-change";
import { label, optional, rfc3339, timestamp } from "../schemas";
import { apiKeyChanged, apiKeyNotFound, apiKeyScope, appsGone, appsOf, refusePast } from "./apikey";

const LONGEST_OVERLAP_SECONDS = 24 * 60 * 60;
const NEVER = "never";

const body = v.object({
	name: optional(label()),
	expires_at: optional(v.union([v.literal(NEVER), timestamp], `must be an RFC 3339 time, or "${NEVER}"`)),
	bindings: optional(newBindings),
	global_permissions: optional(
		v.array(v.picklist(GLOBAL_PERMISSIONS, `must be one of ${GLOBAL_PERMISSIONS.join(", ")}`)),
	),
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

export const changeApiKey = endpoint({
	method: "PUT",
	path: "/apikey/:id",
	tag: "API keys",
	summary: "Change an API key, or give it a new secret",
	description: [
		'What is left out stays. `expires_at: "never"` removes the expiry, `ip_allow_list: []` the limit on addresses.',
		"`bindings` replaces all bindings in the key's own organization; those that stay keep their ids, and bindings that the service gave in other organizations are left alone.",
		"`org.create` goes when the last binding that administers an organization goes.",
		"`regenerate: true` answers with a new secret, shown this once; `hashed` then chooses anew whether it can be revealed later, and `overlap_seconds` (up to 86400) how long the old secret works too, never past the expiry it had.",
	].join(" "),
	access: { permission: "org.manage_apikeys", scope: apiKeyScope },
	recentSignIn: ({ body: { name: _, ...rest } }) => Object.values(rest).some((value) => value !== undefined),
	body,
	response: v.union([apiKeySchema, apiKeyWithSecretSchema]),
	errors: [
		"api_key_not_found",
		"api_key_changed",
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
	load: (input) =>
		[
			apiKeyById(input.params.id.toLowerCase()),
			currentKeyHash(input.params.id.toLowerCase()),
			appUuidsInOrgOfKey(input.params.id.toLowerCase(), appsOf(input.body.bindings ?? [])),
			policiesElsewhere(input.params.id.toLowerCase()),
		] as const,
	async handle({ db, deps, principal, scope, scopeRow, input, loaded, nowMs, actor }) {
		const [row] = loaded[0].rows;
		const [secret] = loaded[1].rows;
		if (row === undefined || secret === undefined) throw apiKeyNotFound();
		const { body: change } = input;
		refuseEmptyChange(change);
		const bindings = bindingChange(row, scope.orgId, change.bindings);
		const after = {
			name: change.name ?? row.name,
			hashed: change.regenerate === true ? (change.hashed ?? row.is_hashed_key === 1) : row.is_hashed_key === 1,
			expiresAtMs: expiryAfter(row, change),
			addresses: change.ip_allow_list ?? (JSON.parse(row.ip_allow_list ?? "[]") as string[]),
			globalPermissions: globalPermissionsAfter(row, change, bindings.kept),
		};

		if (change.expires_at !== undefined) refusePast(after.expiresAtMs, nowMs);
		if (change.bindings !== undefined) {
			refuseMisplacedBindings(change.bindings, scope.orgId, new Set(loaded[2].rows.map((app) => app.id)));
		}
		// Rights that are added to a key are given with the life and the addresses that it has.
		const held: readonly string[] = JSON.parse(row.global_permissions);
		const gains =
			bindings.added.some((binding) => !isCovered(binding, row)) ||
			after.globalPermissions.some((permission) => !held.includes(permission));
		const renewed = gains || change.regenerate === true;
		const [longer, further] = [livesLonger(row, after), isUsedFromMore(row, after)];
		const takesOnly = !renewed && !longer && !further;
		const policy = policyOf(scopeRow);
		// A key that a policy stops can still be limited; what is set all the same must be right.
		const limited = takesOnly && (change.bindings ?? change.ip_allow_list ?? change.expires_at) !== undefined;
		if (!limited) refuseBrokenPolicy(policy, after, nowMs);
		else if (change.expires_at !== undefined) refuseBrokenPolicy({ ...policy, enforceHashed: false }, after, nowMs);
		if (takesOnly) refuseToWeakenStrongerKey(principal, row, scope.orgId);
		else refuseStrongerPermissions(principal, row);
		// After the question of strength, so that only who acts there as well is told of another organization's policies.
		const elsewhere = loaded[3].rows;
		const was = { hashed: row.is_hashed_key === 1, expiresAtMs: row.expires_at_ms };
		refuseBrokenPolicyElsewhere(elsewhere, was, after, nowMs);
		refuseStrongerBindings(principal, change.bindings ?? []);
		if (change.global_permissions !== undefined) {
			const roles = [...bindings.kept, ...bindings.added].map((binding) => binding.role_name);
			refuseGlobalPermissions(principal, after.globalPermissions, roles);
		}
		if (renewed || longer) {
			refuseLongerLife(principal, after.expiresAtMs, nowMs);
		}
		if (renewed || further) {
			refuseMoreAddresses(principal, after.addresses);
		}
		if (row.id === principal.keyId)
			refuseToShutItselfOut(change, bindings, scope.orgId, after.addresses, actor.ipAddress);

		const minted = change.regenerate === true ? mintKey(deps.randomBytes) : undefined;
		const results = await batchOrFail(
			db,
			[
				guard("key_changed", apiKeyUnchanged(row)),
				guard("policies_as_read", policiesAre(scope.orgId, scopeRow)),
				guard("policies_elsewhere_as_read", policiesElsewhereAre(elsewhere)),
				guard("apps_gone", appsAreOf(scope.orgId, appsOf(bindings.added))),
				updateApiKey(scope.orgId, row.id, {
					name: after.name,
					expires_at_ms: after.expiresAtMs,
					global_permissions: JSON.stringify(after.globalPermissions),
					ip_allow_list: after.addresses.length === 0 ? null : JSON.stringify(after.addresses),
					// Never twice the same, so that a change made meanwhile is seen even within a millisecond.
					updated_at_ms: Math.max(nowMs, row.updated_at_ms + 1),
					...(minted === undefined
						? {}
						: {
								key_hash: minted.hash,
								key_hint: minted.hint,
								key_ciphertext: after.hashed
									? null
									: await sealKey(minted.text, row.id, signingSecret(deps.config.secrets, nowMs), deps.randomBytes),
								...previousSecret(row, secret.key_hash, change.overlap_seconds ?? 0, nowMs),
							}),
				}),
				...(minted === undefined ? [] : [clearReveals(scope.orgId, row.id)]),
				// An account that creates the new secret of another account's key knows it.
				...(minted === undefined || row.user_id === principal.userId
					? []
					: [markRevealed(scope.orgId, row.id, principal.userId, nowMs)]),
				// What came from them; the entry of the change names the bindings that it is about.
				auditBindingsTaken(
					actor,
					nowMs,
					scope.orgId,
					sql`b.api_key_id = ${row.id} AND b.parent_binding_id IN ${jsonList(JSON.stringify(bindings.removedIds))}`,
					{ reason: "parent_binding_removed" },
				),
				deleteBindings(scope.orgId, row.id, bindings.removedIds),
				...bindings.added.map((binding) =>
					addBinding({ userId: row.user_id, keyId: row.id }, scope.orgId, binding, deps.newId(), nowMs),
				),
				apiKeyRecord(scope.orgId, row.id),
				auditStatement(actor, nowMs, {
					orgId: scope.orgId,
					action: change.regenerate === true ? "api_key.regenerate" : "api_key.update",
					target: { type: "api_key", id: row.id, name: after.name },
					...auditedChange(row, after, bindings, nowMs),
					...(change.regenerate === true ? { details: { overlap_seconds: change.overlap_seconds ?? 0 } } : {}),
				}),
			],
			{
				key_changed: apiKeyChanged,
				policies_as_read: organizationChanged,
				policies_elsewhere_as_read: apiKeyChanged,
				apps_gone: appsGone,
			},
		);
		const changed = (results.at(-2) as { rows: ApiKeyRow[] } | undefined)?.rows[0];
		if (changed === undefined) throw apiKeyNotFound();
		return { ...apiKeyAnswer(changed, nowMs), ...(minted === undefined ? {} : { key: minted.text }) };
	},
});

function refuseEmptyChange(change: ChangeInput): void {
	if (change.regenerate !== true) {
		const issues = (["hashed", "overlap_seconds"] as const)
			.filter((field) => change[field] !== undefined)
			.map((path) => ({ path, message: "belongs to regenerate: true; send both or neither" }));
		if (issues.length > 0) throw invalidRequest(issues);
	}
	if (Object.values(change).some((value) => value !== undefined && value !== false)) return;
	throw invalidRequest([{ path: "", message: "The body changes nothing; send at least one field." }]);
}

/** A key that takes its own administration or its own address away may be the last one that could give it back. */
function refuseToShutItselfOut(
	change: ChangeInput,
	bindings: BindingChange,
	orgId: OrgId,
	addresses: readonly string[],
	ipAddress: string | null,
): void {
	const roles = [...bindings.kept, ...bindings.added]
		.filter((binding) => binding.org_id === orgId)
		.map((binding) => binding.role_name);
	if (change.bindings !== undefined && !roles.some(administersOrganization)) {
		throw new ApiError(
			"cannot_delete_own_api_key",
			"bindings: a key cannot take its own administration away; do it with another key of the organization.",
		);
	}
	if (change.ip_allow_list !== undefined && addresses.length > 0 && !isInRanges(addresses, ipAddress)) {
		const message = "must hold the address of this request, or the key would shut itself out";
		throw invalidRequest([{ path: "ip_allow_list", message, received: ipAddress ?? "unknown" }]);
	}
}

/** Whether the key can do all of it already, by a binding that it has at the same place or above. */
function isCovered(binding: NewBindingInput, row: ApiKeyRow): boolean {
	const wanted = ROLES[binding.role_name];
	return (JSON.parse(row.bindings) as BindingRecord[]).some((held) => {
		if (held.org_id !== binding.org_id || held.expires_at_ms !== null || !isRoleName(held.role_name)) return false;
		const above = held.scope_type === "org" || ("app_id" in binding && held.app_id === binding.app_id);
		const role = ROLES[held.role_name];
		return (
			above &&
			held.channel_id === null &&
			(role.ownWorkOnly !== true || wanted.ownWorkOnly === true) &&
			wanted.permissions.every((permission) => role.permissions.includes(permission))
		);
	});
}

function livesLonger(row: ApiKeyRow, after: KeyAfter): boolean {
	const end = (expiresAtMs: number | null) => expiresAtMs ?? Number.POSITIVE_INFINITY;
	return end(after.expiresAtMs) > end(row.expires_at_ms);
}

function isUsedFromMore(row: ApiKeyRow, after: KeyAfter): boolean {
	if (row.ip_allow_list === null) return false;
	return (
		after.addresses.length === 0 || firstRangeOutside(after.addresses, JSON.parse(row.ip_allow_list)) !== undefined
	);
}

function expiryAfter(row: ApiKeyRow, change: ChangeInput): number | null {
	if (change.expires_at === undefined) return row.expires_at_ms;
	return change.expires_at === NEVER ? null : change.expires_at;
}

interface BindingChange {
	/** Bindings that stay, those in other organizations among them. */
	readonly kept: readonly BindingRecord[];
	readonly removedIds: readonly string[];
	readonly added: readonly NewBindingInput[];
}

/** What `bindings` changes. A binding that stays keeps its id, and with it what the service gave because of it. */
function bindingChange(row: ApiKeyRow, orgId: OrgId, wanted: readonly NewBindingInput[] | undefined): BindingChange {
	const current: BindingRecord[] = JSON.parse(row.bindings);
	if (wanted === undefined) return { kept: current, removedIds: [], added: [] };
	const identity = (role: string, appId: string | null | undefined) => `${role} ${appId ?? ""}`;
	const wantedIdentities = new Set(
		wanted.map((binding) => identity(binding.role_name, "app_id" in binding ? binding.app_id : null)),
	);
	const own = current.filter((binding) => binding.org_id === orgId && binding.parent_binding_id === null);
	const isKept = (binding: BindingRecord) => wantedIdentities.has(identity(binding.role_name, binding.app_id));
	const removed = own.filter((binding) => !isKept(binding));
	const removedIds = removed.map((binding) => binding.id);
	const ownIdentities = new Set(own.map((binding) => identity(binding.role_name, binding.app_id)));
	return {
		// What came from a binding goes with it.
		kept: current.filter(
			({ id, parent_binding_id }) => !removedIds.includes(id) && !removedIds.includes(parent_binding_id ?? ""),
		),
		removedIds,
		added: wanted.filter(
			(binding) => !ownIdentities.has(identity(binding.role_name, "app_id" in binding ? binding.app_id : null)),
		),
	};
}

/** What was asked for; else what the key has, as long as something of it still administers an organization. */
function globalPermissionsAfter(row: ApiKeyRow, change: ChangeInput, kept: readonly BindingRecord[]): string[] {
	if (change.global_permissions !== undefined) return [...new Set(change.global_permissions)];
	const roles = [...kept, ...(change.bindings ?? [])].map((binding) => binding.role_name);
	// What it lost with its last role of that kind, another one does not bring back.
	const administered = (JSON.parse(row.bindings) as BindingRecord[]).some(
		(binding) => binding.in_deleted_organization === 0 && administersOrganization(binding.role_name),
	);
	return administered && roles.some(administersOrganization) ? JSON.parse(row.global_permissions) : [];
}

/** The secret that is replaced: good for the overlap, and never past the expiry that it had. */
function previousSecret(row: ApiKeyRow, keyHash: string, overlapSeconds: number, nowMs: number) {
	if (overlapSeconds === 0) return { previous_key_hash: null, previous_valid_until_ms: null };
	const endMs = nowMs + overlapSeconds * 1000;
	return {
		previous_key_hash: keyHash,
		previous_valid_until_ms: row.expires_at_ms === null ? endMs : Math.min(endMs, row.expires_at_ms),
	};
}

function addBinding(
	holder: Holder,
	orgId: OrgId,
	binding: NewBindingInput,
	id: string,
	createdAtMs: number,
): CompiledQuery {
	const appId = "app_id" in binding ? binding.app_id : null;
	return insertBinding(binding.scope_type, { id, holder, role: binding.role_name, orgId, appId, createdAtMs });
}

interface KeyAfter {
	readonly name: string;
	readonly hashed: boolean;
	readonly expiresAtMs: number | null;
	readonly addresses: readonly string[];
	readonly globalPermissions: readonly string[];
}

/** The fields that differ, as they were and as they are. */
function auditedChange(row: ApiKeyRow, after: KeyAfter, bindings: BindingChange, nowMs: number) {
	const shown = apiKeyAnswer(row, nowMs);
	const short = (binding: { role_name: string; scope_type: string; org_id: string; app_id?: string | null }) => ({
		role_name: binding.role_name,
		scope_type: binding.scope_type,
		org_id: binding.org_id,
		app_id: binding.app_id ?? null,
	});
	const was: Record<string, unknown> = {
		name: shown.name,
		is_hashed_key: shown.is_hashed_key,
		expires_at: shown.expires_at,
		bindings: shown.bindings.map(short),
		global_permissions: shown.global_permissions,
		ip_allow_list: shown.ip_allow_list,
	};
	const is: Record<string, unknown> = {
		name: after.name,
		is_hashed_key: after.hashed,
		expires_at: after.expiresAtMs === null ? null : rfc3339(after.expiresAtMs),
		bindings: [...bindings.kept, ...bindings.added].map(short),
		global_permissions: after.globalPermissions,
		ip_allow_list: after.addresses,
	};
	const changed = Object.keys(is).filter((field) => JSON.stringify(was[field]) !== JSON.stringify(is[field]));
	const only = (record: Record<string, unknown>) => Object.fromEntries(changed.map((field) => [field, record[field]]));
	return { before: only(was), after: only(is) };
}
