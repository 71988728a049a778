/**
 * API keys. A key can give away no more than it holds: every permission of every binding it grants must be its own at that scope, and
 * it can take away only keys that are no stronger than itself. The secret is answered once, at creation.
 */
import * as v from "valibot";
import { firstPermissionNotHeld, type OrgId, orgsWhere, type Target } from "../../authz/decide";
import { mintKey, openKey, sealKey } from "../../authz/keys";
import { GLOBAL_PERMISSIONS, isRoleName, ROLE_NAMES, ROLES, type RoleName } from "../../authz/permissions";
import type { Principal } from "../../authz/principal";
import {
	type ApiKeyRow,
	apiKeyById,
	apiKeyRecord,
	apiKeysPage,
	type BindingRecord,
	deleteApiKey as deleteApiKeyStatement,
	insertApiKey,
	insertBinding,
	sealedKeyText,
} from "../../db/api-keys";
import { appUuidsInOrg } from "../../db/apps";
import { auditStatement } from "../../db/audit";
import { query } from "../../db/client";
import { ApiError, invalidRequest, type RequestIssue } from "../../errors";
import { endpoint, Reply } from "../endpoint";
import { pageBounds, pageReply } from "../page";
import {
	acknowledgement,
	booleanText,
	label,
	nullableRfc3339,
	nullableTime,
	OK,
	optional,
	pageNumber,
	rfc3339,
	time,
	timestamp,
	uuid,
} from "../schemas";
import { organizationNotFound, type RawInput, type ScopeSource, textAt } from "../scope";

const MOST_BINDINGS = 100;
const ASSIGNABLE_ROLES = ROLE_NAMES.filter((name) => ROLES[name].assignable);

const bindingSchema = v.strictObject({
	id: v.string(),
	role_name: v.string(),
	scope_type: v.picklist(["org", "app", "channel"]),
	org_id: v.string(),
	app_id: v.nullable(v.string()),
	channel_id: v.nullable(v.number()),
	parent_binding_id: v.nullable(v.string()),
	expires_at: nullableTime,
});

const apiKeyFields = {
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
	global_permissions: v.array(v.string()),
};
const apiKeySchema = v.strictObject(apiKeyFields);
const apiKeyWithSecretSchema = v.strictObject({ ...apiKeyFields, key: v.string() });

function apiKeyAnswer(row: ApiKeyRow): v.InferOutput<typeof apiKeySchema> {
	const bindings: BindingRecord[] = JSON.parse(row.bindings);
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
		bindings: bindings.map(({ expires_at_ms, ...binding }) => ({
			...binding,
			expires_at: nullableRfc3339(expires_at_ms),
		})),
		global_permissions: JSON.parse(row.global_permissions),
	};
}

const EXAMPLE_KEY = {
	id: "5d0c7f3a-7c2e-4a2b-9f60-2f4f1c9f7a31",
	name: "Previews of pull requests",
	org_id: "b7c1d3de-8f5a-4f43-93d3-1b0f6a4c9e21",
	user_id: "0c7f0c5e-34a5-4f5c-8b60-8a2f0b8c1d11",
	is_hashed_key: true,
	key_hint: "cap_a1B2…",
	expires_at: "2027-01-31T00:00:00.000Z",
	created_at: "2026-11-21T08:00:00.000Z",
	updated_at: "2026-11-21T08:00:00.000Z",
	last_used_at: null,
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
	global_permissions: [],
};

export const apiKeyNotFound = () =>
	new ApiError("api_key_not_found", "There is no such API key for this caller; check the id against GET /apikey.");

/** The organization of the key that `:id` names. */
const apiKeyScope: ScopeSource<{ id: string; org_id: string }> = {
	statement: (raw) =>
		query
			.selectFrom("api_keys")
			.select(["id", "org_id"])
			.where("id", "=", (raw.params.id ?? "").toLowerCase())
			.compile(),
	target: (row) => ({ orgId: row.org_id }),
	hidden: apiKeyNotFound,
};

