/**
 * The sign-in page in a real browser against the running product: the first administrator's link, a
 * passkey on a virtual authenticator, and a code from the terminal; framing, open redirects,
 * loopback addresses, and phones on the network.
 */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Page as BrowserPage } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { EVERY_ADDRESS, networkAddresses } from "../../src/operator/network";
import { type RunningCapstan, serveCapstan } from "../../src/operator/serve";
import { addAuthenticator, chromium, devtoolsOf, leave, openPage, restingPage, type Send } from "./support/browser";

if (chromium === undefined) console.log("skipped: the sign-in page in a browser, because no Chromium is installed");

const TITLE = "document.getElementById('title').textContent";
const PROBLEM = "document.getElementById('problem').textContent";
const IN_DASHBOARD =
	"location.pathname.startsWith('/dashboard/') && document.querySelector('h1')?.textContent === 'Apps'";

interface Page {
	goto(url: string): Promise<void>;
	evaluate<Value>(expression: string): Promise<Value>;
	/** Waits until the expression is true. */
	until(expression: string): Promise<void>;
	readonly browserPage: BrowserPage;
}

async function openSignIn(): Promise<Page> {
	const page = await openPage();
	return {
		browserPage: page,
		evaluate: (expression) => page.evaluate(expression),
		async goto(url) {
			// Starts at another page, because an address that differs only after the # loads nothing; these
			// pages redirect before they are loaded.
			await page.goto(restingPage(url));
			await page.goto(url, { waitUntil: "commit" });
		},
		async until(expression) {
			const holds = () => page.evaluate<boolean>(`Boolean(${expression})`).catch(() => false);
			await expect.poll(holds, { message: expression }).toBe(true);
		},
	};
}

