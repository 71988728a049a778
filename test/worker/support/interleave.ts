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
	let trips = 0;
	const d1 = {
		withSession(constraint: D1SessionConstraint) {
			const session = world.deps.d1.withSession(constraint);
			return {
				prepare: (text: string) => session.prepare(text),
				async batch(statements: D1PreparedStatement[]) {
					trips += 1;
					if (trips === 2) {
						const { status, body } = await between();
						if (status >= 300) throw new Error(`the request in between failed: ${JSON.stringify(body)}`);
					}
					return session.batch(statements);
				},
			};
		},
	} as unknown as D1Database;
	const app = createApp({ ...world.deps, d1 });
	const answer = await request({ request: requestThrough(app) });
	if (trips < 2) throw new Error("the request under test did not come to its second round trip");
	return answer;
}
