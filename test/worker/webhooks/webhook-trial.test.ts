/**
 * POST /webhook/try: the address of a new or a changed webhook gets a test event before it is saved.
 * The receiver verifies it, nothing is stored, and no rule of saving is weaker.
 */
import { beforeEach, describe, expect, test } from "vitest";
import { HOUR_MS } from "../../../src/domain/time";
import { TIME_LIMIT_MS } from "../../../src/features/webhooks/sending";
import { databaseText } from "../support/database-text";
import { isSignedBy, type Received, verified } from "../support/receiver";
import { createTestApp, createTestKey } from "../support/scene";
import { addWebhook, createScene, post, type WebhookScene } from "../support/webhook-scene";
import { createWorld } from "../support/world";

const ADDRESS = "https://new.example.com/hooks/s3cretpath";

let scene: WebhookScene;
beforeEach(async () => {
	scene = await createScene();
});

const attempt = (fields: Record<string, unknown> = {}, of = scene) =>
	post(of.world, "/webhook/try", { url: ADDRESS, ...fields });

function only(received: readonly Received[]): Received {
	const [first, ...others] = received;
	if (first === undefined || others.length > 0) throw new Error(`${received.length} requests were received`);
	return first;
}

describe("POST /webhook/try", () => {
	test("sends a test event to the address of a new webhook, and stores nothing", async () => {
		const { world, receiver } = scene;
		const app = await createTestApp(world);
		const before = await databaseText();
		receiver.answers = [new Response("<b>hello</b> from /hooks/s3cretpath", { headers: { "set-cookie": "a=b" } })];
		const { status, body } = await attempt({ app_id: app.appId });
		expect([status, body]).toEqual([
			200,
			{
				status_code: 200,
				duration_ms: 0,
				error: null,
				response: {
					headers: { "content-type": "text/plain;charset=UTF-8" },
					body: `<b>hello</b> from ${"*".repeat("/hooks/s3cretpath".length)}`,
					truncated: false,
				},
			},
		]);
		expect(await databaseText()).toBe(before);
		expect(world.deps.woken).toEqual([]);
		const request = only(receiver.received);
		expect(request.url).toBe(ADDRESS);
		expect(request.headers["webhook-signature"]).toMatch(/^v1,\S+ v1a,\S+$/);
		expect(request.body).toMatchObject({
			type: "webhook.test",
			data: {
				organization_id: world.orgId,
				app_id: app.appId,
				actor: { type: "api_key", name: "admin" },
				target: { type: "webhook", name: "new.example.com" },
			},
		});
	});

	test("signs for an existing webhook with its secrets, and leaves its address", async () => {
		const { world, receiver } = scene;
		const hook = await addWebhook(world);
		const rotated = await post(world, "/webhook/rotate", { id: hook.id, overlap_hours: 2 });
		expect((await attempt({ id: hook.id })).body).toMatchObject({ status_code: 204, error: null });
		const during = only(receiver.received.splice(0));
		expect(during.url).toBe(ADDRESS);
		for (const { secret, public_key } of [hook, rotated.body]) {
			expect(verified(secret, during, world.clock.nowMs)).toMatchObject({ data: { target: { id: hook.id } } });
			expect(await isSignedBy(public_key, during)).toBe(true);
		}
		world.clock.nowMs += 2 * HOUR_MS;
		await attempt({ id: hook.id });
		const after = only(receiver.received.splice(0));
		expect(() => verified(hook.secret, after, world.clock.nowMs)).toThrow("No matching");
		expect(verified(rotated.body.secret, after, world.clock.nowMs)).toMatchObject({ type: "webhook.test" });
		const { body: list } = await world.request("GET", "/webhook", {
			key: world.adminKey,
			query: { orgId: world.orgId },
		});
		expect(list).toMatchObject([{ id: hook.id, url: "https://hooks.example.com/…", failing_since: null }]);
		const { body: deliveries } = await world.request("GET", "/webhook/delivery", {
			key: world.adminKey,
			query: { orgId: world.orgId, id: hook.id },
		});
		expect(deliveries).toEqual([]);
	});

	test("sends the form of the format, that of the webhook with an id", async () => {
		const { world, receiver } = scene;
		await attempt({ format: "discord" });
		expect(only(receiver.received.splice(0))).toMatchObject({ body: { username: "Capstan" } });
		const hook = await addWebhook(world, { format: "slack" });
		await attempt({ id: hook.id });
		const sent = only(receiver.received.splice(0));
		expect(sent.body).toHaveProperty("blocks");
		expect(sent.headers).not.toHaveProperty("webhook-signature");
		for (const [path, value] of Object.entries({ format: "discord", app_id: "com.example.any" })) {
			const { status, body } = await attempt({ id: hook.id, [path]: value });
			expect([status, body.moreInfo.issues[0].path]).toEqual([400, path]);
		}
		expect(receiver.received).toEqual([]);
	});

	test.each<[string, Response | Error, object]>([
		["a refusal", new Response("no", { status: 401 }), { status_code: 401, error: "the receiver answered 401" }],
		[
			"a redirect",
			new Response(null, { status: 302, headers: { location: "https://10.0.0.1/x" } }),
			{ status_code: 302, error: "redirects are not followed", response: { headers: { location: "…" } } },
		],
		[
			"a receiver that is down",
			new Error("refused"),
			{ status_code: null, error: "the receiver could not be reached", response: null },
		],
	])("answers %s with what happened", async (_, answer, shown) => {
		scene.receiver.answers = [answer];
		const { status, body } = await attempt();
		expect(status).toBe(200);
		expect(body).toMatchObject(shown);
	});

	test("ends after the time limit", async () => {
		const deadline = async (ms: number): Promise<void> => {
			expect(ms).toBe(TIME_LIMIT_MS);
		};
		const slow = await createScene({ bindings: { deadline }, isOperator: false });
		slow.receiver.answers = [new Promise(() => undefined)];
		expect((await attempt({}, slow)).body).toMatchObject({
			status_code: null,
			error: "no answer within 15 seconds",
			response: null,
		});
	});

	test.each(["http://hooks.example.com/a", "https://10.0.0.1/a", "https://metadata.google.internal/a", "hooks"])(
		"refuses %s as saving does, for new and for existing webhooks",
		async (url) => {
			const hook = await addWebhook(scene.world);
			for (const fields of [{}, { id: hook.id }]) {
				const { status, body } = await attempt({ url, ...fields });
				expect([status, body.error, body.moreInfo.issues[0].path]).toEqual([400, "invalid_request", "url"]);
			}
			expect(scene.receiver.received).toEqual([]);
		},
	);

	test("needs the right that saving needs, of the webhook and not of the request", async () => {
		const { world, receiver } = scene;
		const [app, other] = [await createTestApp(world), await createTestApp(world)];
		const { text: key } = await createTestKey(world, "app_admin", app);
		const [ofOrganization, ofOther, own] = [
			await addWebhook(world),
			await addWebhook(world, { app_id: other.appId }),
			await addWebhook(world, { app_id: app.appId }),
		];
		const statusFor = async (fields: Record<string, unknown>) => {
			const body = { orgId: world.orgId, url: ADDRESS, ...fields };
			return (await world.request("POST", "/webhook/try", { key, body })).status;
		};
		expect(await statusFor({})).toBe(403);
		expect(await statusFor({ app_id: other.appId })).toBe(404);
		expect(await statusFor({ id: ofOrganization.id })).toBe(403);
		expect(await statusFor({ id: ofOther.id })).toBe(404);
		// An app that the caller administers gives no right on the webhook of the organization.
		expect(await statusFor({ id: ofOrganization.id, app_id: app.appId })).toBe(403);
		expect(receiver.received).toEqual([]);
		expect(await statusFor({ app_id: app.appId })).toBe(200);
		expect(await statusFor({ id: own.id })).toBe(200);

		const stranger = await createWorld({ isOperator: false });
		for (const fields of [{}, { id: own.id }, { app_id: app.appId }]) {
			const body = { orgId: world.orgId, url: ADDRESS, ...fields };
			expect((await world.request("POST", "/webhook/try", { key: stranger.adminKey, body })).status).toBe(404);
			const theirs = { ...body, orgId: stranger.orgId };
			const { status } = await stranger.request("POST", "/webhook/try", { key: stranger.adminKey, body: theirs });
			expect(status).toBe("id" in fields || "app_id" in fields ? 404 : 200);
		}
		expect(receiver.received).toHaveLength(2);
	});

	test("is limited for the app or the organization, whose webhooks it is about", async () => {
		const counted = new Map<string, number>();
		const limiter = {
			async limit({ key }: { key: string }) {
				counted.set(key, (counted.get(key) ?? 0) + 1);
				return { success: (counted.get(key) ?? 0) <= 1 };
			},
		};
		const limited = await createScene({
			bindings: { requestLimits: { fetches: { limiter, periodSeconds: 60 } } },
			isOperator: false,
		});
		const app = await createTestApp(limited.world);
		expect((await attempt({}, limited)).status).toBe(200);
		const refused = await attempt({}, limited);
		expect([refused.status, refused.headers.get("retry-after")]).toEqual([429, "60"]);
		expect((await attempt({ app_id: app.appId }, limited)).status).toBe(200);
		expect((await attempt({ app_id: app.appId }, limited)).status).toBe(429);
		expect(limited.receiver.received).toHaveLength(2);
	});

	test("reaches this machine in a local run that serves no network", async () => {
		const local = await createScene({ config: { CAPSTAN_LOCAL_RUN: "loopback" } });
		const answer = await post(local.world, "http://127.0.0.1:8787/webhook/try", { url: "http://127.0.0.1:9/a" });
		// The network of the test's own machine is that of `fetchLocally`, which has no receiver.
		expect(answer.body).toMatchObject({ status_code: null, error: "the receiver could not be reached" });
		expect(local.receiver.received).toEqual([]);
	});
});
