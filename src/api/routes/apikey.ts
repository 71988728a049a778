/**
 * API keys: list, show, create, revoke. A key can give away no more than it holds, and it can take away only keys that are no stronger
 * than itself (key-rules.ts). The secret is answered once, at creation; apikey-change.ts does the rest of a key's life.
 */
import { sql } from "kysely";
import * as v from "valibot";
import { orgsWhere } from "../../authz/decide";
import { mintKey, openKey, sealKey } from "../../authz/keys";
import { ADMINISTERING_ROLES } from "../../authz/member-roles";
import { GLOBAL_PERMISSIONS } from "../../authz/permissions";
import { type PolicyColumns, policyOf } from "../../authz/principal";
import {
	type ApiKeyRow,
	apiKeyAsSeenBy,
	apiKeyExists,
	apiKeyNoStronger,
	apiKeyRecord,
	apiKeysPage,
	appsAreOf,
	deleteApiKey as deleteApiKeyStatement,
	insertApiKey,
	insertBinding,
	isBoundIn,
	markRevealed,
	sealedKeyText,
} from "../../db/api-keys";
import { appUuidsInOrg } from "../../db/apps";
import { auditStatement } from "../../db/audit";
import { auditBindingsOfKeys } from "../../db/binding-audit";
import { batchOrFail, guard, query } from "../../db/client";
import { removeForeignBindings } from "../../db/foreign-bindings";
import { policiesAre } from "../../db/organizations";
import { keysOfOrganization } from "../../db/quotas";
import { signingSecret } from "../../domain/secrets";
import { DAY_MS } from "../../domain/time";
import { ApiError, invalidRequest } from "../../errors";
import {
	apiKeyAnswer,
	apiKeySchema,
	apiKeyWithSecretSchema,
	bindingSchema,
	EXAMPLE_BINDINGS,
	EXAMPLE_KEY,
	ipAllowList,
	type NewBindingInput,
	newBindings,
} from "../api-key-record";
import { endpoint, Reply } from "../endpoint";
import {
	refuseBrokenPolicy,
	refuseGlobalPermissions,
	refuseLongerLife,
	refuseMisplacedBindings,
	refuseMoreAddresses,
	refuseStrongerBindings,
	refuseStrongerSecret,
	refuseToWeakenStrongerKey,
} from "../key-rules";
import { pageBounds, pageReply } from "../page";
import { organizationChanged } from "../policy-change";
import { batchInQuotas } from "../quotas";
import {
	acknowledgement,
	booleanText,
	label,
	nullableRfc3339,
	OK,
	optional,
	pageNumber,
	timestamp,
	uuid,
} from "../schemas";
import { hiddenAs, organizationNotFound, type RawInput, type ScopeSource, textAt } from "../scope";

export const apiKeyNotFound = hiddenAs(
	"api_key_not_found",
	"There is no such API key for this caller; check the id against GET /apikey.",
);

const POLICY_COLUMNS = [
	"organizations.enforce_hashed_api_keys",
	"organizations.require_apikey_expiration",
	"organizations.max_apikey_expiration_days",
] as const;

type ApiKeyScopeRow = PolicyColumns & { id: string; org_id: string };

/** The organization of the key that `:id` names. */
export const apiKeyScope: ScopeSource<ApiKeyScopeRow> = {
	statement: (raw) =>
		query
			.selectFrom("api_keys")
			.innerJoin("organizations", "organizations.id", "api_keys.org_id")
			.select(["api_keys.id", "api_keys.org_id", ...POLICY_COLUMNS])
			.where("api_keys.id", "=", (raw.params.id ?? "").toLowerCase())
			.compile(),
	target: (row) => ({ orgId: row.org_id }),
	hidden: apiKeyNotFound,
};

/** The organization that `org_id` names, where the key has a binding in it; without `org_id` the key's own. */
const boundApiKeyScope: ScopeSource<ApiKeyScopeRow> = {
	...apiKeyScope,
	statement: (raw) => {
		const orgId = textAt(raw, "query.org_id")?.toLowerCase();
		if (orgId === undefined) return apiKeyScope.statement(raw);
		return query
			.selectFrom("api_keys")
			.innerJoin("organizations", (join) => join.on("organizations.id", "=", orgId))
			.select(["api_keys.id", "organizations.id as org_id", ...POLICY_COLUMNS])
			.where("api_keys.id", "=", (raw.params.id ?? "").toLowerCase())
			.where((eb) =>
				eb.or([
					eb("api_keys.org_id", "=", orgId),
					eb.exists(
						eb
							.selectFrom("role_bindings")
							.select("role_bindings.id")
							.whereRef("role_bindings.api_key_id", "=", "api_keys.id")
							.where("role_bindings.org_id", "=", orgId),
					),
				]),
			)
			.compile();
	},
};

