/**
 * Headless Chromium, driven through its DevTools pipe, with a virtual authenticator. Tests that need it are skipped, with a line that says
 * so, where no Chromium is installed.
 */
import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Readable, Writable } from "node:stream";
import { PATIENCE_MS } from "../../patience";

const NAMES = ["chromium", "chromium-browser", "google-chrome"];

/** The program, if there is one. */
export const chromium = NAMES.find((name) => spawnSync(name, ["--version"]).status === 0);

const ENDED = "Chromium has ended";
const POLL_MS = 50;

/** Sends a command of the DevTools protocol to a page. */
export type Send = (method: string, params?: object) => Promise<Record<string, unknown>>;

/** Gives the page an authenticator of its own that holds passkeys and says yes to everything; its id. */
export async function addAuthenticator(send: Send): Promise<string> {
	await send("WebAuthn.enable");
	const { authenticatorId } = await send("WebAuthn.addVirtualAuthenticator", {
		options: {
			protocol: "ctap2",
			transport: "internal",
			hasResidentKey: true,
			hasUserVerification: true,
			isUserVerified: true,
			automaticPresenceSimulation: true,
		},
	});
	return String(authenticatorId);
}

export interface Page {
	goto(url: string): Promise<void>;
	/** The value of an expression in the page; a promise is waited for. */
	evaluate<Value>(expression: string): Promise<Value>;
	/** Waits until the expression is true. */
	until(expression: string): Promise<void>;
	readonly send: Send;
	close(): Promise<void>;
}

export async function openPage(program: string): Promise<Page> {
	const profile = await mkdtemp(join(tmpdir(), "capstan-browser-"));
	const flags = [
		"--headless=new",
		"--no-sandbox",
		"--disable-gpu",
		"--remote-debugging-pipe",
		`--user-data-dir=${profile}`,
	];
	const browser: ChildProcess = spawn(program, flags, { stdio: ["ignore", "ignore", "ignore", "pipe", "pipe"] });
	const [, , , input, output] = browser.stdio as unknown as [null, null, null, Writable, Readable];
	const waiting = new Map<number, { done(result: never): void; fail(error: Error): void }>();
	let hasEnded = false;
	const ended = new Promise<void>((resolve) => {
		browser.once("exit", () => {
			hasEnded = true;
			for (const { fail } of waiting.values()) fail(new Error(ENDED));
			resolve();
		});
	});
	let buffered = "";
	output.on("data", (chunk: Buffer) => {
		buffered += chunk.toString();
		const messages = buffered.split("\0");
		buffered = messages.pop() ?? "";
		for (const text of messages) {
			const message = JSON.parse(text);
			const waiter = waiting.get(message.id);
			waiting.delete(message.id);
			if (message.error === undefined) waiter?.done(message.result as never);
			else waiter?.fail(new Error(message.error.message));
		}
	});
	let counter = 0;
	const call = (method: string, params: object = {}, sessionId?: string) =>
		new Promise<Record<string, unknown>>((done, fail) => {
			counter += 1;
			if (hasEnded) return fail(new Error(ENDED));
			waiting.set(counter, { done, fail });
			input.write(`${JSON.stringify({ id: counter, method, params, sessionId })}\0`);
		});
	const { targetId } = await call("Target.createTarget", { url: "about:blank" });
	const { sessionId } = await call("Target.attachToTarget", { targetId, flatten: true });
	const send: Send = (method, params) => call(method, params, sessionId as string);
	await send("Page.enable");
	const evaluate = async <Value>(expression: string) => {
		const { result, exceptionDetails } = (await send("Runtime.evaluate", {
			expression,
			awaitPromise: true,
			returnByValue: true,
		})) as { result: { value: Value }; exceptionDetails?: { exception?: { description?: string }; text: string } };
		if (exceptionDetails !== undefined) {
			throw new Error(exceptionDetails.exception?.description ?? exceptionDetails.text);
		}
		return result.value;
	};
	const until = async (expression: string) => {
		const end = Date.now() + PATIENCE_MS;
		while (Date.now() < end) {
			if (await evaluate<boolean>(`Boolean(${expression})`).catch(() => false)) return;
			await new Promise((resolve) => setTimeout(resolve, POLL_MS));
		}
		throw new Error(`it did not happen: ${expression}; the page says: ${await evaluate("document.body.innerText")}`);
	};
	return {
		evaluate,
		until,
		send,
		async goto(url) {
			await send("Page.navigate", { url: "about:blank" });
			await until("location.href === 'about:blank'");
			await send("Page.navigate", { url });
			await until("location.href !== 'about:blank' && document.readyState === 'complete'");
		},
		async close() {
			browser.kill();
			const force = setTimeout(() => browser.kill("SIGKILL"), PATIENCE_MS);
			await ended;
			clearTimeout(force);
			await rm(profile, { recursive: true, force: true, maxRetries: 5 });
		},
	};
}
