/**
 * Limits on requests: a guesser of keys and a runaway script are told to wait, a client below its limit never is, whatever others do,
 * and a limiter that fails refuses nobody. The counting is the platform's; the last test runs the binding of wrangler.toml for real.
 */
import { describe, expect, test } from "vitest";
import { mintKey } from "../../src/authz/keys";
import { createDeps, type Limiter } from "../../src/deps";
import wranglerToml from "../../wrangler.toml?raw";
import { createTestKey, createWorld, testEnv, type World } from "./support/world";

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

async function limitedWorld(failures: Limiter, requests: Limiter): Promise<World> {
	return createWorld({
		bindings: {
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
	test("of one address are limited, whatever fails about the key; other addresses and good keys are not", async () => {
		const world = await limitedWorld(counting(3), counting(1000));
		const expired = await createTestKey(world, "org_member", undefined, { expires_at: "2026-11-21T08:00:00.001Z" });
		world.clock.nowMs += 1;
		const unknown = mintKey(world.deps.randomBytes).text;
		const attempt = (key: string, address = "198.51.100.9") =>
			world.request("GET", "/app", { key, headers: from(address) });
		for (const key of [unknown, expired.text, "cap_malformed"]) expect((await attempt(key)).status).toBe(401);
		for (const key of [unknown, expired.text, "cap_malformed"]) {
			const answer = await attempt(key);
			expect(answer).toMatchObject(tooMany(60));
			expect(answer.headers.get("retry-after")).toBe("60");
		}
		expect((await attempt(unknown, "198.51.100.10")).status).toBe(401);
		for (let request = 0; request < 20; request++) expect((await attempt(world.adminKey)).status).toBe(200);
	});

	test("are counted by network: the first 64 bits of IPv6, and IPv4 however it is written", async () => {
		const failures = counting(1000);
		const world = await limitedWorld(failures, counting(1000));
		const key = mintKey(world.deps.randomBytes).text;
		const addresses = ["2001:db8:1:2::1", "2001:DB8:1:2:ffff::1", "2001:db8:1:3::1", "::ffff:192.0.2.1", "192.0.2.1"];
		for (const address of [...addresses, "::ffff:c000:201", "not an address"]) {
			await world.request("GET", "/app", { key, headers: from(address) });
		}
		expect([...failures.seen]).toEqual([
			["2001:db8:1:2::/64", 2],
			["2001:db8:1:3::/64", 1],
			["192.0.2.1", 3],
			["not an address", 1],
		]);
	});

	test("do not count requests without a key, refusals of a good key, or broken requests", async () => {
		const failures = counting(0);
		const world = await limitedWorld(failures, counting(1000));
		const member = await createTestKey(world, "org_member");
		const send = (key?: string) => world.request("PUT", "/app/com.example.absent", { key, headers: from("192.0.2.1") });
		expect([(await send()).status, (await send(member.text)).status]).toEqual([401, 404]);
		const broken = await world.request("GET", "/app", {
			key: world.adminKey,
			query: { page: "x" },
			headers: from("192.0.2.1"),
		});
		expect(broken.status).toBe(400);
		expect(failures.seen.size).toBe(0);
	});
});

describe("requests with one key", () => {
	test("are limited before the database is asked; another key at the same address is not", async () => {
		const world = await limitedWorld(counting(1000), counting(5));
		const member = await createTestKey(world, "org_member");
		const send = (key: string) => world.request("GET", "/app", { key, headers: from("192.0.2.1") });
		for (let request = 0; request < 5; request++) expect((await send(member.text)).status).toBe(200);
		let batches = 0;
		const d1 = world.deps.d1.withSession.bind(world.deps.d1);
		world.deps.d1.withSession = (...constraint) => {
			batches += 1;
			return d1(...constraint);
		};
		const answer = await send(member.text);
		expect(answer).toMatchObject(tooMany(10));
		expect(answer.headers.get("retry-after")).toBe("10");
		expect(batches).toBe(0);
		world.deps.d1.withSession = d1;
		const other = await limitedWorld(counting(1000), counting(5));
		expect((await other.request("GET", "/app", { key: world.adminKey, headers: from("192.0.2.1") })).status).toBe(200);
	});

	test("are counted by the hash of the key: its text is given to nobody", async () => {
		const requests = counting(1000);
		const world = await limitedWorld(counting(1000), requests);
		await world.request("GET", "/app", { key: world.adminKey });
		expect(requests.seen.size).toBe(1);
		expect([...requests.seen.keys()][0]).toMatch(/^[0-9a-f]{64}$/);
	});
});

test("a limiter that fails refuses nobody, and the log says so", async () => {
	const failing: Limiter = { limit: () => Promise.reject(new Error("limiter is down")) };
	const world = await limitedWorld(failing, failing);
	const logged: string[] = [];
	Object.assign(world.deps, { log: (_: string, event: string) => logged.push(event) });
	expect((await world.request("GET", "/app", { key: world.adminKey })).status).toBe(200);
	expect((await world.request("GET", "/app", { key: mintKey(world.deps.randomBytes).text })).status).toBe(401);
	expect(new Set(logged)).toEqual(new Set(["rate_limiter_failed"]));
});

test("the limiters of wrangler.toml count for real: the last failure below the limit is 401, the next is 429", async () => {
	const limit = 30;
	const world = await limitedWorld(testEnv.FAILED_AUTHENTICATIONS, testEnv.KEY_REQUESTS);
	const address = `2001:db8::${Math.floor(Math.random() * 0xffff).toString(16)}`;
	const key = mintKey(world.deps.randomBytes).text;
	const statuses = new Map<number, number>();
	// The platform counts in fixed windows: if this run crosses from one to the next, one of the two still has more than the limit.
	for (let request = 0; request < 2 * limit + 1; request++) {
		const { status } = await world.request("GET", "/app", { key, headers: from(address) });
		statuses.set(status, (statuses.get(status) ?? 0) + 1);
	}
	expect(statuses.get(401)).toBeGreaterThanOrEqual(limit);
	expect([...statuses.keys()].sort()).toEqual([401, 429]);
	expect((await world.request("GET", "/app", { key: world.adminKey, headers: from(address) })).status).toBe(200);
});

test("a refused client is told to wait for the period that wrangler.toml gives", () => {
	const periods = [...wranglerToml.matchAll(/^name = "(\w+)"\nnamespace_id.+\nsimple = .+period = (\d+) }$/gm)];
	const { failedAuthentications, perKey, signIns, newDevices, questions } = createDeps({ ...testEnv }).requestLimits;
	expect(periods.map(([, name, period]) => [name, Number(period)])).toEqual([
		["FAILED_AUTHENTICATIONS", failedAuthentications.periodSeconds],
		["SIGN_INS", signIns.periodSeconds],
		["KEY_REQUESTS", perKey.periodSeconds],
		["NEW_DEVICES", newDevices.periodSeconds],
		["QUESTIONS", questions.periodSeconds],
	]);
});