/** The organization that a new key is for: `org_id` of the query, or the one that all bindings name. */
const newKeyScope: ScopeSource<PolicyColumns & { id: string }> = {
	missing: { path: "org_id", message: "is required unless bindings name the organization" },
	statement: (raw) => {
		const orgId = textAt(raw, "query.org_id") ?? orgOfBindings(raw);
		if (orgId === undefined) return undefined;
		return query
			.selectFrom("organizations")
			.select(["organizations.id", ...POLICY_COLUMNS])
			.where("id", "=", orgId.toLowerCase())
			.where("deleted_at_ms", "is", null)
			.compile();
	},
	target: (row) => ({ orgId: row.id }),
	hidden: organizationNotFound,
};

function orgOfBindings(raw: RawInput): string | undefined {
	return textAt(raw, "body.bindings.0.org_id");
}

export const listApiKeys = endpoint({
	method: "GET",
	path: "/apikey",
	tag: "API keys",
	summary: "List the API keys that the caller manages, and its own, oldest first",
	description:
		"`unused_for_days=90` lists the keys to review: made at least that long ago and not used since. `last_used_at` is right to the minute, some seconds after the use.",
	access: {
		anyKey: "Lists the keys of organizations where the caller holds org.manage_apikeys, and a calling key itself.",
	},
	query: v.object({
		page: pageNumber,
		org_id: optional(uuid),
		unused_for_days: optional(
			v.pipe(
				v.string(),
				v.regex(/^[1-9]\d{0,3}$/, "must be a whole number of days from 1 to 9999"),
				v.transform(Number),
			),
		),
	}),
	response: v.array(apiKeySchema),
	errors: [],
	example: { query: { page: "0" }, response: [EXAMPLE_KEY] },
	async handle({ db, principal, input, request, origin, nowMs }) {
		const { page, org_id, unused_for_days } = input.query;
		const { limit, offset } = pageBounds(page);
		const filter = {
			orgIds: orgsWhere(principal, "org.manage_apikeys"),
			ownKeyId: principal.keyId ?? "",
			orgId: org_id,
			unusedSinceMs: unused_for_days === undefined ? undefined : nowMs - unused_for_days * DAY_MS,
		};
		const [keys] = await db.batch([apiKeysPage(filter, limit, offset)]);
		return pageReply({ request, origin }, page, keys.rows, (row) => apiKeyAnswer(row, nowMs));
	},
});

export const getApiKey = endpoint({
	method: "GET",
	path: "/apikey/:id",
	tag: "API keys",
	summary: "Show one API key",
	description:
		"`org_id` asks as another organization that the key has a binding in; the answer has the bindings in it. `reveal=true` adds the secret of a key made with `hashed: false`, for a caller that is no weaker than the key. A reveal is audited, and `revealed_at` and `revealed_by` (an account) mark the key until it is regenerated.",
	access: { permission: "org.manage_apikeys", scope: boundApiKeyScope },
	recentSignIn: ({ query }) => query.reveal === true,
	query: v.object({ reveal: optional(booleanText), org_id: optional(uuid) }),
	response: v.union([apiKeySchema, apiKeyWithSecretSchema]),
	errors: ["api_key_not_found"],
	example: { response: EXAMPLE_KEY },
	load: (input) =>
		[
			apiKeyAsSeenBy(input.query.org_id, input.params.id.toLowerCase()),
			sealedKeyText(input.params.id.toLowerCase()),
		] as const,
	async handle({ loaded, input, principal, db, deps, actor, nowMs, scope }) {
		const [row] = loaded[0].rows;
		const sealed = loaded[1].rows[0]?.key_ciphertext ?? null;
		if (row === undefined) throw apiKeyNotFound();
		if (input.query.reveal !== true) return apiKeyAnswer(row, nowMs);
		if (row.org_id !== scope.orgId) {
			throw invalidRequest([{ path: "reveal", message: "is for the key's own organization; leave it out" }]);
		}
		if (sealed === null) return apiKeyAnswer(row, nowMs);
		refuseStrongerSecret(principal, row);
		await db.batch([
			markRevealed(scope.orgId, row.id, principal.userId, nowMs),
			auditStatement(actor, nowMs, {
				orgId: scope.orgId,
				action: "api_key.reveal",
				target: { type: "api_key", id: row.id, name: row.name },
			}),
		]);
		const revealed = { ...row, revealed_at_ms: nowMs, revealed_by: principal.userId };
		return { ...apiKeyAnswer(revealed, nowMs), key: await openKey(sealed, row.id, deps.config.secrets) };
	},
});

