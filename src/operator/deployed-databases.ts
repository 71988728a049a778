/**
 * The D1 databases of a deployment. They are found and examined before a deployment changes anything
 * in the account, and created afterwards where there are none.
 */
import type { Unstable_RawConfig } from "wrangler";
import { Failure } from "./failure";
import { isOfDevelopmentBuild } from "./migrate";
import {
	databaseNamed,
	failed,
	must,
	type Project,
	parse,
	RESOLVED_CONFIG,
	type Wrangler,
	writeResolvedConfig,
} from "./wrangler";

/** By binding; undefined for a database that does not exist. */
export type DatabaseIds = Readonly<Record<string, string | undefined>>;

/** Lists the names in the ledger of `wrangler d1 migrations apply`. */
export const ledgerCommand = (binding: string): readonly string[] => [
	...["d1", "execute", binding, "--remote", "--yes", "--json", "--config", RESOLVED_CONFIG],
	...["--command", "SELECT name FROM d1_migrations"],
];

/**
 * Finds the databases that exist.
 * @throws {Failure} if one of them has the tables of a development build
 */
export async function findDatabases(
	wrangler: Wrangler,
	{ databases }: Project,
	rawConfig: Unstable_RawConfig,
): Promise<DatabaseIds> {
	const ids: Record<string, string | undefined> = {};
	for (const { binding, name, id } of databases) ids[binding] = id ?? (await databaseNamed(wrangler, name));
	await writeResolvedConfig(rawConfig, ids);
	const refused: string[] = [];
	for (const { binding, name } of databases) {
		if (ids[binding] === undefined) continue;
		if (isOfDevelopmentBuild(await migrationsOf(wrangler, binding))) refused.push(name);
	}
	if (refused.length > 0) {
		throw new Failure(
			`Nothing was deployed, because a development build created the database ${refused.join(" and the database ")}, which no release can read: to start with new ones, change each database_name, its database_id if there is one, and bucket_name in wrangler.toml.`,
		);
	}
	return ids;
}

async function migrationsOf(wrangler: Wrangler, binding: string): Promise<string[]> {
	const command = ledgerCommand(binding);
	const finished = await wrangler(command);
	if (finished.code !== 0) {
		// Created by a deployment that stopped before its migrations.
		if (`${finished.stdout}${finished.stderr}`.includes("no such table: d1_migrations")) return [];
		throw failed(command, finished);
	}
	const [answer] = parse<{ results: { name: string }[] }[]>(command, finished);
	return (answer?.results ?? []).map(({ name }) => name);
}

/** Creates a database and returns its id. */
export async function createDatabase(
	wrangler: Wrangler,
	name: string,
	locationArguments: readonly string[],
): Promise<string> {
	await must(wrangler, ["d1", "create", name, ...locationArguments]);
	const created = await databaseNamed(wrangler, name);
	if (created === undefined)
		throw new Failure(`The database "${name}" was created but is not listed yet. Run npm run deploy again.`);
	return created;
}
