/**
 * The state directory of a local run: everything that must survive is in it, and two runs never share it. What is damaged is said in
 * one sentence and never repaired by guessing, because a wrong guess would lose keys or data.
 */
import { randomBytes } from "node:crypto";
import { rmSync } from "node:fs";
import { access, chmod, constants, mkdir, open, readdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { isWellFormedKey } from "../authz/keys";
import { Failure } from "./failure";

export interface StatePaths {
	readonly directory: string;
	readonly adminKey: string;
	readonly secretKey: string;
	/** There from the end of the first run on: from then on a database without an organization is a lost one. */
	readonly initialized: string;
	readonly lock: string;
	readonly d1: string;
	readonly r2: string;
}

export function statePaths(directory: string): StatePaths {
	return {
		directory,
		adminKey: join(directory, "admin.key"),
		secretKey: join(directory, "secret.key"),
		initialized: join(directory, "initialized"),
		lock: join(directory, "lock"),
		d1: join(directory, "d1"),
		r2: join(directory, "r2"),
	};
}

/** Makes the directory where it is missing and checks that it can be used. */
export async function prepareState(paths: StatePaths): Promise<void> {
	const { directory } = paths;
	try {
		await mkdir(directory, { recursive: true, mode: 0o700 });
		if (!(await stat(directory)).isDirectory()) throw new Error("not a directory");
		await access(directory, constants.W_OK | constants.X_OK);
		// Root may write anywhere, except where nobody can: only a file that was written proves it.
		const probe = join(directory, ".write-test");
		await writeFile(probe, "");
		await rm(probe);
	} catch {
		throw new Failure(
			`The state directory ${directory} cannot be written to; make it writable, or set CAPSTAN_STATE to another directory.`,
		);
	}
}

/**
 * Takes the directory for this process; gives back how to let go of it. The lock of a process that is gone is taken over, and ours goes
 * when the process ends, however it ends.
 */
export async function lockState(paths: StatePaths): Promise<() => void> {
	for (let attempt = 0; attempt < 2; attempt++) {
		try {
			const file = await open(paths.lock, "wx", 0o600);
			await file.writeFile(`${process.pid}\n`);
			await file.close();
			const unlock = () => rmSync(paths.lock, { force: true });
			process.once("exit", unlock);
			return () => {
				process.off("exit", unlock);
				unlock();
			};
		} catch (error) {
			if (!isCode(error, "EEXIST")) throw error;
			const pid = Number((await readText(paths.lock)) ?? "");
			if (isRunning(pid)) {
				throw new Failure(
					`Another Capstan (process ${pid}) uses the state directory ${paths.directory}; stop it, or set CAPSTAN_STATE to another directory.`,
				);
			}
			await rm(paths.lock, { force: true });
		}
	}
	throw new Failure(`The state directory ${paths.directory} is being started by another process; try again.`);
}

function isRunning(pid: number): boolean {
	if (!Number.isInteger(pid) || pid <= 0) return false;
	if (pid === process.pid) return true;
	try {
		process.kill(pid, 0);
		return true;
	} catch (error) {
		return isCode(error, "EPERM");
	}
}

/** Whether a database was ever made here. */
export async function hasDatabase(paths: StatePaths): Promise<boolean> {
	return (await databaseFiles(paths)).length > 0;
}

async function databaseFiles(paths: StatePaths): Promise<string[]> {
	try {
		const files = await readdir(paths.d1, { recursive: true });
		return files.filter((name) => name.endsWith(".sqlite")).map((name) => join(paths.d1, name));
	} catch (error) {
		if (isCode(error, "ENOENT")) return [];
		throw error;
	}
}

/**
 * Refuses database files that are not SQLite's or are shorter than they say (https://sqlite.org/fileformat2.html, 1.3). workerd does
 * not answer at all when it is given such a file, so this is looked at before it starts.
 */
export async function refuseBrokenDatabase(paths: StatePaths): Promise<void> {
	for (const path of await databaseFiles(paths)) {
		const file = await open(path, "r");
		try {
			const { size } = await file.stat();
			// A new database has nothing but its write-ahead log yet.
			if (size === 0) continue;
			const header = Buffer.alloc(100);
			await file.read(header, 0, 100, 0);
			if (header.toString("latin1", 0, 16) !== "SQLite format 3\0")
				throw damaged(paths, "the database is not a database");
			const pageSize = header.readUInt16BE(16) === 1 ? 65_536 : header.readUInt16BE(16);
			const pageCountIsValid = header.readUInt32BE(24) === header.readUInt32BE(92);
			if (pageCountIsValid && size < pageSize * header.readUInt32BE(28))
				throw damaged(paths, "the database is cut off");
		} finally {
			await file.close();
		}
	}
}

/** The Worker's secret, made once. */
export async function readSecret(paths: StatePaths): Promise<string> {
	const text = (await readText(paths.secretKey))?.trim();
	if (text === undefined) {
		if (await hasDatabase(paths)) throw damaged(paths, "secret.key is missing although there is a database");
		const secret = randomBytes(32).toString("hex");
		await writePrivately(paths.secretKey, `${secret}\n`);
		return secret;
	}
	if (!/^[0-9a-f]{64}$/.test(text)) throw damaged(paths, "secret.key does not hold 64 hexadecimal digits");
	return text;
}

/** The admin key of the first run; undefined when there is none. */
export async function readAdminKey(paths: StatePaths): Promise<string | undefined> {
	const text = (await readText(paths.adminKey))?.trim();
	if (text !== undefined && !isWellFormedKey(text)) throw damaged(paths, "admin.key does not hold an API key");
	return text;
}

export async function isInitialized(paths: StatePaths): Promise<boolean> {
	return (await readText(paths.initialized)) !== undefined;
}

/** Writes a file that only its owner may read, and waits until it is on the disk. */
export async function writePrivately(path: string, text: string): Promise<void> {
	const file = await open(path, "w", 0o600);
	await file.writeFile(text);
	await file.sync();
	await file.close();
	await chmod(path, 0o600);
}

export function damaged(paths: StatePaths, how: string): Failure {
	return new Failure(
		`The state directory ${paths.directory} is damaged (${how}); restore it from a backup, or move it away to start afresh.`,
	);
}

async function readText(path: string): Promise<string | undefined> {
	try {
		return await readFile(path, "utf8");
	} catch (error) {
		if (isCode(error, "ENOENT")) return undefined;
		throw error;
	}
}

export function isCode(error: unknown, code: string): boolean {
	return error instanceof Error && "code" in error && error.code === code;
}