export const createApiKey = endpoint({
	method: "POST",
	path: "/apikey",
	tag: "API keys",
	summary: "Create an API key for one organization",
	description:
		"`org_id` may be left out when the bindings name the organization; all of them must name the same. The secret is in this answer only, unless `hashed: false` stores it for the key's managers to reveal later. `ip_allow_list` limits the key to addresses; a caller that is limited itself hands its own list on when none is sent.",
	access: { permission: "org.manage_apikeys", scope: newKeyScope },
	recentSignIn: true,
	query: v.object({ org_id: optional(uuid) }),
	body: v.object({
		name: label(),
		hashed: optional(v.boolean()),
		expires_at: optional(timestamp),
		bindings: optional(newBindings),
		global_permissions: optional(
			v.array(v.picklist(GLOBAL_PERMISSIONS, `must be one of ${GLOBAL_PERMISSIONS.join(", ")}`)),
		),
		ip_allow_list: optional(ipAllowList),
	}),
	status: [201],
	response: apiKeyWithSecretSchema,
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
		return [appUuidsInOrg(orgId, appsOf(bindings))] as const;
	},
	async handle({ db, deps, principal, scope, scopeRow, input, loaded, nowMs, actor }) {
		const { body } = input;
		const bindings = body.bindings ?? [];
		const globalPermissions = [...new Set(body.global_permissions ?? [])];
		const hashed = body.hashed !== false;
		const expiresAtMs = body.expires_at ?? null;
		const addresses = body.ip_allow_list ?? principal.ipAllowList ?? [];
		refusePast(expiresAtMs, nowMs);
		refuseMisplacedBindings(bindings, scope.orgId, new Set(loaded[0].rows.map((app) => app.id)));
		refuseBrokenPolicy(policyOf(scopeRow), { hashed, expiresAtMs }, nowMs);
		refuseStrongerBindings(principal, bindings);
		refuseGlobalPermissions(
			principal,
			globalPermissions,
			bindings.map((binding) => binding.role_name),
		);
		refuseLongerLife(principal, expiresAtMs, nowMs);
		refuseMoreAddresses(principal, addresses);

		const id = deps.newId();
		const minted = mintKey(deps.randomBytes);
		const secret = signingSecret(deps.config.secrets, nowMs);
		const sealed = hashed ? null : await sealKey(minted.text, id, secret, deps.randomBytes);
		const results = await batchInQuotas(
			db,
			deps.config.quotas,
			[keysOfOrganization(scope.orgId)],
			[
				guard("policies_as_read", policiesAre(scope.orgId, scopeRow)),
				guard("apps_gone", appsAreOf(scope.orgId, appsOf(bindings))),
				insertApiKey(scope.orgId, {
					id,
					user_id: principal.userId,
					name: body.name,
					key_hash: minted.hash,
					key_ciphertext: sealed,
					key_hint: minted.hint,
					global_permissions: JSON.stringify(globalPermissions),
					expires_at_ms: expiresAtMs,
					last_used_at_ms: null,
					created_at_ms: nowMs,
					updated_at_ms: nowMs,
					previous_key_hash: null,
					previous_valid_until_ms: null,
					ip_allow_list: addresses.length === 0 ? null : JSON.stringify(addresses),
				}),
				...bindings.map((binding) =>
					insertBinding(binding.scope_type, {
						id: deps.newId(),
						holder: { userId: principal.userId, keyId: id },
						role: binding.role_name,
						orgId: scope.orgId,
						appId: "app_id" in binding ? binding.app_id : null,
						createdAtMs: nowMs,
					}),
				),
				apiKeyRecord(scope.orgId, id),
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
			],
			{ policies_as_read: organizationChanged, apps_gone: appsGone },
		);
		const row = (results.at(-2) as { rows: ApiKeyRow[] } | undefined)?.rows[0];
		if (row === undefined) throw new Error("the key that was just inserted is missing");
		return new Reply(201, { ...apiKeyAnswer(row, nowMs), key: minted.text });
	},
});

