/**
 * The invitation page: how it is served, its script run against the product with fake DOM elements,
 * and the way of a person in a real browser: greeted, in with a passkey at once, back with it.
 */
import { beforeAll, describe, expect, test } from "vitest";
import { addAuthenticator, chromium } from "./support/browser";
import { devtoolsOf, type Stage, sharedStage } from "./support/dashboard";
import { expectFitsPhone, expectSound } from "./support/dashboard-checks";
import { type Product, sharedProduct } from "./support/product";

let product: Product;
beforeAll(async () => {
	product = await sharedProduct();
});

async function invitedLink(email: string): Promise<URL> {
	const { body } = await product.api("POST", "/organization/members", {
		orgId: product.orgId,
		email,
		role: "org_member",
	});
	return new URL(body.link);
}

interface FakeElement {
	textContent: string;
	/** Texts of the children. */
	items?: readonly string[];
	value: string;
	hidden: boolean;
	click?: () => Promise<void>;
}

/** The page's elements after its script ran, and the paths of its requests. */
async function open(link: URL) {
	const elements = new Map<string, FakeElement>();
	const sent: string[] = [];
	const getElementById = (id: string) => {
		const element = elements.get(id) ?? { textContent: "", value: "Personal key", hidden: true };
		elements.set(id, element);
		return Object.assign(element, {
			replaceChildren: (...children: FakeElement[]) => {
				element.items = children.map(({ textContent }) => textContent);
			},
			addEventListener: (_: string, listener: FakeElement["click"]) => {
				if (listener !== undefined) element.click = listener;
			},
		});
	};
	const script = await (await fetch(`${product.url}/invitation-assets/invitation.js`)).text();
	const fetchFromPage = (path: string, init: RequestInit) => {
		sent.push(path);
		return fetch(`${product.url}${path}`, { ...init, headers: { ...init.headers, origin: product.url } });
	};
	const AsyncFunction = Object.getPrototypeOf(async () => undefined).constructor;
	await new AsyncFunction("document", "location", "fetch", script)(
		{ getElementById, createElement: () => ({}) },
		{ hash: link.hash, origin: product.url },
		fetchFromPage,
	);
	return { element: getElementById as (id: string) => FakeElement, sent };
}

test("the page of an invitation loads everything from this server and sends no token in an address", async () => {
	const link = await invitedLink("page@example.com");
	expect(link.origin).toBe(product.url);
	const response = await fetch(new URL(link.pathname, link));
	expect(response.status).toBe(200);
	expect(response.headers.get("content-type")).toContain("text/html");
	expect(response.headers.get("content-security-policy")).toContain("default-src 'none'; script-src 'self'");
	expect(response.headers.get("referrer-policy")).toBe("no-referrer");
	const assets = [...(await response.text()).matchAll(/(?:src|href)="([^"]+)"/g)].map((match) => match[1] ?? "");
	expect(assets).toHaveLength(5);
	for (const asset of assets) expect((await fetch(new URL(asset, link))).status, asset).toBe(200);
});

test("the page shows the offer and joins without a key; a second visit reports that the invitation was used", async () => {
	// Other files of the product have some, too.
	const personalKeys = async () => {
		const { body } = await product.api("GET", `/apikey?org_id=${product.orgId}`);
		return body.filter(({ name }: { readonly name: string }) => name === "Personal key").length;
	};
	const keysBefore = await personalKeys();
	const link = await invitedLink("joining@example.com");
	const { element, sent } = await open(link);
	expect(element("title").textContent).toBe("admin@capstan.local invites you to My organization");
	expect(element("message").textContent).toBe("as Member");
	expect(element("expiry").textContent).toContain("For joining@example.com only. Expires on ");
	expect(element("permissions").items).toContain("See the organization");
	expect(element("denied").textContent).toContain("Delete apps");
	expect(element("join").hidden).toBe(false);
	expect(element("join-passkey").hidden, "without support of the browser").toBe(true);
	await element("join-plain").click?.();
	expect(element("message").textContent).toContain("is now a member with the role Member.");
	expect(element("passkey").textContent).toContain("You are signed in");
	expect(element("result").hidden).toBe(false);
	expect(sent).toEqual(["/invitation/show", "/sign-in/methods", "/invitation/accept"]);
	expect(await personalKeys()).toBe(keysBefore);

	const again = await open(link);
	expect(again.element("message").textContent).toContain("Ask for a new one");
	expect(again.element("join").hidden).toBe(true);
	expect((await open(new URL("#", link))).element("message").textContent).toContain("Ask for a new one");
});

