/**
 * POST /oidc/token: a CI job's identity token for an API key of 15 minutes. The order is the
 * defence: address and issuer are limited before anything is fetched, the signature is verified
 * before anything of the token is answered, and the batch that creates the key spends the token and
 * holds the publisher unchanged.
 *
 * A job names its app if publishers of several organizations trust its repository, so that no
 * organization can attract another's uploads.
 */

import * as v from "valibot";
import { hashKey, mintKey } from "../../authz/secrets";
import { auditStatement } from "../../db/audit/entries";
import { guard, onUnique, type Statement } from "../../db/client";
import {
	type CandidateRow,
	candidatePublishers,
	hasFewCiKeys,
	insertCiKey,
	issuerKeysOf,
	isUnspent,
	publisherMints,
	publisherOfIssuer,
	spendIdentityToken,
} from "../../db/publishers";
import { type Claims, type Mismatch, mismatchOf, narrowness, textOf, textsOf } from "../../domain/ci/claims";
import { type CiContext, ciName, limitOfJob, PUBLISHER_STAGES, type PublisherStage } from "../../domain/ci/context";
import { ciContextOf, PROVIDERS, refusalOf, sourceBranchOf } from "../../domain/ci/providers";
import { CI_KEY_MINUTES } from "../../domain/defaults";
import { DAY_MS, MINUTE_MS } from "../../domain/time";
import { ApiError, invalidRequest } from "../../errors";
import { type Context, endpoint } from "../../http/endpoint";
import { tooManyRequests } from "../../http/limits/requests";
import { optional, publicAppId, rfc3339, text, time } from "../../http/schemas";
import { wakingWrites } from "../../queue/webhook-wake";
import {
	checkTimesAndAudience,
	claimRefused,
	invalidIdentityToken,
	LONGEST_TOKEN,
	readIdentityToken,
	type UnverifiedToken,
	verifySignature,
} from "./identity-token";
import { cachedIssuerKey, issuerKey } from "./issuer-keys";
import { anchorOf, EXAMPLE_PUBLISHER, PUBLISHERS_TAG, providerOf, publisherNotFound, stageName } from "./record";

const KEY_LIFETIME_MS = CI_KEY_MINUTES * MINUTE_MS;
/**
 * Live keys of one publisher: a busy repository has a few dozen, and a burst of jobs some thousand.
 */
const MOST_LIVE_KEYS = 10_000;
const MOST_CANDIDATES = 200;
const MOST_ANCHORS = 200;
/** How long an attempt of a run is remembered, for publishers that allow one exchange each. */
const RUN_MEMORY_MS = 30 * DAY_MS;

const GRANT = "urn:ietf:params:oauth:grant-type:token-exchange";
const JWT_TYPES = ["urn:ietf:params:oauth:token-type:jwt", "urn:ietf:params:oauth:token-type:id_token"] as const;
const ACCESS_TOKEN_TYPE = "urn:ietf:params:oauth:token-type:access_token";

const body = v.object({
	token: optional(text(LONGEST_TOKEN)),
	app_id: optional(publicAppId),
	stage: optional(stageName),
	grant_type: optional(v.literal(GRANT, `must be ${GRANT}`)),
	subject_token: optional(text(LONGEST_TOKEN)),
	subject_token_type: optional(v.picklist(JWT_TYPES, `must be ${JWT_TYPES.join(" or ")}`)),
});

