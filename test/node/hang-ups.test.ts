/**
 * Clients of the running product that hang up while the database or the bucket answers. The runtime
 * ends such a request at once, and a promise that others share with it would never settle, so the
 * work goes on and the next client, who shares it, is answered right and soon.
 *
 * A module around the Worker asks this process before and after each call of D1 and R2, which holds
 * the answer until the client is gone: exact moments, and a delay that is I/O of the request, which
 * a timer is not.
 */
import { createServer, type Server } from "node:http";
import { type AddressInfo, connect, type Socket } from "node:net";
import { setTimeout as pause } from "node:timers/promises";
import { type Request, Response } from "miniflare";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { PATIENCE_MS } from "../patience";
import { createProductApp, type Product, startProduct, uploadProductBundle } from "./support/product";

const ENTRY = `
import worker from "./worker.js";
export * from "./worker.js";
const pass = async (moment) => void (await fetch("http://gate.test/" + moment).then((answer) => answer.text()));
const gated = (value, name, methods) => new Proxy(value, {
	get(target, key) {
		const member = Reflect.get(target, key);
		if (typeof member !== "function") return member;
		if (key === "withSession") return (...given) => gated(member.apply(target, given), name, methods);
		if (!methods.includes(key)) return member.bind(target);
		return async (...given) => {
			await pass(name + "-asked");
			const result = await member.apply(target, given);
			await pass(name + "-answers");
			return result;
		};
	},
});
// Work of requests that goes on after the answer, and messages that no consumer has handled.
let [working, queued] = [0, 0];
const counted = (queue) => new Proxy(queue, {
	get(target, key) {
		const member = Reflect.get(target, key);
		if (key !== "send") return typeof member === "function" ? member.bind(target) : member;
		return (...given) => {
			queued += 1;
			return target.send(...given);
		};
	},
});
const waiting = (context) => ({
	props: context.props,
	passThroughOnException: () => context.passThroughOnException(),
	waitUntil(work) {
		const done = () => void (working -= 1);
		working += 1;
		work.then(done, done);
		context.waitUntil(work);
	},
});
let wrapped;
const watched = (env) => (wrapped ??= {
	...env,
	EVENTS: counted(env.EVENTS),
	DB: gated(env.DB, "d1", ["batch"]),
	BUNDLES: gated(env.BUNDLES, "r2", ["get"]),
});
export default {
	...worker,
	async fetch(request, env, context) {
		if (request.headers.has("x-noticed")) return Response.json({ working, queued });
		return worker.fetch(request, watched(env), waiting(context));
	},
	async queue(batch, env, context) {
		await worker.queue(batch, watched(env), context);
		// One that is delivered again was counted the first time.
		if (batch.queue.endsWith("-events")) queued -= batch.messages.filter(({ attempts }) => attempts === 1).length;
	},
};`;

type Moment = "d1-asked" | "d1-answers" | "r2-asked" | "r2-answers";

/** Below the time that a check waits for D1 or for dead work, above what a busy machine takes. */
const PROMPT_MS = 1_500;
/**
 * A change of another isolate is seen after four seconds, and the request that asks for it may wait
 * for half a second.
 */
const SEEN_MS = 4_500;
const DEVICE = { platform: "android", version_name: "builtin", version_build: "1.0.0", plugin_version: "8.40.0" };
const DEVICE_ID = "11111111-2222-4333-8444-555555555555";

/** A call of D1 or R2 that waits until it is released. */
interface Held {
	readonly moment: Moment;
	readonly reached: Promise<void>;
	readonly release: () => void;
	/** Called at each such moment; the answer waits for the promise. */
	readonly meet: () => Promise<void>;
}

let held: Held | undefined;
/** Pause before and after each call of D1 and R2. */
let delayMs = 0;
/** Calls by the binding. */
const calls = { d1: 0, r2: 0 };

/** Holds the call that is the given number of such moments away. */
function hold(moment: Moment, earlier = 0): Held {
	const [reached, released] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
	let left = earlier;
	const meet = async () => {
		if (left-- !== 0) return;
		reached.resolve();
		await released.promise;
	};
	held = { moment, reached: reached.promise, release: () => released.resolve(), meet };
	return held;
}

async function outboundService(request: Request): Promise<Response> {
	const { hostname, pathname } = new URL(request.url);
	if (hostname !== "gate.test") return new Response(null, { status: 502 });
	if (pathname === "/d1-asked") calls.d1 += 1;
	if (pathname === "/r2-asked") calls.r2 += 1;
	await pause(delayMs);
	if (held?.moment === pathname.slice(1)) await held.meet();
	return new Response("go on");
}

