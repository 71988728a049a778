/**
 * SHA-256 of the plain text of an AES-128-CBC stream of any length, with a buffer of one piece.
 * WebCrypto decrypts only whole padded messages, so each piece gets its own encrypted padding block
 * appended.
 */

const BLOCK_BYTES = 16;
const PIECE_BYTES = 1024 * 1024;

/** @returns undefined if the bytes were not encrypted with this key and IV */
export async function sha256OfDecrypted(
	stream: ReadableStream<Uint8Array>,
	aesKey: Uint8Array<ArrayBuffer>,
	firstIv: Uint8Array<ArrayBuffer>,
): Promise<Uint8Array | undefined> {
	const key = await crypto.subtle.importKey("raw", aesKey, "AES-CBC", false, ["encrypt", "decrypt"]);
	const digest = new crypto.DigestStream("SHA-256");
	// Both promises reject when the digest is aborted; this one is then not awaited.
	digest.digest.catch(() => undefined);
	const writer = digest.getWriter();
	const buffer = new Uint8Array(PIECE_BYTES + BLOCK_BYTES);
	let filled = 0;
	let iv = firstIv;
	try {
		for await (const chunk of stream) {
			for (let rest = chunk; rest.length > 0; ) {
				const part = rest.subarray(0, buffer.length - filled);
				buffer.set(part, filled);
				filled += part.length;
				rest = rest.subarray(part.length);
				if (filled < buffer.length) continue;
				// The last block may be the final padding, so it waits for more data.
				await writer.write(await decryptPiece(key, iv, buffer.slice(0, PIECE_BYTES)));
				iv = buffer.slice(PIECE_BYTES - BLOCK_BYTES, PIECE_BYTES);
				buffer.copyWithin(0, PIECE_BYTES);
				filled = BLOCK_BYTES;
			}
		}
		const last =
			filled === 0 || filled % BLOCK_BYTES !== 0 ? undefined : await decryptLast(key, iv, buffer.slice(0, filled));
		if (last === undefined) {
			await writer.abort();
			return undefined;
		}
		await writer.write(last);
		await writer.close();
		return new Uint8Array(await digest.digest);
	} catch (error) {
		writer.abort(error).catch(() => undefined);
		throw error;
	}
}

type Bytes = Uint8Array<ArrayBuffer>;

async function decryptPiece(key: CryptoKey, iv: Bytes, bytes: Bytes): Promise<Bytes> {
	// An empty message is one block of padding.
	const padding = await crypto.subtle.encrypt(
		{ name: "AES-CBC", iv: bytes.slice(-BLOCK_BYTES) },
		key,
		new Uint8Array(),
	);
	const message = new Uint8Array(bytes.length + BLOCK_BYTES);
	message.set(bytes);
	message.set(new Uint8Array(padding), bytes.length);
	return new Uint8Array(await crypto.subtle.decrypt({ name: "AES-CBC", iv }, key, message));
}

async function decryptLast(key: CryptoKey, iv: Bytes, bytes: Bytes): Promise<Bytes | undefined> {
	try {
		return new Uint8Array(await crypto.subtle.decrypt({ name: "AES-CBC", iv }, key, bytes));
	} catch {
		// Wrong padding: another key, or other bytes.
		return undefined;
	}
}
