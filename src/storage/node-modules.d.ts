/**
 * The one function of Node's modules that the Worker uses; the Worker's own types have none of
 * them.
 */
declare module "node:zlib" {
	/** Throws for more than `maxOutputLength`. */
	export function brotliDecompressSync(packed: Uint8Array, options: { maxOutputLength: number }): Uint8Array;
}
