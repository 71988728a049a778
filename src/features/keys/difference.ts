/**
 * The effect of a change on an API key, without any access to the database: the key afterwards, the
 * difference of its bindings, whether the key gains anything, and the fields for the audit log.
 */
import { resolvedRole, roleNamed } from "../../authz/custom-roles";
import type { OrgId } from "../../authz/decide";
import { administersOrganization, type Role } from "../../authz/permissions";
import type { ApiKeyRow, BindingRecord } from "../../db/api-keys";
import { firstRangeOutside } from "../../domain/network/ip-allow-list";
import { nullableRfc3339 } from "../../http/schemas";
import { appOf, channelOf, identityOf, keyAnswer, type NewBindingInput } from "./record";

/** The value of `expires_at` that removes the expiry. */
export const NEVER = "never";

/** The requested change; an omitted field stays. */
interface KeyChange {
	readonly name?: string | undefined;
	readonly expires_at?: number | typeof NEVER | undefined;
	readonly bindings?: readonly NewBindingInput[] | undefined;
	readonly global_permissions?: readonly string[] | undefined;
	readonly ip_allow_list?: readonly string[] | undefined;
	readonly regenerate?: boolean | undefined;
	readonly hashed?: boolean | undefined;
}

export interface KeyAfter {
	readonly name: string;
	readonly hashed: boolean;
	readonly expiresAtMs: number | null;
	readonly addresses: readonly string[];
	readonly globalPermissions: readonly string[];
	readonly bindings: BindingChange;
}

interface BindingChange {
	/** Bindings that stay, including those in other organizations. */
	readonly kept: readonly BindingRecord[];
	readonly removedIds: readonly string[];
	readonly added: readonly NewBindingInput[];
}

export function keyAfter(row: ApiKeyRow, change: KeyChange, orgId: OrgId): KeyAfter {
	const wasHashed = row.is_hashed_key === 1;
	const bindings = bindingChange(row, orgId, change.bindings);
	return {
		name: change.name ?? row.name,
		hashed: change.regenerate === true ? (change.hashed ?? wasHashed) : wasHashed,
		expiresAtMs: change.expires_at === NEVER ? null : (change.expires_at ?? row.expires_at_ms),
		addresses: change.ip_allow_list ?? addressesOf(row),
		globalPermissions: globalPermissionsAfter(row, change, bindings.kept),
		bindings,
	};
}

/** The current and new bindings of the key after the change. */
export const bindingsAfter = ({ bindings }: KeyAfter) => [...bindings.kept, ...bindings.added];

/** Whether the key gains rights, a longer life, or further addresses. */
export function gainsOf(row: ApiKeyRow, after: KeyAfter, customRoles: readonly Role[]) {
	const held: readonly string[] = JSON.parse(row.global_permissions);
	const end = (expiresAtMs: number | null) => expiresAtMs ?? Number.POSITIVE_INFINITY;
	return {
		rights:
			after.bindings.added.some((binding) => !isCovered(binding, row, customRoles)) ||
			after.globalPermissions.some((permission) => !held.includes(permission)),
		life: end(after.expiresAtMs) > end(row.expires_at_ms),
		addresses:
			row.ip_allow_list !== null &&
			(after.addresses.length === 0 || firstRangeOutside(after.addresses, addressesOf(row)) !== undefined),
	};
}

function addressesOf(row: ApiKeyRow): string[] {
	return JSON.parse(row.ip_allow_list ?? "[]");
}

/**
 * True if a permanent binding of the key at the same scope or above already grants everything that
 * the binding grants.
 */
