/** Secrets, addresses and limits of webhooks, and their upkeep. */
import { beforeEach, describe, expect, test } from "vitest";
import { parseConfig } from "../../../src/config";
import { DELIVERIES_KEPT_MS } from "../../../src/db/webhook-deliveries";
import { DAY_MS, HOUR_MS } from "../../../src/domain/time";
import { deliverDue } from "../../../src/features/webhooks/deliver";
import { JOBS } from "../../../src/schedule";
import { isSignedBy, verified } from "../support/receiver";
import { createTestApp } from "../support/scene";
import {
	addWebhook,
	createScene,
	deliveriesOf,
	post,
	promote,
	URL_OF_HOOK,
	type WebhookScene,
} from "../support/webhook-scene";
import { testEnv } from "../support/world";

/** A job of the clean-up. */
function job(name: string) {
	const found = JOBS[name];
	if (found === undefined) throw new Error(`no job ${name}`);
	return found;
}

let scene: WebhookScene;
beforeEach(async () => {
	scene = await createScene();
});

describe("the secret of a webhook", () => {
	test("signs together with its successor during the overlap, and not after it", async () => {
		const { world, receiver, deliver } = scene;
		const old = await addWebhook(world);
		const rotated = await post(world, "/webhook/rotate", { id: old.id, overlap_hours: 2 });
		expect(rotated.body).toMatchObject({ previous_secret_valid_until: "2026-11-21T10:00:00.000Z" });
		expect(rotated.body.secret).not.toBe(old.secret);
		const sendTest = async () => {
			world.deps.woken.length = 0;
			await post(world, "/webhook/test", { id: old.id });
			await deliver();
			const delivery = receiver.received.at(-1);
			if (delivery === undefined) throw new Error("nothing was delivered");
			return delivery;
		};
		const during = await sendTest();
		expect(during.headers["webhook-signature"]?.replace(/,\S+/g, "")).toBe("v1 v1 v1a v1a");
		for (const { secret, public_key } of [old, rotated.body]) {
			expect(verified(secret, during, world.clock.nowMs)).toMatchObject({ type: "webhook.test" });
			expect(await isSignedBy(public_key, during)).toBe(true);
		}
		world.clock.nowMs += 2 * HOUR_MS;
		const after = await sendTest();
		expect(verified(rotated.body.secret, after, world.clock.nowMs)).toMatchObject({ type: "webhook.test" });
		expect(() => verified(old.secret, after, world.clock.nowMs)).toThrow("No matching");
		expect(await isSignedBy(old.public_key, after)).toBe(false);
	});

	test("is shown once, and neither it nor the address is in the database, the audit log or a list in clear", async () => {
		const { world } = scene;
		const secretPath = await addWebhook(world, { url: "https://hooks.zapier.com/hooks/catch/hush" });
		expect(secretPath).toMatchObject({ url: "https://hooks.zapier.com/…" });
		const hook = await addWebhook(world, { format: "slack", url: "https://hooks.slack.com/services/T0/B0/hush" });
		expect(hook).toMatchObject({ secret: null, public_key: null, url: "https://hooks.slack.com/…" });
		const standard = await addWebhook(world);
		const { results } = await testEnv.DB.prepare("SELECT * FROM webhooks").all();
		const audit = await testEnv.DB.prepare("SELECT * FROM audit_log WHERE target_type = 'webhook'").all();
		const list = await world.request("GET", "/webhook", { key: world.adminKey, query: { orgId: world.orgId } });
		const shown = JSON.stringify([results, audit.results, list.body]);
		expect(shown).not.toContain("hush");
		expect(shown).not.toContain("token=abc");
		expect(shown).not.toContain(standard.secret);
	});

	test("is sealed again after a rotation of the deployment's secret, and signs as before", async () => {
		const { world, receiver } = scene;
		const hook = await addWebhook(world);
		const rotating = { ...testEnv, CAPSTAN_SECRET_2: "b".repeat(64), CAPSTAN_MAIL_TO_TERMINAL: "true" };
		await job("webhooks sealed by an older secret")({
			...world.deps,
			config: parseConfig({ ...rotating, CAPSTAN_SECRET_2: `${"b".repeat(64)}@1` }),
		});
		await post(world, "/webhook/test", { id: hook.id });
		const only = { ...world.deps, config: parseConfig({ ...testEnv, CAPSTAN_SECRET: "b".repeat(64) }) };
		await deliverDue(only, { kind: "webhook_due", webhookId: hook.id });
		const [delivery] = receiver.received;
		if (delivery === undefined) throw new Error("nothing was delivered");
		expect(verified(hook.secret, delivery, world.clock.nowMs)).toMatchObject({ type: "webhook.test" });
	});
});

