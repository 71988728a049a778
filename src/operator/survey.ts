/**
 * The resources of a deployment that an account already has: its Worker, databases, bucket and
 * queues. Everything is looked at before a deployment changes anything, and a resource of that name
 * that belongs to somebody else stops it.
 */
import type { Deployment } from "./deployment";
import { Failure } from "./failure";
import { isOfDevelopmentBuild } from "./migrate";
import { npmCommand } from "./options";
import {
	BUCKET_BINDING,
	DATABASE_BINDING,
	type Finished,
	failed,
	listDatabases,
	must,
	type Project,
	parse,
	sqlCommand,
	type Wrangler,
	writeResolvedConfig,
} from "./wrangler";

/** By binding; undefined for a database that does not exist. */
export type DatabaseIds = Readonly<Record<string, string | undefined>>;

interface Survey {
	readonly databaseIds: DatabaseIds;
	readonly hasBucket: boolean;
	/** Names of those that exist. */
	readonly queues: ReadonlySet<string>;
}

/**
 * Tables that every database of its kind has since the first migration, and that no other program
 * has together.
 */
const OWN_TABLES = {
	main: ["apps", "organizations", "app_reservations", "job_positions"],
	telemetry: ["apps", "devices", "counted_ids", "job_positions"],
} as const;

const statusCommand = (name: string) => ["deployments", "status", "--name", name, "--json"];
const bucketCommand = (name: string) => ["r2", "bucket", "info", name, "--json"];
const queueCommand = (name: string) => ["queues", "info", name];
const tablesCommand = (binding: string) => sqlCommand(binding, "SELECT name FROM sqlite_master WHERE type = 'table'");
/** Names in the ledger of `wrangler d1 migrations apply`. */
const ledgerCommand = (binding: string) => sqlCommand(binding, "SELECT name FROM d1_migrations");

/**
 * A row of `job_positions` with the name of the bucket that a restore has filled for the
 * database.
 */
export const RESTORED_BUCKET = "restored_bucket";
const restoredText = `SELECT position AS name FROM job_positions WHERE step = '${RESTORED_BUCKET}'`;

/** The commands of a survey that finds everything. */
export const surveyCommands = (name: string, { databases, bucketName, queues }: Project): (readonly string[])[] => [
	["d1", "list", "--json"],
	statusCommand(name),
	["versions", "view", "<its version>", "--name", name, "--json"],
	...databases.flatMap(({ binding }) => [tablesCommand(binding), ledgerCommand(binding)]),
	bucketCommand(bucketName),
	...queues.map(queueCommand),
];

/**
 * @param takesOver whether resources of others may be used and replaced; a Queue that another
 * Worker consumes never
 * @throws {Failure} that names each resource that is not this deployment's, and the remedies
 */
export async function survey(
	wrangler: Wrangler,
	{ name, rawConfig, option }: Deployment,
	project: Project,
	takesOver: boolean,
): Promise<Survey> {
	const ids = await findDatabases(wrangler, rawConfig, project);

	const strangers: string[] = [];
	let isOwn = false;
	// `npm run restore` fills the bucket before there is a Worker.
	const isRestored = async (bucket: string) =>
		isOwn && (await namesOf(wrangler, sqlCommand(DATABASE_BINDING, restoredText))).includes(bucket);
	const ofDevelopment: string[] = [];
	const worker = await bindingsOf(wrangler, name);
	if (worker !== undefined && !isBound(worker, DATABASE_BINDING, ids[DATABASE_BINDING]))
		strangers.push(`the Worker "${name}", which does not use the database "${project.databases[0].name}"`);
	for (const { binding, name: database } of project.databases) {
		if (ids[binding] === undefined) continue;
		const tables = await namesOf(wrangler, tablesCommand(binding));
		const others = tables.filter((table) => !/^(sqlite_|_cf_|d1_migrations$)/.test(table));
		const wanted = OWN_TABLES[binding === DATABASE_BINDING ? "main" : "telemetry"];
		if (others.length > 0 && !wanted.every((table) => others.includes(table)))
			strangers.push(`the database "${database}", which has other tables, such as ${others[0]}`);
		else if (tables.includes("d1_migrations") && isOfDevelopmentBuild(await namesOf(wrangler, ledgerCommand(binding))))
			ofDevelopment.push(database);
		else if (binding === DATABASE_BINDING) isOwn = others.length > 0;
	}
	const objects = await objectsIn(wrangler, project.bucketName);
	const hasObjects = objects !== undefined && objects !== "0";
	if (hasObjects && !isBound(worker, BUCKET_BINDING, project.bucketName) && !(await isRestored(project.bucketName)))
		strangers.push(`the bucket "${project.bucketName}", which has ${objects} objects`);
	const queues = new Set<string>();
	const consumed: string[] = [];
	for (const queue of project.queues) {
		const consumers = await consumersOf(wrangler, queue);
		if (consumers !== undefined) queues.add(queue);
		const other = consumers?.find((one) => one !== name);
		if (other !== undefined && project.consumedQueues.includes(queue)) consumed.push(takenText(queue, other));
	}

	if (ofDevelopment.length > 0) {
		throw new Failure(
			`Nothing was deployed, because a development build created the database ${ofDevelopment.join(" and the database ")}, which no release can read: deploy under another name with npm run deploy -- --name=NAME.`,
		);
	}
	if (strangers.length > 0 && !takesOver) {
		throw new Failure(
			[
				"Nothing was deployed, because this account has things of these names that are not this deployment's:",
				...strangers.map((one) => `  - ${one}`),
				`Deploy under another name with npm run deploy -- --name=NAME, or, to use and replace them, run ${npmCommand("deploy", option, "--take-over")}.`,
			].join("\n"),
		);
	}
	if (consumed.length > 0) throw new Failure(`Nothing was deployed: ${consumed.join(" ")}`);
	return { databaseIds: ids, hasBucket: objects !== undefined, queues };
}

