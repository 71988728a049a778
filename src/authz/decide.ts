/**
 * The one decision: may this principal use this permission on this target? Pure. It also creates
 * the branded ids: query functions take only these, so a query for a tenant that was not decided
 * about does not compile.
 */
import type { KeyPolicyName } from "../domain/key-policy";
import {
	administersOrganization,
	type GlobalPermission,
	type Permission,
	type Role,
	type RoleName,
	type ScopeType,
} from "./permissions";
import type { Binding, Principal } from "./principal";

declare const authorized: unique symbol;
export type OrgId = string & { readonly [authorized]: "org" };
export type AppId = string & { readonly [authorized]: "app" };
export type ChannelId = number & { readonly [authorized]: "channel" };

/** An existing thing with its organization, app and channel. */
export interface Target {
	readonly orgId: string;
	readonly appId?: string;
	readonly channelId?: number;
	/**
	 * The list of the app's channels: a binding on one of them covers it, and the answer has only the
	 * channels of such bindings.
	 */
	readonly anyChannel?: true;
	/**
	 * The channel is public, protected or the default upload channel, so it is more than a preview.
	 */
	readonly isMoreThanPreview?: boolean;
	/** Set for requests that restore an organization; no binding covers both kinds. */
	readonly inDeletedOrganization?: true;
	/** Set for requests that restore an app; `orgId` is the organization that it was deleted from. */
	readonly isDeletedApp?: true;
}

/** A target that a decision allowed. */
export interface Scope {
	readonly orgId: OrgId;
	readonly appId: AppId;
	readonly channelId: ChannelId;
}

/** Set when every granting binding is limited to the holder's own work. */
export interface OwnWorkOnly {
	readonly bindingId: string;
	readonly roleOnCreatedChannel: RoleName | undefined;
}

export type Decision =
	| { readonly outcome: "allow"; readonly ownWorkOnly: OwnWorkOnly | undefined }
	| { readonly outcome: "forbidden"; readonly permission: Permission; readonly scope: ScopeType }
	/** The organization's policy suspends every binding of the principal here. */
	| { readonly outcome: "suspended"; readonly policy: KeyPolicyName }
	/** The secret was replaced, and only the new one grants rights to keys and people. */
	| { readonly outcome: "replaced"; readonly permission: Permission }
	/**
	 * The key holds the permission, but its account does not: a key cannot grant rights that its
	 * account lacks.
	 */
	| { readonly outcome: "account"; readonly permission: Permission }
	| { readonly outcome: "hidden" };

/**
 * Permissions that grant rights to others. A replaced secret could create its own successor with
 * them, and a key could raise its own account.
 */
const GIVES_RIGHTS: readonly Permission[] = ["org.manage_apikeys", "org.invite_user", "org.update_user_roles"];

/** The permission that makes a target of that level visible. */
const VISIBILITY: Readonly<Record<ScopeType, Permission>> = {
	org: "org.read",
	app: "app.read",
	channel: "channel.read",
};

/**
 * @param target null when it does not exist; the answer is the same as for a target that the
 * principal may not see
 */
export function decide(principal: Principal, permission: Permission, target: Target | null): Decision {
	if (target === null) return { outcome: "hidden" };
	if (principal.kind === "key" && principal.secretIsReplaced && GIVES_RIGHTS.includes(permission)) {
		const seen = holds(principal, VISIBILITY[levelOf(target)], target);
		return seen ? { outcome: "replaced", permission } : { outcome: "hidden" };
	}
	const granting = principal.bindings.filter(
		(binding) => grants(binding, target) && binding.role.permissions.includes(permission),
	);
	if (granting.length > 0 && !accountMayGive(principal, permission, target.orgId))
		return { outcome: "account", permission };
	if (granting.length > 0) {
		const limited = granting.every((binding) => binding.role.ownWorkOnly === true) ? granting[0] : undefined;
		return {
			outcome: "allow",
			ownWorkOnly:
				limited === undefined
					? undefined
					: { bindingId: limited.id, roleOnCreatedChannel: limited.role.roleOnCreatedChannel },
		};
	}
	const covering = principal.bindings.filter((binding) => covers(binding, target));
	const [stopped] = covering;
	if (stopped?.suspendedBy !== undefined && covering.every((binding) => binding.suspendedBy !== undefined)) {
		return { outcome: "suspended", policy: stopped.suspendedBy };
	}
	const scope = levelOf(target);
	const visible =
		holds(principal, VISIBILITY[scope], target) ||
		(scope === "org" && principal.bindings.some((binding) => isOfOrganization(binding, target)));
	return visible ? { outcome: "forbidden", permission, scope } : { outcome: "hidden" };
}

/**
 * False if the permission grants rights, and the caller is a key whose account does not hold it in
 * the organization.
 */
function accountMayGive(principal: Principal, permission: Permission, orgId: string): boolean {
	return !GIVES_RIGHTS.includes(permission) || accountHolds(principal, permission, orgId);
}

/** A session's bindings are its account's. */
function accountHolds(principal: Principal, permission: Permission, orgId: string): boolean {
	if (principal.kind === "session") return true;
	return principal.accountRoles.some((held) => held.orgId === orgId && held.role.permissions.includes(permission));
}

