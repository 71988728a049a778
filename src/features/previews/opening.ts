/**
 * The rules and statements that open or renew the preview of a pull request: the channel, the
 * binding of the caller and the preview are created in the caller's batch. POST /preview and the
 * uploads of a publisher's job open through here. A conflict with another request for the same pull
 * request is `preview_changed`: the caller reads again (`retryOnChange`).
 */

import type { AppId, ChannelId, OrgId, OwnWorkOnly } from "../../authz/decide";
import { isOwnPreview, isOwnWork, onlyClaims, requireOwnPreview, requireOwnPullRequest } from "../../authz/own-work";
import type { Principal } from "../../authz/principal";
import { hashKey } from "../../authz/secrets";
import { auditBindingGiven } from "../../db/audit/bindings";
import { auditedChannel } from "../../db/audit/channels";
import { type Actor, auditStatement } from "../../db/audit/entries";
import { deleteChannelStatements } from "../../db/channel-deletion";
import { recordNewChannel } from "../../db/channel-history";
import { type CountedNameRow, previewNameIsFree, refusalOfName, withDevicesNaming } from "../../db/channel-names";
import { channelIdNamed, insertChannel } from "../../db/channels";
import { guard, onUnique, type Statement } from "../../db/client";
import { nameRefused, namingOf, PREVIEW_CHANNEL_SETTINGS, previewBinding } from "../../db/preview-channels";
import {
	insertPreview,
	nameRepository,
	noOtherPreviewOfBranch,
	type PreviewPlaceRow,
	type PreviewRow,
	previewChanged,
	previewClosed,
	previewIsAsRead,
	previewPlace,
	previewsPage,
	previewTitle,
	updatePreview,
} from "../../db/previews";
import { channelsOfApp, channelsOfPreviewKey, previewsOfApp, type Quota } from "../../db/quotas";
import type { Flag } from "../../db/schema";
import { bumpRevision } from "../../db/snapshot";
import type { Deps } from "../../deps";
import { provenRepositoryId } from "../../domain/ci/context";
import { latest, mayOpen } from "../../domain/ci/preview-events";
import { PREVIEW_DAYS } from "../../domain/defaults";
import { DAY_MS } from "../../domain/time";
import { fieldError, invalidRequest } from "../../errors";
import { closeStatements } from "./closing";

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

export function openReads(request: PreviewRequest) {
	const { app_id, repository, number } = request;
	const suffix = `-${hashKey(repository).slice(0, 6)}`;
	return {
		preview: previewsPage(app_id, { repository, number }, 1, 0),
		place: previewPlace(app_id, { repository, number, suffix }),
	};
}

/** The caller that opens, as a decision allowed it to create channels. */
interface Opener {
	readonly actor: Actor;
	readonly deps: Deps;
	readonly nowMs: number;
	readonly principal: Principal;
	readonly scope: { readonly orgId: OrgId; readonly appId: AppId };
	readonly publicAppId: string;
	readonly limit: OwnWorkOnly | undefined;
}

/** For one batch, which opens or renews the preview. */
export interface PreviewOpening {
	readonly id: string;
	readonly isNew: boolean;
	readonly quotas: readonly Quota[];
	readonly statements: readonly Statement[];
}

/**
 * Whether another key opened the preview on a claim, and the caller has proof that it acts for the
 * pull request.
 */
const overrules = ({ principal, limit }: Opener, known: PreviewRow): boolean =>
	known.is_claimed === 1 && !onlyClaims(principal, limit !== undefined) && !isOwnPreview(known, principal, "open");

/**
 * Statements that close the open preview of a claim, for a batch before the one that opens the
 * preview of the caller: nothing of a stranger's bundles reaches testers of the pull request. None
 * if there is nothing to overrule.
 */
export function closeClaim(opener: Opener, known: PreviewRow | undefined): Statement[] {
	const { actor, limit, nowMs, principal } = opener;
	if (known?.state !== "open" || limit === undefined || !overrules(opener, known)) return [];
	requireOwnPullRequest(principal, "app.create_channel", known, "open");
	return closeStatements(known, { actor, nowMs, closedAs: "request", eventAtMs: null });
}

/**
 * @param known the preview of the pull request, as `openReads` read it
 * @throws {ApiError} `preview_closed` if the pull request was closed after the event
 */