/**
 * Ids by binding; those of databases that do not exist are undefined. Commands of wrangler get them
 * as `RESOLVED_CONFIG`.
 */
export async function findDatabases(
	wrangler: Wrangler,
	rawConfig: Deployment["rawConfig"],
	{ databases }: Project,
): Promise<DatabaseIds> {
	const ids: Record<string, string | undefined> = {};
	const listed = databases.some(({ id }) => id === undefined) ? await listDatabases(wrangler) : [];
	for (const { binding, name, id } of databases) ids[binding] = id ?? listed.find((one) => one.name === name)?.uuid;
	await writeResolvedConfig(rawConfig, ids);
	return ids;
}

/**
 * @returns whether a Worker of the deployment runs
 * @throws {Failure} if it uses another database or bucket, so that rows and objects of different
 * installations would be compared
 */
export async function checkWorker(
	wrangler: Wrangler,
	{ name, option, settingsFile }: Deployment,
	{ bucketName, databases }: Project,
	ids: DatabaseIds,
): Promise<boolean> {
	const worker = await bindingsOf(wrangler, name);
	if (worker === undefined) return false;
	const others = [
		...(isBound(worker, DATABASE_BINDING, ids[DATABASE_BINDING]) ? [] : [`the database "${databases[0].name}"`]),
		...(isBound(worker, BUCKET_BINDING, bucketName) ? [] : [`the bucket "${bucketName}"`]),
	];
	if (others.length === 0) return true;
	throw new Failure(
		`Nothing was done, because the Worker "${name}" does not use ${others.join(" and ")}. Correct the names in ${settingsFile}, or run ${npmCommand("deploy", option)} first.`,
	);
}

const textOf = ({ stdout, stderr }: Finished) => `${stdout}${stderr}`;

/** Fields of a D1 database and of a bucket. */
interface Binding {
	readonly name: string;
	readonly id?: string;
	readonly database_id?: string;
	readonly bucket_name?: string;
}

const isBound = (worker: readonly Binding[] | undefined, binding: string, value: string | undefined): boolean =>
	value !== undefined &&
	worker?.some((one) => one.name === binding && [one.id, one.database_id, one.bucket_name].includes(value)) === true;

/** Bindings of the version that runs; undefined if nothing runs under this name. */
async function bindingsOf(wrangler: Wrangler, name: string): Promise<readonly Binding[] | undefined> {
	const finished = await wrangler(statusCommand(name));
	if (finished.code !== 0) {
		if (/code: 10007\b|has no deployments/.test(textOf(finished))) return undefined;
		throw failed(statusCommand(name), finished);
	}
	const { versions } = parse<{ versions: { version_id: string }[] }>(statusCommand(name), finished);
	const view = ["versions", "view", versions[0]?.version_id ?? "", "--name", name, "--json"];
	return parse<{ resources: { bindings: Binding[] } }>(view, await must(wrangler, view)).resources.bindings;
}

async function namesOf(wrangler: Wrangler, command: readonly string[]): Promise<string[]> {
	const [answer] = parse<{ results: { name: string }[] }[]>(command, await must(wrangler, command));
	return (answer?.results ?? []).map(({ name }) => name);
}

/** The number of objects as wrangler writes it; undefined for a bucket that does not exist. */
export async function objectsIn(wrangler: Wrangler, bucket: string): Promise<string | undefined> {
	const finished = await wrangler(bucketCommand(bucket));
	if (finished.code === 0) return parse<{ object_count: string }>(bucketCommand(bucket), finished).object_count;
	if (/bucket does not exist|code: 10006/.test(textOf(finished))) return undefined;
	throw failed(bucketCommand(bucket), finished);
}

/** Names of the Workers that consume a Queue; undefined for one that does not exist. */
export async function consumersOf(wrangler: Wrangler, queue: string): Promise<string[] | undefined> {
	const finished = await wrangler(queueCommand(queue));
	if (finished.code !== 0) {
		if (textOf(finished).includes(`Queue "${queue}" does not exist`)) return undefined;
		throw failed(queueCommand(queue), finished);
	}
	const [, list = ""] = /^Consumers: (.*)$/m.exec(finished.stdout) ?? [];
	return [
		...[...list.matchAll(/\bworker:([^,\s]+)/g)].map(([, worker = ""]) => worker),
		...(list.includes("HTTP Pull Consumer") ? [PULL] : []),
	];
}

/** No Worker has this name. */
const PULL = "(HTTP)";

function takenText(queue: string, consumer: string): string {
	if (consumer === PULL)
		return `The Queue "${queue}" is read over HTTP, and a Queue has one consumer. End that with npx wrangler queues consumer http remove ${queue}, then run the same command again.`;
	return `The Worker "${consumer}" consumes the Queue "${queue}", and a Queue has one consumer. Remove it with npx wrangler queues consumer remove ${queue} ${consumer}, then run the same command again.`;
}
