/**
 * Deletion of an app, with a dry run, and its restoration for 30 days. A deleted app is hidden
 * immediately: devices get app_not_found and keys grant nothing. The public id stays reserved for
 * the organization until it releases the id, because the owner of the id serves the installed
 * devices. The scheduled clean-up removes rows and objects (src/features/organizations/purge.ts).
 */
import { sql } from "kysely";
import * as v from "valibot";
import { appContents, auditedAppNow, EVERYTHING_AUDITED } from "../../db/apps";
import { auditStatement } from "../../db/audit/entries";
import { guard, query } from "../../db/client";
import {
	appIdIsFree,
	appIdIsReserved,
	appIsRestorable,
	deleteApp as deleteAppStatements,
	releaseAppId,
	reservationsPage,
	restoreApp as restoreAppStatements,
} from "../../db/deleted-apps";
import { RESTORABLE_MS } from "../../db/organizations";
import { prepared } from "../../db/prepared";
import { appsOfOrganization } from "../../db/quotas";
import { RESTORABLE_DAYS } from "../../domain/defaults";
import { isSampleAppId } from "../../domain/sample-app";
import { ApiError } from "../../errors";
import { endpoint } from "../../http/endpoint";
import { pageBounds, pageReply } from "../../http/paging";
import { batchInQuotas } from "../../http/quotas";
import {
	acknowledgement,
	booleanText,
	nullableTime,
	OK,
	optional,
	pageNumber,
	publicAppId,
	rfc3339,
	time,
	uuid,
} from "../../http/schemas";
import { appNotFound, appScope, orgScope, type ScopeSource, textAt } from "../../http/scope";

const EXAMPLE_ORG = "b7c1d3de-8f5a-4f43-93d3-1b0f6a4c9e21";

export const deleteApp = endpoint({
	method: "DELETE",
	path: "/app/:app_id",
	tag: "Apps",
	summary: `Delete an app with its channels, bundles and stored files; can be undone for ${RESTORABLE_DAYS} days`,
	description: [
		"The app is hidden from everybody immediately, and its devices get no updates.",
		`POST /app/restore restores all of it until \`restorable_until\`, ${RESTORABLE_DAYS} days from now; after that it is`,
		"removed permanently.",
		"Its id stays reserved for its organization, which may create a new app with it, until DELETE",
		"/app/reservation releases it.",
		"The stored files count towards the organization's storage until they are removed.",
		"A sample app (POST /app/sample) is removed at once and for good, and needs no recent sign-in.",
		"`dry_run=true` shows what would be deleted and changes nothing.",
	],
	access: { permission: "app.delete", scope: appScope("params.app_id") },
	recentSignIn: ({ params, query }) => query.dry_run !== true && !isSampleAppId(params.app_id),
	query: v.object({ dry_run: optional(booleanText) }),
	response: v.union([
		v.strictObject({ status: v.literal("ok"), id: v.string(), restorable_until: time }),
		v.strictObject({
			status: v.literal("ok"),
			dry_run: v.literal(true),
			id: v.string(),
			app_id: v.string(),
			removes: v.strictObject({
				channels: v.number(),
				bundles: v.number(),
				bundle_bytes: v.number(),
				api_key_bindings: v.number(),
			}),
			restorable_until: time,
		}),
	]),
	errors: [],
	example: {
		response: {
			status: "ok",
			id: "3f1b8a52-64d1-4b0e-9c0e-0f6f3f1c7a10",
			restorable_until: "2026-12-21T08:00:00.000Z",
		},
	},
	load: ({ params, query }) => ({ contents: query.dry_run === true ? appContents(params.app_id) : undefined }),
	async handle({ db, deps, scope, scopeRow, input, loaded, nowMs, actor }) {
		const isSample = isSampleAppId(scopeRow.app_id);
		const restorable_until = rfc3339(nowMs + (isSample ? 0 : RESTORABLE_MS));
		if (input.query.dry_run === true) {
			const [removes] = loaded.contents;
			if (removes === undefined) throw appNotFound();
			return { ...OK, dry_run: true as const, id: scope.appId, app_id: scopeRow.app_id, removes, restorable_until };
		}
		await db.batch([
			auditStatement(actor, nowMs, {
				orgId: scope.orgId,
				action: "app.delete",
				target: { type: "app", id: scope.appId, name: scopeRow.app_id },
				app: { uuid: scope.appId, id: scopeRow.app_id },
				before: auditedAppNow(scope.appId, EVERYTHING_AUDITED),
				details: { restorable_until },
			}),
			...deleteAppStatements(scope.orgId, scope.appId, deps.newId(), actor.name, nowMs),
			...(isSample ? releaseAppId(scope.orgId, scopeRow.app_id, nowMs) : []),
		]);
		return { ...OK, id: scope.appId, restorable_until };
	},
});

