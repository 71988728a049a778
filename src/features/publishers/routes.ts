/**
 * The publishers that an app trusts: GET, POST, PUT and DELETE /publisher, for administrators. A
 * publisher acts by a key of its creator, so it never grants more than the creator holds, and it
 * ends with the creator's membership as the creator's keys do.
 */
import * as v from "valibot";
import { hashKey, mintKey } from "../../authz/secrets";
import { insertApiKey } from "../../db/api-keys";
import { auditStatement } from "../../db/audit/entries";
import { guard, query } from "../../db/client";
import {
	channelsAreOf,
	deletePublisher,
	endPublisherRights,
	insertPublisher,
	type ListedPublisherRow,
	type PublisherRow,
	publisherOfApp,
	publishersPage,
	publisherUnchanged,
	updatePublisher,
} from "../../db/publishers";
import { keysOfOrganization } from "../../db/quotas";
import { CI_KEY_MINUTES, UNUSED_DAYS } from "../../domain/defaults";
import { endpoint, Reply } from "../../http/endpoint";
import { pageBounds, pageReply } from "../../http/paging";
import { batchInQuotas } from "../../http/quotas";
import {
	acknowledgement,
	nullableRfc3339,
	OK,
	optional,
	pageNumber,
	publicAppId,
	timestamp,
	uuid,
} from "../../http/schemas";
import { appScope } from "../../http/scope";
import {
	anchorsOf,
	channelsGone,
	EXAMPLE_PUBLISHER,
	issuerOf,
	newPublisherBody,
	PUBLISHERS_TAG,
	providerOf,
	publisherAnswer,
	publisherChanged,
	publisherFields,
	publisherNotFound,
	publisherSchema,
	refuseAnyRef,
	refuseLooseClaims,
} from "./record";
import { MANAGES_PUBLISHERS, refuseChannelsOfStage, refuseStrongerPublisher, rightsOf } from "./rights";

const NEVER = "never";

export const listPublishers = endpoint({
	method: "GET",
	path: "/publisher",
	tag: PUBLISHERS_TAG,
	summary: "List the CI jobs that an app trusts, oldest first",
	description: [
		"`last_job` is the job of the last exchange.",
		"`active` is false if the publisher expired, or if its creator lost the rights that it needs; its",
		"jobs then get no keys, so delete it and have another administrator add it.",
		`\`unused\` marks publishers without an exchange for ${UNUSED_DAYS} days; delete those that nobody needs.`,
	],
	access: { permission: MANAGES_PUBLISHERS, scope: appScope("query.app_id") },
	query: v.object({ app_id: publicAppId, page: pageNumber }),
	response: v.array(publisherSchema),
	errors: [],
	example: { query: { app_id: "com.example.app" }, response: [EXAMPLE_PUBLISHER] },
	load: ({ query: { app_id, page } }) => {
		const { limit, offset } = pageBounds(page);
		return { publishers: publishersPage(app_id, limit, offset) };
	},
	async handle({ loaded, input, scopeRow, request, origin, nowMs }) {
		return pageReply({ request, origin }, input.query.page, loaded.publishers, (row) =>
			publisherAnswer(row, scopeRow.app_id, nowMs),
		);
	},
});

