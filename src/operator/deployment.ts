/**
 * A deployment: the Worker of a name, with its resources and settings. `wrangler.toml` is what a
 * release delivers and is changed for no deployment; `deployments/<name>.toml`, which git ignores,
 * has what differs. Every remote command merges both here, so that an upgrade is `git pull && npm
 * run deploy`.
 *
 * Resources are named after the Worker unless the settings name them, so that two deployments in an
 * account share none.
 */
import { createHash } from "node:crypto";
import { existsSync, readdirSync } from "node:fs";
import { mkdir, writeFile } from "node:fs/promises";
import { dirname, join, resolve } from "node:path";
import { experimental_readRawConfig, type Unstable_RawConfig } from "wrangler";
import { Failure } from "./failure";
import { PROJECT_DIRECTORY } from "./project";
import { refuseShared, settingsProblems } from "./settings-check";

export interface Deployment {
	/** The Worker's. */
	readonly name: string;
	readonly rawConfig: Unstable_RawConfig;
	/** Below the project. */
	readonly settingsFile: string;
	/**
	 * The option with which other commands find this deployment, after a space; empty for the default
	 * one.
	 */
	readonly option: string;
	/** Has its admin key. */
	readonly stateDirectory: string;
	/** Settings of a deployment that wrangler.toml has. */
	readonly misplaced: readonly string[];
	/** Sentences about settings that have no effect. */
	readonly problems: readonly string[];
}

const DEFAULT_NAME = "capstan";
const FOLDER = "deployments";
/** A bucket's name has at most 63 characters, and ends with "-bundles". */
const NAME = /^[a-z0-9]([a-z0-9-]{0,52}[a-z0-9])?$/;

/** For `parseArgs` of a remote command. */
export const NAME_OPTION = { name: { type: "string" } } as const;
export const NAME_HELP = "  --name=NAME             another deployment than capstan, with deployments/NAME.toml";

/** @throws {Failure} for the name of a deployment together with --local */
export function refuseLocalName({ name, local }: { readonly name?: string; readonly local?: boolean }): void {
	if (local === true && name !== undefined)
		throw new Failure("--name is of a deployment, and --local of npm start. Leave one of them out.");
}

/** Left empty by a release. */
const OWN_VARIABLES = [
	"PUBLIC_URL",
	"BUNDLES_URL",
	"CORS_ALLOWED_ORIGINS",
	"MAIL_PROVIDER",
	"MAIL_FROM",
	"QUOTAS",
	"GITHUB_CLIENT_ID",
	"OIDC_ISSUER",
	"OIDC_NAME",
	"OIDC_CLIENT_ID",
];

/**
 * @param named by --name
 * @param place for tests: the directories of the project and of the state
 * @throws {Failure} for a name that a Worker cannot have, for settings that cannot be read, and for
 * resources of another deployment
 */
export function readDeployment(
	named: string | undefined,
	{ project = PROJECT_DIRECTORY, state = resolve(process.env.CAPSTAN_STATE || ".capstan") } = {},
): Deployment {
	const own = deploymentOf(named, { project, state });
	const folder = join(project, FOLDER);
	const files = existsSync(folder) ? readdirSync(folder) : [];
	const others = files.filter((file) => file.endsWith(".toml") && `${FOLDER}/${file}` !== own.settingsFile);
	refuseShared(
		{ file: own.settingsFile, config: { ...own.rawConfig } },
		others.map((file) => {
			const { settingsFile, rawConfig } = deploymentOf(file.slice(0, -".toml".length), { project, state });
			return { file: settingsFile, config: { ...rawConfig } };
		}),
	);
	return own;
}

function deploymentOf(
	named: string | undefined,
	{ project, state }: { readonly project: string; readonly state: string },
): Deployment {
	if (named !== undefined && !NAME.test(named))
		throw new Failure("--name takes up to 54 lower-case letters, digits and hyphens, such as capstan-staging.");
	const file = named ?? DEFAULT_NAME;
	const settingsFile = `${FOLDER}/${file}.toml`;
	const delivered = readToml(project, "wrangler.toml");
	const settings = existsSync(join(project, settingsFile)) ? readToml(project, settingsFile) : {};
	const isOther = file !== DEFAULT_NAME;
	const misplaced = ownSettings(delivered);
	if (isOther && misplaced.length > 0) throw new Failure(`Nothing was done: ${misplacedText(misplaced)}`);
	const name = settings.name ?? (isOther ? file : (delivered.name ?? DEFAULT_NAME));
	const base = withNamespaces(name === delivered.name ? delivered : renamed(delivered, name), name);
	const rawConfig = merged(base, settings) as Unstable_RawConfig;
	return {
		name,
		settingsFile,
		misplaced,
		problems: settingsProblems(settingsFile, { ...base }, { ...settings }, { ...rawConfig }),
		rawConfig,
		option: isOther ? ` --name=${file}` : "",
		stateDirectory: isOther ? join(state, FOLDER, file) : state,
	};
}

function readToml(project: string, file: string): Unstable_RawConfig {
	try {
		return experimental_readRawConfig({ config: join(project, file) }).rawConfig;
	} catch (error) {
		throw new Failure(`${file} cannot be read: ${error instanceof Error ? error.message : error}`);
	}
}

