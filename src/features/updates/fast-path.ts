/**
 * POST /updates on the fast path (src/http/fast-path.ts): plain checks, from memory or from the
 * database. It decides nothing itself, because the endpoint answers by the same code (answer.ts).
 */

import type { DeviceState } from "../../http/device-state";
import { type FastAnswer, type FastEndpoint, type FastRequest, limitedDatabase } from "../../http/fast-path";
import { answerCheck, answerFromMemory, eventsOfCheck } from "./answer";
import { recordedReport } from "./device";
import { type DeviceBody, readDeviceBody } from "./device-body";
import { isBlocked } from "./review-networks";

export const fastCheck: FastEndpoint = {
	path: "/updates",
	answer(asked, state) {
		const body = readDeviceBody(asked.text);
		if (body === undefined) return undefined;
		return fromMemory(body, asked, state) ?? fromDatabase(body, asked, state);
	},
	async verify(answer) {
		const { verifyAnswer } = await import("./check");
		verifyAnswer(answer);
	},
};

function fromMemory(
	body: DeviceBody,
	asked: FastRequest,
	{ deps, snapshots, eventBuffer, callerLimits, failedFiles }: DeviceState,
): FastAnswer | Promise<FastAnswer> | undefined {
	const { origin, address, nowMs } = asked;
	const snapshot = snapshots.fresh(body.app_id, nowMs);
	if (snapshot === undefined || isBlocked(deps.config, snapshot, asked.request)) return undefined;
	const failedFilesOf = failedFiles.of(snapshot.app.publicId, body.device_id);
	const answered = answerFromMemory({ deps, snapshots, origin, nowMs }, snapshot, body, failedFilesOf);
	const text = answered?.answer.text;
	if (answered === undefined || text === undefined) return undefined;
	const report = recordedReport(body, snapshot);
	const events = eventsOfCheck(report, nowMs, answered.decision, address);
	// A device that this isolate has not seen must be admitted by the limit on new devices.
	const admission = eventBuffer.knows(report.app_id, report.device_id)
		? undefined
		: callerLimits.admitNewDevices(address, report.app_id, 1, nowMs);
	const answer = { text };
	if (admission !== undefined) {
		return admission.then(() => {
			eventBuffer.add(callerLimits.markCrowded(events, address, nowMs), asked.waitUntil);
			return answer;
		});
	}
	eventBuffer.add(callerLimits.markCrowded(events, address, nowMs), asked.waitUntil);
	return answer;
}

async function fromDatabase(body: DeviceBody, asked: FastRequest, state: DeviceState): Promise<FastAnswer> {
	const db = limitedDatabase(state, asked.address);
	const { answer, headers } = await answerCheck({ ...state, ...asked, db }, body);
	// Later trips are those of background work.
	return { text: JSON.stringify(answer), headers, trips: db.trips };
}
