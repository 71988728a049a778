/**
 * Webhooks of GitHub and GitLab that close previews: what a provider sees, what a stranger without
 * the secret sees, and what deliveries in another order, twice or late do.
 */
import { beforeAll, beforeEach, describe, expect, test } from "vitest";
import { HOUR_MS } from "../../../src/domain/time";
import { runJobs } from "../../../src/schedule";
import {
	createTestApp,
	createTestKey,
	createWorld,
	NOW_MS,
	setTestChannel,
	type TestApp,
	uploadTestBundle,
	type World,
} from "../support/world";

let world: World;
let app: TestApp;
let ci: string;
let github: { id: string; secret: string; url: string };
let gitlab: { id: string; secret: string; url: string };
let number = 500;
beforeAll(async () => {
	world = await createWorld();
	app = await createTestApp(world);
	ci = (await createTestKey(world, "app_preview", app)).text;
	github = await createHook("github");
	gitlab = await createHook("gitlab");
});
beforeEach(() => {
	number += 1;
	world.clock.nowMs = NOW_MS;
});

const createHook = async (provider: string) =>
	(await world.request("POST", "/preview/hook", { key: world.adminKey, body: { app_id: app.appId, provider } })).body;
const utf8 = (text: string) => new TextEncoder().encode(text);
async function hmac(key: Uint8Array, text: string): Promise<Uint8Array> {
	const imported = await crypto.subtle.importKey("raw", key, { name: "HMAC", hash: "SHA-256" }, false, ["sign"]);
	return new Uint8Array(await crypto.subtle.sign("HMAC", imported, utf8(text)));
}
const hex = (bytes: Uint8Array) => Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
const at = (seconds: number) => new Date(NOW_MS + seconds * 1000).toISOString().replace(".000", "");

interface Sent {
	readonly secret?: string;
	readonly hook?: string;
	readonly repositoryId?: unknown;
	readonly number?: unknown;
	readonly repository?: string;
	readonly headers?: Record<string, string>;
	readonly form?: boolean;
	readonly of?: World;
}
const payloadOf = (action: string, seconds: number, sent: Sent = {}) => {
	const { repositoryId = 456, repository = "Acme/Shop", number: named = number } = sent;
	return JSON.stringify({
		action,
		number: named,
		repository: { id: repositoryId, full_name: repository },
		pull_request: { updated_at: at(seconds), closed_at: action === "closed" ? at(seconds) : null },
	});
};
/** As GitHub delivers a pull request event. */
async function deliver(action: string, seconds: number, sent: Sent = {}) {
	const payload = payloadOf(action, seconds, sent);
	const text = sent.form === true ? new URLSearchParams({ payload }).toString() : payload;
	const signature = `sha256=${hex(await hmac(utf8(sent.secret ?? github.secret), text))}`;
	return (sent.of ?? world).request("POST", `/hooks/github/${sent.hook ?? github.id}`, {
		rawBody: utf8(text),
		headers: {
			"content-type": sent.form === true ? "application/x-www-form-urlencoded" : "application/json",
			"x-github-event": "pull_request",
			"x-hub-signature-256": signature,
			...sent.headers,
		},
		mostTrips: 3,
	});
}
const open = (fields: Record<string, unknown> = {}) =>
	world.request("POST", "/preview", {
		key: ci,
		body: { app_id: app.appId, repository: "acme/shop", number, ...fields },
	});
const state = async (repository = "acme/shop") => {
	const query = { app_id: app.appId, repository, number: String(number) };
	return (await world.request("GET", "/preview", { key: world.adminKey, query })).body[0]?.state;
};
const REFUSED = { status: 403, body: { error: "invalid_signature" } };

