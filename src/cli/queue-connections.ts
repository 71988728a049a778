/**
 * Miniflare's Queue tells this process over a kept connection of what it delivered. Where Node closes one after its five idle seconds and
 * the Queue is about to use it, the Queue stops for good and loses the batch: what devices report would be counted no more until the next
 * start. So none is closed. Miniflare shows its server to nobody, so this is said of every server of the process; the product has no other.
 */
import { subscribe, unsubscribe } from "node:diagnostics_channel";
import type { Server } from "node:http";

const EVERY_REQUEST = "http.server.request.start";

function keep(message: unknown): void {
	(message as { readonly server: Server }).server.keepAliveTimeout = 0;
}

/** Of servers that are asked until the function that is returned is called. */
export function keepConnections(): () => void {
	subscribe(EVERY_REQUEST, keep);
	return () => void unsubscribe(EVERY_REQUEST, keep);
}
