/**
 * The floor of GET /channel: its three statements in one batch, their texts built once, without any
 * check of the request, and the channel's row as JSON. Every other request goes to Capstan, which
 * creates the data. The database of the reports is left out: GET /channel reads it once a minute.
 */
import { hashKey } from "../../src/authz/secrets";
import { listedChannelByName } from "../../src/db/channels";
import { principalStatement } from "../../src/db/principals";
import { appScope } from "../../src/http/scope";
// Added beside this module when the Worker starts.
// @ts-expect-error
import capstan from "./capstan.js";

interface Bindings {
	readonly DB: D1Database;
}

type Statement = ReturnType<typeof listedChannelByName> | ReturnType<typeof principalStatement>;

/** Statements of the first request, which every later one repeats. */
let statements: readonly (Statement | undefined)[] | undefined;

function statementsOf(request: Request): readonly (Statement | undefined)[] {
	const query = Object.fromEntries(new URL(request.url).searchParams);
	return [
		principalStatement(hashKey(request.headers.get("authorization") ?? ""), Date.now()),
		appScope("query.app_id").statement({ params: {}, query, body: undefined, headers: request.headers }) as Statement,
		listedChannelByName({ publicAppId: query.app_id ?? "", name: query.channel ?? "" }),
	];
}

export default {
	...(capstan as ExportedHandler<Bindings>),
	async fetch(request, env, context) {
		if (!request.url.includes("/raw?"))
			return (capstan as Required<ExportedHandler<Bindings>>).fetch(request, env, context);
		statements ??= statementsOf(request);
		const results = await env.DB.batch(
			statements.map((statement) => env.DB.prepare(statement?.sql ?? "").bind(...(statement?.parameters ?? []))),
		);
		return Response.json(results[2]?.results[0]);
	},
} satisfies ExportedHandler<Bindings>;
