/**
 * A trusted publisher in requests and responses, and the rules for the claims that it names: the
 * ids that make a repository unique, exactly; never `sub`, and never names alone.
 */

import * as v from "valibot";
import type { ListedPublisherRow, PublisherRow } from "../../db/publishers";
import type { WantedClaims } from "../../domain/ci/claims";
import { type CiContext, PUBLISHER_STAGES, type PublisherStage } from "../../domain/ci/context";
import { issuerProblem } from "../../domain/ci/issuer-url";
import {
	acceptsAnyRef,
	CI_PROVIDERS,
	type CiProviderName,
	PROVIDERS,
	providerOfIssuer,
} from "../../domain/ci/providers";
import { UNUSED_DAYS } from "../../domain/defaults";
import { DAY_MS } from "../../domain/time";
import { ApiError, invalidRequest, type RequestIssue } from "../../errors";
import {
	channelName,
	label,
	nullableRfc3339,
	nullableTime,
	optional,
	publicAppId,
	rfc3339,
	text,
	time,
	timestamp,
} from "../../http/schemas";
import { hiddenAs } from "../../http/scope";

export const PUBLISHERS_TAG = "Trusted publishing";

/** A publisher that was not used for this time is marked as unused. */
const UNUSED_MS = UNUSED_DAYS * DAY_MS;
const MOST_CLAIMS = 32;
const MOST_CHANNELS = 50;

export const publisherNotFound = hiddenAs(
	"publisher_not_found",
	"No publisher with this id is visible to the caller; list an app's publishers with GET /publisher.",
);

export const publisherChanged = () =>
	new ApiError("publisher_changed", "The publisher was changed by another request; read it again and retry.");

export const channelsGone = () =>
	invalidRequest([
		{ path: "channels", message: "names a channel that the app does not have; list them with GET /channel" },
	]);

export const stageName = v.picklist(PUBLISHER_STAGES, `must be one of ${PUBLISHER_STAGES.join(", ")}`);

const jobSchema = v.strictObject({
	provider: v.string(),
	repository: v.nullable(v.string()),
	repository_id: v.nullable(v.string()),
	run_id: v.nullable(v.string()),
	run_attempt: v.nullable(v.string()),
	run_url: v.nullable(v.string()),
	commit: v.nullable(v.string()),
	ref: v.nullable(v.string()),
	number: v.nullable(v.number()),
	actor: v.nullable(v.string()),
});

export const publisherSchema = v.strictObject({
	id: v.string(),
	app_id: v.string(),
	name: v.string(),
	stage: v.picklist(PUBLISHER_STAGES),
	provider: v.picklist(CI_PROVIDERS),
	issuer: v.string(),
	claims: v.record(v.string(), v.string()),
	channels: v.nullable(v.array(v.string())),
	once_per_run: v.boolean(),
	/** The API key that the publisher acts by. */
	key_id: v.string(),
	created_by: v.string(),
	created_at: time,
	updated_at: time,
	expires_at: nullableTime,
	last_used_at: nullableTime,
	last_job: v.nullable(jobSchema),
	/** False: it expired, or its creator lost the rights that it needs, so its jobs get no keys. */
	active: v.boolean(),
	/** Not used for 90 days. */
	unused: v.boolean(),
});

export function publisherAnswer(
	row: ListedPublisherRow,
	publicId: string,
	nowMs: number,
): v.InferOutput<typeof publisherSchema> {
	return {
		id: row.id,
		app_id: publicId,
		name: row.name,
		stage: row.stage,
		provider: providerOf(row),
		issuer: row.issuer,
		claims: JSON.parse(row.claims),
		channels: row.channels === null ? null : JSON.parse(row.channels),
		once_per_run: row.once_per_run === 1,
		key_id: row.api_key_id,
		created_by: row.created_by,
		created_at: rfc3339(row.created_at_ms),
		updated_at: rfc3339(row.updated_at_ms),
		expires_at: nullableRfc3339(row.expires_at_ms),
		last_used_at: nullableRfc3339(row.last_used_at_ms),
		last_job: row.last_ci === null ? null : (JSON.parse(row.last_ci) as CiContext),
		active: row.has_rights === 1 && (row.expires_at_ms ?? Number.POSITIVE_INFINITY) > nowMs,
		unused: (row.last_used_at_ms ?? row.created_at_ms) <= nowMs - UNUSED_MS,
	};
}