describe("a webhook of GitHub", () => {
	test("closes the preview of a closed pull request, with its channel and bundles, and logs its name", async () => {
		await open({ repository_id: "456" });
		await uploadTestBundle(world, app, `0.0.0-pr-${number}.1`, ci);
		await setTestChannel(world, app, `pr-${number}`, { version: `0.0.0-pr-${number}.1` }, ci);
		expect(await deliver("closed", 0)).toMatchObject({ status: 200, body: { action: "closed" } });
		expect(await state()).toBe("closed");
		const channel = { key: world.adminKey, query: { app_id: app.appId, channel: `pr-${number}` } };
		expect((await world.request("GET", "/channel", channel)).status).toBe(404);
		const log = { key: world.adminKey, query: { action: "preview.close", target: `acme/shop#${number}` } };
		const { body } = await world.request("GET", `/app/${app.appId}/audit`, log);
		expect(JSON.stringify(body)).toContain("Webhook of GitHub");
		expect((await deliver("closed", 0)).body, "the same delivery again").toEqual({ status: "ok", action: "ignored" });
	});

	test("refuses the build that outlasts the merge, also if nothing was opened yet", async () => {
		await deliver("closed", -10);
		for (const event_at of [undefined, at(-20), at(-10)]) {
			expect(await open({ event_at })).toMatchObject({ status: 409, body: { error: "preview_closed" } });
		}
		expect((await open({ event_at: at(-5) })).status).toBe(201);
	});

	test("lets the next upload open a reopened pull request, and an old or repeated end close nothing", async () => {
		await open();
		await deliver("closed", -20);
		expect((await deliver("reopened", -10)).body.action).toBe("reopened");
		expect((await open()).status).toBe(201);
		for (const seconds of [-20, -15, -10]) {
			expect((await deliver("closed", seconds)).body.action, String(seconds)).toBe("ignored");
		}
		expect(await state()).toBe("open");
		expect((await deliver("closed", -9)).body.action).toBe("closed");
		expect((await deliver("reopened", -10)).body.action).toBe("ignored");
		expect((await open()).status).toBe(409);
	});

	test("ends the same in every order of closed, reopened and closed again", async () => {
		const deliveries = [
			["closed", -30],
			["reopened", -20],
			["closed", -10],
		] as const;
		for (const order of [
			[0, 1, 2],
			[0, 2, 1],
			[1, 0, 2],
			[1, 2, 0],
			[2, 0, 1],
			[2, 1, 0],
		]) {
			number += 1;
			await open({ event_at: at(-40) });
			for (const index of order) {
				const [action, seconds] = deliveries[index] ?? deliveries[0];
				await deliver(action, seconds);
			}
			expect(await state(), order.join()).toBe("closed");
			expect((await open({ event_at: at(-15) })).status, order.join()).toBe(409);
		}
	});

	test("closes nothing of another number, another repository or another app", async () => {
		await open({ repository_id: "456" });
		await deliver("closed", 0, { repository: "acme/web", repositoryId: 789 });
		expect(await state()).toBe("open");
		expect((await deliver("closed", 0, { repository: "acme/renamed" })).body.action).toBe("closed");
		expect(await state(), "the same repository with a new name").toBe("closed");
	});

	test.each([0, -1, 2 ** 53 + 2, 1e300, 1.5, "7", null, 1_000_000_000])("ignores the number %s", async (absurd) => {
		const sent = { number: absurd, repositoryId: absurd };
		expect(await deliver("closed", 0, { number: absurd })).toMatchObject({ status: 200, body: { action: "ignored" } });
		const others = await deliver("closed", 0, { repositoryId: absurd === 1_000_000_000 ? 0 : absurd });
		expect(others, JSON.stringify(sent)).toMatchObject({ status: 200, body: { action: "ignored" } });
		const names = await deliver("closed", 0, { repository: "acme/\u202eshop" });
		expect(names).toMatchObject({ status: 200, body: { action: "ignored" } });
	});

	test("is accepted as a form, and other events are ignored", async () => {
		await open();
		expect((await deliver("labeled", 0)).body.action).toBe("ignored");
		expect((await deliver("closed", 0, { headers: { "x-github-event": "push" } })).body.action).toBe("ignored");
		expect((await deliver("closed", 0, { form: true })).body.action).toBe("closed");
	});

	test("is refused without a valid signature, for another hook, and with a changed body", async () => {
		await open();
		expect(await deliver("closed", 0, { secret: "whsec_wrong" })).toMatchObject(REFUSED);
		expect(await deliver("closed", 0, { hook: crypto.randomUUID() })).toMatchObject(REFUSED);
		expect(await deliver("closed", 0, { hook: gitlab.id })).toMatchObject(REFUSED);
		for (const signature of ["", "sha1=00", "sha256=", `sha256=${"0".repeat(64)}`]) {
			expect(await deliver("closed", 0, { headers: { "x-hub-signature-256": signature } })).toMatchObject(REFUSED);
		}
		const other = await createTestApp(world);
		const elsewhere = await world.request("POST", "/preview/hook", {
			key: world.adminKey,
			body: { app_id: other.appId, provider: "github" },
		});
		const { id, secret } = elsewhere.body;
		expect((await deliver("closed", 0, { hook: id, secret })).status, "a hook of another app").toBe(200);
		expect(await state()).toBe("open");
		expect((await deliver("closed", 0)).body.action, "the positive control").toBe("closed");
	});

	test("with the example of GitHub's documentation has the same signature", async () => {
		expect(hex(await hmac(utf8("It's a Secret to Everybody"), "Hello, World!"))).toBe(
			"757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17",
		);
	});

	test("costs an address a bounded number of reads, unless it is signed", async () => {
		let questions = 0;
		const limiter = { limit: async () => ({ success: ++questions <= 3 }) };
		const requestLimits = { ...world.deps.requestLimits, d1Reads: { limiter, periodSeconds: 60 } };
		const guarded = await createWorld({ bindings: { requestLimits } });
		const statuses = new Set<number>();
		for (let attempt = 0; attempt < 20; attempt++) {
			statuses.add((await deliver("closed", 0, { hook: crypto.randomUUID(), of: guarded })).status);
		}
		expect(statuses).toEqual(new Set([403, 429]));
		expect((await world.request("POST", `/hooks/github/${github.id}`, { mostTrips: 0 })).status).toBe(403);
	});
});

