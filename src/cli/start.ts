/**
 * `npm start`: serves the product on this machine until it is stopped. Every failure that a person can fix is one sentence on standard
 * error with exit code 1, and stopping takes down everything that was started.
 */
import { relative, resolve } from "node:path";
import util from "node:util";
import { renderUnicodeCompact } from "uqr";
import { SIGN_IN_LINK_MINUTES } from "../db/bootstrap";
import { type Announcement, reportToParent, startInBackground } from "./background";
import { Failure } from "./failure";
import { hostToServe } from "./network";
import { showProgress } from "./progress";
import { type RunningCapstan, serveCapstan } from "./serve";
import { runningUrl, statePaths } from "./state";

const HELP = `Serves Capstan on this machine, with its database, object store and queue embedded.

  npm start                        start, or start again
  npm start -- --lan               serve the local network as well, so that phones reach it
  npm start -- --background        return when it runs; npm stop stops it
  npm start -- --json              print one line of JSON instead of text
  npm start -- --new-admin-key     replace the first admin key
  npm start -- --sign-in-link-for=ADDRESS
                                   create the sign-in link for this account, and prove that the address is its owner's

  PORT            port (default 8787; 0 takes any that is free)
  HOST            address to serve (default 127.0.0.1; 0.0.0.0 is the same as --lan)
  CAPSTAN_STATE   directory that keeps everything (default .capstan)
`;

const DEFAULT_PORT = 8787;
const PARENT_CHECK_INTERVAL_MS = 250;
const LINK_FOR = "--sign-in-link-for=";
const OPTIONS = new Set(["--help", "--lan", "--background", "--json", "--new-admin-key"]);

function readPort(): number {
	const text = process.env.PORT ?? "";
	if (text === "") return DEFAULT_PORT;
	const port = Number(text);
	if (!/^\d+$/.test(text) || port > 65_535) {
		throw new Failure(`PORT is "${text}"; it must be a number from 0 to 65535.`);
	}
	return port;
}

const bold = (text: string) => (process.stdout.isTTY ? util.styleText("bold", text) : text);
const dim = (text: string) => (process.stdout.isTTY ? util.styleText("dim", text) : text);

function announcementOf(capstan: RunningCapstan): Announcement {
	const { url, pageUrl, networkUrls, adminKey, adminKeyPath, stateDirectory, created, migrationsApplied } = capstan;
	const { signInLink = null, notice = null } = capstan;
	return {
		...{ url, pageUrl, networkUrls: [...networkUrls], adminKey: adminKey ?? null, adminKeyPath, signInLink, notice },
		...{ stateDirectory, created, migrationsApplied: [...migrationsApplied] },
	};
}

/** The link comes last, because it is what people open next. The key and the link are printed to a terminal only. */
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
		fact("Admin key", `${shown(adminKeyPath)} is gone; npm start -- --new-admin-key creates a new key.`);
	else if (isTerminal) fact("Admin key", adminKey, `also in ${shown(adminKeyPath)}, readable by you alone`);
	else fact("Admin key", `in ${shown(adminKeyPath)}, readable by you alone`);
	fact("Demo", "npm run demo", "plays a preview with the stock clients in this product; run it in another terminal");
	if (isInBackground)
		fact("Stop", "npm stop", `its log, with sign-in codes, is ${shown(statePaths(capstan.stateDirectory).log)}`);
	else fact("Stop", "Ctrl-C");
	const [networkUrl, ...others] = networkUrls;
	if (networkUrl !== undefined) {
		const elsewhere = others.length === 0 ? "" : ` (other networks: ${others.join(", ")})`;
		fact("Phones", networkUrl, `scan to see whether a phone reaches it; use it as your app's server${elsewhere}`);
		console.log(`\n${qrCode(networkUrl)}`);
	} else if (process.env.HOST !== undefined || process.argv.includes("--lan")) {
		fact("Phones", "this machine is in no network that a phone could share");
	}
	if (signInLink === null) {
		console.log("\nNo account is known to be yours; npm start -- --new-admin-key creates one.\n");
		return;
	}
	console.log(`\nOpen this link to sign in. It works once, within ${SIGN_IN_LINK_MINUTES} minutes.\n`);
	const path = shown(statePaths(capstan.stateDirectory).signInLink);
	console.log(`  ${isTerminal ? bold(signInLink) : `(in ${path}, readable by you alone)`}\n`);
}

/** White on black whatever the terminal's own colours are: many cameras read no inverted code. */
function qrCode(text: string): string {
	const code = renderUnicodeCompact(text, { border: 2 });
	if (!process.stdout.isTTY) return code;
	return code
		.split("\n")
		.map((line) => `\x1b[40;97m${line}\x1b[0m`)
		.join("\n");
}

/** As one would type it from here. */
function shown(path: string): string {
	const near = relative(process.cwd(), path);
	return near.startsWith("..") ? path : near;
}

/** Instead of the handlers that wrangler and Miniflare install: those end the process before anything is closed. */
function handleSignals(stop: () => void): void {
	for (const signal of ["SIGINT", "SIGTERM"] as const) process.removeAllListeners(signal).on(signal, stop);
}

/** npm that is told to stop ends its shell but not us; without this the product would go on with nobody to stop it. */
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
	const given = process.argv.slice(2);
	const signInLinkFor = given.find((option) => option.startsWith(LINK_FOR))?.slice(LINK_FOR.length);
	const unknown = given.find((option) => !OPTIONS.has(option) && !option.startsWith(LINK_FOR));
	if (unknown !== undefined) throw new Failure(`There is no option ${unknown}; see npm start -- --help.`);
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
			if (!isJson)
				console.log(`\nCapstan has stopped. ${shown(stateDirectory)} keeps everything; npm start continues with it.`);
			process.exit(0);
		})();
	};
	handleSignals(stop);
	stopWithNpm(stop);

	const parent = reportToParent();
	try {
		const capstan = await serveCapstan({
			stateDirectory,
			port: readPort(),
			host: hostToServe(process.env.HOST ?? "", given.includes("--lan")),
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
		// Pending operations fail when everything closes.
		if (stopping) return;
		progress.end();
		if (parent === undefined) throw error;
		parent.failed(sentenceOf(error));
	}
}

/** Machine-readable output. It omits the key and the sign-in link, because programs log their output. */
function facts({ url, networkUrls, adminKeyPath, stateDirectory, created, migrationsApplied }: Announcement) {
	return { url, networkUrls, adminKeyPath, stateDirectory, created, migrationsApplied };
}

/** E.g. a full disk, or a directory where a file should be. */
function isSystemError(error: unknown): error is NodeJS.ErrnoException {
	return error instanceof Error && "syscall" in error;
}

function sentenceOf(error: unknown): string {
	if (error instanceof Failure) return error.message;
	if (isSystemError(error)) return `The system refused it (${error.message}); fix that and start again.`;
	return util.inspect(error);
}

try {
	await main();
} catch (error) {
	console.error(sentenceOf(error));
	process.exit(1);
}
