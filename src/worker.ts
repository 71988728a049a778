/**
 * The Worker's entry: HTTP requests, queue batches and scheduled clean-up. It loads only what
 * checks of devices need; the router with all endpoints, the consumer and the clean-up are loaded
 * by the first request, batch or run that needs them. An invalid configuration answers every
 * request with an error.
 */
import { ConfigError } from "./config";
import { createDeps, type Deps, DRAIN, type Env } from "./deps";
import { transportSecurity } from "./domain/network/transport-security";
import { causeText } from "./errors";
import { FAST_ENDPOINTS } from "./fast-endpoints";
import { createDeviceState } from "./http/device-state";
import { createFastPath, type FastPath, type Route } from "./http/fast-path";
import type { QueueMessage, WebhookDue } from "./messages";
import { countMessages } from "./queue/local-drain";
import { warmUp } from "./warm-up";

interface Isolate {
	readonly deps: Deps;
	readonly fastPath: FastPath;
	readonly route: Route;
	/** Only in a local run. */
	readonly local: { readonly handled: (messages: number) => void; readonly drain: () => Promise<void> } | undefined;
}

let isolate: Isolate | undefined;

// Halves the CPU time of the first check of a cold isolate (`npm run bench -- --only cold`: 11.8 ms
// without it, 6.1 ms with it). An isolate whose warm-up fails answers all the same.
warmUp().catch(() => undefined);

/** Suffix of the name of the queue of webhooks. */
const WEBHOOKS = "-webhooks";
/** Until somebody has set the variable. */
const CONFIGURATION_RETRY_SECONDS = 60;

function start(env: Env): Isolate {
	if (isolate === undefined) {
		const created = createDeps(env);
		// `npm run doctor` names a binding that is missing, so its absence must stay visible.
		const isCounted = created.config.localRun !== undefined && (created.events as unknown) !== undefined;
		const counted = isCounted ? countMessages(created.events) : undefined;
		const deps = counted === undefined ? created : { ...created, events: counted.events };
		const devices = createDeviceState(deps);
		let router: Route | undefined;
		const route: Route = async (...given) => {
			if (router === undefined) {
				const [{ createRouter }, { createIsolate }] = await Promise.all([import("./app"), import("./http/isolate")]);
				router ??= createRouter(createIsolate(deps, devices));
			}
			return router(...given);
		};
		const local = counted && {
			handled: counted.handled,
			drain: () => counted.drain(deps, devices.eventBuffer.flush),
		};
		isolate = { deps, route, local, fastPath: createFastPath(devices, FAST_ENDPOINTS, route) };
	}
	return isolate;
}

function notConfigured(error: ConfigError, url: string): Response {
	console.error(JSON.stringify({ level: "error", event: "bad_configuration", message: error.message }));
	const body = {
		error: "service_unavailable",
		message: "This deployment is not configured; its log names the variable to set.",
		moreInfo: { retryAfterSeconds: CONFIGURATION_RETRY_SECONDS },
		status: "KO",
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
	// Not an async function: nearly every request is an update check, and each async wrapper costs a
	// turn of the event loop.
	fetch: (request, env, ctx) => {
		let started: Isolate;
		try {
			started = start(env);
		} catch (error) {
			if (!(error instanceof ConfigError)) throw error;
			return notConfigured(error, request.url);
		}
		return started.fastPath(request, ctx) ?? started.route(request, ctx);
	},
	async queue(batch, env, ctx) {
		const { deps, local } = start(env);
		if (batch.queue.endsWith(WEBHOOKS)) {
			const { deliverDue } = await import("./features/webhooks/deliver");
			// Not awaited, so that the next message does not wait for a slow receiver.
			for (const { body } of batch.messages) {
				const work = deliverDue(deps, body as unknown as WebhookDue);
				ctx.waitUntil(
					work.catch((error: unknown) => deps.log("error", "webhook_run_failed", { cause: causeText(error) })),
				);
			}
			return;
		}
		const [{ consumeAndSettle }, { storeDeadLetters, DEAD_LETTERS }] = await Promise.all([
			import("./consumer"),
			import("./queue/dead-letters"),
		]);
		if (batch.queue.endsWith(DEAD_LETTERS)) await storeDeadLetters(deps, batch.messages);
		else {
			await consumeAndSettle(deps, batch);
			local?.handled(batch.messages.length);
		}
	},
	async scheduled({ cron }, env) {
		if (cron === DRAIN) {
			const started = start(env);
			// Reports that are accepted from now on would be lost.
			isolate = {
				...started,
				fastPath: async () => new Response(null, { status: 503, headers: { "retry-after": "5" } }),
			};
			return started.local?.drain();
		}
		const { runJobs } = await import("./schedule");
		await runJobs(start(env).deps);
	},
} satisfies ExportedHandler<Env, QueueMessage>;
