/**
 * The stock TUS client against a caller whose share of the memory is full: it repeats the refused
 * request by its own defaults and uploads the whole bundle when there is room again. A status that
 * the client gives up at, such as 429, fails this test.
 */
import { type HttpRequest, type HttpResponse, Upload } from "tus-js-client";
import { expect, test } from "vitest";
import { CALLER_BYTES } from "../../../src/http/limits/memory";
import { bundleOf, locationOf, register, TUS_PATH, tusCreate, zipName } from "../support/bytes";
import { createTestApp, createTestKey, createWorld, ORIGIN, type World } from "../support/world";

const BYTES = 4 * 1024 * 1024;

/** The client's requests, sent to the application. */
function through(world: World, key: string, statuses: string[], begins: () => void) {
	return {
		getName: () => "application",
		createRequest(method: string, url: string): HttpRequest {
			begins();
			const headers: Record<string, string> = {};
			return {
				getMethod: () => method,
				getURL: () => url,
				setHeader: (name, value) => {
					headers[name.toLowerCase()] = value;
				},
				getHeader: (name) => headers[name.toLowerCase()],
				setProgressHandler: () => undefined,
				abort: async () => undefined,
				getUnderlyingObject: () => undefined,
				async send(body?: Blob): Promise<HttpResponse> {
					const rawBody =
						body === undefined || body === null ? undefined : new Uint8Array(await new Response(body).arrayBuffer());
					const sent = { key, headers, ...(rawBody === undefined ? {} : { rawBody }) };
					const answer = await world.request(method, url, sent);
					statuses.push(`${method} ${answer.status}`);
					return {
						getStatus: () => answer.status,
						getHeader: (name) => answer.headers.get(name) ?? undefined,
						getBody: () => "",
						getUnderlyingObject: () => undefined,
					};
				},
			};
		},
	};
}

test("the stock client repeats what is refused for memory, and uploads the whole bundle", async () => {
	const silences: (() => void)[] = [];
	const world = await createWorld({
		bindings: { deadline: () => new Promise((resolve) => silences.push(resolve)) },
	});
	const app = await createTestApp(world);
	const { text: key } = await createTestKey(world, "app_uploader", app);
	const held = [];
	for (let upload = 0; upload < CALLER_BYTES.each / BYTES; upload += 1) {
		const version = `1.0.${upload}`;
		expect((await register(world, app, version, key)).status).toBe(201);
		const location = locationOf(await tusCreate(world, key, zipName(world, app, version), BYTES));
		const headers = {
			"tus-resumable": "1.0.0",
			"upload-offset": "0",
			"content-type": "application/offset+octet-stream",
		};
		held.push(world.request("PATCH", location, { key, headers, rawBody: new ReadableStream({}) as never }));
	}
	const version = "2.0.0";
	expect((await register(world, app, version, key)).status).toBe(201);
	const statuses: string[] = [];
	/** There is room again once the client was refused. */
	const makeRoom = () => {
		if (statuses.some((status) => status.startsWith("PATCH"))) for (const end of silences.splice(0)) end();
	};
	const uploaded = new Promise<void>((resolve, reject) => {
		const client = new Upload(new Blob([bundleOf(BYTES)]), {
			endpoint: `${ORIGIN}${TUS_PATH}`,
			metadata: { filename: zipName(world, app, version) },
			httpStack: through(world, key, statuses, makeRoom),
			onError: reject,
			onSuccess: () => resolve(),
		});
		client.start();
	});
	await uploaded;
	await Promise.all(held);
	expect(statuses[0]).toBe("POST 201");
	expect(statuses[1]).toBe("PATCH 503");
	expect(statuses.at(-1)).toBe("PATCH 204");
	const shown = await world.request("GET", "/bundle", { key, query: { app_id: app.appId, version } });
	expect(shown).toMatchObject({ status: 200, body: [{ name: version, size: BYTES }] });
});
