/**
 * A request while it is being spoiled: its parts apart, so that the malice goes into one of them
 * and the rest stays what the endpoint takes. `wireOf` makes the bytes.
 */
import type { PreparedRequest } from "../../worker/support/request-parts";
import type { Operation } from "./document";
import type { RawRequest } from "./raw-http";
import { jsonOf, type Tree, treeOf } from "./values";

export interface Draft {
	method: string;
	/** As it is sent, the parameters apart from what is fixed. */
	path: { text: string; readonly parameter: boolean }[];
	/** Names and values as they are sent. */
	query: [name: string, value: string][];
	/** Stands in the place of the query. */
	rawQuery?: string;
	headers: [name: string, value: string][];
	json: Tree | undefined;
	/** Stands in the place of the JSON. */
	bytes: Buffer | undefined;
	chunked?: true;
	unsound?: true;
	/** The whole request line. */
	target?: string;
}

export function draftOf(operation: Operation, method: string, request: PreparedRequest): Draft {
	const url = new URL(request.path, "http://localhost");
	for (const [name, value] of Object.entries(request.query ?? {})) url.searchParams.set(name, value);
	const { rawBody } = request;
	const bytes =
		rawBody === undefined
			? undefined
			: Buffer.from(typeof rawBody === "string" ? rawBody : (rawBody as Uint8Array<ArrayBuffer>));
	return {
		method,
		path: pathParts(operation, url.pathname),
		query: [...url.searchParams].map(([name, value]) => [percent(name), percent(value)]),
		headers: [
			...Object.entries(request.headers ?? {}).filter(([name]) => name !== "content-length"),
			...(request.body === undefined ? [] : [["content-type", "application/json"] satisfies [string, string]]),
		],
		json: request.body === undefined ? undefined : treeOf(request.body),
		bytes,
	};
}

function pathParts(operation: Operation, pathname: string): Draft["path"] {
	const template = operation.path.split(/(\{\w+\})/).filter((part) => part !== "");
	const source = template.map((part) =>
		part.startsWith("{") ? "(.+)" : `(${part.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")})`,
	);
	const match = new RegExp(`^${source.join("")}$`).exec(pathname);
	if (match === null) throw new Error(`the request for ${operation.name} goes to ${pathname}`);
	return template.map((part, index) => ({ text: match[index + 1] ?? "", parameter: part.startsWith("{") }));
}

/** Percent-encoded as a careful client would. */
export function percent(text: string): string {
	return [...Buffer.from(text)]
		.map((byte) => {
			const character = String.fromCharCode(byte);
			return /[\w.~-]/.test(character) ? character : `%${byte.toString(16).toUpperCase().padStart(2, "0")}`;
		})
		.join("");
}

/** The text as a header value: its UTF-8 bytes without line ends. */
export function headerText(text: string): string {
	return Buffer.from(text)
		.toString("latin1")
		.replace(/[\r\n\0]/g, "")
		.slice(0, 8_000);
}

/** The text as part of a request line. */
export function lineText(text: string): string {
	return Buffer.from(text)
		.toString("latin1")
		.replace(/[^\x21-\x7e]/g, (character: string) => percentByte(character.charCodeAt(0)));
}

const percentByte = (byte: number) => `%${byte.toString(16).padStart(2, "0")}`;

export function bodyOf(draft: Draft): Buffer | undefined {
	return draft.bytes ?? (draft.json === undefined ? undefined : Buffer.from(jsonOf(draft.json)));
}

export function targetOf(draft: Draft): string {
	if (draft.target !== undefined) return draft.target;
	const query = draft.rawQuery ?? draft.query.map(([name, value]) => `${name}=${value}`).join("&");
	return `${draft.path.map(({ text }) => text).join("")}${query === "" ? "" : `?${query}`}`;
}

export function wireOf(draft: Draft): RawRequest {
	const body = bodyOf(draft);
	const target = targetOf(draft);
	return {
		method: draft.method,
		target,
		headers: draft.headers,
		// A method that usually has a body says so even when there is none.
		body: body ?? (["GET", "HEAD", "OPTIONS", "TRACE"].includes(draft.method) ? undefined : Buffer.alloc(0)),
		...(draft.chunked === true ? { chunked: true } : {}),
		...(draft.unsound === true || !target.startsWith("/") ? { unsound: true } : {}),
	};
}
