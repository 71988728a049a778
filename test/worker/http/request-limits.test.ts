/**
 * Rate limits refuse key guessing and runaway scripts, and never a client below its limit,
 * regardless of other clients. A limiter that fails refuses no request. The platform does the
 * counting; the last test runs the real binding of wrangler.toml.
 */
import { describe, expect, test } from "vitest";
import { mintKey } from "../../../src/authz/secrets";
import { createDeps, type Deps, type Limiter } from "../../../src/deps";
import wranglerToml from "../../../wrangler.toml?raw";
import { beforeEachTrip } from "../support/interleave";
import { createTestKey, createWorld, testEnv, type World } from "../support/world";

/** Lets each key through `limit` times. */
function counting(limit: number): Limiter & { readonly seen: Map<string, number> } {
	const seen = new Map<string, number>();
	return {
		seen,
		async limit({ key }) {
			seen.set(key, (seen.get(key) ?? 0) + 1);
			return { success: (seen.get(key) ?? 0) <= limit };
		},
	};
}

async function limitedWorld(failures: Limiter, requests: Limiter, bindings?: Pick<Deps, "d1">): Promise<World> {
	return createWorld({
		bindings: {
			...bindings,
			requestLimits: {
				failedAuthentications: { limiter: failures, periodSeconds: 60 },
				perKey: { limiter: requests, periodSeconds: 10 },
				signIns: { limiter: requests, periodSeconds: 60 },
			},
		},
	});
}

const from = (address: string) => ({ "cf-connecting-ip": address });
const tooMany = (seconds: number) => ({
	status: 429,
	body: { error: "too_many_requests", moreInfo: { retryAfterSeconds: seconds } },
});

describe("failed authentications", () => {
	test("are limited by address for every reason; other addresses and valid keys are not affected", async () => {
		const world = await limitedWorld(counting(3), counting(1000));
		const expired = await createTestKey(world, "org_member", undefined, { expires_at: "2026-11-21T08:00:00.001Z" });
		world.clock.nowMs += 1;
		const unknown = mintKey(world.deps.randomBytes).text;
		const attempt = (key: string, address = "198.51.100.9") => world.as(key)("GET /app", { headers: from(address) });
		for (const key of [unknown, expired.text, "cap_malformed"]) expect((await attempt(key)).status).toBe(401);
		for (const key of [unknown, expired.text, "cap_malformed"]) {
			const answer = await attempt(key);
			expect(answer).toMatchObject(tooMany(60));
			expect(answer.headers.get("retry-after")).toBe("60");
		}
		expect((await attempt(unknown, "198.51.100.10")).status).toBe(401);
		for (let request = 0; request < 20; request++) expect((await attempt(world.adminKey)).status).toBe(200);
	});

	test("are counted by network: the first 64 bits of IPv6, and every notation of IPv4", async () => {
		const failures = counting(1000);
		const world = await limitedWorld(failures, counting(1000));
		const key = mintKey(world.deps.randomBytes).text;
		const addresses = ["2001:db8:1:2::1", "2001:DB8:1:2:ffff::1", "2001:db8:1:3::1", "::ffff:192.0.2.1", "192.0.2.1"];
		for (const address of [...addresses, "::ffff:c000:201", "not an address"]) {
			await world.as(key)("GET /app", { headers: from(address) });
		}
		expect([...failures.seen]).toEqual([
			["2001:db8:1:2::/64", 2],
			["2001:db8:1:3::/64", 1],
			["192.0.2.1", 3],
			["not an address", 1],
		]);
	});

	test("do not include requests without a key, refusals of a valid key, or malformed requests", async () => {
		const failures = counting(0);
		const world = await limitedWorld(failures, counting(1000));
		const member = await createTestKey(world, "org_member");
		const send = (key?: string) =>
			world.as(key)("PUT /app/:app_id", { params: { app_id: "com.example.absent" }, headers: from("192.0.2.1") });
		expect([(await send()).status, (await send(member.text)).status]).toEqual([401, 404]);
		const broken = await world.admin("GET /app", { query: { page: "x" }, headers: from("192.0.2.1") });
		expect(broken.status).toBe(400);
		expect(failures.seen.size).toBe(0);
	});
});