export const exchangeToken = endpoint({
	method: "POST",
	path: "/oidc/token",
	tag: PUBLISHERS_TAG,
	summary: `Exchange a CI job's identity token for an API key of ${CI_KEY_MINUTES} minutes`,
	description: [
		"`token` is the job's OIDC token, requested for the audience that is this server's public origin,",
		"such as `https://updates.example.com`.",
		"A form or JSON body as in RFC 8693 (`grant_type`, `subject_token`, `subject_token_type`) is accepted",
		"as well and also answers `access_token`.",
		"`app_id` is required if the repository publishes several apps; `stage` chooses among the app's",
		"publishers, otherwise the narrowest one wins.",
		"The key works wherever an API key does, such as `CAPGO_TOKEN` of the stock CLI.",
		"Each token is exchanged once.",
		"A token without a good signature is 401 `invalid_identity_token`; afterwards 403",
		"`no_matching_publisher` names in `moreInfo` the claim",
		"that differs, with the expected and the received value.",
	],
	access: {
		public: "The identity token is the credential: its signature and claims are verified before anything is answered.",
	},
	body,
	formBody: true,
	bodyLimitBytes: 2 * LONGEST_TOKEN,
	response: v.strictObject({
		token: v.string(),
		expires_at: time,
		expires_in: v.number(),
		stage: v.picklist(PUBLISHER_STAGES),
		app_id: v.string(),
		publisher_id: v.string(),
		access_token: v.optional(v.string()),
		issued_token_type: v.optional(v.string()),
		token_type: v.optional(v.string()),
	}),
	errors: [
		"invalid_identity_token",
		"no_matching_publisher",
		"identity_token_replayed",
		"publisher_not_found",
		"issuer_unavailable",
	],
	example: {
		body: { token: "eyJ…", app_id: EXAMPLE_PUBLISHER.app_id },
		response: {
			token: "cap_…",
			expires_at: "2026-11-21T08:15:00.000Z",
			expires_in: 900,
			stage: "promote",
			app_id: EXAMPLE_PUBLISHER.app_id,
			publisher_id: EXAMPLE_PUBLISHER.id,
		},
	},
	async handle(context) {
		const { deps, input, origin, nowMs, callerLimits } = context;
		const { app_id: appId, stage, grant_type } = input.body;
		const token = readIdentityToken(tokenOf(input.body));
		const unlimited = context.db.unlimited ?? context.db;
		const cached = cachedIssuerKey(deps, token, nowMs);
		if (cached !== undefined) await verifySignature(token, cached);
		// Runners of many repositories share an address, so a token with a good signature counts for its
		// repository alone.
		const db =
			cached === undefined ? context.db : callerLimits.provenDatabase(unlimited, repositoryIn(token), "Tokens");
		const [candidates, ofIssuer, keys] = await db.batch([
			candidatePublishers(token.issuer, anchorsIn(token.claims), appId, MOST_CANDIDATES + 1),
			publisherOfIssuer(token.issuer),
			issuerKeysOf(token.issuer),
		]);
		const [known] = ofIssuer.rows;
		// Only issuers that a publisher names are ever fetched.
		if (known === undefined) throw invalidIdentityToken();
		if (cached === undefined) await verifySignature(token, await issuerKey({ db, deps, nowMs }, token, keys.rows[0]));
		const tokenExpiresAtMs = checkTimesAndAudience(token, origin, nowMs);
		const publisher = chosen(candidates.rows, token, { appId, stage, provider: providerOf(known) }, nowMs);
		// The job is trusted, and is bounded by the live keys of its publisher.
		db.refund?.();
		const waking = wakingWrites(unlimited, deps, nowMs, context.waitUntil);
		const minted = await mint({ ...context, db: waking }, token, publisher, tokenExpiresAtMs);
		return {
			...minted,
			...(grant_type === undefined
				? {}
				: { access_token: minted.token, issued_token_type: ACCESS_TOKEN_TYPE, token_type: "Bearer" }),
		};
	},
});

function tokenOf({ token, grant_type, subject_token, subject_token_type }: v.InferOutput<typeof body>): string {
	const isGrant = grant_type !== undefined || subject_token !== undefined;
	if (!isGrant && token !== undefined) return token;
	const issues = isGrant
		? Object.entries({ grant_type, subject_token, subject_token_type })
				.filter(([, value]) => value === undefined)
				.map(([path]) => ({ path, message: "is required with a token exchange of RFC 8693" }))
		: [{ path: "token", message: "is required: the OIDC token of the job" }];
	if (issues.length > 0 || subject_token === undefined) throw invalidRequest(issues);
	return subject_token;
}

/** Claims that name the repository of a job, by provider. */
const REPOSITORY_CLAIMS = ["repository_id", "project_id", "oidc.circleci.com/project-id", "pipeline_id", "sub"];

function repositoryIn({ issuer, claims }: UnverifiedToken): string {
	const texts = REPOSITORY_CLAIMS.map((claim) => textOf(claims, claim));
	return `${issuer} ${texts.find((found) => found !== null) ?? ""}`;
}

/** `name=value` of the token's claims that lead to publishers. */
function anchorsIn(claims: Claims): string[] {
	return Object.entries(claims)
		.flatMap(([name, value]) => textsOf(value).map((text) => anchorOf(name, text)))
		.slice(0, MOST_ANCHORS);
}

