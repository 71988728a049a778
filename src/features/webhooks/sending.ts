/**
 * Sends one request to the address of a webhook, and keeps the part of the answer that people may
 * see. The address is checked again here, because the rules may be stricter than when it was saved;
 * redirects are not followed.
 */
import type { Deps } from "../../deps";
import { type KeptAnswer, keptOf, MOST_READ_BYTES, secretsOf } from "../../domain/webhooks/answers";
import { retryAfterMs, webhookUrlProblem } from "../../domain/webhooks/delivery";
import { causeText } from "../../errors";
import type { OutgoingRequest } from "./formats";
import { takesLocalUrls } from "./record";

/** Standard Webhooks recommends 15 to 30 seconds. */
export const TIME_LIMIT_MS = 15_000;
/** A receiver may never end its body. What it sent until then is kept. */
export const BODY_TIME_LIMIT_MS = 2_000;

export interface Answer {
	readonly statusCode: number | null;
	/** Null: the receiver took the request. */
	readonly error: string | null;
	readonly retryAfterMs: number;
	/** Another attempt would have the same result. */
	readonly isFinal?: true;
	/** The part that people see; undefined: the receiver did not answer. */
	readonly kept?: KeptAnswer;
	/** When its headers came. */
	readonly answeredAtMs?: number;
}

export const failed = (statusCode: number | null, error: string, waitMs = 0): Answer => ({
	statusCode,
	error,
	retryAfterMs: waitMs,
});

/** @param about facts for the log */
export async function sendTo(
	deps: Deps,
	url: string,
	{ headers, body }: OutgoingRequest,
	about: Readonly<Record<string, string>>,
): Promise<Answer> {
	const isLocal = takesLocalUrls(deps);
	const problem = webhookUrlProblem(url, isLocal);
	if (problem !== undefined) return failed(null, `the address ${problem}`);
	const aborted = new AbortController();
	const fetching = (isLocal ? deps.fetchLocally : deps.fetch)(url, {
		method: "POST",
		headers,
		body,
		redirect: "manual",
		signal: aborted.signal,
	});
	// It loses the race after a timeout, and then rejects with nobody waiting for it.
	fetching.catch(() => undefined);
	try {
		const response = await Promise.race([fetching, deps.deadline(TIME_LIMIT_MS)]);
		if (response === undefined) return failed(null, `no answer within ${TIME_LIMIT_MS / 1000} seconds`);
		const answeredAtMs = deps.now();
		const { headers: answered, status } = response;
		const kept = keptOf({ headers: answered, ...(await beginningOf(response, deps)) }, secretsOf(url, headers));
		if (status >= 200 && status < 300) {
			return { statusCode: status, error: null, retryAfterMs: 0, kept, answeredAtMs };
		}
		const isRedirect = status >= 300 && status < 400;
		const error = isRedirect ? "redirects are not followed" : `the receiver answered ${status}`;
		return { ...failed(status, error, retryAfterMs(answered.get("retry-after"), answeredAtMs)), kept, answeredAtMs };
	} catch (error) {
		deps.log("info", "webhook_unreachable", { ...about, cause: causeText(error) });
		return failed(null, "the receiver could not be reached");
	} finally {
		aborted.abort();
	}
}

/** The first bytes of a body, as far as they come in time. Never rejects. */
async function beginningOf(
	{ body }: Response,
	{ deadline }: Pick<Deps, "deadline">,
): Promise<{ readonly bytes: Uint8Array; readonly isWhole: boolean }> {
	if (body === null) return { bytes: new Uint8Array(), isWhole: true };
	const reader: ReadableStreamDefaultReader<Uint8Array> = body.getReader();
	const bytes = new Uint8Array(MOST_READ_BYTES);
	let length = 0;
	const read = async () => {
		for (;;) {
			const { done, value } = await reader.read();
			if (done) return true;
			const part = value.subarray(0, MOST_READ_BYTES - length);
			bytes.set(part, length);
			length += part.length;
			if (part.length < value.length) return false;
		}
	};
	const isWhole = await Promise.race([read().catch(() => false), deadline(BODY_TIME_LIMIT_MS)]);
	// Not awaited: the receiver may go on sending.
	reader.cancel().catch(() => undefined);
	return { bytes: bytes.slice(0, length), isWhole: isWhole === true };
}
