/**
 * Limits on unknown keys and sessions of an address whose authentications failed too often, before
 * D1 is read. A credential that was valid here is never refused for failures of its address.
 */
import type { Deps } from "../../deps";
import { recentMap } from "../../domain/recent";
import { type AddressCounters, REFUSED_MS } from "./addresses";
import type { Owner } from "./memory";
import { paced } from "./pacing";
import { tooManyFailures } from "./requests";

/**
 * Unknown keys that are still looked up for an address with too many failures, because one may be
 * valid.
 */
const MOST_LOOK_UPS = 40;
/** Bodies above this size are large: manifests of many files. */
const LARGE_BODY = 64 * 1024;
/**
 * Large bodies of one key or session in a second. A megabyte of JSON takes some 25 ms of processor
 * time.
 */
export const BODY_BYTES_A_SECOND = 2 * 1024 * 1024;
/** Hashes of keys and sessions that were valid recently. */
const MOST_GOOD = 5_000;

interface Good {
	readonly owner: Owner;
	/** False: the last request exceeded the credential's own limit, or it was valid no more. */
	readonly isWithinLimit: boolean;
}

/** One per isolate. */
export function createCredentialLimits(deps: Deps, { counterOf, counterBy, counterFor }: AddressCounters) {
	/** Credentials that were valid here recently. */
	const good = recentMap<Good>(MOST_GOOD);
	const readLate = (hash: string) => {
		const known = good.get(hash);
		if (known !== undefined) good.set(hash, { ...known, isWithinLimit: false });
	};
	const failuresOf = (address: string | null, nowMs: number) => counterBy(`keys ${counterOf(address, nowMs).key}`);

	return {
		/**
		 * Refuses an unknown key or session of an address with too many failed authentications.
		 * @throws {ApiError} `too_many_requests`
		 */
		admitCredential(address: string | null, hash: string, nowMs: number): void {
			if (deps.config.addressLimitScale === 0 || good.get(hash) !== undefined) return;
			const counter = failuresOf(address, nowMs);
			if (nowMs >= counter.refusedUntilMs) return;
			counter.d1Reads += 1;
			if (counter.d1Reads > MOST_LOOK_UPS) throw tooManyFailures(deps);
		},

		/** Records a valid key or session, with the owner of the memory that its requests take. */
		noteValid: (hash: string, owner: Owner): void => good.set(hash, { owner, isWithinLimit: true }),

		/** The owner of a key or session that was valid here recently. */
		ownerOf: (hash: string): Owner | undefined => good.get(hash)?.owner,

		/** Records that a key or session that was valid is so no more. */
		noteInvalid: readLate,

		/** Records that a key or session exceeded its own limit. */
		noteLimited: readLate,

		/**
		 * Whether D1 may be read before the limit of the key or session is known. A refused caller thus
		 * reads at most once.
		 */
		mayReadEarly: (hash: string): boolean => good.get(hash)?.isWithinLimit === true,

		/**
		 * Spreads the large bodies of a key or session over time, before they are parsed.
		 * @returns undefined when the body need not wait
		 * @throws {ApiError} `too_many_requests`, by the promise
		 */
		paceBody(hash: string, bytes: number, nowMs: number): Promise<void> | undefined {
			if (bytes <= LARGE_BODY) return undefined;
			const what = "This caller has sent too many large bodies";
			return paced(
				deps,
				counterFor(`bodies ${hash}`, nowMs),
				{ bytes, bytesASecond: BODY_BYTES_A_SECOND, what },
				nowMs,
			);
		},

		/** Records that the address has failed to authenticate too often. */
		noteFailing(address: string | null): void {
			const nowMs = deps.now();
			const counter = failuresOf(address, nowMs);
			if (nowMs < counter.refusedUntilMs) return;
			counter.refusedUntilMs = nowMs + REFUSED_MS;
			counter.d1Reads = 0;
		},
	};
}
