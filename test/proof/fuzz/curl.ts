/**
 * A request as a line that a person can run. Keys are shown by the name of whose they are, large
 * bodies come from the file that the report names.
 */
import type { RawRequest } from "./raw-http";

const LONGEST_INLINE_BODY = 1_500;

export interface CurlOptions {
	/** Texts to show as a variable, e.g. the administrator's key as `$ADMIN_KEY`. */
	readonly names: ReadonlyMap<string, string>;
	/** Path of a body that is too long for the command line. */
	readonly bodyFile: string;
}

export const needsFile = ({ body }: RawRequest): boolean => body !== undefined && body.length > LONGEST_INLINE_BODY;

export function curlOf(request: RawRequest, { names, bodyFile }: CurlOptions): string {
	const { body } = request;
	const quoted = (text: string) => {
		let shown = quote(text);
		for (const [secret, name] of names) shown = shown.replaceAll(secret, name);
		return shown;
	};
	const parts = [
		`curl -i --path-as-is -g -X ${quoted(request.method)}`,
		quoted(`$CAPSTAN_URL`).replaceAll("'", '"') + quoted(request.target),
		...request.headers.map(([name, value]) => `-H ${quoted(value === "" ? `${name};` : `${name}: ${value}`)}`),
		...(request.chunked === true ? ["-H 'Transfer-Encoding: chunked'"] : []),
	];
	if (body === undefined || body.length === 0) return parts.join(" ");
	if (needsFile(request)) return [...parts, `--data-binary @${bodyFile}`].join(" ");
	return [...parts, `--data-binary @- < <(printf %b ${quote(octal(body))})`].join(" ");
}

/**
 * For bash; what is no plain text is written as bytes. Variables of the names are put in double
 * quotes.
 */
function quote(text: string): string {
	if (/^[\x20-\x7e]*$/.test(text)) return `'${text.replaceAll("'", `'\\''`)}'`;
	return `$'${[...text].map((character) => (/[\x20-\x26\x28-\x5b\x5d-\x7e]/.test(character) ? character : `\\x${character.charCodeAt(0).toString(16).padStart(2, "0")}`)).join("")}'`;
}

function octal(body: Buffer): string {
	return [...body]
		.map((byte) => {
			const character = String.fromCharCode(byte);
			return /[\x20-\x5b\x5d-\x7e]/.test(character) ? character : `\\0${byte.toString(8).padStart(3, "0")}`;
		})
		.join("");
}
