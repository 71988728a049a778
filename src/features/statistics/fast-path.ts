/**
 * POST /stats on the fast path (src/http/fast-path.ts): plain bodies with a single event. It counts nothing itself, because the endpoint
 * accepts reports by the same code (accept.ts).
 */
import type { DeviceState } from "../../http/device-state";
import { type FastAnswer, type FastEndpoint, type FastRequest, limitedDatabase } from "../../http/fast-path";
import { accept, acceptOne, type Refused } from "./accept";
import { readReport, type StatsEvent } from "./report-body";

export const fastReport: FastEndpoint = {
	path: "/stats",
	answer(asked, state) {
		const report = readReport(asked.text);
		if (report === undefined) return undefined;
		const snapshot = state.snapshots.fresh(report.app_id, asked.nowMs);
		if (snapshot === undefined) return fromDatabase(report, asked, state);
		const refused = acceptOne({ ...state, ...asked }, snapshot, report);
		return refused instanceof Promise ? refused.then(answerOf) : answerOf(refused);
	},
	async verify(answer) {
		const { verifyAnswer } = await import("./ingest");
		verifyAnswer(answer);
	},
};

async function fromDatabase(report: StatsEvent, asked: FastRequest, state: DeviceState): Promise<FastAnswer> {
	const db = limitedDatabase(state, asked.address);
	const refused = await accept({ ...state, ...asked, db }, [report]);
	return { ...answerOf(refused.get(report.app_id)), trips: db.trips };
}

const OK_TEXT = JSON.stringify({ status: "ok" });

function answerOf(refused: Refused | undefined): FastAnswer {
	return { text: refused === undefined ? OK_TEXT : JSON.stringify({ status: "error", ...refused }) };
}
