/**
 * Webhooks of the running product, from the receiving end: HTTP servers of this process get what
 * the product's Queue delivers, and the published library verifies it as a receiver would.
 */
import { createPublicKey, verify } from "node:crypto";
import { createServer, type IncomingHttpHeaders, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { Webhook } from "standardwebhooks";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { PATIENCE_MS } from "../patience";
import { createProductApp, type Product, sharedProduct, uploadProductBundle } from "./support/product";

interface Receiver {
	readonly url: string;
	readonly received: { readonly headers: IncomingHttpHeaders; readonly text: string }[];
	readonly server: Server;
}

const receivers: Receiver[] = [];

/** Answers with the status, or never where there is none. */
async function startReceiver(status?: number): Promise<Receiver> {
	const received: Receiver["received"] = [];
	const server = createServer(async (request, response) => {
		const chunks: Buffer[] = [];
		for await (const chunk of request) chunks.push(chunk);
		received.push({ headers: request.headers, text: Buffer.concat(chunks).toString() });
		if (status !== undefined) response.writeHead(status).end();
	});
	await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
	const receiver = { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/hook`, received, server };
	receivers.push(receiver);
	return receiver;
}

let product: Product;
beforeAll(async () => {
	product = await sharedProduct();
});
afterAll(() => {
	for (const { server } of receivers) {
		server.closeAllConnections();
		server.close();
	}
});

async function addWebhook(url: string, fields: Record<string, unknown> = {}) {
	const organization = await product.api("PUT", "/organization", { name: "Hooks" });
	const { status, body } = await product.api("POST", "/webhook", { orgId: organization.body.id, url, ...fields });
	if (status !== 201) throw new Error(JSON.stringify(body));
	return { ...body, orgId: organization.body.id as string };
}

/**
 * Whether ed25519 of Node accepts a v1a signature, by the public key in the form of Standard
 * Webhooks.
 */
function isSignedBy(publicKey: string, { headers, text }: Receiver["received"][number]): boolean {
	const x = Buffer.from(publicKey.replace("whpk_", ""), "base64").toString("base64url");
	const key = createPublicKey({ format: "jwk", key: { kty: "OKP", crv: "Ed25519", x } });
	const signed = Buffer.from(`${headers["webhook-id"]}.${headers["webhook-timestamp"]}.${text}`);
	const signatures = String(headers["webhook-signature"]).split(" ");
	return signatures.some(
		(each) => each.startsWith("v1a,") && verify(null, signed, key, Buffer.from(each.slice(4), "base64")),
	);
}

describe("a webhook of the running product", () => {
	test("gets a promotion within seconds, while the receiver of another organization hangs", async () => {
		const [slow, fast] = [await startReceiver(), await startReceiver(204)];
		const hanging = await addWebhook(slow.url);
		const hook = await addWebhook(fast.url, { events: ["channel.promoted"] });
		for (let count = 0; count < 3; count++) {
			await product.api("POST", "/webhook/test", { orgId: hanging.orgId, id: hanging.id });
		}
		await expect.poll(() => slow.received.length, { timeout: PATIENCE_MS }).toBeGreaterThan(0);

		const appId = product.newAppId();
		await createProductApp({ ...product, orgId: hook.orgId }, appId);
		await uploadProductBundle(product, appId, "1.0.0");
		await product.api("POST", "/channel", { app_id: appId, channel: "production", version: "1.0.0" });
		await expect.poll(() => fast.received.length, { timeout: PATIENCE_MS }).toBe(1);
		// The slow receiver still holds its first attempt.
		const { body: waiting } = await product.api("GET", `/webhook/delivery?orgId=${hanging.orgId}&id=${hanging.id}`);
		expect(waiting.map(({ status_code }: { status_code: number | null }) => status_code)).toEqual([null, null, null]);

		const [delivery] = fast.received;
		if (delivery === undefined) throw new Error("nothing was delivered");
		const headers = delivery.headers as Record<string, string>;
		const event = new Webhook(hook.secret).verify(delivery.text, headers);
		expect(event).toMatchObject({
			type: "channel.promoted",
			data: { app_id: appId, target: { name: "production" }, after: { version: "1.0.0" } },
		});
		expect(isSignedBy(hook.public_key, delivery)).toBe(true);
		expect(() => new Webhook(hanging.secret).verify(delivery.text, headers)).toThrow("No matching signature");
	});

	test("gets a failed delivery again after five seconds, under the same id", async () => {
		const receiver = await startReceiver(500);
		const hook = await addWebhook(receiver.url);
		await product.api("POST", "/webhook/test", { orgId: hook.orgId, id: hook.id });
		await expect.poll(() => receiver.received.length, { timeout: PATIENCE_MS }).toBe(2);
		const [first, second] = receiver.received.map(({ headers }) => headers["webhook-id"]);
		expect(second).toBe(first);
	});
});
