/**
 * The result of a run for people: a line of sums when all is well, and for every failure what is
 * wrong, the request as a curl line, and the command that sends it again.
 */
export interface FuzzOptions {
	readonly seed: number;
	/** Spoiled requests in all; every operation gets `leastPerOperation` at least. */
	readonly requests: number;
	readonly leastPerOperation: number;
	/** The operation's id or its method and path; undefined: all. */
	readonly only?: string | undefined;
	/** Directory for the bodies of failing requests. */
	readonly failureDirectory: string;
	/** Stops looking after so many. */
	readonly mostFailures?: number;
	readonly progress?: (done: number, total: number, failures: number) => void;
}

export interface Failure {
	readonly operation: string;
	readonly number: number;
	readonly faults: readonly string[];
	readonly status: number | undefined;
	readonly mutations: readonly string[];
	readonly as: string;
	readonly curl: string;
	/** The command that sends it again. */
	readonly again: string;
	readonly answer: string;
}

export interface OperationCount {
	readonly name: string;
	readonly id: string;
	requests: number;
	/** Requests that were still routed to the operation. */
	reached: number;
	/** By status; requests that the runtime refused apart. */
	readonly statuses: Record<string, number>;
}

export interface FuzzResult {
	readonly seed: number;
	readonly requests: number;
	readonly operations: readonly OperationCount[];
	readonly failures: readonly Failure[];
	/** Invariants that are broken after all requests. */
	readonly aftermath: readonly string[];
	readonly seconds: number;
}
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
