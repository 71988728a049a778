/**
 * GET, POST and DELETE /preview: previews of pull requests. The server owns the channel and the
 * bundles of a preview, and deletes all of it when the pull request is closed.
 */
import * as v from "valibot";
import {
	isOwnPreview,
	namesOnlyBranch,
	onlyClaims,
	reachesOnlyOwnWork,
	requireOwnPreview,
	requireOwnPullRequest,
} from "../../authz/own-work";
import { lastResult } from "../../db/client";
import { readNamed } from "../../db/named-reads";
import { retryOnChange } from "../../db/optimistic";
import { insertClosedPreview, type PreviewRow, previewChanged, previewRecord, previewsPage } from "../../db/previews";
import { stillCloses } from "../../domain/ci/preview-events";
import { RESTORABLE_DAYS } from "../../domain/defaults";
import { ApiError, invalidRequest } from "../../errors";
import { type Context, endpoint, Reply } from "../../http/endpoint";
import { pageBounds, pageReply } from "../../http/paging";
import { MAY_WAIT } from "../../http/pipeline/wait-visible";
import { batchInQuotas } from "../../http/quotas";
import { channelName, label, OK, optional, pageNumber, previewDays, publicAppId, text } from "../../http/schemas";
import { type AppScopeRow, appNotFound, appScope } from "../../http/scope";
import { collectGarbageSoon } from "../../queue/garbage";
import { closeAndCount } from "./closing";
import { type CountedPreview, withDevices } from "./devices";
import { closeClaim, openReads, type PreviewRequest, previewOpening } from "./opening";
import { pageUrl } from "./page";
import {
	EXAMPLE_PREVIEW,
	eventTime,
	listedPreviewSchema,
	previewAnswer,
	previewSchema,
	repositoryName,
	requestNumber,
	requestNumberText,
} from "./record";

const whichPreview = {
	app_id: publicAppId,
	repository: optional(repositoryName),
	number: optional(requestNumberText),
	channel: optional(channelName),
};

export const listPreviews = endpoint({
	method: "GET",
	path: "/preview",
	tag: "Previews",
	summary: "List the previews of an app, the last changed first",
	description: [
		`\`state\` narrows to open or closed previews; closed ones are listed for ${RESTORABLE_DAYS} days.`,
		"`devices` counts the devices that last reported a bundle of the preview, `keys` the keys that may",
		"upload to its channel, `size` the bytes of its bundles.",
		"`page_url` is the page for testers, which opens without a key; for previews of others it is null to",
		"a key that is limited to its own work.",
	],
	access: { permission: "app.read", scope: appScope("query.app_id") },
	query: v.object({ ...whichPreview, state: optional(v.picklist(["open", "closed"])), page: pageNumber }),
	response: v.array(listedPreviewSchema),
	errors: [],
	example: { query: { app_id: "com.example.app", state: "open" }, response: [EXAMPLE_PREVIEW] },
	load: ({ query: { app_id, state, page, ...filter } }) => {
		const { limit, offset } = pageBounds(page);
		const isOpen = state === undefined ? undefined : state === "open";
		return { previews: previewsPage(app_id, { ...filter, isOpen }, limit, offset) };
	},
	async handle({ deps, loaded, input, request, origin, nowMs, principal, ownWorkOnly }) {
		// The address of a page is the right to see it, so a caller limited to own work gets that of its
		// own previews only.
		const isLimited = ownWorkOnly("app.read") !== undefined;
		const shown = (row: CountedPreview<PreviewRow>) =>
			previewAnswer(
				row,
				!isLimited || isOwnPreview(row, principal, "change") ? pageUrl(deps, origin, row.page_id, nowMs) : null,
			);
		return pageReply({ request, origin }, input.query.page, await withDevices(deps, loaded.previews), shown);
	},
});

