/**
 * POST /app/sample: an app with a month of made-up history, to look around before the first device
 * reports. An organization has either the whole sample or nothing: one batch writes the app, whose
 * bytes are stored before and are garbage unless that batch says otherwise, and clean-up removes
 * the reports unless that batch keeps them.
 */
import { sha256 } from "@noble/hashes/sha2.js";
import { bytesToHex } from "@noble/hashes/utils.js";
import * as v from "valibot";
import type { AppId } from "../../../authz/decide";
import { appRecord } from "../../../db/apps";
import { guard, lastResult, type Statement } from "../../../db/client";
import { appsOfOrganization, bundlesOfApp, channelsOfApp, storageOfOrganization } from "../../../db/quotas";
import { endReportRemoval, removeReportsLater } from "../../../db/report-removals";
import { hasNoSampleApp, reserveChannelIds } from "../../../db/sample-app";
import { bindingFor } from "../../../db/telemetry-databases";
import { openTelemetry } from "../../../db/telemetry-reads";
import { dropGarbage, toGarbageLater } from "../../../db/uploads";
import { sampleAppId } from "../../../domain/sample-app";
import { HOUR_MS } from "../../../domain/time";
import { ApiError } from "../../../errors";
import { endpoint, Reply } from "../../../http/endpoint";
import { batchInQuotas } from "../../../http/quotas";
import { uuid } from "../../../http/schemas";
import { orgScope } from "../../../http/scope";
import { putOnce, uploadPrefix, wholeObjectKey } from "../../../storage/objects";
import { creationStatements } from "../creation";
import { appAnswer, appSchema, EXAMPLE_APP } from "../routes";
import { sampleZips } from "./bundles";
import { SAMPLE_CHANNELS, type StoredZip, sampleHistory } from "./history";

const NAME = "Sample shop";
/** A request takes seconds, so bytes without an app are garbage by then. */
const UNFINISHED_MS = HOUR_MS;

export const createSampleApp = endpoint({
	method: "POST",
	path: "/app/sample",
	tag: "Apps",
	summary: "Add a sample app with a month of made-up history",
	description: [
		"Bundles, channels, releases, two rollouts and 200 devices with their statistics and events, so that",
		"every screen has something to show.",
		"The `app_id` of a sample app begins with `sample.capstan.`, which POST /app gives to no other app,",
		"and no webhook or mail reports what is made up.",
		"An organization has one sample app at a time.",
		"DELETE /app/:app_id removes it at once and for good, without a reserved id.",
	],
	access: { permission: "org.create_app", scope: orgScope("body.owner_org") },
	body: v.object({ owner_org: uuid }),
	status: [201],
	response: appSchema,
	errors: ["quota_exceeded", "app_id_already_exists"],
	example: {
		body: { owner_org: EXAMPLE_APP.owner_org },
		response: { ...EXAMPLE_APP, app_id: sampleAppId(EXAMPLE_APP.id), name: NAME, retention: 0 },
	},
	async handle(context) {
		const { db, deps, scope, principal, nowMs } = context;
		const id = deps.newId() as AppId;
		const isFirst = guard(hasNoSampleApp(scope.orgId), alreadyThere);
		const binding = bindingFor(id, deps.telemetry);
		const dueAtMs = nowMs + UNFINISHED_MS;
		const ofOrganization = [appsOfOrganization(scope.orgId), storageOfOrganization(scope.orgId)];
		const { quotas } = deps.config;
		// A request that has no room leaves no reports and bytes to remove.
		const [, , , , reserved] = await batchInQuotas(
			db,
			quotas,
			ofOrganization,
			[
				isFirst,
				toGarbageLater(`${id}/`, nowMs, dueAtMs),
				removeReportsLater(id, binding, dueAtMs),
				...reserveChannelIds(SAMPLE_CHANNELS),
			],
			1,
		);
		const zips = new Map<string, StoredZip>();
		for (const [version, bytes] of sampleZips()) {
			const objectKey = wholeObjectKey(uploadPrefix(id, deps.newId()));
			zips.set(version, { objectKey, sizeBytes: bytes.length, sha256: bytesToHex(sha256(bytes)), bytes });
		}
		await Promise.all(
			[...zips.values()].map(({ objectKey, sha256: hash, bytes }) =>
				putOnce(deps.bundles, objectKey, bytes, { sha256: hash, contentType: "application/zip" }),
			),
		);
		const firstChannelId = reserved.rows[0]?.first_id;
		if (firstChannelId === undefined) throw new Error("no ids were reserved");
		const history = sampleHistory(deps, id, principal.userId, nowMs, zips, firstChannelId);
		await openTelemetry(deps, binding).batch(history.reports);
		const statements: readonly Statement[] = [
			isFirst,
			...creationStatements(context, id, { app_id: sampleAppId(id), name: NAME, retention: 0 }),
			...history.statements,
			dropGarbage(`${id}/`),
			endReportRemoval(id),
		];
		const results = await batchInQuotas(
			db,
			quotas,
			[...ofOrganization, channelsOfApp(id), bundlesOfApp(id)],
			[...statements, appRecord(id)],
		);
		const [app] = lastResult(results).rows;
		if (app === undefined) throw new Error("the sample app that was just inserted is missing");
		return new Reply(201, appAnswer(app));
	},
});

const alreadyThere = () =>
	new ApiError(
		"app_id_already_exists",
		"This organization has a sample app already. Remove it with DELETE /app/:app_id to add a new one.",
		{ reason: "sample_app_exists" },
	);
