/**
 * The remote procedures that the stock CLI calls. Those about plans and two-factor rules have a
 * constant answer, because this service has neither. The others use the same authorization as the
 * public API.
 */
import * as v from "valibot";
import { holds, orgsWhere, type Target } from "../../authz/decide";
import type { Principal } from "../../authz/principal";
import { appCounts } from "../../db/apps";
import { bundleByName } from "../../db/bundles";
import { query } from "../../db/client";
import { organizationsPage } from "../../db/organizations";
import { appIdOf } from "../../db/public-app-id";
import { isVersionTaken } from "../../features/bundles/registration";
import { endpoint } from "../../http/endpoint";
import { integerId, optional, publicAppId, text, uuid } from "../../http/schemas";
import {
	type AppScopeRow,
	appScope,
	bundleNotFound,
	CHANNEL_SCOPE_COLUMNS,
	type ChannelScopeRow,
	channelNotFound,
	channelTarget,
} from "../../http/scope";
import { PERMISSION_NAMES } from "./permission-names";
import { PREFIX, rowsReply, singleRefusal, TAG } from "./postgrest";
import { channelsThatRequireApproval } from "./queries";

const RPC = `${PREFIX}/rest/v1/rpc` as const;
const MOST_ORGANIZATIONS = 200;
const MOST_WARNINGS = 20;

/** A procedure with a constant answer. */
function constant<const Name extends string, const Value extends number | boolean>(
	name: Name,
	value: Value,
	why: string,
) {
	return constantAnswer(name, v.literal(value), value, why);
}

function constantAnswer<const Name extends string, Value>(
	name: Name,
	schema: v.GenericSchema<Value>,
	value: Value,
	why: string,
) {
	return endpoint({
		method: "POST",
		path: `${RPC}/${name}` as const,
		tag: TAG,
		summary: `${name}: always ${JSON.stringify(value)}`,
		access: { anyKey: why },
		body: v.object({}),
		response: schema,
		errors: [],
		example: { body: {}, response: value },
		async handle() {
			return value;
		},
	});
}

const noRows = v.pipe(v.array(v.string()), v.maxLength(0));

export const constants = [
	constant("reject_access_due_to_2fa_for_app", false, "There is no two-factor rule to fail."),
	constant("reject_access_due_to_2fa_for_org", false, "There is no two-factor rule to fail."),
	constantAnswer("check_org_members_2fa_enabled", noRows, [], "There is no two-factor rule to fail."),
	constant("is_allowed_action_org_action", true, "There are no plans; permissions are checked by the action itself."),
	constant("is_trial_org", 0, "There are no trials."),
	constant("is_paying_org", true, "There are no plans."),
	constant("has_usage_credits_org", true, "There are no credits."),
] as const;

/**
 * The CLI prints these before an upload. It prints no answer of a promotion, so this is the only
 * notice that a promotion waits for approval.
 */
export const warnings = endpoint({
	method: "POST",
	path: `${RPC}/get_organization_cli_warnings`,
	tag: TAG,
	summary: "Warn about channels that require approval",
	access: { anyKey: "It names the channels that the key may promote to." },
	body: v.object({ orgid: optional(uuid) }),
	response: v.array(v.strictObject({ message: v.string(), fatal: v.boolean() })),
	errors: [],
	example: { body: { orgid: "b7c1d3de-8f5a-4f43-93d3-1b0f6a4c9e21" }, response: [] },
	load: ({ body }) => ({ channels: channelsThatRequireApproval(body.orgid ?? "") }),
	async handle({ loaded, principal }) {
		return loaded.channels
			.filter((row) => holds(principal, "channel.promote_bundle", { orgId: row.owner_org, appId: row.app_uuid }))
			.slice(0, MOST_WARNINGS)
			.map(({ name, app_id }) => ({
				message: `Channel ${name} of ${app_id} is protected: a bundle that is set to it is waiting for approval, and devices get it once a promoter approves it.`,
				fatal: false,
			}));
	},
});

