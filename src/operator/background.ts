/**
 * `npm start -- --background`: starts the server as a detached process that continues after the
 * command ends. It logs into the state directory and reports its progress over IPC until it serves
 * requests or fails.
 */
import { spawn } from "node:child_process";
import { closeSync, mkdirSync, openSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { Failure } from "./failure";
import type { StatePaths } from "./state";

/** Reported by a run as soon as it serves requests. */
export interface Announcement {
	readonly url: string;
	readonly pageUrl: string;
	readonly networkUrls: readonly string[];
	/** Null when the key file was removed. */
	readonly adminKey: string | null;
	readonly adminKeyPath: string;
	/** Null when no account is known to be the operator's. */
	readonly signInLink: string | null;
	readonly notice: string | null;
	readonly stateDirectory: string;
	readonly created: boolean;
	readonly migrationsApplied: readonly string[];
}

type Message =
	| { readonly kind: "step"; readonly text: string }
	| { readonly kind: "running"; readonly announcement: Announcement }
	| { readonly kind: "failed"; readonly sentence: string };

const IN_BACKGROUND = "CAPSTAN_IN_BACKGROUND";

/**
 * Resolves when the background run serves requests.
 * @throws {Failure} with the reason and the remedy
 */
export async function startInBackground(
	paths: StatePaths,
	options: readonly string[],
	onStep: (text: string) => void,
): Promise<Announcement> {
	mkdirSync(paths.directory, { recursive: true, mode: 0o700 });
	const log = openSync(paths.log, "w", 0o600);
	// npm ends with this command, and the background run must not stop because of that.
	const { npm_lifecycle_event: _, ...environment } = process.env;
	const child = spawn(
		process.execPath,
		[
			fileURLToPath(new URL("./launch.js", import.meta.url)),
			fileURLToPath(new URL("./start.ts", import.meta.url)),
			...options.filter((option) => option !== "--background" && option !== "--json"),
		],
		{ detached: true, stdio: ["ignore", log, log, "ipc"], env: { ...environment, [IN_BACKGROUND]: "true" } },
	);
	closeSync(log);
	try {
		return await new Promise((resolve, reject) => {
			child.once("error", reject);
			child.once("exit", () => reject(new Failure(`Capstan ended during its start. See ${paths.log}.`)));
			child.on("message", (message: Message) => {
				if (message.kind === "step") onStep(message.text);
				else if (message.kind === "running") resolve(message.announcement);
				else reject(new Failure(message.sentence));
			});
		});
	} finally {
		child.removeAllListeners();
		if (child.connected) child.disconnect();
		child.unref();
	}
}

/** Reports of a background run to its parent; undefined in the foreground. */
export function reportToParent() {
	if (process.env[IN_BACKGROUND] !== "true" || process.send === undefined) return undefined;
	// Continues without reports when the parent has ended.
	const send = (message: Message, then = () => undefined as undefined) =>
		process.connected ? void process.send?.(message, undefined, undefined, then) : then();
	return {
		step: (text: string) => send({ kind: "step", text }),
		running: (announcement: Announcement) => send({ kind: "running", announcement }),
		failed: (sentence: string) => send({ kind: "failed", sentence }, () => process.exit(1)),
	};
}
