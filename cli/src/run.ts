/**
 * Finds the command, runs it, and turns failures into messages and exit codes. Everything of the
 * process comes from the caller, so that tests can run commands in their own process.
 */
import { CapstanError } from "../../src/client/client";
import { nearest } from "../../src/domain/words/nearest";
import manifest from "../package.json";
import { type Command, helpOf, parsed } from "./command";
import { explain, logs, whatIf } from "./commands/devices";
import { doctor } from "./commands/doctor";
import { init } from "./commands/init";
import { login, logout } from "./commands/login";
import { previewClose, previewComment, previewOpen, previewUpload } from "./commands/preview";
import { promote, rollback } from "./commands/promote";
import { release } from "./commands/release";
import { rolloutChanges, rolloutStatus } from "./commands/rollout";
import { status } from "./commands/status";
import { EXIT, usage } from "./failure";
import { type Stream, Terminal } from "./terminal";

const COMMANDS: readonly Command[] = [
	init,
	login,
	logout,
	release,
	promote,
	rollback,
	rolloutStatus,
	...rolloutChanges,
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

export interface Host {
	readonly out: Stream;
	readonly error: Stream;
	readonly environment: Readonly<Record<string, string | undefined>>;
	readonly directory: string;
	/** How the person started the command; default: `capstan`. */
	readonly invocation?: string;
}

/** The value of `--key`. */
export const keyIn = (argv: readonly string[]): string | undefined =>
	argv.find((_, index) => argv[index - 1] === "--key") ?? argv.find((word) => word.startsWith("--key="))?.slice(6);

/** The exit code. */
export async function runCommand(argv: readonly string[], host: Host): Promise<number> {
	const { out, error, environment, directory, invocation = "capstan" } = host;
	const { name, rest } = split(argv);
	const terminal = new Terminal({ out, error, json: rest.includes("--json"), environment, invocation });
	const key = keyIn(rest);
	const command = COMMANDS.find((each) => each.name === name);
	try {
		if (["--version", "-v", "version"].includes(name)) out.write(`${manifest.version}\n`);
		else if (command === undefined) return help(name, rest);
		else if (rest.includes("--help") || rest.includes("-h")) terminal.help(helpOf(command));
		else {
			const { words, options } = parsed(command, rest);
			if (key !== undefined && key !== "-") terminal.conceal(key);
			return await command.run({ terminal, words, options, directory, environment, version: manifest.version });
		}
		return EXIT.ok;
	} catch (failure) {
		return terminal.failed(name, inOptionWords(failure, command)).exitCode;
	}

	function help(word: string, about: readonly string[]): number {
		if (!["help", "--help", "-h"].includes(word)) {
			const inner = COMMANDS.filter((each) => each.name.startsWith(`${word} `));
			if (inner.length > 0 && about.some((each) => each === "--help" || each === "-h")) {
				terminal.help(inner.map(helpLine).join("\n"));
				return EXIT.ok;
			}
			const names = inner.map((each) => each.name).join(", ");
			const near = nearest(
				word,
				COMMANDS.map((each) => each.name.split(" ")[0] ?? ""),
			);
			const guess = near === undefined ? "" : `Did you mean "${near}"? `;
			const remedy = names === "" ? `${guess}capstan help lists them.` : `Commands: ${names}.`;
			throw usage(
				"unknown_command",
				`There is no command "${[word, ...about.slice(0, 1).filter((each) => !each.startsWith("-"))].join(" ")}". ${remedy}`,
			);
		}
		const named = COMMANDS.find((each) => each.name === split(about).name);
		terminal.help(named === undefined ? OVERVIEW : helpOf(named));
		return EXIT.ok;
	}
}

/** The server names fields of its requests; a person passed options. */
function inOptionWords(error: unknown, command: Command | undefined): unknown {
	if (!(error instanceof CapstanError) || error.code !== "invalid_request") return error;
	const { issues } = error.moreInfo;
	const [issue, ...others] = Array.isArray(issues) ? (issues as { path?: unknown; message?: unknown }[]) : [];
	const [field = ""] = String(issue?.path ?? "").split(".");
	const option = field.replaceAll("_", "-");
	if (issue === undefined || others.length > 0 || command?.options[option] === undefined) return error;
	return usage("invalid_option", `--${option}: ${issue.message}.`, { field: option, requestId: error.requestId });
}

function helpLine({ name, summary }: Command): string {
	return `  ${name.padEnd(16)} ${summary}`;
}

/** The name of a command has one word or two, such as `preview open`. */
function split([first = "help", ...others]: readonly string[]): { readonly name: string; readonly rest: string[] } {
	const [second, ...rest] = others;
	const name = `${first} ${second}`;
	return COMMANDS.some((each) => each.name === name) ? { name, rest } : { name: first, rest: others };
}
