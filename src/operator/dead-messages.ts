/**
 * `npm run dead-messages`: lists Queue messages of a deployment that failed in every attempt, sends
 * them again, or drops them. Every command is safe to repeat, because consuming a message twice
 * counts it once.
 */
import { fileURLToPath } from "node:url";
import { type Chosen, type DeadMessage, deadMessages, dropDeadMessages, resendDeadMessages } from "../db/dead-messages";
import { CLEAN_UP_MINUTES } from "../domain/defaults";
import { type Deployment, NAME_HELP, NAME_OPTION, readDeployment } from "./deployment";
import { Failure } from "./failure";
import { npmCommand, readOptions } from "./options";
import { type Statement, sqlText } from "./sql-text";
import {
	DATABASE_BINDING,
	databaseNamed,
	findAccount,
	installedWrangler,
	must,
	onAccount,
	parse,
	readProject,
	sqlCommand,
	type Wrangler,
	writeResolvedConfig,
} from "./wrangler";

const MOST_LISTED = 100;
const MOST_WHOLE = 20;

const HELP = `Queue messages that failed in every attempt.

  npm run dead-messages                       list them, oldest first (at most ${MOST_LISTED})
  npm run dead-messages -- --json             list them in full, one JSON line each (at most ${MOST_WHOLE})
  npm run dead-messages -- resend <id> …      send them again with the next clean-up; --all for all of them
  npm run dead-messages -- drop <id> …        drop them; --all for all of them

${NAME_HELP}
  CLOUDFLARE_API_TOKEN, CLOUDFLARE_ACCOUNT_ID   as for npm run deploy
`;

const SHOWN_CHARACTERS = 160;
/** Longer than any message. */
const WHOLE_CHARACTERS = 1_000_000;

/** Runs one statement on the deployment's database. */
export type Execute = <Row>(statement: Statement) => Promise<Row[]>;

interface DeadMessageOptions {
	readonly argv: readonly string[];
	/** @param name of the deployment, if one is given */
	readonly execute: (name: string | undefined) => Promise<Execute>;
	readonly print: (line: string) => void;
}

/** @throws {Failure} with the remedy */
export async function runDeadMessages({ argv, execute, print }: DeadMessageOptions): Promise<void> {
	const { values, positionals } = optionsOf(argv);
	if (values.help === true) return print(HELP);
	const [command = "list", ...ids] = positionals;
	if (command === "list" && ids.length === 0 && values.all !== true) {
		const isWhole = values.json === true;
		const statement = isWhole
			? deadMessages(MOST_WHOLE, WHOLE_CHARACTERS)
			: deadMessages(MOST_LISTED, SHOWN_CHARACTERS);
		const messages = await (await execute(values.name))<DeadMessage>(statement);
		for (const line of isWhole ? messages.map((one) => JSON.stringify(one)) : listOf(messages)) print(line);
		return;
	}
	const statement = command === "resend" ? resendDeadMessages : command === "drop" ? dropDeadMessages : undefined;
	if (statement === undefined || ids.length > 0 === (values.all === true)) {
		throw new Failure("Use list, or resend or drop with ids or --all. See npm run dead-messages -- --help.");
	}
	const chosen: Chosen = values.all === true ? "all" : ids;
	const done = new Set((await (await execute(values.name))<{ id: string }>(statement(chosen))).map(({ id }) => id));
	for (const id of ids) if (!done.has(id)) print(`${id}: no dead message has this id. It was sent again or dropped.`);
	const what = `${done.size} dead message${done.size === 1 ? "" : "s"}`;
	print(
		command === "drop"
			? `Dropped ${what}.`
			: `The next clean-up, within ${CLEAN_UP_MINUTES} minutes, sends ${what} again.`,
	);
}

function optionsOf(argv: readonly string[]) {
	return readOptions("npm run dead-messages", {
		args: [...argv],
		allowPositionals: true,
		options: { ...NAME_OPTION, help: { type: "boolean" }, json: { type: "boolean" }, all: { type: "boolean" } },
	});
}

function listOf(messages: readonly DeadMessage[]): string[] {
	if (messages.length === 0) return ["No dead messages."];
	return messages.flatMap(({ id, kind, body, died_at_ms, resend }) => [
		`${id}  ${kind}  failed ${new Date(died_at_ms).toISOString()}${resend === 1 ? "  waits for the next clean-up" : ""}`,
		`    ${body.length < SHOWN_CHARACTERS ? body : `${body}…`}`,
	]);
}

/** The main database of a deployment. */
export async function deployedDatabase(call: Wrangler, { rawConfig, option }: Deployment): Promise<Execute> {
	const [database] = readProject(rawConfig).databases;
	const wrangler = onAccount(call, await findAccount(call, rawConfig.account_id));
	const id = database.id ?? (await databaseNamed(wrangler, database.name));
	if (id === undefined) {
		throw new Failure(`This account has no database "${database.name}"; run ${npmCommand("deploy", option)} first.`);
	}
	await writeResolvedConfig(rawConfig, { [DATABASE_BINDING]: id });
	return async <Row>(statement: Statement) => {
		const command = sqlCommand(DATABASE_BINDING, sqlText([statement]));
		const [answer] = parse<{ results: Row[] }[]>(command, await must(wrangler, command));
		if (answer === undefined) throw new Failure("The database did not answer. Run the same command again.");
		return answer.results;
	};
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
	try {
		await runDeadMessages({
			argv: process.argv.slice(2),
			execute: (name) => deployedDatabase(installedWrangler(), readDeployment(name)),
			print: (line) => console.log(line),
		});
	} catch (error) {
		console.error(error instanceof Failure ? error.message : error);
		process.exitCode = 1;
	}
}
