/**
 * A body that is refused before it was read to its end is a usual mistake of a build that sends the wrong file. Whoever sends it must be
 * told, and not find the connection closed under it, which looks like a network that is down.
 */
import { afterAll, beforeAll, expect, test } from "vitest";
import { type Product, startProduct } from "./support/product";

let product: Product;
beforeAll(async () => {
	product = await startProduct({ unlimitedRequests: true });
});
afterAll(() => product?.stop());

test.each([
	["POST", "/stats", 413],
	["POST", "/channel", 413],
	["DELETE", "/stats", 405],
	["POST", "/nothing", 404],
])("%s %s with eight megabytes is answered with %i each time", async (method, target, status) => {
	const headers = { "content-type": "application/json", authorization: product.adminKey };
	const body = Buffer.alloc(8 * 1024 * 1024, "[");
	const outcomes = new Set<unknown>();
	for (let time = 0; time < 20; time++) {
		const outcome = await fetch(product.url + target, { method, headers, body }).then(
			async (response) => (await response.text()) && response.status,
			(error: Error) => String(error.cause ?? error),
		);
		outcomes.add(outcome);
	}
	expect([...outcomes]).toEqual([status]);
});
