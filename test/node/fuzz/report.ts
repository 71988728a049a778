/**
 * The result of a run for people: a line of sums when all is well, and for every failure what is wrong, the request as a curl line, and
 * the command that sends it again.
 */
import type { FuzzResult } from "./run";

export function reportOf(result: FuzzResult): string {
	const { failures, aftermath, operations } = result;
	const statuses = new Map<string, number>();
	for (const { statuses: own } of operations) {
		for (const [status, count] of Object.entries(own)) statuses.set(status, (statuses.get(status) ?? 0) + count);
	}
	const reached = operations.reduce((sum, operation) => sum + operation.reached, 0);
	const sums = [...statuses]
		.sort(([left], [right]) => left.localeCompare(right))
		.map(([status, count]) => `${status}: ${count}`);
	return [
		...failures.map((failure) =>
			[
				`FAILED ${failure.operation}, request ${failure.number}, sent by ${failure.as} (${failure.mutations.join(", ")})`,
				...failure.faults.map((fault) => `  ${fault}`),
				`  answer: ${failure.status} ${failure.answer.slice(0, 400)}`,
				`  ${failure.curl}`,
				`  ${failure.again}`,
				"",
			].join("\n"),
		),
		...aftermath.map((fault) => `FAILED afterwards: ${fault}`),
		`${result.requests} spoiled requests to ${operations.length} operations in ${result.seconds} s with --seed ${result.seed}: ` +
			`${failures.length + aftermath.length} failures.`,
		`${reached} were answered by the operation that they were made for. Answers by status: ${sums.join(", ")}.`,
	].join("\n");
}
