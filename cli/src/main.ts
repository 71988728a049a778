/**
 * The process of the `capstan` command: its arguments, its streams and its exit code.
 */
import { EXIT } from "./failure";
import { invocationOf } from "./invocation";
import { keyIn, runCommand } from "./run";

const argv = process.argv.slice(2);
// On Linux and macOS this replaces the arguments that other users see.
if (keyIn(argv) !== undefined) process.title = "capstan";
// A reader such as head may close the pipe early.
process.stdout.on("error", () => process.exit());
const directory = currentDirectory();
process.exitCode = await runCommand(argv, {
	out: process.stdout,
	error: process.stderr,
	environment: process.env,
	directory,
	invocation: invocationOf(process.argv[1] ?? "", process.env),
});

/** A shell may stand in a directory that was deleted. */
function currentDirectory(): string {
	try {
		return process.cwd();
	} catch {
		process.stderr.write(
			"Error The current directory was deleted. Go to another one, and run the command again. (no_directory)\n",
		);
		return process.exit(EXIT.usage);
	}
}
