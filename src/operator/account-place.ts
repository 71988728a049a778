/**
 * A deployment as a place for backups: wrangler for the databases, and Cloudflare's API for the
 * bucket, because wrangler lists no objects and starts a process for each. A database answers no
 * other query while Cloudflare exports it.
 *
 * What `wrangler d1 export` gets wrong is put right here: the order of tables, and texts with line
 * breaks (src/operator/backup-sql.ts). It cannot carry NULs in texts and integers beyond 2^53,
 * which the product does not store.
 */
import { createReadStream } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { ambiguousTexts, insertedRow, statementsOf } from "./backup-sql";
import type { Deployment } from "./deployment";
import { Failure } from "./failure";
import type { DumpedRow, Place, StoredObject, Table } from "./place";
import { checkWorker, type DatabaseIds, findDatabases } from "./survey";
import {
	DATABASE_BINDING,
	findAccount,
	must,
	onAccount,
	type Project,
	parse,
	RESOLVED_CONFIG,
	readProject,
	sqlCommand,
	type Wrangler,
} from "./wrangler";

/** Cloudflare's API accepts 1,200 requests in five minutes. */
const CONCURRENCY = 4;
const ATTEMPTS = 6;
/** The API takes no larger objects. */
export const MOST_OBJECT_BYTES = 300 * 1024 * 1024;

export interface AccountPlace extends Place {
	readonly project: Project;
	readonly wrangler: Wrangler;
	readonly deployment: Deployment;
	readonly databaseIds: DatabaseIds;
	/** Whether its Worker runs. One that runs uses these databases and this bucket. */
	readonly isRunning: boolean;
	putObject(key: string, body: () => BodyInit, contentType: string | undefined): Promise<void>;
}

interface AccountOptions {
	readonly deployment: Deployment;
	readonly wrangler: Wrangler;
	/** For a restore into new databases: what a Worker of this name uses does not matter yet. */
	readonly isNew?: boolean;
	readonly fetch?: typeof fetch | undefined;
}

/** @throws {Failure} if the Worker that runs uses other resources */
export async function openAccountPlace({
	deployment,
	wrangler: call,
	isNew = false,
	fetch: send = fetch,
}: AccountOptions): Promise<AccountPlace> {
	const { rawConfig, name, option } = deployment;
	const project = readProject(rawConfig);
	const accountId = await findAccount(call, rawConfig.account_id);
	const wrangler = onAccount(call, accountId);
	const databaseIds = await findDatabases(wrangler, rawConfig, project);
	const isRunning = !isNew && (await checkWorker(wrangler, deployment, project, databaseIds));
	const scratch = await mkdtemp(join(tmpdir(), "capstan-export-"));
	const bucketUrl = `${apiUrl()}/accounts/${accountId}/r2/buckets/${project.bucketName}/objects`;
	const api = apiOf(send, await tokenOf(wrangler));
	const query = async <Row>(binding: string, sql: string): Promise<Row[]> => {
		const command = sqlCommand(binding, sql);
		const [answer] = parse<{ results: Row[] }[]>(command, await must(wrangler, command));
		if (answer === undefined) throw new Failure("The database did not answer. Run the same command again.");
		return answer.results;
	};
	return {
		name: `the deployment ${name} on the account ${accountId}`,
		option,
		databases: project.databases.map(({ binding }) => ({
			binding,
			kind: binding === DATABASE_BINDING ? "main" : "telemetry",
		})),
		secretIds: [],
		concurrency: CONCURRENCY,
		project,
		wrangler,
		deployment,
		databaseIds,
		isRunning,
		query,
		async execute(binding, sql) {
			await query(binding, sql);
		},
		async *dump(binding, tables) {
			const path = join(scratch, `${binding}.sql`);
			const target = ["--remote", "--skip-confirmation", "--config", RESOLVED_CONFIG];
			await must(wrangler, ["d1", "export", binding, "--no-schema", "--output", path, ...target]);
			const exact = await ambiguousRows(path, tables, (sql) => query(binding, sql));
			yield* rowsOf(path, tables, exact);
			await rm(path, { force: true });
		},
		objects: () => listed(api, bucketUrl),
		async object(key) {
			const response = await api(`${bucketUrl}/${key}`, () => ({}));
			if (response.status === 404) return undefined;
			await refuse(response, `read ${key}`);
			return {
				body: response.body as unknown as AsyncIterable<Uint8Array>,
				contentType: response.headers.get("content-type") ?? undefined,
				metadata: undefined,
				cancel: async () => response.body?.cancel(),
			};
		},
		async removeObject(key) {
			const response = await api(`${bucketUrl}/${key}`, () => ({ method: "DELETE" }));
			if (response.status !== 404) await refuse(response, `delete ${key}`);
		},
		async putObject(key, body, contentType) {
			const headers = contentType === undefined ? {} : { "content-type": contentType };
			const init = () => ({ method: "PUT", body: body(), headers, duplex: "half" }) as RequestInit;
			await refuse(await api(`${bucketUrl}/${key}`, init), `store ${key}`);
		},
		async close() {
			await rm(scratch, { recursive: true, force: true });
			await rm(RESOLVED_CONFIG, { force: true });
		},
	};
}

