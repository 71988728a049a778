/**
 * Stands in for wrangler and the Cloudflare account behind it. It records every call, answers as wrangler 4.86 does, and hands the
 * database commands to the real wrangler with a local database, so that the SQL and the migrations really run.
 */
import { spawnSync } from "node:child_process";
import { appendFileSync, copyFileSync, existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

export interface FakeAccount {
	loggedIn: boolean;
	accounts: { id: string; name: string }[];
	databases: { name: string; uuid: string }[];
	queues: string[];
	/** Undefined: there is no Worker yet. */
	secrets: { name: string; type: string }[] | undefined;
	/** Words in a command that fails. */
	broken?: string | undefined;
	/** Whether the database commands really run; otherwise they find an empty database. */
	realDatabase: boolean;
}

const directory = process.env.FAKE_WRANGLER_DIRECTORY ?? "";
const command = process.argv.slice(2);
const accountPath = join(directory, "account.json");
const account = JSON.parse(readFileSync(accountPath, "utf8")) as FakeAccount;
const [first = "", second = "", third = ""] = command;
appendFileSync(join(directory, "calls.ndjson"), `${JSON.stringify(command)}\n`);

function end(code: number, text: string): never {
	writeFileSync(accountPath, JSON.stringify(account));
	(code === 0 ? process.stdout : process.stderr).write(`${text}\n`);
	process.exit(code);
}

function optionValue(option: string): string | undefined {
	const index = command.indexOf(option);
	return index < 0 ? undefined : command[index + 1];
}

if (account.broken !== undefined && command.join(" ").includes(account.broken)) {
	end(1, "✘ [ERROR] A request to the Cloudflare API failed.");
}
if (first === "whoami") {
	if (!account.loggedIn) end(1, '{"loggedIn":false}');
	end(0, JSON.stringify({ loggedIn: true, accounts: account.accounts }));
}
if (first === "d1" && second === "list") end(0, JSON.stringify(account.databases));
if (first === "d1" && second === "create") {
	account.databases.push({ name: third, uuid: "0d1e2f3a-0000-4000-8000-000000000001" });
	end(0, `✅ Successfully created DB '${third}'`);
}
if (first === "queues" && second === "info") {
	if (account.queues.includes(third)) end(0, `Queue Name: ${third}`);
	end(1, `✘ [ERROR] Queue "${third}" does not exist. To create it, run: wrangler queues create ${third}`);
}
if (first === "queues" && second === "create") {
	account.queues.push(third);
	end(0, `Created queue '${third}'`);
}
if (first === "secret" && second === "list") {
	if (account.secrets === undefined) end(1, '✘ [ERROR] Worker "capstan" not found.');
	end(0, JSON.stringify(account.secrets));
}
if (first === "secret" && second === "bulk") {
	copyFileSync(third, join(directory, "secrets.json"));
	for (const name of Object.keys(JSON.parse(readFileSync(third, "utf8")))) {
		account.secrets = [...(account.secrets ?? []), { name, type: "secret_text" }];
	}
	end(0, "Finished processing secrets file");
}
if (first === "secret" && second === "delete") {
	account.secrets = account.secrets?.filter(({ name }) => name !== third);
	end(0, `Success! Deleted secret ${third}`);
}
if (first === "deploy" && !command.includes("--dry-run")) {
	account.secrets ??= [];
	const secretsPath = optionValue("--secrets-file");
	if (secretsPath !== undefined) {
		copyFileSync(secretsPath, join(directory, "secrets.json"));
		for (const name of Object.keys(JSON.parse(readFileSync(secretsPath, "utf8")))) {
			account.secrets.push({ name, type: "secret_text" });
		}
	}
	copyFileSync(optionValue("--config") ?? "", join(directory, "config.json"));
	const outputPath = process.env.WRANGLER_OUTPUT_FILE_PATH;
	if (outputPath !== undefined) {
		const targets = ["https://capstan.example.workers.dev", "schedule: */15 * * * *"];
		appendFileSync(outputPath, `{"type":"wrangler-session"}\n${JSON.stringify({ type: "deploy", targets })}\n`);
	}
	end(0, "Uploaded capstan");
}
const sqlPath = optionValue("--file");
if (sqlPath !== undefined && existsSync(sqlPath)) copyFileSync(sqlPath, join(directory, "rows.sql"));
if (!account.realDatabase) {
	const known = optionValue("--command")?.includes("NULL") === true ? 0 : 1;
	end(0, JSON.stringify([{ results: [{ organizations: 0, known }], success: true }]));
}
const real = command.flatMap((word) =>
	word === "--remote" ? ["--local", "--persist-to", join(directory, "database")] : [word],
);
const { status } = spawnSync(process.execPath, ["node_modules/wrangler/bin/wrangler.js", ...real], {
	stdio: "inherit",
});
process.exit(status ?? 1);
