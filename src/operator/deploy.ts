/**
 * `npm run deploy`: deploys everything to the user's own Cloudflare account without questions.
 * Every step first checks what exists, so a second run changes only the code, and the next run
 * finishes an interrupted one.
 *
 * Resources of somebody else, and databases of a development build, are refused before anything
 * changes (survey.ts).
 *
 * Two things are never lost: a secret is created only if Cloudflare reports that there is none, and
 * the admin key (src/operator/first-key.ts) is on this machine's disk before the database has its
 * hash. The key's text never leaves this machine.
 */
import { randomBytes } from "node:crypto";
import { rmSync } from "node:fs";
import { mkdir, mkdtemp, readFile, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { SECRET_NAMES } from "../domain/secrets";
import { SIGN_IN_LINK_MINUTES } from "../domain/time";
import { signInLink } from "./admin-key";
import { buildAssets, writeWorker } from "./build";
import { createSettings, type Deployment, misplacedText, NAME_HELP, NAME_OPTION, readDeployment } from "./deployment";
import { DEPLOYED_URL_FILE } from "./doctor";
import { Failure } from "./failure";
import { ensureKey, type KeyOptions, type KeyState } from "./first-key";
import { givenSecrets } from "./given-secrets";
import { npmCommand, readOptions } from "./options";
import { writePrivately } from "./state";
import { survey, surveyCommands } from "./survey";
import {
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
	sqlCommand,
	type Wrangler,
	writeResolvedConfig,
} from "./wrangler";

/** Location hints that both D1 and R2 know. */
const LOCATIONS = ["weur", "eeur", "wnam", "enam", "apac", "oc"] as const;
export type Location = (typeof LOCATIONS)[number];

const HELP = `Deploys Capstan to your own Cloudflare account: databases, bucket, queues, secret, Worker, first admin key.

  npm run deploy                      deploy or update
  npm run deploy -- --dry-run         show the steps and build the Worker; changes nothing
  npm run deploy -- --new-admin-key   replace the first admin key
  npm run deploy -- --sign-in-link    deploy, and create a one-time sign-in link for the operator
  npm run deploy -- --sign-in-link-for=ADDRESS
                                      deploy, and create a one-time sign-in link for this account; using it
                                      verifies its e-mail address

${NAME_HELP.replace("  --", "  npm run deploy -- --").replace("NAME             ", "NAME   ")}
  npm run deploy -- --take-over       use and replace a Worker, databases and a bucket of these names that are not
                                      this deployment's
  npm run deploy -- --location=weur   where the first deployment creates databases and bucket: ${LOCATIONS.join(", ")};
                                      it cannot be changed later; by default near this machine

  CAPSTAN_SECRET          secret of a first deployment, 64 hexadecimal digits; by default a random one
  CLOUDFLARE_API_TOKEN    API token, if no browser can be opened to log in
  CLOUDFLARE_ACCOUNT_ID   account id, if the login has several accounts
  CAPSTAN_STATE           directory for the admin key (default .capstan)
`;

export interface DeployOptions extends KeyOptions {
	readonly deployment: Deployment;
	/** The installed wrangler unless given. Tests give another one. */
	readonly wrangler?: Wrangler;
	/** Writes what wrangler uploads; `buildDeployment` unless given. */
	readonly build?: () => Promise<void>;
	readonly dryRun?: boolean;
	/** Location of a new database and a new bucket; undefined: near this machine. */
	readonly location?: Location;
	/** Whether resources of others may be used and replaced. */
	readonly takeOver?: boolean;
	/** Creates the file of settings, if there is none; tests leave it out. */
	readonly settle?: () => Promise<boolean>;
	readonly print?: (line: string) => void;
}

interface Deployed extends KeyState {
	/** Undefined if wrangler reported no URL; the routes of the settings define it then. */
	readonly url: string | undefined;
}

export interface Step {
	readonly title: string;
	readonly commands: readonly (readonly string[])[];
}

/** The wrangler commands in order. `<…>` is filled in while deploying. */
export function deploymentSteps(name: string, project: Project, location?: Location) {
	const { databases, bucketName, queues } = project;
	const unknown = databases.filter(({ id }) => id === undefined);
	const at = locationArguments(location);
	const resolved = ["--config", RESOLVED_CONFIG];
	return {
		account: { title: "Find the account", commands: [["whoami", "--json"]] },
		find: {
			title: "Look at what exists, and whether it is this deployment's",
			commands: surveyCommands(name, project),
		},
		bucket: {
			title: "Create the bucket if it does not exist",
			commands: [["r2", "bucket", "create", bucketName, ...at]],
		},
		database: {
			title: "Create the databases that do not exist",
			commands: unknown.flatMap(({ name }) => [
				["d1", "create", name, ...at],
				["d1", "list", "--json"],
			]),
		},
		queues: {
			title: "Create the queues that do not exist",
			commands: queues.map((queue) => ["queues", "create", queue]),
		},
		migrations: {
			title: "Apply database migrations",
			commands: databases.map(({ binding }) => ["d1", "migrations", "apply", binding, "--remote", ...resolved]),
		},
		secret: { title: "Check for the secret", commands: [secretsCommand(name)] },
		worker: {
			title: "Deploy the Worker (creates the secret, if there is none)",
			commands: [["deploy", ...resolved, "--secrets-file", "<new secret>"]],
		},
		key: {
			title: "Create the first organization and its admin key, if there is none",
			commands: ["<count>", "<rows>"].map((sql) => sqlCommand(DATABASE_BINDING, sql)),
		},
	} satisfies Record<string, Step>;
}

/** Writes the assets and the Worker to `dist`. */
export async function buildDeployment(): Promise<void> {
	await buildAssets();
	await writeWorker();
}

/** @throws {Failure} with the remedy, for problems that the operator can fix */
export async function deploy(options: DeployOptions): Promise<Deployed | undefined> {
	const { deployment, location, print = console.log } = options;
	const { name, rawConfig, misplaced } = deployment;
	const project = readProject(rawConfig);
	const steps = deploymentSteps(name, project, location);
	const call = options.wrangler ?? installedWrangler({ isShown: true });
	for (const problem of deployment.problems) print(`Warning: ${problem}`);

	await (options.build ?? buildDeployment)();
	if (options.dryRun === true) {
		for (const step of Object.values(steps)) {
			print(step.title);
			for (const command of step.commands) print(`  wrangler ${command.join(" ")}`);
		}
		await writeResolvedConfig(rawConfig, {});
		await must(call, ["deploy", "--dry-run", "--config", RESOLVED_CONFIG], { shown: true });
		return undefined;
	}

	const scratch = await mkdtemp(join(tmpdir(), "capstan-deploy-"));
	const clean = () => rmSync(scratch, { recursive: true, force: true });
	process.once("exit", clean);
	try {
		print(steps.account.title);
		const wrangler = onAccount(call, await findAccount(call, rawConfig.account_id));

		print(steps.find.title);
		const found = await survey(wrangler, deployment, project, options.takeOver === true);
		if (misplaced.length > 0) print(`  ${misplacedText(misplaced)}`);
		else if (await options.settle?.())
			print(`  ${deployment.settingsFile} was created, for the settings of this deployment.`);

		const created = (resource: string) => print(`  ${createdText(resource, location)}`);
		print(steps.bucket.title);
		if (!found.hasBucket) {
			await must(wrangler, ["r2", "bucket", "create", project.bucketName, ...locationArguments(location)]);
			created("bucket");
		}
		print(steps.database.title);
		const databaseIds = { ...found.databaseIds };
		for (const { binding, name: database } of project.databases) {
			if (databaseIds[binding] !== undefined) continue;
			databaseIds[binding] = await createDatabase(wrangler, database, locationArguments(location));
			created(binding === DATABASE_BINDING ? "database" : `database ${database}`);
		}
		await writeResolvedConfig(rawConfig, databaseIds);
		print(steps.queues.title);
		for (const queue of project.queues) if (!found.queues.has(queue)) await must(wrangler, ["queues", "create", queue]);
		print(steps.migrations.title);
		for (const command of steps.migrations.commands) await must(wrangler, command, { shown: true });
		print(steps.secret.title);
		const secretArguments = (await hasSecret(wrangler, name))
			? []
			: ["--secrets-file", await createSecretFile(scratch)];
		print(steps.worker.title);
		const outputPath = join(scratch, "output.ndjson");
		await must(wrangler, ["deploy", "--config", RESOLVED_CONFIG, ...secretArguments], {
			shown: true,
			environment: { WRANGLER_OUTPUT_FILE_PATH: outputPath },
		});
		print(steps.key.title);
		const keyState = await ensureKey(wrangler, options);
		const publicUrl = rawConfig.vars?.PUBLIC_URL;
		const url = typeof publicUrl === "string" && publicUrl !== "" ? publicUrl : await readAddress(outputPath);
		return { url, ...keyState };
	} finally {
		process.off("exit", clean);
		clean();
	}
}

export const locationArguments = (location: Location | undefined) =>
	location === undefined ? [] : ["--location", location];

function createdText(resource: string, location: Location | undefined): string {
	return location === undefined
		? `The ${resource} was created near this machine, for good. To choose the place, delete it and deploy with --location.`
		: `The ${resource} was created in ${location}.`;
}

/** `wrangler deploy` would create a missing database without a location. Returns its id. */
export async function createDatabase(wrangler: Wrangler, name: string, at: readonly string[]): Promise<string> {
	await must(wrangler, ["d1", "create", name, ...at]);
	const created = await databaseNamed(wrangler, name);
	if (created === undefined)
		throw new Failure(`The database "${name}" was created but is not listed yet. Run the same command again.`);
	return created;
}

const secretsCommand = (name: string): readonly string[] => ["secret", "list", "--name", name, "--format", "json"];

/**
 * An error is not the same as no secret: replacing the secret would make every sealed key
 * unreadable.
 */
async function hasSecret(wrangler: Wrangler, name: string): Promise<boolean> {
	const command = secretsCommand(name);
	const finished = await wrangler(command);
	if (finished.code === 0) {
		return parse<{ name: string }[]>(command, finished).some(({ name }) =>
			SECRET_NAMES.some((known) => known === name),
		);
	}
	if (/Worker "[^"]*" not found/.test(`${finished.stdout}${finished.stderr}`)) return false;
	throw failed(command, finished);
}

/** Deployed together with the Worker, so that no version runs without a secret. */
async function createSecretFile(scratch: string): Promise<string> {
	const path = join(scratch, "secrets.json");
	// A restored database needs the secret that it was sealed with.
	const [given] = givenSecrets();
	const secret = given ?? randomBytes(32).toString("hex");
	await writeFile(path, JSON.stringify({ [SECRET_NAMES[0]]: secret }), { mode: 0o600 });
	return path;
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

/**
 * Prints the key and the link only to terminals, because many people can read the output of a
 * pipeline.
 */
async function announce(
	{ url, key, signInToken, notice }: Deployed,
	{ option }: Deployment,
	keyPath: string,
): Promise<void> {
	const isTerminal = process.stdout.isTTY === true;
	console.log(`\nCapstan is deployed${url === undefined ? "" : ` at ${url}`}`);
	if (notice !== undefined) console.log(notice);
	if (key.state === "elsewhere") {
		console.log(
			`${keyPath} does not contain its admin key. Create a new one with \`${npmCommand("deploy", option, "--new-admin-key")}\`.`,
		);
	} else {
		console.log(
			`Admin key: ${isTerminal ? `${key.text}\n(stored in` : "(stored in"} ${keyPath}, readable only by you)`,
		);
	}
	if (signInToken !== undefined) {
		const link = signInLink(url ?? "https://<its URL>", signInToken);
		const path = join(dirname(keyPath), "deployed-sign-in.link");
		await mkdir(dirname(path), { recursive: true, mode: 0o700 });
		await writePrivately(path, `${link}\n`);
		console.log(`Sign in: ${isTerminal ? `${link}\n(also in` : "(stored in"} ${path}, readable only by you)`);
		console.log(
			`(valid once, for ${SIGN_IN_LINK_MINUTES} minutes; ${npmCommand("deploy", option, "--sign-in-link")} creates another)`,
		);
	}
	if (url !== undefined) {
		await mkdir(dirname(keyPath), { recursive: true, mode: 0o700 });
		await writePrivately(join(dirname(keyPath), DEPLOYED_URL_FILE), `${url}\n`);
		console.log(`API documentation: ${url}/docs`);
		console.log(`Examine it from outside: ${npmCommand("doctor", option)}`);
	}
}

async function main(): Promise<void> {
	const { values } = parseOptions();
	if (values.help === true) {
		console.log(HELP);
		return;
	}
	process.once("SIGINT", () => process.exit(130));
	process.once("SIGTERM", () => process.exit(143));
	const deployment = readDeployment(values.name);
	const keyPath = join(deployment.stateDirectory, "deployed-admin.key");
	const deployed = await deploy({
		deployment,
		settle: () => createSettings(deployment),
		takeOver: values["take-over"] === true,
		keyPath,
		dryRun: values["dry-run"] === true,
		...(values.location === undefined ? {} : { location: locationNamed(values.location) }),
		newAdminKey: values["new-admin-key"] === true,
		signInLink: values["sign-in-link"] === true,
		...(values["sign-in-link-for"] === undefined ? {} : { signInLinkFor: values["sign-in-link-for"] }),
	});
	if (deployed !== undefined) await announce(deployed, deployment, keyPath);
}

export function locationNamed(text: string): Location {
	const location = LOCATIONS.find((one) => one === text);
	if (location === undefined) throw new Failure(`--location must be one of ${LOCATIONS.join(", ")}.`);
	return location;
}

function parseOptions() {
	return readOptions("npm run deploy", {
		options: {
			help: { type: "boolean" },
			...NAME_OPTION,
			"dry-run": { type: "boolean" },
			"take-over": { type: "boolean" },
			location: { type: "string" },
			"new-admin-key": { type: "boolean" },
			"sign-in-link": { type: "boolean" },
			"sign-in-link-for": { type: "string" },
		},
	});
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