describe.skipIf(chromium === undefined)("in a browser", () => {
	let stage: Stage;
	beforeAll(async () => {
		stage = await sharedStage();
	});

	const invite = async (email: string, fields: object = {}) => {
		const { body } = await stage.product.api("POST", "/organization/members", {
			orgId: stage.product.orgId,
			email,
			role: "org_member",
			...fields,
		});
		return `${stage.origin}/invitation${new URL(body.link).hash}`;
	};
	const screenshot = async (page: { screenshot(options: object): Promise<unknown> }, name: string) => {
		const directory = process.env.CAPSTAN_SCREENSHOTS;
		if (directory !== undefined) await page.screenshot({ path: `${directory}/${name}.png`, fullPage: true });
	};

	test("a person joins with a passkey, and signs in with it next time", async () => {
		const visitor = await stage.visitor();
		const { page } = visitor;
		await addAuthenticator(await devtoolsOf(visitor));
		await page.goto(await invite("tariq.aziz@example.com"));
		await page.getByRole("heading", { name: "admin@capstan.local invites you to" }).waitFor();
		await expectSound(visitor);
		await expectFitsPhone(visitor);
		for (const [width, colorScheme] of [
			[1280, "light"],
			[390, "dark"],
		] as const) {
			await page.setViewportSize({ width, height: 900 });
			await page.emulateMedia({ colorScheme });
			await screenshot(page, `invitation-${width}-${colorScheme}`);
		}
		await page.getByRole("button", { name: "Join with a passkey" }).click();
		await page.getByText("Your passkey works on this device.").waitFor();
		await page.getByText("tariq.aziz@example.com is now a member").waitFor();
		expect(await page.getByRole("button", { name: "Add a passkey" }).isVisible()).toBe(false);
		await expectSound(visitor);
		await screenshot(page, "invitation-joined-390-dark");
		const passkeys = await (await visitor.context.request.get(`${stage.origin}/account/passkeys`)).json();
		expect(passkeys).toMatchObject([{ name: "This device" }]);
		await visitor.context.clearCookies();
		await page.goto(`${stage.origin}/sign-in`);
		await page.getByRole("button", { name: /passkey/i }).click();
		await page.waitForURL((url) => url.pathname.startsWith("/dashboard"));
		const account = await (await visitor.context.request.get(`${stage.origin}/account`)).json();
		expect(account).toMatchObject({ email: "tariq.aziz@example.com" });
		expect(visitor.complaints).toEqual([]);
		visitor.leave();
	});

	test("a person reads the inviter's note, declines after a question, and cannot join any more", async () => {
		const visitor = await stage.visitor();
		const { page } = visitor;
		const link = await invite("nobody@example.com", { note: "Welcome.\nStart with the beta channel." });
		await page.goto(link);
		await page.getByText("“Welcome.").waitFor();
		await page.getByText("Not expecting this?").waitFor();
		await page.getByRole("button", { name: "decline", exact: true }).click();
		await page.getByText("The link stops working.").waitFor();
		await expectSound(visitor);
		await expectFitsPhone(visitor);
		for (const [width, colorScheme] of [
			[1280, "dark"],
			[390, "light"],
		] as const) {
			await page.setViewportSize({ width, height: 900 });
			await page.emulateMedia({ colorScheme });
			await screenshot(page, `invitation-decline-${width}-${colorScheme}`);
		}
		await page.getByRole("button", { name: "keep it" }).click();
		await page.getByRole("button", { name: "decline", exact: true }).click();
		await page.getByRole("button", { name: "Decline", exact: true }).click();
		await page.getByRole("heading", { name: "You declined" }).waitFor();
		for (const text of ["Join without a passkey", "Not expecting this?", "With this role"]) {
			expect(await page.getByText(text).first().isVisible(), text).toBe(false);
		}
		await expectSound(visitor);
		await screenshot(page, "invitation-declined");
		const members = await stage.product.api("GET", `/organization/members?orgId=${stage.product.orgId}`);
		expect(JSON.stringify(members.body)).not.toContain("nobody@example.com");
		await page.goto("about:blank");
		await page.goto(link);
		await page.getByText("Ask for a new one").waitFor();
		expect(await page.getByRole("button", { name: "decline", exact: true }).isVisible()).toBe(false);
		expect(visitor.complaints).toEqual([]);
		visitor.leave();
	});

	test("a person who dismisses the passkey is in all the same, and can add it on the spot", async () => {
		const visitor = await stage.visitor();
		const { page } = visitor;
		await page.addInitScript(
			"navigator.credentials.create = () => Promise.reject(new DOMException('', 'NotAllowedError'))",
		);
		await page.goto(await invite("mei.lin@example.com"));
		await page.getByRole("button", { name: "Join with a passkey" }).click();
		await page.getByText("mei.lin@example.com is now a member").waitFor();
		await page.getByRole("button", { name: "Add a passkey" }).waitFor();
		await page.getByText("You are signed in.").waitFor();
		expect(await page.getByRole("alert").isVisible()).toBe(false);
		await page.getByRole("link", { name: "Open the dashboard" }).click();
		await page.getByRole("heading", { level: 1, name: "Apps" }).waitFor();
		visitor.leave();
	});
});
