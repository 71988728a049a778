/**
 * `npm run deploy`: the whole product on the user's own Cloudflare account with one command and nothing typed. Every step first looks at
 * what is there, so a second run changes nothing but the code, and a run that was cut short is finished by the next one.
 *
 * Two things are never lost: the secret is made only when Cloudflare says that there is none, and the admin key is on this machine's
 * disk before the database knows its hash. The key's text never leaves this machine.
 */
import { randomBytes, randomUUID } from "node:crypto";
import { rmSync } from "node:fs";
import { mkdir, mkdtemp, readFile, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { experimental_readRawConfig } from "wrangler";
import { hashKey, isWellFormedKey } from "../authz/keys";
import {
	bootstrapStatements,
	FIRST_ORGANIZATION_REPLACED,
	reclaimLinkStatements,
	replaceFirstKeyStatements,
	SIGN_IN_LINK_MINUTES,
	signInLinkStatements,
} from "../db/bootstrap";
import { SECRET_NAMES } from "../domain/secrets";
import { adminKeyOf, makeAdminKey, makeSignInToken, noAccount, signInLink } from "./admin-key";
import { buildAssets, PROJECT_DIRECTORY } from "./build";
import { Failure } from "./failure";
import { literal, sqlText } from "./sql-text";
import { isCode, writePrivately } from "./state";
import {
	callWrangler,
	DATABASE_BINDING,
	databaseNamed,
	failed,
	findAccount,
	installedWrangler,
	must,
	onAccount,
	type Project,
	parse,
	RESOLVED_CONFIG,
	readProject,
	type Wrangler,
	writeResolvedConfig,
} from "./wrangler";

const HELP = `Deploys Capstan to your own Cloudflare account: database, bucket, queue, secret, Worker, first admin key.

  npm run deploy                      deploy, or deploy again
  npm run deploy -- --dry-run         show the steps and build the Worker; nothing is changed
  npm run deploy -- --new-admin-key   replace the first admin key
  npm run deploy -- --sign-in-link    deploy, and create a link that signs the operator in once
  npm run deploy -- --sign-in-link-for=ADDRESS
                                      deploy, and create a link for this account, which proves the address to be its owner's

  CLOUDFLARE_API_TOKEN    an API token, where no browser can be opened to log in
  CLOUDFLARE_ACCOUNT_ID   the account, where the login has more than one
  CAPSTAN_STATE           directory that keeps the key (default .capstan)
`;

export interface DeployOptions {
	/** How wrangler is called, e.g. `["node", ".../wrangler.js"]`. Tests put another program here. */
	readonly wrangler?: readonly string[];
	readonly keyPath: string;
	readonly dryRun?: boolean;
	readonly newAdminKey?: boolean;
	/** A first deployment makes a link in any case. */
	readonly signInLink?: boolean;
	/** The address of the account that the link signs in to, instead of the operator's. */
	readonly signInLinkFor?: string;
	readonly say?: (line: string) => void;
	/** False: what wrangler prints is not passed on. */
	readonly showWrangler?: boolean;
}

export interface Deployment {
	/** Undefined when wrangler named no address; then it is the one of the routes in wrangler.toml. */
	readonly url: string | undefined;
	readonly key: DeployedKey;
	/** Token of a link that signs the first administrator in, once; undefined: none was made. */
	readonly signInToken: string | undefined;
	/** Something that the operator must know; undefined: nothing. */
	readonly notice: string | undefined;
}

export type DeployedKey =
	| { readonly state: "created" | "kept"; readonly text: string }
	/** The deployment has its organization, but the key in the file, if any, is not one of its keys. */
	| { readonly state: "elsewhere" };

export interface Step {
	readonly title: string;
	readonly commands: readonly (readonly string[])[];
}

/** The wrangler commands in their order. What is in `<…>` is known only while deploying. */
export function deploymentSteps(project: Project) {
	const { databaseName, queues } = project;
	const resolved = ["--config", RESOLVED_CONFIG];
	const execute = ["d1", "execute", DATABASE_BINDING, "--remote", "--yes", "--json", ...resolved];
	return {
		account: { title: "Find the account", commands: [["whoami", "--json"]] },
		database: {
			title: "Find the database, or create it",
			commands:
				project.databaseId === undefined
					? [
							["d1", "list", "--json"],
							["d1", "create", databaseName],
						]
					: [],
		},
		queues: {
			title: "Find the queue, or create it",
			commands: queues.flatMap((queue) => [
				["queues", "info", queue],
				["queues", "create", queue],
			]),
		},
		migrations: {
			title: "Bring the database to the current schema",
			commands: [["d1", "migrations", "apply", DATABASE_BINDING, "--remote", ...resolved]],
		},
		secret: { title: "Look whether the secret is there", commands: [["secret", "list", "--format", "json"]] },
		worker: {
			title: "Deploy the Worker (and create its bucket), with a new secret if there was none",
			commands: [["deploy", ...resolved, "--secrets-file", "<new secret>"]],
		},
		key: {
			title: "Create the first organization and its admin key, unless there is one",
			commands: [
				[...execute, "--command", "<count>"],
				[...execute, "--file", "<rows>"],
			],
		},
	} satisfies Record<string, Step>;
}

/** Deploys. Throws a Failure with the remedy for whatever the person can mend. */
export async function deploy(options: DeployOptions): Promise<Deployment | undefined> {
	const say = options.say ?? console.log;
	const { rawConfig } = experimental_readRawConfig({ config: join(PROJECT_DIRECTORY, "wrangler.toml") });
	const project = readProject(rawConfig);
	const steps = deploymentSteps(project);
	const call = callWrangler(options.wrangler ?? [process.execPath, installedWrangler()], options.showWrangler ?? true);

	await buildAssets();
	if (options.dryRun === true) {
		for (const step of Object.values(steps)) {
			say(step.title);
			for (const command of step.commands) say(`  wrangler ${command.join(" ")}`);
		}
		await writeResolvedConfig(rawConfig, project.databaseId);
		await must(call, ["deploy", "--dry-run", "--config", RESOLVED_CONFIG], { shown: true });
		return undefined;
	}

	const scratch = await mkdtemp(join(tmpdir(), "capstan-deploy-"));
	const clean = () => rmSync(scratch, { recursive: true, force: true });
	process.once("exit", clean);
	try {
		say(steps.account.title);
		const wrangler = onAccount(call, await findAccount(call, rawConfig.account_id));

		say(steps.database.title);
		await writeResolvedConfig(rawConfig, project.databaseId ?? (await findDatabase(wrangler, project.databaseName)));
		say(steps.queues.title);
		for (const queue of project.queues) await findQueue(wrangler, queue);
		say(steps.migrations.title);
		for (const command of steps.migrations.commands) await must(wrangler, command, { shown: true });
		say(steps.secret.title);
		const secretArguments = (await hasSecret(wrangler)) ? [] : ["--secrets-file", await makeSecret(scratch)];
		say(steps.worker.title);
		const outputPath = join(scratch, "output.ndjson");
		await must(wrangler, ["deploy", "--config", RESOLVED_CONFIG, ...secretArguments], {
			shown: true,
			environment: { WRANGLER_OUTPUT_FILE_PATH: outputPath },
		});
		say(steps.key.title);
		const settled = await settleKey(wrangler, options, scratch);
		const publicUrl = rawConfig.vars?.PUBLIC_URL;
		const url = typeof publicUrl === "string" && publicUrl !== "" ? publicUrl : await readAddress(outputPath);
		return { url, ...settled };
	} finally {
		process.off("exit", clean);
		clean();
	}
}

/** The id of the database, which is created if there is none of that name. */
async function findDatabase(wrangler: Wrangler, name: string): Promise<string> {
	const found = await databaseNamed(wrangler, name);
	if (found !== undefined) return found;
	await must(wrangler, ["d1", "create", name]);
	const created = await databaseNamed(wrangler, name);
	if (created === undefined)
		throw new Failure(`The database "${name}" was created but is not listed yet; run npm run deploy again.`);
	return created;
}

/** `wrangler deploy` creates databases and buckets that are missing, but refuses a queue that is (ensureQueuesExist in its source). */
async function findQueue(wrangler: Wrangler, name: string): Promise<void> {
	const command = ["queues", "info", name];
	const finished = await wrangler(command);
	if (finished.code === 0) return;
	if (!`${finished.stdout}${finished.stderr}`.includes(`Queue "${name}" does not exist`))
		throw failed(command, finished);
	await must(wrangler, ["queues", "create", name]);
}

/** A failure to look is no absence: a new secret in the old one's place would make every sealed key unreadable. */
async function hasSecret(wrangler: Wrangler): Promise<boolean> {
	const command = ["secret", "list", "--format", "json"];
	const finished = await wrangler(command);
	if (finished.code === 0) {
		return parse<{ name: string }[]>(command, finished).some(({ name }) =>
			SECRET_NAMES.some((known) => known === name),
		);
	}
	if (/Worker "[^"]*" not found/.test(`${finished.stdout}${finished.stderr}`)) return false;
	throw failed(command, finished);
}

/** Deployed together with the Worker, so that no version ever runs without it. */
async function makeSecret(scratch: string): Promise<string> {
	const path = join(scratch, "secrets.json");
	await writeFile(path, JSON.stringify({ [SECRET_NAMES[0]]: randomBytes(32).toString("hex") }), { mode: 0o600 });
	return path;
}

async function settleKey(
	wrangler: Wrangler,
	options: DeployOptions,
	scratch: string,
): Promise<Omit<Deployment, "url">> {
	const execute = ["d1", "execute", DATABASE_BINDING, "--remote", "--yes", "--json", "--config", RESOLVED_CONFIG];
	const keptText = await readKey(options.keyPath);
	const token = makeSignInToken();
	const look = async (text: string | undefined, organizationId: string | null = null) => {
		const hash = text === undefined ? null : hashKey(text);
		const query = `SELECT (SELECT count(*) FROM organizations) AS organizations, (SELECT count(*) FROM api_keys WHERE key_hash = ${literal(hash)}) AS known, (SELECT count(*) FROM organizations WHERE id = ${literal(organizationId)}) AS created, (SELECT count(*) FROM sign_in_links WHERE token_hash = ${literal(token.hash)}) AS links`;
		const command = [...execute, "--command", query];
		const [answer] = parse<{ results: { organizations: number; known: number; created: number; links: number }[] }[]>(
			command,
			await must(wrangler, command),
		);
		const row = answer?.results[0];
		if (row === undefined) throw new Failure("The database gave no answer; run npm run deploy again.");
		return row;
	};
	const write = async (statements: Parameters<typeof sqlText>[0]) => {
		const path = join(scratch, "rows.sql");
		await writeFile(path, sqlText(statements), { mode: 0o600 });
		// A file is taken whole or not at all.
		await must(wrangler, [...execute, "--file", path]);
	};
	const { organizations, known } = await look(keptText);
	if (organizations > 0 && options.newAdminKey !== true) {
		const key: DeployedKey =
			keptText !== undefined && known > 0 ? { state: "kept", text: keptText } : { state: "elsewhere" };
		const { signInLinkFor } = options;
		if (options.signInLink !== true && signInLinkFor === undefined) {
			return { key, signInToken: undefined, notice: undefined };
		}
		await write(
			signInLinkFor === undefined
				? signInLinkStatements(token, randomUUID, Date.now())
				: reclaimLinkStatements(token, signInLinkFor, randomUUID, Date.now()),
		);
		const isMade = (await look(keptText)).links > 0;
		if (!isMade && signInLinkFor !== undefined) throw new Failure(noAccount(signInLinkFor));
		return { key, signInToken: isMade ? token.text : undefined, notice: undefined };
	}
	const replace = organizations > 0;
	// A key file beside an empty database is a deployment that was cut short: its key is the one that was meant.
	const key = replace || keptText === undefined ? makeAdminKey() : adminKeyOf(keptText);
	await mkdir(dirname(options.keyPath), { recursive: true, mode: 0o700 });
	await writePrivately(options.keyPath, `${key.text}\n`);
	const now = Date.now();
	const { statements, organizationId } = (replace ? replaceFirstKeyStatements : bootstrapStatements)(
		key,
		randomUUID,
		now,
	);
	await write([...statements, ...signInLinkStatements(token, randomUUID, now)]);
	const { known: isKnown, created } = await look(key.text, organizationId);
	if (isKnown === 0) {
		throw new Failure(
			"The admin key was not stored, because another deployment was faster; run npm run deploy -- --new-admin-key.",
		);
	}
	return {
		key: { state: "created", text: key.text },
		signInToken: token.text,
		notice: replace && created > 0 ? FIRST_ORGANIZATION_REPLACED : undefined,
	};
}

async function readKey(path: string): Promise<string | undefined> {
	let text: string;
	try {
		text = (await readFile(path, "utf8")).trim();
	} catch (error) {
		if (isCode(error, "ENOENT")) return undefined;
		throw new Failure(`${path} cannot be read; make it readable, or move it away.`);
	}
	if (!isWellFormedKey(text)) throw new Failure(`${path} does not hold an API key; move it away.`);
	return text;
}

async function readAddress(outputPath: string): Promise<string | undefined> {
	const text = await readFile(outputPath, "utf8").catch(() => "");
	for (const line of text.split("\n").filter((one) => one !== "")) {
		const entry = JSON.parse(line) as { type?: string; targets?: string[] };
		const address =
			entry.type === "deploy" ? entry.targets?.find((target) => target.startsWith("https://")) : undefined;
		if (address !== undefined) return address;
	}
	return undefined;
}

/** The key and the link are printed to a terminal only: the output of a pipeline is kept where many can read it. */
async function announce({ url, key, signInToken, notice }: Deployment, keyPath: string): Promise<void> {
	const isTerminal = process.stdout.isTTY === true;
	console.log(`\nCapstan is deployed${url === undefined ? "" : ` at ${url}`}`);
	if (notice !== undefined) console.log(notice);
	if (key.state === "elsewhere") {
		console.log(`Its admin key is not in ${keyPath}; \`npm run deploy -- --new-admin-key\` makes a new one.`);
	} else {
		console.log(`Admin key: ${isTerminal ? `${key.text}\n(kept in` : "(in"} ${keyPath}, readable by you alone)`);
	}
	if (signInToken !== undefined) {
		const link = signInLink(url ?? "https://<its address>", signInToken);
		const path = join(dirname(keyPath), "deployed-sign-in.link");
		await mkdir(dirname(path), { recursive: true, mode: 0o700 });
		await writePrivately(path, `${link}\n`);
		console.log(`Sign in: ${isTerminal ? `${link}\n(also in` : "(in"} ${path}, readable by you alone)`);
		console.log(`(works once, for ${SIGN_IN_LINK_MINUTES} minutes; npm run deploy -- --sign-in-link makes a new one)`);
	}
	if (url !== undefined) console.log(`Read the API at ${url}/docs`);
}

async function main(): Promise<void> {
	const { values } = parseOptions();
	if (values.help === true) {
		console.log(HELP);
		return;
	}
	process.once("SIGINT", () => process.exit(130));
	process.once("SIGTERM", () => process.exit(143));
	const keyPath = join(resolve(process.env.CAPSTAN_STATE || ".capstan"), "deployed-admin.key");
	const deployment = await deploy({
		keyPath,
		dryRun: values["dry-run"] === true,
		newAdminKey: values["new-admin-key"] === true,
		signInLink: values["sign-in-link"] === true,
		...(values["sign-in-link-for"] === undefined ? {} : { signInLinkFor: values["sign-in-link-for"] }),
	});
	if (deployment !== undefined) await announce(deployment, keyPath);
}

function parseOptions() {
	try {
		return parseArgs({
			options: {
				help: { type: "boolean" },
				"dry-run": { type: "boolean" },
				"new-admin-key": { type: "boolean" },
				"sign-in-link": { type: "boolean" },
				"sign-in-link-for": { type: "string" },
			},
		});
	} catch {
		throw new Failure("There is no such option; see npm run deploy -- --help.");
	}
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
	try {
		await main();
	} catch (error) {
		if (error instanceof Failure) console.error(error.message);
		else console.error(error);
		process.exit(1);
	}
}
