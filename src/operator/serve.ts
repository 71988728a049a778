/**
 * Runs the product on this machine: the Worker with embedded D1, R2 and Queue. Bindings come from
 * wrangler.toml, so that local runs and deployments stay alike. `npm start`, the demo and the tests
 * use it.
 */

import { rmSync } from "node:fs";
import { join } from "node:path";
import type { D1Database } from "@cloudflare/workers-types";
import {
	convertV4MiniflareOptions,
	Log,
	LogLevel,
	Miniflare,
	type MiniflareOptions,
	type Request,
	type Response,
	type V4WorkerOptions,
} from "miniflare";
import { DRAIN, isTelemetryBinding } from "../deps";
import { MINUTE_MS } from "../domain/time";
import { Failure } from "./failure";
import { type Bindings, type LocalBuild, localBuild, miniflareModules } from "./local-build";
import { bootstrap, createSignInLink, openDatabase, refuseLostBytes } from "./local-database";
import type { DatabaseKind } from "./migrate";
import {
	EVERY_ADDRESS,
	forwardLoopback,
	isLoopback,
	LOOPBACK,
	type LoopbackForwarder,
	networkAddresses,
	refuseTakenPort,
	servedAddresses,
} from "./network";
import { guardRuntimes } from "./runtime-guard";
import {
	damaged,
	lockState,
	prepareState,
	readAdminKey,
	readSecret,
	refuseBrokenDatabase,
	type StatePaths,
	statePaths,
	writePrivately,
} from "./state";

/** A sound database of any size opens much faster. With some broken ones, workerd never answers. */
const DATABASE_TIME_LIMIT_MS = 30_000;
const STOP_TIME_LIMIT_MS = 3_000;
const DRAIN_TIME_LIMIT_MS = 8_000;
const OUTBOUND = "outbound";
const PASSING = ["cache", "ratelimit"];
/** Deployments have cron triggers; local runs start the scheduled jobs themselves. */
const SCHEDULE_INTERVAL_MS = 10 * MINUTE_MS;

export interface ServeOptions {
	readonly stateDirectory: string;
	/** 0: any free port. */
	readonly port: number;
	/** The address to bind. Default: loopback. Other addresses serve the local network. */
	readonly host?: string;
	/** Called with the name of each step. */
	readonly onProgress?: (step: string) => void;
	/** Makes the Worker check its own answers and count its round trips. */
	readonly diagnostics?: boolean;
	/** Answers the Worker's outbound requests instead of the network, for tests. */
	readonly outboundService?: (request: Request) => Response | Promise<Response>;
	/** Disables request limits, for tests. */
	readonly unlimitedRequests?: boolean;
	/**
	 * Module that wraps the Worker, which it imports as `./worker.js`. For tests that control clock
	 * and Queue.
	 */
	readonly entry?: string;
	/** Replaces the admin key. */
	readonly newAdminKey?: boolean;
	/**
	 * E-mail address of the account to sign in, instead of the operator's. Using the link verifies the
	 * address.
	 */
	readonly signInLinkFor?: string;
}

export interface RunningCapstan {
	readonly url: string;
	/** Address for browsers. It uses a host name, because WebAuthn does not accept IP addresses. */
	readonly pageUrl: string;
	/** Addresses for devices in the local network, likeliest first; empty on loopback. */
	readonly networkUrls: readonly string[];
	/** Undefined if the key file was removed. The key itself stays valid. */
	readonly adminKey: string | undefined;
	readonly adminKeyPath: string;
	/** One-time link that signs the operator in; undefined if the operator's account is not known. */
	readonly signInLink: string | undefined;
	/** Message for the operator. */
	readonly notice: string | undefined;
	readonly stateDirectory: string;
	/** Whether this start created the first account, organization and key. */
	readonly created: boolean;
	readonly migrationsApplied: readonly string[];
	readonly miniflare: Miniflare;
	runScheduled(): Promise<void>;
	stop(): Promise<void>;
}

