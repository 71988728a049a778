/**
 * Bundles on another server: the registration fetches the file once, from public https URLs only,
 * within limits of size and time, and stores its SHA-256 and size. If that fails, nothing is
 * registered.
 */
import { beforeAll, describe, expect, test } from "vitest";
import { query } from "../../../src/db/client";
import type { Deps } from "../../../src/deps";
import { isPrivateHost } from "../../../src/domain/network/public-host";
import { brokenBody, patterned, register, rows } from "../support/bytes";
import { violations } from "../support/invariants";
import { createTestApp, createWorld, setTestChannel, sha256Hex, type TestApp, type World } from "../support/world";
import { bundleOf } from "../support/zip";

const LIMIT_BYTES = 100_000;
const URL_ = "https://cdn.example.org/bundle.zip";

let world: World;
let app: TestApp;
let fetched: { url: string; init: RequestInit }[];
let respond: (url: string) => Response | Promise<Response>;

beforeAll(async () => {
	const fetch: Deps["fetch"] = async (url, init) => {
		fetched.push({ url, init });
		return respond(url);
	};
	world = await createWorld({ bindings: { fetch }, config: { MAX_BUNDLE_BYTES: String(LIMIT_BYTES) } });
	app = await createTestApp(world);
});

let counter = 0;
/** Registers a new version with this external_url. */
async function external(url: string, answer: typeof respond, fields: Record<string, unknown> = {}) {
	counter += 1;
	const version = `1.0.${counter}`;
	fetched = [];
	respond = answer;
	const registered = await register(world, app, version, world.adminKey, { external_url: url, ...fields });
	const [row] = await rows(
		query.selectFrom("bundles").selectAll().where("app_id", "=", app.uuid).where("name", "=", version),
	);
	return { ...registered, version, row };
}

const unreachable = () => {
	throw new Error("nothing may be fetched");
};
const redirect = (location: string, status = 302) => new Response(null, { status, headers: { location } });

async function expectRejected(promise: ReturnType<typeof external>, reason: RegExp) {
	const { status, body, row } = await promise;
	expect([status, body.error]).toEqual([400, "external_url_rejected"]);
	expect(body.message).toMatch(reason);
	expect(body.moreInfo.issues[0].path).toBe("external_url");
	expect(row).toBeUndefined();
}