/** As wrangler reads it. */
const apiUrl = () => process.env.CLOUDFLARE_API_BASE_URL || "https://api.cloudflare.com/client/v4";

async function tokenOf(wrangler: Wrangler): Promise<string> {
	const { CLOUDFLARE_API_TOKEN: given } = process.env;
	if (given !== undefined && given !== "") return given;
	const command = ["auth", "token", "--json"];
	const { token } = parse<{ token?: string }>(command, await must(wrangler, command));
	if (token === undefined) throw new Failure("Set CLOUDFLARE_API_TOKEN: this login has no token for the bucket.");
	return token;
}

type Api = (url: string, init: () => RequestInit) => Promise<Response>;

/**
 * Repeats requests that are too many, and those that fail in the network or in Cloudflare. Every
 * request is safe to repeat.
 */
function apiOf(send: typeof fetch, token: string): Api {
	return async (url, init) => {
		for (let attempt = 1; ; attempt++) {
			const { headers, ...rest } = init();
			const response = await send(url, { ...rest, headers: { ...headers, authorization: `Bearer ${token}` } }).catch(
				(error: unknown) => {
					if (attempt === ATTEMPTS)
						throw new Failure(`Cloudflare's API does not answer (${causeOf(error)}). Try again.`);
					return undefined;
				},
			);
			if (response !== undefined && response.status !== 429 && response.status < 500) return response;
			if (response !== undefined && attempt === ATTEMPTS) return response;
			const afterSeconds = Number(response?.headers.get("retry-after") ?? 2 ** attempt);
			await response?.body?.cancel();
			await sleep(Math.min(Number.isFinite(afterSeconds) ? afterSeconds : 60, 300) * 1000);
		}
	};
}

function causeOf(error: unknown): string {
	const { cause, message } = error as Error;
	return cause instanceof Error && cause.message !== "" ? cause.message : message;
}

async function refuse(response: Response, what: string): Promise<void> {
	if (response.ok) return;
	const text = (await response.text()).slice(0, 300);
	const remedy = [401, 403].includes(response.status)
		? " The token needs the permission Workers R2 Storage (Edit)."
		: "";
	throw new Failure(
		`Cloudflare's API did not ${what}: ${response.status} ${text}.${remedy} Run the same command again.`,
	);
}

interface Listing {
	readonly result: readonly { readonly key: string; readonly size: number; readonly last_modified: string }[];
	readonly result_info?: { readonly cursor?: string; readonly is_truncated?: boolean };
}

async function* listed(api: Api, bucketUrl: string): AsyncGenerator<StoredObject> {
	let cursor = "";
	do {
		const response = await api(`${bucketUrl}?per_page=1000&cursor=${encodeURIComponent(cursor)}`, () => ({}));
		await refuse(response, "list the objects of the bucket");
		const page = (await response.json()) as Listing;
		for (const { key, size, last_modified } of page.result) {
			yield { key, sizeBytes: size, storedAtMs: Date.parse(last_modified) };
		}
		cursor = page.result_info?.is_truncated === false ? "" : (page.result_info?.cursor ?? "");
	} while (cursor !== "");
}

async function* rowsOf(path: string, tables: readonly Table[], exact: ReadonlyMap<string, string>) {
	for await (const statement of statementsOf(createReadStream(path, "utf8"))) {
		const row = insertedRow(statement);
		const table = tables.find(({ name }) => name === row?.table);
		if (row === undefined || table === undefined) continue;
		const names = row.columns ?? table.columns;
		const keyText = keyOf(table, (column) => row.values[names.indexOf(column)] ?? "NULL");
		yield {
			table: table.name,
			values: table.columns.map(
				(column) => exact.get(`${table.name} ${column} ${keyText}`) ?? row.values[names.indexOf(column)] ?? "NULL",
			),
		} satisfies DumpedRow;
	}
}

const keyOf = (table: Table, value: (column: string) => string) => table.key.map(value).join(", ");

/**
 * Texts that the export confuses, by table, column and key. Only columns that have a line break are
 * read again.
 */
async function ambiguousRows(
	path: string,
	tables: readonly Table[],
	query: (sql: string) => Promise<Record<string, string>[]>,
): Promise<ReadonlyMap<string, string>> {
	const found = new Map<string, readonly [Table, string]>();
	for await (const { table: name, values } of rowsOf(path, tables, new Map())) {
		const table = tables.find((one) => one.name === name);
		for (const [index, column] of (table?.columns ?? []).entries()) {
			if (table !== undefined && /[\n\r]/.test(values[index] ?? "")) found.set(`${name} ${column}`, [table, column]);
		}
	}
	const exact = new Map<string, string>();
	for (const [table, column] of found.values()) {
		for (const row of await query(ambiguousTexts(table, column))) {
			const keyText = keyOf(table, (one) => row[one] ?? "NULL");
			exact.set(`${table.name} ${column} ${keyText}`, row.literal ?? "NULL");
		}
	}
	return exact;
}