export async function previewOpening(
	opener: Opener,
	request: PreviewRequest,
	known: PreviewRow | undefined,
	place: PreviewPlaceRow,
): Promise<PreviewOpening> {
	const { actor, deps, nowMs, principal, scope, publicAppId } = opener;
	const { appId, orgId } = scope;
	// Nothing of a closed preview is left, so it belongs to the caller that opens it again.
	const open = known?.state === "open" ? known : undefined;
	if (open === undefined) requireOwnPullRequest(principal, "app.create_channel", request, "open");
	else requireOwnPreview(principal, "app.create_channel", scope, open, "open");
	const eventAtMs = request.event_at === undefined ? undefined : Math.min(request.event_at, nowMs);
	const isOverruled = known !== undefined && overrules(opener, known);
	if (!isOverruled && !mayOpen(known, eventAtMs)) throw previewClosed(known?.channel_name ?? previewTitle(request));
	const isNew = known?.state !== "open";
	const lifetimeMs = Math.min(request.days ?? PREVIEW_DAYS, place.preview_max_days) * DAY_MS;
	const creator = { created_by: principal.userId, created_by_key: principal.keyId };
	const is_claimed: Flag = onlyClaims(principal, opener.limit !== undefined) ? 1 : 0;
	const values = {
		state: "open" as const,
		commit_sha: request.commit ?? known?.commit_sha ?? null,
		title: request.title ?? known?.title ?? null,
		...repositoryId(principal, request, known),
		head_branch: branchOfJob(principal) ?? (isNew ? null : (known?.head_branch ?? null)),
		lifetime_ms: lifetimeMs,
		expires_at_ms: nowMs + lifetimeMs,
		opened_event_at_ms: latest(known?.opened_event_at_ms, eventAtMs),
		updated_at_ms: nowMs,
		...(isNew
			? { ...creator, opened_at_ms: nowMs, closed_at_ms: null, closed_as: null, channel_name: place.name, is_claimed }
			: {}),
	};
	const id = known?.id ?? deps.newId();
	const channel = isNew
		? channelStatements(opener, request, await withDevicesNaming(deps, appId, place, place.name))
		: { quotas: [], statements: [] };
	return {
		id,
		isNew,
		quotas: [...channel.quotas, ...((known?.opened_at_ms ?? null) === null ? [previewsOfApp(appId)] : [])],
		statements: [
			...(known === undefined ? [] : [guard(previewIsAsRead(appId, id, known.revision), previewChanged)]),
			...oneForBranch(opener, id, request.repository),
			...channel.statements,
			known === undefined
				? onUnique(
						insertPreview(appId, {
							...values,
							opened_at_ms: nowMs,
							closed_at_ms: null,
							closed_as: null,
							channel_name: place.name,
							id,
							repository: request.repository,
							number: request.number,
							page_id: deps.newId(),
							reopened_event_at_ms: null,
							closed_event_at_ms: null,
							created_at_ms: nowMs,
							is_claimed,
							...creator,
						}),
						"previews.app_id, previews.repository, previews.number",
						previewChanged,
					)
				: updatePreview(appId, id, values, isNew ? place.name : undefined),
			auditStatement(actor, nowMs, {
				orgId,
				action: isNew ? "preview.open" : "preview.renew",
				target: { type: "preview", id, name: previewTitle(request) },
				app: { uuid: appId, id: publicAppId },
				after: {
					channel: isNew ? place.name : known?.channel_name,
					commit: values.commit_sha,
					days: lifetimeMs / DAY_MS,
				},
			}),
		],
	};
}

/**
 * A token of GitLab proves the branch and not the number of the merge request. So a branch has one
 * open preview, and a job cannot take the numbers of others.
 */
function oneForBranch({ principal, scope }: Opener, id: string, repository: string): Statement[] {
	const limit = principal.kind === "key" ? principal.publisher?.limit : undefined;
	if (limit == null || limit.number !== null || limit.branch === null) return [];
	const { branch } = limit;
	return [
		guard(noOtherPreviewOfBranch(scope.appId, id, repository, branch), () =>
			fieldError(
				"permission_denied",
				"number",
				`the branch ${branch} has an open preview of another merge request, and the job's token proves the branch only; close that preview with DELETE /preview first.`,
				{ moreInfo: { permission: "app.create_channel", scope: "app" } },
			),
		),
	];
}

