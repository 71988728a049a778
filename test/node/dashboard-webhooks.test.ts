/**
 * Webhooks from the dashboard in a real browser, with receivers of this process: tests of addresses
 * before they are saved, each attempt with request and response, replays and stops, and changes in
 * place. A receiver's answer is hostile text.
 */
import { execFile } from "node:child_process";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import { Webhook } from "standardwebhooks";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { chromium } from "./support/browser";
import { HOSTILE, newStage, type Stage, type Visitor } from "./support/dashboard";
import { expectFitsPhone, expectSound, takePictures } from "./support/dashboard-checks";

if (chromium === undefined) console.log("skipped: webhooks from the dashboard, because no Chromium is installed");

interface Received {
	readonly path: string;
	readonly headers: Readonly<Record<string, string>>;
	readonly text: string;
}

interface Receiver {
	readonly origin: string;
	/** `webhook-id` of each delivery. */
	readonly received: string[];
	newest: Received | undefined;
	status: number;
}

const servers: Server[] = [];

const shell = (command: string, environment: Readonly<Record<string, string>>) =>
	new Promise<void>((done, failed) => {
		const env = { ...process.env, ...environment };
		execFile("sh", ["-eu", "-c", command], { env }, (error) => (error === null ? done() : failed(error)));
	});

async function startReceiver(body: string): Promise<Receiver> {
	const receiver = { origin: "", received: [] as string[], newest: undefined as Received | undefined, status: 204 };
	const server = createServer((request, response) => {
		receiver.received.push(String(request.headers["webhook-id"]));
		void text(request).then((sent) => {
			receiver.newest = {
				path: request.url ?? "",
				headers: request.headers as Record<string, string>,
				text: sent,
			};
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
		receiver.status = 401;
		await button("Test this address").click();
		await page.getByText(/^The receiver answered 401 after/).waitFor();
		const tried = await page.getByText("HTTP 401").textContent();
		expect(tried).toContain("<img src=x onerror=");
		expect(tried).not.toMatch(/s3cretpath|10\.0\.0\.7|set-cookie/);
		expect(receiver.newest).toMatchObject({ path: "/hooks/s3cretpath" });
		expect(JSON.parse(receiver.newest?.text ?? "")).toMatchObject({ type: "webhook.test" });
		await page.getByText("The event is signed with a secret of this test alone").waitFor();
		expect((await stage.product.api("GET", `/webhook?orgId=${stage.product.orgId}`)).body).toEqual([]);
		await expectSound(admin);
		await expectFitsPhone(admin);
		await takePictures(admin, "webhook-add");
		receiver.status = 204;
		await page.getByLabel("Format").selectOption("slack");
		await page.getByText(/^The receiver answered 401 after/).waitFor({ state: "detached" });
		await button("Test this address").click();
		await page.getByText(/^The receiver answered 204 after/).waitFor();
		expect(JSON.parse(receiver.newest?.text ?? "")).toHaveProperty("blocks");
		await page.getByLabel("Format").selectOption("standard");
		receiver.received.length = 0;
		await button("Add").click();
		const secret = await page.getByRole("textbox", { name: "Secret" }).inputValue();
		expect(secret).toMatch(/^whsec_/);
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
		await takePictures(admin, "webhook-attempt");

		await row.getByRole("button", { name: "Stop trying" }).click();
		await page.getByText("Stopped. No further attempt is made.").waitFor();
		await row.getByText("A person stopped the attempts.").waitFor();
		expect(await row.getByRole("button", { name: "Stop trying" }).count()).toBe(0);
		await page.getByRole("button", { name: "Stopped" }).click();
		await row.getByText("Stopped", { exact: true }).waitFor();
		await expectSound(admin);
		await takePictures(admin, "webhook-stopped");
		await page.getByRole("button", { name: "All", exact: true }).click();
		await row.getByText("Stopped", { exact: true }).waitFor();

		receiver.status = 204;
		await admin.context.grantPermissions(["clipboard-read", "clipboard-write"]);
		await row.getByRole("button", { name: "Copy as curl" }).click();
		await row.getByRole("button", { name: "Copied" }).waitFor();
		const command = String(await page.evaluate("navigator.clipboard.readText()"));
		expect(command).not.toContain("s3cretpath");
		await shell(command, { WEBHOOK_URL: `${receiver.origin}/copied`, WEBHOOK_SECRET: secret });
		const { headers = {}, text: body = "", path: copiedTo } = receiver.newest ?? {};
		expect(copiedTo).toBe("/copied");
		expect(new Webhook(secret).verify(body, { ...headers })).toMatchObject({ type: "webhook.test" });
		expect(headers).toMatchObject({ "content-type": "application/json", "webhook-id": receiver.received[0] });

		const before = receiver.received.length;
		await row.getByRole("button", { name: "Replay" }).click();
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
		await card.getByRole("button", { name: "Test this address" }).click();
		await card.getByText(/^The receiver answered 204 after/).waitFor();
		await card.getByText("The event is signed with the webhook's secret.").waitFor();
		expect(receiver.received).toHaveLength(1);
		await takePictures(admin, "webhook-settings");
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
		await expect.poll(() => receiver.received.length).toBe(2);
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
