/**
 * The stock CLI's requests about apps.
 */
import * as v from "valibot";
import { appByPublicId } from "../../db/apps";
import { changeAppStatements, changedSettings } from "../../features/apps/change";
import { getApp } from "../../features/apps/routes";
import { endpoint, Reply } from "../../http/endpoint";
import { refusedFields, refuseSettings } from "../../http/pipeline/stock-settings";
import { channelName, optional } from "../../http/schemas";
import { type AppScopeRow, appNotFound } from "../../http/scope";
import { appFilter, appOfFilter, filters, PREFIX, rowsReply, shapeOf, singleRefusal, TABLES, TAG } from "./postgrest";

export const appExists = endpoint({
	...(getApp as unknown as Parameters<typeof endpoint>[0]),
	path: `${PREFIX}/functions/v1/app/:app_id`,
	tag: TAG,
	summary: "Show one app, as GET /app/:app_id does",
});

const appRow = v.strictObject({
	default_upload_channel: v.optional(v.string()),
	owner_org: v.optional(v.string()),
	app_id: v.optional(v.string()),
});

/** Every `select` that the CLI sends about an app. */
const APP_SHAPES: Readonly<Record<string, (row: AppScopeRow) => v.InferInput<typeof appRow>>> = {
	default_upload_channel: (row) => ({ default_upload_channel: row.default_upload_channel }),
	owner_org: (row) => ({ owner_org: row.owner_org }),
	app_id: (row) => ({ app_id: row.app_id }),
};

export const readApps = endpoint({
	method: "GET",
	path: `${TABLES}/apps`,
	tag: TAG,
	summary: "Show the default upload channel or the owner of an app",
	access: { permission: "app.read", scope: appOfFilter("query.app_id") },
	query: filters({ select: v.string(), app_id: appFilter }),
	response: v.union([v.array(appRow), singleRefusal, appRow]),
	status: [200, 406],
	errors: [],
	example: {
		query: { select: "default_upload_channel", app_id: "eq.com.example.app" },
		response: [{ default_upload_channel: "dev" }],
	},
	async handle({ input, scopeRow, request }) {
		const shape = shapeOf(APP_SHAPES, input.query.select);
		return rowsReply(request.headers, [shape(scopeRow)]);
	},
});

export const patchApp = endpoint({
	method: "PATCH",
	path: `${TABLES}/apps`,
	tag: TAG,
	summary: "Change the settings that `app set` sends here: previews and the default upload channel",
	access: { permission: "app.update_settings", scope: appOfFilter("query.app_id") },
	query: filters({ app_id: appFilter }),
	body: v.strictObject(
		{
			default_upload_channel: optional(channelName),
			allow_preview: optional(v.boolean()),
			...refusedFields("PATCH apps"),
		},
		(issue) => (issue.expected === "never" ? "is a setting that this server does not have" : issue.message),
	),
	status: [204],
	response: v.null(),
	errors: ["setting_not_supported"],
	example: {
		query: { app_id: "eq.com.example.app" },
		body: { allow_preview: true },
		response: null,
	},
	load: ({ query: { app_id } }) => ({ app: appByPublicId(app_id) }),
	async handle({ db, scope, scopeRow, input, loaded, nowMs, actor }) {
		refuseSettings("PATCH apps", input.body);
		const [current] = loaded.app;
		if (current === undefined) throw appNotFound();
		const changes = changedSettings(current, input.body);
		if (Object.keys(changes).length > 0) {
			await db.batch(changeAppStatements(actor, nowMs, { ...scope, publicAppId: scopeRow.app_id }, changes));
		}
		return new Reply(204, null);
	},
});
