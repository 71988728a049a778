/**
 * Opens and renews previews. The channel, the binding of the caller and the preview are created in one batch; a conflict with another
 * request for the same pull request is resolved by reading again.
 */
import type { AppId } from "../../authz/decide";
import { isOwnWork, requireOwnWork } from "../../authz/own-work";
import { hashKey } from "../../authz/secrets";
import { auditBindingGiven } from "../../db/audit/bindings";
import { auditedChannel } from "../../db/audit/channels";
import { auditStatement } from "../../db/audit/entries";
import { recordNewChannel } from "../../db/channel-history";
import { previewNameIsFree, refusalOfName } from "../../db/channel-names";
import { channelIdNamed, insertChannel } from "../../db/channels";
import { guard, onUnique, type Statement } from "../../db/client";
import { nameRefused, PREVIEW_CHANNEL_SETTINGS, previewBinding, withDevicesNaming } from "../../db/preview-channels";
import {
	adoptBundle,
	insertPreview,
	nameRepository,
	type PreviewPlaceRow,
	type PreviewRow,
	previewChanged,
	previewClosed,
	previewIsAsRead,
	previewPlace,
	previewRecord,
	previewsPage,
	updatePreview,
} from "../../db/previews";
import { channelsOfApp, channelsOfPreviewKey, previewsOfApp } from "../../db/quotas";
import { bumpRevision } from "../../db/snapshot";
import { latest, mayOpen } from "../../domain/preview-events";
import { DAY_MS } from "../../domain/time";
import type { Context } from "../../http/endpoint";
import { batchInQuotas } from "../../http/quotas";
import { type AppScopeRow, appNotFound } from "../../http/scope";
import { previewTitle } from "./close";
import { retryOnChange } from "./retry";

const DEFAULT_DAYS = 14;

export interface PreviewRequest {
	readonly app_id: string;
	readonly repository: string;
	readonly number: number;
	readonly repository_id?: string | undefined;
	readonly commit?: string | undefined;
	readonly title?: string | undefined;
	readonly days?: number | undefined;
	readonly event_at?: number | undefined;
}

export function openReads(request: PreviewRequest, nowMs: number) {
	const { app_id, repository, number } = request;
	const suffix = `-${hashKey(repository).slice(0, 6)}`;
	return [
		previewsPage(app_id, { repository, number }, 1, 0),
		previewPlace(app_id, { repository, number, suffix }, nowMs),
	] as const;
}

type OpenContext = Pick<
	Context<string, undefined, undefined, AppScopeRow, ReturnType<typeof openReads>>,
	"actor" | "db" | "deps" | "loaded" | "nowMs" | "ownWorkOnly" | "principal" | "scope" | "scopeRow"
>;

/** @throws {ApiError} `preview_closed` if the pull request was closed after the event */
export async function openPreview(
	context: OpenContext,
	request: PreviewRequest,
): Promise<{ readonly preview: PreviewRow; readonly isNew: boolean }> {
	const { db, loaded, nowMs } = context;
	return retryOnChange(
		loaded,
		() => db.batch(openReads(request, nowMs)),
		([{ rows: known }, { rows: place }]) => {
			if (place[0] === undefined) throw appNotFound();
			return openOnce(context, request, known[0], place[0]);
		},
	);
}

