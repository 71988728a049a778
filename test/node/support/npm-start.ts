/**
 * `npm start` as a process, and its state directories. A start in the background of the test takes
 * about five seconds of the processor, most of it for loading; a start inside the test's process
 * (`serveCapstan`) takes one, so only claims about the process use the former.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { cp, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, vi } from "vitest";
import { Failure } from "../../../src/operator/failure";
import { type RunningCapstan, type ServeOptions, serveCapstan } from "../../../src/operator/serve";

export const PROJECT = fileURLToPath(new URL("../../..", import.meta.url));
/** The last line that a start prints. */
export const LAST_LINE = "sign-in.link, which only you can read";
export const URL_PATTERN = /http:\/\/localhost:\d+/;

export interface Started {
	readonly child: ChildProcess;
	readonly output: () => string;
	/** Standard error alone. */
	readonly errors: () => string;
	/** Resolves with the exit code. */
	readonly exited: Promise<number | null>;
	/** Resolves when the text has appeared; rejects when the process ends first. */
	until(text: string): Promise<void>;
	/** Sends the signal and resolves with the exit code. */
	stop(signal?: NodeJS.Signals): Promise<number | null>;
}

export interface StartScene {
	readonly directory: () => string;
	/** The path of a state directory that does not exist yet. */
	newState(): Promise<string>;
	/** A copy of the state directory of one finished first run. */
	copiedState(): Promise<string>;
	start(environment: Readonly<Record<string, string>>, ...options: readonly string[]): Started;
}

/** Gives a test file its directory and its processes, and removes both at the end. */
export function startScene(): StartScene {
	let directory: string;
	let template: Promise<string> | undefined;
	const started = new Set<ChildProcess>();
	beforeAll(async () => {
		directory = await mkdtemp(join(tmpdir(), "capstan-start-"));
	});
	afterAll(async () => {
		for (const child of started) child.kill("SIGKILL");
		await rm(directory, { recursive: true, force: true });
	});
	const newState = async () => join(await mkdtemp(join(directory, "state-")), "state");
	const firstRun = async () => {
		const state = await newState();
		await (await serveCapstan({ stateDirectory: state, port: 0 })).stop();
		return state;
	};
	return {
		directory: () => directory,
		newState,
		async copiedState() {
			template ??= firstRun();
			const state = await newState();
			await cp(await template, state, { recursive: true });
			return state;
		},
		start: (environment, ...options) => start(started, environment, options),
	};
}

function start(
	started: Set<ChildProcess>,
	environment: Readonly<Record<string, string>>,
	options: readonly string[],
): Started {
	const child = spawn(process.execPath, ["src/operator/launch.js", "src/operator/start.ts", ...options], {
		cwd: PROJECT,
		env: { ...process.env, PORT: "0", ...environment },
		stdio: ["ignore", "pipe", "pipe"],
	});
	started.add(child);
	let output = "";
	let errors = "";
	child.stderr?.on("data", (chunk) => (errors += chunk));
	const waiting = new Set<() => void>();
	for (const stream of [child.stdout, child.stderr]) {
		stream?.on("data", (chunk) => {
			output += chunk;
			for (const look of waiting) look();
		});
	}
	const exited = new Promise<number | null>((resolve) => child.on("close", (code) => resolve(code)));
	return {
		child,
		output: () => output,
		errors: () => errors,
		exited,
		until: (text) =>
			new Promise((resolve, reject) => {
				const look = () => {
					if (output.includes(text)) resolve();
				};
				waiting.add(look);
				look();
				void exited.then(() => reject(new Error(`ended before "${text}": ${output}`)));
			}),
		stop(signal = "SIGINT") {
			child.kill(signal);
			return exited;
		},
	};
}

/** The one sentence on standard error with which a start ends. */
export async function failureOf(run: Started): Promise<string> {
	expect(await run.exited, run.output()).toBe(1);
	const lines = run.errors().trim().split("\n");
	expect(lines, run.output()).toHaveLength(1);
	return lines[0] ?? "";
}

/**
 * The message of the Failure that a start inside this process ends with: one line, and nothing else
 * was printed. `npm start` prints exactly this message and exits with code 1.
 */
export async function refusalOf(options: Partial<ServeOptions> & { readonly stateDirectory: string }): Promise<string> {
	const printed: unknown[] = [];
	const print = (text: unknown) => printed.push(text) > 0;
	const spies = [
		...[process.stdout, process.stderr].map((stream) => vi.spyOn(stream, "write").mockImplementation(print)),
		...(["log", "warn", "error"] as const).map((name) => vi.spyOn(console, name).mockImplementation(print)),
	];
	let outcome: unknown;
	let running: RunningCapstan | undefined;
	try {
		running = await serveCapstan({ port: 0, ...options });
	} catch (error) {
		outcome = error;
	} finally {
		for (const spy of spies) spy.mockRestore();
	}
	await running?.stop();
	if (!(outcome instanceof Failure)) throw new Error(`no Failure, but: ${outcome}`);
	expect(printed).toEqual([]);
	expect(outcome.message).not.toContain("\n");
	return outcome.message;
}
