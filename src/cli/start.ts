/**
 * `npm start`: serves the product on loopback until it is stopped. What a person can mend is said in one sentence with exit code 1;
 * stopping takes down everything that was started.
 */
import "./node-version";
import { resolve } from "node:path";
import util from "node:util";
import { SIGN_IN_LINK_MINUTES } from "../db/bootstrap";
import { Failure } from "./failure";
import { type RunningCapstan, serveCapstan } from "./serve";

const HELP = `Serves Capstan on this machine, with its database, object store and queue embedded.

  npm start                        start, or start again
  npm start -- --json              print one line of JSON instead of text
  npm start -- --new-admin-key     replace the first admin key

  PORT            port on 127.0.0.1 (default 8787; 0 takes any that is free)
  CAPSTAN_STATE   directory that keeps everything (default .capstan)
`;

const DEFAULT_PORT = 8787;
const PARENT_CHECK_INTERVAL_MS = 250;
const OPTIONS = new Set(["--help", "--json", "--new-admin-key"]);

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

function announce(capstan: RunningCapstan): void {
	const { url, adminKey, adminKeyPath, created } = capstan;
	console.log(`${bold("Capstan")} is running at ${bold(url)}`);
	if (created) console.log('Created the first account, the organization "My organization" and its admin key.');
	if (adminKey === undefined) {
		console.log(`The file ${adminKeyPath} is gone; \`npm start -- --new-admin-key\` makes a new admin key.`);
	} else {
		console.log(`Admin key: ${bold(adminKey)}`);
		console.log(`(kept in ${adminKeyPath}, readable by you alone)`);
	}
	console.log(`Sign in: ${bold(capstan.signInLink)}`);
	console.log(`(works once, for ${SIGN_IN_LINK_MINUTES} minutes; starting again makes a new one)`);
	console.log(`Dashboard: ${bold(new URL("/dashboard/", capstan.signInLink).href)}`);
	console.log("");
	console.log(`1. Read the API at ${url}/docs`);
	console.log(`2. See your organization: curl -H "authorization: $(cat ${quoted(adminKeyPath)})" ${url}/organization`);
	console.log("3. Watch a preview come and go with the stock clients: npm run demo (in another terminal)");
}

/** For a shell, when it needs it. */
function quoted(path: string): string {
	return /^[\w./-]+$/.test(path) ? path : `'${path.replaceAll("'", "'\\''")}'`;
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
	const unknown = given.find((option) => !OPTIONS.has(option));
	if (unknown !== undefined) throw new Failure(`There is no option ${unknown}; see npm start -- --help.`);
	if (given.includes("--help")) {
		console.log(HELP);
		return;
	}
	let stopping = false;
	let running: RunningCapstan | undefined;
	const stop = () => {
		if (stopping) process.exit(130);
		stopping = true;
		void (async () => {
			await running?.stop();
			process.exit(0);
		})();
	};
	process.on("SIGINT", stop);
	process.on("SIGTERM", stop);
	stopWithNpm(stop);

	const capstan = await serveCapstan({
		stateDirectory: resolve(process.env.CAPSTAN_STATE || ".capstan"),
		port: readPort(),
		newAdminKey: given.includes("--new-admin-key"),
	});
	running = capstan;
	if (stopping) return await capstan.stop();
	if (given.includes("--json")) {
		const { url, adminKeyPath, stateDirectory, created, migrationsApplied } = capstan;
		console.log(JSON.stringify({ url, adminKeyPath, stateDirectory, created, migrationsApplied }));
	} else {
		announce(capstan);
	}
	await capstan.runScheduled();
}

/** E.g. a full disk, or a directory where a file should be. */
function isSystemError(error: unknown): error is NodeJS.ErrnoException {
	return error instanceof Error && "syscall" in error;
}

try {
	await main();
} catch (error) {
	if (error instanceof Failure) console.error(error.message);
	else if (isSystemError(error)) console.error(`The system refused it (${error.message}); mend that and start again.`);
	else console.error(error);
	process.exit(1);
}
