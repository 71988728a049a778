/**
 * Transfer of an app to another organization: one offers, the other accepts. Both must agree,
 * because the installed devices stay with the app. The app keeps its channels, bundles, devices,
 * statistics and history. The batch that moves the app ends the role bindings of keys and people of
 * the giving organization.
 */
import { sql } from "kysely";
import * as v from "valibot";
import { type AppId, holds, type OrgId } from "../../authz/decide";
import { ADMINISTRATORS, type Permission } from "../../authz/permissions";
import {
	bindingsEnding,
	deleteTransfer,
	moveApp,
	offerApp,
	TRANSFER_LIFETIME_MS,
	type TransferRow,
	transferIsBacked,
	transferIsOffered,
	transferIsOpen,
	transferOf,
	transfersPage,
} from "../../db/app-transfers";
import { appContents } from "../../db/apps";
import { auditBindingGiven, auditBindingsOfApp, elsewhere } from "../../db/audit/bindings";
import { auditBundleDeletions } from "../../db/audit/bundles";
import { auditStatement } from "../../db/audit/entries";
import { guard } from "../../db/client";
import { organizationIsLive } from "../../db/organizations";
import { deleteHooksOfApp } from "../../db/preview-hooks";
import { appsOfOrganization, storageOfOrganization } from "../../db/quotas";
import { insertBinding } from "../../db/role-bindings";
import { unsignedChannelsOfOffer } from "../../db/signing-keys";
import { TRANSFER_DAYS } from "../../domain/defaults";
import { ApiError, invalidRequest } from "../../errors";
import { endpoint, Reply } from "../../http/endpoint";
import { pageBounds, pageReply } from "../../http/paging";
import { batchInQuotas } from "../../http/quotas";
import { acknowledgement, OK, optional, pageNumber, publicAppId, rfc3339, time, uuid } from "../../http/schemas";
import { appScope, hiddenAs, organizationNotFound, orgScope, type ScopeSource, textAt } from "../../http/scope";
import { MOST_UNSIGNED_CHANNELS, unsignedChannelFields, unsignedChannelsAnswer } from "../signing/routes";
import { roleOnNewApp } from "./creation";

const EXAMPLE_APP = "3f1b8a52-64d1-4b0e-9c0e-0f6f3f1c7a10";
const FROM_ORG = "b7c1d3de-8f5a-4f43-93d3-1b0f6a4c9e21";
const TO_ORG = "6f0f2c1a-58a3-4f7e-9d31-0c2b7e1d4a55";
/** Limit for the bindings in `ends`. */
const MOST_BINDINGS = 100;

const transferNotFound = hiddenAs(
	"transfer_not_found",
	"No open offer of this app is visible to the caller; list offers with GET /app/transfer.",
);

/**
 * The account of the key is responsible for the offer, so it must be a member who may offer the
 * app.
 */
const offererMustBeMember = () =>
	new ApiError(
		"permission_denied",
		"The account that this API key acts for is not an administrator of the organization, so it cannot give an app away; ask an administrator to offer it.",
		{ moreInfo: { permission: "org.update_settings", scope: "org" } },
	);

const transferSchema = v.strictObject({
	id: v.string(),
	app_id: v.string(),
	name: v.string(),
	direction: v.picklist(["incoming", "outgoing"]),
	from_org: v.string(),
	from_org_name: v.string(),
	to_org: v.string(),
	/** Only for an outgoing offer. */
	offered_by: v.nullable(v.string()),
	created_at: time,
	expires_at: time,
});

const EXAMPLE_TRANSFER = {
	id: EXAMPLE_APP,
	app_id: "com.example.app",
	name: "Example",
	direction: "incoming" as const,
	from_org: FROM_ORG,
	from_org_name: "Agency",
	to_org: TO_ORG,
	offered_by: null,
	created_at: "2026-11-21T08:00:00.000Z",
	expires_at: "2026-11-28T08:00:00.000Z",
};

