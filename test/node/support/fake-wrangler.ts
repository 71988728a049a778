/**
 * A fake of wrangler and of the Cloudflare account behind it, in the test's process. It records
 * every call and answers as wrangler 4.164 does. Database commands go to a real local database, so
 * that the SQL and the migrations run: through the installed wrangler, which takes three seconds
 * for each, or through a database that the test holds open.
 */
import { appendFileSync, copyFileSync, existsSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { D1Database } from "@cloudflare/workers-types";
import { unstable_splitSqlQuery } from "wrangler";
import { type Finished, installedWrangler, type Wrangler } from "../../../src/operator/wrangler";

export interface FakeAccount {
	loggedIn: boolean;
	accounts: { id: string; name: string }[];
	databases: { name: string; uuid: string }[];
	buckets: string[];
	/** False: the account has never ordered R2. */
	hasR2: boolean;
	/** False: the account has no workers.dev subdomain. */
	hasSubdomain: boolean;
	/** Objects in each bucket, if there are some. */
	objects?: number;
	queues: string[];
	/** Names of the Workers that consume queues, by queue. */
	consumers: Record<string, string>;
	/** Undefined: there is no Worker yet. */
	secrets: { name: string; type: string }[] | undefined;
	/** Bindings of the version that runs; undefined: none runs. */
	bindings?: { type: string; name: string; id?: string; bucket_name?: string }[] | undefined;
	/** Words in a command that fails. */
	broken?: string | undefined;
	/**
	 * Database commands run in the installed wrangler with a local database, or in one that the test
	 * holds. Without either, they use an empty database.
	 */
	database?: "wrangler" | D1Database | undefined;
	/** The database of reports, beside one that the test holds. */
	telemetry?: D1Database | undefined;
}

/**
 * @param directory where it writes the secrets, the configuration and the SQL that it was given
 * @param account changed by the commands
 * @param calls gets every command
 */
export function fakeWrangler(directory: string, account: FakeAccount, calls: string[][]): Wrangler {
	return async (command, { environment = {} } = {}) => {
		calls.push([...command]);
		return answer(directory, account, command, environment);
	};
}

/** The part of a configuration that the account keeps. */
interface Uploaded {
	readonly name: string;
	readonly queues: { readonly consumers: readonly { readonly queue: string }[] };
	readonly d1_databases: readonly { readonly binding: string; readonly database_id: string }[];
	readonly r2_buckets: readonly { readonly binding: string; readonly bucket_name: string }[];
}

function end(code: number, text: string): Finished {
	const [stdout, stderr] = code === 0 ? [`${text}\n`, ""] : ["", `${text}\n`];
	return { code, stdout, stderr, isShown: false };
}

async function answer(
	directory: string,
	account: FakeAccount,
	command: readonly string[],
	environment: Record<string, string>,
): Promise<Finished> {
	const [first = "", second = "", third = ""] = command;
	const optionValue = (option: string): string | undefined => {
		const index = command.indexOf(option);
		return index < 0 ? undefined : command[index + 1];
	};
	if (account.broken !== undefined && command.join(" ").includes(account.broken)) {
		return end(1, "✘ [ERROR] A request to the Cloudflare API failed.");
	}
	if (first === "whoami") {
		if (!account.loggedIn) return end(1, '{"loggedIn":false}');
		return end(0, JSON.stringify({ loggedIn: true, accounts: account.accounts }));
	}
	if (first === "d1" && second === "list") return end(0, JSON.stringify(account.databases));
	if (first === "d1" && second === "create") {
		const uuid = `0d1e2f3a-0000-4000-8000-${String(account.databases.length + 1).padStart(12, "0")}`;
		account.databases.push({ name: third, uuid });
		return end(0, `✅ Successfully created DB '${third}'`);
	}
	if (first === "r2" && !account.hasR2) {
		return end(
			1,
			"✘ [ERROR] A request to the Cloudflare API failed.\n\n  Please enable R2 through the Cloudflare Dashboard. [code: 10042]",
		);
	}
	if (first === "r2" && third === "info") {
		const found = { name: command[3], object_count: (account.objects ?? 0).toLocaleString(), bucket_size: "0 B" };
		if (account.buckets.includes(command[3] ?? "")) return end(0, JSON.stringify(found));
		return end(
			1,
			"✘ [ERROR] A request to the Cloudflare API failed.\n\n  The specified bucket does not exist. [code: 10006]",
		);
	}
	if (first === "r2" && third === "create") {
		account.buckets.push(command[3] ?? "");
		return end(0, `✅ Created bucket '${command[3]}'`);
	}
	if (first === "queues" && second === "info") {
		const consumer = account.consumers[third];
		const consumers = consumer === undefined ? "" : `\nConsumers: ${consumer}`;
		if (account.queues.includes(third))
			return end(0, `Queue Name: ${third}\nNumber of Consumers: ${consumer === undefined ? 0 : 1}${consumers}`);
		return end(1, `✘ [ERROR] Queue "${third}" does not exist. To create it, run: wrangler queues create ${third}`);
	}
	if (first === "queues" && second === "create") {
		account.queues.push(third);
		return end(0, `Created queue '${third}'`);
	}
	if (first === "deployments" && second === "status") {
		if (account.bindings === undefined) {
			return end(
				1,
				"✘ [ERROR] A request to the Cloudflare API failed.\n\n  This Worker does not exist on your account. [code: 10007]",
			);
		}
		return end(0, JSON.stringify({ id: "deployment", versions: [{ version_id: "running", percentage: 100 }] }));
	}
	if (first === "versions" && second === "view" && third === "running") {
		return end(0, JSON.stringify({ id: third, resources: { bindings: account.bindings } }));
	}
	if (first === "secret" && second === "list") {
		if (account.secrets === undefined) return end(1, '✘ [ERROR] Worker "capstan" not found.');
		return end(0, JSON.stringify(account.secrets));
	}
	if (first === "secret" && second === "bulk") {
		copyFileSync(third, join(directory, "secrets.json"));
		for (const name of Object.keys(JSON.parse(readFileSync(third, "utf8")))) {
			account.secrets = [...(account.secrets ?? []), { name, type: "secret_text" }];
		}
		return end(0, "Finished processing secrets file");
	}
	if (first === "secret" && second === "delete") {
		account.secrets = account.secrets?.filter(({ name }) => name !== third);
		return end(0, `Success! Deleted secret ${third}`);
	}
	if (first === "deploy" && !command.includes("--dry-run")) {
		if (!account.hasSubdomain) {
			return end(
				1,
				"✘ [ERROR] You can either deploy your worker to one or more routes, or register a workers.dev subdomain here:",
			);
		}
		account.secrets ??= [];
		const secretsPath = optionValue("--secrets-file");
		if (secretsPath !== undefined) {
			copyFileSync(secretsPath, join(directory, "secrets.json"));
			for (const name of Object.keys(JSON.parse(readFileSync(secretsPath, "utf8")))) {
				account.secrets.push({ name, type: "secret_text" });
			}
		}
		copyFileSync(optionValue("--config") ?? "", join(directory, "config.json"));
		const config: Uploaded = JSON.parse(readFileSync(optionValue("--config") ?? "", "utf8"));
		for (const { queue } of config.queues.consumers) account.consumers[queue] = `worker:${config.name}`;
		account.bindings = [
			...config.d1_databases.map(({ binding, database_id: id }) => ({ type: "d1", name: binding, id })),
			...config.r2_buckets.map(({ binding, bucket_name }) => ({ type: "r2_bucket", name: binding, bucket_name })),
		];
		const outputPath = environment.WRANGLER_OUTPUT_FILE_PATH;
		if (outputPath !== undefined) {
			const targets = ["https://capstan.example.workers.dev", "schedule: */15 * * * *"];
			appendFileSync(outputPath, `{"type":"wrangler-session"}\n${JSON.stringify({ type: "deploy", targets })}\n`);
		}
		return end(0, "Uploaded capstan");
	}
	const sql = optionValue("--command") ?? "";
	if (sql !== "" && !sql.startsWith("SELECT")) writeFileSync(join(directory, "rows.sql"), sql);
	if (account.database === undefined) {
		if (/d1_migrations|sqlite_master/.test(sql)) return end(0, JSON.stringify([{ results: [], success: true }]));
		const known = sql.includes("NULL") ? 0 : 1;
		return end(0, JSON.stringify([{ results: [{ organizations: 0, known }], success: true }]));
	}
	if (account.database !== "wrangler") {
		const isTelemetry = first === "d1" && second === "execute" && third.startsWith("TELEMETRY");
		return end(...(await execute((isTelemetry ? account.telemetry : undefined) ?? account.database, sql)));
	}
	if (first === "d1" && second === "export") return exportLocally(directory, command);
	const local = command.flatMap((word) =>
		word === "--remote" ? ["--local", "--persist-to", join(directory, "database")] : [word],
	);
	return installedWrangler()(local);
}

/** `wrangler d1 export` has no --persist-to: it reads the state beside its configuration. */
function exportLocally(directory: string, command: readonly string[]): Promise<Finished> {
	const config = join(directory, "wrangler.json");
	copyFileSync(command[command.indexOf("--config") + 1] ?? "", config);
	mkdirSync(join(directory, ".wrangler"), { recursive: true });
	if (!existsSync(join(directory, ".wrangler/state"))) {
		symlinkSync(join(directory, "database"), join(directory, ".wrangler/state"));
	}
	const local = command.map((word, index) =>
		word === "--remote" ? "--local" : command[index - 1] === "--config" ? config : word,
	);
	return installedWrangler()(local);
}

/**
 * As `wrangler d1 execute --json` prints it. The command that applies migrations has no SQL; they
 * are applied.
 */
async function execute(database: D1Database, sql: string): Promise<[code: number, text: string]> {
	const statements = sql === "" ? [] : unstable_splitSqlQuery(sql).map((statement) => database.prepare(statement));
	try {
		return [0, JSON.stringify(statements.length === 0 ? [] : await database.batch(statements))];
	} catch (error) {
		return [1, String(error)];
	}
}