export const openPreviewEndpoint = endpoint({
	method: "POST",
	path: "/preview",
	tag: "Previews",
	summary: "Open the preview of a pull request, or renew it",
	description: [
		"Creates a private channel for the pull request (`pr-128`; further repositories of an app get a",
		"suffix) and answers 201, or renews the open preview and answers 200.",
		"Upload bundles with versions that begin with `version_prefix` and promote them to `channel`: they",
		"belong to the preview and are deleted with it.",
		"Each upload and promotion renews it for `days` (14 by default, at most the app's",
		"`preview_max_days`).",
		"`event_at` is the time of the event that the CI job runs for: a preview that was closed opens only",
		"for a later event, so a build that outlasts the merge is refused with `preview_closed`.",
		"A preview that ended by its time, or whose pull request a",
		"webhook reports as reopened, opens again for any event.",
		"A preview key may renew only what it opened.",
		"`repository_id` lets webhooks find the preview after the repository was renamed; a job's identity",
		"token proves it, and then the field must not differ.",
	],
	access: { permission: "app.create_channel", scope: appScope("body.app_id") },
	body: v.object({
		app_id: publicAppId,
		repository: repositoryName,
		number: requestNumber,
		repository_id: optional(v.pipe(text(64), v.regex(/^[\w-]+$/, "must be an id such as 456123"))),
		commit: optional(v.pipe(text(64), v.regex(/^[0-9a-fA-F]{7,64}$/, "must be the hash of a commit"))),
		title: optional(label(256)),
		days: optional(previewDays),
		event_at: eventTime,
	}),
	status: [200, 201],
	headers: MAY_WAIT,
	response: previewSchema,
	errors: ["preview_closed", "preview_changed", "channel_name_reserved", "quota_exceeded"],
	example: {
		body: {
			app_id: "com.example.app",
			repository: "acme/shop",
			number: 128,
			commit: EXAMPLE_PREVIEW.commit,
			title: "New checkout",
			event_at: "2026-11-21T07:59:00Z",
		},
		response: EXAMPLE_PREVIEW,
	},
	load: ({ body }) => openReads(body),
	async handle(context) {
		const { deps, origin, nowMs } = context;
		const { preview, isNew } = await openPreview(context, context.input.body);
		const [counted = { ...preview, devices: null }] = await withDevices(deps, [preview]);
		return new Reply(isNew ? 201 : 200, previewAnswer(counted, pageUrl(deps, origin, preview.page_id, nowMs)));
	},
});

type OpenContext = Pick<
	Context<string, undefined, undefined, AppScopeRow, ReturnType<typeof openReads>>,
	"actor" | "db" | "deps" | "loaded" | "nowMs" | "ownWorkOnly" | "principal" | "scope" | "scopeRow"
>;

async function openPreview(context: OpenContext, request: PreviewRequest) {
	const { db, deps, loaded, scope, scopeRow } = context;
	const opener = { ...context, publicAppId: scopeRow.app_id, limit: context.ownWorkOnly("app.create_channel") };
	const read = () => readNamed(db, openReads(request));
	return retryOnChange(loaded, read, async ({ preview: [known], place: [place] }) => {
		if (place === undefined) throw appNotFound();
		const claim = closeClaim(opener, known);
		if (claim.length > 0) {
			await db.batch(claim);
			throw previewChanged();
		}
		const { id, isNew, quotas, statements } = await previewOpening(opener, request, known, place);
		const results = await batchInQuotas(db, deps.config.quotas, quotas, [
			...statements,
			previewRecord(scope.appId, id),
		]);
		const [preview] = lastResult(results).rows;
		if (preview === undefined) throw new Error("the preview that was just written is missing");
		return { preview, isNew };
	});
}