interface DeletedAppScopeRow {
	readonly id: string;
	readonly app_id: string;
	readonly owner_org: string;
}

const deletedAppStatement = prepared<{ appId: string; id: string }, DeletedAppScopeRow>((value) =>
	sql<DeletedAppScopeRow>`SELECT d.app_id AS id, d.public_app_id AS app_id, d.org_id AS owner_org
		FROM deleted_apps d INNER JOIN organizations o ON o.id = d.org_id AND o.deleted_at_ms IS NULL
		WHERE d.public_app_id = ${value("appId")} AND (${value("id")} = '' OR d.app_id = ${value("id")})
		ORDER BY d.deleted_at_ms DESC, d.app_id LIMIT 1`.compile(query),
);

/** The most recently deleted app with the body's app_id, or the one that `id` names. */
const deletedAppScope: ScopeSource<DeletedAppScopeRow> = {
	statement: (raw) => {
		const appId = textAt(raw, "body.app_id");
		return appId === undefined
			? undefined
			: deletedAppStatement({ appId, id: textAt(raw, "body.id")?.toLowerCase() ?? "" });
	},
	target: (row) => ({ orgId: row.owner_org, appId: row.id, isDeletedApp: true }),
	hidden: appNotFound,
};

export const restoreApp = endpoint({
	method: "POST",
	path: "/app/restore",
	tag: "Apps",
	summary: "Undo the deletion of an app",
	description: [
		`Possible for ${RESTORABLE_DAYS} days, for callers that may delete the app.`,
		"If several deleted apps had the app_id, the most recently deleted one is restored, or the one that",
		"`id` names (GET /app?deleted=true lists them). 409 while another app has the app_id.",
	],
	access: { permission: "app.delete", scope: deletedAppScope },
	body: v.object({ app_id: publicAppId, id: optional(uuid) }),
	response: acknowledgement,
	errors: ["quota_exceeded", "app_id_already_exists"],
	example: { body: { app_id: "com.example.app" }, response: OK },
	async handle({ db, deps, scope, scopeRow, nowMs, actor }) {
		await batchInQuotas(
			db,
			deps.config.quotas,
			[appsOfOrganization(scope.orgId)],
			[
				guard(appIsRestorable(scope.orgId, scope.appId, nowMs - RESTORABLE_MS), appNotFound),
				guard(appIdIsFree(scopeRow.app_id, scope.orgId), appIdReused),
				...restoreAppStatements(scope.orgId, scope.appId),
				auditStatement(actor, nowMs, {
					orgId: scope.orgId,
					action: "app.restore",
					target: { type: "app", id: scope.appId, name: scopeRow.app_id },
					app: { uuid: scope.appId, id: scopeRow.app_id },
					after: { app_id: scopeRow.app_id },
				}),
			],
		);
		return OK;
	},
});

const appIdReused = () =>
	new ApiError(
		"app_id_already_exists",
		"Another app has this app_id now; delete that app first (DELETE /app/:app_id), then restore this one by its id.",
		{ reason: "app_id_taken_since" },
	);

const reservationSchema = v.strictObject({
	app_id: v.string(),
	org_id: v.string(),
	reserved_at: time,
	/** End of the time in which a deleted app of this id can be restored. */
	restorable_until: nullableTime,
});