const branchOfJob = (principal: Principal): string | null =>
	(principal.kind === "key" ? principal.publisher?.limit?.branch : undefined) ?? null;

/**
 * Webhooks find the preview by this id. A job's token proves the id of its repository. A
 * request only claims one, so a claim never replaces a proven id of an open preview, and webhooks
 * do not rely on it.
 * @throws {ApiError} `invalid_request` if the request names another id than the job's token
 */
function repositoryId(
	principal: Principal,
	{ repository_id: claimed }: PreviewRequest,
	known: PreviewRow | undefined,
): Pick<PreviewRow, "repository_id" | "repository_id_proven"> {
	const publisher = principal.kind === "key" ? principal.publisher : undefined;
	const proven = publisher?.limit == null ? undefined : provenRepositoryId(publisher.ci);
	if (proven !== undefined && claimed !== undefined && claimed !== proven) {
		const message = `must be ${proven}, the id in the job's identity token; leave it out`;
		throw invalidRequest([{ path: "repository_id", message }]);
	}
	if (proven !== undefined) return { repository_id: proven, repository_id_proven: 1 };
	const isKept = claimed === undefined || (known?.state === "open" && known.repository_id_proven === 1);
	if (known !== undefined && isKept) {
		return { repository_id: known.repository_id, repository_id_proven: known.repository_id_proven };
	}
	return { repository_id: claimed ?? null, repository_id_proven: 0 };
}

/**
 * Whether the channel of the name is a preview key's claim that gives way: to that key, and to
 * every caller that does more than claim.
 */
function mayReplaceChannel({ principal, limit }: Opener, place: PreviewPlaceRow): boolean {
	if (place.channel_is_preview !== 1 || place.channel_preview_id !== null) return false;
	if (!onlyClaims(principal, limit !== undefined)) return true;
	const made = { created_by: place.channel_created_by ?? "", created_by_key: place.channel_created_by_key };
	return isOwnWork({ ...made, preview_id: null }, principal);
}

/** The statements that create the channel of the preview. */
function channelStatements(
	opener: Opener,
	{ repository, number }: PreviewRequest,
	place: PreviewPlaceRow & CountedNameRow,
) {
	const { actor, deps, nowMs, principal, scope, publicAppId, limit } = opener;
	const { appId, orgId } = scope;
	const { name } = place;
	const reason = refusalOfName(place, name);
	if (reason !== undefined) throw nameRefused(reason, place);
	const statements: Statement[] = [
		guard(previewNameIsFree(appId, name, place), previewChanged),
		...(place.repository_is_known === 1 ? [] : [newRepository(appId, repository, place.suffix)]),
	];
	if (place.channel_id !== null) {
		if (!mayReplaceChannel(opener, place)) throw nameRefused("used_by_a_channel", place);
		// The preview begins empty: nothing of what the channel was before reaches testers of the pull
		// request.
		statements.push(
			...deleteChannelStatements({
				actor,
				nowMs,
				orgId,
				appId,
				publicAppId,
				bundles: undefined,
				channel: { id: place.channel_id as ChannelId, name },
				details: { replaced_by_preview: `${repository}#${number}` },
			}),
		);
	}
	const values = { ...PREVIEW_CHANNEL_SETTINGS, allow_device_self_set: 1 as const, is_preview: 1 as const };
	const bindingId = deps.newId();
	return {
		quotas: [channelsOfApp(appId), ...(limit === undefined ? [] : [channelsOfPreviewKey(appId, principal)])],
		statements: [
			...statements,
			onUnique(
				insertChannel(
					appId,
					{ ...values, ...namingOf(place, nowMs), name, created_by: principal.userId, created_by_key: principal.keyId },
					nowMs,
				),
				"channels.app_id, channels.name",
				previewChanged,
			),
			auditStatement(actor, nowMs, {
				orgId,
				action: "channel.create",
				target: { type: "channel", name, id: channelIdNamed(appId, name) },
				app: { uuid: appId, id: publicAppId },
				after: auditedChannel(values, new Map()),
			}),
			...recordNewChannel(actor, nowMs, appId, name),
			...previewBinding(limit, {
				id: bindingId,
				holder: principal,
				orgId,
				appId,
				channelName: name,
				createdAtMs: nowMs,
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
