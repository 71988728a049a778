/**
 * The Worker's entry: HTTP requests, queue batches and the scheduled sweep. The application is built once per isolate; a deployment
 * whose settings are wrong answers every request with what is wrong.
 */

import { createApp } from "./app";
import { ConfigError } from "./config";
import { createDeps, type Deps, type Env } from "./deps";
import { transportSecurity } from "./domain/transport-security";
import { consumeAndSettle } from "./events/consumer";
import { bury, DEAD_LETTERS } from "./events/dead-letters";
import type { QueueMessage } from "./events/messages";
import { sweep } from "./events/sweep";

interface Isolate {
	readonly deps: Deps;
	readonly app: ReturnType<typeof createApp>;
}

let isolate: Isolate | undefined;

/** Until somebody has set the variable. */
const CONFIGURATION_RETRY_SECONDS = 60;

function start(env: Env): Isolate {
	if (isolate === undefined) {
		const deps = createDeps(env);
		isolate = { deps, app: createApp(deps) };
	}
	return isolate;
}

function notConfigured(error: ConfigError, url: string): Response {
	console.error(JSON.stringify({ level: "error", event: "bad_configuration", message: error.message }));
	const body = {
		error: "service_unavailable",
		message: "This deployment is not configured; its log says which variable to set.",
		moreInfo: { retryAfterSeconds: CONFIGURATION_RETRY_SECONDS },
		// Nothing was started that could give it one, and every answer has the same cause.
		requestId: "",
	};
	return Response.json(body, {
		status: 503,
		headers: {
			"Retry-After": String(CONFIGURATION_RETRY_SECONDS),
			"Cache-Control": "private, no-store",
			...transportSecurity(url),
		},
	});
}

export default {
	// No async function: nearly every request is an update check, and each one around it would be a turn of its loop.
	fetch: (request, env, ctx) => {
		let started: Isolate;
		try {
			started = start(env);
		} catch (error) {
			if (!(error instanceof ConfigError)) throw error;
			return notConfigured(error, request.url);
		}
		return started.app.fetch(request, env, ctx);
	},
	async queue(batch, env) {
		const { deps } = start(env);
		if (batch.queue.endsWith(DEAD_LETTERS)) await bury(deps, batch.messages);
		else await consumeAndSettle(deps, batch);
	},
	async scheduled(_controller, env) {
		await sweep(start(env).deps);
	},
} satisfies ExportedHandler<Env, QueueMessage>;
