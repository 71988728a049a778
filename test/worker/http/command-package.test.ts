/**
 * The package of the `capstan` command: the address that a server gave away keeps its bytes after
 * an upgrade, because the server keeps the package before it redirects there.
 */
import { expect, test } from "vitest";
import { createApp } from "../../../src/app";
import { createWorld, testEnv } from "../support/world";

const ORIGIN = "https://updates.example.com";

test("stays at its address when the server is upgraded, and the old address redirects to the new one", async () => {
	const { deps } = await createWorld();
	const serverWith = (bytes: string) =>
		createApp({ ...deps, assets: { fetch: async () => new Response(bytes) } as unknown as (typeof deps)["assets"] });
	const ask = async (app: ReturnType<typeof createApp>, path: string) => {
		const context = {
			waitUntil: () => undefined,
			passThroughOnException: () => undefined,
		} as unknown as ExecutionContext;
		const answer = await app.fetch(new Request(`${ORIGIN}${path}`), testEnv, context);
		return { status: answer.status, headers: answer.headers, text: await answer.text() };
	};

	const first = await ask(serverWith("first"), "/capstan.tgz");
	expect([first.status, first.headers.get("cache-control")]).toEqual([302, "private, no-store"]);
	const old = new URL(first.headers.get("location") ?? "");
	expect(old.href).toMatch(/^https:\/\/updates\.example\.com\/command\/capstan-1\.0\.0-[0-9a-f]{16}\.tgz$/);

	const upgraded = serverWith("second");
	const second = await ask(upgraded, "/capstan.tgz");
	expect(second.headers.get("location")).not.toBe(old.href);
	const kept = await ask(upgraded, old.pathname);
	expect([kept.status, kept.text, kept.headers.get("cache-control")]).toEqual([
		200,
		"first",
		"public, max-age=31536000, immutable",
	]);
	const current = await ask(upgraded, new URL(second.headers.get("location") ?? "").pathname);
	expect(current.text).toBe("second");
});

test("of an unknown version is 404, which names the newest", async () => {
	const world = await createWorld();
	const { headers } = await world.request("GET", "/capstan.tgz");
	const newest = headers.get("location") ?? "";
	const { status, body } = await world.request("GET", "/command/capstan-9.9.9-0000000000000000.tgz");
	expect([status, body]).toEqual([
		404,
		expect.objectContaining({
			error: "not_found",
			message: `This server has offered no such package of the command. The newest is ${newest}`,
			moreInfo: expect.objectContaining({ newest }),
		}),
	]);
	expect((await world.request("GET", new URL(newest).pathname)).status).toBe(200);
});

test.each(["/command/capstan-9.9.9-0000000000000000.tgz", "/command/other.tgz", "/command/..%2Fx.tgz"])(
	"%s was never offered",
	async (path) => {
		const world = await createWorld();
		const answer = await world.request("GET", path);
		expect([answer.status, answer.body]).toEqual([404, expect.objectContaining({ error: "not_found" })]);
	},
);