let product: Product;
let webhookUrl: string;
let receiver: Server;
const received: string[] = [];

beforeAll(async () => {
	product = await startProduct({ entry: ENTRY, outboundService, unlimitedRequests: true });
	receiver = createServer(async (request, response) => {
		const chunks: Buffer[] = [];
		for await (const chunk of request) chunks.push(chunk);
		received.push(Buffer.concat(chunks).toString());
		response.writeHead(204).end();
	});
	await new Promise<void>((resolve) => receiver.listen(0, "127.0.0.1", resolve));
	webhookUrl = `http://127.0.0.1:${(receiver.address() as AddressInfo).port}/hook`;
});
beforeEach(() => {
	held = undefined;
	delayMs = 0;
});
afterAll(async () => {
	held?.release();
	await product.stop();
	receiver.closeAllConnections();
	receiver.close();
});

/**
 * A request on a connection of its own, which `resetAndDestroy` ends: the runtime does not notice
 * one that is only closed.
 */
function send(method: string, path: string, body?: object): Socket {
	const { hostname, port, host } = new URL(product.url);
	const text = body === undefined ? "" : JSON.stringify(body);
	const socket = connect(Number(port), hostname);
	socket.on("error", () => undefined);
	socket.write(
		`${method} ${path} HTTP/1.1\r\nhost: ${host}\r\nauthorization: ${product.adminKey}\r\n` +
			`content-type: application/json\r\ncontent-length: ${Buffer.byteLength(text)}\r\n\r\n${text}`,
	);
	return socket;
}

const checkOf = (appId: string, deviceId = DEVICE_ID) => ({ app_id: appId, device_id: deviceId, ...DEVICE });

/** Sends the request and hangs up at the moment at which `gate` holds it. */
async function hangUp(gate: Held, ...request: Parameters<typeof send>): Promise<void> {
	const socket = send(...request);
	await gate.reached;
	socket.resetAndDestroy();
	await noticed();
}

/**
 * The runtime reads connections in turn, so after this answer it knows of the one that was closed
 * before.
 */
async function noticed(): Promise<void> {
	await unfinished();
	await pause(20);
}

/** Earlier requests leave work after their answers, and messages in the Queue. */
async function unfinished(): Promise<unknown> {
	const answer = await fetch(product.url, { headers: { "x-noticed": "?", connection: "close" } });
	return answer.json();
}

async function check(appId: string): Promise<{ readonly version: string | undefined; readonly tookMs: number }> {
	const beganMs = performance.now();
	const { status, body } = await product.api("POST", "/updates", checkOf(appId));
	const tookMs = performance.now() - beganMs;
	expect(status, JSON.stringify(body)).toBe(200);
	return { version: body.version, tookMs };
}

async function expectPrompt(appId: string, version: string): Promise<void> {
	const answer = await check(appId);
	expect(answer.version).toBe(version);
	expect(answer.tookMs, "an answer that waits for nobody").toBeLessThan(PROMPT_MS);
}

/** A check hangs up at the moment, and the next one shares its work. */
async function expectShared(moment: Moment, appId: string, expected: string): Promise<void> {
	const gate = hold(moment);
	await hangUp(gate, "POST", "/updates", checkOf(appId));
	const binding = moment.startsWith("d1") ? "d1" : "r2";
	const earlier = calls[binding];
	const next = check(appId);
	await pause(50);
	const now = calls[binding];
	gate.release();
	expect(now, "the work goes on, and the next client shares it").toBe(earlier);
	const { version, tookMs } = await next;
	expect(version).toBe(expected);
	expect(tookMs).toBeLessThan(PROMPT_MS);
}

const promote = (appId: string, version: string) =>
	product.api("POST", "/channel", { app_id: appId, channel: "production", version, public: true });

/** An app with two bundles, of which devices get the first; no isolate has it in memory. */
async function createScene(): Promise<{ readonly appId: string; readonly uuid: string }> {
	const appId = product.newAppId();
	const uuid = await createProductApp(product, appId);
	for (const version of ["1.0.1", "1.0.2"]) await uploadProductBundle(product, appId, version);
	expect((await promote(appId, "1.0.1")).status).toBe(201);
	await expect.poll(() => isPublished(appId, uuid), { timeout: PATIENCE_MS }).toBe(true);
	await expectQuiet();
	return { appId, uuid };
}