/** @throws {Failure} with the remedy, for problems that the operator can fix */
export async function serveCapstan(options: ServeOptions): Promise<RunningCapstan> {
	const paths = statePaths(options.stateDirectory);
	await prepareState(paths);
	const unlock = await lockState(paths);
	// Left by a killed run.
	rmSync(paths.url, { force: true });
	// Miniflare keeps all of a state in one directory; only databases and bundles outlive a run.
	for (const name of PASSING) rmSync(join(paths.directory, name), { recursive: true, force: true });
	let miniflare: Miniflare | undefined;
	let endGuard = async (): Promise<void> => undefined;
	let forwarder: LoopbackForwarder | undefined;
	const phase = { started: false };
	const { host = LOOPBACK, onProgress = () => undefined } = options;
	try {
		await refuseTakenPort(host, options.port);
		// Bound before the runtime, which then takes the same port: one that is free there need not be
		// free on loopback.
		if (host !== EVERY_ADDRESS && !isLoopback(host)) forwarder = await forwardLoopback(host, options.port);
		const port = forwarder?.port ?? options.port;
		const secret = await readSecret(paths);
		const keptKey = await readAdminKey(paths);
		await refuseBrokenDatabase(paths);
		const build = await builtOnce(() => onProgress("building the dashboard and the Worker"));
		onProgress("starting the Workers runtime");
		miniflare = new Miniflare(miniflareOptions({ ...options, port }, host, paths, secret, build, phase));
		await awaitRuntime(miniflare, host, port);
		endGuard = await guardRuntimes();
		const bound = await miniflare.unsafeGetDirectURL();
		const at = (name: string) => `http://${name}:${bound.port || "80"}`;
		onProgress("opening the database");
		const db = (await miniflare.getD1Database("DB")) as unknown as D1Database;
		const opened = (database: D1Database, kind?: DatabaseKind) =>
			within(DATABASE_TIME_LIMIT_MS, openDatabase(database, paths, kind), () =>
				damaged(paths, "the database does not answer"),
			);
		const migrationsApplied = await opened(db);
		for (const binding of Object.keys(build.bindings.d1Databases ?? {}).filter(isTelemetryBinding)) {
			await opened((await miniflare.getD1Database(binding)) as unknown as D1Database, "telemetry");
		}
		const bucket = await miniflare.getR2Bucket("BUNDLES");
		await within(DATABASE_TIME_LIMIT_MS, refuseLostBytes(db, bucket, paths), () =>
			damaged(paths, "the bundles' bytes cannot be read"),
		);
		const { created, adminKey, notice } = await bootstrap(db, paths, keptKey, options.newAdminKey === true);
		const pageUrl = at("localhost");
		const link = await createSignInLink(db, pageUrl, options.signInLinkFor);
		if (link !== undefined) await writePrivately(paths.signInLink, `${link}\n`);
		await writePrivately(paths.url, `${pageUrl}\n`);
		const running = miniflare;
		phase.started = true;
		const runScheduled = async () => {
			const worker = await running.getWorker();
			await worker.scheduled({ cron: "*/15 * * * *" });
		};
		const timer = setInterval(() => void runScheduled().catch(() => undefined), SCHEDULE_INTERVAL_MS);
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
				// The Queue is in the runtime's memory. One that hangs ends all the same.
				const drain = async () => (await running.getWorker()).scheduled({ cron: DRAIN });
				await within(DRAIN_TIME_LIMIT_MS, drain(), () => undefined).catch(() => undefined);
				await forwarder?.stop();
				await running.dispose();
				await endGuard();
				unlock();
			},
		};
	} catch (error) {
		// A runtime that hangs ends with this process.
		if (miniflare !== undefined)
			await within(STOP_TIME_LIMIT_MS, miniflare.dispose().then(endGuard), () => error).catch(() => undefined);
		await forwarder?.stop();
		unlock();
		throw error;
	}
}

let built: Promise<LocalBuild> | undefined;

/** Read once for each process. */
function builtOnce(onBuild: () => void): Promise<LocalBuild> {
	built ??= localBuild(onBuild);
	return built;
}

