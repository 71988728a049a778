/**
 * Parts of the `capstan` command that need no server: versions, options, output, and requests that
 * are repeated.
 */
import { generateKeyPairSync } from "node:crypto";
import { getEventListeners } from "node:events";
import { describe, expect, test, vi } from "vitest";
import { connect, eachOf, limited, onlyJson, repeating } from "../../cli/src/api";
import { type Command, durationOf, helpOf, parsed } from "../../cli/src/command";
import { clockFinding, commandFindings, webhookFindings } from "../../cli/src/commands/doctor";
import { encryptionWith } from "../../cli/src/encryption";
import { EXIT, Failure, failureOf } from "../../cli/src/failure";
import { openText, type Preview, type PreviewPage } from "../../cli/src/preview-text";
import { refuseBelowAll } from "../../cli/src/reach";
import { Terminal } from "../../cli/src/terminal";
import { type KnownVersions, nextVersion } from "../../cli/src/version-choice";
import { CapstanError } from "../../src/client/client";
import { parsePublicKey, signingKeyOf } from "../../src/domain/bundles/signing-key";
import { verifySignature } from "../../src/features/signing/verify";

describe("the version of a release that names none", () => {
	const next = (known: Partial<KnownVersions>, skipped?: number) =>
		nextVersion({ current: [], past: [], taken: [], ...known }, skipped);

	test.each([
		[[], "0.0.1"],
		[["1.0.0"], "1.0.1"],
		[["0.0.1", "1.0", "1.0.4-pr.9"], "1.0.1"],
		[["1.2.0", "1.10.7", "1.9.9"], "1.10.8"],
		[["1.0.0", "nonsense"], "1.0.1"],
		[["1.0.0", "1.4.2+build.5"], "1.4.3"],
		[["app2-1.1.0"], "1.1.1"],
		[["3.2.0.57", "2.9.9 (800)"], "3.2.1"],
	])("after %j is %s", (current, version) => expect(next({ current })).toBe(version));

	test.each(["900.0.0", "1.900.0", "1.0.900", "1.0.9007199254740991", "2.0.0-pr.1", "1.0.99999999999999999999"])(
		"is not moved by the bundle %s, which nobody released",
		(uploaded) => expect(next({ current: ["1.0.0"], taken: [uploaded] })).toBe("1.0.1"),
	);

	test("is none that a bundle has", () => {
		expect(next({ current: ["1.0.0"], taken: ["1.0.2", "1.0.1", "1.0.3-pr.1", "1.0.4"] })).toBe("1.0.3");
		expect(next({ current: ["1.0.0"], taken: ["1.0.1+build.7"] })).toBe("1.0.2");
	});

	test("is above what was live and is rolled back, unless that was another major", () => {
		expect(next({ current: ["1.0.0", "1.4.0"], past: ["1.5.0", "1.4.0"] })).toBe("1.5.1");
		expect(next({ current: ["1.0.0", "1.4.0"], past: ["900.0.0", "1.4.0", "2.0.0-pr.1"] })).toBe("1.4.1");
		expect(next({ current: ["1.0.0"], past: ["1.0.9007199254740991", "1.0.9007199254740992"] })).toBe("1.0.1");
	});

	test.each([
		["1.1.1", ["app2-1.1.0"], false],
		["1.1.1", ["app2-1.1.2", "3.2.0.57"], true],
		["3.2.0", ["3.2.0.57"], false],
		["1.0.1", ["no number"], false],
	])("%s below the store builds %j is refused: %s", (version, builds, isRefused) => {
		const check = () => refuseBelowAll(version, builds, undefined);
		if (isRefused) expect(check).toThrow("newer");
		else expect(check).not.toThrow();
	});

	test("leaves out versions that other runs take", () => expect(next({ current: ["1.0.0"] }, 3)).toBe("1.0.4"));
});

const COMMAND: Command = {
	name: "try",
	usage: "try [word]",
	summary: "Try it.",
	mostWords: 1,
	options: {
		channel: { type: "string", short: "c", value: "name", help: "Channel" },
		wait: { type: "boolean", help: "Wait" },
	},
	examples: ["capstan try"],
	run: async () => EXIT.ok,
};

