/**
 * The shape of a command, its options, and the help text derived from them.
 */
import { type ParseArgsConfig, parseArgs } from "node:util";
import parseVersion from "semver/functions/parse";
import { nearest } from "../../src/domain/words/nearest";
import { type ExitCode, usage } from "./failure";
import type { Terminal } from "./terminal";

export interface Option {
	readonly type: "string" | "boolean";
	/** Name of the value in the help text, e.g. `channel`. */
	readonly value?: string;
	readonly help: string;
	readonly short?: string;
	readonly multiple?: boolean;
}

export type Values = Readonly<Record<string, string | boolean | undefined>>;

/** The outside world of one run. */
export interface Run {
	readonly terminal: Terminal;
	readonly words: readonly string[];
	readonly options: Values;
	readonly directory: string;
	readonly environment: Readonly<Record<string, string | undefined>>;
	readonly version: string;
}

export interface Command {
	readonly name: string;
	/** E.g. `release [folder]`. */
	readonly usage: string;
	readonly summary: string;
	readonly options: Readonly<Record<string, Option>>;
	readonly mostWords: number;
	readonly examples: readonly string[];
	run(run: Run): Promise<ExitCode>;
}

/** Options of every command that talks to a server. */
export const COMMON: Readonly<Record<string, Option>> = {
	app: { type: "string", value: "id", help: "App id; default: appId of capacitor.config" },
	server: { type: "string", value: "url", help: "Server; default: CAPSTAN_SERVER, then updateUrl of capacitor.config" },
	key: { type: "string", value: "key", help: "API key, or - to read it from standard input; default: CAPSTAN_TOKEN" },
	json: { type: "boolean", help: "Print one JSON object" },
	help: { type: "boolean", short: "h", help: "Show this help" },
};

/** @throws a failure of node:util for unknown options, and one for too many words */
export function parsed(
	command: Command,
	argv: readonly string[],
): { readonly words: string[]; readonly options: Values } {
	const options: NonNullable<ParseArgsConfig["options"]> = {};
	for (const [name, { type, short }] of Object.entries({ ...command.options, ...COMMON })) {
		options[name] = { type, ...(short === undefined ? {} : { short }) };
	}
	const { values, positionals } = parsedWith(options, argv);
	const extra = positionals[command.mostWords];
	if (extra !== undefined) {
		throw usage("unexpected_argument", `Unexpected argument "${extra}". Usage: capstan ${command.usage}`);
	}
	return { words: positionals, options: values as Values };
}

/** @throws {Failure} `invalid_option` for an unknown option, with the one that it probably means */
function parsedWith(options: NonNullable<ParseArgsConfig["options"]>, argv: readonly string[]) {
	try {
		return parseArgs({ args: [...argv], options, allowPositionals: true, strict: true });
	} catch (error) {
		const { code, message } = error as { readonly code?: string; readonly message: string };
		const typed = /'--([\w-]+)/.exec(message)?.[1];
		const near = typed === undefined ? undefined : nearest(typed, Object.keys(options));
		if (code !== "ERR_PARSE_ARGS_UNKNOWN_OPTION" || near === undefined) throw error;
		throw usage(
			"invalid_option",
			`Unknown option '--${typed}'. Did you mean --${near}? Add --help to see the options.`,
		);
	}
}

export function helpOf(command: Command): string {
	const lines = (options: Readonly<Record<string, Option>>) =>
		Object.entries(options).map(([name, { value, short, help }]) => {
			const flag = `${short === undefined ? "" : `-${short}, `}--${name}${value === undefined ? "" : ` <${value}>`}`;
			return `  ${flag.padEnd(26)} ${help}`;
		});
	return [
		`${command.summary}`,
		"",
		`Usage: capstan ${command.usage} [options]`,
		"",
		...(Object.keys(command.options).length === 0 ? [] : ["Options", ...lines(command.options), ""]),
		"Common options",
		...lines(COMMON),
		"",
		"Examples",
		...command.examples.map((example) => `  ${example}`),
	].join("\n");
}

export function text(options: Values, name: string): string | undefined {
	const value = options[name];
	return typeof value === "string" && value !== "" ? value : undefined;
}

/** @throws {Failure} `invalid_option` unless it is a number within the limits */
export function numberOf(options: Values, name: string, least: number, most: number): number | undefined {
	const value = text(options, name);
	if (value === undefined) return undefined;
	const number = Number(value);
	if (Number.isFinite(number) && number >= least && number <= most) return number;
	throw usage("invalid_option", `--${name} must be a number from ${least} to ${most}; it is "${value}".`, {
		field: name,
	});
}

/**
 * A version as the server takes it.
 * @throws {Failure} `invalid_option`
 */
export function versionOf(options: Values, name: string): string | undefined {
	const value = text(options, name);
	if (value === undefined || parseVersion(value) !== null) return value;
	throw usage("invalid_option", `--${name} must be a version such as 1.2.3; it is "${value}".`, { field: name });
}

/**
 * A duration such as `30s`, `15m`, `2h` or `7d`, in milliseconds.
 * @throws {Failure} `invalid_option`
 */
export function durationOf(options: Values, name: string, fallback: string): number {
	const value = text(options, name) ?? fallback;
	const match = /^(\d{1,6})(s|m|h|d)$/.exec(value);
	const unit = { s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 }[match?.[2] ?? ""];
	if (match !== null && unit !== undefined) return Number(match[1]) * unit;
	throw usage("invalid_option", `--${name} must be a time such as 30s, 15m, 2h or 7d; it is "${value}".`, {
		field: name,
	});
}