export const actorUserId = endpoint({
	method: "POST",
	path: `${RPC}/request_actor_user_id`,
	tag: TAG,
	summary: "The account that the key acts for",
	access: { anyKey: "It shows the key's own account." },
	response: v.string(),
	errors: [],
	example: {},
	async handle({ principal }) {
		return principal.userId;
	},
});

export const actorEmail = endpoint({
	method: "POST",
	path: `${RPC}/request_actor_email_adress`,
	tag: TAG,
	summary: "The e-mail address of the account that the key acts for",
	access: { anyKey: "It shows the key's own account." },
	response: v.string(),
	errors: [],
	example: {},
	async handle({ db, principal }) {
		const [users] = await db.batch([
			query.selectFrom("users").select("email").where("id", "=", principal.userId).compile(),
		]);
		return users.rows[0]?.email ?? "";
	},
});

export const checkPermission = endpoint({
	method: "POST",
	path: `${RPC}/cli_check_permission`,
	tag: TAG,
	summary: "Whether the calling key holds a permission",
	access: { anyKey: "It shows the permissions of the calling key." },
	body: v.object({
		permission_key: text(64),
		org_id: optional(v.string()),
		app_id: optional(v.string()),
		channel_id: optional(integerId),
	}),
	response: v.boolean(),
	errors: [],
	example: { body: { permission_key: "app.upload_bundle", app_id: "com.example.app" }, response: true },
	load: ({ body: { app_id, channel_id } }) => ({
		app: app_id === undefined ? undefined : appOfTarget(app_id),
		channel: app_id === undefined || channel_id === undefined ? undefined : channelOfTarget(app_id, channel_id),
	}),
	async handle({ input, loaded, principal }) {
		const { body } = input;
		const known = Object.hasOwn(PERMISSION_NAMES, body.permission_key);
		const permission = known ? PERMISSION_NAMES[body.permission_key] : undefined;
		const channel = loaded.channel[0];
		const target = targetOf(body, loaded.app[0], channel);
		if (permission === undefined || target === undefined) return false;
		if (holds(principal, permission, target)) return true;
		// `upload --self-assign` asks for this before it sends a setting that the channel may already
		// have, which needs only read access. The answer is advice: POST /channel decides about the
		// change.
		const repeatsSetting = permission === "channel.update_settings" && channel?.allow_device_self_set === 1;
		return repeatsSetting && holds(principal, "channel.promote_bundle", target);
	},
});

function appOfTarget(publicAppId: string) {
	const columns = ["id", "owner_org", "default_upload_channel"] as const;
	return query.selectFrom("apps").select(columns).where("id", "=", appIdOf(publicAppId)).compile();
}

function channelOfTarget(publicAppId: string, channelId: number) {
	return query
		.selectFrom("channels")
		.select([...CHANNEL_SCOPE_COLUMNS, "allow_device_self_set"])
		.where("app_id", "=", appIdOf(publicAppId))
		.where("id", "=", channelId)
		.compile();
}

function targetOf(
	body: {
		readonly org_id?: string | undefined;
		readonly app_id?: string | undefined;
		readonly channel_id?: number | undefined;
	},
	app: Pick<AppScopeRow, "id" | "owner_org" | "default_upload_channel"> | undefined,
	channel: Omit<ChannelScopeRow, keyof AppScopeRow> | undefined,
): Target | undefined {
	if (body.app_id === undefined) return body.org_id === undefined ? undefined : { orgId: body.org_id };
	if (app === undefined) return undefined;
	if (body.channel_id === undefined) return { orgId: app.owner_org, appId: app.id };
	return channel === undefined ? undefined : channelTarget({ ...app, ...channel });
}

export const existsVersion = endpoint({
	method: "POST",
	path: `${RPC}/exist_app_versions`,
	tag: TAG,
	summary: "Whether a version is taken",
	description: "A registration that this key left unfinished, or that expired, does not count: it can start over.",
	access: { permission: "app.read_bundles", scope: appScope("body.appid") },
	body: v.object({ appid: publicAppId, name_version: text(128) }),
	response: v.boolean(),
	errors: [],
	example: { body: { appid: "com.example.app", name_version: "1.4.0" }, response: false },
	load: ({ body }) => ({ bundle: bundleByName(body.appid, body.name_version) }),
	async handle({ loaded, principal, nowMs }) {
		return isVersionTaken(loaded.bundle[0], principal, nowMs);
	},
});

