/**
 * Makes a race happen every time: another request runs whole between one request's first D1 round trip (its reading) and its second
 * (its writing).
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

/** The database with `between` run before its second round trip. */
export function beforeSecondTrip(
	d1: D1Database,
	between: () => Promise<void>,
): { readonly d1: D1Database; readonly trips: number } {
	let trips = 0;
	const racing = {
		withSession(constraint: D1SessionConstraint) {
			const session = d1.withSession(constraint);
			return {
				prepare: (text: string) => session.prepare(text),
				async batch(statements: D1PreparedStatement[]) {
					trips += 1;
					if (trips === 2) await between();
					return session.batch(statements);
				},
			};
		},
	};
	return {
		d1: racing as unknown as D1Database,
		get trips() {
			return trips;
		},
	};
}
