/**
 * `npm run app-ids`: ids of deleted apps that organizations keep, in the database of the deployment; shows them, or releases one whose
 * organization does not, for example because it is gone.
 */
import { fileURLToPath } from "node:url";
import { sql } from "kysely";
import { query } from "../db/client";
import { deployedDatabase, type Execute } from "./dead-messages";
import { Failure } from "./failure";
import { installedWrangler } from "./wrangler";

const MOST_LISTED = 1000;

const HELP = `App ids that are kept for the organizations whose apps had them.

  npm run app-ids                           list them, at most ${MOST_LISTED}
  npm run app-ids -- release <app id>       let every organization take this id

  Devices that still have the app then ask the organization that takes its id for updates.
`;

interface Kept {
	readonly app_id: string;
	readonly org_id: string;
	readonly organization: string | null;
}

export interface AppIdOptions {
	readonly argv: readonly string[];
	readonly execute: () => Promise<Execute>;
	readonly say: (line: string) => void;
}

/** @throws {Failure} with the remedy */
export async function tendToAppIds({ argv, execute, say }: AppIdOptions): Promise<void> {
	const [command = "list", appId, ...more] = argv;
	if (command === "--help") return say(HELP);
	if (command === "list" && appId === undefined) {
		const kept = await (await execute())<Kept>(
			sql`SELECT r.app_id, r.org_id, o.name AS organization FROM app_reservations r
				LEFT JOIN organizations o ON o.id = r.org_id ORDER BY r.app_id LIMIT ${MOST_LISTED}`.compile(query),
		);
		if (kept.length === 0) say("No app id is kept.");
		for (const { app_id, org_id, organization } of kept)
			say(`${app_id}  ${organization ?? "removed organization"} (${org_id})`);
		return;
	}
	if (command !== "release" || appId === undefined || more.length > 0) {
		throw new Failure("Use list, or release with one app id; see npm run app-ids -- --help.");
	}
	const released = await (await execute())<{ app_id: string }>(
		sql`DELETE FROM app_reservations WHERE app_id = ${appId} COLLATE NOCASE RETURNING app_id`.compile(query),
	);
	if (released.length === 0)
		throw new Failure(`${appId} is kept for no organization; list the ids with npm run app-ids.`);
	say(`Every organization can take ${appId} now.`);
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
	try {
		await tendToAppIds({
			argv: process.argv.slice(2),
			execute: () => deployedDatabase([process.execPath, installedWrangler()]),
			say: (line) => console.log(line),
		});
	} catch (error) {
		if (!(error instanceof Failure)) throw error;
		console.error(error.message);
		process.exitCode = 1;
	}
}
