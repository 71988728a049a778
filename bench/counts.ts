/** What a counting copy of a Worker tells: how often it asked the platform for what is billed. */
export interface Counts {
	d1Trips: number;
	d1RowsRead: number;
	d1RowsWritten: number;
	queueMessages: number;
	r2ClassA: number;
	r2ClassB: number;
}

/** Where it tells. */
export const COUNTS_PATH = "/bench-counts";

export const NOTHING: Readonly<Counts> = {
	d1Trips: 0,
	d1RowsRead: 0,
	d1RowsWritten: 0,
	queueMessages: 0,
	r2ClassA: 0,
	r2ClassB: 0,
};
