/**
 * The budget of bytes that requests under way hold: shares, waiting, and what is freed when a
 * client hung up.
 */
import { expect, test } from "vitest";
import type { Principal } from "../../src/authz/principal";
import { createBudget, type Holding, LIFETIME_MS, organizationOf } from "../../src/http/limits/memory";

function prepared() {
	let nowMs = 0;
	const registered: Promise<unknown>[] = [];
	const budget = createBudget({ now: () => nowMs, delay: async () => undefined }, { each: 10, group: 18, all: 25 });
	const hold = (
		name: string,
		bytes: number,
		work: (holding: Holding) => Promise<unknown> = () => new Promise(() => undefined),
		group = name,
	) => budget.during({ name, group }, bytes, (task) => void registered.push(task), work);
	return { budget, hold, registered, later: (ms: number) => (nowMs += ms) };
}
const BUSY = { code: "too_many_requests" };

test("an owner has a share, a single request may exceed it, and all have a bound", async () => {
	const { budget, hold } = prepared();
	hold("one", 6);
	await expect(hold("one", 6)).rejects.toMatchObject(BUSY);
	expect(await hold("one", 4, async () => "done")).toBe("done");
	hold("two", 15);
	await expect(hold("three", 5)).rejects.toMatchObject(BUSY);
	expect(await hold("three", 4, async () => "done")).toBe("done");
	expect(budget.used()).toBe(21);
});

test("owners of one group have a share together", async () => {
	const { hold } = prepared();
	const done = async () => "done";
	hold("one", 9, undefined, "many");
	hold("two", 8, undefined, "many");
	await expect(hold("three", 2, done, "many")).rejects.toMatchObject(BUSY);
	expect(await hold("three", 1, done, "many")).toBe("done");
	expect(await hold("four", 8, done, "few")).toBe("done");
});

test("bytes are free after success, failure and a request that never settles", async () => {
	const { budget, hold, registered, later } = prepared();
	await hold("one", 10, async () => undefined);
	await expect(hold("one", 10, () => Promise.reject(new Error("broken")))).rejects.toThrow("broken");
	await Promise.all(registered);
	expect(budget.used()).toBe(0);
	hold("one", 10);
	expect(registered).toHaveLength(3);
	await expect(hold("one", 10)).rejects.toMatchObject(BUSY);
	later(LIFETIME_MS);
	expect(await hold("one", 10, async () => "done")).toBe("done");
});

test("bodies that have not arrived end for a group that holds less: the oldest of the group that holds most", async () => {
	const { hold } = prepared();
	const ended: string[] = [];
	const slow = (name: string, bytes: number, group: string, hasArrived = false) =>
		hold(
			name,
			bytes,
			async ({ untilNeeded, arrived }) => {
				const needed = untilNeeded();
				if (hasArrived) arrived();
				await needed;
				ended.push(name);
			},
			group,
		);
	slow("arrived", 6, "large", true);
	slow("first", 6, "large");
	slow("second", 6, "large");
	slow("small", 6, "small");
	expect(await hold("new", 4, async () => "done")).toBe("done");
	expect(ended).toEqual(["first"]);
	expect(await hold("more", 7, async () => "done", "new")).toBe("done");
	expect(ended).toEqual(["first"]);
	expect(await hold("larger", 14, async () => "done", "new")).toBe("done");
	expect(ended).toEqual(["first", "second", "small"]);
	slow("third", 9, "one");
	slow("fourth", 9, "two");
	await expect(hold("fifth", 9, async () => "done", "one")).rejects.toMatchObject(BUSY);
});

test.each([
	["a key, that of the key", { kind: "key", orgId: "o", userId: "a", bindings: [{ orgId: "p" }] }, "o"],
	["an account of one organization, that one", account("o", "o"), "o"],
	["an account of several, its own", account("o", "p"), "a"],
	["an account of none, its own", account(), "a"],
])("bodies count in the share of an organization: for %s", (_what, principal, group) => {
	expect(organizationOf(principal as unknown as Principal)).toBe(group);
});

function account(...organizations: readonly string[]) {
	return { kind: "session", userId: "a", bindings: organizations.map((orgId) => ({ orgId })) };
}