describe("options", () => {
	test("are parsed with their short names and the common ones", () => {
		expect(parsed(COMMAND, ["a", "-c", "beta", "--wait", "--json"])).toMatchObject({
			words: ["a"],
			options: { channel: "beta", wait: true, json: true },
		});
	});

	test.each([
		[["--chanel", "x"], "invalid_option"],
		[["--channel"], "invalid_option"],
		[["--channel", "-1"], "invalid_option"],
		[["a", "b"], "unexpected_argument"],
	])("%j are refused as wrong usage", (argv, code) => {
		let failure: Failure | undefined;
		try {
			parsed(COMMAND, argv);
		} catch (error) {
			failure = failureOf(error);
		}
		expect(failure).toMatchObject({ code, exitCode: EXIT.usage });
		expect(failure?.message).not.toMatch(/\n|\.\.|dash use/);
	});

	test("are all in the help", () => {
		for (const flag of ["-c, --channel <name>", "--wait", "--json", "--server <url>"])
			expect(helpOf(COMMAND)).toContain(flag);
	});

	test.each([
		["30s", 30_000],
		["2h", 7_200_000],
	])("a time %s is %d ms", (text, ms) => expect(durationOf({ since: text }, "since", "1d")).toBe(ms));
	test.each(["", "5", "1w", "-1s"])("a time %j is the default or refused", (text) => {
		if (text === "") expect(durationOf({ since: text }, "since", "1d")).toBe(86_400_000);
		else expect(() => durationOf({ since: text }, "since", "1d")).toThrow(Failure);
	});
});

test("the comment leaves out size and changes while the page shows another version", () => {
	const preview = { page_url: "https://u/p#t", version: "0.0.0-pr-1.2.h1", commit: null, expires_at: null };
	const changes = { live_version: "1.0.0", live_size: 900, files: null };
	const textWith = (version: string) =>
		openText("com.example.app", preview as Preview, { version, size: 1_000, changes } as PreviewPage);
	expect(textWith(preview.version)).toContain("1.0 kB");
	expect(textWith(preview.version)).toContain("Compared with");
	expect(textWith("0.0.0-pr-1.1.h0")).not.toMatch(/kB|Compared with/);
});

