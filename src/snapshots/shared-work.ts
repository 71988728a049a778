/**
 * Work that several requests of an isolate share, such as one load of an app for all checks that
 * miss it.
 *
 * - The request that begins the work keeps it alive with `waitUntil`, also after its client hung
 *   up: otherwise the platform ends the request, and for the others the promise never settles, or
 *   rejects (by the version of the runtime). Those that join register their wait, which ends in any
 *   case, and begin the work again if its promise rejects.
 * - No request waits longer than to its own deadline, nor longer than the lifetime of work that
 *   another one began.
 * - Work that has not ended after its lifetime counts as dead: the next request begins it again.
 * - An error that concerns only the request that began the work, such as a limit on its address,
 *   reaches no other request.
 */
import { ApiError } from "../errors";
import { before, type Clock, LATE, type Waiter } from "./freshness";

const LIFETIME_MS = 5_000;
/**
 * Keys can have names that strangers choose, and dead work is only dropped when its key comes
 * again, or beyond this number.
 */
const MOST_KEYS = 1_000;

interface Running<Value> {
	readonly work: Promise<Value>;
	readonly deadAtMs: number;
}

const ignore = () => undefined;

export const isUnavailable = (error: unknown): boolean =>
	error instanceof ApiError && error.code === "service_unavailable";

export class SharedWork<Value> {
	readonly #clock: Clock;
	readonly #running = new Map<string, Running<Value>>();

	constructor(clock: Clock) {
		this.#clock = clock;
	}

	get size(): number {
		return this.#running.size;
	}

	isRunning(key: string): boolean {
		const running = this.#running.get(key);
		return running !== undefined && this.#clock.now() < running.deadAtMs;
	}

	/** Joins the work of this key, or begins it. */
	async join(key: string, waiter: Waiter, begin: () => Promise<Value>): Promise<Value | typeof LATE> {
		const { waitUntil, deadlineMs } = waiter;
		for (let shared = this.#running.get(key); shared !== undefined; shared = this.#running.get(key)) {
			const { work, deadAtMs } = shared;
			const nowMs = this.#clock.now();
			if (nowMs < deadAtMs) {
				const longestMs = nowMs + LIFETIME_MS;
				const isOwn = deadlineMs !== undefined && deadlineMs <= longestMs;
				const waiting = before(this.#clock, isOwn ? deadlineMs : longestMs, work);
				waitUntil(waiting.catch(ignore));
				try {
					const value = await waiting;
					if (value !== LATE || isOwn) return value;
				} catch (error) {
					if (isUnavailable(error)) throw error;
				}
			}
			this.#drop(key, shared);
		}
		const running = { work: begin(), deadAtMs: this.#clock.now() + LIFETIME_MS };
		if (this.#running.size >= MOST_KEYS) this.forget((other) => !this.isRunning(other));
		this.#running.set(key, running);
		const done = () => this.#drop(key, running);
		waitUntil(running.work.then(done, done));
		return before(this.#clock, deadlineMs, running.work);
	}

	/** Requests from now on begin the work again; of all keys unless some are meant. */
	forget(isMeant: (key: string) => boolean = () => true): void {
		for (const key of this.#running.keys()) if (isMeant(key)) this.#running.delete(key);
	}

	#drop(key: string, running: Running<Value>): void {
		if (this.#running.get(key) === running) this.#running.delete(key);
	}
}
