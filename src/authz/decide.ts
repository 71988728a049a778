/**
 * The one decision: may this principal use this permission on this target? Pure. It also makes the branded ids: code that holds an
 * `AppId` got it from here, and the query functions take nothing else, so a query without a decided tenant does not compile.
 */
import type { ScopeType } from "../db/schema";
import type { KeyPolicyName } from "../domain/key-policy";
import { administersOrganization, type GlobalPermission, type Permission, ROLES, type RoleName } from "./permissions";
import type { Binding, Principal } from "./principal";

declare const authorized: unique symbol;
export type OrgId = string & { readonly [authorized]: "org" };
export type AppId = string & { readonly [authorized]: "app" };
export type ChannelId = number & { readonly [authorized]: "channel" };

/** Something that exists, and where it belongs. */
export interface Target {
	readonly orgId: string;
	readonly appId?: string;
	readonly channelId?: number;
	/** The channel is public, the app's default upload channel or protected: more than a preview. */
	readonly isMoreThanPreview?: boolean;
	/** Only what undoes a deletion has such a target; no binding covers both kinds. */
	readonly inDeletedOrganization?: true;
	/** Only what undoes the deletion of an app has such a target: its organization is the one that it was deleted from. */
	readonly isDeletedApp?: true;
}

/** The same, after a decision allowed it. */
export interface Scope {
	readonly orgId: OrgId;
	readonly appId: AppId;
	readonly channelId: ChannelId;
}

/** Set when every binding that grants is limited to the holder's own work: which binding, and what it gives on created channels. */
export interface OwnWorkOnly {
	readonly bindingId: string;
	readonly roleOnCreatedChannel: RoleName | undefined;
}

export type Decision =
	| { readonly outcome: "allow"; readonly ownWorkOnly: OwnWorkOnly | undefined }
	| { readonly outcome: "forbidden"; readonly permission: Permission; readonly scope: ScopeType }
	/** The principal has bindings here, and the organization's policy stops them all. */
	| { readonly outcome: "stopped"; readonly policy: KeyPolicyName }
	/** The secret has been replaced: what gives rights to keys and people is for the new one. */
	| { readonly outcome: "replaced"; readonly permission: Permission }
	/** The key holds the permission and its account does not: a key gives no rights that its account cannot give. */
	| { readonly outcome: "account"; readonly permission: Permission }
	| { readonly outcome: "hidden" };

/** With one of these a secret could outlive its own end, and raise its own account. */
const GIVES_RIGHTS: readonly Permission[] = ["org.manage_apikeys", "org.invite_user", "org.update_user_roles"];

/** Holding this at a target of that level means knowing that the target exists. */
const VISIBILITY: Readonly<Record<ScopeType, Permission>> = {
	org: "org.read",
	app: "app.read",
	channel: "channel.read",
};

/** `target` is null when the thing does not exist, which answers exactly as when the principal may not know of it. */
export function decide(principal: Principal, permission: Permission, target: Target | null): Decision {
	if (target === null) return { outcome: "hidden" };
	if (principal.kind === "key" && principal.secretIsReplaced && GIVES_RIGHTS.includes(permission)) {
		const seen = holds(principal, VISIBILITY[levelOf(target)], target);
		return seen ? { outcome: "replaced", permission } : { outcome: "hidden" };
	}
	const granting = principal.bindings.filter(
		(binding) => works(binding, target) && ROLES[binding.role].permissions.includes(permission),
	);
	if (granting.length > 0 && !accountMayGive(principal, permission, target.orgId))
		return { outcome: "account", permission };
	if (granting.length > 0) {
		const limited = granting.every((binding) => ROLES[binding.role].ownWorkOnly === true) ? granting[0] : undefined;
		return {
			outcome: "allow",
			ownWorkOnly:
				limited === undefined
					? undefined
					: { bindingId: limited.id, roleOnCreatedChannel: ROLES[limited.role].roleOnCreatedChannel },
		};
	}
	const covering = principal.bindings.filter((binding) => isCovering(binding, target));
	const [stopped] = covering;
	if (stopped?.stoppedBy !== undefined && covering.every((binding) => binding.stoppedBy !== undefined)) {
		return { outcome: "stopped", policy: stopped.stoppedBy };
	}
	const scope = levelOf(target);
	const visible =
		holds(principal, VISIBILITY[scope], target) ||
		(scope === "org" && principal.bindings.some((binding) => isOfOrganization(binding, target)));
	return visible ? { outcome: "forbidden", permission, scope } : { outcome: "hidden" };
}

