/**
 * The whole product on this machine: the Worker with D1, R2 and the Queue embedded, its bindings read from wrangler.toml so that a
 * local run and a deployment cannot drift apart. `npm start`, the demo and the tests all start it here.
 *
 * The admin key is on the disk before the row that knows its hash exists: a crash between the two is finished by the next start.
 */
import { randomUUID } from "node:crypto";
import { rmSync } from "node:fs";
import type { Readable } from "node:stream";
import type { D1Database } from "@cloudflare/workers-types";
import { Log, LogLevel, Miniflare, type MiniflareOptions, type Request, type Response } from "miniflare";
import { unstable_getMiniflareWorkerOptions } from "wrangler";
import {
	bootstrapStatements,
	FIRST_ORGANIZATION_REPLACED,
	reclaimLinkStatements,
	replaceFirstKeyStatements,
	signInLinkStatements,
} from "../db/bootstrap";
import { adminKeyOf, makeAdminKey, makeSignInToken, noAccount, signInLink } from "./admin-key";
import { buildAssets, buildWorker, PROJECT_DIRECTORY } from "./build";
import { Failure } from "./failure";
import { migrate, UnknownMigration } from "./migrate";
import {
	EVERY_ADDRESS,
	forwardLoopback,
	isLoopback,
	LOOPBACK,
	networkAddresses,
	refuseTakenPort,
	servedAddresses,
} from "./network";
import { keepConnections } from "./queue-connections";
import { guardRuntimes } from "./runtime-guard";
import {
	damaged,
	isInitialized,
	lockState,
	prepareState,
	readAdminKey,
	readSecret,
	refuseBrokenDatabase,
	type StatePaths,
	statePaths,
	writePrivately,
} from "./state";

/** A sound database of any size opens far sooner; workerd does not answer at all for some broken ones. */
const DATABASE_TIME_LIMIT_MS = 30_000;
const STOP_TIME_LIMIT_MS = 3_000;
/** A deployment has cron; here nothing else would start the sweep. */
const SWEEP_INTERVAL_MS = 10 * 60 * 1000;

export interface ServeOptions {
	readonly stateDirectory: string;
	/** 0: any free port. */
	readonly port: number;
	/** The address to bind. Default: loopback; every other one serves the local network. */
	readonly host?: string;
	/** Called with what is done next, for people who wait. */
	readonly onProgress?: (step: string) => void;
	/** Makes the Worker check its own answers and count its round trips. */
	readonly diagnostics?: boolean;
	/** Answers the Worker's requests to the outside instead of the network; for tests. */
	readonly outboundService?: (request: Request) => Response | Promise<Response>;
	/** Lets through any number of requests; for tests that send more than any person or pipeline would. */
	readonly unlimitedRequests?: boolean;
	/** A module that stands before the Worker, which it imports as `./worker.js`; for tests that hold its clock and its Queue. */
	readonly entry?: string;
	/** Replaces the admin key by a new one. */
	readonly newAdminKey?: boolean;
	/** The address of the account that the link signs in to, instead of the operator's; the link proves the address. */
	readonly signInLinkFor?: string;
}

export interface RunningCapstan {
	readonly url: string;
	/** Address for browsers. It uses a host name, because WebAuthn does not accept IP addresses. */
	readonly pageUrl: string;
	/** Addresses for devices in the local network, likeliest first; empty on loopback. */
	readonly networkUrls: readonly string[];
	/** Undefined when the key file was removed; the key itself still works. */
	readonly adminKey: string | undefined;
	readonly adminKeyPath: string;
	/** Signs the operator in, once; undefined when no account is known to be the operator's. */
	readonly signInLink: string | undefined;
	/** Something that the operator must know; undefined: nothing. */
	readonly notice: string | undefined;
	readonly stateDirectory: string;
	/** Whether this start made the first account, organization and key. */
	readonly created: boolean;
	readonly migrationsApplied: readonly string[];
	readonly miniflare: Miniflare;
	runScheduled(): Promise<void>;
	stop(): Promise<void>;
}

