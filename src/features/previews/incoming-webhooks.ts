/**
 * POST /hooks/github/:id and /hooks/gitlab/:id: a webhook closes the preview of a pull request that
 * was closed or merged, and lets the next upload open it again when the pull request is reopened.
 * Deliveries may be repeated and arrive in any order (src/domain/ci/preview-events.ts). A delivery
 * costs one read before its signature is verified.
 */

import type { CompiledQuery } from "kysely";
import * as v from "valibot";
import type { AppId, OrgId } from "../../authz/decide";
import { type Actor, auditStatement } from "../../db/audit/entries";
import { type Database, guard, type Statement } from "../../db/client";
import { retryOnChange } from "../../db/optimistic";
import { type HookRow, hookById, noteDelivery, previewsOfPullRequest } from "../../db/preview-hooks";
import {
	insertClosedPreview,
	type PreviewRow,
	previewChanged,
	previewIsAsRead,
	previewTitle,
	updatePreview,
} from "../../db/previews";
import { latest, stillCloses, stillReopens } from "../../domain/ci/preview-events";
import { githubEvent, gitlabEvent, type PullRequestEvent } from "../../domain/ci/pull-request-event";
import { HOUR_MS } from "../../domain/time";
import { ApiError } from "../../errors";
import { type Context, endpoint } from "../../http/endpoint";
import type { Holding } from "../../http/limits/memory";
import { memoryOfBody, parseJson, readBytes } from "../../http/pipeline/body";
import { collectGarbageSoon } from "../../queue/garbage";
import { closeStatements } from "./closing";
import { isFromProvider, isSigned, validSecrets } from "./hook-secrets";

/** The payload of a large pull request has some hundred kilobytes. */
const MOST_BYTES = 2 * 1024 * 1024;
const ACCESS = { public: "Providers have no key. The signature of the delivery is the permission." };
const answer = v.strictObject({ status: v.literal("ok"), action: v.picklist(["closed", "reopened", "ignored"]) });
const ERRORS = ["invalid_signature", "payload_too_large", "preview_changed"] as const;
const TEXTS = { github: "GitHub", gitlab: "GitLab" } as const;

export const githubDelivery = endpoint({
	method: "POST",
	path: "/hooks/github/:id",
	tag: "Previews",
	summary: "Receive a webhook of GitHub about pull requests",
	description: [
		"Enter this address in the settings of the repository with the secret that POST /preview/hook",
		'answers, the content type `application/json` and the event "Pull requests".',
		"A closed or merged pull request closes its preview; a reopened one may be opened again.",
		"Repeated, late and reordered deliveries are harmless.",
		"Other events are answered with `ignored`.",
	],
	access: ACCESS,
	query: v.object({}),
	rawBody: { contentType: "application/json", description: "The payload of GitHub." },
	headers: {
		"X-GitHub-Event": { description: "The kind of event.", required: true, example: "pull_request" },
		"X-Hub-Signature-256": { description: "HMAC-SHA-256 of the body.", required: true, example: "sha256=757107ea…" },
	},
	response: answer,
	errors: ERRORS,
	example: { response: { status: "ok", action: "closed" } },
	handle: (context) =>
		receive(context, "github", (payload, headers) => githubEvent(headers.get("x-github-event") ?? "", payload)),
});

export const gitlabDelivery = endpoint({
	method: "POST",
	path: "/hooks/gitlab/:id",
	tag: "Previews",
	summary: "Receive a webhook of GitLab about merge requests",
	description: [
		"Enter this address in the settings of the project with the secret that POST /preview/hook answers,",
		'as the secret token or as the signing token, and the trigger "Merge request events".',
		"A closed or merged merge request closes its preview; a reopened one may be opened again.",
		"Repeated, late and reordered deliveries are harmless.",
		"Other events are answered with `ignored`.",
	],
	access: ACCESS,
	query: v.object({}),
	rawBody: { contentType: "application/json", description: "The payload of GitLab." },
	headers: {
		"X-Gitlab-Token": { description: "The secret token.", example: "whsec_…" },
		"webhook-signature": { description: "A signature of Standard Webhooks.", example: "v1,…" },
	},
	response: answer,
	errors: ERRORS,
	example: { response: { status: "ok", action: "closed" } },
	handle: (context) => receive(context, "gitlab", gitlabEvent),
});

interface Delivery extends Omit<Context<string, undefined, undefined, undefined, readonly []>, "input"> {
	readonly input: { readonly params: { readonly id: string } };
}

const HOOK_ID = /^[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}$/;

