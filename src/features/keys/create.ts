/**
 * Creates API keys. A caller can grant no more than it holds (rules.ts). The secret is returned
 * once.
 */
import * as v from "valibot";
import { refuseLongerLife, refuseMoreAddresses } from "../../authz/granting";
import { policyOf } from "../../authz/principal";
import { mintKey } from "../../authz/secrets";
import { apiKeyRecord, appsAreOf, insertApiKey } from "../../db/api-keys";
import { appUuidsInOrg } from "../../db/apps";
import { auditStatement } from "../../db/audit/entries";
import { channelsExist, existingChannels } from "../../db/channels";
import { guard, lastResult } from "../../db/client";
import { customRolesOf, rolesFrom, rolesUnchanged } from "../../db/custom-roles";
import { policiesAre } from "../../db/organizations";
import { keysOfOrganization } from "../../db/quotas";
import { endpoint, Reply } from "../../http/endpoint";
import { batchInQuotas } from "../../http/quotas";
import { label, nullableRfc3339, optional, timestamp, uuid } from "../../http/schemas";
import { organizationChanged } from "./policy-change";
import { givenBy, promoterGuards } from "./promoter-guards";
import {
	addressColumn,
	appsOf,
	channelsOf,
	EXAMPLE_BINDINGS,
	EXAMPLE_KEY,
	globalPermissionNames,
	insertBindings,
	ipAllowList,
	keyAnswer,
	keyWithSecretSchema,
	newBindings,
	secretColumns,
} from "./record";
import {
	refuseBrokenPolicy,
	refuseGlobalPermissions,
	refuseMisplacedBindings,
	refusePast,
	refuseStrongerBindings,
	rolesOfBindings,
} from "./rules";
import { appsDeleted, newKeyScope } from "./scope";

export const createKey = endpoint({
	method: "POST",
	path: "/apikey",
	tag: "API keys",
	summary: "Create an API key for one organization",
	description: [
		"`org_id` may be omitted if the bindings name the organization; all bindings must name the same one.",
		"The secret is in this response only, unless `hashed: false` stores it so that managers of the key",
		"can reveal it later.",
		"`ip_allow_list` limits the key to addresses;",
		"without it the key inherits the list of the calling key.",
	],
	access: { permission: "org.manage_apikeys", scope: newKeyScope },
	refusesUnknown: true,
	recentSignIn: true,
	query: v.object({ org_id: optional(uuid) }),
	body: v.object({
		name: label(),
		hashed: optional(v.boolean()),
		expires_at: optional(timestamp),
		bindings: optional(newBindings),
		global_permissions: optional(globalPermissionNames),
		ip_allow_list: optional(ipAllowList),
	}),
	status: [201],
	response: keyWithSecretSchema,
	errors: [
		"quota_exceeded",
		"invalid_global_permissions",
		"hashed_api_key_required",
		"expiration_required",
		"expiration_exceeds_max",
		"organization_changed",
	],
	example: {
		body: {
			name: EXAMPLE_KEY.name,
			hashed: true,
			expires_at: EXAMPLE_KEY.expires_at,
			bindings: EXAMPLE_BINDINGS,
			ip_allow_list: EXAMPLE_KEY.ip_allow_list,
		},
		response: { ...EXAMPLE_KEY, last_used_at: null, key: "cap_…" },
	},
	load: (input) => {
		const { org_id, bindings } = { org_id: input.query.org_id, bindings: input.body.bindings ?? [] };
		const orgId = org_id ?? bindings[0]?.org_id ?? "";
		return {
			apps: appUuidsInOrg(orgId, appsOf(bindings)),
			channels: existingChannels(channelsOf(bindings)),
			customRoles: customRolesOf(orgId),
		};
	},
	async handle({ db, deps, principal, scope, scopeRow, input, loaded, nowMs, actor }) {
		const { body } = input;
		const bindings = body.bindings ?? [];
		const globalPermissions = [...new Set(body.global_permissions ?? [])];
		const hashed = body.hashed !== false;
		const expiresAtMs = body.expires_at ?? null;
		const addresses = body.ip_allow_list ?? principal.ipAllowList ?? [];
		const customRoles = rolesFrom(loaded.customRoles);
		refusePast(expiresAtMs, nowMs);
		const apps = new Set(loaded.apps.map((app) => app.id));
		refuseMisplacedBindings(bindings, scope.orgId, apps, loaded.channels, customRoles);
		refuseBrokenPolicy(policyOf(scopeRow), { hashed, expiresAtMs }, nowMs);
		refuseStrongerBindings(principal, bindings, customRoles);
		refuseGlobalPermissions(
			principal,
			globalPermissions,
			bindings.map((binding) => binding.role_name),
		);
		refuseLongerLife(principal, expiresAtMs, nowMs);
		refuseMoreAddresses(principal, addresses);

		const id = deps.newId();
		const minted = mintKey(deps.randomBytes);
		const results = await batchInQuotas(
			db,
			deps.config.quotas,
			[keysOfOrganization(scope.orgId)],
			[
				guard(policiesAre(scope.orgId, scopeRow), organizationChanged),
				guard(rolesUnchanged(rolesOfBindings(bindings, customRoles)), organizationChanged),
				...promoterGuards(principal, scope.orgId, bindings.map(givenBy)),
				guard(appsAreOf(scope.orgId, appsOf(bindings)), appsDeleted),
				guard(channelsExist(channelsOf(bindings)), appsDeleted),
				insertApiKey(scope.orgId, {
					id,
					user_id: principal.userId,
					name: body.name,
					...(await secretColumns(minted, id, hashed, deps, nowMs)),
					global_permissions: JSON.stringify(globalPermissions),
					expires_at_ms: expiresAtMs,
					created_at_ms: nowMs,
					updated_at_ms: nowMs,
					ip_allow_list: addressColumn(addresses),
				}),
				...insertBindings({ userId: principal.userId, keyId: id }, scope.orgId, bindings, deps, nowMs),
				auditStatement(actor, nowMs, {
					orgId: scope.orgId,
					action: "api_key.create",
					target: { type: "api_key", id, name: body.name },
					after: {
						name: body.name,
						is_hashed_key: hashed,
						expires_at: nullableRfc3339(expiresAtMs),
						bindings,
						global_permissions: globalPermissions,
						ip_allow_list: addresses,
					},
				}),
				apiKeyRecord(scope.orgId, id),
			],
		);
		const [row] = lastResult(results).rows;
		if (row === undefined) throw new Error("the key that was just inserted is missing");
		return new Reply(201, { ...keyAnswer(row, nowMs), key: minted.text });
	},
});