describe("a webhook of GitLab", () => {
	const payload = (action: string, seconds: number) =>
		JSON.stringify({
			object_kind: "merge_request",
			project: { id: 456, path_with_namespace: "acme/shop" },
			object_attributes: { iid: number, action, updated_at: at(seconds) },
		});
	const send = (text: string, headers: Record<string, string>) =>
		world.request("POST", `/hooks/gitlab/${gitlab.id}`, {
			rawBody: utf8(text),
			headers: { "content-type": "application/json", "x-gitlab-event": "Merge Request Hook", ...headers },
			mostTrips: 3,
		});

	test("closes with the secret token, and reopens", async () => {
		await open();
		expect(await send(payload("close", -20), { "x-gitlab-token": "whsec_wrong" })).toMatchObject(REFUSED);
		expect(await state()).toBe("open");
		expect((await send(payload("merge", -20), { "x-gitlab-token": gitlab.secret })).body.action).toBe("closed");
		expect((await send(payload("reopen", -10), { "x-gitlab-token": gitlab.secret })).body.action).toBe("reopened");
		expect((await open()).status).toBe(201);
	});

	test("closes with a signature of Standard Webhooks, which ends after five minutes", async () => {
		const key = Uint8Array.from(atob(gitlab.secret.slice("whsec_".length)), (char) => char.charCodeAt(0));
		const signed = async (text: string, atMs: number, body = text) => {
			const [id, timestamp] = ["msg_1", String(Math.floor(atMs / 1000))];
			const signature = btoa(String.fromCharCode(...(await hmac(key, `${id}.${timestamp}.${text}`))));
			const headers = {
				"webhook-id": id,
				"webhook-timestamp": timestamp,
				"webhook-signature": `v1,AAAA v1,${signature}`,
			};
			return send(body, { ...headers, "x-gitlab-token": "ignored" });
		};
		await open();
		expect(await signed(payload("close", 0), NOW_MS - 301_000)).toMatchObject(REFUSED);
		expect(await signed(payload("close", 0), NOW_MS + 301_000)).toMatchObject(REFUSED);
		expect(await signed(payload("close", 0), NOW_MS, payload("merge", 0))).toMatchObject(REFUSED);
		expect(await state()).toBe("open");
		expect((await signed(payload("close", 0), NOW_MS - 299_000)).body.action).toBe("closed");
	});
});

describe("the secret of a webhook", () => {
	test("is shown once; a rotated one stays valid for its overlap, and a deleted one ends", async () => {
		const hook = await createHook("github");
		const of = (secret: string) => ({ hook: hook.id, secret });
		const key = world.adminKey;
		const listed = await world.request("GET", "/preview/hook", { key, query: { app_id: app.appId } });
		expect(JSON.stringify(listed.body)).not.toContain("whsec_");
		const shown = listed.body.find(({ id }: { id: string }) => id === hook.id);
		expect(shown).toMatchObject({ provider: "github", url: hook.url, last_delivery_at: null });
		const rotate = async (fields: Record<string, unknown>) =>
			(
				await world.request("POST", "/preview/hook/rotate", {
					key,
					body: { app_id: app.appId, id: hook.id, ...fields },
				})
			).body;
		const { secret } = await rotate({ overlap_hours: 1 });
		expect((await deliver("labeled", 0, of(hook.secret))).status).toBe(200);
		expect((await deliver("labeled", 0, of(secret))).status).toBe(200);
		world.clock.nowMs += HOUR_MS;
		expect((await deliver("labeled", 0, of(hook.secret))).status).toBe(403);
		const next = await rotate({ overlap_hours: 0 });
		expect(next.previous_valid_until).toBeNull();
		expect((await deliver("labeled", 0, of(secret))).status).toBe(403);
		expect((await deliver("labeled", 0, of(next.secret))).status).toBe(200);
		await world.request("DELETE", "/preview/hook", { key, query: { app_id: app.appId, id: hook.id } });
		expect((await deliver("labeled", 0, of(next.secret))).status).toBe(403);
	});

	test("is sealed again after the server's secret was rotated", async () => {
		const [first, second] = ["a1".repeat(32), "b2".repeat(32)];
		const old = await createWorld({ config: { CAPSTAN_SECRET: first } });
		const oldApp = await createTestApp(old);
		const created = await old.request("POST", "/preview/hook", {
			key: old.adminKey,
			body: { app_id: oldApp.appId, provider: "github" },
		});
		const { id, secret } = created.body;
		const both = await createWorld({ config: { CAPSTAN_SECRET: first, CAPSTAN_SECRET_2: `${second}@1` } });
		expect((await deliver("labeled", 0, { hook: id, secret, of: both })).status).toBe(200);
		// Hooks of other tests are sealed with a secret that this world does not have.
		await runJobs(both.deps).catch(() => undefined);
		const later = await createWorld({ config: { CAPSTAN_SECRET: second } });
		expect((await deliver("labeled", 0, { hook: id, secret, of: later })).status).toBe(200);
	});
});
