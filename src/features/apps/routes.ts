/**
 * Apps, to which channels and bundles belong. A public id is unique over all organizations.
 */
import * as v from "valibot";
import { type AppId, appsWhere, orgsWhere } from "../../authz/decide";
import { type AppRow, appByPublicId, appRecord, appsPage } from "../../db/apps";
import { MOST_KEPT_LIVE_BUNDLES } from "../../db/channel-history";
import { previewAccessOf } from "../../db/channel-names";
import { lastResult } from "../../db/client";
import { deletedAppsPage } from "../../db/deleted-apps";
import { RESTORABLE_MS } from "../../db/organizations";
import { waitingApprovals } from "../../db/proposals";
import { appsOfOrganization } from "../../db/quotas";
import { DEFAULT_PREVIEW_PREFIX, PREVIEW_PREFIX } from "../../domain/ci/preview-names";
import { CLEAN_UP_MINUTES } from "../../domain/defaults";
import { isSampleAppId } from "../../domain/sample-app";
import { approvalsOf, approvalsSchema } from "../../http/approvals";
import { endpoint, Reply } from "../../http/endpoint";
import { pageBounds, pageReply } from "../../http/paging";
import { refusedFields, refuseSettings } from "../../http/pipeline/stock-settings";
import { batchInQuotas } from "../../http/quotas";
import {
	booleanText,
	channelName,
	imageUrl,
	itemsPerPage,
	label,
	optional,
	PAGE_SIZE,
	pageNumber,
	previewAccessEnded,
	previewDays,
	publicAppId,
	rfc3339,
	storeUrl,
	switchValue,
	text,
	time,
	uuid,
} from "../../http/schemas";
import { appNotFound, appScope, orgScope } from "../../http/scope";
import { changeAppStatements, changedSettings } from "./change";
import { creationStatements } from "./creation";

/** Two years, in seconds. */
const LONGEST_RETENTION_SECONDS = 63_113_904;

const previewPrefix = v.pipe(
	text(64),
	v.regex(PREVIEW_PREFIX, 'must be the beginning of a channel name and end with "-", "_", "." or "/", such as "pr-"'),
);

export const appSchema = v.strictObject({
	id: v.string(),
	app_id: v.string(),
	name: v.string(),
	icon_url: v.nullable(v.string()),
	owner_org: v.string(),
	default_channel: v.nullable(v.string()),
	default_upload_channel: v.string(),
	retention: v.number(),
	keep_live_bundles: v.number(),
	expose_metadata: v.boolean(),
	allow_device_custom_id: v.boolean(),
	block_provider_infra_requests: v.boolean(),
	allow_preview: v.boolean(),
	preview_channel_prefix: v.string(),
	preview_prereleases_only: v.boolean(),
	preview_max_days: v.number(),
	ios_store_url: v.nullable(v.string()),
	android_store_url: v.nullable(v.string()),
	created_at: time,
	updated_at: time,
});

export function appAnswer(row: AppRow): v.InferOutput<typeof appSchema> {
	return {
		id: row.id,
		app_id: row.app_id,
		name: row.name,
		icon_url: row.icon_url,
		owner_org: row.owner_org,
		default_channel: row.default_channel,
		default_upload_channel: row.default_upload_channel,
		retention: row.retention,
		keep_live_bundles: row.keep_live_bundles,
		expose_metadata: row.expose_metadata === 1,
		allow_device_custom_id: row.allow_device_custom_id === 1,
		block_provider_infra_requests: row.block_provider_infra_requests === 1,
		allow_preview: row.allow_preview === 1,
		preview_channel_prefix: row.preview_channel_prefix ?? DEFAULT_PREVIEW_PREFIX,
		preview_prereleases_only: row.preview_prereleases_only === 1,
		preview_max_days: row.preview_max_days,
		ios_store_url: row.ios_store_url,
		android_store_url: row.android_store_url,
		created_at: rfc3339(row.created_at_ms),
		updated_at: rfc3339(row.updated_at_ms),
	};
}