function ownSettings(config: Unstable_RawConfig): string[] {
	const { vars = {} } = config;
	const variables = OWN_VARIABLES.filter((name) => vars[name] !== undefined && vars[name] !== "");
	return [
		...(config.name === DEFAULT_NAME ? [] : ["name"]),
		...(["account_id", "route", "routes"] as const).filter((key) => config[key] !== undefined),
		...((config.d1_databases ?? []).some((one) => one.database_id !== undefined) ? ["database_id"] : []),
		...variables.map((name) => `vars.${name}`),
	];
}

/** For installations that were deployed before settings had a file of their own. */
export const misplacedText = (misplaced: readonly string[]): string =>
	`wrangler.toml has settings of your deployment (${misplaced.join(", ")}). Move everything that you changed in it to ${FOLDER}/${DEFAULT_NAME}.toml, in the same form, and restore it with git checkout wrangler.toml, so that git pull has no conflicts.`;

/** The delivered configuration for a Worker of another name. */
function renamed(config: Unstable_RawConfig, name: string): Unstable_RawConfig {
	const suffixed = (binding: string) => `${name}-${binding.toLowerCase().replaceAll("_", "-")}`;
	const { producers = [], consumers = [] } = config.queues ?? {};
	const queueNames = new Map(producers.map(({ binding, queue }) => [queue, suffixed(binding)]));
	for (const { queue, dead_letter_queue: dead } of consumers) {
		if (dead !== undefined) queueNames.set(dead, `${queueNames.get(queue) ?? queue}-dead`);
	}
	const queueOf = (queue: string | undefined) => queueNames.get(queue) ?? queue ?? "";
	return {
		...config,
		name,
		d1_databases: (config.d1_databases ?? []).map(({ database_id: _, ...one }) => ({
			...one,
			database_name: one.binding === "DB" ? name : suffixed(one.binding),
		})),
		r2_buckets: (config.r2_buckets ?? []).map((one) => ({ ...one, bucket_name: suffixed(one.binding) })),
		queues: {
			producers: producers.map((one) => ({ ...one, queue: queueOf(one.queue) })),
			consumers: consumers.map((one) => ({
				...one,
				queue: queueOf(one.queue),
				...(one.dead_letter_queue === undefined ? {} : { dead_letter_queue: queueOf(one.dead_letter_queue) }),
			})),
		},
	};
}

/**
 * The limits of an account share their counters by number, so two deployments must have different
 * ones.
 */
function withNamespaces(config: Unstable_RawConfig, worker: string): Unstable_RawConfig {
	const numberOf = (limit: string) =>
		1 + Number.parseInt(createHash("sha256").update(`${worker} ${limit}`).digest("hex").slice(0, 7), 16);
	return {
		...config,
		ratelimits: (config.ratelimits ?? []).map((one) => ({ ...one, namespace_id: String(numberOf(one.name)) })),
	};
}

type Table = Readonly<Record<string, unknown>>;
const isTable = (value: unknown): value is Table =>
	typeof value === "object" && value !== null && !Array.isArray(value);

/** Entries of lists that have one of these are the same if it is equal. */
const IDENTITIES = ["binding", "name", "queue"];

function identityOf(entry: unknown): unknown {
	if (!isTable(entry)) return undefined;
	return IDENTITIES.map((key) => entry[key]).find((value) => value !== undefined);
}

/**
 * Tables are merged key by key, lists of named entries entry by entry; anything else is replaced.
 */
function merged(base: unknown, own: unknown): unknown {
	if (Array.isArray(base) && Array.isArray(own)) {
		if (own.some((entry) => identityOf(entry) === undefined)) return own;
		const known = new Set(base.map(identityOf));
		return [
			...base.map((entry) => {
				const change = own.find((one) => identityOf(one) === identityOf(entry));
				return change === undefined ? entry : merged(entry, change);
			}),
			...own.filter((one) => !known.has(identityOf(one))),
		];
	}
	if (!isTable(base) || !isTable(own)) return own;
	const result: Record<string, unknown> = { ...base };
	for (const [key, value] of Object.entries(own)) result[key] = key in base ? merged(base[key], value) : value;
	return result;
}

const templateOf = (
	name: string,
) => `# Settings of the deployment "${name}". They replace those of wrangler.toml, which stays as it is delivered, and apply with the next
# npm run deploy. Git ignores this file, so keep a copy of it.

# A domain of your own (docs: Deploying, A domain).
# routes = [{ pattern = "updates.example.com", custom_domain = true }]

[vars]
# PUBLIC_URL = "https://updates.example.com"
# MAIL_PROVIDER = "resend"
# MAIL_FROM = "Capstan <capstan@example.com>"

# Entries of lists are found by binding, name or queue, and keep what is not named here.
# [[ratelimits]]
# name = "D1_READS"
# simple = { limit = 240, period = 60 }
`;

/** @returns whether there was none */
export async function createSettings(
	{ name, settingsFile }: Deployment,
	project: string = PROJECT_DIRECTORY,
): Promise<boolean> {
	const path = join(project, settingsFile);
	if (existsSync(path)) return false;
	await mkdir(dirname(path), { recursive: true });
	await writeFile(path, templateOf(name));
	return true;
}