interface ExchangeRequest {
	readonly appId: string | undefined;
	readonly stage: PublisherStage | undefined;
	/** The provider of any publisher of the issuer. */
	readonly provider: ReturnType<typeof providerOf>;
}

/**
 * The narrowest publisher that trusts the job.
 * @throws {ApiError} `no_matching_publisher`
 */
function chosen(
	rows: readonly CandidateRow[],
	token: UnverifiedToken,
	request: ExchangeRequest,
	nowMs: number,
): CandidateRow {
	const ofStage = rows.filter(({ stage }) => request.stage === undefined || stage === request.stage);
	const matching: CandidateRow[] = [];
	let closest: { readonly distance: number; readonly mismatch: Mismatch } | undefined;
	for (const row of ofStage) {
		const mismatch = mismatchOfPublisher(row, token, nowMs);
		if (mismatch === undefined) {
			if (row.is_anchored === 1) matching.push(row);
			continue;
		}
		const distance = (row.is_anchored === 1 ? 0 : 1_000) + mismatch.distance;
		if (closest === undefined || distance < closest.distance) closest = { distance, mismatch: shownTo(row, mismatch) };
	}
	matching.sort(byNarrowness);
	const [first, second] = matching;
	if (first === undefined) throw noMatch(ofStage.length, closest?.mismatch, token, request);
	const isAmbiguous =
		matching.some(({ org_id }) => org_id !== first.org_id) ||
		// Publishers of other repositories of the same owner explain refusals; they make nothing
		// ambiguous.
		rows.filter(({ is_anchored }) => is_anchored === 1).length > MOST_CANDIDATES ||
		(second !== undefined && second.app_id !== first.app_id && rankOf(second) === rankOf(first));
	if (isAmbiguous) {
		throw claimRefused("Several apps trust this job; send app_id, the app that it publishes, in the body.", {
			claim: "app_id",
			expected: null,
			received: null,
		});
	}
	return first;
}

/**
 * The wanted value only if the job has the ids of the publisher's repository: it may be another
 * tenant's.
 */
function shownTo(row: CandidateRow, { claim, expected, received }: Mismatch): Mismatch {
	const { ids } = PROVIDERS[providerOf(row)];
	const isOfRepository = row.is_anchored === 1 && ids.length > 0 && !ids.includes(claim);
	return { claim, expected: isOfRepository ? expected : null, received };
}

const rankOf = (row: CandidateRow) => narrowness(JSON.parse(row.claims));

/** Narrower publishers first, then those with fewer rights, then older ones. */
function byNarrowness(one: CandidateRow, other: CandidateRow): number {
	return (
		rankOf(other) - rankOf(one) ||
		PUBLISHER_STAGES.indexOf(one.stage) - PUBLISHER_STAGES.indexOf(other.stage) ||
		one.created_at_ms - other.created_at_ms
	);
}

/**
 * Why the publisher does not trust the job; undefined: it does. A larger `distance` is a worse
 * explanation.
 */
function mismatchOfPublisher(row: CandidateRow, { claims }: UnverifiedToken, nowMs: number) {
	const provider = providerOf(row);
	const rules = PROVIDERS[provider];
	const wanted: Record<string, string> = JSON.parse(row.claims);
	const mismatch = mismatchOf(claims, wanted, rules.ids, rules);
	if (mismatch !== undefined) return { ...mismatch, distance: rules.ids.includes(mismatch.claim) ? 100 : 10 };
	if (row.has_rights === 0) {
		const expected = "a creator who still has the rights of its stage";
		return { claim: "publisher", expected, received: "none", distance: 2 };
	}
	if (row.expires_at_ms !== null && row.expires_at_ms <= nowMs) {
		return {
			claim: "publisher",
			expected: `before ${rfc3339(row.expires_at_ms)}`,
			received: rfc3339(nowMs),
			distance: 2,
		};
	}
	const refused = refusalOf(provider, claims, wanted, row.stage);
	return refused === undefined ? undefined : { ...refused, distance: 1 };
}