const endingBinding = v.strictObject({
	id: v.string(),
	role_name: v.string(),
	scope_type: v.string(),
	channel_id: v.nullable(v.number()),
	holder_type: v.string(),
	holder_id: v.string(),
	holder_name: v.string(),
});

/** Only administrators of the organization may give an app away, not administrators of the app. */
const BOTH: readonly [Permission, ...Permission[]] = ["app.delete", "org.update_settings"];
const GIVING = { permissions: BOTH, choose: () => BOTH };

export const offerTransfer = endpoint({
	method: "POST",
	path: "/app/transfer",
	tag: "Apps",
	summary: "Offer an app to another organization",
	description: [
		`A caller of the other organization who may create apps can accept the offer within ${TRANSFER_DAYS} days, while the`,
		"account and the key that made it may still give the app away.",
		"Channels, bundles, devices, statistics and the audit log move with the app.",
		"Role bindings on the app end (`ends.bindings`, the first 100), and unfinished uploads are dropped.",
		"A second offer replaces the first.",
		"`dry_run: true` shows what would end and creates no offer.",
	],
	access: { ...GIVING, scope: appScope("body.app_id") },
	refusesUnknown: true,
	recentSignIn: ({ body }) => body.dry_run !== true,
	body: v.object({ app_id: publicAppId, to_org: uuid, dry_run: optional(v.boolean()) }),
	status: [201, 200],
	response: v.strictObject({
		status: v.literal("ok"),
		dry_run: v.boolean(),
		app_id: v.string(),
		to_org: v.string(),
		expires_at: time,
		ends: v.strictObject({ bindings: v.array(endingBinding), binding_count: v.number() }),
	}),
	errors: ["organization_not_found"],
	example: {
		body: { app_id: "com.example.app", to_org: TO_ORG },
		response: {
			status: "ok",
			dry_run: false,
			app_id: "com.example.app",
			to_org: TO_ORG,
			expires_at: "2026-11-28T08:00:00.000Z",
			ends: { bindings: [], binding_count: 0 },
		},
	},
	load: ({ body }) => ({ bindings: bindingsEnding(body.app_id, MOST_BINDINGS) }),
	async handle({ db, principal, scope, scopeRow, input, loaded, nowMs, actor }) {
		const { to_org, dry_run } = input.body;
		if (to_org === scope.orgId) {
			throw invalidRequest([{ path: "to_org", message: "already has the app; name another organization" }]);
		}
		const expires_at = rfc3339(nowMs + TRANSFER_LIFETIME_MS);
		const isLive = guard(organizationIsLive(to_org), organizationNotFound);
		if (dry_run === true) {
			await db.batch([isLive]);
		} else {
			await db.batch([
				isLive,
				offerApp(scope.orgId, scope.appId, { toOrg: to_org, offeredBy: actor.name, holder: principal }, nowMs),
				guard(transferIsBacked(scope.appId, nowMs), offererMustBeMember),
				auditStatement(actor, nowMs, {
					orgId: scope.orgId,
					action: "app.transfer_offer",
					target: { type: "app", id: scope.appId, name: scopeRow.app_id },
					details: { to_org, expires_at },
				}),
			]);
		}
		return new Reply(dry_run === true ? 200 : 201, {
			...OK,
			dry_run: dry_run === true,
			app_id: scopeRow.app_id,
			to_org,
			expires_at,
			ends: {
				bindings: loaded.bindings.map(({ bindings: _, ...binding }) => binding),
				binding_count: loaded.bindings[0]?.bindings ?? 0,
			},
		});
	},
});

