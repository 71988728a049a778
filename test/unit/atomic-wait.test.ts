/** A wait of Miniflare's synchronous calls ends with its own answer, not with the notification of the call before. */
import { Worker } from "node:worker_threads";
import { expect, test } from "vitest";
import { ignoreEarlyNotifications } from "../../src/operator/atomic-wait";

/** Notifies the waiting thread without a new value, and stores the value only when that thread waits again. */
const NOTIFIER = `
const { workerData: cell } = require("node:worker_threads");
const pause = new Int32Array(new SharedArrayBuffer(4));
const notify = () => { while (Atomics.notify(cell, 0) === 0) Atomics.wait(pause, 0, 0, 1); };
notify();
Atomics.wait(pause, 0, 0, 50);
Atomics.store(cell, 0, 7);
Atomics.notify(cell, 0);
`;

test("a notification without a new value does not end a wait", async () => {
	ignoreEarlyNotifications();
	const cell = new Int32Array(new SharedArrayBuffer(4));
	const notifier = new Worker(NOTIFIER, { eval: true, workerData: cell });
	expect(Atomics.wait(cell, 0, 0)).toBe("ok");
	expect(Atomics.load(cell, 0)).toBe(7);
	await notifier.terminate();
});

test("a wait with a time limit ends in time", () => {
	ignoreEarlyNotifications();
	expect(Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1)).toBe("timed-out");
});
