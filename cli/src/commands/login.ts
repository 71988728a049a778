/**
 * `capstan login` and `capstan logout`: the key of a server, stored for the owner of this computer
 * account only.
 */

import { CapstanError } from "../../../src/client/client";
import { connect, refuseDown } from "../api";
import { HAND_OVER_MINUTES, openBrowser, startHandOver } from "../browser-login";
import { type Command, type Run, text } from "../command";
import { readCredentials, storeKey } from "../credentials";
import { EXIT, Failure } from "../failure";
import { readProject } from "../project";
import { givenKey, serverOrigin } from "../settings";

export const login: Command = {
	name: "login",
	usage: "login",
	summary: "Store the API key of a server on this computer. Without --key, a page of the dashboard creates one.",
	mostWords: 0,
	options: {},
	examples: ["capstan login --server https://updates.example.com", "capstan login --key - < key.txt"],
	async run(run) {
		const origin = await serverOrigin(run, await readProject(run.directory));
		await refuseDown(origin, run.version);
		// Before a person creates a key that could not be stored.
		await storeKey(run.environment, origin, (await readCredentials(run.environment)).servers[origin]?.key);
		const key = text(run.options, "key") === undefined ? await askedKey(run, origin) : await givenKey(run, origin);
		if (key === undefined || key === "")
			throw new Failure("missing_key", "No key was given; nothing was stored.", EXIT.denied);
		run.terminal.conceal(key);
		const organizations = await namesFor(run, origin, key);
		const path = await storeKey(run.environment, origin, key);
		run.terminal.result("login", { server: origin, organizations, stored_in: path });
		const reach = organizations.length === 0 ? "" : ` (${organizations.join(", ")})`;
		run.terminal.line(`${run.terminal.style("green", "Signed in")} to ${origin}${reach}. The key is in ${path}.`);
		return EXIT.ok;
	},
};

export const logout: Command = {
	name: "logout",
	usage: "logout",
	summary: "Remove the stored API key of a server from this computer.",
	mostWords: 0,
	options: {},
	examples: ["capstan logout"],
	async run(run) {
		const origin = await serverOrigin(run, await readProject(run.directory));
		await storeKey(run.environment, origin, undefined);
		run.terminal.result("logout", { server: origin });
		run.terminal.line(
			`The key of ${origin} was removed from this computer. Revoke it in the dashboard if somebody else may have it.`,
		);
		return EXIT.ok;
	},
};

/**
 * The organizations that the key can read; none for a key of one app.
 * @throws {Failure} if the server does not accept the key
 */
async function namesFor(run: Run, origin: string, key: string): Promise<string[]> {
	const { api } = connect(origin, key, run.version);
	try {
		const organizations = await api("GET /organization");
		return (Array.isArray(organizations) ? organizations : [organizations]).map(({ name }) => name);
	} catch (error) {
		if (error instanceof CapstanError && error.status === 403) return [];
		throw error;
	}
}

/** A key that the dashboard hands over, or that the person enters, whichever comes first. */
async function askedKey(run: Run, origin: string): Promise<string> {
	if (run.terminal.json || (run.environment.CI ?? "") !== "") {
		throw new Failure(
			"missing_key",
			`Nobody is here to confirm in a browser. Pass the key on standard input: capstan login --server ${origin} --key -`,
			EXIT.usage,
		);
	}
	const handOver = await startHandOver(origin);
	run.terminal.note("Open this address in your browser, and confirm there:", `  ${handOver.address}`);
	if (process.stdin.isTTY !== true) {
		run.terminal.note(
			`Waiting for ${HAND_OVER_MINUTES} minutes. Without a browser: capstan login --server ${origin} --key - < key.txt`,
		);
		return handOver.key;
	}
	if (process.stderr.isTTY === true) openBrowser(handOver.address, run.environment);
	run.terminal.note("From another computer: create a key in the dashboard, and enter it here.");
	const entered = hiddenLine("Key: ");
	try {
		return await Promise.race([handOver.key, entered.line]);
	} finally {
		handOver.stop();
		entered.stop();
	}
}

const ENTER = ["\r", "\n", "\u0004"];
const INTERRUPT = "\u0003";
const BACKSPACE = ["\u007f", "\b"];

/** Reads a line from the terminal without showing it, until it is stopped. */
function hiddenLine(question: string): { readonly line: Promise<string>; stop(): void } {
	const { stdin, stderr } = process;
	let stop = () => {};
	const read = new Promise<string>((resolve, reject) => {
		let line = "";
		let isOver = false;
		stop = () => {
			if (isOver) return;
			isOver = true;
			stdin.off("data", onData);
			stdin.setRawMode(false);
			stdin.pause();
			stderr.write("\n");
		};
		const end = (settle: () => void) => {
			stop();
			settle();
		};
		const onData = (chunk: Buffer) => {
			for (const char of chunk.toString()) {
				if (char === INTERRUPT)
					return end(() => reject(new Failure("interrupted", "Interrupted; nothing was stored.")));
				if (ENTER.includes(char)) return end(() => resolve(line.trim()));
				line = BACKSPACE.includes(char) ? line.slice(0, -1) : line + char;
			}
		};
		// Before the question, after which a pasted key may already be there.
		stdin.setRawMode(true);
		stderr.write(question);
		stdin.resume();
		stdin.on("data", onData);
	});
	return { line: read, stop: () => stop() };
}