export const withdrawTransfer = endpoint({
	method: "DELETE",
	path: "/app/transfer",
	tag: "Apps",
	summary: "Withdraw the offer of an app",
	access: { ...GIVING, scope: appScope("query.app_id") },
	query: v.object({ app_id: publicAppId }),
	response: acknowledgement,
	errors: ["transfer_not_found"],
	example: { query: { app_id: "com.example.app" }, response: OK },
	load: ({ query }) => ({ offer: transferOf(query.app_id) }),
	async handle({ db, scope, scopeRow, loaded, nowMs, actor }) {
		const [offer] = loaded.offer;
		if (offer === undefined) throw transferNotFound();
		await db.batch([
			guard(transferIsOffered(scope.orgId, scope.appId), transferNotFound),
			deleteTransfer(scope.appId),
			auditStatement(actor, nowMs, {
				orgId: scope.orgId,
				action: "app.transfer_withdraw",
				target: { type: "app", id: scope.appId, name: scopeRow.app_id },
				details: { to_org: offer.to_org },
			}),
		]);
		return OK;
	},
});

export const listTransfers = endpoint({
	method: "GET",
	path: "/app/transfer",
	tag: "Apps",
	summary: "List the open offers of apps to and from an organization",
	access: { permission: "org.create_app", scope: orgScope("query.orgId") },
	query: v.object({ orgId: uuid, page: pageNumber }),
	response: v.array(transferSchema),
	errors: [],
	example: { query: { orgId: TO_ORG }, response: [EXAMPLE_TRANSFER] },
	load: ({ query }, nowMs) => {
		const { limit, offset } = pageBounds(query.page);
		return { transfers: transfersPage(query.orgId, nowMs, limit, offset) };
	},
	async handle({ scope, input, loaded, request, origin }) {
		return pageReply({ request, origin }, input.query.page, loaded.transfers, (row) => {
			const isOutgoing = row.from_org === scope.orgId;
			return {
				id: row.id,
				app_id: row.app_id,
				name: row.name,
				direction: isOutgoing ? ("outgoing" as const) : ("incoming" as const),
				from_org: row.from_org,
				from_org_name: row.from_name,
				to_org: row.to_org,
				offered_by: isOutgoing ? row.offered_by : null,
				created_at: rfc3339(row.created_at_ms),
				expires_at: rfc3339(row.expires_at_ms),
			};
		});
	},
});

/** The offer of the app in the body; its scope is the receiving organization. */
const offerScope: ScopeSource<TransferRow> = {
	statement: (raw) => {
		const appId = textAt(raw, "body.app_id");
		return appId === undefined ? undefined : transferOf(appId);
	},
	target: (row) => ({ orgId: row.to_org }),
	hidden: transferNotFound,
};