export const deleteApiKey = endpoint({
	method: "DELETE",
	path: "/apikey/:id",
	tag: "API keys",
	summary: "Revoke an API key at once",
	description:
		"`org_id` names another organization that the key has a binding in: it takes those bindings away, and the key is left to its own organization; `org.create` goes with its last role that administers an organization. `dry_run=true` tells what would go and does nothing.",
	access: { permission: "org.manage_apikeys", scope: boundApiKeyScope },
	query: v.object({ org_id: optional(uuid), dry_run: optional(booleanText) }),
	response: v.union([
		acknowledgement,
		v.strictObject({
			status: v.literal("ok"),
			dry_run: v.literal(true),
			id: v.string(),
			name: v.string(),
			/** False where the key belongs to another organization and stays there. */
			removes_key: v.boolean(),
			bindings: v.array(bindingSchema),
		}),
	]),
	errors: ["api_key_not_found", "api_key_changed", "organization_changed", "cannot_delete_own_api_key"],
	example: { response: OK },
	load: (input) => [apiKeyAsSeenBy(input.query.org_id, input.params.id.toLowerCase())] as const,
	async handle({ db, principal, scope, scopeRow, input, loaded, nowMs, actor }) {
		const [row] = loaded[0].rows;
		if (row === undefined) throw apiKeyNotFound();
		if (row.id === principal.keyId) {
			throw new ApiError(
				"cannot_delete_own_api_key",
				"A key cannot delete itself; delete it with another key of the organization.",
			);
		}
		refuseToWeakenStrongerKey(principal, row, scope.orgId);
		const { name, is_hashed_key, expires_at, bindings, global_permissions, ip_allow_list } = apiKeyAnswer(row, nowMs);
		const isOwn = row.org_id === scope.orgId;
		if (input.query.dry_run === true) {
			return { ...OK, dry_run: true as const, id: row.id, name, removes_key: isOwn, bindings };
		}
		await batchOrFail(
			db,
			[
				guard("policies_as_read", policiesAre(scope.orgId, scopeRow)),
				guard("gone", isOwn ? apiKeyExists(scope.orgId, row.id) : isBoundIn(scope.orgId, row.id)),
				guard("key_changed", apiKeyNoStronger(scope.orgId, row)),
				...(isOwn
					? [
							...auditBindingsOfKeys(actor, nowMs, scope.orgId, sql`k.id = ${row.id}`, { reason: "api_key_deleted" }),
							deleteApiKeyStatement(scope.orgId, row.id),
							auditStatement(actor, nowMs, {
								orgId: scope.orgId,
								action: "api_key.delete",
								target: { type: "api_key", id: row.id, name },
								before: { name, is_hashed_key, expires_at, bindings, global_permissions, ip_allow_list },
							}),
						]
					: removeForeignBindings(scope.orgId, sql`k.id = ${row.id}`, ADMINISTERING_ROLES, actor, nowMs)),
			],
			{
				policies_as_read: organizationChanged,
				gone: apiKeyNotFound,
				key_changed: apiKeyChanged,
			},
		);
		return OK;
	},
});

/** Ids of the apps that the bindings are on. */
export function appsOf(bindings: readonly NewBindingInput[]): string[] {
	return bindings.flatMap((binding) => ("app_id" in binding ? [binding.app_id] : []));
}

export function apiKeyChanged(): ApiError {
	return new ApiError("api_key_changed", "The API key was changed meanwhile; read it again and repeat the request.");
}

/** 400 for an app that was deleted while a key was given a binding on it. */
export function appsGone(): ApiError {
	return invalidRequest([
		{ path: "bindings", message: "name an app that was deleted meanwhile; look at GET /app and repeat the request" },
	]);
}

/** 400 for an expiry that is over before it begins. */
export function refusePast(expiresAtMs: number | null, nowMs: number): void {
	if (expiresAtMs !== null && expiresAtMs <= nowMs) {
		throw invalidRequest([{ path: "expires_at", message: "must be in the future" }]);
	}
}