describe.skipIf(chromium === undefined)("the sign-in page", () => {
	let directory: string;
	let capstan: RunningCapstan;
	let page: Page;
	let origin: string;
	let send: Send;
	let authenticatorId: string;
	const printed: string[] = [];
	const write = process.stdout.write;

	beforeAll(async () => {
		directory = await mkdtemp(join(tmpdir(), "capstan-sign-in-"));
		process.stdout.write = ((chunk: string | Uint8Array) => printed.push(String(chunk)) > 0) as typeof write;
		capstan = await serveCapstan({ stateDirectory: directory, port: 0 });
		origin = new URL(capstan.signInLink ?? "").origin;
		page = await openSignIn();
		send = await devtoolsOf(page.browserPage);
		authenticatorId = await addAuthenticator(send);
	});
	afterAll(async () => {
		process.stdout.write = write;
		if (page !== undefined) leave(page.browserPage);
		await capstan?.stop();
		await rm(directory, { recursive: true, force: true });
	});

	const click = (selector: string) => page.evaluate(`document.querySelector(${JSON.stringify(selector)}).click()`);
	const fill = (id: string, text: string) =>
		page.evaluate(`document.getElementById("${id}").value = ${JSON.stringify(text)}`);

	/** Saves a screenshot if CAPSTAN_SCREENSHOTS names a directory. */
	const screenshot = async (name: string) => {
		const target = process.env.CAPSTAN_SCREENSHOTS;
		if (target === undefined) return;
		await page.browserPage.screenshot({ path: join(target, `${name}.png`) });
	};
	/** Leaves the page first, because the dashboard redirects to the sign-in page by itself. */
	const signOut = async () => {
		const { browserPage } = page;
		await browserPage.goto(restingPage(origin));
		// A connection that was kept may have ended.
		const { request } = browserPage.context();
		const response = await request.post(`${origin}/sign-out`, { headers: { origin }, maxRetries: 1 });
		expect(response.status()).toBe(200);
	};
	/** Adds a passkey to the signed-in account. */
	const addPasskey = () =>
		page.evaluate<number>(`(async () => {
			const post = (path, body) => fetch(path, {
				method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body),
			});
			const { attempt, options } = await (await post("/account/passkey-options", {})).json();
			const publicKey = PublicKeyCredential.parseCreationOptionsFromJSON(options);
			const credential = (await navigator.credentials.create({ publicKey })).toJSON();
			return (await post("/account/passkeys", { attempt, name: "Phone", credential })).status;
		})()`);

	test("opens the dashboard for a link, and removes its token from the address", async () => {
		await page.goto(capstan.signInLink ?? "");
		await page.until(IN_DASHBOARD);
		expect(await page.evaluate("location.origin")).toBe(origin);
		expect(await page.evaluate("location.hash")).toBe("");
		// Scripts cannot read the cookie.
		expect(await page.evaluate("document.cookie")).toBe("");
	});

	test("opens the dashboard for a link used by the same browser before, and signs nobody else in", async () => {
		await page.goto(capstan.signInLink ?? "");
		await page.until(IN_DASHBOARD);
		await signOut();
		await page.goto(capstan.signInLink ?? "");
		await page.until(`${PROBLEM}.startsWith("This link has expired or was already used")`);
		await page.until(`${TITLE} === "Sign in"`);
	});

	test("says that the code is in the terminal, refuses a wrong one, and signs in with the right one", async () => {
		expect(await page.evaluate("document.getElementById('email').value")).toBe("admin@capstan.local");
		await click("#send-code");
		await page.until(`${TITLE} === "Enter the code"`);
		await page.until(
			"document.getElementById('code-hint').textContent.includes('in the terminal where npm start runs')",
		);
		const mailed = () => /Mail to admin@capstan\.local: (\d{6}) /.exec(printed.join(""))?.[1];
		await expect.poll(mailed).toBeDefined();
		const code = mailed();
		await fill("code", code === "000000" ? "000001" : "000000");
		await click("#code-form button[type=submit]");
		await page.until(`${PROBLEM}.startsWith("This code is wrong")`);
		await fill("code", code ?? "");
		await click("#code-form button[type=submit]");
		await page.until(IN_DASHBOARD);
	});

	test("signs in with a passkey", async () => {
		expect(await addPasskey()).toBe(201);
		await signOut();
		await page.goto(`${origin}/sign-in`);
		await page.until("!document.getElementById('ways').hidden");
		await click("#passkey");
		await page.until(IN_DASHBOARD);
		const { credentials } = (await send("WebAuthn.getCredentials", { authenticatorId })) as {
			credentials: { isResidentCredential: boolean; signCount: number; rpId: string }[];
		};
		expect(credentials).toMatchObject([{ isResidentCredential: true, rpId: "localhost" }]);
	});

	test("redirects a signed-in person, and asks for a confirmation if one is required", async () => {
		await page.goto(`${origin}/sign-in?next=%2Fdocs`);
		await page.until("location.pathname === '/docs'");
		await page.goto(`${origin}/sign-in?again=1&next=%2Fdocs`);
		await page.until(`${TITLE} === "Confirm it's you"`);
		await click("#passkey");
		await page.until("location.pathname === '/docs'");
	});

	test("redirects 127.0.0.1 to localhost, where the session is", async () => {
		const other = origin.replace("localhost", "127.0.0.1");
		await page.goto(`${other}/dashboard/`);
		await page.until(IN_DASHBOARD);
		expect(await page.evaluate("location.origin")).toBe(origin);
		await page.goto(`${other}/`);
		await page.until(IN_DASHBOARD);
		await page.goto(`${other}/sign-in?again=1#section`);
		await page.until(`location.href === "${origin}/sign-in?again=1#section"`);
		await page.until(`${TITLE} === "Confirm it's you"`);
	});

	test("asks an invited person to sign in to their existing account before they join", async () => {
		const api = async (method: string, path: string, body: object) =>
			(
				await fetch(`${capstan.url}${path}`, {
					method,
					headers: { authorization: capstan.adminKey ?? "", "content-type": "application/json" },
					body: JSON.stringify(body),
				})
			).json() as Promise<{ id: string; link: string }>;
		const organizations = await fetch(`${capstan.url}/organization`, {
			headers: { authorization: capstan.adminKey ?? "" },
		});
		const [{ id: orgId } = { id: "" }] = (await organizations.json()) as { id: string }[];
		const { id: otherId } = await api("PUT", "/organization", { name: "Other" });
		const invite = (to: string) =>
			api("POST", "/organization/members", { orgId: to, email: "second@example.com", role: "org_member" });
		const token = (await invite(orgId)).link.replace(/.*token=/, "");
		await api("POST", "/invitation/accept", { token });

		// The link uses 127.0.0.1, and the administrator is signed in at this host.
		const { link } = await invite(otherId);
		expect(link).toContain("127.0.0.1");
		await page.goto(link);
		await page.until("location.hostname === 'localhost' && !document.getElementById('join').hidden");
		await click("#join-plain");
		await page.until("!document.getElementById('sign-in').hidden");
		const message = "document.getElementById('message').textContent";
		expect(await page.evaluate(message)).toBe("second@example.com already has an account. Sign in to it, then join.");
		await screenshot("invitation-sign-in");
		await click("#sign-in-link");
		await page.until(`${TITLE} === "Sign in" && document.getElementById('email').value === "second@example.com"`);
		expect(await page.evaluate("location.search")).toBe("?next=/invitation");
		await click("#send-code");
		await page.until(`${TITLE} === "Enter the code"`);
		const mailed = () => /Mail to second@example\.com: (\d{6}) /.exec(printed.join(""))?.[1];
		await expect.poll(mailed).toBeDefined();
		await fill("code", mailed() ?? "");
		await click("#code-form button[type=submit]");
		await page.until("location.pathname === '/invitation' && document.getElementById('join')?.hidden === false");
		await click("#join-plain");
		await page.until("!document.getElementById('result').hidden");
		await screenshot("invitation-joined");
		expect(await page.evaluate(message)).toContain("second@example.com is now a member with the role Member.");
		expect(await page.evaluate("sessionStorage.length")).toBe(0);
		await page.goto(`${origin}/docs`);
		expect(
			await page.evaluate("fetch('/organization').then((answer) => answer.json()).then((list) => list.length)"),
		).toBe(2);
	});

	test("/ redirects a browser to the dashboard", async () => {
		await page.goto(`${origin}/`);
		await page.until(IN_DASHBOARD);
	});

	test("the pages run only the service's own scripts, and cannot be framed", async () => {
		// An allowed inline script would run when it is inserted.
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
		["//evil.example", "/dashboard/"],
		["/\\evil.example", "/dashboard/"],
		["https://evil.example", "/dashboard/"],
		["/\t/evil.example", "/dashboard/"],
		["/..//evil.example", "/dashboard/"],
		["javascript:alert(1)", "/dashboard/"],
	])("with next=%j opens %s of this service", async (next, path) => {
		await signOut();
		await page.goto(`${origin}/sign-in?next=${encodeURIComponent(next)}`);
		await page.until("!document.getElementById('ways').hidden");
		await click("#passkey");
		await page.until(path === "/docs" ? "location.pathname === '/docs'" : IN_DASHBOARD);
		expect(await page.evaluate("location.origin")).toBe(origin);
	});
});

const [networkAddress] = networkAddresses();

describe.skipIf(chromium === undefined || networkAddress === undefined)("the sign-in page over the network", () => {
	test("shows a phone that it reaches Capstan, and where people sign in", async () => {
		const directory = await mkdtemp(join(tmpdir(), "capstan-network-"));
		const capstan = await serveCapstan({ stateDirectory: directory, port: 0, host: EVERY_ADDRESS });
		const page = await openSignIn();
		try {
			const [url = ""] = capstan.networkUrls;
			for (const path of ["/", "/dashboard/", "/sign-in"]) {
				await page.goto(`${url}${path}`);
				await page.until(`${TITLE} === "This device reaches Capstan"`);
				expect(await page.evaluate("document.getElementById('server').textContent"), path).toBe(url);
				expect(await page.evaluate("document.getElementById('ways').hidden"), path).toBe(true);
			}
		} finally {
			leave(page.browserPage);
			await capstan.stop();
			await rm(directory, { recursive: true, force: true });
		}
	});
});
