/**
 * Reads the options of an operator command. A wrong one is named, with the way to the help, and
 * nothing is done.
 */
import { type ParseArgsConfig, parseArgs } from "node:util";
import { Failure } from "./failure";

/**
 * @param command as it is typed, for example `npm run doctor`
 * @throws {Failure} for an unknown option, an unexpected argument or a missing value
 */
export function readOptions<const Config extends ParseArgsConfig>(command: string, config: Config) {
	try {
		return parseArgs(config);
	} catch (error) {
		throw new Failure(`${problemOf(error)}. See ${command} -- --help.`);
	}
}

/**
 * The first sentence of Node's message; the others tell about arguments that our commands do not
 * take.
 */
function problemOf(error: unknown): string {
	const message = error instanceof Error ? error.message : "";
	return message.split(/\.\s|\n/)[0]?.replace(/\.$/, "") || "Unknown option";
}

/**
 * A command as the operator types it.
 * @param deployment the option that names the deployment, after a space; may be empty
 */
export function npmCommand(name: string, deployment: string, more = ""): string {
	const options = `${deployment}${more === "" ? "" : ` ${more}`}`;
	return `npm run ${name}${options === "" ? "" : ` --${options}`}`;
}
