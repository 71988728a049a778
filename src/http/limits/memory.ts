/**
 * Bounds the bytes that requests under way hold in the memory of an isolate: their bodies, segments
 * of uploads, and what is unpacked or read to check an upload. Callers with a credential and
 * strangers have separate budgets, so that strangers cannot keep out a caller. In each, an owner
 * has a share, and the owners of one organization or network have one together, because a person
 * can have many keys, accounts and addresses.
 *
 * A request that finds no room waits, with its body unread, and is then refused. If the room of all
 * is used up, a request ends, after a second, bodies that have not arrived: the oldest of the group
 * that holds most, while that is more than its own group holds. So nobody keeps others out by
 * sending slowly, whatever number of groups they have. A client that hangs up ends its request, and
 * then a promise of that request may never settle: so work is registered with `waitUntil`, and its
 * bytes count as free after `LIFETIME_MS` at the latest.
 */
import type { Principal } from "../../authz/principal";
import type { uploaderColumns } from "../../db/uploads";
import type { Deps } from "../../deps";
import { tooManyRequests } from "./requests";

const MEBIBYTE = 1024 * 1024;
/**
 * Bytes under way in an isolate: of one owner, of its group, and of all. The platform stops an
 * isolate at 128 MB.
 */
export const CALLER_BYTES = { each: 8 * MEBIBYTE, group: 32 * MEBIBYTE, all: 64 * MEBIBYTE };
export const ANONYMOUS_BYTES = { each: 4 * MEBIBYTE, group: 8 * MEBIBYTE, all: 12 * MEBIBYTE };

/** Refused uploads at the same time: one of an owner (upload-errors.ts). */
const REFUSALS = { each: 1, group: 4, all: 16 };

/**
 * Large directories of zips that are read at the same time
 * (features/channels/bundle-difference.ts): one of an owner, because a small upload can have one
 * whose reading takes a tenth of a second and some megabytes.
 */
export const DIRECTORIES = { each: 1, group: 2, all: 4 };

/**
 * Longer than any work that holds memory: a body has two minutes (body.ts), a fetch of a bundle
 * half a minute.
 */
export const LIFETIME_MS = 180_000;
const WAIT_MS = 10_000;
/**
 * After this, a request that waits for the room of all may end a body that has not arrived, and
 * each second another one.
 */
const MAKE_ROOM_EVERY_MS = 1_000;
const POLL_MS = 50;
const RETRY_SECONDS = 5;

export type WaitUntil = (work: Promise<unknown>) => void;

export interface Owner {
	/** A CI job, a key, an account, what sends a body, an address, or a webhook of a provider. */
	readonly name: string;
	/** The organization, the account of a session in several organizations, or the network. */
	readonly group: string;
}

/** The bytes that work holds. */
export interface Holding {
	/** Says that the work goes on, for work that may take longer than `LIFETIME_MS`. */
	readonly goesOn: () => void;
	/**
	 * While bytes of the client arrive: resolves when another group needs the room, and the work
	 * then ends.
	 */
	readonly untilNeeded: () => Promise<void>;
	/** They have arrived, and the room stays the work's. */
	readonly arrived: () => void;
}

interface Budget {
	/**
	 * Counts the bytes while the work runs. Work must not take from the same budget again.
	 * @param bytes more than a share is let in if nothing else of that share is held
	 * @throws {ApiError} `too_many_requests` if there is no room within ten seconds; uploads answer it
	 * as 503 (upload-errors.ts)
	 */
	during<Value>(
		owner: Owner,
		bytes: number,
		waitUntil: WaitUntil,
		work: (holding: Holding) => Promise<Value>,
	): Promise<Value>;
	isHeldBy(owner: Owner): boolean;
	/** Bytes that are counted now. */
	used(): number;
}

export interface Memory {
	readonly callers: Budget;
	readonly anonymous: Budget;
	/** Counts refused uploads, instead of bytes. */
	readonly refusals: Budget;
	/** Counts large directories of zips. */
	readonly directories: Budget;
}

