/**
 * Resumable uploads (TUS 1.0). A lost connection costs the bytes that the server has not stored;
 * the upload continues after them.
 */

import { errorOf } from "../../src/client/client";
import { type Server, sleep } from "./api";
import { Failure } from "./failure";

/** Far below the request limit of every Cloudflare plan. */
const CHUNK_BYTES = 32 * 1024 * 1024;
const MOST_FAILURES = 5;
const PAUSE_MS = 500;
const TUS = { "tus-resumable": "1.0.0" };

/** Stores the bytes under a path of the app, and finishes the bundle that a zip belongs to. */
export async function putFile(
	server: Server,
	path: string,
	bytes: Uint8Array<ArrayBuffer>,
	onSent: (bytes: number) => void,
): Promise<void> {
	const created = await server.send(`${server.origin}/files/upload/attachments`, {
		method: "POST",
		headers: {
			...TUS,
			"upload-length": String(bytes.length),
			"upload-metadata": `filename ${Buffer.from(path).toString("base64")}`,
		},
	});
	if (created.status !== 201) throw await errorOf(created);
	// The path of the answer only: the key goes to the server that was asked.
	const location = new URL(created.headers.get("location") ?? "", server.origin);
	const url = `${server.origin}${location.pathname}`;
	let offset = 0;
	let failures = 0;
	while (offset < bytes.length) {
		const chunk = bytes.subarray(offset, offset + CHUNK_BYTES);
		try {
			offset = await append(server, url, chunk, offset);
			failures = 0;
			onSent(offset);
		} catch (error) {
			failures += 1;
			const isLost = error instanceof Failure && error.code === "server_unreachable";
			if (!(isLost || error instanceof Interrupted) || failures >= MOST_FAILURES) throw error;
			await sleep(PAUSE_MS * 2 ** failures);
			offset = await offsetOf(server, url);
		}
	}
}

/** The server stored a part at most; its offset decides. */
class Interrupted extends Error {}

async function append(server: Server, url: string, chunk: Uint8Array<ArrayBuffer>, offset: number): Promise<number> {
	const response = await server.sendOnce(url, {
		method: "PATCH",
		headers: { ...TUS, "upload-offset": String(offset), "content-type": "application/offset+octet-stream" },
		body: chunk,
	});
	if (response.status === 204) return Number(response.headers.get("upload-offset"));
	if (response.status === 409 || response.status === 429 || response.status >= 500) {
		const error = await errorOf(response);
		if (error.code === "upload_offset_conflict" || response.status !== 409) throw new Interrupted(error.message);
		throw error;
	}
	throw await errorOf(response);
}

async function offsetOf(server: Server, url: string): Promise<number> {
	const response = await server.send(url, { method: "HEAD", headers: TUS });
	if (response.status !== 200) throw await errorOf(response);
	return Number(response.headers.get("upload-offset"));
}
