/** Ranges, conditions and HEAD of a download. */
import { beforeAll, describe, expect, test } from "vitest";
import { wantedOf } from "../../../src/domain/network/conditional-request";
import { bodyOf, bytes, get, prepareDownload, SIZE, url, world } from "../support/download-scene";
import { sha256Hex } from "../support/world";

beforeAll(prepareDownload);

describe("Range", () => {
	test.each([
		["the first bytes", "bytes=0-99", 0, 99],
		["the middle", "bytes=100-101", 100, 101],
		["one byte", "bytes=999-999", 999, 999],
		["to the end", "bytes=900-", 900, 999],
		["all of it", "bytes=0-", 0, 999],
		["beyond the end", "bytes=900-5000", 900, 999],
		["the last bytes", "bytes=-10", 990, 999],
		["a suffix longer than the file", "bytes=-5000", 0, 999],
	])("%s is 206 with exactly these bytes", async (_, range, first, last) => {
		const answer = await get({ range });
		expect(answer.status).toBe(206);
		expect(answer.headers.get("content-range")).toBe(`bytes ${first}-${last}/${SIZE}`);
		expect(answer.headers.get("content-length")).toBe(String(last - first + 1));
		expect(bodyOf(answer)).toEqual(bytes.slice(first, last + 1));
	});

	test.each(["bytes=1000-", "bytes=1000-2000", "bytes=99999-", "bytes=-0"])(
		"%s is 416 with the size",
		async (range) => {
			const answer = await get({ range });
			expect(answer).toMatchObject({ status: 416, body: { error: "range_not_satisfiable" } });
			expect(answer.headers.get("content-range")).toBe("bytes */1000");
		},
	);

	test.each(["bytes=0-1,5-6", "bytes=5-2", "bytes=-", "bytes=a-b", "items=0-1", "0-1", ""])(
		"%s is no single byte range, so the whole is sent",
		async (range) => {
			const answer = await get({ range });
			expect(answer.status).toBe(200);
			expect(answer.headers.get("content-range")).toBeNull();
			expect(bodyOf(answer)).toEqual(bytes);
		},
	);

	test("ranges of any size add up to the file", async () => {
		const parts: number[] = [];
		for (let offset = 0; offset < SIZE; offset += 333) {
			parts.push(...bodyOf(await get({ range: `bytes=${offset}-${offset + 332}` })));
		}
		expect(await sha256Hex(new Uint8Array(parts))).toBe(await sha256Hex(bytes));
	});

	test("If-Range with the ETag answers with the range, with any other value with the whole file", async () => {
		const etag = (await get()).headers.get("etag") ?? "";
		expect((await get({ range: "bytes=0-1", "if-range": etag })).status).toBe(206);
		for (const other of ['"0123456789abcdef0123456789abcdef"', `W/${etag}`, "Sat, 21 Nov 2026 08:00:00 GMT"]) {
			const answer = await get({ range: "bytes=0-1", "if-range": other });
			expect(answer.status).toBe(200);
			expect(bodyOf(answer)).toEqual(bytes);
		}
		expect((await get({ range: "bytes=5000-", "if-range": '"other"' })).status).toBe(200);
	});
});

describe("conditions", () => {
	test("If-None-Match is 304 without a body for the same file, also as a weak tag, in a list and as *", async () => {
		const etag = (await get()).headers.get("etag") ?? "";
		for (const tags of [etag, `W/${etag}`, `"other", ${etag}`, "*"]) {
			const answer = await get({ "if-none-match": tags });
			expect(answer.status).toBe(304);
			expect(bodyOf(answer)).toHaveLength(0);
			expect(answer.headers.get("etag")).toBe(etag);
			expect(answer.headers.get("cache-control")).toContain("immutable");
		}
		expect((await get({ "if-none-match": '"other"' })).status).toBe(200);
		expect((await get({ "if-none-match": etag, range: "bytes=0-1" })).status).toBe(304);
		expect((await get({ "if-none-match": '"other"', range: "bytes=0-1" })).status).toBe(206);
	});

	test("If-Match answers 412 for another file, and with the file for the same tag", async () => {
		const etag = (await get()).headers.get("etag") ?? "";
		expect(await get({ "if-match": '"other"' })).toMatchObject({ status: 412, body: { error: "precondition_failed" } });
		expect(await get({ "if-match": `W/${etag}` })).toMatchObject({ status: 412 });
		expect((await get({ "if-match": etag, range: "bytes=0-1" })).status).toBe(206);
	});

	test("dates apply if no entity tag is sent", () => {
		const modifiedMs = Date.UTC(2026, 10, 21, 8, 0, 0, 400);
		const object = { etag: '"e"', sizeBytes: 10, modifiedMs };
		const [before, same, after] = [-1000, 0, 1000].map((ms) => new Date(modifiedMs + ms).toUTCString()) as [
			string,
			string,
			string,
		];
		const kind = (headers: Record<string, string>) => wantedOf(new Headers(headers), object, true).kind;
		expect([before, same, after].map((date) => kind({ "if-modified-since": date }))).toEqual([
			"whole",
			"not_modified",
			"not_modified",
		]);
		expect([before, same, after].map((date) => kind({ "if-unmodified-since": date }))).toEqual([
			"precondition_failed",
			"whole",
			"whole",
		]);
		expect(kind({ "if-modified-since": after, "if-none-match": '"other"' })).toBe("whole");
		expect(kind({ "if-unmodified-since": before, "if-match": '"e"' })).toBe("whole");
		expect(kind({ "if-modified-since": "yesterday", "if-unmodified-since": "tomorrow" })).toBe("whole");
	});

	test("an empty object has no range", () => {
		const object = { etag: '"e"', sizeBytes: 0, modifiedMs: 0 };
		for (const range of ["bytes=0-", "bytes=-5", "bytes=0-0"]) {
			expect(wantedOf(new Headers({ range }), object, true).kind).toBe("unsatisfiable");
		}
	});
});

describe("HEAD", () => {
	test("answers with the headers of GET without the bytes, and ignores Range", async () => {
		const whole = await get();
		for (const headers of [{}, { range: "bytes=0-1" }, { range: "bytes=5000-" }]) {
			const head = await world.request("HEAD", url, { headers });
			expect(head.status).toBe(200);
			expect(bodyOf(head)).toHaveLength(0);
			for (const name of [
				"content-length",
				"etag",
				"last-modified",
				"content-type",
				"cache-control",
				"accept-ranges",
			]) {
				expect([name, head.headers.get(name)]).toEqual([name, whole.headers.get(name)]);
			}
			expect(head.headers.get("content-range")).toBeNull();
		}
		const etag = whole.headers.get("etag") ?? "";
		expect((await world.request("HEAD", url, { headers: { "if-none-match": etag } })).status).toBe(304);
	});
});