export const versionId = endpoint({
	method: "POST",
	path: `${RPC}/get_app_versions`,
	tag: TAG,
	summary: "The id of a version",
	access: { permission: "app.read_bundles", scope: appScope("body.appid") },
	body: v.object({ appid: publicAppId, name_version: text(128) }),
	response: v.number(),
	errors: ["bundle_not_found"],
	example: { body: { appid: "com.example.app", name_version: "1.4.0" }, response: 41 },
	load: ({ body }) => ({ bundle: bundleByName(body.appid, body.name_version) }),
	async handle({ loaded }) {
		const [bundle] = loaded.bundle;
		if (bundle === undefined) throw bundleNotFound();
		return bundle.id;
	},
});

export const currentBundle = endpoint({
	method: "POST",
	path: `${RPC}/get_channel_current_bundle_rbac`,
	tag: TAG,
	summary: "The version that a channel points to",
	access: { permission: "app.read", scope: appScope("body.p_app_id") },
	body: v.object({ p_app_id: publicAppId, p_channel_id: integerId }),
	response: v.array(v.strictObject({ bundle_name: v.string() })),
	errors: ["channel_not_found"],
	example: { body: { p_app_id: "com.example.app", p_channel_id: 7 }, response: [{ bundle_name: "1.4.0" }] },
	load: ({ body }) => ({
		channel: query
			.selectFrom("channels")
			.leftJoin("bundles", "bundles.id", "channels.version_id")
			.select("bundles.name")
			.where("channels.app_id", "=", appIdOf(body.p_app_id))
			.where("channels.id", "=", body.p_channel_id)
			.compile(),
	}),
	async handle({ loaded }) {
		const [row] = loaded.channel;
		if (row === undefined) throw channelNotFound();
		return [{ bundle_name: row.name ?? "builtin" }];
	},
});

const organizationRow = v.strictObject({
	gid: v.string(),
	created_by: v.string(),
	name: v.string(),
	role: v.string(),
	logo: v.nullable(v.string()),
	management_email: v.string(),
	app_count: v.number(),
	paying: v.boolean(),
	trial_left: v.number(),
	can_use_more: v.boolean(),
	is_canceled: v.boolean(),
	enforcing_2fa: v.boolean(),
	"2fa_has_access": v.boolean(),
	password_has_access: v.boolean(),
});

export const organizations = endpoint({
	method: "POST",
	path: `${RPC}/get_orgs_v7`,
	tag: TAG,
	summary: "The organizations that the key can read",
	access: { anyKey: "Shows the organizations in which a binding of the key holds org.read." },
	response: v.union([v.array(organizationRow), organizationRow, singleRefusal]),
	status: [200, 406],
	errors: [],
	example: {},
	async handle({ db, principal, request }) {
		const readable = orgsWhere(principal, "org.read");
		const [found, counts] = await db.batch([organizationsPage(readable, MOST_ORGANIZATIONS, 0), appCounts(readable)]);
		const appsOf = new Map(counts.rows.map((row) => [row.owner_org, row.apps]));
		return rowsReply(
			request.headers,
			found.rows.map((row) => ({
				gid: row.id,
				created_by: row.created_by,
				name: row.name,
				role: roleIn(principal, row.id),
				logo: row.logo,
				management_email: row.management_email ?? "",
				app_count: appsOf.get(row.id) ?? 0,
				paying: true,
				trial_left: 0,
				can_use_more: true,
				is_canceled: false,
				enforcing_2fa: false,
				"2fa_has_access": true,
				password_has_access: true,
			})),
		);
	},
});

/** The CLI prints the role and selects organizations by it. */
function roleIn(principal: Principal, orgId: string): string {
	return (
		principal.bindings.find((binding) => binding.orgId === orgId && binding.scopeType === "org")?.role.name ??
		principal.bindings.find((binding) => binding.orgId === orgId)?.role.name ??
		""
	);
}