/** Whether the binding gives one of the permissions, wherever that is. */
export function grantsAny(binding: Binding, permissions: readonly Permission[]): boolean {
	return isLive(binding) && permissions.some((permission) => binding.role.permissions.includes(permission));
}

/** Whether the principal has the permission on the target. */
export function holds(principal: Pick<Principal, "bindings">, permission: Permission, target: Target): boolean {
	return principal.bindings.some((binding) => grants(binding, target) && binding.role.permissions.includes(permission));
}

/** Whether every promotion of the principal on the target becomes a proposal. */
export function onlyProposes(principal: Principal, target: Target): boolean {
	const promoting = principal.bindings.filter(
		(binding) => grants(binding, target) && binding.role.permissions.includes("channel.promote_bundle"),
	);
	return promoting.length > 0 && promoting.every((binding) => binding.role.proposesOnly === true);
}

/** Whether the principal has one of the roles on the target or above it, not suspended. */
export function holdsRole(principal: Pick<Principal, "bindings">, roles: readonly string[], target: Target): boolean {
	return principal.bindings.some((binding) => grants(binding, target) && roles.includes(binding.role.name));
}

/** A global permission needs a live binding that administers an organization. */
export function holdsGlobally(principal: Principal, permission: GlobalPermission): boolean {
	return (
		principal.globalPermissions.includes(permission) &&
		principal.bindings.some((binding) => isLive(binding) && administersOrganization(binding.role.name))
	);
}

/**
 * The first permission of the role that the principal lacks on the target; undefined when it has
 * them all. A key can neither grant nor revoke a role beyond its account, because it could raise
 * its own account with it.
 */
export function firstPermissionNotHeld(principal: Principal, role: Role, target: Target): Permission | undefined {
	return role.permissions.find((permission) => {
		const decision = decide(principal, permission, target);
		if (decision.outcome !== "allow" || !accountHolds(principal, permission, target.orgId)) return true;
		return decision.ownWorkOnly !== undefined && role.ownWorkOnly !== true;
	});
}

/** Organizations for which the principal holds the permission as a whole. */
export function orgsWhere(principal: Principal, permission: Permission): OrgId[] {
	return orgsOf(bindingsGranting(principal, permission, "org", false));
}

/** The same for deleted organizations, where a permission only allows restoring them. */
export function deletedOrgsWhere(principal: Principal, permission: Permission): OrgId[] {
	return orgsOf(bindingsGranting(principal, permission, "org", true));
}

/** Apps on which the principal holds the permission by a binding on the app itself. */
export function appsWhere(principal: Principal, permission: Permission): AppId[] {
	const bindings = bindingsGranting(principal, permission, "app", false);
	return [...new Set(bindings.flatMap(({ appId }) => (appId === null ? [] : [appId as AppId])))];
}

/**
 * Channels of the app on which the principal holds the permission by a binding on the channel
 * itself.
 */
export function channelsWhere(principal: Principal, permission: Permission, { orgId, appId }: Target): number[] {
	const bindings = bindingsGranting(principal, permission, "channel", false);
	return [
		...new Set(
			bindings.flatMap((binding) =>
				binding.orgId === orgId && binding.appId === appId && binding.channelId !== null ? [binding.channelId] : [],
			),
		),
	];
}

function orgsOf(bindings: readonly Binding[]): OrgId[] {
	return [...new Set(bindings.map(({ orgId }) => orgId as OrgId))];
}

/** Bindings exactly on that scope whose role holds the permission, not suspended. */
function bindingsGranting(
	principal: Principal,
	permission: Permission,
	scopeType: Binding["scopeType"],
	inDeletedOrganization: boolean,
): Binding[] {
	return principal.bindings.filter(
		(binding) =>
			binding.suspendedBy === undefined &&
			(binding.inDeletedOrganization === true) === inDeletedOrganization &&
			binding.scopeType === scopeType &&
			binding.role.permissions.includes(permission) &&
			accountMayGive(principal, permission, binding.orgId),
	);
}

/** Whether the binding is not suspended and its organization is not deleted. */
export function isLive(binding: Binding): boolean {
	return binding.suspendedBy === undefined && binding.inDeletedOrganization !== true;
}

/** Whether the binding grants the permissions of its role on the target. */
function grants(binding: Binding, target: Target): boolean {
	if (target.isMoreThanPreview === true && binding.role.previewChannelsOnly === true) return false;
	return binding.suspendedBy === undefined && covers(binding, target);
}

/** The place of a binding. */
type Place = Pick<Binding, "scopeType" | "orgId" | "appId" | "channelId" | "inDeletedOrganization">;

function isOfOrganization(binding: Place, target: Target): boolean {
	return binding.orgId === target.orgId && binding.inDeletedOrganization === target.inDeletedOrganization;
}

/** Whether the binding's scope contains the target. */
export function covers(binding: Place, target: Target): boolean {
	if (!isOfOrganization(binding, target)) return false;
	if (binding.scopeType === "org") return true;
	// null !== undefined: a corrupt binding covers nothing.
	if (binding.appId !== target.appId) return false;
	if (binding.scopeType === "app" || target.anyChannel === true) return true;
	return binding.channelId === target.channelId;
}

function levelOf(target: Target): ScopeType {
	if (target.channelId !== undefined) return "channel";
	return target.appId === undefined ? "org" : "app";
}
