/**
 * Changing an app's settings: what differs from what is there, and the statements that write it with its audit entry. PUT /app/:app_id
 * and the stock CLI's table-shaped request both come through here.
 */
import type { CompiledQuery } from "kysely";
import type { AppId, OrgId } from "../authz/decide";
import { type AppRow, type AuditedSetting, auditedAppNow, updateApp } from "../db/apps";
import { type Actor, auditStatement } from "../db/audit";
import { auditPreviewAccessEnded } from "../db/binding-audit";
import { endPreviewAccess } from "../db/channel-names";
import { bumpRevision } from "../db/snapshot";

/** Settings by their names in requests and answers, which are those of the columns. */
export type AppSettings = { readonly [Setting in AuditedSetting]?: string | number | boolean | null | undefined };

/** The settings of the body that the app does not have yet. */
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

/** For one batch. The revision moves, because devices may be answered otherwise from now on. */
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
