/**
 * One request for every endpoint that only the stock Capgo CLI calls: its procedures, and its reads
 * and writes of rows.
 */
import { bundleThing, channelThing, fresh, freshVersion, madeChannel, type Prepare, uploaded } from "./request-parts";

const PREFIX = "/compat/capgo-cli";

const RPC = `${PREFIX}/rest/v1/rpc`;

const constantProcedure =
	(name: string): Prepare =>
	async () => ({ path: `${RPC}/${name}`, body: {} });

export const CAPGO_CLI_REQUESTS: Readonly<Record<string, Prepare>> = {
	[`GET ${PREFIX}/functions/v1/app/:app_id`]: async (_, app) => ({ path: `${PREFIX}/functions/v1/app/${app.appId}` }),
	...Object.fromEntries(
		[
			"reject_access_due_to_2fa_for_app",
			"reject_access_due_to_2fa_for_org",
			"check_org_members_2fa_enabled",
			"is_allowed_action_org_action",
			"is_trial_org",
			"is_paying_org",
			"has_usage_credits_org",
			"request_actor_user_id",
			"request_actor_email_adress",
			"get_orgs_v7",
		].map((name) => [`POST ${RPC}/${name}`, constantProcedure(name)]),
	),
	[`POST ${RPC}/get_organization_cli_warnings`]: async (world) => ({
		path: `${RPC}/get_organization_cli_warnings`,
		body: { orgid: world.orgId },
	}),
	[`POST ${RPC}/cli_check_permission`]: async (_, app) => ({
		path: `${RPC}/cli_check_permission`,
		body: { permission_key: "app.read", app_id: app.appId },
	}),
	[`POST ${RPC}/exist_app_versions`]: async (_, app) => ({
		path: `${RPC}/exist_app_versions`,
		body: { appid: app.appId, name_version: "1.0.0" },
	}),
	[`POST ${RPC}/get_app_versions`]: async (world, app, creators) => {
		const { version } = await uploaded(world, app, creators);
		const body = { appid: app.appId, name_version: version };
		return { path: `${RPC}/get_app_versions`, body, thing: bundleThing(app, version) };
	},
	[`POST ${RPC}/get_channel_current_bundle_rbac`]: async (world, app, creators) => {
		const name = fresh("pr-current");
		const id = await madeChannel(world, app, name, creators);
		const body = { p_app_id: app.appId, p_channel_id: id };
		return { path: `${RPC}/get_channel_current_bundle_rbac`, body, thing: channelThing(app, id, name) };
	},
	[`GET ${PREFIX}/rest/v1/channels`]: async (_, app) => ({
		path: `${PREFIX}/rest/v1/channels`,
		query: { select: "id,version", app_id: `eq.${app.appId}` },
	}),
	[`PATCH ${PREFIX}/rest/v1/channels`]: async (world, app, creators) => {
		const name = fresh("pr-patched");
		await madeChannel(world, app, name, creators);
		return {
			path: `${PREFIX}/rest/v1/channels`,
			query: { app_id: `eq.${app.appId}`, name: `eq.${name}` },
			body: { app_id: app.appId, name, allow_device_self_set: true },
			thing: channelThing(app, name),
		};
	},
	[`GET ${PREFIX}/rest/v1/apps`]: async (_, app) => ({
		path: `${PREFIX}/rest/v1/apps`,
		query: { select: "default_upload_channel", app_id: `eq.${app.appId}` },
	}),
	[`PATCH ${PREFIX}/rest/v1/apps`]: async (_, app) => ({
		path: `${PREFIX}/rest/v1/apps`,
		query: { app_id: `eq.${app.appId}` },
		body: { default_upload_channel: fresh("nightly") },
	}),
	[`GET ${PREFIX}/rest/v1/orgs`]: async (world) => ({
		path: `${PREFIX}/rest/v1/orgs`,
		query: {
			select:
				"name,enforcing_2fa,password_policy_config,require_apikey_expiration,max_apikey_expiration_days,enforce_hashed_api_keys",
			id: `eq.${world.orgId}`,
		},
	}),
	[`POST ${PREFIX}/rest/v1/orgs`]: async () => ({
		path: `${PREFIX}/rest/v1/orgs`,
		query: { select: "*" },
		body: { name: fresh("organization"), management_email: "ada@example.com", created_by: crypto.randomUUID() },
	}),
	[`GET ${PREFIX}/rest/v1/app_versions`]: async (_, app) => ({
		path: `${PREFIX}/rest/v1/app_versions`,
		query: { select: "name", app_id: `eq.${app.appId}`, order: "created_at.desc", limit: "1" },
	}),
	[`POST ${PREFIX}/rest/v1/app_versions`]: async (_, app) => ({
		path: `${PREFIX}/rest/v1/app_versions`,
		body: { app_id: app.appId, name: freshVersion(), storage_provider: "r2-direct" },
	}),
	[`PATCH ${PREFIX}/rest/v1/app_versions`]: async (world, app, creators) => {
		const { version } = await uploaded(world, app, creators);
		return {
			path: `${PREFIX}/rest/v1/app_versions`,
			query: { app_id: `eq.${app.appId}`, name: `eq.${version}` },
			body: { deleted: true },
			thing: bundleThing(app, version),
		};
	},
};
