/**
 * Runs test files against mutants in a child process, which it keeps from one run to the next. A
 * process that ends or hangs proves nothing about the mutant: the run is repeated in a fresh
 * process, and one that stays unclear never counts as caught.
 */
import { type ChildProcess, fork } from "node:child_process";
import { ROOT } from "./mutants";
import type { Order, Outcome } from "./worker";

export interface RunnerOptions {
	/** The configuration of vitest. */
	readonly config?: string;
	/** A test file without a finished test for longer hangs. */
	readonly longestSilenceMs?: number;
	/** How often an unclear run is tried. */
	readonly attempts?: number;
}

/** One order at a time. */
export class Runner {
	readonly #options: Required<RunnerOptions>;
	#child: ChildProcess | undefined;

	constructor(options: RunnerOptions = {}) {
		this.#options = {
			config: `${ROOT}test/proof/mutation/vitest.config.ts`,
			longestSilenceMs: 240_000,
			attempts: 3,
			...options,
		};
	}

	async run(order: Order): Promise<Outcome> {
		let outcome = await this.#attempt(order);
		for (let attempt = 1; attempt < this.#options.attempts && outcome.result === "unclear"; attempt += 1) {
			outcome = await this.#attempt(order);
		}
		return outcome;
	}

	async #attempt(order: Order): Promise<Outcome> {
		const child = this.#child ?? (await start(this.#options.config));
		this.#child = child;
		const startedMs = Date.now();
		const outcome = await new Promise<Outcome>((resolve) => {
			const finish = (ending: Outcome | string) => {
				clearTimeout(timer);
				child.removeAllListeners();
				const tookMs = Date.now() - startedMs;
				resolve(
					typeof ending === "string" ? { ...order, result: "unclear", because: ending, reached: [], tookMs } : ending,
				);
			};
			const timer = setTimeout(() => finish("the tests did not end"), this.#options.longestSilenceMs);
			child.on("message", (message: "alive" | Outcome) => {
				timer.refresh();
				if (message !== "alive") finish(message);
			});
			child.once("exit", () => finish("the test process ended"));
			child.once("error", () => finish("the test process could not be reached"));
			child.send(order);
		});
		if (outcome.result === "unclear") {
			child.on("error", () => undefined);
			// With its children, because tests that hang do not end with their parent.
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
		// The group has ended.
	}
}

function start(config: string): Promise<ChildProcess> {
	const child = fork(`${ROOT}test/proof/mutation/worker.ts`, [config], {
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
