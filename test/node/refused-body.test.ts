/**
 * A build that sends the wrong file often sends a body that is refused before it is read to its
 * end. The sender must get the answer instead of a closed connection, which looks like a broken
 * network.
 */
import { beforeAll, expect, test } from "vitest";
import { type Product, sharedProduct } from "./support/product";

let product: Product;
beforeAll(async () => {
	product = await sharedProduct();
});

test.each([
	["POST", "/stats", 413],
	["POST", "/channel", 413],
	["DELETE", "/stats", 405],
	["POST", "/nothing", 404],
])("%s %s with eight megabytes is answered with %i each time", async (method, target, status) => {
	const headers = { "content-type": "application/json", authorization: product.adminKey };
	const body = Buffer.alloc(8 * 1024 * 1024, "[");
	const outcomes = new Set<unknown>();
	for (let time = 0; time < 10; time++) {
		const outcome = await fetch(product.url + target, { method, headers, body }).then(
			async (response) => (await response.text()) && response.status,
			(error: Error) => String(error.cause ?? error),
		);
		outcomes.add(outcome);
	}
	expect([...outcomes]).toEqual([status]);
});