const deletedAppSchema = v.strictObject({
	...appSchema.entries,
	deleted_at: time,
	deleted_by: v.string(),
	restorable_until: time,
});

export const EXAMPLE_APP = {
	id: "3f1b8a52-64d1-4b0e-9c0e-0f6f3f1c7a10",
	app_id: "com.example.app",
	name: "Example",
	icon_url: null,
	owner_org: "b7c1d3de-8f5a-4f43-93d3-1b0f6a4c9e21",
	default_channel: "production",
	default_upload_channel: "dev",
	retention: 2_592_000,
	keep_live_bundles: 5,
	expose_metadata: false,
	allow_device_custom_id: true,
	block_provider_infra_requests: false,
	allow_preview: false,
	preview_channel_prefix: DEFAULT_PREVIEW_PREFIX,
	preview_prereleases_only: false,
	preview_max_days: 30,
	ios_store_url: null,
	android_store_url: null,
	created_at: "2026-11-21T08:00:00.000Z",
	updated_at: "2026-11-21T08:00:00.000Z",
};

export const listApps = endpoint({
	method: "GET",
	path: "/app",
	tag: "Apps",
	summary: "List the apps that the caller can read, by name",
	access: { anyKey: "Lists the apps on which a binding of the caller holds app.read." },
	description: [
		"`limit` is the number of apps on a page (1 to 1000, default 50).",
		"`org_id` lists those of one organization; one that is not there, or not the caller's, has none.",
		"`deleted=true` lists the deleted apps that the caller may bring back with POST /app/restore, the",
		"last deleted first; they are gone for good at `restorable_until`.",
	],
	query: v.object({
		page: pageNumber,
		limit: itemsPerPage,
		org_id: optional(uuid),
		deleted: optional(booleanText),
	}),
	response: v.union([v.array(appSchema), v.array(deletedAppSchema)]),
	errors: [],
	example: { query: { page: "0" }, response: [EXAMPLE_APP] },
	async handle({ db, principal, input, request, origin, nowMs }) {
		const { limit: size = PAGE_SIZE } = input.query;
		const { limit, offset } = pageBounds(input.query.page, size);
		const permission = input.query.deleted === true ? "app.delete" : "app.read";
		const filter = {
			orgIds: orgsWhere(principal, permission),
			appIds: appsWhere(principal, permission),
			orgId: input.query.org_id,
		};
		if (input.query.deleted === true) {
			const [deleted] = await db.batch([deletedAppsPage(filter, nowMs - RESTORABLE_MS, limit, offset)]);
			return pageReply(
				{ request, origin },
				input.query.page,
				deleted.rows,
				(row) => ({
					...appAnswer({ ...row, app_id: row.public_app_id, owner_org: row.deleted_from }),
					deleted_at: rfc3339(row.deleted_at_ms),
					deleted_by: row.deleted_by,
					restorable_until: rfc3339(row.deleted_at_ms + RESTORABLE_MS),
				}),
				size,
			);
		}
		const [apps] = await db.batch([appsPage(filter, limit, offset)]);
		return pageReply({ request, origin }, input.query.page, apps.rows, appAnswer, size);
	},
});

export const getApp = endpoint({
	method: "GET",
	path: "/app/:app_id",
	tag: "Apps",
	summary: "Show one app",
	description: "`approvals` has the newest proposals of GET /proposal that wait for the caller's approval.",
	access: { permission: "app.read", scope: appScope("params.app_id") },
	response: v.strictObject({ ...appSchema.entries, approvals: approvalsSchema }),
	errors: [],
	example: { response: { ...EXAMPLE_APP, approvals: [] } },
	load: ({ params }, nowMs) => ({
		app: appByPublicId(params.app_id),
		waiting: waitingApprovals(params.app_id, nowMs),
	}),
	async handle({ principal, scope, loaded }) {
		const [app] = loaded.app;
		if (app === undefined) throw appNotFound();
		return { ...appAnswer(app), approvals: approvalsOf(principal, loaded.waiting, scope) };
	},
});