/** Starts the product. Throws a Failure with the remedy for whatever the person can mend. */
export async function serveCapstan(options: ServeOptions): Promise<RunningCapstan> {
	const paths = statePaths(options.stateDirectory);
	await prepareState(paths);
	const unlock = await lockState(paths);
	// Left over from a run that was killed.
	rmSync(paths.url, { force: true });
	let miniflare: Miniflare | undefined;
	const stopKeeping = keepConnections();
	let endGuard = async (): Promise<void> => undefined;
	let stopForwarding = async (): Promise<void> => undefined;
	const phase = { started: false };
	const { port, host = LOOPBACK, onProgress = () => undefined } = options;
	try {
		await refuseTakenPort(host, port);
		const secret = await readSecret(paths);
		const keptKey = await readAdminKey(paths);
		await refuseBrokenDatabase(paths);
		onProgress("building the dashboard and the Worker");
		await buildAssets();
		const { script } = await buildWorker();
		onProgress("starting the Workers runtime");
		miniflare = new Miniflare(miniflareOptions(options, host, paths, secret, script, phase));
		await awaitRuntime(miniflare, host, port);
		endGuard = await guardRuntimes();
		const bound = await miniflare.unsafeGetDirectURL();
		const at = (name: string) => `http://${name}:${bound.port || "80"}`;
		if (host !== EVERY_ADDRESS && !isLoopback(host)) stopForwarding = await forwardLoopback(host, Number(bound.port));
		onProgress("opening the database");
		const db = (await miniflare.getD1Database("DB")) as unknown as D1Database;
		const migrationsApplied = await within(DATABASE_TIME_LIMIT_MS, openDatabase(db, paths), () =>
			damaged(paths, "the database does not answer"),
		);
		const bucket = await miniflare.getR2Bucket("BUNDLES");
		await within(DATABASE_TIME_LIMIT_MS, refuseLostBytes(db, bucket, paths), () =>
			damaged(paths, "the bundles' bytes cannot be read"),
		);
		const { created, adminKey, notice } = await bootstrap(db, paths, keptKey, options.newAdminKey === true);
		const pageUrl = at("localhost");
		const link = await makeSignInLink(db, pageUrl, options.signInLinkFor);
		if (link !== undefined) await writePrivately(paths.signInLink, `${link}\n`);
		await writePrivately(paths.url, `${pageUrl}\n`);
		const running = miniflare;
		phase.started = true;
		const runScheduled = async () => {
			const worker = await running.getWorker();
			await worker.scheduled({ cron: "*/15 * * * *" });
		};
		const timer = setInterval(() => void runScheduled().catch(() => undefined), SWEEP_INTERVAL_MS);
		timer.unref();
		return {
			url: at(LOOPBACK),
			pageUrl,
			networkUrls: servedAddresses(host).map(at),
			adminKey,
			adminKeyPath: paths.adminKey,
			signInLink: link,
			notice,
			stateDirectory: paths.directory,
			created,
			migrationsApplied,
			miniflare: running,
			runScheduled,
			async stop() {
				clearInterval(timer);
				rmSync(paths.url, { force: true });
				await stopForwarding();
				await running.dispose();
				await endGuard();
				stopKeeping();
				unlock();
			},
		};
	} catch (error) {
		// A runtime that is stuck is ended with this process.
		if (miniflare !== undefined)
			await within(STOP_TIME_LIMIT_MS, miniflare.dispose().then(endGuard), () => error).catch(() => undefined);
		await stopForwarding();
		stopKeeping();
		unlock();
		throw error;
	}
}

/** The result, or the given error when it takes too long. */
async function within<Result>(limitMs: number, work: Promise<Result>, late: () => unknown): Promise<Result> {
	let timer: NodeJS.Timeout | undefined;
	const limit = new Promise<never>((_, reject) => {
		timer = setTimeout(() => reject(late()), limitMs);
	});
	try {
		return await Promise.race([work, limit]);
	} finally {
		clearTimeout(timer);
	}
}

