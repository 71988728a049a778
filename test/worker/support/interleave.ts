/**
 * Makes a race happen every time: another request runs whole between one request's first D1 round
 * trip (its reading) and its second (its writing). The database may also be wrapped so that
 * anything happens before a certain round trip, or that it fails from one on.
 */
import { createApp } from "../../../src/app";
import type { Answer, World } from "./world";
import { requestThrough } from "./world";

/** The answer of `request`, with `between` run after its first round trip. */
export async function readThenWrite(
	world: World,
	request: (racing: Pick<World, "request">) => Promise<Answer>,
	between: () => Promise<Answer>,
): Promise<Answer> {
	const racing = beforeSecondTrip(world.deps.d1, async () => {
		const { status, body } = await between();
		if (status >= 300) throw new Error(`the request in between failed: ${JSON.stringify(body)}`);
	});
	const app = createApp({ ...world.deps, d1: racing.d1 });
	const answer = await request({ request: requestThrough(app) });
	if (racing.trips < 2) throw new Error("the request under test did not come to its second round trip");
	return answer;
}

export interface WatchedDatabase {
	readonly d1: D1Database;
	/** How many round trips were begun. */
	readonly trips: number;
}

/**
 * The database with `between` run before its second round trip, not counting the look-up of a
 * credential that is new to an isolate.
 */
export function beforeSecondTrip(d1: D1Database, between: () => Promise<unknown>): WatchedDatabase {
	const before = async (trip: number) => {
		if (trip === 2) await between();
	};
	return beforeEachTrip(d1, before);
}

/** An isolate looks a credential up alone before it reads more for it the first time. */
const LOOK_UP = /WHERE .*\b(key_hash|token_hash) = \?/s;

const WRITE = /^\s*(INSERT|UPDATE|DELETE)/i;

/**
 * The database with `before` called before each round trip, with its number from 1. An error that
 * `before` throws fails the round trip.
 * @param withLookUps by default a look-up of a credential alone is no round trip, unless a write
 * follows it, because then nothing else is read
 */
export function beforeEachTrip(
	d1: D1Database,
	before: (trip: number) => Promise<void> | void,
	withLookUps = false,
): WatchedDatabase {
	let trips = 0;
	let hasLookedUp = false;
	const watched = {
		withSession(constraint: D1SessionConstraint) {
			const session = d1.withSession(constraint);
			let texts: string[] = [];
			return {
				prepare(text: string) {
					texts.push(text);
					return session.prepare(text);
				},
				async batch(statements: D1PreparedStatement[]) {
					const isLookUp = texts.length === 1 && LOOK_UP.test(texts[0] ?? "");
					const isWrite = texts.some((text) => WRITE.test(text));
					texts = [];
					if (isLookUp && !withLookUps) {
						hasLookedUp = true;
						return session.batch(statements);
					}
					if (trips === 0 && hasLookedUp && isWrite) trips = 1;
					trips += 1;
					await before(trips);
					return session.batch(statements);
				},
			};
		},
	};
	return {
		d1: watched as unknown as D1Database,
		get trips() {
			return trips;
		},
	};
}
