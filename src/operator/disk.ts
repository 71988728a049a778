/**
 * Problems of a directory that the operator can fix, found in the errors of Node and of the
 * runtime, which reports a full disk and a lock of SQLite as an internal error.
 */
import { statfs } from "node:fs/promises";
import { dirname } from "node:path";
import { Failure } from "./failure";

/** SQLite and the file system need this much to go on. */
const LEAST_FREE_BYTES = 1_000_000;

/** The directory may not exist yet: its file system is that of the nearest one above it. */
async function freeBytesOf(directory: string): Promise<number> {
	try {
		const { bavail, bsize } = await statfs(directory);
		return bavail * bsize;
	} catch {
		const above = dirname(directory);
		return above === directory ? Number.POSITIVE_INFINITY : freeBytesOf(above);
	}
}

/** @param consequence a sentence about what the interrupted command leaves */
export async function diskFailure(
	error: unknown,
	directory: string,
	consequence: string,
	freeBytes: (directory: string) => Promise<number> = freeBytesOf,
): Promise<unknown> {
	if (error instanceof Failure) return error;
	const { code, path = directory, syscall } = error as Partial<NodeJS.ErrnoException>;
	if (code === "EEXIST" || code === "ENOTDIR") {
		return new Failure(`${path} is a file, and a directory is needed. Name another one.`);
	}
	// A read-only system may say that the directory to create does not exist.
	if (["EACCES", "EPERM", "EROFS"].includes(String(code)) || (code === "ENOENT" && syscall === "mkdir")) {
		return new Failure(`${path} cannot be written to (${code}). Make it writable, or name another directory.`);
	}
	if (["ENOSPC", "EDQUOT"].includes(String(code)) || (await freeBytes(directory)) < LEAST_FREE_BYTES) {
		return new Failure(
			`No space is left for ${directory}. ${consequence} Free some space, and run the same command again.`,
		);
	}
	return error;
}

const BUSY_LIMIT_MS = 20_000;
const PAUSE_MS = 100;

/**
 * Repeats work on the database of a running installation. The runtime has no busy timeout: while
 * another process writes its log into the database, a read fails at once.
 */
export async function whileBusy<Result>(
	name: string,
	work: () => Promise<Result>,
	{ limitMs = BUSY_LIMIT_MS, pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms)) } = {},
): Promise<Result> {
	for (let waitedMs = 0; ; waitedMs += PAUSE_MS) {
		try {
			return await work();
		} catch (error) {
			if (!/internal error|SQLITE_BUSY|database is locked/.test(String(error))) throw error;
			if (waitedMs >= limitMs) {
				throw new Failure(
					`The database of ${name} did not answer for ${limitMs / 1000} s: another process holds it, or the disk is full or damaged. Try again, or stop npm start first.`,
				);
			}
			await pause(PAUSE_MS);
		}
	}
}
