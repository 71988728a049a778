/** Messages to chats, and events that no audit entry causes. */
import { beforeEach, describe, expect, test } from "vitest";
import { consume } from "../../../src/consumer";
import { auditStatement } from "../../../src/db/audit/entries";
import { openDb } from "../../../src/db/client";
import { eventSentence } from "../../../src/domain/webhooks/events";
import { linkOf } from "../../../src/features/webhooks/formats";
import type { DeviceSeen } from "../../../src/messages";
import { createTestApp, type TestApp, uploadTestBundle } from "../support/scene";
import { addWebhook, createScene, deliveriesOf, post, promote, type WebhookScene } from "../support/webhook-scene";
import { testEnv, type World } from "../support/world";

let scene: WebhookScene;
beforeEach(async () => {
	scene = await createScene({ config: { PUBLIC_URL: "https://updates.example.com" } });
});

describe("a chat", () => {
	const HOSTILE = "*pro*<!channel|x> @here\n & \u202e[a](http://b)";

	async function receivedBy(format: string) {
		const { world, receiver, deliver } = scene;
		await addWebhook(world, { format, events: ["key.created"] });
		const bindings = [{ role_name: "org_member", scope_type: "org", org_id: world.orgId }];
		await world.request("POST", "/apikey", { key: world.adminKey, body: { name: HOSTILE, hashed: true, bindings } });
		await deliver();
		expect(receiver.received).toHaveLength(1);
		expect(Object.keys(receiver.received[0]?.headers ?? {}).sort()).toEqual(["content-type", "user-agent"]);
		return receiver.received[0]?.body;
	}

	test("Slack gets a section and its context, with names escaped", async () => {
		const z = "\u200b";
		const text = `admin created API key *${z}pro*${z}&lt;!channel|x&gt; @${z}here &amp; [a](http:${z}//b)`;
		expect(await receivedBy("slack")).toEqual({
			text,
			unfurl_links: false,
			blocks: [
				{ type: "section", text: { type: "mrkdwn", text, verbatim: true } },
				{
					type: "context",
					elements: [
						{ type: "mrkdwn", text: "`key.created` · <https://updates.example.com/dashboard|Open in Capstan>" },
					],
				},
			],
		});
	});

	test("Discord gets an embed, with names escaped and mentions switched off", async () => {
		expect(await receivedBy("discord")).toEqual({
			username: "Capstan",
			embeds: [
				{
					title: "key.created",
					description: "admin created API key \\*pro\\*\\<\\!channel\\|x\\> \\@here & \\[a\\]\\(http\\://b\\)",
					url: "https://updates.example.com/dashboard",
					color: 0x1c7ed6,
					timestamp: "2026-11-21T08:00:00.000Z",
				},
			],
			allowed_mentions: { parse: [] },
		});
	});

	test("Teams gets an adaptive card, with names escaped", async () => {
		expect(await receivedBy("teams")).toEqual({
			type: "message",
			attachments: [
				{
					contentType: "application/vnd.microsoft.card.adaptive",
					contentUrl: null,
					content: {
						$schema: "http://adaptivecards.io/schemas/adaptive-card.json",
						type: "AdaptiveCard",
						version: "1.4",
						body: [
							{
								type: "TextBlock",
								text: "admin created API key \\*pro\\*\\<\\!channel\\|x\\> \\@here & \\[a\\]\\(http\\://b\\)",
								wrap: true,
							},
							{ type: "TextBlock", text: "key.created", isSubtle: true, size: "Small", spacing: "None" },
						],
						actions: [
							{ type: "Action.OpenUrl", title: "Open in Capstan", url: "https://updates.example.com/dashboard" },
						],
					},
				},
			],
		});
	});

	test("has no secret to rotate", async () => {
		const hook = await addWebhook(scene.world, { format: "discord" });
		expect((await post(scene.world, "/webhook/rotate", { id: hook.id })).body.error).toBe("webhook_has_no_secret");
	});
});