function isCovered(binding: NewBindingInput, row: ApiKeyRow, customRoles: readonly Role[]): boolean {
	const wanted = roleNamed(binding.role_name, customRoles);
	if (wanted === undefined) return false;
	return (JSON.parse(row.bindings) as BindingRecord[]).some((held) => {
		if (held.org_id !== binding.org_id || held.expires_at_ms !== null) return false;
		const role = resolvedRole(held.role_name, held.scope_type, held.custom_permissions);
		if (role === undefined) return false;
		const above = held.scope_type === "org" || held.app_id === appOf(binding);
		return (
			above &&
			(held.channel_id === null || held.channel_id === channelOf(binding)) &&
			(role.ownWorkOnly !== true || wanted.ownWorkOnly === true) &&
			wanted.permissions.every((permission) => role.permissions.includes(permission))
		);
	});
}

/**
 * The difference between the current and the requested bindings. A binding that stays keeps its id,
 * and so its child bindings.
 */
function bindingChange(row: ApiKeyRow, orgId: OrgId, wanted: readonly NewBindingInput[] | undefined): BindingChange {
	const current: BindingRecord[] = JSON.parse(row.bindings);
	if (wanted === undefined) return { kept: current, removedIds: [], added: [] };
	const wantedIdentity = (binding: NewBindingInput) =>
		identityOf(binding.role_name, appOf(binding), channelOf(binding));
	const ownIdentity = ({ role_name, app_id, channel_id }: BindingRecord) => identityOf(role_name, app_id, channel_id);
	const wantedIdentities = new Set(wanted.map(wantedIdentity));
	const own = current.filter((binding) => binding.org_id === orgId && binding.parent_binding_id === null);
	const isKept = (binding: BindingRecord) => wantedIdentities.has(ownIdentity(binding));
	const removed = own.filter((binding) => !isKept(binding));
	const removedIds = removed.map((binding) => binding.id);
	const ownIdentities = new Set(own.map(ownIdentity));
	return {
		// A removed binding takes its child bindings with it.
		kept: current.filter(
			({ id, parent_binding_id }) => !removedIds.includes(id) && !removedIds.includes(parent_binding_id ?? ""),
		),
		removedIds,
		added: wanted.filter((binding) => !ownIdentities.has(wantedIdentity(binding))),
	};
}

/**
 * The requested global permissions; if omitted, the current ones, unless the key loses its last
 * administering role.
 */
function globalPermissionsAfter(row: ApiKeyRow, change: KeyChange, kept: readonly BindingRecord[]): string[] {
	if (change.global_permissions !== undefined) return [...new Set(change.global_permissions)];
	const roles = [...kept, ...(change.bindings ?? [])].map((binding) => binding.role_name);
	// A global permission lost with the last administering role is not restored by adding another.
	const administered = (JSON.parse(row.bindings) as BindingRecord[]).some(
		(binding) => binding.in_deleted_organization === 0 && administersOrganization(binding.role_name),
	);
	return administered && roles.some(administersOrganization) ? JSON.parse(row.global_permissions) : [];
}

/** The changed fields before and after, for the audit log. */
export function auditedChange(row: ApiKeyRow, after: KeyAfter, nowMs: number) {
	const shown = keyAnswer(row, nowMs);
	interface Shown {
		readonly role_name: string;
		readonly scope_type: string;
		readonly org_id: string;
		readonly app_id?: string | null;
		readonly channel_id?: number | null;
	}
	const short = (binding: Shown) => ({
		role_name: binding.role_name,
		scope_type: binding.scope_type,
		org_id: binding.org_id,
		app_id: binding.app_id ?? null,
		...(binding.channel_id == null ? {} : { channel_id: binding.channel_id }),
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
		expires_at: nullableRfc3339(after.expiresAtMs),
		bindings: bindingsAfter(after).map(short),
		global_permissions: after.globalPermissions,
		ip_allow_list: after.addresses,
	};
	const changed = Object.keys(is).filter((field) => JSON.stringify(was[field]) !== JSON.stringify(is[field]));
	const only = (record: Record<string, unknown>) => Object.fromEntries(changed.map((field) => [field, record[field]]));
	return { before: only(was), after: only(is) };
}