/** True unless the permission gives rights, and the caller is a key whose account does not hold it in the organization. */
function accountMayGive(principal: Principal, permission: Permission, orgId: string): boolean {
	return !GIVES_RIGHTS.includes(permission) || accountHolds(principal, permission, orgId);
}

/** True of sessions: their bindings are the account's. */
function accountHolds(principal: Principal, permission: Permission, orgId: string): boolean {
	if (principal.kind === "session") return true;
	return principal.accountRoles.some(
		(held) => held.orgId === orgId && ROLES[held.role].permissions.includes(permission),
	);
}

/** Whether the principal has the permission on the target. */
export function holds(principal: Principal, permission: Permission, target: Target): boolean {
	return principal.bindings.some(
		(binding) => works(binding, target) && ROLES[binding.role].permissions.includes(permission),
	);
}

/** Whether one of the roles is given to the principal on the target or above it, and nothing stops it. */
export function holdsRole(principal: Principal, roles: readonly string[], target: Target): boolean {
	return principal.bindings.some((binding) => works(binding, target) && roles.includes(binding.role));
}

/** Whether the principal has the global permission now: it holds only beside a live binding that administers an organization. */
export function holdsGlobally(principal: Principal, permission: GlobalPermission): boolean {
	return (
		principal.globalPermissions.includes(permission) &&
		principal.bindings.some((binding) => isLive(binding) && administersOrganization(binding.role))
	);
}

/**
 * The first permission of the role that the principal does not have on the target itself; undefined when it has them all. A key gives
 * and takes no role that its account could not, or it could raise its own account.
 */
export function firstPermissionNotHeld(principal: Principal, role: RoleName, target: Target): Permission | undefined {
	return ROLES[role].permissions.find((permission) => {
		const decision = decide(principal, permission, target);
		if (decision.outcome !== "allow" || !accountHolds(principal, permission, target.orgId)) return true;
		return decision.ownWorkOnly !== undefined && ROLES[role].ownWorkOnly !== true;
	});
}

/** Ids of the organizations where the principal holds the permission for the whole organization. */
export function orgsWhere(principal: Principal, permission: Permission): OrgId[] {
	return orgsOf(bindingsGranting(principal, permission, "org", false));
}

/** The same for deleted organizations, in which a permission is good for nothing but to undo that. */
export function deletedOrgsWhere(principal: Principal, permission: Permission): OrgId[] {
	return orgsOf(bindingsGranting(principal, permission, "org", true));
}

/** Ids of the apps where the principal holds the permission through a binding on that very app. */
export function appsWhere(principal: Principal, permission: Permission): AppId[] {
	const bindings = bindingsGranting(principal, permission, "app", false);
	return [...new Set(bindings.flatMap(({ appId }) => (appId === null ? [] : [appId as AppId])))];
}

function orgsOf(bindings: readonly Binding[]): OrgId[] {
	return [...new Set(bindings.map(({ orgId }) => orgId as OrgId))];
}

/** Bindings of the scope itself, none above it, whose role holds the permission and that nothing stops. */
function bindingsGranting(
	principal: Principal,
	permission: Permission,
	scopeType: Binding["scopeType"],
	inDeletedOrganization: boolean,
): Binding[] {
	return principal.bindings.filter(
		(binding) =>
			binding.stoppedBy === undefined &&
			(binding.inDeletedOrganization === true) === inDeletedOrganization &&
			binding.scopeType === scopeType &&
			ROLES[binding.role].permissions.includes(permission) &&
			accountMayGive(principal, permission, binding.orgId),
	);
}

/** Whether the binding grants anything in an organization that is there. */
export function isLive(binding: Binding): boolean {
	return binding.stoppedBy === undefined && binding.inDeletedOrganization !== true;
}

/** Whether the binding grants what its role holds on the target. */
function works(binding: Binding, target: Target): boolean {
	if (target.isMoreThanPreview === true && ROLES[binding.role].previewChannelsOnly === true) return false;
	return binding.stoppedBy === undefined && isCovering(binding, target);
}

function isOfOrganization(binding: Binding, target: Target): boolean {
	return binding.orgId === target.orgId && binding.inDeletedOrganization === target.inDeletedOrganization;
}

/** Whether the target lies where the binding was given. */
export function isCovering(binding: Binding, target: Target): boolean {
	if (!isOfOrganization(binding, target)) return false;
	if (binding.scopeType === "org") return true;
	// Null is never equal to what is undefined: a damaged binding covers nothing.
	if (binding.appId !== target.appId) return false;
	if (binding.scopeType === "app") return true;
	return binding.channelId === target.channelId;
}

function levelOf(target: Target): ScopeType {
	if (target.channelId !== undefined) return "channel";
	return target.appId === undefined ? "org" : "app";
}
