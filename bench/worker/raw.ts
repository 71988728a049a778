/**
 * The floor of GET /channel: its three statements in one batch and the one on the telemetry database after it, their texts built once, without
 * any check of the request, and the channel's row as JSON. Every other request goes to Capstan, which creates the data.
 */
import type { AppId } from "../../src/authz/decide";
import { hashKey } from "../../src/authz/secrets";
import { listedChannelByName, storeBuildsOf } from "../../src/db/channels";
import { principalStatement } from "../../src/db/principals";
import { type AppScopeRow, appScope } from "../../src/http/scope";
// Added beside this module when the Worker starts.
// @ts-expect-error
import capstan from "./capstan.js";

interface Bindings {
	readonly DB: D1Database;
	readonly [telemetry: string]: D1Database;
}

interface Statement {
	readonly sql: string;
	readonly parameters: readonly unknown[];
}

/** Statements of the first request, which every later one repeats. */
let statements: readonly Statement[] | undefined;
/** It names the app by its UUID, which the first batch returned. */
let reports: Statement | undefined;

function statementsOf(request: Request): readonly Statement[] {
	const query = Object.fromEntries(new URL(request.url).searchParams);
	const scope = appScope("query.app_id").statement({ params: {}, query, body: undefined, headers: request.headers });
	return [
		principalStatement(hashKey(request.headers.get("authorization") ?? ""), Date.now()),
		...(scope === undefined ? [] : [scope]),
		listedChannelByName({ publicAppId: query.app_id ?? "", name: query.channel ?? "" }),
	];
}

const batch = (database: D1Database, all: readonly Statement[]) =>
	database.batch<object>(all.map(({ sql, parameters }) => database.prepare(sql).bind(...parameters)));

export default {
	...(capstan as ExportedHandler<Bindings>),
	async fetch(request, env, context) {
		if (!request.url.includes("/raw?"))
			return (capstan as Required<ExportedHandler<Bindings>>).fetch(request, env, context);
		statements ??= statementsOf(request);
		const [, scope, channel] = await batch(env.DB, statements);
		const app = scope?.results[0] as AppScopeRow | undefined;
		const telemetry = env[app?.telemetry ?? ""];
		if (app === undefined || telemetry === undefined) throw new Error("the app has no telemetry database");
		reports ??= storeBuildsOf(app.id as AppId);
		const [builds] = await batch(telemetry, [reports]);
		return Response.json({ ...channel?.results[0], ...builds?.results[0] });
	},
} satisfies ExportedHandler<Bindings>;