async function receive(
	context: Pick<Delivery, "db" | "deps" | "input" | "memory" | "nowMs" | "request" | "requestId" | "waitUntil">,
	provider: "github" | "gitlab",
	eventOf: (payload: unknown, headers: Headers) => PullRequestEvent | undefined,
) {
	const { db, deps, input, memory, nowMs, request, waitUntil } = context;
	const { id } = input.params;
	if (!HOOK_ID.test(id) || !isSigned(provider, request.headers)) throw notFromProvider();
	const [{ rows }] = await db.batch([hookById(id, provider)]);
	const [hook] = rows;
	if (hook === undefined) throw notFromProvider();
	const bytes = memoryOfBody(request, MOST_BYTES);
	const read = (holding?: Holding) => readBytes(request, MOST_BYTES, deps.deadline, holding);
	const owner = { name: id, group: hook.org_id };
	const body = bytes === 0 ? await read() : await memory.anonymous.during(owner, bytes, waitUntil, read);
	const secrets = await validSecrets(deps, hook, nowMs);
	if (!(await isFromProvider(provider, request.headers, body, secrets, nowMs))) throw notFromProvider();
	// From here on the request is the provider's, which sends those of many repositories from few
	// addresses.
	db.refund?.();
	const proven = { ...context, db: db.unlimited ?? db, hook };
	const event = eventOf(payloadOf(request.headers, body), request.headers);
	const noted = (hook.last_delivery_at_ms ?? 0) <= nowMs - HOUR_MS ? [noteDelivery(id, nowMs)] : [];
	if (event !== undefined) return { status: "ok" as const, action: await apply(proven, event, noted) };
	if (noted.length > 0) await proven.db.batch(noted);
	return { status: "ok" as const, action: "ignored" as const };
}

/** One answer for an unknown hook and for a wrong signature. */
const notFromProvider = () =>
	new ApiError(
		"invalid_signature",
		"The delivery is not signed with this webhook's secret; compare the secret in the provider's settings with that of POST /preview/hook.",
	);

function payloadOf(headers: Headers, body: Uint8Array): unknown {
	if (!(headers.get("content-type") ?? "").startsWith("application/x-www-form-urlencoded")) {
		return parseJson(body, MOST_BYTES);
	}
	const payload = new URLSearchParams(new TextDecoder().decode(body)).get("payload") ?? "";
	return parseJson(new TextEncoder().encode(payload), MOST_BYTES);
}

interface Proven {
	readonly db: Database;
	readonly deps: Delivery["deps"];
	readonly hook: HookRow;
	readonly nowMs: number;
	readonly requestId: string;
	readonly waitUntil: Delivery["waitUntil"];
}

async function apply(
	context: Proven,
	event: PullRequestEvent,
	noted: readonly CompiledQuery[],
): Promise<"closed" | "reopened" | "ignored"> {
	const { db, deps, hook, nowMs, waitUntil } = context;
	const appId = hook.app_id as AppId;
	const read = () => db.batch([previewsOfPullRequest(appId, event), ...noted]);
	const action = await retryOnChange(await read(), read, async ([{ rows }]) => {
		// A name may belong to another repository by now, and an id never does. An id that a request
		// claimed may be wrong.
		const known = rows.filter(
			({ repository_id, repository_id_proven }) =>
				repository_id === null || repository_id === event.repositoryId || repository_id_proven === 0,
		);
		const atMs = Math.min(event.atMs, nowMs);
		if (rows.length === 0 && event.action === "closed") {
			await recordClosed(context, event, atMs);
			return "closed";
		}
		const changed = known.filter((preview) =>
			event.action === "closed" ? stillCloses(preview, atMs) : stillReopens(preview, atMs),
		);
		const statements = changed.flatMap((preview) => statementsFor(context, preview, event.action, atMs));
		if (statements.length === 0) return "ignored";
		await db.batch(statements);
		return event.action;
	});
	if (action === "closed") waitUntil(collectGarbageSoon(deps));
	return action;
}

const actorOf = ({ hook, requestId }: Proven): Actor => ({
	type: "system",
	id: null,
	name: `Webhook of ${TEXTS[hook.provider]}`,
	requestId,
	ipAddress: null,
});

function statementsFor(context: Proven, preview: PreviewRow, action: "closed" | "reopened", atMs: number): Statement[] {
	const { hook, nowMs } = context;
	const actor = actorOf(context);
	if (action === "closed") {
		// An end that is known already changes nothing, and leaves no entry in the audit log.
		const isKnown =
			preview.state === "closed" && preview.closed_as !== "time" && atMs <= (preview.closed_event_at_ms ?? 0);
		return isKnown
			? []
			: closeStatements(preview, { actor, nowMs, closedAs: "webhook", eventAtMs: atMs, isClaimed: 0 });
	}
	if (atMs <= (preview.reopened_event_at_ms ?? 0)) return [];
	const appId = preview.app_id as AppId;
	const values = {
		reopened_event_at_ms: latest(preview.reopened_event_at_ms, atMs),
		updated_at_ms: nowMs,
		...(preview.state === "closed" && preview.closed_as !== "kept" ? { state: "reopened" as const } : {}),
	};
	return [
		guard(previewIsAsRead(appId, preview.id, preview.revision), previewChanged),
		updatePreview(appId, preview.id, values, undefined),
		auditStatement(actor, nowMs, {
			orgId: hook.org_id as OrgId,
			action: "preview.reopen",
			target: { type: "preview", id: preview.id, name: previewTitle(preview) },
			app: { uuid: appId, id: hook.public_app_id },
		}),
	];
}

/**
 * The pull request was closed before its first upload: the build that is still running is refused.
 */
async function recordClosed({ db, deps, hook, nowMs }: Proven, event: PullRequestEvent, eventAtMs: number) {
	const appId = hook.app_id as AppId;
	const closed = {
		id: deps.newId(),
		page_id: deps.newId(),
		repository: event.repository,
		number: event.number,
		repository_id: event.repositoryId,
		created_by: hook.created_by,
		created_by_key: null,
		is_claimed: 0 as const,
	};
	await db.batch(insertClosedPreview(appId, closed, { closedAs: "webhook", eventAtMs, nowMs }));
}