function miniflareOptions(
	options: ServeOptions,
	host: string,
	paths: StatePaths,
	secret: string,
	script: string,
	phase: { readonly started: boolean },
): MiniflareOptions {
	const { workerOptions } = unstable_getMiniflareWorkerOptions(`${PROJECT_DIRECTORY}/wrangler.toml`);
	const { modulesRules: _, ...bindings } = workerOptions;
	return {
		...bindings,
		bindings: {
			...bindings.bindings,
			CAPSTAN_SECRET: secret,
			// Links must use the address that was asked, not that of the deployment.
			PUBLIC_URL: "",
			// The runtime does not tell who asks. In a network that is nobody's address, so that no key's allow list matches.
			CAPSTAN_CLIENT_ADDRESS: isLoopback(host) ? LOOPBACK : EVERY_ADDRESS,
			CAPSTAN_MAIL_TO_TERMINAL: "true",
			CAPSTAN_LOCAL_RUN: isLoopback(host) ? "loopback" : "network",
			CAPSTAN_NETWORK_ADDRESSES: (isLoopback(host) ? networkAddresses() : servedAddresses(host)).join(","),
			...(options.unlimitedRequests === true ? { ADDRESS_LIMIT_SCALE: "0" } : {}),
			...(options.diagnostics === true ? { CAPSTAN_DIAGNOSTICS: "true" } : {}),
		},
		name: "capstan",
		modules: [
			...(options.entry === undefined ? [] : [{ type: "ESModule", path: "/entry.js", contents: options.entry }]),
			{ type: "ESModule", path: "/worker.js", contents: script },
		],
		modulesRoot: "/",
		// Straight to the Worker, as on Cloudflare: Miniflare's own entry adds headers, answers errors with their stack and lets
		// through 1,550 requests a second for 2,180 (GET /ok). It stays on a port of its own, for the calls from this process.
		host: LOOPBACK,
		port: 0,
		unsafeDirectSockets: [{ host, port: options.port }],
		cf: false,
		// The names of bindings, not those of a deployment's resources: giving the deployment other ones must not hide the local data.
		d1Databases: namedByBinding(bindings.d1Databases),
		r2Buckets: namedByBinding(bindings.r2Buckets),
		...(options.unlimitedRequests === true ? { ratelimits: unlimited(bindings.ratelimits) } : {}),
		d1Persist: paths.d1,
		r2Persist: paths.r2,
		log: new Log(LogLevel.ERROR),
		handleRuntimeStdio: (stdout: Readable, stderr: Readable) => {
			// What goes wrong while it starts is said in our own words; later on its lines are the Worker's log.
			for (const [from, to] of [
				[stdout, process.stdout],
				[stderr, process.stderr],
			] as const) {
				from.on("data", (chunk) => {
					if (phase.started) to.write(chunk);
				});
			}
		},
		// On Cloudflare a Worker cannot reach private networks; neither can it here.
		outboundService: options.outboundService ?? {
			network: { allow: ["public"], tlsOptions: { trustBrowserCas: true } },
		},
	} as unknown as MiniflareOptions;
}

function unlimited(limiters: object | undefined): Record<string, unknown> {
	const simple = { limit: Number.MAX_SAFE_INTEGER, period: 60 };
	return Object.fromEntries(
		Object.entries(limiters ?? {}).map(([binding, options]) => [binding, { ...options, simple }]),
	);
}

function namedByBinding(resources: object | undefined): Record<string, string> {
	return Object.fromEntries(Object.keys(resources ?? {}).map((binding) => [binding, binding]));
}