export const createApp = endpoint({
	method: "POST",
	path: "/app",
	tag: "Apps",
	summary: "Create an app",
	description: [
		"Ids that differ only in case are the same id.",
		"The id of a deleted app is reserved for its organization: administrators may give it to a new app,",
		"other members and other organizations get 409.",
		"The deleted app can be restored after the new one is deleted.",
	],
	access: { permission: "org.create_app", scope: orgScope("body.owner_org") },
	body: v.object({
		app_id: v.pipe(
			publicAppId,
			v.check((id) => !isSampleAppId(id), "begins as the ids of sample apps do; choose another"),
		),
		name: label(),
		owner_org: uuid,
		icon_url: optional(imageUrl),
		default_upload_channel: optional(channelName),
		retention: optional(retentionSeconds()),
		ios_store_url: optional(storeUrl),
		android_store_url: optional(storeUrl),
		...refusedFields("POST /app"),
		keep_live_bundles: optional(keptLiveBundles()),
	}),
	status: [201],
	response: v.strictObject({ ...appSchema.entries, warning: v.optional(v.string()) }),
	errors: ["quota_exceeded", "app_id_already_exists", "setting_not_supported"],
	example: {
		body: { app_id: "com.example.app", name: "Example", owner_org: EXAMPLE_APP.owner_org },
		response: EXAMPLE_APP,
	},
	async handle(context) {
		const { db, deps, scope, input } = context;
		const { body } = input;
		refuseSettings("POST /app", body);
		const id = deps.newId() as AppId;
		const results = await batchInQuotas(
			db,
			deps.config.quotas,
			[appsOfOrganization(scope.orgId)],
			[
				...creationStatements(context, id, {
					app_id: body.app_id,
					name: body.name,
					icon_url: body.icon_url ?? null,
					ios_store_url: body.ios_store_url ?? null,
					android_store_url: body.android_store_url ?? null,
					...(body.retention === undefined ? {} : { retention: keptSeconds(body.retention) }),
					...(body.keep_live_bundles === undefined ? {} : { keep_live_bundles: body.keep_live_bundles }),
					...(body.default_upload_channel === undefined ? {} : { default_upload_channel: body.default_upload_channel }),
				}),
				appRecord(id),
			],
		);
		const [app] = lastResult(results).rows;
		if (app === undefined) throw new Error("the app that was just inserted is missing");
		return new Reply(201, { ...appAnswer(app), ...warningOf(body.retention) });
	},
});

