/**
 * The files that a command writes: each is whole or as before, and of several all are written or
 * none, also on a full disk. A link to a file stays a link.
 */
import { randomUUID } from "node:crypto";
import { access, chmod, constants, mkdir, readFile, realpath, rename, rm, stat, writeFile } from "node:fs/promises";
import { dirname } from "node:path";
import { usage } from "./failure";

interface WrittenFile {
	readonly path: string;
	readonly content: string;
	/** Default: that of the file before. */
	readonly mode?: number;
}

export async function writeFiles(files: readonly WrittenFile[]): Promise<void> {
	const ready: { readonly from: string; readonly to: string; readonly content: Buffer | undefined }[] = [];
	const replaced: typeof ready = [];
	const created: string[] = [];
	try {
		for (const { path, content, mode } of files) {
			const to = await realpath(path).catch(() => path);
			const folder = await mkdir(dirname(to), { recursive: true, ...(mode === undefined ? {} : { mode: 0o700 }) });
			if (folder !== undefined) created.push(folder);
			const before = await stat(to).catch(() => undefined);
			if (before?.isFile() === false) {
				throw usage("not_a_file", `${to} is a directory or a device; a file is expected there. Rename it.`, {
					file: to,
				});
			}
			// A file that nobody may write would be replaced all the same.
			if (before !== undefined) await access(to, constants.W_OK);
			const kept = mode ?? before?.mode;
			const from = `${to}.${randomUUID()}`;
			ready.push({ from, to, content: before === undefined ? undefined : await readFile(to) });
			await writeFile(from, content, kept === undefined ? {} : { mode: kept }).catch((error: unknown) => {
				// A person knows the file, and not the one that takes its place.
				throw Object.assign(error as Error, { path: to });
			});
			// The mode of writeFile is reduced by the umask; this states it.
			if (kept !== undefined) await chmod(from, kept);
		}
		for (const file of ready) {
			await rename(file.from, file.to);
			replaced.push(file);
		}
	} catch (error) {
		for (const { to, content } of replaced) {
			await (content === undefined ? rm(to, { force: true }) : writeFile(to, content));
		}
		for (const path of [...ready.map(({ from }) => from), ...created]) await rm(path, { recursive: true, force: true });
		throw error;
	}
}
