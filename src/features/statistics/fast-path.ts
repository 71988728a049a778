/**
 * POST /stats on the fast path (src/http/fast-path.ts): plain bodies with a single event. It counts
 * nothing itself, because the endpoint accepts reports by the same code (accept.ts).
 */
import type { DeviceState } from "../../http/device-state";
import { type FastAnswer, type FastEndpoint, type FastRequest, limitedDatabase } from "../../http/fast-path";
import { accept, acceptOne, type Outcome, statusOf } from "./accept";
import { readReport, type StatsEvent } from "./report-body";

export const fastReport: FastEndpoint = {
	path: "/stats",
	answer(asked, state) {
		const report = readReport(asked.text);
		if (report === undefined) return undefined;
		const snapshot = state.snapshots.fresh(report.app_id, asked.nowMs);
		if (snapshot === undefined) return fromDatabase(report, asked, state);
		const outcome = acceptOne({ ...state, ...asked }, snapshot, report);
		return outcome instanceof Promise ? outcome.then(answerOf) : answerOf(outcome);
	},
	async verify(answer) {
		const { verifyAnswer } = await import("./ingest");
		verifyAnswer(answer);
	},
};

async function fromDatabase(report: StatsEvent, asked: FastRequest, state: DeviceState): Promise<FastAnswer> {
	const db = limitedDatabase(state, asked.address);
	const [outcome] = await accept({ ...state, ...asked, db }, [report]);
	return { ...answerOf(outcome), trips: db.trips };
}

const OK_TEXT = JSON.stringify({ status: "ok" });

function answerOf(outcome: Outcome): FastAnswer {
	return { text: outcome === undefined ? OK_TEXT : JSON.stringify({ status: statusOf(outcome), ...outcome }) };
}
