/** Counts of billed platform operations, reported by a counting copy of a Worker. */
export interface Counts {
	d1Trips: number;
	d1RowsRead: number;
	d1RowsWritten: number;
	queueMessages: number;
	r2ClassA: number;
	r2ClassB: number;
	/** Lines of console. */
	logLines: number;
	/** Batches that read a whole app for update checks; not billed as such. */
	appLoads: number;
	/** Size of the databases that were asked: a state, whose difference is growth. */
	d1Bytes: number;
}

/** Path that reports them. */
export const COUNTS_PATH = "/bench-counts";

/** Binding of a counting copy: its timers wait at most so many milliseconds. */
export const LONGEST_DELAY = "BENCH_LONGEST_DELAY_MS";

export const NOTHING: Readonly<Counts> = {
	d1Trips: 0,
	d1RowsRead: 0,
	d1RowsWritten: 0,
	queueMessages: 0,
	r2ClassA: 0,
	r2ClassB: 0,
	logLines: 0,
	appLoads: 0,
	d1Bytes: 0,
};
