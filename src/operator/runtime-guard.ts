/**
 * Ends workerd if this process dies without cleaning up (SIGKILL, out of memory). Otherwise workerd
 * would continue to serve, and the next start, which takes over a stale lock, would open the same
 * database.
 */
import { execFile, spawn } from "node:child_process";
import { readdir, readFile } from "node:fs/promises";
import { promisify } from "node:util";

const RUNTIME_NAME = "workerd";

/**
 * Waits for the end of the pipe, which closes with this process. Skips a process id that another
 * program uses by then.
 */
const GUARD = `read -r _ && exit
for pid; do
	[ -r "/proc/$pid/comm" ] && [ "$(cat "/proc/$pid/comm")" != ${RUNTIME_NAME} ] && continue
	kill -9 "$pid" 2>/dev/null
done`;

/**
 * Guards every runtime that this process has started so far.
 * @returns a function that ends the guard, to be called after the runtimes have ended
 */
export async function guardRuntimes(): Promise<() => Promise<void>> {
	const pids = process.platform === "win32" ? [] : await runtimePids();
	if (pids.length === 0) return async () => undefined;
	const guard = spawn("/bin/sh", ["-c", GUARD, "capstan-guard", ...pids], {
		// A separate process group, because Ctrl-C must not reach it.
		detached: true,
		stdio: ["pipe", "ignore", "ignore"],
	});
	const ended = new Promise<void>((resolve) => guard.once("close", () => resolve()).once("error", () => resolve()));
	guard.stdin.on("error", () => undefined);
	guard.unref();
	return async () => {
		guard.ref();
		guard.stdin.end("done\n");
		await ended;
	};
}

async function runtimePids(): Promise<string[]> {
	const children = process.platform === "linux" ? await childrenByProc() : await childrenByPs();
	return children.filter(({ name }) => name.endsWith(RUNTIME_NAME)).map(({ pid }) => pid);
}

interface Child {
	readonly pid: string;
	readonly name: string;
}

/** Not every Linux image has `ps`. */
async function childrenByProc(): Promise<Child[]> {
	const threads = await readdir("/proc/self/task").catch(() => []);
	const lists = await Promise.all(
		threads.map((thread) => readFile(`/proc/self/task/${thread}/children`, "utf8").catch(() => "")),
	);
	const pids = lists.flatMap((list) => list.split(" ")).filter((pid) => pid !== "");
	return Promise.all(
		pids.map(async (pid) => ({ pid, name: (await readFile(`/proc/${pid}/comm`, "utf8").catch(() => "")).trim() })),
	);
}

async function childrenByPs(): Promise<Child[]> {
	const { stdout } = await promisify(execFile)("ps", ["-A", "-o", "pid=,ppid=,comm="]).catch(() => ({ stdout: "" }));
	return stdout
		.split("\n")
		.map((line) => line.trim().split(/\s+/))
		.filter(([, parent]) => parent === String(process.pid))
		.map(([pid = "", , name = ""]) => ({ pid, name }));
}
