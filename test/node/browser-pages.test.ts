/**
 * Pages of the browser are kept for the next test. What a test cannot take back closes its page, or
 * the next test runs with the scripts, clock or rights of another one.
 */
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import type { Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { addAuthenticator, chromium, devtoolsOf, leave, openPage } from "./support/browser";

const CHANGES: Readonly<Record<string, (page: Page) => Promise<unknown>>> = {
	"a script of each document": (page) => page.addInitScript("navigator.credentials.create = () => {}"),
	"a script of each page of the context": (page) => page.context().addInitScript("fetch = () => {}"),
	"a function of the test": (page) => page.exposeFunction("test", () => undefined),
	"a clock": (page) => page.clock.install(),
	"a fixed time": (page) => page.clock.setFixedTime(0),
	"a header": (page) => page.setExtraHTTPHeaders({ "x-test": "1" }),
	"a right": (page) => page.context().grantPermissions(["clipboard-read"]),
	"no network": (page) => page.context().setOffline(true),
	"a route of the context": (page) => page.context().route("**/never", (route) => route.abort()),
	"an authenticator": async (page) => addAuthenticator(await devtoolsOf(page)),
};

describe.skipIf(chromium === undefined)("a page of the browser", () => {
	const server = createServer((_request, response) => response.end());
	let origin = "";
	beforeAll(async () => {
		await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
		origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
	});
	afterAll(() => server.close());

	test("is kept for the next visitor without cookies and storage", async () => {
		const page = await openPage();
		await page.goto(origin);
		await page.context().addCookies([{ name: "session", value: "1", url: origin }]);
		await page.evaluate("localStorage.setItem('seen', '1')");
		const isForgotten = page.waitForURL(`${origin}/favicon.svg`);
		leave(page);
		await isForgotten;
		expect(await page.evaluate("localStorage.length")).toBe(0);
		await expect.poll(() => page.context().cookies()).toEqual([]);
	});

	test.each(Object.entries(CHANGES))("closes when left with %s", async (_name, change) => {
		const page = await openPage();
		await page.goto(origin);
		await change(page);
		const closed = page.waitForEvent("close");
		leave(page);
		await closed;
	});
});
