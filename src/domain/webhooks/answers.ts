/**
 * The part of a receiver's answer that is kept for people who look into a failed delivery. It is
 * text of a stranger: bounded, without control characters, and without what must not be stored in
 * clear or shown, which are the secret parts of the webhook's address, signatures and private
 * addresses of the receiver's network.
 */
import ipaddr from "ipaddr.js";
import * as v from "valibot";
import { isPrivateHost } from "../network/public-host";
import { BIDI_CONTROLS } from "../words/plain-text";
import { webhookUrlProblem } from "./delivery";

/** In UTF-8. */
export const MOST_ANSWER_BYTES = 2_000;
/**
 * Read of an answer: with the longest address after the part that is kept, so that a secret that
 * begins in it is recognized as a whole.
 */
export const MOST_READ_BYTES = 3 * MOST_ANSWER_BYTES;
const LONGEST_HEADER = 200;
/** Cookies are secrets, and other headers name machines of the receiver. */
const KEPT_HEADERS = ["content-type", "retry-after", "location", "allow", "x-request-id", "cf-ray"];
/** Shorter parts of an address are words that answers contain by chance. */
const SHORTEST_SECRET = 8;

export const keptAnswer = v.strictObject({
	headers: v.record(v.string(), v.string()),
	body: v.string(),
	/** The body is longer than what is kept of it. */
	truncated: v.boolean(),
});
export type KeptAnswer = v.InferOutput<typeof keptAnswer>;

interface ReadAnswer {
	readonly headers: Pick<Headers, "get">;
	/** At most `MOST_READ_BYTES`. */
	readonly bytes: Uint8Array;
	/** Whether the body ends after them. */
	readonly isWhole: boolean;
}

/** @param secrets texts that the answer may repeat and that are not kept */
export function keptOf({ headers, bytes, isWhole }: ReadAnswer, secrets: readonly string[]): KeptAnswer {
	const cleaned = (text: string) => withoutPrivateHosts(withoutSecrets(text, secrets));
	const whole = printable(cleaned(new TextDecoder().decode(bytes)));
	const body = firstBytes(whole, MOST_ANSWER_BYTES);
	return {
		headers: Object.fromEntries(
			KEPT_HEADERS.flatMap((name) => {
				const value = headers.get(name);
				if (value === null) return [];
				const shown = name === "location" ? shownLocation(value) : cleaned(value);
				return [[name, printable(shown).slice(0, LONGEST_HEADER)]];
			}),
		),
		body,
		truncated: !isWhole || body.length < whole.length,
	};
}

/** Parts of a request that its receiver may repeat: signatures, and long parts of the address. */
export function secretsOf(url: string, headers: Readonly<Record<string, string>>): readonly string[] {
	const { pathname, search, searchParams } = new URL(url);
	const signatures = Object.entries(headers).flatMap(([name, value]) =>
		name.endsWith("signature") ? value.split(/[ ,=.]/) : [],
	);
	const parts = [...pathname.split("/"), ...searchParams.values(), ...search.slice(1).split(/[&=]/), ...signatures];
	const texts = [`${pathname}${search}`, ...parts, ...parts.map(decoded)];
	return [...new Set(texts)].filter(({ length }) => length >= SHORTEST_SECRET);
}

function decoded(text: string): string {
	try {
		return decodeURIComponent(text);
	} catch {
		return text;
	}
}

/** The text keeps its length, so that the cut afterwards is where it was. */
function withoutSecrets(text: string, secrets: readonly string[]): string {
	const longestFirst = secrets.toSorted((one, other) => other.length - one.length);
	return longestFirst.reduce((rest, secret) => rest.replaceAll(secret, "*".repeat(secret.length)), text);
}

/**
 * Names of at least two labels, and addresses. Each repetition is bounded, so that no text is slow.
 */
const HOSTS = /(?:[a-z0-9-]{1,63}\.){1,16}[a-z0-9-]{1,63}|(?:[0-9a-f]{0,4}:){2,7}[0-9a-f]{1,4}/gi;
/** With fewer than four numbers it is a version. */
const VERSION = /^(?:\d+\.){1,2}\d+$/;

const withoutPrivateHosts = (text: string) =>
	text.replace(HOSTS, (host) => {
		const isHost = host.includes(":") ? ipaddr.isValid(host) : !VERSION.test(host);
		return isHost && isPrivateHost(host.toLowerCase()) ? "*".repeat(host.length) : host;
	});

/** A redirect says which host it names, and no more. */
function shownLocation(value: string): string {
	if (value.startsWith("/") && !value.startsWith("//")) return "/…";
	return webhookUrlProblem(value, false) === undefined ? `${new URL(value).origin}/…` : "…";
}

/** With tabs and ends of lines. */
const printable = (text: string) =>
	text
		.toWellFormed()
		.replace(/(?![\t\n])\p{Cc}/gu, (control) => (control === "\r" ? "" : "\ufffd"))
		.replace(BIDI_CONTROLS, "\ufffd");

function firstBytes(text: string, most: number): string {
	const bytes = new TextEncoder().encode(text);
	// As a part of a stream it does not end with half a character.
	return bytes.length <= most ? text : new TextDecoder().decode(bytes.subarray(0, most), { stream: true });
}