export const createPublisher = endpoint({
	method: "POST",
	path: "/publisher",
	tag: PUBLISHERS_TAG,
	summary: "Trust the jobs of a repository, so that they publish without a secret",
	description: [
		`A job exchanges its identity token at POST /oidc/token for an API key of ${CI_KEY_MINUTES} minutes with the rights`,
		"of `stage`: `preview` (bundles and private channels that it creates itself), `upload` (bundles),",
		"`propose` (bundles, and promotions that a person has",
		"to approve) or `promote` (bundles and promotions).",
		"`claims` maps names of claims to the exact text that",
		"the token must have; a trailing `*` matches a prefix.",
		"Required are the ids that make the repository unique: `repository_id` and `repository_owner_id`",
		"(`github`), `project_id` and `namespace_id` (`gitlab`), `oidc.circleci.com/project-id` (`circleci`),",
		"`pipeline_id` and `organization_id` (`buildkite`), and at least one exact claim (`oidc`).",
		"`sub` is refused.",
		"For `github`, `workflow_ref` takes a file name such as `release.yml`, or",
		"`release.yml@refs/heads/main`.",
		"At the stages `propose` and `promote` they name a branch, a tag, an environment or a protected ref",
		'(`workflow_ref` with its ref, `ref`, `environment`, `ref_protected: "true"` on GitHub), because',
		"everybody who can push can start jobs of other branches.",
		"`issuer` is required for `circleci` and `oidc`, and names the server of GitHub Enterprise or a",
		"self-managed GitLab.",
		"It is https and public; a server that `npm start` runs accepts loopback as well.",
		"`channels` limits promotions to these channels.",
		"`once_per_run` allows one exchange for each attempt of a run.",
		"Refused in any case: `pull_request_target`, `workflow_run`, comments and other events that run",
		"foreign code, and pull requests except for `preview`.",
	],
	access: { permission: MANAGES_PUBLISHERS, scope: appScope("body.app_id") },
	refusesUnknown: true,
	recentSignIn: true,
	body: newPublisherBody,
	status: [201],
	response: publisherSchema,
	errors: ["quota_exceeded"],
	example: {
		body: {
			app_id: EXAMPLE_PUBLISHER.app_id,
			name: EXAMPLE_PUBLISHER.name,
			stage: EXAMPLE_PUBLISHER.stage,
			provider: EXAMPLE_PUBLISHER.provider,
			claims: EXAMPLE_PUBLISHER.claims,
			channels: EXAMPLE_PUBLISHER.channels,
		},
		response: { ...EXAMPLE_PUBLISHER, last_used_at: null, last_job: null },
	},
	async handle({ db, deps, principal, scope, scopeRow, input, nowMs, actor }) {
		const { name, provider, stage, claims, channels, once_per_run, expires_at } = input.body;
		const { orgId, appId } = scope;
		const issuer = issuerOf(provider, input.body.issuer, deps.localFetch !== undefined);
		refuseLooseClaims(provider, claims);
		refuseAnyRef(provider, stage, claims);
		refuseChannelsOfStage(stage, channels);
		refuseStrongerPublisher(principal, { stage, expiresAtMs: expires_at ?? null }, orgId, appId, nowMs);
		const { anchor = "", ownerAnchor } = anchorsOf(provider, claims);
		const times = { created_at_ms: nowMs, updated_at_ms: nowMs };
		const row: PublisherRow = {
			id: deps.newId(),
			app_id: appId,
			api_key_id: deps.newId(),
			name,
			provider,
			issuer,
			stage,
			claims: JSON.stringify(claims),
			anchor,
			owner_anchor: ownerAnchor,
			channels: channels === undefined ? null : JSON.stringify(channels),
			once_per_run: once_per_run === true ? 1 : 0,
			created_by: principal.userId,
			expires_at_ms: expires_at ?? null,
			last_used_at_ms: null,
			last_ci: null,
			...times,
		};
		await batchInQuotas(
			db,
			deps.config.quotas,
			[keysOfOrganization(orgId)],
			[
				guard(channelsAreOf(appId, channels ?? []), channelsGone),
				insertApiKey(orgId, {
					id: row.api_key_id,
					user_id: principal.userId,
					name: keyName(name),
					...times,
					// Nobody knows this secret.
					key_hash: hashKey(mintKey(deps.randomBytes).text),
					key_hint: "CI",
					expires_at_ms: row.expires_at_ms,
				}),
				...rightsOf(row, orgId, appId, deps, nowMs),
				insertPublisher(appId, row),
				auditStatement(actor, nowMs, {
					orgId,
					action: "publisher.create",
					target: { type: "publisher", id: row.id, name },
					app: { uuid: appId, id: scopeRow.app_id },
					after: audited(row),
				}),
			],
		);
		return new Reply(201, publisherAnswer({ ...row, has_rights: 1 }, scopeRow.app_id, nowMs));
	},
});

