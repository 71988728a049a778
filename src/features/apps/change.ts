/**
 * Changes of an app's settings, for PUT /app/:app_id and the stock CLI: the settings that differ,
 * and the statements that write them with their audit entry.
 */
import type { CompiledQuery } from "kysely";
import type { AppId, OrgId } from "../../authz/decide";
import { type AppRow, type AuditedSetting, auditedAppNow, updateApp } from "../../db/apps";
import { auditPreviewAccessEnded } from "../../db/audit/bindings";
import { type Actor, auditStatement } from "../../db/audit/entries";
import { endPreviewAccess } from "../../db/channel-names";
import { bumpRevision } from "../../db/snapshot";

/** Settings by their names in requests and answers, which are the column names. */
export type AppSettings = { readonly [Setting in AuditedSetting]?: string | number | boolean | null | undefined };

/** The settings of the body that differ from the app's. */
export function changedSettings(current: Pick<AppRow, AuditedSetting>, body: AppSettings): AppSettings {
	const settings: readonly AuditedSetting[] = Object.keys(body).filter(
		(name): name is AuditedSetting => name in current,
	);
	return Object.fromEntries(
		settings.flatMap((name) => {
			const value = body[name];
			return value === undefined || columnOf(value) === current[name] ? [] : [[name, value]];
		}),
	);
}

const columnOf = (value: string | number | boolean | null) => (typeof value === "boolean" ? Number(value) : value);

/** For one batch. Raises the revision, because settings change what devices are offered. */
export function changeAppStatements(
	actor: Actor,
	nowMs: number,
	app: { readonly orgId: OrgId; readonly appId: AppId; readonly publicAppId: string },
	changes: AppSettings,
): readonly CompiledQuery[] {
	const columns = Object.fromEntries(
		Object.entries(changes).map(([name, value]) => [name, value === undefined ? undefined : columnOf(value)]),
	);
	const uploadChannel = changes.default_upload_channel;
	return [
		auditStatement(actor, nowMs, {
			orgId: app.orgId,
			action: "app.update",
			target: { type: "app", id: app.appId, name: app.publicAppId },
			app: { uuid: app.appId, id: app.publicAppId },
			before: auditedAppNow(app.appId, Object.keys(changes) as AuditedSetting[]),
			after: changes,
		}),
		updateApp(app.appId, { ...columns, updated_at_ms: nowMs }),
		...(typeof uploadChannel === "string"
			? [
					auditPreviewAccessEnded(actor, nowMs, app.orgId, { appId: app.appId, name: uploadChannel }),
					...endPreviewAccess(app.appId, uploadChannel, nowMs),
				]
			: []),
		bumpRevision(app.appId),
	];
}
