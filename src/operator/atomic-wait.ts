/**
 * Keeps Miniflare's synchronous calls from waking early. Its worker thread stores the result and notifies in two steps; under load, the
 * notification of one call arrives while the next one waits, which then finds no answer and fails with "false == true". A wait without a
 * time limit therefore goes on until the value has changed, as its caller expects.
 */
const wait = Atomics.wait;

function waitForChange(array: Int32Array, index: number, value: number, timeoutMs?: number) {
	let result = wait(array, index, value, timeoutMs);
	while (timeoutMs === undefined && result === "ok" && Atomics.load(array, index) === value) {
		result = wait(array, index, value);
	}
	return result;
}

/** Changes `Atomics.wait` of this process; further calls change nothing. */
export function ignoreEarlyNotifications(): void {
	Atomics.wait = waitForChange as typeof Atomics.wait;
}
