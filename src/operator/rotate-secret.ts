/**
 * `npm run rotate-secret`: replaces the deployment's secret without an outage, in two runs.
 *
 * The first run adds a new secret that starts to sign ten minutes later, when every isolate has it.
 * The second run, eight days later, removes the old one: by then every link that it signed has
 * expired, and automatic clean-up has sealed every stored key again. The old secret is never read
 * (Cloudflare does not show it), and it is never removed while anything still needs it.
 */
import { randomBytes } from "node:crypto";
import { rmSync } from "node:fs";
import { mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { CLEAN_UP_MINUTES } from "../domain/defaults";
import { parseSecret, SECRET_NAMES } from "../domain/secrets";
import { deployedDatabase, type Execute } from "./dead-messages";
import { type Deployment, NAME_HELP, NAME_OPTION, readDeployment } from "./deployment";
import { Failure } from "./failure";
import { npmCommand, readOptions } from "./options";
import { isCode, writePrivately } from "./state";
import { findAccount, installedWrangler, must, onAccount, parse, type Wrangler } from "./wrangler";

const HELP = `Replaces the secret of your deployment without an outage, in two runs eight days apart.

  npm run rotate-secret               add a new secret; eight days later: remove the old one
  npm run rotate-secret -- --status   show the progress of the rotation; changes nothing

${NAME_HELP}
  CLOUDFLARE_API_TOKEN, CLOUDFLARE_ACCOUNT_ID, CAPSTAN_STATE   as for npm run deploy
`;

/** Every isolate has the new secret well before. */
const SIGNS_AFTER_SECONDS = 10 * 60;
/** Longer than the seven days of preview links, which are the longest-lived signed links. */
const OLD_SECRET_LIFETIME_SECONDS = 8 * 24 * 60 * 60;

/**
 * State that the first run saves for the second, next to the admin key; it does not contain the
 * secret itself.
 */
interface Rotation {
	readonly name: string;
	readonly secretId: string;
	readonly signsFromSeconds: number;
}

interface RotateOptions {
	readonly wrangler: Wrangler;
	readonly deployment: Deployment;
	readonly status?: boolean;
	readonly nowMs: () => number;
	readonly print: (line: string) => void;
}

/** @throws {Failure} with the remedy */
export async function rotateSecret(options: RotateOptions): Promise<void> {
	const { deployment, nowMs, print } = options;
	const { name: worker, rawConfig, stateDirectory, option } = deployment;
	const wrangler = onAccount(options.wrangler, await findAccount(options.wrangler, rawConfig.account_id));
	const path = join(stateDirectory, "secret-rotation.json");
	const rotation = await readRotation(path);
	const names = await secretNames(wrangler, worker);
	const [only, second] = names;
	if (only === undefined)
		throw new Failure(`The deployment has no secret yet. Run ${npmCommand("deploy", option)} first.`);
	const nowSeconds = Math.floor(nowMs() / 1000);

	if (second === undefined) {
		if (options.status === true) return print(`One secret is configured (${only}). No rotation is in progress.`);
		const name = SECRET_NAMES.find((one) => one !== only) ?? SECRET_NAMES[0];
		const signsFromSeconds = nowSeconds + SIGNS_AFTER_SECONDS;
		const text = `${randomBytes(32).toString("hex")}@${signsFromSeconds}`;
		const secretId = parseSecret(text)?.id ?? "";
		await mkdir(stateDirectory, { recursive: true, mode: 0o700 });
		// Written before the secret: an interrupted run leaves only this file, and the next run replaces
		// it.
		await writePrivately(path, `${JSON.stringify({ name, secretId, signsFromSeconds } satisfies Rotation)}\n`);
		await putSecret(wrangler, worker, name, text);
		print(`Added ${name}. It signs from ${timeText(signsFromSeconds)} on. ${only} is still accepted.`);
		return print(
			`Run the same command again after ${timeText(signsFromSeconds + OLD_SECRET_LIFETIME_SECONDS)} to remove ${only}.`,
		);
	}

	if (rotation === undefined || !names.includes(rotation.name)) {
		throw new Failure(
			`Two secrets are configured, and ${path} does not say which one is new. Run this where the rotation was started, or restore that file.`,
		);
	}
	const old = names.find((name) => name !== rotation.name) ?? only;
	const endsAtSeconds = rotation.signsFromSeconds + OLD_SECRET_LIFETIME_SECONDS;
	const waiting = await keysOfOtherSecrets(await deployedDatabase(options.wrangler, deployment), rotation.secretId);
	if (options.status === true || nowSeconds < endsAtSeconds || waiting > 0) {
		print(`${rotation.name} signs from ${timeText(rotation.signsFromSeconds)} on. ${old} is still accepted.`);
		if (nowSeconds < endsAtSeconds) print(`Links that ${old} signed may be in use until ${timeText(endsAtSeconds)}.`);
		if (waiting > 0)
			print(`Stored keys to seal again: ${waiting}. Automatic clean-up seals 200 every ${CLEAN_UP_MINUTES} minutes.`);
		if (nowSeconds >= endsAtSeconds && waiting === 0)
			print(`Run ${npmCommand("rotate-secret", option)} to remove ${old}.`);
		return;
	}
	await must(wrangler, ["secret", "delete", old, "--name", worker]);
	await rm(path, { force: true });
	print(`Removed ${old}. ${rotation.name} is now the only secret.`);
}

async function secretNames(wrangler: Wrangler, worker: string): Promise<string[]> {
	const command = ["secret", "list", "--name", worker, "--format", "json"];
	const listed = parse<{ name: string }[]>(command, await must(wrangler, command)).map(({ name }) => name);
	return SECRET_NAMES.filter((name) => listed.includes(name));
}

/** Passes the secret in a private file, because arguments are visible in the process list. */
async function putSecret(wrangler: Wrangler, worker: string, name: string, text: string): Promise<void> {
	const scratch = await mkdtemp(join(tmpdir(), "capstan-rotate-"));
	const clean = () => rmSync(scratch, { recursive: true, force: true });
	process.once("exit", clean);
	try {
		const path = join(scratch, "secrets.json");
		await writeFile(path, JSON.stringify({ [name]: text }), { mode: 0o600 });
		await must(wrangler, ["secret", "bulk", path, "--name", worker]);
	} finally {
		process.off("exit", clean);
		clean();
	}
}

async function keysOfOtherSecrets(execute: Execute, secretId: string): Promise<number> {
	const [row] = await execute<{ waiting: number }>({
		sql: `SELECT (SELECT count(*) FROM api_keys WHERE key_ciphertext IS NOT NULL AND key_ciphertext NOT LIKE ?)
			+ (SELECT count(*) FROM webhooks WHERE sealed <> '' AND sealed NOT LIKE ?)
			+ (SELECT count(*) FROM preview_hooks WHERE sealed_secret NOT LIKE ? OR previous_sealed_secret NOT LIKE ?) AS waiting`,
		parameters: Array(4).fill(`${secretId}.%`),
	});
	if (row === undefined) throw new Failure("The database did not answer. Run the same command again.");
	return row.waiting;
}

async function readRotation(path: string): Promise<Rotation | undefined> {
	try {
		return JSON.parse(await readFile(path, "utf8")) as Rotation;
	} catch (error) {
		if (isCode(error, "ENOENT")) return undefined;
		throw new Failure(`${path} cannot be read. Restore it from a backup.`);
	}
}

const timeText = (seconds: number) => new Date(seconds * 1000).toISOString().replace(".000", "");

function optionsOf(argv: readonly string[]) {
	return readOptions("npm run rotate-secret", {
		args: [...argv],
		options: { ...NAME_OPTION, help: { type: "boolean" }, status: { type: "boolean" } },
	}).values;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
	try {
		const { help, status, name } = optionsOf(process.argv.slice(2));
		if (help === true) console.log(HELP);
		else {
			await rotateSecret({
				wrangler: installedWrangler(),
				deployment: readDeployment(name),
				status: status === true,
				nowMs: () => Date.now(),
				print: (line) => console.log(line),
			});
		}
	} catch (error) {
		console.error(error instanceof Failure ? error.message : error);
		process.exitCode = 1;
	}
}