describe("requests with one key", () => {
	test("are limited before D1 is read; another key of the same address is not affected", async () => {
		const watched = beforeEachTrip(testEnv.DB, () => undefined);
		const world = await limitedWorld(counting(1000), counting(5), { d1: watched.d1 });
		const member = await createTestKey(world, "org_member");
		const send = (key: string) => world.as(key)("GET /app", { headers: from("192.0.2.1") });
		for (let request = 0; request < 5; request++) expect((await send(member.text)).status).toBe(200);
		const before = watched.trips;
		expect(before).toBeGreaterThan(0);
		const answer = await send(member.text);
		expect(answer).toMatchObject(tooMany(10));
		expect(answer.headers.get("retry-after")).toBe("10");
		const refused = watched.trips;
		expect(refused - before, "the first refusal").toBeLessThanOrEqual(1);
		expect(await send(member.text)).toMatchObject(tooMany(10));
		expect(watched.trips, "further ones").toBe(refused);
		const other = await limitedWorld(counting(1000), counting(5));
		expect((await other.as(world.adminKey)("GET /app", { headers: from("192.0.2.1") })).status).toBe(200);
	});

	test("are counted by the hash of the key", async () => {
		const requests = counting(1000);
		const world = await limitedWorld(counting(1000), requests);
		await world.admin("GET /app");
		expect(requests.seen.size).toBe(1);
		expect([...requests.seen.keys()][0]).toMatch(/^[0-9a-f]{64}$/);
	});
});

test("a failing limiter refuses nothing and is logged", async () => {
	const failing: Limiter = { limit: () => Promise.reject(new Error("limiter is down")) };
	const world = await limitedWorld(failing, failing);
	const logged: string[] = [];
	Object.assign(world.deps, { log: (_: string, event: string) => logged.push(event) });
	expect((await world.admin("GET /app")).status).toBe(200);
	expect((await world.as(mintKey(world.deps.randomBytes).text)("GET /app")).status).toBe(401);
	expect(new Set(logged)).toEqual(new Set(["rate_limiter_failed"]));
});

test("a key that was valid reads D1 while its limit is asked, and over the limit at most once", async () => {
	let trips = 0;
	const watched = beforeEachTrip(testEnv.DB, () => void trips++, true);
	const answers: ((result: { success: boolean }) => void)[] = [];
	const limiter = { limit: () => new Promise<{ success: boolean }>((resolve) => answers.push(resolve)) };
	const world = await createWorld({
		bindings: { d1: watched.d1, requestLimits: { perKey: { limiter, periodSeconds: 10 } } },
	});
	const request = async (success: boolean) => {
		const before = trips;
		const answer = world.admin("GET /app");
		await expect.poll(() => answers.length).toBe(1);
		await new Promise<void>((resolve) => setTimeout(resolve));
		const early = trips - before;
		answers.pop()?.({ success });
		const { status } = await answer;
		return { status, early };
	};
	expect(await request(true), "an unknown key waits for its limit").toEqual({ status: 200, early: 0 });
	expect(await request(true)).toEqual({ status: 200, early: 1 });
	expect(await request(false)).toEqual({ status: 429, early: 1 });
	expect(await request(false)).toEqual({ status: 429, early: 0 });
	expect(await request(true)).toEqual({ status: 200, early: 0 });
	expect(await request(true)).toEqual({ status: 200, early: 1 });
});

test("the limiters of wrangler.toml answer 429 after the last allowed failure", async () => {
	const limit = 30;
	const world = await limitedWorld(testEnv.FAILED_AUTHENTICATIONS, testEnv.KEY_REQUESTS);
	const address = "2001:db8::61";
	const key = mintKey(world.deps.randomBytes).text;
	const statuses = new Map<number, number>();
	// The platform counts in fixed windows: if this run crosses from one to the next, one of the two
	// still has more than the limit.
	for (let request = 0; request < 2 * limit + 1; request++) {
		const { status } = await world.as(key)("GET /app", { headers: from(address) });
		statuses.set(status, (statuses.get(status) ?? 0) + 1);
	}
	expect(statuses.get(401)).toBeGreaterThanOrEqual(limit);
	expect([...statuses.keys()].sort()).toEqual([401, 429]);
	expect((await world.admin("GET /app", { headers: from(address) })).status).toBe(200);
});

test("Retry-After is the period in wrangler.toml", () => {
	const periods = [...wranglerToml.matchAll(/^name = "(\w+)"\nnamespace_id.+\nsimple = .+period = (\d+) }$/gm)];
	const limits = createDeps({ ...testEnv }).requestLimits;
	const { failedAuthentications, perKey, signIns, newDevices, d1Reads, fetches } = limits;
	expect(periods.map(([, name, period]) => [name, Number(period)])).toEqual([
		["FAILED_AUTHENTICATIONS", failedAuthentications.periodSeconds],
		["SIGN_INS", signIns.periodSeconds],
		["KEY_REQUESTS", perKey.periodSeconds],
		["NEW_DEVICES", newDevices.periodSeconds],
		["D1_READS", d1Reads.periodSeconds],
		["FETCHES", fetches.periodSeconds],
	]);
});