async function openDatabase(db: D1Database, paths: StatePaths): Promise<string[]> {
	try {
		const check = await db.prepare("PRAGMA quick_check").all<{ quick_check: string }>();
		const verdict = check.results[0]?.quick_check ?? "no answer";
		if (verdict !== "ok") throw damaged(paths, "the database fails its integrity check");
		return await migrate(db);
	} catch (error) {
		if (error instanceof Failure) throw error;
		if (error instanceof UnknownMigration) {
			throw new Failure(
				`The state directory ${paths.directory} was written by a newer Capstan (migration ${error.message}); start that version, or move the directory away.`,
			);
		}
		throw damaged(paths, "the database cannot be read");
	}
}

async function awaitRuntime(miniflare: Miniflare, host: string, port: number): Promise<void> {
	try {
		await miniflare.ready;
	} catch {
		// Taken since we looked?
		await refuseTakenPort(host, port);
		throw new Failure("The Workers runtime (workerd) does not start on this machine; install it again with npm ci.");
	}
}

/** A row names its bytes only once they are stored, so a row without bytes means that the bucket was lost. One of them tells. */
async function refuseLostBytes(
	db: D1Database,
	bucket: { head(key: string): Promise<unknown> },
	paths: StatePaths,
): Promise<void> {
	const newest = await db
		.prepare("SELECT object_key FROM bundles WHERE object_key IS NOT NULL ORDER BY id DESC LIMIT 1")
		.first<{ object_key: string }>();
	if (newest === null) return;
	const object = await bucket.head(newest.object_key).catch(() => null);
	if (object === null) throw damaged(paths, "the bundles' bytes are missing");
}

async function bootstrap(
	db: D1Database,
	paths: StatePaths,
	keptKey: string | undefined,
	replace: boolean,
): Promise<{ created: boolean; adminKey: string | undefined; notice?: string }> {
	const first = await db.prepare("SELECT id FROM organizations LIMIT 1").first<{ id: string }>();
	if (first === null) {
		if (await isInitialized(paths)) throw damaged(paths, "the database is empty");
		// A key file without an organization is a first run that was cut short: its key is the one that was meant.
		const key = keptKey === undefined ? makeAdminKey() : adminKeyOf(keptKey);
		await writePrivately(paths.adminKey, `${key.text}\n`);
		await run(db, bootstrapStatements(key, randomUUID, Date.now()).statements);
		await writePrivately(paths.initialized, `${new Date().toISOString()}\n`);
		return { created: true, adminKey: key.text };
	}
	// A first run that was cut short between its rows and its mark.
	if (!(await isInitialized(paths))) await writePrivately(paths.initialized, `${new Date().toISOString()}\n`);
	if (replace) {
		const key = makeAdminKey();
		await writePrivately(paths.adminKey, `${key.text}\n`);
		const { statements, organizationId } = replaceFirstKeyStatements(key, randomUUID, Date.now());
		await run(db, statements);
		const replaced = await db.prepare("SELECT 1 FROM organizations WHERE id = ?").bind(organizationId).first();
		return {
			...{ created: false, adminKey: key.text },
			...(replaced === null ? {} : { notice: FIRST_ORGANIZATION_REPLACED }),
		};
	}
	return { created: false, adminKey: keptKey };
}

/** A link for the operator, or for the account with the address. Undefined when the operator's account is not known. */
async function makeSignInLink(db: D1Database, origin: string, email: string | undefined): Promise<string | undefined> {
	const token = makeSignInToken();
	await run(
		db,
		email === undefined
			? signInLinkStatements(token, randomUUID, Date.now())
			: reclaimLinkStatements(token, email, randomUUID, Date.now()),
	);
	const made = await db.prepare("SELECT 1 FROM sign_in_links WHERE token_hash = ?").bind(token.hash).first();
	if (made === null && email !== undefined) throw new Failure(noAccount(email));
	return made === null ? undefined : signInLink(origin, token.text);
}

async function run(
	db: D1Database,
	statements: readonly { sql: string; parameters: readonly unknown[] }[],
): Promise<void> {
	await db.batch(statements.map((statement) => db.prepare(statement.sql).bind(...statement.parameters)));
}
