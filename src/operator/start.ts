/**
 * `npm start`: serves the product on this machine until it is stopped. A problem that the operator
 * can fix is one line on stderr with exit code 1. Stopping ends every process that was started.
 */
import { relative, resolve } from "node:path";
import util from "node:util";
import { renderUnicodeCompact } from "uqr";
import { SIGN_IN_LINK_MINUTES } from "../domain/time";
import { type Announcement, reportToParent, startInBackground } from "./background";
import { Failure } from "./failure";
import { hostToServe } from "./network";
import { showProgress } from "./progress";
import type { RunningCapstan } from "./serve";
import { runningUrl, statePaths } from "./state";

const HELP = `Serves Capstan on this machine, with embedded database, object store and queue.

  npm start                        start, or continue with the existing data
  npm start -- --lan               also serve the local network, so that phones can connect
  npm start -- --background        start in the background; npm stop stops it
  npm start -- --json              print one line of JSON instead of text
  npm start -- --new-admin-key     replace the first admin key
  npm start -- --sign-in-link-for=ADDRESS
                                   create the sign-in link for this account; using it verifies its
                                   e-mail address

  PORT            port (default 8787; 0 for any free port)
  HOST            address to serve (default 127.0.0.1; 0.0.0.0 is the same as --lan)
  CAPSTAN_STATE   directory for all data (default .capstan)
`;

const DEFAULT_PORT = 8787;
const PARENT_CHECK_INTERVAL_MS = 250;
const LINK_FOR = "--sign-in-link-for=";
/** Names that npm has no meaning of its own for. */
const FOR_NPM = ["--lan", "--background", "--new-admin-key"];
const OPTIONS = new Set(["--help", "--lan", "--background", "--json", "--new-admin-key"]);

/**
 * Options without the separating `--`: `npm start --lan` gives them to npm, which passes them on as
 * variables.
 */
function takenByNpm(): readonly string[] {
	if (process.env.npm_lifecycle_event !== "start") return [];
	return FOR_NPM.filter((option) => process.env[`npm_config_${option.slice(2).replaceAll("-", "_")}`] === "true");
}

/**
 * Whether `npm start --lan` started this: to npm that is -l, -a and -n, so the option itself never
 * arrives. It is named and not obeyed, because a person may have set both of the others for good.
 */
const hasNpmReadLan = (): boolean =>
	process.env.npm_lifecycle_event === "start" &&
	process.env.npm_config_long === "true" &&
	process.env.npm_config_all === "true";

function readPort(): number {
	const text = process.env.PORT ?? "";
	if (text === "") return DEFAULT_PORT;
	const port = Number(text);
	if (!/^\d+$/.test(text) || port > 65_535) {
		throw new Failure(`PORT is "${text}". It must be a number from 0 to 65535.`);
	}
	return port;
}

const bold = (text: string) => (process.stdout.isTTY ? util.styleText("bold", text) : text);
const dim = (text: string) => (process.stdout.isTTY ? util.styleText("dim", text) : text);

function announcementOf(capstan: RunningCapstan): Announcement {
	const { url, pageUrl, networkUrls, adminKey, adminKeyPath, stateDirectory, created, migrationsApplied } = capstan;
	const { signInLink = null, notice = null } = capstan;
	return {
		url,
		pageUrl,
		networkUrls: [...networkUrls],
		adminKey: adminKey ?? null,
		adminKeyPath,
		signInLink,
		notice,
		stateDirectory,
		created,
		migrationsApplied: [...migrationsApplied],
	};
}

/**
 * Prints the link last, because people open it next. Prints the key and the link only to terminals.
 */
function announce(capstan: Announcement, isInBackground: boolean): void {
	const { pageUrl, networkUrls, adminKey, adminKeyPath, created, signInLink, notice } = capstan;
	const isTerminal = process.stdout.isTTY === true;
	const fact = (name: string, text: string, note?: string) => {
		console.log(`${dim(name.padEnd(10))}  ${text}`);
		if (note !== undefined) console.log(`${" ".repeat(12)}${dim(note)}`);
	};
	console.log(`${bold("Capstan is running")} at ${pageUrl}`);
	if (created) console.log('Created the organization "My organization", its first account and its admin key.');
	if (notice !== null) console.log(notice);
	console.log("");
	if (adminKey === null)
		fact("Admin key", `${shown(adminKeyPath)} is missing. Create a new key with npm start -- --new-admin-key.`);
	else if (isTerminal) fact("Admin key", adminKey, `also in ${shown(adminKeyPath)}, readable only by you`);
	else fact("Admin key", `in ${shown(adminKeyPath)}, readable only by you`);
	fact("Demo", "npm run demo", "run it in another terminal: plays a preview here with the stock clients");
	if (isInBackground)
		fact("Stop", "npm stop", `log with sign-in codes: ${shown(statePaths(capstan.stateDirectory).log)}`);
	else fact("Stop", "Ctrl-C");
	const [networkUrl, ...others] = networkUrls;
	if (networkUrl !== undefined) {
		const elsewhere = others.length === 0 ? "" : ` (other networks: ${others.join(", ")})`;
		fact("Phones", networkUrl, `scan it to test the connection, and use it as your app's server${elsewhere}`);
		console.log(`\n${qrCode(networkUrl)}`);
	} else if (process.env.HOST !== undefined || [...process.argv, ...takenByNpm()].includes("--lan")) {
		fact("Phones", "no local network found that a phone could share");
	} else if (hasNpmReadLan()) {
		fact("Phones", "npm start -- --lan serves the local network", "npm has a meaning of its own for --lan without --");
	}
	if (signInLink === null) {
		console.log("\nNo operator account found. Create one with npm start -- --new-admin-key.\n");
		return;
	}
	const path = shown(statePaths(capstan.stateDirectory).signInLink);
	const link = isTerminal ? "this link" : `the link in ${path}, which only you can read,`;
	console.log(`\nOpen ${link} to sign in. It is valid once, for ${SIGN_IN_LINK_MINUTES} minutes.\n`);
	if (isTerminal) console.log(`  ${bold(signInLink)}\n`);
}

