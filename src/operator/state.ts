/**
 * The state directory of a local run: all persistent data. Two runs never share it. Damage is
 * reported and never repaired by guessing, because a wrong guess would lose keys or data.
 */
import { randomBytes, randomUUID } from "node:crypto";
import { existsSync, rmSync } from "node:fs";
import {
	access,
	chmod,
	constants,
	link,
	mkdir,
	open,
	readdir,
	readFile,
	rename,
	rm,
	stat,
	writeFile,
} from "node:fs/promises";
import { dirname, join } from "node:path";
import { isWellFormedKey } from "../authz/secrets";
import { Failure } from "./failure";

export interface StatePaths {
	readonly directory: string;
	readonly adminKey: string;
	readonly secretKey: string;
	/**
	 * The operator's sign-in link. It is printed only to terminals, because other output ends up in
	 * logs.
	 */
	readonly signInLink: string;
	/**
	 * Written at the end of the first run. From then on, a database without an organization is
	 * damaged.
	 */
	readonly initialized: string;
	readonly lock: string;
	/** URL of the current run. */
	readonly url: string;
	/** Output of a background run. */
	readonly log: string;
	readonly d1: string;
	readonly r2: string;
}

export function statePaths(directory: string): StatePaths {
	return {
		directory,
		adminKey: join(directory, "admin.key"),
		secretKey: join(directory, "secret.key"),
		signInLink: join(directory, "sign-in.link"),
		initialized: join(directory, "initialized"),
		lock: join(directory, "lock"),
		url: join(directory, "url"),
		log: join(directory, "capstan.log"),
		d1: join(directory, "d1"),
		r2: join(directory, "r2"),
	};
}

/** Creates the directory if necessary and checks that it is writable. */
export async function prepareState(paths: StatePaths): Promise<void> {
	const { directory } = paths;
	try {
		await createDirectory(directory);
		if (!(await stat(directory)).isDirectory()) throw new Error("not a directory");
		await access(directory, constants.W_OK | constants.X_OK);
		// Access bits do not limit root, so only a written file proves it.
		const probe = join(directory, ".write-test");
		await writeFile(probe, "");
		await rm(probe);
	} catch {
		throw new Failure(
			`The state directory ${directory} cannot be written to. Make it writable, or set CAPSTAN_STATE to another directory.`,
		);
	}
}

/**
 * With the directories above it. The recursive mkdir of Node never ends where the system refuses to
 * create one, such as in /proc.
 */
export async function createDirectory(directory: string): Promise<void> {
	if (existsSync(directory)) return;
	if (!existsSync(dirname(directory))) await createDirectory(dirname(directory));
	await mkdir(directory, { mode: 0o700 });
}

/**
 * Locks that this process holds. A lock file with our process id that is not listed here was left
 * by an earlier process.
 */
const held = new Set<string>();

/**
 * Locks the directory for this process. A stale lock of an ended process is taken over, and our
 * lock is removed when this process ends.
 * @returns a function that unlocks it
 */
export async function lockState(paths: StatePaths): Promise<() => void> {
	const ours = `${process.pid} ${await startOf(process.pid)}\n`;
	const draft = `${paths.lock}.${randomUUID()}`;
	for (let attempt = 0; attempt < 3; attempt++) {
		// Written first and then linked, so that no process reads a partial lock.
		await writeFile(draft, ours, { mode: 0o600 });
		try {
			await link(draft, paths.lock);
			held.add(paths.lock);
			const unlock = () => {
				held.delete(paths.lock);
				rmSync(paths.lock, { force: true });
			};
			process.once("exit", unlock);
			return () => {
				process.off("exit", unlock);
				unlock();
			};
		} catch (error) {
			if (!isCode(error, "EEXIST")) throw error;
			const theirs = (await readText(paths.lock)) ?? "";
			const pid = Number.parseInt(theirs, 10);
			if (held.has(paths.lock) || (pid !== process.pid && (await isRunning(theirs)))) {
				throw new Failure(
					`Another Capstan (process ${pid}) uses the state directory ${paths.directory}. Stop it with npm stop, or set CAPSTAN_STATE to another directory.`,
				);
			}
			await removeStaleLock(paths, theirs);
		} finally {
			await rm(draft, { force: true });
		}
	}
	throw new Failure(`The state directory ${paths.directory} is being started by another process; try again.`);
}

/** The process that holds the directory; undefined when none does. */
export async function runningProcess(paths: StatePaths): Promise<number | undefined> {
	const lock = (await readText(paths.lock)) ?? "";
	return (await isRunning(lock)) ? Number.parseInt(lock, 10) : undefined;
}

/**
 * Address of the run that holds the directory; undefined if there is none or it is still starting.
 */
export async function runningUrl(paths: StatePaths): Promise<string | undefined> {
	if ((await runningProcess(paths)) === undefined) return undefined;
	return (await readText(paths.url))?.trim();
}

/**
 * Renames the stale lock before it removes it, and puts back a new lock of another process if it
 * renamed that instead.
 */
