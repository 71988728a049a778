/**
 * Commands that reach the wrong place or say the wrong thing: each message names what is wrong and
 * the remedy, in the words of the command.
 */
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { runCommand } from "../../cli/src/run";

const APP = "com.acme.shop";
let directory: string;
beforeAll(async () => {
	directory = await mkdtemp(join(tmpdir(), "capstan-misuse-"));
	await writeFile(join(directory, "package.json"), '{ "name": "shop", "version": "1.0.0" }');
});
afterAll(() => rm(directory, { recursive: true }));

async function run(...words: readonly string[]) {
	let out = "";
	let errors = "";
	const code = await runCommand(words, {
		out: { write: (text) => (out += text) },
		error: { write: (text) => (errors += text) },
		environment: { PATH: process.env.PATH, HOME: directory },
		directory,
	});
	return { code, out, errors };
}

async function served<Result>(listener: RequestListener, use: (origin: string) => Promise<Result>): Promise<Result> {
	const server = createServer(listener);
	await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
	try {
		return await use(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
	} finally {
		server.closeAllConnections();
		server.close();
	}
}

const answer =
	(status: number, type: string, body: string, headers: Record<string, string> = {}): RequestListener =>
	(_, response) => {
		response.writeHead(status, { "content-type": type, ...headers });
		response.end(body);
	};
const to = (location: string) => answer(301, "text/html", "<h1>Moved</h1>", { location });

describe("an address that is not the server", () => {
	test.each<[string, RequestListener, number, string]>([
		[
			"redirects to HTTPS or a new name",
			to("https://updates.example.com/ok"),
			2,
			"redirects to https://updates.example.com, and a key never follows. If that is your server, pass --server https://updates.example.com.",
		],
		["redirects to its own sign-in", to("/sign-in"), 2, "redirects to /sign-in, and a key never follows."],
		["is a page", answer(200, "text/html", "<h1>Hello</h1>"), 5, "is not from Capstan (text/html)"],
		["lacks the path", answer(404, "text/html", "<h1>Not found</h1>"), 5, "not as Capstan does: HTTP 404"],
		["has another API", answer(404, "application/json", '{"detail":"no"}'), 5, "not as Capstan does: HTTP 404"],
		["has nothing behind its proxy", answer(500, "text/plain", ""), 5, "not as Capstan does: HTTP 500. Check --server"],
	])("that %s is named, with the remedy", async (_, listener, exitCode, message) => {
		for (const command of [["login"], ["status", "--app", APP], ["rollout", "status", "--app", APP]]) {
			const { code, errors } = await served(listener, (server) =>
				run(...command, "--server", server, "--key", "cap_key_of_this_test"),
			);
			expect([code, errors]).toEqual([exitCode, expect.stringContaining(message)]);
		}
		const { out } = await served(listener, (server) => run("doctor", "--server", server, "--json"));
		const { findings } = JSON.parse(out) as { findings: { check: string; state: string; detail: string }[] };
		expect(findings.find(({ check }) => check === "server")).toEqual({
			check: "server",
			state: "failed",
			detail: expect.stringContaining(message),
		});
	});
});

describe("a value that the server refuses", () => {
	const refusal = (...issues: object[]) =>
		answer(
			400,
			"application/json",
			JSON.stringify({ error: "invalid_request", message: "kind.0: no", moreInfo: { issues } }),
		);
	const kind = { path: "kind.0", message: "must be some of fail, crash" };

	test.each([
		[refusal(kind), 2, "Error --kind: must be some of fail, crash. (invalid_option)"],
		// Another field is none of the options, and two fields have a line each.
		[refusal({ path: "cursor", message: "no" }), 1, "Error kind.0: no (invalid_request)"],
		[refusal(kind, { path: "version", message: "no" }), 1, "kind.0: must be some of fail, crash"],
	])("is named by its option: %#", async (listener, exitCode, message) => {
		const { code, errors } = await served(listener, (server) =>
			run("logs", "--kind", "foo", "--app", APP, "--server", server, "--key", "cap_key_of_this_test"),
		);
		expect([code, errors]).toEqual([exitCode, expect.stringContaining(message)]);
	});
});

test("a missing key is asked for at the server that the person named", async () => {
	const { code, errors } = await run("status", "--app", APP, "--server", "https://updates.example.com");
	expect([code, errors]).toEqual([
		4,
		expect.stringContaining("run capstan login --server https://updates.example.com, or set CAPSTAN_TOKEN."),
	]);
});