/** The organization that a new key is for: `org_id` of the query, or the one that all bindings name. */
const newKeyScope: ScopeSource<{ id: string }> = {
	missing: { path: "org_id", message: "is required unless bindings name the organization" },
	statement: (raw) => {
		const orgId = textAt(raw, "query.org_id") ?? orgOfBindings(raw);
		if (orgId === undefined) return undefined;
		return query.selectFrom("organizations").select("id").where("id", "=", orgId.toLowerCase()).compile();
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
	access: { anyKey: "Lists the keys of organizations where the key holds org.manage_apikeys, and the key itself." },
	query: v.object({ page: pageNumber }),
	response: v.array(apiKeySchema),
	errors: [],
	example: { query: { page: "0" }, response: [EXAMPLE_KEY] },
	async handle({ db, principal, input, request, origin }) {
		const { limit, offset } = pageBounds(input.query.page);
		const [keys] = await db.batch([
			apiKeysPage(orgsWhere(principal, "org.manage_apikeys"), principal.keyId, limit, offset),
		]);
		return pageReply({ request, origin }, input.query.page, keys.rows, apiKeyAnswer);
	},
});

export const getApiKey = endpoint({
	method: "GET",
	path: "/apikey/:id",
	tag: "API keys",
	summary: "Show one API key",
	description:
		"`reveal=true` adds the secret of a key made with `hashed: false`, for a caller that is no weaker than the key; it is audited.",
	access: { permission: "org.manage_apikeys", scope: apiKeyScope },
	query: v.object({ reveal: optional(booleanText) }),
	response: v.union([apiKeySchema, apiKeyWithSecretSchema]),
	errors: ["api_key_not_found"],
	example: { response: EXAMPLE_KEY },
	load: (input) => [apiKeyById(input.params.id.toLowerCase()), sealedKeyText(input.params.id.toLowerCase())] as const,
	async handle({ loaded, input, principal, db, deps, actor, nowMs, scope }) {
		const [row] = loaded[0].rows;
		const sealed = loaded[1].rows[0]?.key_ciphertext ?? null;
		if (row === undefined) throw apiKeyNotFound();
		if (input.query.reveal !== true || sealed === null) return apiKeyAnswer(row);
		refuseStrongerKey(principal, row);
		await db.batch([
			auditStatement(actor, nowMs, {
				orgId: scope.orgId,
				action: "api_key.reveal",
				target: { type: "api_key", id: row.id },
				details: { name: row.name },
			}),
		]);
		return { ...apiKeyAnswer(row), key: await openKey(sealed, row.id, deps.config.secret) };
	},
});

const newBindingSchema = v.variant(
	"scope_type",
	[
		v.object({
			scope_type: v.literal("org"),
			role_name: v.picklist(ASSIGNABLE_ROLES, `must be one of ${ASSIGNABLE_ROLES.join(", ")}`),
			org_id: uuid,
		}),
		v.object({
			scope_type: v.literal("app"),
			role_name: v.picklist(ASSIGNABLE_ROLES, `must be one of ${ASSIGNABLE_ROLES.join(", ")}`),
			org_id: uuid,
			app_id: uuid,
		}),
	],
	"must be org or app",
);
type NewBindingInput = v.InferOutput<typeof newBindingSchema>;