/** The change of another isolate: rows of the database, of which this one learns by the feed. */
async function promoteElsewhere(uuid: string, version: string): Promise<void> {
	const db = await product.running.miniflare.getD1Database("DB");
	await db.batch([
		db
			.prepare(
				`UPDATE channels SET version_id = (SELECT id FROM bundles WHERE app_id = ?1 AND name = ?2)
				WHERE app_id = ?1 AND name = 'production'`,
			)
			.bind(uuid, version),
		db.prepare("UPDATE apps SET revision = revision + 1 WHERE id = ?").bind(uuid),
	]);
}

/** Calls of D1 and R2 are the next request's from here. */
async function expectQuiet(): Promise<void> {
	await expect.poll(unfinished, { timeout: PATIENCE_MS }).toEqual({ working: 0, queued: 0 });
}

async function isPublished(appId: string, uuid: string): Promise<boolean> {
	const db = await product.running.miniflare.getD1Database("DB");
	const row = await db.prepare("SELECT revision_token AS token FROM apps WHERE id = ?").bind(uuid).first();
	const bucket = await product.running.miniflare.getR2Bucket("BUNDLES");
	const stored = await bucket.head(`snapshots/${appId}`);
	return stored?.customMetadata?.token === row?.token;
}

describe("after a client that hung up, the next one is answered right and at once:", () => {
	test.each(["d1-asked", "d1-answers"] as const)("a check of an app that is not in memory, %s", async (moment) => {
		const { appId } = await createScene();
		await expectShared(moment, appId, "1.0.1");
	});

	test.each(["r2-asked", "r2-answers"] as const)("a check that reads a published change, %s", async (moment) => {
		const { appId, uuid } = await createScene();
		await check(appId);
		await promote(appId, "1.0.2");
		await expect.poll(() => isPublished(appId, uuid), { timeout: PATIENCE_MS }).toBe(true);
		await expectQuiet();
		await expectShared(moment, appId, "1.0.2");
	});
});

describe("a change whose client hung up after it landed", () => {
	test("is published, reported to webhooks and seen by the next check", async () => {
		const { appId, uuid } = await createScene();
		await check(appId);
		await product.api("POST", "/webhook", {
			orgId: product.orgId,
			url: webhookUrl,
			events: ["channel.promoted"],
		});
		// The caller and the channel are read in one batch, and the change is the next one.
		const gate = hold("d1-answers", 1);
		const body = { app_id: appId, channel: "production", version: "1.0.2", public: true };
		await hangUp(gate, "POST", "/channel", body);
		gate.release();
		await expect.poll(() => isPublished(appId, uuid), { timeout: PATIENCE_MS }).toBe(true);
		await expectPrompt(appId, "1.0.2");
		const reported = () => received.some((text) => text.includes(appId) && text.includes("1.0.2"));
		await expect.poll(reported, { timeout: PATIENCE_MS }).toBe(true);
	});
});

test("clients that hang up at any time keep no app from its changes, whichever isolate makes them", async () => {
	delayMs = 5;
	const apps = await Promise.all([createScene(), createScene(), createScene()]);
	for (let round = 0; round < 4; round++) {
		const version = round % 2 === 0 ? "1.0.2" : "1.0.1";
		const isElsewhere = round % 4 >= 2;
		await Promise.all(
			apps.map(({ appId, uuid }) => (isElsewhere ? promoteElsewhere(uuid, version) : promote(appId, version))),
		);
		const changedMs = performance.now();
		const hangingUp = apps.flatMap(({ appId }, index) =>
			Array.from({ length: 12 }, async (_, count) => {
				const device = `11111111-2222-4333-8444-${String(index * 1_000 + count).padStart(12, "0")}`;
				await pause(Math.random() * 30);
				const socket = send("POST", "/updates", checkOf(appId, device));
				await pause(Math.random() * 50);
				socket.resetAndDestroy();
			}),
		);
		await Promise.all(hangingUp);
		await noticed();
		for (const { appId } of apps) {
			let answer = await check(appId);
			expect(answer.tookMs, `round ${round}`).toBeLessThan(PROMPT_MS);
			while (isElsewhere && answer.version !== version && performance.now() - changedMs < SEEN_MS) {
				await pause(200);
				answer = await check(appId);
				expect(answer.tookMs, `round ${round}`).toBeLessThan(PROMPT_MS);
			}
			expect(answer.version, `round ${round}`).toBe(version);
		}
	}
});
