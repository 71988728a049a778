/**
 * Work that requests share: who began it keeps it alive, who joins waits until a deadline, and work
 * that never ends is begun again. The platform never settles promises of a request whose client
 * hung up, so a promise that is never settled stands for one.
 */
import { describe, expect, test } from "vitest";
import { ApiError, serviceUnavailable } from "../../src/errors";
import { LATE } from "../../src/snapshots/freshness";
import { SharedWork } from "../../src/snapshots/shared-work";

function prepared() {
	let nowMs = 1_000_000;
	const timers: { atMs: number; wake: () => void }[] = [];
	const kept: Promise<unknown>[] = [];
	const work = new SharedWork<string>({
		now: () => nowMs,
		deadline: (ms) => new Promise((wake) => void timers.push({ atMs: nowMs + ms, wake })),
	});
	return {
		work,
		kept,
		nowMs: () => nowMs,
		waiter: (waitMs?: number) => ({
			waitUntil: (task: Promise<unknown>) => void kept.push(task),
			deadlineMs: waitMs === undefined ? undefined : nowMs + waitMs,
		}),
		async pass(ms: number) {
			nowMs += ms;
			for (const { atMs, wake } of timers) if (atMs <= nowMs) wake();
			for (let turn = 0; turn < 20; turn += 1) await Promise.resolve();
		},
	};
}

const never = () => new Promise<string>(() => undefined);

describe("shared work", () => {
	test("is begun once, and registered by who began it and by who joined, in the same turn", async () => {
		const { work, kept, waiter } = prepared();
		let begun = 0;
		const begin = async () => `result ${++begun}`;
		const first = work.join("app", waiter(), begin);
		expect(kept).toHaveLength(1);
		const second = work.join("app", waiter(500), begin);
		expect(kept).toHaveLength(2);
		expect(await Promise.all([first, second])).toEqual(["result 1", "result 1"]);
		expect(await work.join("app", waiter(), begin)).toBe("result 2");
	});

	test("ends the wait of each request at its own deadline, and goes on", async () => {
		const { work, waiter, pass } = prepared();
		let finish: (value: string) => void = () => undefined;
		const begin = () => new Promise<string>((resolve) => (finish = resolve));
		const [patient, own, joined] = [
			work.join("app", waiter(), begin),
			work.join("app", waiter(500), never),
			work.join("app", waiter(2_000), never),
		];
		await pass(500);
		expect(await own).toBe(LATE);
		finish("done");
		expect(await Promise.all([patient, joined])).toEqual(["done", "done"]);
	});

	test("of a client that hung up is begun again after its lifetime, also for those that wait", async () => {
		const { work, waiter, pass } = prepared();
		void work.join("app", waiter(), never);
		const waiting = work.join("app", waiter(), async () => "again");
		await pass(4_999);
		expect(work.isRunning("app")).toBe(true);
		await pass(1);
		expect(await waiting).toBe("again");
	});

	test("that is dead is dropped when a thousand other keys come", async () => {
		const { work, waiter, pass } = prepared();
		for (let key = 0; key < 1_000; key++) void work.join(`device ${key}`, waiter(), never);
		await pass(5_000);
		void work.join("device 1000", waiter(), never);
		expect(work.size).toBe(1);
	});

	test("fails for all if the database does not answer, and for its own request alone otherwise", async () => {
		const { work, waiter } = prepared();
		const limited = async () => Promise.reject(new ApiError("too_many_requests", "Slow down."));
		const own = work.join("app", waiter(), limited);
		const other = work.join("app", waiter(), async () => "admitted");
		await expect(own).rejects.toMatchObject({ code: "too_many_requests" });
		expect(await other).toBe("admitted");
		const down = async () => Promise.reject(serviceUnavailable(new Error("down")));
		const both = [work.join("app", waiter(), down), work.join("app", waiter(), async () => "never begun")];
		for (const each of both) await expect(each).rejects.toMatchObject({ code: "service_unavailable" });
	});

	test("that was forgotten is begun again by the next request, and its end does not end the new one", async () => {
		const { work, waiter } = prepared();
		let finish: (value: string) => void = () => undefined;
		const old = work.join("app", waiter(), () => new Promise<string>((resolve) => (finish = resolve)));
		work.forget();
		const next = work.join("app", waiter(), never);
		finish("old");
		expect(await old).toBe("old");
		expect(work.isRunning("app")).toBe(true);
		void next;
	});
});