export const createApiKey = endpoint({
	method: "POST",
	path: "/apikey",
	tag: "API keys",
	summary: "Create an API key for one organization",
	description:
		"`org_id` may be left out when the bindings name the organization; all of them must name the same. The secret is in this answer only.",
	access: { permission: "org.manage_apikeys", scope: newKeyScope },
	query: v.object({ org_id: optional(uuid) }),
	body: v.object({
		name: label(),
		hashed: optional(v.boolean()),
		expires_at: optional(timestamp),
		bindings: optional(
			v.pipe(v.array(newBindingSchema), v.maxLength(MOST_BINDINGS, `at most ${MOST_BINDINGS} bindings`)),
		),
		global_permissions: optional(
			v.array(v.picklist(GLOBAL_PERMISSIONS, `must be one of ${GLOBAL_PERMISSIONS.join(", ")}`)),
		),
	}),
	status: [201],
	response: apiKeyWithSecretSchema,
	errors: ["invalid_global_permissions"],
	example: {
		body: {
			name: EXAMPLE_KEY.name,
			hashed: true,
			expires_at: EXAMPLE_KEY.expires_at,
			bindings: [
				{
					role_name: "app_preview",
					scope_type: "app",
					org_id: EXAMPLE_KEY.org_id,
					app_id: "3f1b8a52-64d1-4b0e-9c0e-0f6f3f1c7a10",
				},
			],
		},
		response: { ...EXAMPLE_KEY, key: "cap_…" },
	},
	load: (input) => {
		const { org_id, bindings } = { org_id: input.query.org_id, bindings: input.body.bindings ?? [] };
		const orgId = org_id ?? bindings[0]?.org_id ?? "";
		return [
			appUuidsInOrg(
				orgId,
				bindings.flatMap((binding) => ("app_id" in binding ? [binding.app_id] : [])),
			),
		] as const;
	},
	async handle({ db, deps, principal, scope, input, loaded, nowMs, actor }) {
		const { body } = input;
		const bindings = body.bindings ?? [];
		const globalPermissions = [...new Set(body.global_permissions ?? [])];
		if (body.expires_at !== undefined && body.expires_at <= nowMs) {
			throw invalidRequest([{ path: "expires_at", message: "must be in the future" }]);
		}
		refuseMisplacedBindings(bindings, scope.orgId, new Set(loaded[0].rows.map((app) => app.id)));
		refuseStrongerBindings(principal, bindings);
		refuseGlobalPermissions(principal, globalPermissions, bindings);

		const id = deps.newId();
		const minted = mintKey(deps.randomBytes);
		const sealed = body.hashed === true ? null : await sealKey(minted.text, id, deps.config.secret, deps.randomBytes);
		const results = await db.batch([
			insertApiKey(scope.orgId, {
				id,
				user_id: principal.userId,
				name: body.name,
				key_hash: minted.hash,
				key_ciphertext: sealed,
				key_hint: minted.hint,
				global_permissions: JSON.stringify(globalPermissions),
				expires_at_ms: body.expires_at ?? null,
				last_used_at_ms: null,
				created_at_ms: nowMs,
				updated_at_ms: nowMs,
			}),
			apiKeyRecord(scope.orgId, id),
			...bindings.map((binding) =>
				insertBinding(binding.scope_type, {
					id: deps.newId(),
					apiKeyId: id,
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
				target: { type: "api_key", id },
				details: { name: body.name, hashed: body.hashed === true, bindings, global_permissions: globalPermissions },
			}),
		]);
		const row = (results.at(-2) as { rows: ApiKeyRow[] } | undefined)?.rows[0];
		if (row === undefined) throw new Error("the key that was just inserted is missing");
		return new Reply(201, { ...apiKeyAnswer(row), key: minted.text });
	},
});

export const deleteApiKey = endpoint({
	method: "DELETE",
	path: "/apikey/:id",
	tag: "API keys",
	summary: "Revoke an API key at once",
	access: { permission: "org.manage_apikeys", scope: apiKeyScope },
	response: acknowledgement,
	errors: ["api_key_not_found", "cannot_delete_own_api_key"],
	example: { response: OK },
	load: (input) => [apiKeyById(input.params.id.toLowerCase())] as const,
	async handle({ db, principal, scope, loaded, nowMs, actor }) {
		const [row] = loaded[0].rows;
		if (row === undefined) throw apiKeyNotFound();
		if (row.id === principal.keyId) {
			throw new ApiError(
				"cannot_delete_own_api_key",
				"A key cannot delete itself; delete it with another key of the organization.",
			);
		}
		refuseStrongerKey(principal, row);
		const [deleted] = await db.batch([
			deleteApiKeyStatement(scope.orgId, row.id),
			auditStatement(actor, nowMs, {
				orgId: scope.orgId,
				action: "api_key.delete",
				target: { type: "api_key", id: row.id },
				details: { name: row.name },
			}),
		]);
		if (deleted.changes === 0) throw apiKeyNotFound();
		return OK;
	},
});

function refuseMisplacedBindings(
	bindings: readonly NewBindingInput[],
	orgId: OrgId,
	appIds: ReadonlySet<string>,
): void {
	const issues: RequestIssue[] = [];
	const seen = new Set<string>();
	for (const [index, binding] of bindings.entries()) {
		const path = `bindings.${index}`;
		const appId = "app_id" in binding ? binding.app_id : undefined;
		const level = ROLES[binding.role_name].scopeType;
		if (binding.org_id !== orgId) {
			issues.push({ path: `${path}.org_id`, message: "must be the organization of the key", received: binding.org_id });
		}
		if (level !== binding.scope_type) {
			issues.push({
				path: `${path}.scope_type`,
				message: `must be "${level}" for the role ${binding.role_name}`,
				received: binding.scope_type,
			});
		}
		if (appId !== undefined && !appIds.has(appId)) {
			issues.push({
				path: `${path}.app_id`,
				message: "must be the UUID (not the reverse-domain id) of an app of the organization",
				received: appId,
			});
		}
		const identity = `${binding.role_name} ${binding.org_id} ${appId ?? ""}`;
		if (seen.has(identity)) issues.push({ path, message: "repeats an earlier binding; leave it out" });
		seen.add(identity);
	}
	if (issues.length > 0) throw invalidRequest(issues);
}

function refuseStrongerBindings(principal: Principal, bindings: readonly NewBindingInput[]): void {
	for (const binding of bindings) {
		const target = { orgId: binding.org_id, ...("app_id" in binding ? { appId: binding.app_id } : {}) };
		refuseStronger(principal, binding.role_name, target);
	}
}

function refuseStrongerKey(principal: Principal, key: ApiKeyRow): void {
	const bindings: BindingRecord[] = JSON.parse(key.bindings);
	refuseGlobalPermissionsNotHeld(principal, JSON.parse(key.global_permissions));
	for (const binding of bindings) {
		// Given by the service with a binding that is checked itself.
		if (binding.parent_binding_id !== null || !isRoleName(binding.role_name)) continue;
		refuseStronger(principal, binding.role_name, {
			orgId: binding.org_id,
			...(binding.app_id === null ? {} : { appId: binding.app_id }),
		});
	}
}

function refuseStronger(principal: Principal, role: RoleName, target: Target): void {
	const permission = firstPermissionNotHeld(principal, role, target);
	if (permission === undefined) return;
	throw new ApiError(
		"permission_denied",
		`The role ${role} holds ${permission}, which this API key does not hold there; use a key that does.`,
		{ moreInfo: { permission, scope: ROLES[role].scopeType, role_name: role } },
	);
}

function refuseGlobalPermissions(
	principal: Principal,
	wanted: readonly string[],
	bindings: readonly NewBindingInput[],
): void {
	if (wanted.length === 0) return;
	refuseGlobalPermissionsNotHeld(principal, wanted);
	// `org.create` is for keys that administer an organization, which is what updating its settings says without naming a role.
	const administers = bindings.some(
		(binding) => binding.scope_type === "org" && ROLES[binding.role_name].permissions.includes("org.update_settings"),
	);
	if (!administers) {
		throw new ApiError(
			"invalid_global_permissions",
			"org.create needs an org_admin or org_super_admin binding in the same key; add one to bindings.",
		);
	}
}

function refuseGlobalPermissionsNotHeld(principal: Principal, permissions: readonly string[]): void {
	const held: readonly string[] = principal.globalPermissions;
	const missing = permissions.find((permission) => !held.includes(permission));
	if (missing === undefined) return;
	throw new ApiError("permission_denied", `This API key does not hold ${missing} itself; use a key that does.`, {
		moreInfo: { permission: missing, scope: "global" },
	});
}
