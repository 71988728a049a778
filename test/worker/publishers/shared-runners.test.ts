/**
 * Jobs of many repositories behind one address, as hosted runners are: a proven job gets its key
 * whatever its neighbours send, and senders who prove nothing stay limited.
 */
import { beforeAll, beforeEach, describe, expect, test } from "vitest";
import { HOUR_MS } from "../../../src/domain/time";
import { isolate } from "../support/isolates";
import { NOW_MS, type World } from "../support/world";
import { app, createLimitedWorld, github, prepareExchange, publisher, world } from "./exchange-scene";

let hour = 0;

beforeAll(() => createLimitedWorld());
beforeEach(async () => {
	await prepareExchange();
	// Limits count by the minute, so each test has its own hour.
	world.clock.nowMs = NOW_MS + hour++ * HOUR_MS;
	await publisher();
});

const seconds = () => Math.floor(world.clock.nowMs / 1_000);
const tokenOf = (claims: Record<string, unknown> = {}) =>
	github.token({ iat: seconds(), nbf: seconds(), exp: seconds() + 300, jti: crypto.randomUUID(), ...claims });
const exchange = (token: string, through: Pick<World, "request"> = world) =>
	through.request("POST", "/oidc/token", {
		body: { token, app_id: app.appId },
		headers: { "cf-connecting-ip": "203.0.113.9" },
		mostTrips: 20,
	});
async function statuses(count: number, next: (index: number) => Promise<string>): Promise<Record<number, number>> {
	const found: Record<number, number> = {};
	for (let index = 0; index < count; index++) {
		const { status } = await exchange(await next(index));
		found[status] = (found[status] ?? 0) + 1;
	}
	return found;
}

describe("jobs behind one address", () => {
	test("all get keys, five hundred in a minute", async () => {
		expect(await statuses(500, () => tokenOf())).toEqual({ 200: 500 });
	});

	test("get keys after neighbours of other repositories, whom nobody trusts, sent theirs", async () => {
		expect((await exchange(await tokenOf())).status).toBe(200);
		const others = await statuses(300, (index) => tokenOf({ repository_id: `9${index}`, repository_owner_id: "9" }));
		expect(others).toEqual({ 403: 300 });
		expect((await exchange(await tokenOf())).status).toBe(200);
	});

	test("get keys after somebody sent tokens that nobody signed", async () => {
		expect((await exchange(await tokenOf())).status).toBe(200);
		const [head, payload] = (await tokenOf()).split(".");
		const junk = await statuses(300, async () => `${head}.${payload}.${"A".repeat(342)}`);
		expect(junk[200]).toBeUndefined();
		expect((await exchange(await tokenOf())).status).toBe(200);
	});

	test("of one repository that nobody trusts are limited, alone", async () => {
		expect((await exchange(await tokenOf())).status).toBe(200);
		const flood = await statuses(300, () => tokenOf({ repository_id: "666", repository_owner_id: "9" }));
		expect(flood[429]).toBeGreaterThan(150);
		expect((await exchange(await tokenOf())).status).toBe(200);
	});

	test("of issuers that nobody named are limited", async () => {
		const flood = await statuses(300, () => tokenOf({ iss: "https://evil.example" }));
		expect(flood[200]).toBeUndefined();
		expect(flood[429]).toBeGreaterThan(150);
	});

	test("that start together at the first exchange wait for the issuer's keys", async () => {
		const isolates = Array.from({ length: 6 }, () => isolate(world));
		const tokens = await Promise.all(isolates.map(() => tokenOf()));
		const answers = await Promise.all(tokens.map((token, index) => exchange(token, isolates[index])));
		expect(answers.map(({ status }) => status)).toEqual(isolates.map(() => 200));
	});
});
