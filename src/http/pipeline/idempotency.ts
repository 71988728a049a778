/**
 * `Idempotency-Key` on creations: a client that lost an answer sends the request again with the
 * same key, and gets the first answer instead of a second record. Each caller has its own keys. The
 * key is claimed in the batch of the creation, so that of two requests one creates.
 *
 * Answers are stored sealed, because that of a new API key has its secret.
 */

import type { CompiledQuery } from "kysely";
import { hashKey, openKey, sealKey } from "../../authz/secrets";
import type { Database } from "../../db/client";
import {
	claimIdempotencyKey,
	type EarlierCreation,
	earlierCreation,
	releaseIdempotencyKey,
	storeAnswer,
} from "../../db/idempotency-keys";
import type { Deps } from "../../deps";
import { signingSecret } from "../../domain/secrets";
import { ApiError, causeText, type ErrorCode, invalidRequest } from "../../errors";
import { type AnyEndpoint, isRaw, Reply } from "../endpoint";
import type { RawInput } from "../scope";
import type { Credential } from "./credential-headers";
import { isRead } from "./guarded-writes";

const HEADER = "idempotency-key";
/** Header of an answer that an earlier request got. */
export const REPLAYED_HEADER = "idempotency-replayed";

export const IDEMPOTENCY_ERRORS: readonly ErrorCode[] = ["idempotency_key_in_use", "idempotency_key_reused"];

/** True for endpoints that create something for a caller, and answer in JSON. */
export function takesIdempotencyKey({ access, method, status, response, rawResponse }: AnyEndpoint): boolean {
	const isOfCaller = !("public" in access || "ownSession" in access);
	return (
		isOfCaller && method !== "GET" && status?.includes(201) === true && !isRaw(response) && rawResponse === undefined
	);
}

type Work = Pick<Deps, "config" | "randomBytes" | "log">;

export interface Repeatable {
	/** Reads the creation that used the key before. */
	readonly statement: CompiledQuery<EarlierCreation>;
	/**
	 * Answers with the stored answer, or runs the creation.
	 * @throws {ApiError} `idempotency_key_reused`, `idempotency_key_in_use`
	 */
	run(earlier: EarlierCreation | undefined, db: Database, create: (db: Database) => Promise<unknown>): Promise<unknown>;
}

/**
 * @returns undefined for a request without the header, and for endpoints that create nothing
 * @throws {ApiError} `invalid_request` for a key that is no short printable text
 */
export function repeatable(
	deps: Work,
	endpoint: AnyEndpoint,
	{ hash }: Credential,
	raw: RawInput,
	nowMs: number,
): Repeatable | undefined {
	const key = raw.headers.get(HEADER);
	if (key === null || !takesIdempotencyKey(endpoint)) return undefined;
	if (!/^[\x21-\x7e]{1,255}$/.test(key)) {
		throw invalidRequest([{ path: HEADER, message: "must have 1 to 255 printable characters without spaces" }]);
	}
	const id = hashKey(`${hash} ${key}`);
	const { params, query, body = null } = raw;
	const sorted = Object.entries(query).sort(([left], [right]) => (left < right ? -1 : 1));
	const requestHash = hashKey(JSON.stringify([endpoint.method, endpoint.path, params, sorted, body]));
	return {
		statement: earlierCreation(id, nowMs),
		async run(earlier, db, create) {
			if (earlier !== undefined) return replayed(deps, id, requestHash, earlier);
			let isClaimed = false;
			const claiming: Database = {
				get trips() {
					return db.trips;
				},
				get sizeBytes() {
					return db.sizeBytes;
				},
				async batch(statements, { before = [], after = [] } = {}) {
					if (isClaimed || statements.every(isRead)) return db.batch(statements, { before, after });
					const claim = claimIdempotencyKey(id, requestHash, nowMs, keyInUse);
					const results = await db.batch(statements, { before: [...claim, ...before], after });
					isClaimed = true;
					return results;
				},
			};
			try {
				const output = await create(claiming);
				if (isClaimed) await db.batch([storeAnswer(id, await seal(deps, id, output, nowMs))]);
				return output;
			} catch (error) {
				// A refusal has created nothing. After a fault nobody knows, so the key stays claimed.
				if (isClaimed && error instanceof ApiError && error.status < 500) await db.batch([releaseIdempotencyKey(id)]);
				throw error;
			}
		},
	};
}

const purposeOf = (id: string) => `idempotency:${id}`;

function seal({ config, randomBytes }: Work, id: string, output: unknown, nowMs: number): Promise<string> {
	const { status, body, headers } = output instanceof Reply ? output : new Reply(201, output);
	const text = JSON.stringify({ status, body, headers });
	return sealKey(text, purposeOf(id), signingSecret(config.secrets, nowMs), randomBytes);
}

async function replayed(
	{ config, log }: Work,
	id: string,
	requestHash: string,
	{ request_hash, sealed_answer: sealed }: EarlierCreation,
): Promise<Reply<unknown>> {
	if (request_hash !== requestHash) {
		throw new ApiError(
			"idempotency_key_reused",
			"This Idempotency-Key was sent with another request; send a new key for each creation.",
		);
	}
	if (sealed === null) throw keyInUse();
	try {
		const { status, body, headers } = JSON.parse(await openKey(sealed, purposeOf(id), config.secrets));
		return new Reply(status, body, { ...headers, [REPLAYED_HEADER]: "true" });
	} catch (error) {
		log("warn", "idempotent_answer_not_opened", { cause: causeText(error) });
		throw keyInUse();
	}
}

function keyInUse(): ApiError {
	return new ApiError(
		"idempotency_key_in_use",
		"A request with this Idempotency-Key is running, or its answer was lost. Repeat it in a few seconds; if this stays, look whether the record exists, and send a new key if it does not.",
		{ headers: { "Retry-After": "2" } },
	);
}
