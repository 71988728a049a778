/**
 * Faults of `deployments/<name>.toml` that would otherwise do nothing, or reach another deployment:
 * misspelled settings, secrets in the clear, and resources that two deployments name.
 */
import { nearest } from "../domain/words/nearest";
import { Failure } from "./failure";

type Table = Readonly<Record<string, unknown>>;

const isTable = (value: unknown): value is Table =>
	typeof value === "object" && value !== null && !Array.isArray(value);
const tablesAt = (config: Table, ...path: readonly string[]): readonly Table[] => {
	const value = path.reduce<unknown>((at, key) => (isTable(at) ? at[key] : undefined), config);
	return Array.isArray(value) ? value.filter(isTable) : [];
};

const SECRETS = /^(CAPSTAN_SECRET(_2)?|MAIL_API_KEY|GITHUB_CLIENT_SECRET|OIDC_CLIENT_SECRET|CLOUDFLARE_API_TOKEN)$/;
/** Keys of wrangler that a release does not use. */
const OTHER_KEYS = ["account_id", "route", "routes", "placement", "limits", "logpush", "tail_consumers"];

/** Lists, the key that names an entry, and further names that fit. */
const LISTS = [
	{ path: ["d1_databases"], key: "binding", more: /^TELEMETRY_\d+$/ },
	{ path: ["r2_buckets"], key: "binding", more: undefined },
	{ path: ["queues", "producers"], key: "binding", more: undefined },
	{ path: ["queues", "consumers"], key: "queue", more: undefined },
	{ path: ["ratelimits"], key: "name", more: undefined },
] as const;

/**
 * @param delivered wrangler.toml with the names of this deployment
 * @param whole the same with its settings
 * @returns sentences with the remedy
 */
export function settingsProblems(file: string, delivered: Table, settings: Table, whole: Table): readonly string[] {
	const unknown = (what: string, name: string, known: readonly string[]) => {
		const near = nearest(name, known);
		const remedy = near === undefined ? `Known are ${known.join(", ")}.` : `Did you mean ${near}?`;
		return `${file}: ${what}${name} has no effect, because Capstan does not know it. ${remedy}`;
	};
	const keys = [...Object.keys(delivered), ...OTHER_KEYS];
	const variables = Object.keys(isTable(delivered.vars) ? delivered.vars : {});
	const typos = Object.keys(settings).filter((key) => !keys.includes(key) && nearest(key, keys) !== undefined);
	const wrongVariables = Object.keys(isTable(settings.vars) ? settings.vars : {}).filter(
		(name) => !variables.includes(name),
	);
	return [
		...typos.map((key) => unknown("", key, keys)),
		...wrongVariables.map((name) =>
			SECRETS.test(name)
				? `${file}: ${name} is a secret and must not stand in a file. Remove it, and run npx wrangler secret put ${name}.`
				: unknown("vars.", name, variables),
		),
		...LISTS.flatMap(({ path, key, more }) => {
			const known = namesIn(tablesAt(delivered, ...path), key);
			// An entry may be found by another of its names.
			const added = tablesAt(whole, ...path).slice(known.length);
			return namesIn(added, key)
				.filter((name) => more?.test(name) !== true)
				.map((name) => unknown(`${path.join(".")} with the ${key} `, name, known));
		}),
	];
}

const namesIn = (tables: readonly Table[], key: string): string[] =>
	tables.map((table) => table[key]).filter((name) => typeof name === "string");

interface Other {
	readonly file: string;
	readonly config: Table;
}

/** @throws {Failure} if both would use the same Worker, database, bucket or Queue */
export function refuseShared(own: Other, others: readonly Other[]): void {
	for (const other of others) {
		if (own.config.account_id !== other.config.account_id) continue;
		const taken = resourcesOf(other.config);
		const shared = resourcesOf(own.config).find((one) => taken.includes(one));
		if (shared === undefined) continue;
		throw new Failure(
			`Nothing was done: ${own.file} and ${other.file} both name the ${shared}, so each deployment would change the data of the other. Remove the name from one of them, or delete the file that is not used.`,
		);
	}
}

function resourcesOf(config: Table): string[] {
	const databases = tablesAt(config, "d1_databases");
	const queues = [...tablesAt(config, "queues", "producers"), ...tablesAt(config, "queues", "consumers")];
	return [
		...namesIn([config], "name").map((name) => `Worker ${name}`),
		...namesIn(databases, "database_name").map((name) => `database ${name}`),
		...namesIn(databases, "database_id").map((id) => `database ${id}`),
		...namesIn(tablesAt(config, "r2_buckets"), "bucket_name").map((name) => `bucket ${name}`),
		...namesIn(queues, "queue").map((name) => `Queue ${name}`),
	];
}
