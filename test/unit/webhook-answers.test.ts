/**
 * The kept part of a receiver's answer: bounded, printable, and without secrets and private
 * addresses, in whatever part of the answer they stand.
 */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { keptOf, MOST_ANSWER_BYTES, MOST_READ_BYTES, secretsOf } from "../../src/domain/webhooks/answers";

const URL_WITH_SECRETS = "https://hooks.example.com/services/T0ABCDEFG/xoxb-1234567890?token=s3cret%2Fvalue9&v=1";
const SENT = { "webhook-signature": "v1,c2lnbmF0dXJlLW9mLXRlc3Q= v1a,b3RoZXItc2lnbmF0dXJl", "webhook-id": "msg_1" };
const secrets = secretsOf(URL_WITH_SECRETS, SENT);

const keep = (body: string | Uint8Array, headers: Record<string, string> = {}, isWhole = true) =>
	keptOf(
		{
			headers: new Headers(headers),
			bytes: (typeof body === "string" ? new TextEncoder().encode(body) : body).subarray(0, MOST_READ_BYTES),
			isWhole,
		},
		secrets,
	);

describe("the kept part of an answer", () => {
	test("is the text of a short answer, with its line ends", () => {
		expect(keep("board is\r\n\tbeing deployed: 2.4.0 at 12:30:45, see www.example.com")).toEqual({
			headers: {},
			body: "board is\n\tbeing deployed: 2.4.0 at 12:30:45, see www.example.com",
			truncated: false,
		});
	});

	test.each([
		["the path", "not found: /services/T0ABCDEFG/xoxb-1234567890"],
		["the whole address", `no such hook ${URL_WITH_SECRETS}`],
		["a part with escaped slashes", '{"path":"\\/services\\/T0ABCDEFG\\/xoxb-1234567890"}'],
		["a decoded parameter", "token s3cret/value9 is wrong"],
		["an encoded parameter", "?token=s3cret%2Fvalue9"],
		["a signature", "bad signature c2lnbmF0dXJlLW9mLXRlc3Q="],
		["the other signature", "bad signature b3RoZXItc2lnbmF0dXJl"],
	])("does not repeat %s", (_, text) => {
		for (const kept of [keep(text), keep("", { "x-request-id": text }), keep("x".repeat(1_900) + text)]) {
			expect(JSON.stringify(kept)).not.toMatch(/T0ABCDEFG|xoxb|s3cret|c2lnbmF0|b3RoZXIt/);
			expect(JSON.stringify(kept)).toContain("****");
		}
	});

	test.each(["10.0.0.7", "192.168.1.20", "169.254.169.254", "127.0.0.1", "db.internal", "fd00::1", "printer.local"])(
		"hides %s",
		(host) => {
			expect(keep(`upstream ${host}:8080 failed`, { location: `http://${host}/x` })).toMatchObject({
				body: expect.stringMatching(/^upstream \*+:?8?0?8?0?\*? ?failed|^upstream \*/),
				headers: { location: "…" },
			});
			expect(JSON.stringify(keep(`upstream ${host} failed`, { "x-request-id": host }))).not.toContain(host);
		},
	);

	test("names the host of a redirect, and no more", () => {
		expect(keep("", { location: "https://new.example.com/hooks/secret?token=1" }).headers).toEqual({
			location: "https://new.example.com/…",
		});
		expect(keep("", { location: "/sign-in?next=x" }).headers).toEqual({ location: "/…" });
		expect(keep("", { location: "//10.0.0.1/x" }).headers).toEqual({ location: "…" });
	});

	test("has no cookie, and only short headers", () => {
		const kept = keep("", {
			"set-cookie": "session=1",
			"x-powered-by": "host-7",
			"content-type": `text/plain; ${"x".repeat(900)}`,
		});
		expect(Object.keys(kept.headers)).toEqual(["content-type"]);
		expect(kept.headers["content-type"]).toHaveLength(200);
	});

	test("has no control or direction characters, whatever the bytes are", () => {
		fc.assert(
			fc.property(fc.uint8Array({ maxLength: MOST_READ_BYTES }), fc.boolean(), (bytes, isWhole) => {
				const kept = keep(bytes, {}, isWhole);
				expect(new TextEncoder().encode(kept.body).length).toBeLessThanOrEqual(MOST_ANSWER_BYTES);
				expect(kept.body).not.toMatch(/(?![\t\n])\p{Cc}|[\u200e\u200f\u202a-\u202e\u2066-\u2069]/u);
				expect(kept.body.isWellFormed()).toBe(true);
				if (!isWhole) expect(kept.truncated).toBe(true);
			}),
		);
		expect(keep("a\u202eb\u0000c").body).toBe("a\ufffdb\ufffdc");
	});

	test("is cut between characters", () => {
		expect(keep("€".repeat(1_000))).toEqual({ headers: {}, body: "€".repeat(666), truncated: true });
	});

	test("takes little time for text that looks like endless hosts", () => {
		const startMs = performance.now();
		for (const unit of ["a", "a.", "a-", "1.", "ab:", ":"]) keep(unit.repeat(MOST_READ_BYTES));
		expect(performance.now() - startMs).toBeLessThan(1_000);
	});
});