async function removeStaleLock(paths: StatePaths, left: string): Promise<void> {
	const aside = `${paths.lock}.${randomUUID()}`;
	try {
		await rename(paths.lock, aside);
	} catch (error) {
		if (isCode(error, "ENOENT")) return;
		throw error;
	}
	if ((await readText(aside)) !== left) await link(aside, paths.lock).catch(() => undefined);
	await rm(aside, { force: true });
}

/**
 * Whether the process that wrote the lock still runs. Compares its start time too, because process
 * ids are reused, above all after a reboot.
 */
async function isRunning(lock: string): Promise<boolean> {
	const [pidText = "", started = ""] = lock.trim().split(" ");
	const pid = Number(pidText);
	if (!Number.isInteger(pid) || pid <= 0) return false;
	try {
		process.kill(pid, 0);
	} catch (error) {
		if (!isCode(error, "EPERM")) return false;
	}
	const start = await startOf(pid);
	return start === "" || started === "" || start === started;
}

/** Start time of the process (proc_pid_stat(5), field 22); empty without /proc. */
async function startOf(pid: number): Promise<string> {
	const text = (await readFile(`/proc/${pid}/stat`, "utf8").catch(() => "")) || "";
	return text.slice(text.lastIndexOf(")") + 2).split(" ")[19] ?? "";
}

/** Whether a database exists. */
async function hasDatabase(paths: StatePaths): Promise<boolean> {
	return (await databaseFiles(paths.d1)).length > 0;
}

async function databaseFiles(directory: string): Promise<string[]> {
	try {
		const files = await readdir(directory, { recursive: true });
		return files.filter((name) => /\.sqlite(-wal)?$/.test(name)).map((name) => join(directory, name));
	} catch (error) {
		if (isCode(error, "ENOENT")) return [];
		throw error;
	}
}

const DATABASE_HEADER_BYTES = 100;
const LOG_HEADER_BYTES = 32;
const LOG_MAGIC = new Set([0x377f0682, 0x377f0683]);

/**
 * Refuses files that are not SQLite databases or are truncated
 * (https://sqlite.org/fileformat2.html, 1.3 and 4.1). This runs before workerd starts, because
 * workerd hangs on some of them and silently drops a broken log. The bucket's index is such a file
 * too.
 */
export async function refuseBrokenDatabase(paths: StatePaths): Promise<void> {
	for (const path of [...(await databaseFiles(paths.d1)), ...(await databaseFiles(paths.r2))]) {
		const file = await open(path, "r");
		try {
			const { size } = await file.stat();
			const header = Buffer.alloc(DATABASE_HEADER_BYTES);
			await file.read(header, 0, DATABASE_HEADER_BYTES, 0);
			const fault = path.endsWith("-wal") ? faultOfLog(size, header) : faultOfDatabase(size, header);
			if (fault !== undefined) throw damaged(paths, fault);
		} finally {
			await file.close();
		}
	}
}

function faultOfDatabase(sizeBytes: number, header: Buffer): string | undefined {
	// A new database consists only of its write-ahead log.
	if (sizeBytes === 0) return undefined;
	if (header.toString("latin1", 0, 16) !== "SQLite format 3\0") return "the database file is not an SQLite database";
	const pageSize = header.readUInt16BE(16) === 1 ? 65_536 : header.readUInt16BE(16);
	const pageCountIsValid = header.readUInt32BE(24) === header.readUInt32BE(92);
	return pageCountIsValid && sizeBytes < pageSize * header.readUInt32BE(28)
		? "the database file is truncated"
		: undefined;
}

function faultOfLog(sizeBytes: number, header: Buffer): string | undefined {
	// A crash may leave less than a header. No transaction was committed then.
	if (sizeBytes < LOG_HEADER_BYTES || LOG_MAGIC.has(header.readUInt32BE(0))) return undefined;
	return "the write-ahead log is not valid";
}

/** The Worker's secret, created once. */
export async function readSecret(paths: StatePaths): Promise<string> {
	const text = (await readText(paths.secretKey))?.trim();
	if (text === undefined) {
		if (await hasDatabase(paths)) throw damaged(paths, "secret.key is missing although a database exists");
		const secret = randomBytes(32).toString("hex");
		await writePrivately(paths.secretKey, `${secret}\n`);
		return secret;
	}
	if (!/^[0-9a-f]{64}$/.test(text)) throw damaged(paths, "secret.key does not contain 64 hexadecimal digits");
	return text;
}

/** The admin key of the first run; undefined if the file is missing. */
export async function readAdminKey(paths: StatePaths): Promise<string | undefined> {
	const text = (await readText(paths.adminKey))?.trim();
	if (text !== undefined && !isWellFormedKey(text)) throw damaged(paths, "admin.key does not contain an API key");
	return text;
}

export async function isInitialized(paths: StatePaths): Promise<boolean> {
	return (await readText(paths.initialized)) !== undefined;
}

/** Writes a file that only its owner can read, and waits until it is on disk. */
export async function writePrivately(path: string, text: string): Promise<void> {
	const file = await open(path, "w", 0o600);
	await file.writeFile(text);
	await file.sync();
	await file.close();
	await chmod(path, 0o600);
}

export function damaged(paths: StatePaths, how: string): Failure {
	return new Failure(
		`The state directory ${paths.directory} is damaged (${how}). Restore it from a backup, or move it away to start with a new one.`,
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