describe("registering an external bundle", () => {
	test.each([118, 1000, 65_737, LIMIT_BYTES])(
		"of %i bytes stores the SHA-256 and size of what was fetched",
		async (size) => {
			const bytes = bundleOf(size);
			const { status, body, trips, row } = await external(URL_, () => new Response(bytes));
			expect([status, trips]).toEqual([201, 2]);
			const sha256 = await sha256Hex(bytes);
			expect(body).toMatchObject({ storage_provider: "external", external_url: URL_, checksum: sha256, size });
			expect(body).not.toHaveProperty("upload_url");
			expect(row).toMatchObject({ status: "ready", sha256, size_bytes: size, object_key: null, expires_at_ms: null });
			expect(
				await rows(
					query
						.selectFrom("uploads")
						.selectAll()
						.where("bundle_id", "=", row?.id ?? 0),
				),
			).toEqual([]);
		},
	);

	test("makes it ready for a channel immediately", async () => {
		const { version } = await external(URL_, () => new Response(bundleOf(130)));
		await setTestChannel(world, app, "external", { version });
		expect(await violations(app.uuid)).toEqual([]);
	});

	test("follows redirects within public https, and stores the original URL", async () => {
		const answers: Record<string, () => Response> = {
			[URL_]: () => redirect("/moved.zip", 301),
			"https://cdn.example.org/moved.zip": () => redirect("https://other.example.net/x?y=1", 307),
			"https://other.example.net/x?y=1": () => new Response(bundleOf(130)),
		};
		const { status, row } = await external(URL_, (url) => answers[url]?.() ?? unreachable());
		expect(status).toBe(201);
		expect(row?.external_url).toBe(URL_);
		expect(fetched.map(({ url }) => url)).toEqual(Object.keys(answers));
	});

	test("checks every redirect, within one time limit for all", async () => {
		let hop = 0;
		await external(URL_, () => {
			hop += 1;
			return hop < 3 ? redirect(`/${hop}`) : new Response(bundleOf(130));
		});
		expect(fetched.map(({ init }) => init.redirect)).toEqual(["manual", "manual", "manual"]);
		const signals = fetched.map(({ init }) => init.signal);
		expect(signals[0]).toBeInstanceOf(AbortSignal);
		expect(new Set(signals).size).toBe(1);
		for (const { init } of fetched) expect(new Headers(init.headers).has("authorization")).toBe(false);
	});

	test("compares the registered values of an unencrypted file, and stores the checksum of an encrypted one unchanged", async () => {
		const bytes = bundleOf(500);
		const answer = () => new Response(bytes);
		const wrongChecksum = await external(URL_, answer, { checksum: "0".repeat(64) });
		expect([wrongChecksum.status, wrongChecksum.body.error]).toEqual([400, "checksum_mismatch"]);
		const wrongSize = await external(URL_, answer, { size: 501 });
		expect([wrongSize.status, wrongSize.body.error]).toEqual([400, "size_mismatch"]);
		expect([wrongChecksum.row, wrongSize.row]).toEqual([undefined, undefined]);
		const right = await external(URL_, answer, { checksum: (await sha256Hex(bytes)).toUpperCase(), size: 500 });
		expect(right.status).toBe(201);
		const opaque = "ab".repeat(256);
		const encrypted = await external(URL_, answer, { checksum: opaque, session_key: "iv:key" });
		expect(encrypted.row).toMatchObject({ checksum: opaque, sha256: await sha256Hex(bytes) });
	});

	test("answers 409 for a ready version before it fetches anything", async () => {
		const { version } = await external(URL_, () => new Response(bundleOf(130)));
		fetched = [];
		const again = await register(world, app, version, world.adminKey, { external_url: URL_ });
		expect([again.status, fetched]).toEqual([409, []]);
	});

	test("fetches nothing for a key without app.upload_bundle", async () => {
		fetched = [];
		const stranger = await createWorld();
		const refused = await register(world, app, "9.9.9", stranger.adminKey, { external_url: URL_ });
		expect([refused.status, fetched]).toEqual([404, []]);
	});
});

const PRIVATE_HOSTS = [
	"127.0.0.1",
	"127.1",
	"2130706433",
	"0x7f.1",
	"0x7f000001",
	"0177.0.0.1",
	"0.0.0.0",
	"0",
	"10.1.2.3",
	"172.16.0.1",
	"192.168.1.1",
	"169.254.169.254",
	"100.64.0.1",
	"192.0.0.8",
	"192.0.2.1",
	"198.18.0.1",
	"224.0.0.1",
	"255.255.255.255",
	"[::1]",
	"[::]",
	"[::ffff:10.0.0.1]",
	"[::ffff:7f00:1]",
	"[::127.0.0.1]",
	"[::ffff:0:127.0.0.1]",
	"[64:ff9b::7f00:1]",
	"[64:ff9b:1::7f00:1]",
	"[2002:7f00:1::]",
	"[fe80::1]",
	"[fec0::1]",
	"[fc00::1]",
	"[fd12:3456::1]",
	"[ff02::1]",
	"[2001:db8::1]",
	"localhost",
	"LOCALHOST",
	"localhost.",
	"foo.localhost",
	"foo.localhost.",
	"intranet",
	"printer.local",
	"metadata.google.internal",
	"router.lan",
	"nas.home.arpa",
	"db.localdomain",
	"１２７.0.0.1",
];