export const updateApp = endpoint({
	method: "PUT",
	path: "/app/:app_id",
	tag: "Apps",
	summary: "Change an app's settings",
	description: [
		"`allow_device_custom_id: false` stores no custom ids that",
		"devices send, and hides stored ones until it is true again.",
		"`block_provider_infra_requests` offers no update to devices in the networks of Google and Apple,",
		"where apps run for review, and does not count them.",
		"`allow_preview` opens GET /preview/channel and GET /preview/bundle, the links that `get-qr` of the",
		"stock CLI prints, to everybody who has or guesses",
		"one; signed links (GET /preview/link) do not need it.",
		"Names of preview channels begin with `preview_channel_prefix` (`pr-` by default, which null",
		"restores): previews get such names, preview keys create only channels of this form, and devices",
		"reach a preview by its name only if it has the form.",
		"The prefix ends with `-`, `_`, `.` or `/`.",
		"With `preview_prereleases_only` preview keys register only pre-releases (`1.4.0-pr.128`), so that",
		"none takes the version of a release.",
		"`preview_max_days` (1 to 365, default 30) is the longest time that a preview of POST /preview stays",
		"open after its last upload.",
		"`preview_access_ended` names the preview keys that created",
		"the new `default_upload_channel` and lose their access to it.",
		"GET /device/explain sends testers who need a newer store build to the store URLs; null removes one.",
		"`retention` is the time in seconds for which an unused bundle is kept, at least a day (a smaller",
		"number is raised to it, with a `warning`); 0 keeps everything.",
		`Automatic clean-up, every ${CLEAN_UP_MINUTES} minutes, deletes a bundle that is older, that no channel or rollout`,
		"serves, that no operator set for a device and that no device was seen running in that time, but",
		"never the app's newest.",
		"`keep_live_bundles` (0 to 50, default 5) is the number of bundles that were live on a channel before",
		"the present one and are kept, so that the channel can be rolled back to them: neither automatic",
		"clean-up nor the deletion of unused bundles deletes them.",
	],
	access: { permission: "app.update_settings", scope: appScope("params.app_id") },
	body: v.object({
		name: optional(label()),
		icon_url: v.optional(v.nullable(imageUrl)),
		default_upload_channel: optional(channelName),
		retention: optional(retentionSeconds()),
		keep_live_bundles: optional(keptLiveBundles()),
		expose_metadata: optional(switchValue),
		allow_device_custom_id: optional(v.boolean()),
		block_provider_infra_requests: optional(v.boolean()),
		allow_preview: optional(v.boolean()),
		preview_channel_prefix: v.optional(v.nullable(previewPrefix)),
		preview_prereleases_only: optional(v.boolean()),
		preview_max_days: optional(previewDays),
		ios_store_url: v.optional(v.nullable(storeUrl)),
		android_store_url: v.optional(v.nullable(storeUrl)),
		...refusedFields("PUT /app/:app_id"),
	}),
	response: v.strictObject({
		...appSchema.entries,
		preview_access_ended: v.optional(previewAccessEnded),
		warning: v.optional(v.string()),
	}),
	errors: ["setting_not_supported"],
	example: { body: { name: "Example 2" }, response: { ...EXAMPLE_APP, name: "Example 2" } },
	load: ({ params }) => ({ app: appByPublicId(params.app_id) }),
	async handle({ db, scope, scopeRow, input, loaded, nowMs, actor }) {
		refuseSettings("PUT /app/:app_id", input.body);
		const [current] = loaded.app;
		if (current === undefined) throw appNotFound();
		const { retention } = input.body;
		const settings = retention === undefined ? input.body : { ...input.body, retention: keptSeconds(retention) };
		const changes = changedSettings(current, settings);
		const warning = warningOf(retention);
		if (Object.keys(changes).length === 0) return { ...appAnswer(current), ...warning };
		const results = await db.batch([
			previewAccessOf(scope.appId, changes.default_upload_channel?.toString() ?? ""),
			...changeAppStatements(actor, nowMs, { ...scope, publicAppId: scopeRow.app_id }, changes),
			appRecord(scope.appId),
		]);
		const [row] = lastResult(results).rows;
		if (row === undefined) throw appNotFound();
		const ended = results[0].rows;
		return { ...appAnswer(row), ...(ended.length === 0 ? {} : { preview_access_ended: ended }), ...warning };
	},
});

function keptLiveBundles() {
	return v.pipe(
		v.number(),
		v.integer("must be a whole number of bundles"),
		v.minValue(0, "must not be negative"),
		v.maxValue(MOST_KEPT_LIVE_BUNDLES, `must be at most ${MOST_KEPT_LIVE_BUNDLES}`),
	);
}

/**
 * The shortest time for which an app keeps an unused bundle: numbers below it were meant as days.
 */
const SHORTEST_RETENTION_SECONDS = 86_400;
const RETENTION_WARNING =
	"retention is in seconds, and at least one day (86400) is kept; send 0 to keep everything, or the seconds you want.";

/** In the answer to a request whose retention was raised. */
const warningOf = (asked: number | undefined) =>
	asked !== undefined && asked > 0 && asked < SHORTEST_RETENTION_SECONDS ? { warning: RETENTION_WARNING } : {};

/** Never less than a day, except for 0, which keeps everything. */
const keptSeconds = (asked: number) => (asked === 0 ? 0 : Math.max(asked, SHORTEST_RETENTION_SECONDS));

function retentionSeconds() {
	return v.pipe(
		v.number(),
		v.integer("must be a whole number of seconds"),
		v.minValue(0, "must not be negative"),
		v.maxValue(LONGEST_RETENTION_SECONDS, `must be at most ${LONGEST_RETENTION_SECONDS} seconds`),
	);
}