/** The result of the work; throws the given error if it takes too long. */
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
	{ modules, bindings }: LocalBuild,
	phase: { readonly started: boolean },
): MiniflareOptions {
	const worker: V4WorkerOptions = {
		...bindings,
		bindings: {
			...bindings.bindings,
			CAPSTAN_SECRET: secret,
			// Links use the host of the request, not the URL of a deployment.
			PUBLIC_URL: "",
			BUNDLES_URL: "",
			// The runtime does not report the client's address. In a network, this placeholder matches no
			// key's allow list.
			CAPSTAN_CLIENT_ADDRESS: isLoopback(host) ? LOOPBACK : EVERY_ADDRESS,
			CAPSTAN_MAIL_TO_TERMINAL: "true",
			CAPSTAN_LOCAL_RUN: isLoopback(host) ? "loopback" : "network",
			CAPSTAN_NETWORK_ADDRESSES: (isLoopback(host) ? networkAddresses() : servedAddresses(host)).join(","),
			...(options.unlimitedRequests === true ? { ADDRESS_LIMIT_SCALE: "0" } : {}),
			...(options.diagnostics === true ? { CAPSTAN_DIAGNOSTICS: "true" } : {}),
		},
		queueConsumers: soon(bindings.queueConsumers),
		name: "capstan",
		modules: [
			...(options.entry === undefined
				? []
				: [{ type: "ESModule" as const, path: "/entry.js", contents: options.entry }]),
			...miniflareModules(modules),
		],
		modulesRoot: "/",
		serviceBindings: {
			// Only where nobody else can name an address of this machine.
			...(isLoopback(host)
				? {
						// Issuers of CI tokens, for trying trusted publishing out and for tests
						// (src/domain/ci/issuer-url.ts).
						LOCAL_ISSUERS: { network: { allow: ["local"], tlsOptions: { trustBrowserCas: true } } },
						// Receivers of webhooks (src/domain/webhooks/delivery.ts).
						LOCAL_NETWORK: {
							network: { allow: ["public", "private", "local"], tlsOptions: { trustBrowserCas: true } },
						},
					}
				: {}),
		},
		// Requests go straight to the Worker, as on Cloudflare. Miniflare's own entry adds headers,
		// answers errors with a stack and is slower (GET /ok: 1,550 instead of 2,180 requests a second).
		unsafeDirectSockets: [{ host, port: options.port }],
		// Named after bindings, so that renaming resources of a deployment does not hide local data.
		d1Databases: namedByBinding(bindings.d1Databases),
		r2Buckets: namedByBinding(bindings.r2Buckets),
		...(options.unlimitedRequests === true ? { ratelimits: unlimited(bindings.ratelimits) } : {}),
		outboundService: options.outboundService ?? OUTBOUND,
	};
	// Wrangler reads wrangler.toml into options of Miniflare 4, and Miniflare converts those.
	return convertV4MiniflareOptions({
		// Miniflare's own entry has another port, for calls from this process.
		host: LOOPBACK,
		port: 0,
		cf: false,
		resourcePersistencePath: paths.directory,
		log: new Log(LogLevel.ERROR),
		handleStructuredLogs: ({ level, message }) => {
			// Output during the start is replaced by our own errors. Afterwards it is the Worker's log.
			if (!phase.started) return;
			const isProblem = level === "error" || level === "warn";
			(isProblem ? process.stderr : process.stdout).write(`${message}\n`);
		},
		workers: [worker, outboundWorker(bindings.compatibilityDate)],
	});
}

/**
 * The Worker's way to the network. As on Cloudflare, it cannot reach private networks: workerd
 * checks the address of every connection, and Miniflare takes such a network only as a binding.
 */
function outboundWorker(compatibilityDate: string | undefined): V4WorkerOptions {
	return {
		name: OUTBOUND,
		...(compatibilityDate === undefined ? {} : { compatibilityDate }),
		modules: true,
		script: "export default { fetch: (request, env) => env.PUBLIC.fetch(request) };",
		serviceBindings: { PUBLIC: { network: { allow: ["public"], tlsOptions: { trustBrowserCas: true } } } },
	};
}

function unlimited(limiters: Bindings["ratelimits"] = {}): NonNullable<Bindings["ratelimits"]> {
	const simple = { limit: Number.MAX_SAFE_INTEGER, period: 60 } as const;
	return Object.fromEntries(Object.entries(limiters).map(([binding, options]) => [binding, { ...options, simple }]));
}

/** A person who tries the service waits for the first device. */
function soon(consumers: Bindings["queueConsumers"] = {}) {
	return Object.fromEntries(
		Object.entries(consumers).map(([queue, options]) => [queue, { ...options, maxBatchTimeout: 1 }]),
	);
}

function namedByBinding(resources: object | undefined): Record<string, string> {
	return Object.fromEntries(Object.keys(resources ?? {}).map((binding) => [binding, binding]));
}

async function awaitRuntime(miniflare: Miniflare, host: string, port: number): Promise<void> {
	try {
		await miniflare.ready;
	} catch {
		// The port may have been taken meanwhile.
		await refuseTakenPort(host, port);
		throw new Failure("The Workers runtime (workerd) does not start on this machine. Install it again with npm ci.");
	}
}
