/**
 * Opens the places that the operator's commands name: the state of `npm start`, or a deployment.
 */
import { readFile, stat } from "node:fs/promises";
import { join, resolve } from "node:path";
import { experimental_readRawConfig } from "wrangler";
import { parseSecret } from "../domain/secrets";
import { type AccountPlace, openAccountPlace } from "./account-place";
import type { Deployment } from "./deployment";
import { Failure } from "./failure";
import { type LocalPlace, openLocalPlace } from "./local-place";
import { npmCommand } from "./options";
import { PROJECT_DIRECTORY } from "./project";
import { refuseBrokenDatabase, statePaths } from "./state";
import { installedWrangler, readProject, type Wrangler } from "./wrangler";

export const stateDirectory = () => resolve(process.env.CAPSTAN_STATE || ".capstan");

/** Bindings of the databases in wrangler.toml, the main one first. */
export function databaseBindings(): string[] {
	const { rawConfig } = experimental_readRawConfig({ config: join(PROJECT_DIRECTORY, "wrangler.toml") });
	return readProject(rawConfig).databases.map(({ binding }) => binding);
}

/** @throws {Failure} if there is no state */
export async function openState(directory = stateDirectory()): Promise<LocalPlace> {
	const paths = statePaths(directory);
	if ((await stat(paths.d1).catch(() => undefined)) === undefined) {
		throw new Failure(`${directory} has no state of npm start. Set CAPSTAN_STATE to the directory that has it.`);
	}
	await refuseBrokenDatabase(paths);
	const secret = parseSecret((await readFile(paths.secretKey, "utf8").catch(() => "")).trim());
	return openLocalPlace({
		name: `the state directory ${directory}`,
		directory,
		bindings: databaseBindings(),
		secretIds: secret === undefined ? [] : [secret.id],
	});
}

interface OpenOptions {
	readonly wrangler?: Wrangler;
	/** Whether objects may be removed; only the Worker shows that the bucket is its own. */
	readonly removes?: boolean;
	readonly fetch?: typeof fetch | undefined;
}

/**
 * @throws {Failure} if a database does not exist, and if the Worker that runs uses other resources
 */
export async function openDeployment(
	deployment: Deployment,
	{ wrangler = installedWrangler(), removes = false, fetch }: OpenOptions = {},
): Promise<AccountPlace> {
	const place = await openAccountPlace({ deployment, wrangler, fetch });
	const absent = place.project.databases.find(({ binding }) => place.databaseIds[binding] === undefined);
	if (absent === undefined && (place.isRunning || !removes)) return place;
	await place.close();
	const command = npmCommand("deploy", deployment.option);
	throw new Failure(
		absent === undefined
			? `No Worker "${deployment.name}" runs, so nothing shows that the bucket is its own. Run ${command} first. Nothing was removed.`
			: `This account has no database "${absent.name}". Run ${command} first, or add --local for the state of npm start.`,
	);
}
