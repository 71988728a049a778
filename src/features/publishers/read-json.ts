/**
 * A JSON object of another server, such as the keys of an issuer. Must stay true: however much the
 * server sends, no more than a bound of it is read.
 */

const MOST_BYTES = 128 * 1024;

/** @throws {Error} with the reason, for the log */
export async function readJson(
	body: NonNullable<Response["body"]>,
	url: string,
): Promise<Readonly<Record<string, unknown>>> {
	const decoder = new TextDecoder();
	let text = "";
	let length = 0;
	for await (const chunk of body as ReadableStream<Uint8Array>) {
		length += chunk.length;
		if (length > MOST_BYTES) throw new Error(`${url} answered more than ${MOST_BYTES} bytes`);
		text += decoder.decode(chunk, { stream: true });
	}
	const value: unknown = JSON.parse(text);
	if (typeof value !== "object" || value === null) throw new Error(`${url} answered no object`);
	return value as Record<string, unknown>;
}
