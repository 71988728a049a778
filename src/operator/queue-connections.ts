/**
 * Keeps idle connections of Miniflare's Queue open. If Node closes one (after five idle seconds) just as the Queue uses it, the Queue loses
 * the batch and stops until the next start. Miniflare does not expose its HTTP server, so this sets the timeout of every server in the process;
 * there is no other.
 */
import { subscribe, unsubscribe } from "node:diagnostics_channel";
import type { Server } from "node:http";

const EVERY_REQUEST = "http.server.request.start";

function keep(message: unknown): void {
	(message as { readonly server: Server }).server.keepAliveTimeout = 0;
}

/** @returns a function that ends this for later requests */
export function keepConnections(): () => void {
	subscribe(EVERY_REQUEST, keep);
	return () => void unsubscribe(EVERY_REQUEST, keep);
}
