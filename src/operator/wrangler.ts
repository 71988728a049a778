/**
 * Runs wrangler as a child process, for one account, with the project's configuration and the ids
 * of its resources. Errors of wrangler are passed on with a remedy.
 */
import { type SpawnOptions, spawn } from "node:child_process";
import { mkdir, writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { dirname, join, resolve } from "node:path";
import type { Unstable_RawConfig } from "wrangler";
import { isTelemetryBinding } from "../deps";
import { WORKER_DIRECTORY, WORKER_ENTRY } from "./build";
import { Failure } from "./failure";
import { PROJECT_DIRECTORY } from "./project";

export const DATABASE_BINDING = "DB";
export const BUCKET_BINDING = "BUNDLES";
/** The configuration of a deployment with resource ids, one file per process. */
export const RESOLVED_CONFIG = join(PROJECT_DIRECTORY, `dist/wrangler.deploy-${process.pid}.json`);

interface ProjectDatabase {
	readonly binding: string;
	readonly name: string;
	/** Undefined: found by its name. */
	readonly id: string | undefined;
}

/** Resources of a deployment. */
export interface Project {
	/** The main database first. */
	readonly databases: readonly [ProjectDatabase, ...ProjectDatabase[]];
	readonly bucketName: string;
	readonly queues: readonly string[];
	readonly consumedQueues: readonly string[];
}

export function readProject(config: Unstable_RawConfig): Project {
	const databaseOf = (binding: string): ProjectDatabase => {
		const found = config.d1_databases?.find((one) => one.binding === binding);
		if (found?.database_name === undefined) {
			throw new Failure(`The configuration has no database_name for ${binding}. Add one.`);
		}
		return { binding, name: found.database_name, id: found.database_id };
	};
	const telemetry = (config.d1_databases ?? []).map(({ binding }) => binding).filter(isTelemetryBinding);
	const bucketName = config.r2_buckets?.find((one) => one.binding === BUCKET_BINDING)?.bucket_name;
	if (bucketName === undefined)
		throw new Failure(`The configuration has no bucket_name for ${BUCKET_BINDING}. Add one.`);
	const { producers = [], consumers = [] } = config.queues ?? {};
	return {
		databases: [databaseOf(DATABASE_BINDING), ...telemetry.map(databaseOf)],
		bucketName,
		queues: [...new Set([...producers, ...consumers].flatMap(({ queue }) => queue ?? []))],
		consumedQueues: consumers.map(({ queue }) => queue),
	};
}

export interface Finished {
	readonly code: number;
	readonly stdout: string;
	readonly stderr: string;
	/** The operator has seen the output. */
	readonly isShown: boolean;
}

export type Wrangler = (
	command: readonly string[],
	options?: { readonly shown?: boolean; readonly environment?: Record<string, string> },
) => Promise<Finished>;

/** The wrangler of this project. Without `isShown`, its output is read only. */
export function installedWrangler({ isShown: showWrangler = false } = {}): Wrangler {
	const program = join(dirname(createRequire(import.meta.url).resolve("wrangler/package.json")), "bin/wrangler.js");
	return async (command, { shown = false, environment = {} } = {}) => {
		const isShown = shown && showWrangler;
		const settings: SpawnOptions = {
			cwd: PROJECT_DIRECTORY,
			env: {
				...process.env,
				WRANGLER_SEND_METRICS: "false",
				WRANGLER_HIDE_BANNER: "true",
				...environment,
				...(isShown && process.stdout.isTTY ? { FORCE_COLOR: "1" } : {}),
			},
			// Without stdin, wrangler uses defaults instead of asking. Output that is shown is read as well,
			// because errors need remedies.
			stdio: ["ignore", "pipe", "pipe"],
		};
		const child = spawn(process.execPath, [program, ...command], settings);
		if (isShown) {
			child.stdout?.pipe(process.stdout, { end: false });
			child.stderr?.pipe(process.stderr, { end: false });
		}
		const [texts, code] = await Promise.all([
			Promise.all([child.stdout, child.stderr].map((stream) => (stream === null ? "" : readAll(stream)))),
			new Promise<number>((done, fail) => child.once("error", fail).once("close", (status) => done(status ?? 1))),
		]);
		return { code, stdout: texts[0] ?? "", stderr: texts[1] ?? "", isShown };
	};
}

async function readAll(stream: NodeJS.ReadableStream): Promise<string> {
	let text = "";
	for await (const chunk of stream) text += String(chunk);
	return text;
}

/** Runs a command that must succeed. */
export async function must(wrangler: Wrangler, command: readonly string[], options: Parameters<Wrangler>[1] = {}) {
	const finished = await wrangler(command, options);
	if (finished.code === 0) return finished;
	throw failed(command, finished);
}

/** Set-up steps of a new account, by the output of wrangler that demands them. */
const REMEDIES: readonly (readonly [RegExp, string])[] = [
	[
		/code: 10042|enable R2/i,
		"This account has no R2 yet. Open https://dash.cloudflare.com/?to=/:account/r2/overview and add the R2 subscription; it has a free allowance and asks for a means of payment.",
	],
	[
		/workers\.dev subdomain/i,
		"This account has no workers.dev subdomain yet. Open https://dash.cloudflare.com/?to=/:account/workers/onboarding and choose one, or add a domain of yours to the settings of the deployment (routes).",
	],
	[
		/verify your (account's )?e-?mail/i,
		"Cloudflare has not verified your e-mail address. Open https://dash.cloudflare.com/profile and verify it.",
	],
	[
		/code: (10000|9109)\b/,
		"The login may not do this. Create an API token with the permissions Workers Scripts, D1, R2 Storage and Queues (Edit), and Account Settings (Read), or run `npx wrangler login` again.",
	],
];

export function failed(command: readonly string[], { stdout, stderr, isShown }: Finished): Failure {
	const [first = "", second = ""] = command;
	const name = `wrangler ${first}${second.startsWith("-") || first === "deploy" ? "" : ` ${second}`}`;
	const output = `${stderr}\n${stdout}`.trim();
	const where = isShown || output === "" ? "see its message above. " : `it printed:\n${output}\n`;
	const remedy = REMEDIES.find(([text]) => text.test(output))?.[1] ?? "Fix this.";
	return new Failure(
		`\`${name}\` failed; ${where}${remedy} Then run the same command again: it continues where this run stopped.`,
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
				"You are not logged in to Cloudflare. Run `npx wrangler login`, or set CLOUDFLARE_API_TOKEN to a valid token. Then run the same command again.",
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
		`This login has ${accounts.length === 0 ? "no accounts" : `several accounts: ${names}`}; set CLOUDFLARE_ACCOUNT_ID to the one to deploy to.`,
	);
}

/** Runs every command for this account, even if the login has several. */
export function onAccount(call: Wrangler, accountId: string): Wrangler {
	return (command, more = {}) =>
		call(command, { ...more, environment: { ...more.environment, CLOUDFLARE_ACCOUNT_ID: accountId } });
}

export async function listDatabases(wrangler: Wrangler): Promise<{ name: string; uuid: string }[]> {
	const command = ["d1", "list", "--json"];
	return parse(command, await must(wrangler, command));
}

/** The id of the account's database with this name, if it exists. */
export async function databaseNamed(wrangler: Wrangler, name: string): Promise<string | undefined> {
	return (await listDatabases(wrangler)).find((one) => one.name === name)?.uuid;
}

/** SQL for a database of the account, whose configuration `writeResolvedConfig` wrote. */
export const sqlCommand = (binding: string, sql: string): readonly string[] => [
	"d1",
	"execute",
	binding,
	"--remote",
	"--yes",
	"--json",
	"--config",
	RESOLVED_CONFIG,
	"--command",
	sql,
];

/** @param databaseIds by binding */
export async function writeResolvedConfig(
	config: Unstable_RawConfig,
	databaseIds: Readonly<Record<string, string | undefined>>,
): Promise<void> {
	const at = (path: string | undefined) => (path === undefined ? undefined : resolve(PROJECT_DIRECTORY, path));
	// Without the build command, because assets and Worker are already built, and wrangler would
	// bundle the Worker into one module, so that every isolate loads all of it. Absolute paths,
	// because the file is in another folder.
	const { build: _build, alias: _alias, minify: _minify, keep_names: _keepNames, ...rest } = config;
	const resolved = {
		...rest,
		main: WORKER_ENTRY,
		no_bundle: true,
		base_dir: WORKER_DIRECTORY,
		find_additional_modules: true,
		rules: [{ type: "ESModule", globs: ["**/*.js"] }],
		assets: { ...config.assets, directory: at(config.assets?.directory) },
		d1_databases: config.d1_databases?.map((one) => ({
			...one,
			migrations_dir: at(one.migrations_dir),
			...(databaseIds[one.binding] === undefined ? {} : { database_id: databaseIds[one.binding] }),
		})),
	};
	await mkdir(dirname(RESOLVED_CONFIG), { recursive: true });
	await writeFile(RESOLVED_CONFIG, `${JSON.stringify(resolved, null, "\t")}\n`);
}