export const closePreview = endpoint({
	method: "DELETE",
	path: "/preview",
	tag: "Previews",
	summary: "Close a preview, and delete its channel and bundles",
	description: [
		"Names the preview by `repository` and `number`, or by `channel`.",
		"The channel, its bindings, the bundles and unfinished uploads are deleted in one atomic step; a",
		"bundle that another channel uses stays.",
		"Closing it again succeeds.",
		"A preview that was never opened is recorded as closed,",
		"so that a build that is still running cannot open it.",
		"A job whose token names a branch and no number closes nothing in advance.",
		"With `event_at`, the time of the event that closed the pull request, nothing is closed if the pull",
		"request was reopened since.",
		"A preview key may close only what it opened, and changes nothing of what another key closed.",
		"The key of a job is bound to the pull request of its token.",
		"Any other preview key only claims to act for the pull request: jobs with proof, and callers that are",
		"not limited to previews, open it all the same.",
		"Other callers need bundle.delete for previews of others.",
	],
	access: {
		permissions: ["app.create_channel", "bundle.delete"],
		scope: appScope("query.app_id"),
		choose: () => ["app.create_channel"],
	},
	query: v.object({ ...whichPreview, event_at: eventTime }),
	queryOrBody: true,
	headers: MAY_WAIT,
	response: v.strictObject({
		status: v.literal("ok"),
		state: v.picklist(["open", "closed"]),
		removed: v.strictObject({ bundles: v.number(), bundle_bytes: v.number() }),
	}),
	errors: ["preview_not_found", "preview_changed"],
	example: {
		query: { app_id: "com.example.app", repository: "acme/shop", number: "128" },
		response: { status: "ok", state: "closed", removed: { bundles: 3, bundle_bytes: 1_482_112 } },
	},
	load: ({ query: { app_id, repository, number, channel } }) => ({
		preview: previewsPage(app_id, { repository, number, channel }, 1, 0),
	}),
	async handle(context) {
		const { db, input, loaded } = context;
		const { app_id, repository, number, channel } = input.query;
		if ((repository === undefined || number === undefined) && channel === undefined) {
			throw invalidRequest([{ path: "repository", message: "send repository and number, or channel" }]);
		}
		const read = () => readNamed(db, { preview: previewsPage(app_id, { repository, number, channel }, 1, 0) });
		return retryOnChange(loaded, read, ({ preview: [preview] }) => closeOnce(context, preview));
	},
});

type CloseContext = Pick<
	Context<string, undefined, undefined, AppScopeRow, Record<never, never>>,
	"actor" | "db" | "deps" | "nowMs" | "ownWorkOnly" | "principal" | "scope" | "waitUntil"
> & {
	readonly input: {
		readonly query: {
			readonly repository?: string | undefined;
			readonly number?: number | undefined;
			readonly event_at?: number | undefined;
		};
	};
};

async function closeOnce(context: CloseContext, preview: PreviewRow | undefined) {
	const { actor, db, deps, input, nowMs, principal, scope, waitUntil } = context;
	const { repository, number, event_at } = input.query;
	const eventAtMs = event_at === undefined ? nowMs : Math.min(event_at, nowMs);
	const nothing = { bundles: 0, bundle_bytes: 0 };
	const isClaim = onlyClaims(principal, context.ownWorkOnly("app.create_channel") !== undefined);
	if (preview === undefined) {
		if (repository === undefined || number === undefined) {
			throw new ApiError("preview_not_found", "The app has no preview with this channel; list them with GET /preview.");
		}
		// Nothing is open, and a job that cannot prove the number closes nothing in advance.
		if (namesOnlyBranch(principal, repository)) return { ...OK, state: "closed" as const, removed: nothing };
		requireOwnPullRequest(principal, "bundle.delete", { repository, number }, "close");
		const creator = { created_by: principal.userId, created_by_key: principal.keyId };
		const closed = {
			id: deps.newId(),
			page_id: deps.newId(),
			repository,
			number,
			repository_id: null,
			...creator,
			is_claimed: isClaim ? (1 as const) : (0 as const),
		};
		await db.batch(insertClosedPreview(scope.appId, closed, { closedAs: "request", eventAtMs, nowMs }));
		return { ...OK, state: "closed" as const, removed: nothing };
	}
	requireOwnPullRequest(principal, "bundle.delete", preview, "close");
	if (preview.state === "open") requireOwnPreview(principal, "bundle.delete", scope, preview, "close");
	else if (
		(isClaim || preview.is_claimed === 0) &&
		reachesOnlyOwnWork(principal, "bundle.delete", scope) &&
		!isOwnPreview(preview, principal, "close")
	) {
		// It is closed as the caller wants it, and its end stays that of the caller that closed it.
		return { ...OK, state: "closed" as const, removed: nothing };
	}
	if (event_at !== undefined && !stillCloses(preview, eventAtMs)) {
		return { ...OK, state: preview.state === "open" ? ("open" as const) : ("closed" as const), removed: nothing };
	}
	const end = { actor, nowMs, closedAs: "request" as const, eventAtMs };
	const removed = await closeAndCount(db, preview, isClaim ? end : { ...end, isClaimed: 0 });
	waitUntil(collectGarbageSoon(deps));
	return { ...OK, state: "closed" as const, removed };
}