/** A provider that only a newer version knows is compared like any issuer. */
export const providerOf = ({ provider }: Pick<PublisherRow, "provider">): CiProviderName =>
	CI_PROVIDERS.find((name) => name === provider) ?? "oidc";

const claimsBody = v.pipe(
	v.record(text(128), text(512)),
	v.check((claims) => Object.keys(claims).length <= MOST_CLAIMS, `must name at most ${MOST_CLAIMS} claims`),
);

export const publisherFields = {
	name: label(),
	stage: stageName,
	claims: claimsBody,
	/** Channels that the publisher may promote to; none: every channel. */
	channels: optional(
		v.pipe(
			v.array(channelName),
			v.minLength(1, "must name a channel, or be left out for every channel"),
			v.maxLength(MOST_CHANNELS, `must name at most ${MOST_CHANNELS} channels`),
			v.transform((names) => [...new Set(names)].sort()),
		),
	),
	once_per_run: optional(v.boolean()),
	expires_at: optional(timestamp),
};

export const newPublisherBody = v.object({
	app_id: publicAppId,
	provider: v.picklist(CI_PROVIDERS, `must be one of ${CI_PROVIDERS.join(", ")}`),
	issuer: optional(text(512)),
	...publisherFields,
});

/**
 * Claims that say something about the token instead of the job, and `sub`, whose form differs by
 * provider, event and setting.
 */
const NOT_COMPARED = ["sub", "iss", "aud", "exp", "iat", "nbf", "jti"];

/** Providers whose ids are numbers, so that a path is certainly a name. */
const NUMBERED: readonly CiProviderName[] = ["github", "gitlab"];

/** @throws {ApiError} `invalid_request` for claims that do not identify one repository for ever */
export function refuseLooseClaims(provider: CiProviderName, claims: WantedClaims): void {
	const issues: RequestIssue[] = [];
	for (const [name, wanted] of Object.entries(claims)) {
		const path = `claims.${name}`;
		if (NOT_COMPARED.includes(name)) {
			issues.push({ path, message: "is not compared; name the separate claims of the job instead, such as its ids" });
		}
		if (wanted.slice(0, -1).includes("*")) issues.push({ path, message: "may have a * only as its last character" });
	}
	for (const id of PROVIDERS[provider].ids) {
		const wanted = claims[id];
		if (wanted === undefined) {
			const message = `is required, because names of repositories and owners can be taken over by others, and ids cannot`;
			issues.push({ path: `claims.${id}`, message });
		} else if (wanted.includes("*")) issues.push({ path: `claims.${id}`, message: "must be exact, without a *" });
		else if (NUMBERED.includes(provider) && wanted.includes("/")) {
			issues.push({ path: `claims.${id}`, message: "must be the number of the id, not a name; no job would match" });
		}
	}
	if (issues.length === 0 && anchorsOf(provider, claims).anchor === undefined) {
		issues.push({ path: "claims", message: "must name a claim exactly that identifies the repository, such as an id" });
	}
	if (issues.length > 0) throw invalidRequest(issues);
}

/**
 * Everybody who can push can start a job of any branch, so a publisher whose jobs change what
 * devices get names the ref.
 * @throws {ApiError} `invalid_request`
 */