export const listReservations = endpoint({
	method: "GET",
	path: "/app/reservation",
	tag: "Apps",
	summary: "List the reserved ids of an organization that no app has",
	description: [
		"The id of a deleted app stays reserved for its",
		"organization, because installed devices ask for updates under it.",
		"`restorable_until` is set while POST /app/restore can restore the app.",
	],
	access: { permission: "org.create_app", scope: orgScope("query.orgId") },
	query: v.object({ orgId: uuid, page: pageNumber }),
	response: v.array(reservationSchema),
	errors: [],
	example: {
		query: { orgId: EXAMPLE_ORG },
		response: [
			{
				app_id: "com.example.old",
				org_id: EXAMPLE_ORG,
				reserved_at: "2026-11-21T08:00:00.000Z",
				restorable_until: "2026-12-21T08:00:00.000Z",
			},
		],
	},
	load: ({ query }, nowMs) => {
		const { limit, offset } = pageBounds(query.page);
		return { reservations: reservationsPage(query.orgId, nowMs - RESTORABLE_MS, limit, offset) };
	},
	async handle({ input, loaded, request, origin }) {
		return pageReply({ request, origin }, input.query.page, loaded.reservations, (row) => ({
			app_id: row.app_id,
			org_id: row.org_id,
			reserved_at: rfc3339(row.reserved_at_ms),
			restorable_until: row.deleted_at_ms === null ? null : rfc3339(row.deleted_at_ms + RESTORABLE_MS),
		}));
	},
});

interface ReservationScopeRow {
	readonly app_id: string;
	readonly org_id: string;
	readonly deleted_apps: number;
}

const reservationScope: ScopeSource<ReservationScopeRow> = {
	statement: (raw) => {
		const appId = textAt(raw, "query.app_id");
		if (appId === undefined) return undefined;
		return sql<ReservationScopeRow>`SELECT r.app_id, r.org_id, (SELECT count(*) FROM deleted_apps d
				WHERE d.public_app_id = r.app_id AND d.org_id = r.org_id) AS deleted_apps
			FROM app_reservations r INNER JOIN organizations o ON o.id = r.org_id AND o.deleted_at_ms IS NULL
			WHERE r.app_id = ${appId}`.compile(query);
	},
	// The target is an app, so that the reservation is hidden from callers who know only another app
	// of the organization.
	target: (row) => ({ orgId: row.org_id, appId: row.app_id, isDeletedApp: true }),
	hidden: appNotFound,
};

export const releaseReservation = endpoint({
	method: "DELETE",
	path: "/app/reservation",
	tag: "Apps",
	summary: "Release the id of a deleted app, so that every organization may take it",
	description: [
		"Devices that still have the app get updates from the organization that takes its id.",
		"Deleted apps of this id can no longer be restored",
		"and are removed permanently with their stored files.",
		"`dry_run=true` counts them and changes nothing.",
	],
	access: { permission: "app.delete", scope: reservationScope },
	recentSignIn: ({ query }) => query.dry_run !== true,
	query: v.object({ app_id: publicAppId, dry_run: optional(booleanText) }),
	response: v.strictObject({
		status: v.literal("ok"),
		dry_run: v.boolean(),
		app_id: v.string(),
		removes: v.strictObject({ deleted_apps: v.number() }),
	}),
	errors: [],
	example: {
		query: { app_id: "com.example.old" },
		response: { status: "ok", dry_run: false, app_id: "com.example.old", removes: { deleted_apps: 1 } },
	},
	async handle({ db, scope, scopeRow, input, nowMs, actor }) {
		const { app_id, deleted_apps } = scopeRow;
		if (input.query.dry_run !== true) {
			await db.batch([
				guard(appIdIsReserved(scope.orgId, app_id), appNotFound),
				...releaseAppId(scope.orgId, app_id, nowMs),
				auditStatement(actor, nowMs, {
					orgId: scope.orgId,
					action: "app.release_id",
					target: { type: "app", id: app_id, name: app_id },
					before: { app_id },
					details: { deleted_apps },
				}),
			]);
		}
		return { ...OK, dry_run: input.query.dry_run === true, app_id, removes: { deleted_apps } };
	},
});
