/**
 * Bounds the bytes that requests under way hold in the memory of an isolate: their bodies, segments of uploads, and what is unpacked or read to
 * check an upload. Callers with a credential and strangers have separate budgets, so that strangers cannot keep out a caller. In each, an owner has a share, and
 * the owners of one organization or network have one together, because a person can have many keys and addresses.
 *
 * A request that finds no room waits, with its body unread, and is then refused. A client that hangs up ends its request, and then a promise of
 * that request may never settle: so work is registered with `waitUntil`, and its bytes count as free after `LIFETIME_MS` at the latest.
 */
import type { Deps } from "../../deps";
import { tooManyRequests } from "./requests";

const MEBIBYTE = 1024 * 1024;
/** Bytes under way in an isolate, of which the platform stops one at 128 MB: of one owner, of its group, and of all. */
export const CALLER_BYTES = { each: 8 * MEBIBYTE, group: 32 * MEBIBYTE, all: 64 * MEBIBYTE };
export const STRANGER_BYTES = { each: 4 * MEBIBYTE, group: 8 * MEBIBYTE, all: 12 * MEBIBYTE };

/** Refused uploads at the same time: one of an owner (upload-errors.ts). */
const REFUSALS = { each: 1, group: 4, all: 16 };

/** Longer than any work that holds memory: a body has two minutes (body.ts), a fetch of a bundle half a minute. */
export const LIFETIME_MS = 180_000;
const WAIT_MS = 10_000;
const POLL_MS = 50;
const RETRY_SECONDS = 5;

export type WaitUntil = (work: Promise<unknown>) => void;

export interface Owner {
	/** A key, an account, an address, or a webhook of a provider. */
	readonly name: string;
	/** The organization, the account of a session, or the network. */
	readonly group: string;
}

export interface Budget {
	/**
	 * Counts the bytes while the work runs. Work must not take from the same budget again.
	 * @param work gets a function that says that it goes on, for work that may take longer than `LIFETIME_MS`
	 * @param bytes more than a share is let in if nothing else of that share is held
	 * @throws {ApiError} `too_many_requests` if there is no room within ten seconds; uploads answer it as 503 (upload-errors.ts)
	 */
	during<Value>(
		owner: Owner,
		bytes: number,
		waitUntil: WaitUntil,
		work: (goesOn: () => void) => Promise<Value>,
	): Promise<Value>;
	isHeldBy(owner: Owner): boolean;
	/** Bytes that are counted now. */
	used(): number;
}

export interface Memory {
	readonly callers: Budget;
	readonly strangers: Budget;
	/** Counts refused uploads, instead of bytes. */
	readonly refusals: Budget;
}

/** One per isolate. */
export function createMemory(deps: Pick<Deps, "now" | "delay">): Memory {
	return {
		callers: createBudget(deps, CALLER_BYTES),
		strangers: createBudget(deps, STRANGER_BYTES),
		refusals: createBudget(deps, REFUSALS),
	};
}

interface Taken {
	readonly owner: Owner;
	readonly bytes: number;
	atMs: number;
}

export function createBudget(
	{ now, delay }: Pick<Deps, "now" | "delay">,
	{ each, group, all }: { readonly each: number; readonly group: number; readonly all: number },
): Budget {
	/** In the order of time, so that the oldest is first. */
	const taken = new Set<Taken>();
	const held = new Map<string, number>();
	let total = 0;

	const sharesOf = (owner: Owner) =>
		[
			[`owner ${owner.name}`, each],
			[`group ${owner.group}`, group],
		] as const;

	function free(one: Taken): void {
		if (!taken.delete(one)) return;
		total -= one.bytes;
		for (const [share] of sharesOf(one.owner)) {
			const rest = (held.get(share) ?? 0) - one.bytes;
			if (rest > 0) held.set(share, rest);
			else held.delete(share);
		}
	}

	function take(owner: Owner, bytes: number): Taken | undefined {
		for (const one of taken) {
			if (now() - one.atMs < LIFETIME_MS) break;
			free(one);
		}
		const shares = sharesOf(owner);
		const isUsedUp = shares.some(([share, most]) => {
			const before = held.get(share) ?? 0;
			return before > 0 && before + bytes > most;
		});
		if (isUsedUp || total + bytes > all) return undefined;
		const one: Taken = { owner, bytes, atMs: now() };
		taken.add(one);
		for (const [share] of shares) held.set(share, (held.get(share) ?? 0) + bytes);
		total += bytes;
		return one;
	}

	async function waitFor(owner: Owner, bytes: number): Promise<Taken> {
		for (let waitedMs = 0; waitedMs < WAIT_MS; waitedMs += POLL_MS) {
			await delay(POLL_MS);
			const one = take(owner, bytes);
			if (one !== undefined) return one;
		}
		throw tooManyRequests("Too many large bodies and uploads are under way; send fewer at a time", RETRY_SECONDS);
	}

	return {
		async during(owner, bytes, waitUntil, work) {
			const counted = Math.min(bytes, all);
			const one = take(owner, counted) ?? (await waitFor(owner, counted));
			const done = () => free(one);
			const goesOn = () => {
				if (!taken.delete(one)) return;
				one.atMs = now();
				taken.add(one);
			};
			let working: ReturnType<typeof work>;
			try {
				working = work(goesOn);
			} catch (error) {
				done();
				throw error;
			}
			waitUntil(working.then(done, done));
			return working;
		},
		isHeldBy: ({ name }) => held.has(`owner ${name}`),
		used: () => total,
	};
}
