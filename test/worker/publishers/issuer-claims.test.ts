/** A request that fetches the keys of an issuer for all others, and ends before it has them. */
import { beforeAll, beforeEach, expect, test } from "vitest";
import { createExchangeWorld, exchange, github, prepareExchange, publisher, world } from "./exchange-scene";

beforeAll(() => createExchangeWorld());
beforeEach(prepareExchange);

test("keys are fetched by another request ten seconds after one that ended in the middle", async () => {
	await publisher();
	const statusAfter = async (ms: number) => {
		world.clock.nowMs += ms;
		return (await exchange(await github.token())).status;
	};
	await new Promise<void>((asked) => {
		github.fault = () => new Promise(() => asked());
		statusAfter(0).catch(() => undefined);
	});
	github.fault = undefined;
	expect([await statusAfter(9_999), await statusAfter(1)]).toEqual([503, 200]);
});
