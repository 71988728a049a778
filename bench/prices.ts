/**
 * Cloudflare's list prices and the cost of a request. Excludes allowances and the monthly fee: the
 * marginal cost of a million requests.
 */

export const OPERATIONS_OF_MESSAGE = 3;

/**
 * https://developers.cloudflare.com/workers/platform/pricing/ and the pages of D1, Queues and R2,
 * paid plan, US dollars a million.
 */
export const PRICES = {
	asOf: "2026-11-21",
	request: 0.3,
	cpuMs: 0.02,
	d1RowRead: 0.001,
	d1RowWritten: 1,
	/** A gigabyte for a month. */
	d1Storage: 0.75,
	/** A message is written, read and acknowledged. */
	queueMessage: OPERATIONS_OF_MESSAGE * 0.4,
	r2ClassA: 4.5,
	r2ClassB: 0.36,
	/** Workers Logs. */
	logLine: 0.6,
} as const;

/** The monthly fee of the Workers Paid plan, and what it includes each month. */
export const INCLUDED = {
	fee: 5,
	requests: 10e6,
	cpuMs: 30e6,
	d1RowsRead: 25e9,
	d1RowsWritten: 50e6,
	d1Gigabytes: 5,
	queueOperations: 1e6,
	r2ClassB: 10e6,
	/** For bundles: a gigabyte more is $0.015 a month. */
	r2Gigabytes: 10,
} as const;

/** Usage of one operation. */
export interface Usage {
	readonly requests: number;
	readonly cpuMs: number;
	readonly d1RowsRead: number;
	readonly d1RowsWritten: number;
	readonly queueMessages: number;
	readonly r2ClassA: number;
	readonly r2ClassB: number;
	readonly logLines: number;
}

/** US dollars per million operations. */
export function dollarsPerMillion(usage: Usage): number {
	return (
		usage.requests * PRICES.request +
		usage.cpuMs * PRICES.cpuMs +
		usage.d1RowsRead * PRICES.d1RowRead +
		usage.d1RowsWritten * PRICES.d1RowWritten +
		usage.queueMessages * PRICES.queueMessage +
		usage.r2ClassA * PRICES.r2ClassA +
		usage.r2ClassB * PRICES.r2ClassB +
		usage.logLines * PRICES.logLine
	);
}
