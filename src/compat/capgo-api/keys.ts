/**
 * API keys as Capgo's scripts name them: a `mode` and the apps that a key is limited to instead of
 * bindings, and the id of a key in the body. The bindings that a mode stands for are checked like
 * those of any request.
 */

import * as v from "valibot";
import { KEY_MODES, type KeyMode, MODE_ROLES, ROLES, type RoleName } from "../../authz/permissions";
import { organizationOfNewKey } from "../../db/api-keys";
import { appsForKey } from "../../db/apps";
import type { NamedReads, NamedRows } from "../../db/named-reads";
import { invalidRequest, type RequestIssue } from "../../errors";
import { changeKey } from "../../features/keys/change";
import { createKey } from "../../features/keys/create";
import { getKey, listKeys } from "../../features/keys/read";
import { revokeKey } from "../../features/keys/revoke";
import { newKeyScope, scopeOfNewKey } from "../../features/keys/scope";
import { keyHashOf } from "../../http/pipeline/credential-headers";
import { optional, publicAppId, shortList, text, uuid } from "../../http/schemas";
import type { RawInput, ScopeSource } from "../../http/scope";
import { alias, bodyOf, type Fields, recordsWith, withForm, withRecordFields } from "./form";

const DEFAULT_NAME = "API key";
/** Apps that the bindings of one key name. */
const MOST_APPS = 100;

const mode = v.picklist(KEY_MODES, `must be one of ${KEY_MODES.join(", ")}`);
const KEY_FIELDS = {
	rbac_id: v.string(),
	mode,
	limited_to_orgs: v.array(v.string()),
	limited_to_apps: v.array(v.string()),
} as const;

/**
 * The weakest mode that has the rights of the roles, by the permissions that tell the modes apart.
 */
function modeOf(roles: readonly string[]): KeyMode {
	const holds = (permission: "app.update_user_roles" | "channel.update_settings" | "app.upload_bundle") =>
		roles.some((role) => ROLES[role as RoleName]?.permissions.includes(permission));
	if (holds("app.update_user_roles")) return "all";
	if (holds("channel.update_settings")) return "write";
	return holds("app.upload_bundle") ? "upload" : "read";
}

interface KeyRecord {
	readonly id: string;
	readonly org_id: string;
	readonly bindings: readonly { readonly role_name: string; readonly app_id: string | null }[];
	readonly app_ids: readonly string[];
}

function keyFields(record: Fields): Fields {
	const { id, org_id, bindings, app_ids } = record as unknown as KeyRecord;
	const limitedTo = bindings.flatMap(({ app_id }) => app_id ?? []);
	const isLimited = limitedTo.length === bindings.length;
	return {
		rbac_id: id,
		mode: modeOf(bindings.map(({ role_name }) => role_name)),
		limited_to_orgs: [org_id],
		// Empty means every app there. The apps of ended bindings have no name here.
		limited_to_apps: !isLimited ? [] : app_ids.length > 0 ? app_ids : [...new Set(limitedTo)],
	};
}

const shown = {
	response: (own: v.GenericSchema) => withRecordFields(own, KEY_FIELDS),
	answer: recordsWith(keyFields),
};

export const listKeysForm = withForm(listKeys, shown);
export const getKeyForm = withForm(getKey, shown);
export const changeKeyForm = withForm(changeKey, shown);

/** The key that the body names, where the path names none. */
export const changeNamedKey = alias(changeKey, "PUT", "/apikey", {
	...shown,
	summary: "Change the API key that the body names",
	body: { entries: { id: text(64) }, translate: ({ id: _, ...fields }) => fields },
	forms: { read: (raw) => ({ ...raw, params: { ...raw.params, id: String(bodyOf(raw).id ?? "") } }) },
	example: { body: { id: "5d0c7f3a-7c2e-4a2b-9f60-2f4f1c9f7a31", regenerate: true } },
});

export const revokeKeyForm = withForm(revokeKey, {
	description: "The path may have the secret of the key instead of its id.",
	response: (own) => withRecordFields(own, { success: v.literal(true) }),
	answer: recordsWith(() => ({ success: true })),
});

const further = {
	org_id: optional(uuid),
	mode: optional(mode),
	limited_to_orgs: optional(shortList(uuid, 1, "names one organization, because a key belongs to one")),
	limited_to_apps: optional(shortList(publicAppId, MOST_APPS, `names at most ${MOST_APPS} apps`)),
} as const;
type Further = v.InferOutput<v.ObjectSchema<typeof further, undefined>>;

/**
 * The organization may be in the body, and a reason for a binding, which no answer shows, is
 * dropped.
 */
function read(raw: RawInput): RawInput {
	const body = bodyOf(raw);
	const [limited] = Array.isArray(body.limited_to_orgs) ? body.limited_to_orgs : [];
	const org_id = raw.query.org_id ?? body.org_id ?? limited;
	const { bindings } = body;
	const name = body.name === undefined && body.mode !== undefined ? DEFAULT_NAME : body.name;
	return {
		...raw,
		query: org_id === undefined || org_id === null ? raw.query : { ...raw.query, org_id },
		body: {
			...body,
			...(name === undefined ? {} : { name }),
			...(Array.isArray(bindings) ? { bindings: bindings.map(withoutReason) } : {}),
		},
	};
}

const isRecord = (value: unknown): value is Fields =>
	typeof value === "object" && value !== null && !Array.isArray(value);

function withoutReason(binding: unknown): unknown {
	if (!isRecord(binding)) return binding;
	const { reason: _, ...fields } = binding;
	return fields;
}

