/**
 * Webhooks from the dashboard in a real browser, with receivers of this process: each attempt with
 * request and response, replays, and changes in place. A receiver's answer is hostile text.
 */
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { chromium } from "./support/browser";
import { HOSTILE, newStage, type Stage, type Visitor } from "./support/dashboard";
import { expectFitsPhone, expectSound } from "./support/dashboard-checks";

if (chromium === undefined) console.log("skipped: webhooks from the dashboard, because no Chromium is installed");

interface Receiver {
	readonly origin: string;
	/** `webhook-id` of each delivery. */
	readonly received: string[];
	status: number;
}

const servers: Server[] = [];

async function startReceiver(body: string): Promise<Receiver> {
	const receiver = { origin: "", received: [] as string[], status: 204 };
	const server = createServer((request, response) => {
		receiver.received.push(String(request.headers["webhook-id"]));
		request.resume().on("end", () => {
			response.writeHead(receiver.status, { "content-type": "text/html", "set-cookie": "session=secret" });
			response.end(receiver.status === 204 ? undefined : body.replace("$path", request.url ?? ""));
		});
	});
	servers.push(server);
	await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
	receiver.origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
	return receiver;
}

describe.skipIf(chromium === undefined)("webhooks from the dashboard", () => {
	let stage: Stage;
	let admin: Visitor;
	let at: string;
	beforeAll(async () => {
		stage = await newStage();
		admin = await stage.admin();
		at = `/organizations/${stage.product.orgId}`;
	});
	afterAll(() => {
		admin?.leave();
		for (const server of servers) server.close();
	});
	const button = (name: string | RegExp) => admin.page.getByRole("button", { name, exact: true });
	const rows = () => admin.page.getByRole("list", { name: "Deliveries" }).getByRole("listitem");

	test("shows each attempt with request and response, and sends one again that is due later", async () => {
		const receiver = await startReceiver(`<img src=x onerror="document.title='taken'">${HOSTILE} at $path, 10.0.0.7`);
		const { page } = admin;
		await admin.open(`${at}/webhooks`, "Webhooks");
		await button("Add webhook").click();
		await page.getByLabel("Address").fill(`${receiver.origin}/hooks/s3cretpath`);
		await page.getByLabel("Name").fill("Release log");
		await page.getByLabel("Only these").check();
		expect(await button("Add").isDisabled(), "no choice is not all events").toBe(true);
		await page.getByLabel("Opened previews").check();
		await expectSound(admin);
		await button("Add").click();
		expect(await page.getByRole("textbox", { name: "Secret" }).inputValue()).toMatch(/^whsec_/);
		await button("I have saved it").click();
		await page.getByRole("link", { name: "Release log" }).click();
		await page.getByText("Opened previews of all apps").waitFor();
		await page.getByText("Nothing sent yet").waitFor();

		receiver.status = 503;
		await button("Send test event").click();
		await page.getByText("Test event queued.").waitFor();
		const [row] = [rows().first()];
		// By itself, without a reload.
		await row.getByText("503", { exact: true }).waitFor();
		await row.getByText(/^Waiting, attempt [23]/).waitFor();
		await row.getByRole("button", { name: /^Details: / }).click();
		await row
			.getByText(/^The receiver answered 503/)
			.first()
			.waitFor();
		const response = await row.getByText("HTTP 503").textContent();
		expect(response).toContain("content-type: text/html");
		expect(response).toContain("<img src=x onerror=");
		expect(response).not.toMatch(/s3cretpath|10\.0\.0\.7|set-cookie/);
		const request = await row.getByText(/^POST http/).textContent();
		expect(request).toContain("webhook-signature: …");
		expect(request).toContain('"type": "webhook.test"');
		expect(request).not.toContain("s3cretpath");
		await expectSound(admin);
		await expectFitsPhone(admin);

		receiver.status = 204;
		const before = receiver.received.length;
		await row.getByRole("button", { name: "Retry now" }).click();
		await expect.poll(() => receiver.received.length).toBeGreaterThan(before);
		await row.getByText(/^Delivered: the receiver answered 204/).waitFor();
		await row.getByText(/^HTTP 204/).waitFor();
		await row.getByRole("button", { name: "Replay" }).click();
		await expect.poll(() => receiver.received.length).toBeGreaterThan(before + 1);
		expect(new Set(receiver.received).size).toBe(1);
		await page.getByRole("button", { name: "Failed" }).click();
		await page.getByText("No such deliveries").waitFor();
	});

	test("changes name, address and events in place, and names what changes before it is saved", async () => {
		const receiver = await startReceiver("");
		const { page } = admin;
		await admin.open(`${at}/webhooks`, "Webhooks");
		await page.getByRole("link", { name: "Release log" }).click();
		const card = page.getByRole("form", { name: "Address and events" });
		await card.getByLabel("Opened previews").waitFor();
		expect(await card.getByRole("button", { name: "Save webhook" }).count()).toBe(0);
		await card.getByLabel("New address").fill(`${receiver.origin}/other`);
		await card.getByLabel("Name").fill("Board");
		await card.getByLabel("Opened previews").uncheck();
		await card.getByText(/Unsaved: name, address, Opened previews → none yet/).waitFor();
		expect(await card.getByRole("button", { name: "Save webhook" }).isDisabled()).toBe(true);
		await card.getByLabel("Rollbacks", { exact: true }).check();
		await card.getByText(/Opened previews → Rollbacks\. Deliveries that wait go to the new address/).waitFor();
		await expectSound(admin);
		await card.getByRole("button", { name: "Save webhook" }).click();
		await page.getByRole("heading", { name: "Board", level: 1 }).waitFor();
		await page.getByText("Rollbacks of all apps").waitFor();
		await expect.poll(() => card.getByRole("button", { name: "Save webhook" }).count()).toBe(0);
		await button("Send test event").click();
		await expect.poll(() => receiver.received.length).toBe(1);
		await card.getByLabel("All events").check();
		await card.getByRole("button", { name: "Discard" }).click();
		expect(await card.getByLabel("Rollbacks", { exact: true }).isChecked()).toBe(true);
		await expectFitsPhone(admin);
	});

	test("disables it, and deletes it", async () => {
		const { page } = admin;
		await button("Disable").click();
		await page.getByText("Webhook disabled.").waitFor();
		await expect.poll(() => button("Send test event").isDisabled()).toBe(true);
		await rows()
			.first()
			.getByRole("button", { name: /^Details: / })
			.click();
		await rows().first().getByText("Enable it to send the event again").waitFor();
		await button("Delete webhook").click();
		await button("Delete").click();
		await page.getByText("No webhooks yet").waitFor();
		await expectSound(admin);
	});
});
