/**
 * The invitation page: how it is served, and its script run against the product with fake DOM
 * elements.
 */
import { beforeAll, expect, test } from "vitest";
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
	submit?: (event: { preventDefault(): void }) => Promise<void>;
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
			addEventListener: (_: string, listener: FakeElement["submit"]) => {
				if (listener !== undefined) element.submit = listener;
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
		{ hash: link.hash },
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

test("the page shows the offer, joins, and shows a valid key; a second visit reports that the invitation was used", async () => {
	const link = await invitedLink("joining@example.com");
	const { element, sent } = await open(link);
	expect(element("title").textContent).toBe("admin@capstan.local invites you to My organization");
	expect(element("message").textContent).toBe("as Member");
	expect(element("expiry").textContent).toContain("For joining@example.com only. Expires on ");
	expect(element("permissions").items).toContain("See the organization");
	expect(element("form").hidden).toBe(false);
	await element("form").submit?.({ preventDefault: () => undefined });
	expect(element("message").textContent).toContain("is now a member with the role Member.");
	expect(element("message").textContent).toContain("You are signed in");
	expect(element("result").hidden).toBe(false);
	const key = element("key").value;
	expect((await product.api("GET", "/organization", undefined, key)).body).toMatchObject([{ name: "My organization" }]);
	expect(sent).toEqual(["/invitation/show", "/invitation/accept"]);

	const again = await open(link);
	expect(again.element("message").textContent).toContain("Ask for a new one");
	expect(again.element("form").hidden).toBe(true);
	expect((await open(new URL("#", link))).element("message").textContent).toContain("Ask for a new one");
});