describe("hosts that are not public are refused and nothing is fetched", () => {
	test.each(PRIVATE_HOSTS)("https://%s/", async (host) => {
		await expectRejected(external(`https://${host}/b.zip`, unreachable), /not public/);
		expect(fetched).toEqual([]);
	});

	test("as the target of a redirect", async () => {
		for (const host of PRIVATE_HOSTS) {
			await expectRejected(
				external(URL_, (url) => (url === URL_ ? redirect(`https://${host}/b.zip`) : unreachable())),
				/not public/,
			);
			expect(fetched).toHaveLength(1);
		}
	});

	test("user names, passwords, and schemes other than https", async () => {
		await expectRejected(external("https://user@cdn.example.org/", unreachable), /user name/);
		await expectRejected(external("https://:secret@cdn.example.org/", unreachable), /user name/);
		for (const address of [
			"http://cdn.example.org/",
			"ftp://cdn.example.org/",
			"file:///etc/passwd",
			"cdn.example.org",
		]) {
			const { status, body } = await external(address, unreachable);
			expect([status, body.error]).toEqual([400, "invalid_request"]);
		}
		for (const target of ["http://cdn.example.org/", "file:///etc/passwd", "data:,x", "https://a:b@cdn.example.org/"]) {
			await expectRejected(
				external(URL_, (url) => (url === URL_ ? redirect(target) : unreachable())),
				/not|user/,
			);
			expect(fetched).toHaveLength(1);
		}
	});

	test("public hosts pass", () => {
		for (const host of [
			"example.com",
			"a.b.example",
			"8.8.8.8",
			"[2606:4700::1111]",
			"localhost.example.com",
			"xn--bcher-kva.de",
		]) {
			expect([host, isPrivateHost(new URL(`https://${host}/`).hostname)]).toEqual([host, false]);
		}
	});
});

describe("an external file that cannot be fetched completely is refused:", () => {
	test("a redirect loop, after five redirects", async () => {
		await expectRejected(
			external(URL_, () => redirect(URL_)),
			/more than 5 times/,
		);
		expect(fetched).toHaveLength(6);
	});

	test("a redirect to nowhere, and one without a target", async () => {
		await expectRejected(
			external(URL_, () => redirect("https://[")),
			/an invalid URL/,
		);
		await expectRejected(
			external(URL_, () => new Response(null, { status: 302 })),
			/status 302/,
		);
	});

	test("a status other than 200", async () => {
		for (const status of [201, 204, 206, 304, 403, 404, 500]) {
			const body = [204, 304].includes(status) ? null : "no";
			await expectRejected(
				external(URL_, () => new Response(body, { status })),
				new RegExp(`status ${status}`),
			);
		}
	});

	test("a file with a Content-Length above the limit, without reading it", async () => {
		let cancelled = false;
		const stream = new ReadableStream({
			pull: (controller) => controller.enqueue(patterned(10)),
			cancel: () => {
				cancelled = true;
			},
		});
		const headers = { "content-length": String(LIMIT_BYTES + 1) };
		await expectRejected(
			external(URL_, () => new Response(stream, { headers })),
			/more than 100000 bytes/,
		);
		expect(cancelled).toBe(true);
	});

	test("a file without Content-Length, as soon as it exceeds the limit", async () => {
		let sentBytes = 0;
		const endless = new ReadableStream({
			pull: (controller) => {
				sentBytes += 10_000;
				controller.enqueue(patterned(10_000));
			},
		});
		await expectRejected(
			external(URL_, () => new Response(endless)),
			/more than 100000 bytes/,
		);
		expect(sentBytes).toBeLessThan(2 * LIMIT_BYTES);
	});

	test("a server that cannot be reached or takes too long, before or within the body", async () => {
		const timeout = () => {
			throw new DOMException("The operation was aborted due to timeout", "TimeoutError");
		};
		await expectRejected(external(URL_, timeout), /cannot be reached/);
		await expectRejected(
			external(URL_, () => new Response(brokenBody(patterned(10)))),
			/broke off/,
		);
		const { body } = await external(URL_, () => {
			throw new Error("secret inner detail");
		});
		expect(JSON.stringify(body)).not.toContain("secret inner detail");
	});

	test("an empty file", async () => {
		await expectRejected(
			external(URL_, () => new Response("")),
			/empty/,
		);
		await expectRejected(
			external(URL_, () => new Response(null)),
			/empty|no body/,
		);
	});
});
