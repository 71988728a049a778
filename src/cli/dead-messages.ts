/**
 * `npm run dead-messages`: the messages that the consumer of the Queue could not do, in the database of the deployment; shows them, has them
 * sent again, or gives them up. Every command may be repeated: what was counted before is not counted twice.
 */
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { experimental_readRawConfig } from "wrangler";
import { type Chosen, type DeadMessage, deadMessages, dropDeadMessages, resendDeadMessages } from "../db/dead-messages";
import { PROJECT_DIRECTORY } from "./build";
import { Failure } from "./failure";
import { type Statement, sqlText } from "./sql-text";
import {
	callWrangler,
	DATABASE_BINDING,
	databaseNamed,
	findAccount,
	installedWrangler,
	must,
	onAccount,
	parse,
	RESOLVED_CONFIG,
	readProject,
	writeResolvedConfig,
} from "./wrangler";

const MOST_LISTED = 100;
const MOST_WHOLE = 20;

const HELP = `Messages that the consumer of the Queue could not do in all its tries.

  npm run dead-messages                       list them, the oldest first, at most ${MOST_LISTED}
  npm run dead-messages -- --json             with everything in them, a line each, at most ${MOST_WHOLE}
  npm run dead-messages -- resend <id> …      send them again, with the next sweep; --all for each of them
  npm run dead-messages -- drop <id> …        give them up; --all for each of them

  CLOUDFLARE_API_TOKEN, CLOUDFLARE_ACCOUNT_ID   as for npm run deploy
`;

const SHOWN_CHARACTERS = 160;
/** More than a message can hold. */
const WHOLE_CHARACTERS = 1_000_000;

/** Runs one statement on the deployment's database. */
export type Execute = <Row>(statement: Statement) => Promise<Row[]>;

export interface DeadMessageOptions {
	readonly argv: readonly string[];
	readonly execute: () => Promise<Execute>;
	readonly say: (line: string) => void;
}

/** @throws {Failure} with the remedy */
export async function tendToDeadMessages({ argv, execute, say }: DeadMessageOptions): Promise<void> {
	const { values, positionals } = optionsOf(argv);
	if (values.help === true) return say(HELP);
	const [command = "list", ...ids] = positionals;
	if (command === "list" && ids.length === 0 && values.all !== true) {
		const isWhole = values.json === true;
		const statement = isWhole
			? deadMessages(MOST_WHOLE, WHOLE_CHARACTERS)
			: deadMessages(MOST_LISTED, SHOWN_CHARACTERS);
		const messages = await (await execute())<DeadMessage>(statement);
		for (const line of isWhole ? messages.map((one) => JSON.stringify(one)) : listOf(messages)) say(line);
		return;
	}
	const statement = command === "resend" ? resendDeadMessages : command === "drop" ? dropDeadMessages : undefined;
	if (statement === undefined || ids.length > 0 === (values.all === true)) {
		throw new Failure("Say list, resend or drop, the last two with ids or --all; see npm run dead-messages -- --help.");
	}
	const chosen: Chosen = values.all === true ? "all" : ids;
	const done = new Set((await (await execute())<{ id: string }>(statement(chosen))).map(({ id }) => id));
	for (const id of ids) if (!done.has(id)) say(`${id}: there is no such dead message; it was sent again or dropped.`);
	const what = `${done.size} dead message${done.size === 1 ? "" : "s"}`;
	say(command === "drop" ? `Dropped ${what}.` : `The next sweep, within fifteen minutes, sends ${what} again.`);
}

function optionsOf(argv: readonly string[]) {
	try {
		return parseArgs({
			args: [...argv],
			allowPositionals: true,
			options: { help: { type: "boolean" }, json: { type: "boolean" }, all: { type: "boolean" } },
		});
	} catch {
		throw new Failure("There is no such option; see npm run dead-messages -- --help.");
	}
}

function listOf(messages: readonly DeadMessage[]): string[] {
	if (messages.length === 0) return ["There are no dead messages."];
	return messages.flatMap(({ id, kind, body, died_at_ms, resend }) => [
		`${id}  ${kind}  died ${new Date(died_at_ms).toISOString()}${resend === 1 ? "  waits for the next sweep" : ""}`,
		`    ${body.length < SHOWN_CHARACTERS ? body : `${body}…`}`,
	]);
}

/** The database of the deployment that wrangler.toml names. */
export async function deployedDatabase(prefix: readonly string[]): Promise<Execute> {
	const { rawConfig } = experimental_readRawConfig({ config: `${PROJECT_DIRECTORY}/wrangler.toml` });
	const { databaseName, databaseId } = readProject(rawConfig);
	const call = callWrangler(prefix, false);
	const wrangler = onAccount(call, await findAccount(call, rawConfig.account_id));
	const id = databaseId ?? (await databaseNamed(wrangler, databaseName));
	if (id === undefined) throw new Failure(`This account has no database "${databaseName}"; run npm run deploy first.`);
	await writeResolvedConfig(rawConfig, id);
	const execute = ["d1", "execute", DATABASE_BINDING, "--remote", "--yes", "--json", "--config", RESOLVED_CONFIG];
	return async <Row>(statement: Statement) => {
		const command = [...execute, "--command", sqlText([statement])];
		const [answer] = parse<{ results: Row[] }[]>(command, await must(wrangler, command));
		if (answer === undefined) throw new Failure("The database gave no answer; run the same command again.");
		return answer.results;
	};
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
	try {
		await tendToDeadMessages({
			argv: process.argv.slice(2),
			execute: () => deployedDatabase([process.execPath, installedWrangler()]),
			say: (line) => console.log(line),
		});
	} catch (error) {
		console.error(error instanceof Failure ? error.message : error);
		process.exitCode = 1;
	}
}
