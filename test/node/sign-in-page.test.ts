/**
 * The sign-in page in a real browser against the running product: the first administrator's link, a passkey on a virtual authenticator,
 * an e-mailed code, signing out; and that what people name is shown as text, nobody frames the page, and `next` leads nowhere else.
 */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type RunningCapstan, serveCapstan } from "../../src/cli/serve";
import { addAuthenticator, chromium, openPage, type Page } from "./support/browser";

if (chromium === undefined) console.log("skipped: the sign-in page in a browser, because no Chromium is installed");

const MESSAGE = "document.getElementById('message').textContent";

describe.skipIf(chromium === undefined)("the sign-in page", () => {
	let directory: string;
	let capstan: RunningCapstan;
	let page: Page;
	let origin: string;
	let authenticatorId: string;
	const printed: string[] = [];
	const write = process.stdout.write;

	beforeAll(async () => {
		directory = await mkdtemp(join(tmpdir(), "capstan-sign-in-"));
		process.stdout.write = ((chunk: string | Uint8Array) => printed.push(String(chunk)) > 0) as typeof write;
		capstan = await serveCapstan({ stateDirectory: directory, port: 0 });
		origin = new URL(capstan.signInLink).origin;
		page = await openPage(chromium ?? "");
		authenticatorId = await addAuthenticator(page.send);
	});
	afterAll(async () => {
		process.stdout.write = write;
		await page?.close();
		await capstan?.stop();
		await rm(directory, { recursive: true, force: true });
	});

	const click = (selector: string) => page.evaluate(`document.querySelector(${JSON.stringify(selector)}).click()`);
	const fill = (id: string, text: string) =>
		page.evaluate(`document.getElementById("${id}").value = ${JSON.stringify(text)}`);

	test("signs in with the link once, and the token is gone from the address", async () => {
		await page.goto(capstan.signInLink);
		await page.until(`${MESSAGE} === "You are signed in as admin@capstan.local."`);
		expect(await page.evaluate("location.href")).toBe(`${origin}/sign-in`);
		// No script can read the cookie.
		expect(await page.evaluate("document.cookie")).toBe("");
		await click("#sign-out");
		await page.until(`${MESSAGE} === "You are signed out."`);
		await page.goto(capstan.signInLink);
		await page.until(`${MESSAGE}.startsWith("This does not sign in")`);
	});

	test("signs in with the code that the terminal shows", async () => {
		await fill("email", "admin@capstan.local");
		await click("#email-form button");
		await page.until("!document.getElementById('code-form').hidden");
		const mailed = () => /Mail to admin@capstan\.local: (\d{6}) /.exec(printed.join(""))?.[1];
		await expect.poll(mailed).toBeDefined();
		const code = mailed();
		await fill("code", code === "000000" ? "000001" : "000000");
		await click("#code-form button");
		await page.until(`${MESSAGE}.startsWith("This does not sign in")`);
		await fill("code", code ?? "");
		await click("#code-form button");
		await page.until(`${MESSAGE}.startsWith("You are signed in")`);
	});

	test("makes a passkey, shows its name as text, and signs in with it", async () => {
		const name = `<img src=x onerror="document.title='taken'">`;
		await fill("passkey-name", name);
		await click("#passkey-form button");
		await page.until(`${MESSAGE}.startsWith("The passkey is added")`);
		expect(await page.evaluate("document.querySelector('#passkeys li').textContent")).toContain(name);
		expect(await page.evaluate("document.querySelectorAll('img').length")).toBe(0);
		expect(await page.evaluate("document.title")).toBe("Sign in");
		await click("#sign-out");
		await page.until(`${MESSAGE} === "You are signed out."`);
		await click("#passkey");
		await page.until(`${MESSAGE}.startsWith("You are signed in")`);
		const { credentials } = (await page.send("WebAuthn.getCredentials", { authenticatorId })) as {
			credentials: { isResidentCredential: boolean; signCount: number; rpId: string }[];
		};
		expect(credentials).toMatchObject([{ isResidentCredential: true, rpId: "localhost" }]);
	});

	test("asks who is signed in to sign in again where that is wanted, and goes on", async () => {
		await page.goto(`${origin}/sign-in?again=1&next=%2Fdocs`);
		await page.until(`${MESSAGE}.startsWith("Sign in again to go on")`);
		await click("#passkey");
		await page.until("location.pathname === '/docs'");
	});

	test("says what is to be done where a sign-in is too old, and does it after another one", async () => {
		await page.goto(`${origin}/sign-in`);
		await page.until(`${MESSAGE}.startsWith("You are signed in")`);
		const db = await capstan.miniflare.getD1Database("DB");
		await db.exec("UPDATE sessions SET created_at_ms = created_at_ms - 3600000");
		await fill("passkey-name", "second");
		await click("#passkey-form button");
		await page.until(`${MESSAGE}.startsWith("Sign in again to do this")`);
		await page.until("document.getElementById('account').hidden");
		await click("#passkey");
		await page.until(`${MESSAGE}.startsWith("You are signed in")`);
	});

	test("runs nothing that is not the service's own, and stands in no frame", async () => {
		// A script that may run runs while it is put in.
		const injected = await page.evaluate<boolean>(`(() => {
			const script = document.createElement("script");
			script.textContent = "window.taken = true";
			document.body.append(script);
			return window.taken === true;
		})()`);
		expect(injected).toBe(false);
		for (const path of ["/sign-in", "/invitation", "/docs", "/docs/access"]) {
			const { headers } = await fetch(`${capstan.url}${path}`);
			const policy = headers.get("content-security-policy") ?? "";
			expect(policy, path).toMatch(/^default-src 'none'; script-src 'self';.*frame-ancestors 'none'$/);
			if (!path.startsWith("/docs")) expect(policy, path).not.toContain("unsafe");
			expect(headers.get("cross-origin-opener-policy"), path).toBe("same-origin");
			expect(headers.get("strict-transport-security"), path).toMatch(/^max-age=\d{8}$/);
		}
		for (const path of [
			"/sign-in",
			"/sign-in-assets/sign-in.js",
			"/invitation-assets/invitation.css",
			"/openapi.json",
		]) {
			const { headers } = await fetch(`${capstan.url}${path}`);
			expect(headers.get("x-content-type-options"), path).toBe("nosniff");
		}
		const api = await fetch(`${capstan.url}/account`);
		expect(api.headers.get("content-security-policy")).toContain("frame-ancestors 'none'");
		expect(api.headers.get("x-content-type-options")).toBe("nosniff");
	});

	test.each([
		["/docs", "/docs"],
		["//evil.example", "/sign-in"],
		["/\\evil.example", "/sign-in"],
		["https://evil.example", "/sign-in"],
		["/\t/evil.example", "/sign-in"],
		["/..//evil.example", "/sign-in"],
		["javascript:alert(1)", "/sign-in"],
	])("with next=%j goes to %s of this service", async (next, path) => {
		await page.goto(`${origin}/sign-in`);
		await page.until(`${MESSAGE}.startsWith("You are signed in")`);
		await click("#sign-out");
		await page.until(`${MESSAGE} === "You are signed out."`);
		await page.goto(`${origin}/sign-in?next=${encodeURIComponent(next)}`);
		await page.until("!document.getElementById('ways').hidden");
		await click("#passkey");
		await page.until(path === "/docs" ? "location.pathname === '/docs'" : `${MESSAGE}.startsWith("You are signed in")`);
		expect(await page.evaluate("location.origin + location.pathname")).toBe(origin + path);
	});
});
