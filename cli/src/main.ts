/**
 * The `capstan` command: finds the command, runs it, and turns failures into messages and exit codes.
 */
import manifest from "../package.json";
import { type Command, helpOf, parsed } from "./command";
import { explain, logs, whatIf } from "./commands/devices";
import { doctor } from "./commands/doctor";
import { init } from "./commands/init";
import { login, logout } from "./commands/login";
import { previewClose, previewComment, previewOpen, previewUpload } from "./commands/preview";
import { promote, rollback } from "./commands/promote";
import { release } from "./commands/release";
import { status } from "./commands/status";
import { EXIT, usage } from "./failure";
import { Terminal } from "./terminal";

const COMMANDS: readonly Command[] = [
	init,
	login,
	logout,
	release,
	promote,
	rollback,
	previewOpen,
	previewUpload,
	previewComment,
	previewClose,
	status,
	explain,
	whatIf,
	logs,
	doctor,
];

const OVERVIEW = [
	"Live updates for Capacitor and Electron apps on your own Capstan server.",
	"",
	"Usage: capstan <command> [options]",
	"",
	...COMMANDS.map(helpLine),
	"",
	"capstan <command> --help shows the options of a command.",
	"Exit codes: 0 done, 1 failed, 2 wrong usage, 3 waits for approval, 4 no permission, 5 server does not answer,",
	"6 preview ended.",
].join("\n");

async function main(argv: readonly string[]): Promise<number> {
	const { name, rest } = split(argv);
	const terminal = new Terminal({
		out: process.stdout,
		error: process.stderr,
		json: rest.includes("--json"),
		environment: process.env,
	});
	const key =
		rest.find((_, index) => rest[index - 1] === "--key") ?? rest.find((word) => word.startsWith("--key="))?.slice(6);
	// On Linux and macOS this replaces the arguments that other users see.
	if (key !== undefined) process.title = `capstan ${name}`;
	const command = COMMANDS.find((each) => each.name === name);
	try {
		if (name === "--version" || name === "version") process.stdout.write(`${manifest.version}\n`);
		else if (command === undefined) return help(name, rest);
		else if (rest.includes("--help") || rest.includes("-h")) process.stdout.write(`${helpOf(command)}\n`);
		else {
			const { words, options } = parsed(command, rest);
			if (key !== undefined && key !== "-") terminal.conceal(key);
			const run = {
				terminal,
				words,
				options,
				directory: process.cwd(),
				environment: process.env,
				version: manifest.version,
			};
			return await command.run(run);
		}
		return EXIT.ok;
	} catch (error) {
		return terminal.failed(name, error).exitCode;
	}

	function help(word: string, about: readonly string[]): number {
		if (!["help", "--help", "-h"].includes(word)) {
			const inner = COMMANDS.filter((each) => each.name.startsWith(`${word} `));
			if (inner.length > 0 && about.some((each) => each === "--help" || each === "-h")) {
				process.stdout.write(`${inner.map(helpLine).join("\n")}\n`);
				return EXIT.ok;
			}
			const names = inner.map((each) => each.name).join(", ");
			const remedy = names === "" ? "capstan help lists them." : `Commands: ${names}.`;
			throw usage(
				"unknown_command",
				`There is no command "${[word, ...about.slice(0, 1).filter((each) => !each.startsWith("-"))].join(" ")}". ${remedy}`,
			);
		}
		const named = COMMANDS.find((each) => each.name === split(about).name);
		process.stdout.write(`${named === undefined ? OVERVIEW : helpOf(named)}\n`);
		return EXIT.ok;
	}
}

function helpLine({ name, summary }: Command): string {
	return `  ${name.padEnd(15)} ${summary}`;
}

/** The name of a command has one word or two, such as `preview open`. */
function split([first = "help", ...others]: readonly string[]): { readonly name: string; readonly rest: string[] } {
	const [second, ...rest] = others;
	const name = `${first} ${second}`;
	return COMMANDS.some((each) => each.name === name) ? { name, rest } : { name: first, rest: others };
}

// A reader such as head may close the pipe early.
process.stdout.on("error", () => process.exit());
process.exitCode = await main(process.argv.slice(2));
