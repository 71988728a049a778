/**
 * The process of the `capstan` command: its arguments, its streams and its exit code.
 */
import { invocationOf } from "./invocation";
import { keyIn, runCommand } from "./run";

const argv = process.argv.slice(2);
// On Linux and macOS this replaces the arguments that other users see.
if (keyIn(argv) !== undefined) process.title = "capstan";
// A reader such as head may close the pipe early.
process.stdout.on("error", () => process.exit());
process.exitCode = await runCommand(argv, {
	out: process.stdout,
	error: process.stderr,
	environment: process.env,
	directory: process.cwd(),
	invocation: invocationOf(process.argv[1] ?? "", process.env),
});
