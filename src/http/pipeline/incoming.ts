/**
 * A request as the phases of the pipeline get it. It is complete before the first phase and never
 * changes, except for `soFar`, in which the phases note the caller for the report of a refusal.
 */
import type { AnyEndpoint } from "../endpoint";
import type { Isolate, RequestContext } from "../isolate";
import type { CallerSoFar } from "../limits/denied-attempts";

export interface Incoming {
	/**
	 * The endpoint of the route; the request may be for another one of the same path
	 * (`forms.instead`).
	 */
	readonly routed: AnyEndpoint;
	readonly c: RequestContext;
	readonly isolate: Isolate;
	readonly ipAddress: string | null;
	readonly nowMs: number;
	readonly url: URL;
	/** Origin of links in the answer. */
	readonly origin: string;
	/** Work that continues after the answer. */
	readonly waitUntil: (work: Promise<unknown>) => void;
	readonly soFar: CallerSoFar;
}

export function incomingOf(routed: AnyEndpoint, c: RequestContext, isolate: Isolate): Incoming {
	const { config, now } = isolate.deps;
	const url = new URL(c.req.url);
	return {
		routed,
		c,
		isolate,
		ipAddress: config.clientAddress ?? c.req.raw.headers.get("cf-connecting-ip"),
		nowMs: now(),
		url,
		origin: config.publicUrl ?? url.origin,
		waitUntil: (work) => c.executionCtx.waitUntil(work),
		soFar: {},
	};
}