function noMatch(
	candidates: number,
	mismatch: Mismatch | undefined,
	{ claims }: UnverifiedToken,
	request: ExchangeRequest,
): ApiError {
	const stage = request.stage === undefined ? "" : ` of stage ${request.stage}`;
	if (mismatch !== undefined && candidates > 0) {
		const { claim, expected, received } = mismatch;
		return claimRefused(
			`No publisher${stage} trusts this job: its claim ${claim} is ${JSON.stringify(received)}${expected === null ? "" : `, and ${JSON.stringify(expected)} is expected`}. Correct the job, or the publisher with PUT /publisher.`,
			{ claim, expected, received },
		);
	}
	const claim = PROVIDERS[request.provider].ids[0] ?? "sub";
	const received = textOf(claims, claim);
	const where =
		request.appId === undefined ? "No app" : `The app ${request.appId} is unknown here, or has no publisher that`;
	return claimRefused(
		request.appId === undefined
			? `${where} on this server has a publisher${stage} that trusts this repository (${claim} ${JSON.stringify(received)}); add one with POST /publisher.`
			: `${where} trusts this repository (${claim} ${JSON.stringify(received)})${stage}; add one with POST /publisher.`,
		{ claim, expected: null, received },
	);
}

type MintContext = Pick<
	Context<string, undefined, undefined, undefined, readonly []>,
	"actor" | "db" | "deps" | "nowMs"
>;

/** One batch: the token is spent, the key exists, and the audit log names the job. */
async function mint(
	{ actor, db, deps, nowMs }: MintContext,
	token: UnverifiedToken,
	row: CandidateRow,
	tokenExpiresAtMs: number,
) {
	const ci = ciContextOf(providerOf(row), token.claims, token.issuer);
	const branch = sourceBranchOf(providerOf(row), token.claims);
	const key = mintKey(deps.randomBytes);
	const expiresAtMs = Math.min(nowMs + KEY_LIFETIME_MS, row.expires_at_ms ?? Number.POSITIVE_INFINITY);
	await db.batch([
		guard(publisherMints(row), publisherNotFound),
		guard(hasFewCiKeys(row.id, MOST_LIVE_KEYS, nowMs), () =>
			tooManyRequests("This publisher has exchanged too many tokens", KEY_LIFETIME_MS / 1_000),
		),
		...spendRun(row, ci, nowMs),
		onUnique(
			spendIdentityToken(spentHash(token), tokenExpiresAtMs),
			"spent_identity_tokens.hash",
			replayedToken("jti"),
		),
		...insertCiKey(
			{ hash: key.hash, ci: JSON.stringify(ci), limit: limitOfJob(row.stage, ci, branch), expiresAtMs },
			row.id,
			nowMs,
		),
		auditStatement({ ...actor, type: "api_key", id: row.api_key_id, name: ciName(ci, row.name), ci }, nowMs, {
			orgId: row.org_id,
			action: "publisher.exchange",
			target: { type: "publisher", id: row.id, name: row.name },
			app: { uuid: row.app_id, id: row.public_app_id },
			details: { stage: row.stage, key_hint: key.hint, expires_at: rfc3339(expiresAtMs) },
		}),
	]);
	return {
		token: key.text,
		expires_at: rfc3339(expiresAtMs),
		expires_in: Math.floor((expiresAtMs - nowMs) / 1_000),
		stage: row.stage,
		app_id: row.public_app_id,
		publisher_id: row.id,
	};
}

/** By `jti`, or by the signed text where the provider has none. */
function spentHash({ text, issuer, claims }: UnverifiedToken): string {
	const { jti } = claims;
	const id = typeof jti === "string" && jti !== "" ? `jti ${jti}` : `text ${text.slice(0, text.lastIndexOf("."))}`;
	return hashKey(`${issuer}\0${id}`);
}

function spendRun(row: CandidateRow, { run_id, run_attempt }: CiContext, nowMs: number): Statement[] {
	if (row.once_per_run === 0) return [];
	if (run_id === null) {
		throw new ApiError(
			"no_matching_publisher",
			"The publisher allows one key for each run (once_per_run), and this token names no run; use a provider whose tokens name it, or turn once_per_run off.",
			{ moreInfo: { claim: "run_id", expected: null, received: null } },
		);
	}
	const hash = hashKey(`${row.id}\0run ${run_id} ${run_attempt ?? ""}`);
	return [guard(isUnspent(hash), replayedToken("run_id")), spendIdentityToken(hash, nowMs + RUN_MEMORY_MS)];
}

const replayedToken = (claim: "jti" | "run_id") => () =>
	new ApiError(
		"identity_token_replayed",
		claim === "jti"
			? "This identity token was exchanged before; request a new one in the job."
			: "This attempt of the run has a key already, and the publisher allows one (once_per_run); pass the key on within the job, or start a new run.",
		{ moreInfo: { claim } },
	);