/** White on black in every terminal theme, because many cameras cannot read inverted codes. */
function qrCode(text: string): string {
	const code = renderUnicodeCompact(text, { border: 2 });
	if (!process.stdout.isTTY) return code;
	return code
		.split("\n")
		.map((line) => `\x1b[40;97m${line}\x1b[0m`)
		.join("\n");
}

/** The path relative to the working directory, if it is inside. */
function shown(path: string): string {
	const near = relative(process.cwd(), path);
	return near.startsWith("..") ? path : near;
}

/**
 * Replaces the handlers of wrangler and Miniflare, which end the process before anything is closed.
 */
function handleSignals(stop: () => void): void {
	for (const signal of ["SIGINT", "SIGTERM"] as const) process.removeAllListeners(signal).on(signal, stop);
}

/** Stops with npm: when npm is terminated, it ends its shell but not this process. */
function stopWithNpm(stop: () => void): void {
	if (process.env.npm_lifecycle_event === undefined) return;
	const parent = process.ppid;
	const timer = setInterval(() => {
		if (process.ppid === parent) return;
		clearInterval(timer);
		stop();
	}, PARENT_CHECK_INTERVAL_MS);
	timer.unref();
}

async function main(): Promise<void> {
	const given = [...process.argv.slice(2), ...takenByNpm()];
	const signInLinkFor = given.find((option) => option.startsWith(LINK_FOR))?.slice(LINK_FOR.length);
	const unknown = given.find((option) => !OPTIONS.has(option) && !option.startsWith(LINK_FOR));
	if (unknown !== undefined) throw new Failure(`Unknown option ${unknown}. See npm start -- --help.`);
	if (given.includes("--help")) {
		console.log(HELP);
		return;
	}
	const isJson = given.includes("--json");
	const stateDirectory = resolve(process.env.CAPSTAN_STATE || ".capstan");
	const progress = showProgress(isJson ? undefined : process.stdout);
	if (given.includes("--background")) {
		try {
			const address = await runningUrl(statePaths(stateDirectory));
			const capstan =
				address === undefined ? await startInBackground(statePaths(stateDirectory), given, progress.step) : undefined;
			progress.end();
			if (capstan === undefined) console.log(`Capstan is already running at ${address}`);
			else if (isJson) console.log(JSON.stringify(facts(capstan)));
			else announce(capstan, true);
		} finally {
			progress.end();
		}
		return;
	}
	let stopping = false;
	let running: RunningCapstan | undefined;
	const stop = () => {
		if (stopping) process.exit(130);
		stopping = true;
		void (async () => {
			progress.end();
			await running?.stop();
			if (!isJson) console.log(`\nCapstan has stopped. npm start continues with the data in ${shown(stateDirectory)}.`);
			process.exit(0);
		})();
	};
	handleSignals(stop);
	stopWithNpm(stop);

	const parent = reportToParent();
	try {
		const port = readPort();
		const host = hostToServe(process.env.HOST ?? "", given.includes("--lan"));
		// Loaded here, because it takes two seconds that help, a wrong option and a start in the
		// background do not need.
		const { serveCapstan } = await import("./serve");
		const capstan = await serveCapstan({
			stateDirectory,
			port,
			host,
			newAdminKey: given.includes("--new-admin-key"),
			...(signInLinkFor === undefined ? {} : { signInLinkFor }),
			onProgress: parent?.step ?? progress.step,
		});
		running = capstan;
		handleSignals(stop);
		progress.end();
		if (stopping) return await capstan.stop();
		const announcement = announcementOf(capstan);
		if (parent !== undefined) parent.running(announcement);
		else if (isJson) console.log(JSON.stringify(facts(announcement)));
		else announce(announcement, false);
		await capstan.runScheduled();
	} catch (error) {
		// Pending operations fail while everything closes.
		if (stopping) return;
		progress.end();
		if (parent === undefined) throw error;
		parent.failed(sentenceOf(error));
	}
}

/**
 * Machine-readable output. It omits the key and the sign-in link, because programs log their
 * output.
 */
function facts({ url, networkUrls, adminKeyPath, stateDirectory, created, migrationsApplied }: Announcement) {
	return { url, networkUrls, adminKeyPath, stateDirectory, created, migrationsApplied };
}

/** For example a full disk, or a directory instead of a file. */
function isSystemError(error: unknown): error is NodeJS.ErrnoException {
	return error instanceof Error && "syscall" in error;
}

function sentenceOf(error: unknown): string {
	if (error instanceof Failure) return error.message;
	if (isSystemError(error)) return `${error.message}. Fix this and start again.`;
	return util.inspect(error);
}

try {
	await main();
} catch (error) {
	console.error(sentenceOf(error));
	process.exit(1);
}
