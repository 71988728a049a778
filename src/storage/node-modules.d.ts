/**
 * The one function of Node's modules that the Worker uses; the Worker's own types have none of them.
 */
declare module "node:zlib" {
	interface Unpacker {
		on(event: "data", listener: (chunk: Uint8Array) => void): void;
		on(event: "end", listener: () => void): void;
		on(event: "error", listener: (error: Error) => void): void;
		write(chunk: Uint8Array, done: (error?: Error | null) => void): void;
		end(): void;
		pause(): void;
		resume(): void;
		destroy(error?: Error): void;
	}
	export function createBrotliDecompress(): Unpacker;
}
