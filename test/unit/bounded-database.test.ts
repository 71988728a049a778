/**
 * The bound on batches that wait for a database, also after clients hung up, whose batches never
 * end.
 */
import { expect, test } from "vitest";
import { openDb } from "../../src/db/batch";
import { boundedDatabase } from "../../src/db/bounded-database";

const MOST_WAITING = 300;

/** A database whose answers wait until they are called. */
function heldDatabase() {
	const answers: (() => void)[] = [];
	const session = {
		prepare: () => ({ bind: () => ({}) }),
		batch: () => new Promise((resolve) => answers.push(() => resolve([{ results: [], meta: { changes: 0 } }]))),
	};
	const d1 = { withSession: () => session } as unknown as D1Database;
	return { d1, answers };
}

const STATEMENT = { sql: "SELECT 1", parameters: [] } as never;
const REFUSED = { code: "service_unavailable", status: 503, moreInfo: { reason: "overloaded", retryAfterSeconds: 5 } };

test("is a refusal with a time to try again, and ends as soon as the database answers", async () => {
	const { d1, answers } = heldDatabase();
	const bounded = boundedDatabase(d1, () => 0);
	const ask = () => openDb(bounded, "first-primary").batch([STATEMENT]);
	const waiting = Array.from({ length: MOST_WAITING }, ask);
	await expect(ask()).rejects.toMatchObject(REFUSED);
	expect(answers).toHaveLength(MOST_WAITING);

	answers[0]?.();
	await waiting[0];
	waiting.push(ask());
	await expect(ask()).rejects.toMatchObject(REFUSED);
	for (const answer of answers) answer();
	await Promise.all(waiting);
});

test("counts a batch that never ends for half a minute only", async () => {
	const { d1, answers } = heldDatabase();
	let nowMs = 0;
	const ask = () => openDb(boundedDb, "first-primary").batch([STATEMENT]);
	const boundedDb = boundedDatabase(d1, () => nowMs);
	for (let count = 0; count < MOST_WAITING; count++) ask().catch(() => undefined);
	nowMs = 29_999;
	await expect(ask()).rejects.toMatchObject(REFUSED);
	nowMs = 30_000;
	ask().catch(() => undefined);
	expect(answers).toHaveLength(MOST_WAITING + 1);
});