async function openOnce(
	context: OpenContext,
	request: PreviewRequest,
	known: PreviewRow | undefined,
	place: PreviewPlaceRow,
) {
	const { actor, db, deps, nowMs, principal, scope, scopeRow } = context;
	const { appId, orgId } = scope;
	// Nothing of a closed preview is left, so it belongs to the caller that opens it again.
	if (known?.state === "open") requireOwnWork(principal, "app.create_channel", scope, known);
	const eventAtMs = request.event_at === undefined ? undefined : Math.min(request.event_at, nowMs);
	if (!mayOpen(known, eventAtMs)) throw previewClosed(known?.channel_name ?? previewTitle(request));
	const isNew = known?.state !== "open";
	const lifetimeMs = Math.min(request.days ?? DEFAULT_DAYS, place.preview_max_days) * DAY_MS;
	const creator = { created_by: principal.userId, created_by_key: principal.keyId };
	const values = {
		state: "open" as const,
		commit_sha: request.commit ?? known?.commit_sha ?? null,
		title: request.title ?? known?.title ?? null,
		repository_id: request.repository_id ?? known?.repository_id ?? null,
		lifetime_ms: lifetimeMs,
		expires_at_ms: nowMs + lifetimeMs,
		opened_event_at_ms: latest(known?.opened_event_at_ms, eventAtMs),
		updated_at_ms: nowMs,
		...(isNew
			? { ...creator, opened_at_ms: nowMs, closed_at_ms: null, closed_as: null, channel_name: place.name }
			: {}),
	};
	const id = known?.id ?? deps.newId();
	const channel = isNew
		? channelStatements(context, request, await withDevicesNaming(deps, appId, place, place.name, nowMs))
		: { quotas: [], statements: [] };
	const results = await batchInQuotas(
		db,
		deps.config.quotas,
		[...channel.quotas, ...(known === undefined ? [previewsOfApp(appId)] : [])],
		[
			...(known === undefined ? [] : [guard(previewIsAsRead(appId, id, known.revision), previewChanged)]),
			...channel.statements,
			known === undefined
				? onUnique(
						insertPreview(appId, {
							...{ ...values, opened_at_ms: nowMs, closed_at_ms: null, closed_as: null, channel_name: place.name },
							...{ id, repository: request.repository, number: request.number, page_id: deps.newId() },
							...{ reopened_event_at_ms: null, closed_event_at_ms: null, created_at_ms: nowMs },
							...creator,
						}),
						"previews.app_id, previews.repository, previews.number",
						previewChanged,
					)
				: updatePreview(appId, id, values, isNew ? place.name : undefined),
			...(isNew ? [adoptBundle(appId, id, place.name)] : []),
			auditStatement(actor, nowMs, {
				orgId,
				action: isNew ? "preview.open" : "preview.renew",
				target: { type: "preview", id, name: previewTitle(request) },
				app: { uuid: appId, id: scopeRow.app_id },
				after: {
					channel: isNew ? place.name : known?.channel_name,
					commit: values.commit_sha,
					days: lifetimeMs / DAY_MS,
				},
			}),
			previewRecord(appId, id),
		],
	);
	const preview = results.at(-1)?.rows[0] as PreviewRow | undefined;
	if (preview === undefined) throw new Error("the preview that was just written is missing");
	return { preview, isNew };
}

/** The statements that create the channel of the preview, or take over the one that the caller created under the name before. */
function channelStatements(context: OpenContext, { repository }: PreviewRequest, place: PreviewPlaceRow) {
	const { actor, deps, nowMs, principal, scope, scopeRow } = context;
	const { appId, orgId } = scope;
	const { name } = place;
	const reason = refusalOfName(place, name, nowMs);
	if (reason !== undefined) throw nameRefused(reason, place);
	const limit = context.ownWorkOnly("app.create_channel");
	const statements: Statement[] = [
		guard(previewNameIsFree(appId, name, place), previewChanged),
		...(place.repository_is_known === 1 ? [] : [newRepository(appId, repository, place.suffix)]),
	];
	if (place.channel_id !== null) {
		const made = { created_by: place.channel_created_by ?? "", created_by_key: place.channel_created_by_key };
		if (place.channel_is_preview !== 1 || !isOwnWork(made, principal)) throw nameRefused("used_by_a_channel", place);
		return { quotas: [], statements };
	}
	const values = { ...PREVIEW_CHANNEL_SETTINGS, allow_device_self_set: 1 as const, is_preview: 1 as const };
	const bindingId = deps.newId();
	return {
		quotas: [channelsOfApp(appId), ...(limit === undefined ? [] : [channelsOfPreviewKey(appId, principal)])],
		statements: [
			...statements,
			onUnique(
				insertChannel(appId, { ...values, name, created_by: principal.userId, created_by_key: principal.keyId }, nowMs),
				"channels.app_id, channels.name",
				previewChanged,
			),
			auditStatement(actor, nowMs, {
				orgId,
				action: "channel.create",
				target: { type: "channel", name, id: channelIdNamed(appId, name) },
				app: { uuid: appId, id: scopeRow.app_id },
				after: auditedChannel(values, new Map()),
			}),
			...recordNewChannel(actor, nowMs, appId, name),
			...previewBinding(limit, {
				...{ id: bindingId, holder: principal, orgId, appId, channelName: name, createdAtMs: nowMs },
			}),
			auditBindingGiven(actor, nowMs, orgId, bindingId, principal),
			bumpRevision(appId),
		],
	};
}

function newRepository(appId: AppId, repository: string, suffix: string): Statement {
	const insert = nameRepository(appId, repository, suffix);
	const bySuffix = onUnique(insert, "preview_repositories.app_id, preview_repositories.suffix", previewChanged);
	return onUnique(bySuffix, "preview_repositories.app_id, preview_repositories.repository", previewChanged);
}
