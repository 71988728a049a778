/**
 * Creates apps, for POST /app and for sample apps: the statements of one batch, which insert the
 * app with the database of its reports, the creator's role on it and the audit entry. The public id
 * must be free in all organizations, and nobody but an administrator may use that of a deleted app
 * again.
 */
import type { Insertable } from "kysely";
import { type AppId, holds, type Scope } from "../../authz/decide";
import type { RoleName } from "../../authz/permissions";
import type { Principal } from "../../authz/principal";
import { insertApp } from "../../db/apps";
import { auditBindingGiven } from "../../db/audit/bindings";
import { type Actor, auditStatement } from "../../db/audit/entries";
import { guard, onUnique, type Statement } from "../../db/client";
import { appIdIsFree, appIdIsUnused } from "../../db/deleted-apps";
import { insertBinding } from "../../db/role-bindings";
import type { AppsTable } from "../../db/schema";
import { bindingFor } from "../../db/telemetry-databases";
import type { Deps } from "../../deps";
import { ApiError } from "../../errors";

interface Creation {
	readonly deps: Pick<Deps, "newId" | "telemetry">;
	readonly principal: Principal;
	readonly actor: Actor;
	readonly scope: Pick<Scope, "orgId">;
	readonly nowMs: number;
}

type NewApp = Omit<Insertable<AppsTable>, "id" | "owner_org" | "created_at_ms" | "updated_at_ms" | "telemetry_binding">;

/** @throws {ApiError} `app_id_already_exists`, from the batch */
export function creationStatements(
	{ deps, principal, actor, scope, nowMs }: Creation,
	id: AppId,
	app: NewApp,
): readonly Statement[] {
	const role = roleOnNewApp(principal, scope.orgId);
	// A caller with all permissions on the organization's apps needs no binding on this one.
	const mayDelete = holds(principal, "app.delete", { orgId: scope.orgId, appId: id });
	const bindingId = deps.newId();
	return [
		guard(appIdIsFree(app.app_id, scope.orgId), appIdTaken),
		// Devices with the deleted app would get the bundles of the new one.
		...(mayDelete ? [] : [guard(appIdIsUnused(app.app_id, scope.orgId), appIdKept)]),
		onUnique(
			insertApp({
				...app,
				id,
				owner_org: scope.orgId,
				created_at_ms: nowMs,
				updated_at_ms: nowMs,
				telemetry_binding: bindingFor(id, deps.telemetry),
			}),
			"apps.app_id",
			appIdTaken,
		),
		...(role !== undefined && !mayDelete
			? [
					insertBinding("app", {
						id: bindingId,
						holder: principal,
						role,
						orgId: scope.orgId,
						appId: id,
						createdAtMs: nowMs,
					}),
				]
			: []),
		auditStatement(actor, nowMs, {
			orgId: scope.orgId,
			action: "app.create",
			target: { type: "app", id, name: app.app_id },
			app: { uuid: id, id: app.app_id },
			after: { app_id: app.app_id, name: app.name },
		}),
		auditBindingGiven(actor, nowMs, scope.orgId, bindingId, principal),
	];
}

/** The role that the caller gets on an app that they create or accept. */
export function roleOnNewApp({ bindings }: Principal, orgId: string): RoleName | undefined {
	const granted = bindings.find((binding) => binding.orgId === orgId && binding.role.roleOnCreatedApp !== undefined);
	return granted === undefined ? undefined : granted.role.roleOnCreatedApp;
}

/** The same answer for an id of an app and for one that another organization has reserved. */
const appIdTaken = () =>
	new ApiError("app_id_already_exists", "An app with this app_id already exists; choose another app_id.");

const appIdKept = () =>
	new ApiError(
		"app_id_already_exists",
		"A deleted app of this organization had this app_id, and devices may still run it. Ask an administrator to create the app or to restore the deleted one, or choose another app_id.",
		{ reason: "app_id_of_deleted_app" },
	);