test.each<readonly [string, Record<string, unknown>, string | null]>([
	["channel.promote", { version: "1.0.0" }, "channel.promoted"],
	["channel.update", { version: null }, "channel.promoted"],
	["channel.create", { version: "1.0.0" }, "channel.promoted"],
	["channel.create", { version: null }, null],
	["channel.update", { public: true }, null],
	["channel.rollback", { version: "1.0.0" }, "channel.rolled_back"],
	["channel.update", { rolloutVersion: "1.1.0", rolloutPercentageBps: 500 }, "rollout.started"],
	["channel.update", { rolloutPercentageBps: 1000 }, "rollout.advanced"],
	["channel.rollout_advance", { rolloutPercentageBps: 2000 }, "rollout.advanced"],
	["channel.update", { rolloutPausedAtMs: 1 }, "rollout.paused"],
	["channel.update", { rolloutPausedAtMs: null }, null],
	["channel.rollout_pause", { rolloutPausedAtMs: 1 }, "rollout.paused"],
	["channel.rollout_rollback", { rolloutVersion: null }, "rollout.rolled_back"],
	["channel.rollout_notify", {}, "rollout.failing"],
	["preview.open", {}, "preview.opened"],
	["preview.close", {}, "preview.closed"],
	["proposal.create", {}, "proposal.created"],
	["proposal.approve", {}, "proposal.approved"],
	["proposal.reject", {}, "proposal.rejected"],
	["api_key.create", {}, "key.created"],
	["api_key.delete", {}, "key.deleted"],
	["member.add", {}, "member.added"],
	["member.remove", {}, "member.removed"],
	["webhook.disable", {}, "webhook.disabled"],
	["access.denied", {}, null],
	["organization.update", {}, null],
])("the audit entry %s with %j causes the event %s", async (action, after, type) => {
	const { world } = scene;
	await addWebhook(world);
	const actor = { type: "system", id: null, name: "test", requestId: "1", ipAddress: "192.0.2.1" } as const;
	const entry = { orgId: world.orgId, action, target: { type: "thing", id: "1" }, after };
	await openDb(testEnv.DB, "first-primary").batch([auditStatement(actor, world.clock.nowMs, entry)]);
	const { results } = await testEnv.DB.prepare("SELECT type, data FROM webhook_events WHERE org_id = ?")
		.bind(world.orgId)
		.all<{ type: string; data: string }>();
	expect(results.map((event) => event.type)).toEqual(type === null ? [] : [type]);
	expect(JSON.stringify(results)).not.toContain("192.0.2.1");
	for (const event of results) expect(eventSentence(event)).toMatch(/^[A-Z1a-z].+[^.]$/);
});

describe("the first device of a bundle", () => {
	const seen = (app: TestApp, deviceId: string, versionName: string, atMs: number): DeviceSeen => ({
		type: "seen",
		appId: app.appId,
		deviceId,
		atMs,
		platform: "ios",
		versionName,
		versionBuild: "1.0.0",
		osVersion: "18",
		pluginVersion: "8.51.23",
		isProd: true,
		isEmulator: false,
		customId: "",
		installSource: "",
		keyId: "",
		defaultChannel: "",
		channelId: null,
	});
	const report = (world: World, ...events: DeviceSeen[]) =>
		consume(world.deps, { messages: [{ body: { kind: "device_events", id: crypto.randomUUID(), events } }] });

	test("is reported once, whatever the number of devices, isolates and repeated messages", async () => {
		const { world, receiver, deliver } = scene;
		const hook = await addWebhook(world, { events: ["bundle.first_device"] });
		const app = await createTestApp(world);
		const id = await uploadTestBundle(world, app, "1.0.0");
		const atMs = world.clock.nowMs;
		await report(world, seen(app, "d1", "builtin", atMs), seen(app, "d1", "9.9.9", atMs));
		expect(await deliveriesOf(world, hook.id)).toEqual([]);
		await report(world, seen(app, "d1", "1.0.0", atMs), seen(app, "d2", "1.0.0", atMs));
		await report({ ...world, deps: { ...world.deps } }, seen(app, "d3", "1.0.0", atMs));
		await deliver();
		expect(receiver.received.map(({ body }) => body.data)).toEqual([
			{ organization_id: world.orgId, app_id: app.appId, target: { type: "bundle", id: String(id), name: "1.0.0" } },
		]);
		expect(await deliveriesOf(world, hook.id)).toHaveLength(1);
	});

	test("is not reported of a bundle that is older than the webhook, nor to another organization", async () => {
		const { world } = scene;
		const app = await createTestApp(world);
		await promote(world, app);
		world.clock.nowMs += 1;
		const hook = await addWebhook(world);
		const stranger = await createScene({ isOperator: false });
		const other = await addWebhook(stranger.world);
		await report(world, seen(app, "d1", "1.0.0", world.clock.nowMs));
		expect(await deliveriesOf(world, hook.id)).toEqual([]);
		expect(await deliveriesOf(stranger.world, other.id)).toEqual([]);
	});
});

test("an event about what a channel serves links to the release, and other events of a channel to the channel", () => {
	const of = (data: object) =>
		linkOf(
			{
				data: JSON.stringify({
					app_id: "com.acme.shop",
					target: { type: "channel", id: "7", name: "beta 2" },
					...data,
				}),
			},
			"https://updates.example.com",
		);
	const channel = "https://updates.example.com/dashboard/apps/com.acme.shop/channels/beta%202";
	expect(of({ action: "channel.promote", after: { version: "2.4.0" } })).toBe(`${channel}/releases/2.4.0`);
	expect(of({ action: "channel.rollout_pause", details: { version: "2.4.0" } })).toBe(`${channel}/releases/2.4.0`);
	expect(of({ action: "channel.rollout_rollback", before: { rolloutVersion: "2.4.0" } })).toBe(
		`${channel}/releases/2.4.0`,
	);
	expect(of({ action: "channel.update", after: { public: true } })).toBe(channel);
	expect(of({ action: "proposal.create", after: { version: "2.4.0" } })).toBe(channel);
});