describe("POST /webhook", () => {
	test.each([
		["http", "http://hooks.example.com/a"],
		["a private name", "https://printer.local/a"],
		["this machine", "https://localhost/a"],
		["an IP address", "https://93.184.216.34/a"],
		["a private IP address", "https://10.0.0.1/a"],
		["a decimal IP address", "https://2130706433/a"],
		["an IPv6 address", "https://[::1]/a"],
		["the metadata of a cloud", "https://metadata.google.internal/a"],
		["credentials", "https://user:pass@hooks.example.com/a"],
		["a fragment", "https://hooks.example.com/a#b"],
		["no address", "hooks"],
	])("refuses %s", async (_, url) => {
		const { world } = scene;
		const { status, body } = await post(world, "/webhook", { url });
		expect([status, body.error, body.moreInfo.issues[0].path]).toEqual([400, "invalid_request", "url"]);
	});

	test("accepts http and this machine in a local run that serves no network", async () => {
		const local = await createScene({ config: { CAPSTAN_LOCAL_RUN: "loopback" } });
		const path = "http://127.0.0.1:8787/webhook";
		expect((await post(local.world, path, { url: "http://127.0.0.1:9/a" })).status).toBe(201);
		const network = await createScene({ config: { CAPSTAN_LOCAL_RUN: "network" } });
		expect((await post(network.world, path, { url: "http://127.0.0.1:9/a" })).status).toBe(400);
	});

	test("refuses the app of another organization and the webhook after the fiftieth", async () => {
		const { world } = scene;
		const other = await createScene({ isOperator: false });
		const app = await createTestApp(other.world);
		expect((await post(world, "/webhook", { url: URL_OF_HOOK, app_id: app.appId })).body.error).toBe("app_not_found");
		await addWebhook(world);
		await testEnv.DB.prepare(
			`INSERT INTO webhooks SELECT 'copy-' || value, org_id, app_id, user_id, format, description, shown_url, sealed, public_key,
				previous_until_ms, events, failing_since_ms, disabled_at_ms, disabled_reason, created_at_ms, updated_at_ms
			FROM webhooks, json_each(?) WHERE org_id = ?`,
		)
			.bind(JSON.stringify([...Array(49).keys()]), world.orgId)
			.run();
		expect((await post(world, "/webhook", { url: URL_OF_HOOK })).body.error).toBe("webhook_limit_reached");
	});
});

describe("upkeep", () => {
	test("deletes events with their deliveries after thirty days", async () => {
		const { world } = scene;
		const hook = await addWebhook(world);
		await post(world, "/webhook/test", { id: hook.id });
		world.clock.nowMs += DELIVERIES_KEPT_MS;
		await job("old deliveries")(world.deps);
		expect(await deliveriesOf(world, hook.id)).toHaveLength(1);
		world.clock.nowMs += DAY_MS;
		await job("old deliveries")(world.deps);
		expect(await deliveriesOf(world, hook.id)).toEqual([]);
	});
});

test("an organization without a webhook gets no event and wakes nobody", async () => {
	const { world } = scene;
	// Creates the triggers.
	await addWebhook((await createScene({ isOperator: false })).world);
	const app = await createTestApp(world);
	await promote(world, app);
	const events = await testEnv.DB.prepare("SELECT count(*) AS events FROM webhook_events WHERE org_id = ?")
		.bind(world.orgId)
		.first("events");
	expect([events, world.deps.woken]).toEqual([0, []]);
});