/**
 * The owner of the memory of work for an organization: a CI job, because no job waits for another
 * one, or a key, or an account.
 * @param orgId whose app or channel the work is about; a body is read before that is known, so it
 * counts for `organizationOf` its caller
 */
export const ownerOf = (
	{ created_by, created_by_key, created_by_job }: ReturnType<typeof uploaderColumns>,
	orgId: string,
): Owner => ({ name: created_by_job ?? created_by_key ?? created_by, group: orgId });

/**
 * The organization of a key, and the only one of an account. An account of several has a share of
 * its own: in that of one of them, the others there could keep it out of all.
 */
export function organizationOf(principal: Principal): string {
	if (principal.kind === "key") return principal.orgId;
	const [orgId, ...others] = new Set(principal.bindings.map((binding) => binding.orgId));
	return orgId === undefined || others.length > 0 ? principal.userId : orgId;
}

/** One per isolate. */
export function createMemory(deps: Pick<Deps, "now" | "delay">): Memory {
	return {
		callers: createBudget(deps, CALLER_BYTES),
		anonymous: createBudget(deps, ANONYMOUS_BYTES),
		refusals: createBudget(deps, REFUSALS),
		directories: createBudget(deps, DIRECTORIES),
	};
}

interface Taken {
	readonly owner: Owner;
	readonly bytes: number;
	atMs: number;
	/** Set while its body arrives. */
	end: (() => void) | undefined;
	/** Its bytes are free as soon as the request notices. */
	isEnded: boolean;
}

const sum = (of: readonly Taken[]) => of.reduce((bytes, one) => bytes + one.bytes, 0);

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
		const one: Taken = { owner, bytes, atMs: now(), end: undefined, isEnded: false };
		taken.add(one);
		for (const [share] of shares) held.set(share, (held.get(share) ?? 0) + bytes);
		total += bytes;
		return one;
	}

	const ofGroup = (name: string) => held.get(`group ${name}`) ?? 0;

	/**
	 * Ends unfinished bodies until there is room: each time the oldest of the group that holds
	 * most, while that is more than the waiting one.
	 */
	function makeRoom(owner: Owner, bytes: number): void {
		const ended = [...taken].filter(({ isEnded }) => isEnded);
		const endedOf = (name: string) => sum(ended.filter((one) => one.owner.group === name));
		let missing = total + bytes - all - sum(ended);
		while (missing > 0) {
			const unfinished = [...taken].filter(({ end, isEnded }) => end !== undefined && !isEnded);
			const heldBy = ({ owner: { group: name } }: Taken) => ofGroup(name) - endedOf(name);
			const most = Math.max(0, ...unfinished.map(heldBy));
			const oldest = unfinished.find((one) => heldBy(one) === most);
			if (oldest === undefined || most <= ofGroup(owner.group)) return;
			oldest.isEnded = true;
			ended.push(oldest);
			missing -= oldest.bytes;
			oldest.end?.();
		}
	}

	async function waitFor(owner: Owner, bytes: number): Promise<Taken> {
		for (let waitedMs = POLL_MS; waitedMs <= WAIT_MS; waitedMs += POLL_MS) {
			await delay(POLL_MS);
			const one = take(owner, bytes);
			if (one !== undefined) return one;
			if (waitedMs % MAKE_ROOM_EVERY_MS === 0) makeRoom(owner, bytes);
		}
		throw tooManyRequests("Too many large bodies and uploads are under way; send fewer at a time", RETRY_SECONDS);
	}

	return {
		async during(owner, bytes, waitUntil, work) {
			const counted = Math.min(bytes, all);
			const one = take(owner, counted) ?? (await waitFor(owner, counted));
			const done = () => free(one);
			const holding: Holding = {
				goesOn() {
					if (!taken.delete(one)) return;
					one.atMs = now();
					taken.add(one);
				},
				untilNeeded: () =>
					new Promise((resolve) => {
						one.end = resolve;
					}),
				arrived() {
					one.end = undefined;
				},
			};
			let working: ReturnType<typeof work>;
			try {
				working = work(holding);
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
