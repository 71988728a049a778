/**
 * Paths of the delta store, as the stock CLI chooses them. The path of a plain file contains a hash
 * of its content, so all keys of an app can share the file once its content is checked. The paths
 * of encrypted files cannot be checked without the private key, so each key has its own copy.
 */

interface PromisedContent {
	/** SHA-256 of the hexadecimal SHA-256 of the file; older CLIs wrote the SHA-256 itself. */
	readonly hash: string;
	/** The stored bytes are Brotli, and the hash is of the decompressed file. */
	readonly isBrotli: boolean;
}

/** The content that a path promises; undefined if it contains nothing that can be checked. */
export function promisedContent(path: string): PromisedContent | undefined {
	const match = /^(?:[^/:]+:)?orgs\/[^/]+\/apps\/[^/]+\/delta\/([0-9a-f]{64})_(.+)$/.exec(path);
	return match === null ? undefined : { hash: match[1] ?? "", isBrotli: match[2]?.endsWith(".br") === true };
}
