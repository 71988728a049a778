/**
 * Runs test files against mutants in a process of its own, which stays from one to the next. A process that ends, hangs or has no time
 * says nothing about the mutant: it is asked again in a fresh one, and what stays unclear is told as that, never as caught.
 */
import { type ChildProcess, fork } from "node:child_process";
import { ROOT } from "./mutants";
import type { Caught, News, Order, Outcome } from "./worker";

export interface RunnerOptions {
	/** The configuration of vitest. */
	readonly config?: string;
	/** A test file that says nothing for longer hangs. */
	readonly longestSilenceMs?: number;
	/** How often something is tried that does not become clear. */
	readonly attempts?: number;
}

/** One order at a time. */
export class Runner {
	readonly #options: Required<RunnerOptions>;
	#child: ChildProcess | undefined;

	constructor(options: RunnerOptions = {}) {
		this.#options = {
			config: `${ROOT}test/mutation/vitest.config.ts`,
			longestSilenceMs: 240_000,
			attempts: 3,
			...options,
		};
	}

	/** `onCaught` is told of each mutant that a sweep catches, also when the run breaks off after that. */
	async run(order: Order, onCaught: (caught: Caught) => void = () => undefined): Promise<Outcome> {
		let outcome = await this.#attempt(order, onCaught);
		for (let attempt = 1; attempt < this.#options.attempts && outcome.result === "unclear"; attempt += 1) {
			outcome = await this.#attempt(order, onCaught);
		}
		return outcome;
	}

	async #attempt(order: Order, onCaught: (caught: Caught) => void): Promise<Outcome> {
		const child = this.#child ?? (await start(this.#options.config));
		this.#child = child;
		const startedMs = Date.now();
		const outcome = await new Promise<Outcome>((resolve) => {
			const finish = (ending: Outcome | string) => {
				clearTimeout(timer);
				child.removeAllListeners();
				const tookMs = Date.now() - startedMs;
				resolve(
					typeof ending === "string"
						? { ...order, result: "unclear", because: ending, reached: [], leftOut: false, cutShort: false, tookMs }
						: ending,
				);
			};
			const timer = setTimeout(() => finish("the tests did not end"), this.#options.longestSilenceMs);
			child.on("message", (message: News | Outcome) => {
				timer.refresh();
				if ("result" in message) finish(message);
				else message.caught.forEach(onCaught);
			});
			child.once("exit", () => finish("the test process ended"));
			child.once("error", () => finish("the test process could not be reached"));
			child.send(order);
		});
		if (outcome.result === "unclear") {
			child.on("error", () => undefined);
			// With what it started: tests that hang do not notice that nobody waits for them.
			if (child.pid !== undefined) endGroup(child.pid);
			this.#child = undefined;
		}
		return outcome;
	}

	stop(): void {
		if (this.#child?.connected === true) this.#child.disconnect();
		this.#child = undefined;
	}
}

function endGroup(id: number): void {
	try {
		process.kill(-id, "SIGKILL");
	} catch {
		// Nobody of it is left.
	}
}

function start(config: string): Promise<ChildProcess> {
	const child = fork(`${ROOT}test/mutation/worker.ts`, [config], {
		execArgv: ["--import", "tsx"],
		stdio: ["ignore", "ignore", "ignore", "ipc"],
		detached: true,
	});
	return new Promise((resolve, reject) => {
		child.once("message", () => {
			child.removeAllListeners();
			resolve(child);
		});
		child.once("exit", (code) =>
			reject(new Error(`the test process did not start (exit code ${code}); try npm run vitest`)),
		);
	});
}
