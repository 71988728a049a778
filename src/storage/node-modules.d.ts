/**
 * The two functions of Node's modules that the Worker uses; the Worker's own types have none of them.
 */
declare module "node:zlib" {
	export function createBrotliDecompress(): object;
}
declare module "node:stream" {
	export const Duplex: { toWeb(duplex: object): object };
}
