/**
 * What a failure says, read alike inside the tests (sweep.ts) and by the process that runs them (worker.ts): were one of them to take a
 * test that ran out of time for one that missed a mutant, the run would prove nothing.
 */

/** The first line of what was thrown, which anything may be. */
export function messageOf(error: unknown): string {
	return String((error as { message?: unknown }).message ?? error).split("\n")[0] ?? "";
}

/** There was no time: that says nothing about a mutant. */
export function ranOutOfTime(message: string): boolean {
	return /^(Error: )?(Test|Hook) timed out in \d+ms/.test(message);
}