export const acceptTransfer = endpoint({
	method: "POST",
	path: "/app/transfer/accept",
	tag: "Apps",
	summary: "Accept an app that another organization offers",
	description: [
		"The app and everything in it belongs to the organization from then on; devices notice nothing.",
		"The caller gets the role on the app that creating an app gives.",
		"If the organization requires signed bundles, `unsigned_channels` (the first 100) lists the channels",
		"with a bundle that none of its keys verified; they keep serving it.",
		"`dry_run: true` shows what would be moved and moves nothing.",
	],
	access: { permission: "org.create_app", scope: offerScope },
	body: v.object({ app_id: publicAppId, dry_run: optional(v.boolean()) }),
	response: v.strictObject({
		status: v.literal("ok"),
		dry_run: v.boolean(),
		id: v.string(),
		app_id: v.string(),
		from_org: v.string(),
		to_org: v.string(),
		receives: v.strictObject({ channels: v.number(), bundles: v.number(), bundle_bytes: v.number() }),
		ends: v.strictObject({ binding_count: v.number() }),
		...unsignedChannelFields,
	}),
	errors: ["transfer_not_found", "quota_exceeded"],
	example: {
		body: { app_id: "com.example.app" },
		response: {
			status: "ok",
			dry_run: false,
			id: EXAMPLE_APP,
			app_id: "com.example.app",
			from_org: FROM_ORG,
			to_org: TO_ORG,
			receives: { channels: 5, bundles: 41, bundle_bytes: 83_886_080 },
			ends: { binding_count: 3 },
			unsigned_channels: [],
			unsigned_channel_count: 0,
		},
	},
	load: ({ body }) => ({
		contents: appContents(body.app_id),
		unsigned: unsignedChannelsOfOffer(body.app_id, MOST_UNSIGNED_CHANNELS),
	}),
	async handle({ db, deps, principal, scope, scopeRow: offer, input, loaded, nowMs, actor }) {
		const [contents] = loaded.contents;
		if (contents === undefined || offer.expires_at_ms <= nowMs) throw transferNotFound();
		const open = [
			guard(transferIsOpen(offer, nowMs), transferNotFound),
			guard(transferIsBacked(offer.id, nowMs), transferNotFound),
		];
		if (input.body.dry_run === true) {
			await db.batch(open);
		} else {
			const appId = offer.id as AppId;
			const app = { uuid: appId, id: offer.app_id };
			const target = { type: "app", id: appId, name: offer.app_id };
			const [giver, stranger] = [offer.from_org as OrgId, elsewhere(actor)];
			const role = roleOnNewApp(principal, scope.orgId);
			const needsBinding = role !== undefined && !holds(principal, "app.delete", { orgId: scope.orgId, appId });
			const bindingId = deps.newId();
			await batchInQuotas(
				db,
				deps.config.quotas,
				[appsOfOrganization(scope.orgId), storageOfOrganization(scope.orgId)],
				[
					...open,
					auditBindingsOfApp(stranger, nowMs, giver, app),
					auditBundleDeletions(stranger, nowMs, sql`app_id = ${appId} AND status = 'pending'`, {
						reason: "app_transferred",
					}),
					auditStatement(stranger, nowMs, {
						orgId: giver,
						action: "app.transfer",
						target,
						details: { to_org: scope.orgId },
					}),
					...moveApp(offer, ADMINISTRATORS, nowMs),
					// Members of the former organization know the secrets.
					deleteHooksOfApp(appId),
					...(needsBinding
						? [
								insertBinding("app", {
									id: bindingId,
									holder: principal,
									role,
									orgId: scope.orgId,
									appId,
									createdAtMs: nowMs,
								}),
							]
						: []),
					auditStatement(actor, nowMs, {
						orgId: scope.orgId,
						action: "app.transfer",
						target,
						app,
						details: { from_org: giver, from_org_name: offer.from_name },
					}),
					auditBindingGiven(actor, nowMs, scope.orgId, bindingId, principal),
				],
			);
		}
		const { channels, bundles, bundle_bytes, api_key_bindings } = contents;
		return {
			...OK,
			dry_run: input.body.dry_run === true,
			id: offer.id,
			app_id: offer.app_id,
			from_org: offer.from_org,
			to_org: offer.to_org,
			receives: { channels, bundles, bundle_bytes },
			ends: { binding_count: api_key_bindings },
			...unsignedChannelsAnswer(loaded.unsigned),
		};
	},
});

export const declineTransfer = endpoint({
	method: "POST",
	path: "/app/transfer/decline",
	tag: "Apps",
	summary: "Decline an app that another organization offers",
	access: { permission: "org.create_app", scope: offerScope },
	body: v.object({ app_id: publicAppId }),
	response: acknowledgement,
	errors: ["transfer_not_found"],
	example: { body: { app_id: "com.example.app" }, response: OK },
	async handle({ db, scope, scopeRow: offer, nowMs, actor }) {
		const target = { type: "app", id: offer.id, name: offer.app_id };
		const entry = { action: "app.transfer_decline", target };
		await db.batch([
			guard(transferIsOpen(offer, nowMs), transferNotFound),
			deleteTransfer(offer.id),
			auditStatement(actor, nowMs, { ...entry, orgId: scope.orgId, details: { from_org: offer.from_org } }),
			auditStatement(elsewhere(actor), nowMs, { ...entry, orgId: offer.from_org, details: { to_org: scope.orgId } }),
		]);
		return OK;
	},
});