export const changePublisher = endpoint({
	method: "PUT",
	path: "/publisher",
	tag: PUBLISHERS_TAG,
	summary: "Change a publisher",
	description: [
		"Omitted fields stay; provider and issuer cannot be changed.",
		'`claims` replaces all claims, and `channels` all channels; `channels: "all"` allows every channel.',
		'`expires_at: "never"` removes the expiry.',
		"Keys that jobs got before are revoked.",
	],
	access: { permission: MANAGES_PUBLISHERS, scope: appScope("body.app_id") },
	refusesUnknown: true,
	recentSignIn: true,
	body: v.object({
		app_id: publicAppId,
		id: uuid,
		name: optional(publisherFields.name),
		stage: optional(publisherFields.stage),
		claims: optional(publisherFields.claims),
		channels: v.optional(v.union([v.literal("all"), publisherFields.channels])),
		once_per_run: publisherFields.once_per_run,
		expires_at: optional(v.union([v.literal(NEVER), timestamp], `must be an RFC 3339 time, or "${NEVER}"`)),
	}),
	response: publisherSchema,
	errors: ["publisher_changed", "publisher_not_found"],
	example: {
		body: { app_id: EXAMPLE_PUBLISHER.app_id, id: EXAMPLE_PUBLISHER.id, stage: "promote" },
		response: EXAMPLE_PUBLISHER,
	},
	load: ({ body }) => ({ publisher: publisherOfApp(body.app_id, body.id) }),
	async handle({ db, deps, principal, scope, scopeRow, input, loaded, nowMs, actor }) {
		const [row] = loaded.publisher;
		if (row === undefined) throw publisherNotFound();
		const { orgId, appId } = scope;
		const { name = row.name, stage = row.stage, claims = JSON.parse(row.claims), channels, once_per_run } = input.body;
		const { expires_at } = input.body;
		const provider = providerOf(row);
		refuseLooseClaims(provider, claims);
		refuseAnyRef(provider, stage, claims);
		const named =
			channels === "all" ? undefined : (channels ?? (row.channels === null ? undefined : JSON.parse(row.channels)));
		refuseChannelsOfStage(stage, named);
		const expiresAtMs = expires_at === NEVER ? null : (expires_at ?? row.expires_at_ms);
		refuseStrongerPublisher(principal, { stage, expiresAtMs }, orgId, appId, nowMs);
		const { anchor = "", ownerAnchor } = anchorsOf(provider, claims);
		const changed: ListedPublisherRow = {
			...row,
			name,
			stage,
			claims: JSON.stringify(claims),
			anchor,
			owner_anchor: ownerAnchor,
			channels: named === undefined ? null : JSON.stringify(named),
			expires_at_ms: expiresAtMs,
			once_per_run: (once_per_run ?? row.once_per_run === 1) ? 1 : 0,
			// Strictly increasing, so that the guard detects a concurrent change within the same
			// millisecond.
			updated_at_ms: Math.max(nowMs, row.updated_at_ms + 1),
		};
		const rightsChange = changed.stage !== row.stage || changed.channels !== row.channels;
		const { id, app_id: _, api_key_id: __, has_rights: ___, ...values } = changed;
		await db.batch([
			guard(publisherUnchanged(appId, row), publisherChanged),
			guard(channelsAreOf(appId, rightsChange ? (named ?? []) : []), channelsGone),
			...endPublisherRights(orgId, appId, id, rightsChange),
			...(rightsChange ? rightsOf(changed, orgId, appId, deps, nowMs) : []),
			updatePublisher(appId, id, values),
			query
				.updateTable("api_keys")
				.set({ name: keyName(name), expires_at_ms: expiresAtMs, updated_at_ms: nowMs })
				.where("org_id", "=", orgId)
				.where("id", "=", row.api_key_id)
				.compile(),
			auditStatement(actor, nowMs, {
				orgId,
				action: "publisher.update",
				target: { type: "publisher", id, name },
				app: { uuid: appId, id: scopeRow.app_id },
				...auditedDifference(audited(row), audited(changed)),
			}),
		]);
		return publisherAnswer(rightsChange ? { ...changed, has_rights: 1 } : changed, scopeRow.app_id, nowMs);
	},
});

export const removePublisher = endpoint({
	method: "DELETE",
	path: "/publisher",
	tag: PUBLISHERS_TAG,
	summary: "Stop trusting a publisher",
	description: "Keys that its jobs hold are revoked at once. Bundles and channels that they created stay.",
	access: { permission: MANAGES_PUBLISHERS, scope: appScope("query.app_id") },
	query: v.object({ app_id: publicAppId, id: uuid }),
	queryOrBody: true,
	response: acknowledgement,
	errors: ["publisher_changed", "publisher_not_found"],
	example: { query: { app_id: EXAMPLE_PUBLISHER.app_id, id: EXAMPLE_PUBLISHER.id }, response: OK },
	load: ({ query }) => ({ publisher: publisherOfApp(query.app_id, query.id) }),
	async handle({ db, scope, scopeRow, loaded, nowMs, actor }) {
		const [row] = loaded.publisher;
		if (row === undefined) throw publisherNotFound();
		await db.batch([
			guard(publisherUnchanged(scope.appId, row), publisherChanged),
			deletePublisher(scope.orgId, scope.appId, row.id),
			auditStatement(actor, nowMs, {
				orgId: scope.orgId,
				action: "publisher.delete",
				target: { type: "publisher", id: row.id, name: row.name },
				app: { uuid: scope.appId, id: scopeRow.app_id },
				before: audited(row),
			}),
		]);
		return OK;
	},
});

const keyName = (name: string) => `Publisher: ${name}`;

/** The fields of a publisher in the audit log. */
function audited(row: PublisherRow): Record<string, unknown> {
	return {
		name: row.name,
		provider: row.provider,
		issuer: row.issuer,
		stage: row.stage,
		claims: JSON.parse(row.claims),
		channels: row.channels === null ? null : JSON.parse(row.channels),
		once_per_run: row.once_per_run === 1,
		expires_at: nullableRfc3339(row.expires_at_ms),
		key_id: row.api_key_id,
	};
}

function auditedDifference(before: Record<string, unknown>, after: Record<string, unknown>) {
	const names = Object.keys(after).filter((name) => JSON.stringify(before[name]) !== JSON.stringify(after[name]));
	const only = (of: Record<string, unknown>) => Object.fromEntries(names.map((name) => [name, of[name]]));
	return { before: only(before), after: only(after) };
}
