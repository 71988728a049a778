/**
 * `npm run app-ids`: lists the ids of deleted apps that stay reserved for their organizations in a
 * deployment, or releases one, for example because its organization no longer exists.
 */
import { fileURLToPath } from "node:url";
import { sql } from "kysely";
import { query } from "../db/client";
import { deployedDatabase, type Execute } from "./dead-messages";
import { NAME_HELP, NAME_OPTION, readDeployment } from "./deployment";
import { Failure } from "./failure";
import { readOptions } from "./options";
import { installedWrangler } from "./wrangler";

const MOST_LISTED = 1000;

const HELP = `Ids of deleted apps that are reserved for their organizations.

  npm run app-ids                           list them (at most ${MOST_LISTED})
  npm run app-ids -- release <app id>       let any organization use this id

${NAME_HELP}

  Devices that still have the app then get updates from the organization that uses its id.
`;

interface Kept {
	readonly app_id: string;
	readonly org_id: string;
	readonly organization: string | null;
}

interface AppIdOptions {
	readonly argv: readonly string[];
	/** @param name of the deployment, if one is given */
	readonly execute: (name: string | undefined) => Promise<Execute>;
	readonly print: (line: string) => void;
}

/** @throws {Failure} with the remedy */
export async function runAppIds({ argv, execute, print }: AppIdOptions): Promise<void> {
	const { values, positionals } = readOptions("npm run app-ids", {
		args: [...argv],
		allowPositionals: true,
		options: { ...NAME_OPTION, help: { type: "boolean" } },
	});
	const [command = "list", appId, ...more] = positionals;
	if (values.help === true) return print(HELP);
	if (command === "list" && appId === undefined) {
		const kept = await (await execute(values.name))<Kept>(
			sql`SELECT r.app_id, r.org_id, o.name AS organization FROM app_reservations r
				LEFT JOIN organizations o ON o.id = r.org_id ORDER BY r.app_id LIMIT ${MOST_LISTED}`.compile(query),
		);
		if (kept.length === 0) print("No app ids are reserved.");
		for (const { app_id, org_id, organization } of kept)
			print(`${app_id}  ${organization ?? "removed organization"} (${org_id})`);
		return;
	}
	if (command !== "release" || appId === undefined || more.length > 0) {
		throw new Failure("Use list, or release with one app id. See npm run app-ids -- --help.");
	}
	const released = await (await execute(values.name))<{ app_id: string }>(
		sql`DELETE FROM app_reservations WHERE app_id = ${appId} RETURNING app_id`.compile(query),
	);
	if (released.length === 0) throw new Failure(`${appId} is not reserved. List the reserved ids with npm run app-ids.`);
	print(`Any organization can now use ${appId}.`);
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
	try {
		await runAppIds({
			argv: process.argv.slice(2),
			execute: (name) => deployedDatabase(installedWrangler(), readDeployment(name)),
			print: (line) => console.log(line),
		});
	} catch (error) {
		if (!(error instanceof Failure)) throw error;
		console.error(error.message);
		process.exitCode = 1;
	}
}
