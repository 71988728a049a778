/**
 * A local run's Worker reaches no private network with `fetch`, as on Cloudflare: a caller names
 * addresses of bundles and webhooks, and this machine has services that only it should reach.
 */
import { mkdtemp, rm } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { serveCapstan } from "../../src/operator/serve";

const ENTRY = `
import worker from "./worker.js";
export * from "./worker.js";
const probe = (url, network = globalThis) => network.fetch(url).then((answer) => answer.text(), () => "refused");
export default {
	...worker,
	async fetch(request, env, context) {
		const target = request.headers.get("x-probe");
		if (target === null) return worker.fetch(request, env, context);
		return Response.json([await probe(target), await probe(target, env.LOCAL_NETWORK)]);
	},
};`;

test("fetch of a local run does not reach loopback, but the binding for receivers of webhooks does", async () => {
	const directory = await mkdtemp(join(tmpdir(), "capstan-outbound-"));
	const server = createServer((_, response) => response.end("inside"));
	await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
	const running = await serveCapstan({ stateDirectory: join(directory, "state"), port: 0, entry: ENTRY });
	try {
		const target = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
		const answer = await fetch(running.url, { headers: { "x-probe": target } });
		expect(await answer.json()).toEqual(["refused", "inside"]);
	} finally {
		await running.stop();
		server.close();
		await rm(directory, { recursive: true, force: true });
	}
});