export function refuseAnyRef(provider: CiProviderName, stage: PublisherStage, claims: WantedClaims): void {
	const { refs } = PROVIDERS[provider];
	if (refs === undefined || (stage !== "promote" && stage !== "propose") || !acceptsAnyRef(provider, claims)) return;
	const names = refs.names.map((name) => (name.includes("workflow_ref") ? `${name} with its ref` : name));
	const choices = [...names, ...refs.protection.map((name) => `${name}: "true"`)].join(", ");
	const message = `must name the branch, the tag or the environment of the jobs at the stage ${stage}, because everybody who can push can start jobs of other branches: ${choices}`;
	throw invalidRequest([{ path: "claims", message }]);
}

/**
 * The claims that lead from a token to the publisher: the repository's and, to explain refusals,
 * its owner's.
 */
export function anchorsOf(provider: CiProviderName, claims: WantedClaims) {
	const [id, ownerId] = PROVIDERS[provider].ids;
	const exact = Object.keys(claims)
		.filter((name) => claims[name]?.endsWith("*") === false)
		.sort();
	const name = id ?? exact[0];
	return {
		anchor: name === undefined ? undefined : anchorOf(name, claims[name] ?? ""),
		ownerAnchor: ownerId === undefined ? null : anchorOf(ownerId, claims[ownerId] ?? ""),
	};
}

export const anchorOf = (claim: string, value: string) => `${claim}=${value}`;

const ISSUER_HELP: Partial<Record<CiProviderName, string>> = {
	circleci: 'is required: "https://oidc.circleci.com/org/" and the id of your CircleCI organization',
	oidc: "is required: the iss of the identity tokens",
};

/**
 * The issuer of the request, or of the provider.
 * @throws {ApiError} `invalid_request`
 */
export function issuerOf(provider: CiProviderName, issuer: string | undefined, isLocalRun: boolean): string {
	const named = issuer ?? PROVIDERS[provider].issuer;
	const message =
		named === undefined
			? (ISSUER_HELP[provider] ?? "is required")
			: (issuerProblem(named, isLocalRun) ?? otherProvider(provider, named));
	if (named !== undefined && message === undefined) return named;
	throw invalidRequest([{ path: "issuer", message: message ?? "is required" }]);
}

/**
 * Each provider refuses jobs of its own kind, so its issuer under another provider would let them
 * pass.
 */
function otherProvider(provider: CiProviderName, issuer: string): string | undefined {
	const known = providerOfIssuer(issuer);
	return known === undefined || known === provider
		? undefined
		: `is the issuer of the provider "${known}"; name that provider`;
}

const EXAMPLE_JOB = {
	provider: "github",
	repository: "octo-org/octo-repo",
	repository_id: "456789",
	run_id: "1",
	run_attempt: "1",
	run_url: "https://github.com/octo-org/octo-repo/actions/runs/1",
	commit: "b4f1234c5d6e7f8091a2b3c4d5e6f708192a3b4c",
	ref: "refs/heads/main",
	number: null,
	actor: "mona",
};

export const EXAMPLE_PUBLISHER = {
	id: "7b0d7c0e-2f0c-4a55-8f0e-2a1b7f3c9d10",
	app_id: "com.example.app",
	name: "Releases of octo-repo",
	stage: "promote" as const,
	provider: "github" as const,
	issuer: "https://token.actions.githubusercontent.com",
	claims: {
		repository_id: "456789",
		repository_owner_id: "123456",
		workflow_ref: "release.yml@refs/heads/main",
		environment: "production",
	},
	channels: ["production"],
	once_per_run: false,
	key_id: "5d0c7f3a-7c2e-4a2b-9f60-2f4f1c9f7a31",
	created_by: "0c7f0c5e-34a5-4f5c-8b60-8a2f0b8c1d11",
	created_at: "2026-11-21T08:00:00.000Z",
	updated_at: "2026-11-21T08:00:00.000Z",
	expires_at: null,
	last_used_at: "2026-11-21T09:00:00.000Z",
	last_job: EXAMPLE_JOB,
	active: true,
	unused: false,
};