describe("output", () => {
	function terminal(options: { readonly json?: boolean; readonly isTTY?: boolean } = {}) {
		const texts = { out: "", error: "" };
		const stream = (name: "out" | "error") => ({
			isTTY: options.isTTY === true,
			write: (text: string) => {
				texts[name] += text;
			},
		});
		const opened = new Terminal({
			out: stream("out"),
			error: stream("error"),
			json: options.json === true,
			environment: {},
		});
		return { terminal: opened, texts };
	}

	test("never has a secret, whatever prints it", () => {
		for (const json of [true, false]) {
			const { terminal: opened, texts } = terminal({ json });
			opened.conceal("cap_0123456789");
			opened.line("key cap_0123456789");
			opened.note("cap_0123456789");
			opened.result("try", { value: "cap_0123456789" });
			opened.failed("try", new Error("refused cap_0123456789"));
			expect(texts.out + texts.error).not.toContain("cap_0123456789");
			expect(texts.out + texts.error).toContain("***");
		}
	});

	test("has colours and progress on a terminal only", () => {
		const piped = terminal();
		const shown = terminal({ isTTY: true });
		for (const { terminal: opened } of [piped, shown]) {
			opened.progress("10 %");
			opened.line(opened.style("green", "Live"));
		}
		expect(piped.texts).toEqual({ out: "Live\n", error: "" });
		expect(shown.texts.out).toBe("\u001b[32mLive\u001b[0m\n");
		expect(shown.texts.error).toContain("10 %");
	});

	describe("with control and bidi characters of the server", () => {
		const hostile = "a\u001b]0;owned\u0007\u009b2J\u202ecod\u2066\r\nLive com.example.app 9.9.9\u2028\u007f\u001b[8m";
		const raw = /(?![\t\n])[\p{Cc}\p{Bidi_Control}\u2028]/u;

		test.each(["line", "note", "progress", "table", "styled", "failed"] as const)(
			"%s shows them as text",
			(printer) => {
				const { terminal: opened, texts } = terminal({ isTTY: true });
				if (printer === "line") opened.line(hostile);
				if (printer === "note") opened.note(hostile);
				if (printer === "progress") opened.progress(hostile);
				if (printer === "table") opened.table([["CHANNEL"], [hostile]]);
				if (printer === "styled") opened.line(opened.style("red", hostile));
				if (printer === "failed") opened.failed("try", new CapstanError(400, hostile, hostile, {}, hostile));
				// biome-ignore lint/suspicious/noControlCharactersInRegex: the styles and the progress line of the command itself
				const shown = (texts.out + texts.error).replace(/\u001b\[(?:0|2|31)m|\r\u001b\[2K/g, "");
				expect(shown).not.toMatch(raw);
				expect(shown).toContain("\\u001b]0;owned\\u0007\\u009b2J\\u202ecod");
				expect(shown, "a text cannot begin a line").not.toMatch(/^Live/m);
			},
		);

		test("JSON escapes them, and its value is exact", () => {
			const { terminal: opened, texts } = terminal({ json: true });
			opened.result("try", { title: hostile });
			expect(texts.out.trimEnd()).not.toMatch(raw);
			expect(JSON.parse(texts.out).title).toBe(hostile);
		});
	});

	test("as JSON is one object with the code of the server", () => {
		const { terminal: opened, texts } = terminal({ json: true });
		const failure = opened.failed("try", new CapstanError(403, "permission_denied", "No.", { scope: "app" }, "r1"));
		expect(failure.exitCode).toBe(EXIT.denied);
		expect(JSON.parse(texts.out)).toEqual({
			ok: false,
			command: "try",
			error: { code: "permission_denied", message: "No.", details: { status: 403, scope: "app", requestId: "r1" } },
		});
	});
});

describe("an answer that is not of the server", () => {
	const answered = (body: string, init: ResponseInit) =>
		onlyJson(async () => new Response(body, init), "https://updates.example.com")(
			"https://updates.example.com/app",
			{},
		);

	test("with 200 is a failure, and no result", async () => {
		const page = answered("<html>Sign in to the network</html>", { headers: { "content-type": "text/html" } });
		await expect(page).rejects.toMatchObject({ code: "not_capstan", exitCode: EXIT.unreachable });
	});

	test("is recognized by its type alone: errors and JSON pass", async () => {
		const json = await answered("{}", { headers: { "content-type": "application/json" } });
		expect(await json.json()).toEqual({});
		expect((await answered("busy", { status: 503 })).status).toBe(503);
	});
});

describe("the clock check of doctor", () => {
	const serverWith = (headers: Record<string, string>) => ({
		origin: "https://updates.example.com",
		send: async () => new Response("{}", { headers }),
	});
	const now = Date.parse("2026-11-21T08:00:00Z");

	test.each([
		[{}, "unknown", "does not send its time"],
		[{ date: "soon" }, "unknown", "does not send its time"],
		[{ date: "Sat, 21 Nov 2026 08:00:20 GMT" }, "ok", "within 20 s of the server"],
		[{ date: "Sat, 21 Nov 2026 07:00:00 GMT" }, "failed", "differs by 3600 s"],
	])("with the answer %j is %s", async (headers, state, detail) =>
		expect(await clockFinding(serverWith(headers), now)).toEqual({
			check: "clock",
			state,
			detail: expect.stringContaining(detail),
		}),
	);
});

describe("the command check of doctor", () => {
	const at = (name: string) => `https://updates.example.com/command/${name}`;

	test.each([
		["the same version", at("capstan-1.0.0-5d41402abc4b2a76.tgz"), undefined],
		["a newer one", at("capstan-1.1.0-5d41402abc4b2a76.tgz"), "1.1.0"],
		["a preview of one", at("capstan-2.0.0-rc.1-5d41402abc4b2a76.tgz"), "2.0.0-rc.1"],
		["none", undefined, undefined],
	])("of a server with %s", (_, address, offered) => {
		const detail = `the server offers ${offered}; run npx --yes ${address}, or delete the copies of npx`;
		expect(commandFindings(address, "1.0.0")).toEqual(
			offered === undefined ? [] : [{ check: "command", state: "warning", detail: expect.stringContaining(detail) }],
		);
	});
});

describe("the webhooks check of doctor", () => {
	const now = Date.parse("2026-11-21T08:00:00Z");

	test.each([
		[0, null, "ok", "0 deliveries due"],
		[1, "2026-11-21T07:30:00.000Z", "ok", "1 delivery due, the oldest for 30 minutes"],
		[12, "2026-11-21T07:14:00.000Z", "failed", "12 deliveries due, the oldest for 46 minutes; run npm run doctor"],
	])("with %i deliveries due since %s is %s", (due, oldest_at, state, detail) =>
		expect(webhookFindings({ webhooks: { due, oldest_at } }, now)).toEqual([
			{ check: "webhooks", state, detail: expect.stringContaining(detail) },
		]),
	);

	test("is left out for an older server", () => expect(webhookFindings({}, now)).toEqual([]));
});

describe("a request", () => {
	test("names the reason and the remedy where nothing answers", async () => {
		const asked = (origin: string) => connect(origin, undefined, "1.0.0").sendOnce(`${origin}/ok`, { method: "GET" });
		await expect(asked("http://127.0.0.1:1")).rejects.toThrow(
			"does not answer (bad port); start the server with npm start",
		);
		await expect(asked("https://nowhere.invalid:1")).rejects.toThrow("check the address and your network");
	});

	const pauses: number[] = [];
	const pause = async (ms: number) => {
		pauses.push(ms);
	};

	test("is repeated while the server is busy, as long as it asks for", async () => {
		const answers = [
			new Response("", { status: 503 }),
			new Response("", { status: 429, headers: { "retry-after": "7" } }),
		];
		const send = repeating(async () => answers.shift() ?? new Response("done"), pause);
		expect(await (await send("https://u", {})).text()).toBe("done");
		expect(pauses).toEqual([300, 7000]);
	});

	test("fails in the end with the error of the last try", async () => {
		let tries = 0;
		const send = repeating(async () => {
			tries += 1;
			throw new Error(`try ${tries}`);
		}, pause);
		await expect(send("https://u", {})).rejects.toThrow("try 4");
		const busy = repeating(async () => new Response("", { status: 503 }), pause);
		expect((await busy("https://u", {})).status).toBe(503);
	});

	test("is not repeated after its time: the next one would wait as long", async () => {
		let tries = 0;
		const late = new Failure("server_unreachable", "late", EXIT.unreachable, { reason: "no answer in time" });
		const send = repeating(async () => {
			tries += 1;
			throw late;
		}, pause);
		await expect(send("https://u", {})).rejects.toBe(late);
		expect(tries).toBe(1);
		vi.stubGlobal("fetch", () => Promise.reject(new DOMException("late", "TimeoutError")));
		const asked = connect("https://u.example.com", undefined, "1.0.0").send("https://u.example.com/ok", {});
		await expect(asked).rejects.toMatchObject({ details: late.details });
		vi.unstubAllGlobals();
	});

	test("has a time limit that the garbage collector of Node 20 leaves alone", async () => {
		// `any` holds its sources weakly there.
		const any = vi.spyOn(AbortSignal, "any");
		const connection = new AbortController();
		const { signal: late, release } = limited(connection.signal, 1);
		await new Promise((resolve) => late.addEventListener("abort", resolve));
		expect(late.reason).toMatchObject({ name: "TimeoutError" });
		release();
		const { signal: unconnected } = limited(connection.signal, 60_000);
		connection.abort(new Error("down"));
		expect(unconnected.reason).toMatchObject({ message: "down" });
		// A release sends hundreds of requests over one connection.
		expect(getEventListeners(connection.signal, "abort")).toHaveLength(1);
		expect(any).not.toHaveBeenCalled();
		any.mockRestore();
	});

	test("is not repeated if the server refuses it", async () => {
		let tries = 0;
		const send = repeating(async () => {
			tries += 1;
			return new Response("", { status: 404 });
		}, pause);
		expect((await send("https://u", {})).status).toBe(404);
		expect(tries).toBe(1);
	});
});

test("work on many items stops at the first failure", async () => {
	const done: number[] = [];
	const work = eachOf([1, 2, 3, 4, 5, 6], 2, async (item) => {
		await Promise.resolve();
		if (item === 2) throw new Error("second");
		done.push(item);
	});
	await expect(work).rejects.toThrow("second");
	expect(done.length).toBeLessThan(3);
});

test("an encrypted bundle is one that the server verifies with the public key", async () => {
	const { privateKey, publicKey } = generateKeyPairSync("rsa", { modulusLength: 2048 });
	const pem = String(publicKey.export({ type: "spki", format: "pem" }));
	const key = parsePublicKey(pem) ?? "";
	const encryption = encryptionWith(privateKey);
	const facts = { checksum: encryption.seal("ab".repeat(32)), session_key: encryption.sessionKey };
	const { fingerprint } = await signingKeyOf(key);
	expect(await verifySignature({ required: true, keys: [key] }, facts)).toEqual({ signedBy: fingerprint });
	expect(encryption.keyId).toBe(key.slice(0, 20));
	expect(encryption.seal("ab".repeat(32)), "the same hash has the same seal").toBe(facts.checksum);
});
