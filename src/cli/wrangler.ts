/**
 * wrangler as the commands here use it: called as a program of its own, for one account, with the project's settings and the ids that
 * Cloudflare gave. What it says when it fails is passed on with what to do.
 */
import { type SpawnOptions, spawn } from "node:child_process";
import { mkdir, writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { dirname, join, resolve } from "node:path";
import type { Unstable_RawConfig } from "wrangler";
import { PROJECT_DIRECTORY } from "./build";
import { Failure } from "./failure";

export const DATABASE_BINDING = "DB";
/** wrangler.toml with the ids that Cloudflare gave, a file for each process. The user's own file stays as it is. */
export const RESOLVED_CONFIG = join(PROJECT_DIRECTORY, `dist/wrangler.deploy-${process.pid}.json`);

/** What wrangler.toml says about the deployment. */
export interface Project {
	readonly databaseName: string;
	readonly databaseId: string | undefined;
	readonly queues: readonly string[];
}

export function readProject(config: Unstable_RawConfig): Project {
	const database = config.d1_databases?.find((one) => one.binding === DATABASE_BINDING);
	if (database?.database_name === undefined) {
		throw new Failure(`wrangler.toml names no database for ${DATABASE_BINDING}; give it a database_name.`);
	}
	const { producers = [], consumers = [] } = config.queues ?? {};
	return {
		databaseName: database.database_name,
		databaseId: database.database_id,
		queues: [...new Set([...producers, ...consumers].map((one) => one.queue))],
	};
}

export interface Finished {
	readonly code: number;
	readonly stdout: string;
	readonly stderr: string;
}

export type Wrangler = (
	command: readonly string[],
	options?: { readonly shown?: boolean; readonly environment?: Record<string, string> },
) => Promise<Finished>;

export function installedWrangler(): string {
	return join(dirname(createRequire(import.meta.url).resolve("wrangler/package.json")), "bin/wrangler.js");
}

export function callWrangler(prefix: readonly string[], showWrangler: boolean): Wrangler {
	const [program = "", ...before] = prefix;
	return async (command, { shown = false, environment = {} } = {}) => {
		const settings: SpawnOptions = {
			cwd: PROJECT_DIRECTORY,
			env: { ...process.env, WRANGLER_SEND_METRICS: "false", WRANGLER_HIDE_BANNER: "true", ...environment },
			// No standard input: wrangler takes its defaults instead of asking.
			stdio: shown && showWrangler ? ["ignore", "inherit", "inherit"] : ["ignore", "pipe", "pipe"],
		};
		const child = spawn(program, [...before, ...command], settings);
		const [texts, code] = await Promise.all([
			Promise.all([child.stdout, child.stderr].map((stream) => (stream === null ? "" : readAll(stream)))),
			new Promise<number>((done, fail) => child.once("error", fail).once("close", (status) => done(status ?? 1))),
		]);
		return { code, stdout: texts[0] ?? "", stderr: texts[1] ?? "" };
	};
}

async function readAll(stream: NodeJS.ReadableStream): Promise<string> {
	let text = "";
	for await (const chunk of stream) text += String(chunk);
	return text;
}

/** Runs a command that has to succeed. */
export async function must(wrangler: Wrangler, command: readonly string[], options: Parameters<Wrangler>[1] = {}) {
	const finished = await wrangler(command, options);
	if (finished.code === 0) return finished;
	throw failed(command, finished);
}

export function failed(command: readonly string[], { stdout, stderr }: Finished): Failure {
	const [first = "", second = ""] = command;
	const name = `wrangler ${first}${second.startsWith("-") || first === "deploy" ? "" : ` ${second}`}`;
	const said = `${stderr}\n${stdout}`.trim();
	const where = said === "" ? "its message is above" : `it says:\n${said}\n`;
	return new Failure(
		`\`${name}\` failed; ${where}${said === "" ? ". " : ""}Mend that and run the same command again: it goes on where this one stopped.`,
	);
}

export function parse<Shape>(command: readonly string[], finished: Finished): Shape {
	try {
		return JSON.parse(finished.stdout) as Shape;
	} catch {
		throw failed(command, finished);
	}
}

export async function findAccount(call: Wrangler, configuredId: string | undefined): Promise<string> {
	const command = ["whoami", "--json"];
	let finished = await call(command);
	if (finished.code !== 0) {
		if (!process.stdin.isTTY || process.env.CLOUDFLARE_API_TOKEN !== undefined) {
			throw new Failure(
				"You are not logged in to Cloudflare; run `npx wrangler login`, or set CLOUDFLARE_API_TOKEN to a valid token, and run the same command again.",
			);
		}
		await must(call, ["login"], { shown: true });
		finished = await must(call, command);
	}
	const chosen = process.env.CLOUDFLARE_ACCOUNT_ID ?? configuredId;
	if (chosen !== undefined && chosen !== "") return chosen;
	const { accounts = [] } = parse<{ accounts?: { id: string; name: string }[] }>(command, finished);
	const [only, ...more] = accounts;
	if (only !== undefined && more.length === 0) return only.id;
	const names = accounts.map(({ id, name }) => `${id} (${name})`).join(", ");
	throw new Failure(
		`This login has ${accounts.length === 0 ? "no account that it may list" : `several accounts: ${names}`}; set CLOUDFLARE_ACCOUNT_ID to the one to deploy to.`,
	);
}

/** Every command concerns this account, whatever others the login has. */
export function onAccount(call: Wrangler, accountId: string): Wrangler {
	return (command, more = {}) =>
		call(command, { ...more, environment: { ...more.environment, CLOUDFLARE_ACCOUNT_ID: accountId } });
}

/** The id of the account's database of that name, if there is one. */
export async function databaseNamed(wrangler: Wrangler, name: string): Promise<string | undefined> {
	const command = ["d1", "list", "--json"];
	const databases = parse<{ name: string; uuid: string }[]>(command, await must(wrangler, command));
	return databases.find((one) => one.name === name)?.uuid;
}

export async function writeResolvedConfig(config: Unstable_RawConfig, databaseId: string | undefined): Promise<void> {
	const at = (path: string | undefined) => (path === undefined ? undefined : resolve(PROJECT_DIRECTORY, path));
	// The assets are built already; the paths are absolute because the file lies elsewhere.
	const { build: _, ...rest } = config;
	const resolved = {
		...rest,
		main: at(config.main),
		assets: { ...config.assets, directory: at(config.assets?.directory) },
		alias: Object.fromEntries(Object.entries(config.alias ?? {}).map(([name, path]) => [name, at(path)])),
		d1_databases: config.d1_databases?.map((one) => ({
			...one,
			migrations_dir: at(one.migrations_dir),
			...(one.binding === DATABASE_BINDING ? { database_id: databaseId } : {}),
		})),
	};
	await mkdir(dirname(RESOLVED_CONFIG), { recursive: true });
	await writeFile(RESOLVED_CONFIG, `${JSON.stringify(resolved, null, "\t")}\n`);
}
