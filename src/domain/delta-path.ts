/**
 * Paths of the delta store, as the stock CLI chooses them. The path of a plain file holds a hash of its content, so all keys of an app
 * may share it once the content is checked. The paths of encrypted files hold values that nobody without the private key can compare with
 * the content, so each key keeps such files for itself.
 */

export interface PromisedContent {
	/** SHA-256 of the text of the file's SHA-256; older CLIs wrote the SHA-256 itself. */
	readonly hash: string;
	/** The stored bytes are Brotli, and the hash is that of the file within. */
	readonly isBrotli: boolean;
}

/** The content that a path promises; undefined if the path holds nothing that can be checked. */
export function promisedContent(path: string): PromisedContent | undefined {
	const match = /^(?:[^/:]+:)?orgs\/[^/]+\/apps\/[^/]+\/delta\/([0-9a-f]{64})_(.+)$/.exec(path);
	return match === null ? undefined : { hash: match[1] ?? "", isBrotli: match[2]?.endsWith(".br") === true };
}
