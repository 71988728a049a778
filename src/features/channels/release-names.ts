/**
 * Who and what a release names: people, keys and CI jobs, only for readers of the audit log, and
 * the releases beside it.
 */
import type { ReleaseEntryRow, ReleaseNeighbourRow } from "../../db/channel-releases";
import { rfc3339 } from "../../http/schemas";
import { ciAnswer } from "./releases";

export function namesFor(readsAudit: boolean) {
	return {
		actorOf: (row: ReleaseEntryRow) => ({
			type: row.actor_type,
			id: row.actor_id,
			name: readsAudit ? row.actor_name : null,
		}),
		proposerOf: (row: ReleaseEntryRow) =>
			row.proposer_name === null ? null : { name: readsAudit ? row.proposer_name : null },
		ciOf: (row: ReleaseEntryRow) => (readsAudit ? ciAnswer(row.ci) : null),
	};
}

export function neighbourAnswer(row: ReleaseNeighbourRow | undefined) {
	return row === undefined ? null : { id: row.release_id, version: row.version_name, at: rfc3339(row.at_ms) };
}
