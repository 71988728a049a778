/**
 * Evaluates Range and conditional headers for one stored object, by RFC 9110 sections 13 and 14.
 * Pure. A Range that is malformed, has several ranges or fails If-Range is answered with the whole
 * object.
 */

export interface ObjectFacts {
	/** With quotes, as in the ETag header. */
	readonly etag: string;
	readonly sizeBytes: number;
	readonly modifiedMs: number;
}

export type Wanted =
	| { readonly kind: "whole" | "not_modified" | "precondition_failed" | "unsatisfiable" }
	| { readonly kind: "range"; readonly offset: number; readonly length: number };

const CONDITIONS = ["if-match", "if-none-match", "if-modified-since", "if-unmodified-since", "range"];

/** False: the whole object is wanted, whatever it is. */
export function hasConditions(headers: Headers): boolean {
	return CONDITIONS.some((name) => headers.has(name));
}

/** `ranged` is false for HEAD, for which Range means nothing. */
export function wantedOf(headers: Headers, object: ObjectFacts, ranged: boolean): Wanted {
	const ifMatch = headers.get("if-match");
	if (ifMatch !== null) {
		if (!listed(ifMatch, object.etag, false)) return { kind: "precondition_failed" };
	} else if (secondsOf(object.modifiedMs) > secondsOf(headers.get("if-unmodified-since"))) {
		return { kind: "precondition_failed" };
	}
	const ifNoneMatch = headers.get("if-none-match");
	if (ifNoneMatch !== null) {
		if (listed(ifNoneMatch, object.etag, true)) return { kind: "not_modified" };
	} else if (secondsOf(object.modifiedMs) <= secondsOf(headers.get("if-modified-since"))) {
		return { kind: "not_modified" };
	}
	if (!ranged) return { kind: "whole" };
	const ifRange = headers.get("if-range");
	if (ifRange !== null && ifRange !== object.etag) return { kind: "whole" };
	return rangeOf(headers.get("range") ?? "", object.sizeBytes);
}

function rangeOf(header: string, sizeBytes: number): Wanted {
	const [, first, last, suffix] = /^bytes=(?:(\d{1,15})-(\d{1,15})?|-(\d{1,15}))$/i.exec(header.trim()) ?? [];
	if (suffix !== undefined) {
		const length = Math.min(Number(suffix), sizeBytes);
		return length === 0 ? { kind: "unsatisfiable" } : { kind: "range", offset: sizeBytes - length, length };
	}
	if (first === undefined) return { kind: "whole" };
	const offset = Number(first);
	if (last !== undefined && Number(last) < offset) return { kind: "whole" };
	if (offset >= sizeBytes) return { kind: "unsatisfiable" };
	const end = Math.min(last === undefined ? sizeBytes - 1 : Number(last), sizeBytes - 1);
	return { kind: "range", offset, length: end - offset + 1 };
}

/**
 * Whether a list of entity tags, or `*`, contains the tag. Weak tags match only in a `weak`
 * comparison.
 */
function listed(header: string, etag: string, weak: boolean): boolean {
	return header
		.split(",")
		.map((tag) => tag.trim())
		.some((tag) => tag === "*" || tag === etag || (weak && tag === `W/${etag}`));
}

/**
 * HTTP dates have whole seconds. NaN for an invalid date, which compares as neither before nor
 * after.
 */
function secondsOf(time: number | string | null): number {
	const ms = typeof time === "number" ? time : Date.parse(time ?? "");
	return Math.floor(ms / 1000);
}