function reasonsOf(raw: RawInput): string[] {
	const { bindings } = bodyOf(raw);
	if (!Array.isArray(bindings)) return [];
	return bindings.flatMap((binding, index) =>
		isRecord(binding) && binding.reason !== undefined ? [`bindings.${index}.reason`] : [],
	);
}

/**
 * The organization of a key with a mode: the named one, that of the first app, or that of the
 * calling key.
 */
const scope: ScopeSource<never> = {
	...(newKeyScope as unknown as ScopeSource<never>),
	statement(raw) {
		const named = newKeyScope.statement(raw);
		const { mode, limited_to_apps: apps } = bodyOf(raw);
		if (named !== undefined || mode === undefined) return named as never;
		const first = Array.isArray(apps) && typeof apps[0] === "string" ? apps[0] : undefined;
		const keyHash = keyHashOf(raw.headers);
		if (first === undefined && keyHash === undefined) return undefined;
		return scopeOfNewKey(organizationOfNewKey(first, keyHash ?? "")) as never;
	},
};

interface CreationInput {
	readonly query: { readonly org_id?: string };
	readonly body: Further & { readonly name: string; readonly bindings?: readonly Binding[] };
}
interface Binding {
	readonly scope_type: "org" | "app" | "channel";
	readonly role_name: string;
	readonly org_id: string;
	readonly app_id?: string;
	readonly channel_id?: number;
}
interface CreationContext {
	readonly input: CreationInput;
	readonly scope: { readonly orgId: string };
	/** The rows of POST /apikey, and the apps of a mode. */
	readonly loaded: NamedRows<{ readonly ofMode: ReturnType<typeof appsForKey> }>;
}

/** @throws {ApiError} `invalid_request` */
function bindingsOf({ input, scope: { orgId }, loaded }: CreationContext): readonly Binding[] | undefined {
	const { mode, limited_to_apps: limited = [], limited_to_orgs, org_id, bindings } = input.body;
	const issues: RequestIssue[] = [];
	const named = [org_id, limited_to_orgs?.[0]].filter((id) => id !== undefined);
	if (named.some((id) => id !== orgId)) {
		issues.push({ path: "org_id", message: "differs from the organization that the request names elsewhere" });
	}
	if (mode === undefined && (limited.length > 0 || limited_to_orgs !== undefined)) {
		issues.push({
			path: "mode",
			message: `is required with limited_to_apps and limited_to_orgs: ${KEY_MODES.join(", ")}`,
		});
	}
	if (mode !== undefined && bindings !== undefined) {
		issues.push({ path: "mode", message: "must not be sent with bindings, which say the same more exactly" });
	}
	if (mode === undefined || issues.length > 0) {
		if (issues.length > 0) throw invalidRequest(issues);
		return bindings;
	}
	const apps = loaded.ofMode;
	const isFound = (name: string) => apps.some(({ app_id }) => app_id.toLowerCase() === name.toLowerCase());
	for (const [index, name] of limited.entries()) {
		if (isFound(name)) continue;
		issues.push({ path: `limited_to_apps.${index}`, message: "is no app of the organization", received: name });
	}
	const { app, organization } = MODE_ROLES[mode];
	if (limited.length === 0 && organization !== undefined) {
		return [{ scope_type: "org", role_name: organization, org_id: orgId }];
	}
	if (apps.length === 0 && issues.length === 0) {
		issues.push({ path: "mode", message: "needs an app, and the organization has none; create one, or send bindings" });
	}
	if (apps.length > MOST_APPS) {
		issues.push({
			path: "limited_to_apps",
			message: `is required, because the organization has more than ${MOST_APPS} apps`,
		});
	}
	if (issues.length > 0) throw invalidRequest(issues);
	return apps.map(({ id }) => ({ scope_type: "app", role_name: app, org_id: orgId, app_id: id }));
}

const { entries } = createKey.body as unknown as { entries: v.ObjectEntries };
const handle = createKey.handle as unknown as (context: unknown) => Promise<unknown>;
const load = createKey.load as unknown as (input: CreationInput) => NamedReads;

const creation: typeof createKey = {
	...createKey,
	body: v.object({ ...entries, ...further }) as v.GenericSchema,
	load: (input: CreationInput, _nowMs: number, keyHash: string) => {
		const { mode, limited_to_apps: limited = [] } = input.body;
		const orgId = input.query.org_id ?? organizationOfNewKey(limited[0], keyHash);
		const publicAppIds = mode === undefined || limited.length > 0 ? limited : undefined;
		return { ...load(input), ofMode: appsForKey(orgId, publicAppIds, MOST_APPS + 1) };
	},
	handle: async (context: never) => {
		const given = context as CreationContext;
		const bindings = bindingsOf(given);
		const { mode: _mode, limited_to_apps: _apps, limited_to_orgs: _orgs, org_id: _org, ...body } = given.input.body;
		const input = { ...given.input, body: { ...body, ...(bindings === undefined ? {} : { bindings }) } };
		const { ofMode, ...own } = given.loaded;
		const loaded = given.input.body.mode === undefined ? own : { ...own, apps: ofMode };
		return handle({ ...(context as object), input, loaded });
	},
};

export const createKeyForm = withForm(creation, {
	scope,
	forms: { read, withoutEffect: reasonsOf },
	response(own) {
		const record = withRecordFields(own, KEY_FIELDS);
		return withRecordFields(record, { apikey: record });
	},
	answer(own) {
		const record = { ...(own as Fields), ...keyFields(own as Fields) };
		return { ...record, apikey: record };
	},
	description: [
		"`mode` (read, upload, write or all) stands for bindings: on the apps of `limited_to_apps`, or",
		"without it on every app that the organization has",
		"now; `all` without apps administers the organization.",
		"Without an organization the key belongs to that of the calling key.",
		"`apikey` in the answer is the record again.",
	],
});
