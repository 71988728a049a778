/**
 * The run: for every operation of the document a request that succeeds, then that request spoiled
 * in many ways, each answer judged. The seed, the operation and the number of a request determine
 * its content; operations do not touch each other's organizations, so they run side by side.
 */
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { D1Database } from "@cloudflare/workers-types";
import { Response } from "miniflare";
import { mintKey } from "../../../src/authz/secrets";
import { type Product, startProduct } from "../../node/support/product";
import type { PreparedRequest } from "../../worker/support/request-parts";
import { prepareOf } from "./base-requests";
import { curlOf, needsFile } from "./curl";
import { type ApiDocument, type Operation, readDocument } from "./document";
import { type Draft, draftOf, wireOf } from "./draft";
import type { Malice } from "./mutation";
import { type Step, spoil, stepsOf } from "./mutations";
import { createOracle, type Judged, type Oracle } from "./oracle";
import { type Random, randomOf } from "./random";
import { RawClient, type RawRequest } from "./raw-http";
import type { Failure, FuzzOptions, FuzzResult, OperationCount } from "./report";
import {
	type Bystander,
	CANARY,
	createBystander,
	createTarget,
	databaseOf,
	insertOrganizations,
	isIntact,
	makeOperator,
	type Organization,
	privateTexts,
	sha256,
	type Target,
} from "./scene";

const LANES = 4;
/** An attack that succeeds may end its organization, and the next one needs another. */
const REQUESTS_PER_ORGANIZATION = 5;
const ATTACKED_AGAIN = 0.25;
const DEFAULT_MOST_FAILURES = 20;

interface Run {
	readonly options: FuzzOptions;
	readonly product: Product;
	readonly db: D1Database;
	readonly document: ApiDocument;
	readonly oracle: Oracle;
	readonly bystander: Bystander;
	readonly stranger: Organization;
	/** Organizations that nobody has attacked yet. */
	readonly targets: Organization[];
	/** Secrets with the names that a report shows for them; the oracle looks for all of them. */
	readonly secrets: string[];
	readonly shown: Map<string, string>;
	readonly failures: Failure[];
	readonly total: number;
	done: number;
}

/**
 * Starts the product, attacks it, and says what was found. Throws where an operation has no request
 * that succeeds.
 */
export async function fuzz(options: FuzzOptions): Promise<FuzzResult> {
	const startedAt = performance.now();
	const product = await startProduct({ unlimitedRequests: true, outboundService: strangeServer });
	try {
		const response = await fetch(`${product.url}/openapi.json`);
		const document = readDocument((await response.json()) as object);
		const operations = document.operations.filter(
			({ id, name, path }) =>
				!needsProvider(path) && (options.only === undefined || options.only === id || options.only === name),
		);
		if (operations.length === 0) throw new Error(`No operation is ${options.only}; openapi.json has the names.`);
		for (const operation of operations) prepareOf(operation);
		const shares = sharesOf(operations, options);
		let lastOperators: Promise<unknown> = Promise.resolve();
		const run = await prepareRun(options, product, document, sum([...shares.values()]));
		const counts = await inLanes(operations, (operation) => {
			const attacked = () => attack(run, operation, shares.get(operation) ?? 0);
			if (!OPERATORS.includes(operation.name)) return attacked();
			// A server has one first organization.
			const alone = lastOperators.then(attacked);
			lastOperators = alone.catch(() => undefined);
			return alone;
		});
		return {
			seed: options.seed,
			requests: sum(counts.map(({ requests }) => requests)),
			operations: counts,
			failures: run.failures,
			aftermath: await aftermathOf(run),
			seconds: Math.round(performance.now() - startedAt) / 1000,
		};
	} finally {
		await product.stop();
	}
}

const sum = (numbers: readonly number[]) => numbers.reduce((total, number) => total + number, 0);

/** The answer of the network to an address that a request names. */
function strangeServer(request: { readonly url: string }): Response {
	const random = randomOf(request.url);
	const status = random.pick([200, 200, 206, 302, 404, 500]) as number;
	return new Response(status === 302 ? null : "bytes", {
		status,
		headers: random.pick<Record<string, string>>([
			{ "content-type": "application/zip" },
			{ location: "https://127.0.0.1/x.zip" },
			{ "content-length": "5" },
			{ "x-odd": "1" },
		]) as Record<string, string>,
	});
}

/** Nobody here plays a provider; provider.test.ts does. */
const needsProvider = (path: string) => path.startsWith("/sign-in/provider/") || path === "/oidc/token";

/** Half of the requests evenly, half by how much an operation takes. */
function sharesOf(operations: readonly Operation[], options: FuzzOptions): Map<Operation, number> {
	const weights = sum(operations.map(({ weight }) => weight));
	return new Map(
		operations.map((operation) => {
			const share = options.requests / 2 / operations.length + ((options.requests / 2) * operation.weight) / weights;
			return [operation, Math.max(options.leastPerOperation, Math.ceil(share))];
		}),
	);
}

async function prepareRun(options: FuzzOptions, product: Product, document: ApiDocument, total: number): Promise<Run> {
	const db = await databaseOf(product);
	const operations = document.operations.length;
	const spares = Array<string>(operations + Math.ceil(total / REQUESTS_PER_ORGANIZATION)).fill("Target");
	const [watched, stranger, ...targets] = await insertOrganizations(product, db, [CANARY, "Stranger", ...spares]);
	if (watched === undefined || stranger === undefined) throw new Error("no organizations");
	const secret = (await readFile(join(product.running.stateDirectory, "secret.key"), "utf8")).trim();
	const secrets = [
		CANARY,
		secret,
		Buffer.from(secret, "hex").toString("base64"),
		product.running.stateDirectory,
		process.cwd(),
	];
	const shown = new Map<string, string>();
	const run = { secrets, shown };
	const bystander = await createBystander(db, watched);
	keepSecret(run, product.adminKey, "$FIRST_ADMIN_KEY");
	keepSecret(run, bystander.organization.adminKey, "$BYSTANDER_KEY");
	keepSecret(run, stranger.adminKey, "$STRANGER_KEY");
	return {
		options,
		product,
		db,
		document,
		oracle: createOracle(document, product.url, { never: secrets }),
		bystander,
		stranger,
		targets,
		...run,
		failures: [],
		total,
		done: 0,
	};
}

function keepSecret(run: Pick<Run, "secrets" | "shown">, key: string, name: string): void {
	run.secrets.push(key, sha256(key));
	run.shown.set(key, name);
}

async function inLanes<Item, Result>(items: readonly Item[], work: (item: Item) => Promise<Result>): Promise<Result[]> {
	const results: Result[] = [];
	let next = 0;
	const lane = async () => {
		for (let index = next++; index < items.length; index = next++) results[index] = await work(items[index] as Item);
	};
	await Promise.all(Array.from({ length: LANES }, lane));
	return results;
}

/** Everything about one operation that is under attack. */
interface Siege {
	readonly run: Run;
	readonly operation: Operation;
	readonly client: RawClient;
	target: Target;
	base: PreparedRequest;
}

async function attack(run: Run, operation: Operation, share: number): Promise<OperationCount> {
	const { options, product } = run;
	const count: OperationCount = { name: operation.name, id: operation.id, requests: 0, reached: 0, statuses: {} };
	const client = new RawClient(product.url);
	try {
		const siege = await besiege(run, operation, client);
		await mustSucceed(siege, "before it was attacked");
		let spent = operation.method !== "GET";
		for (let number = 0; number < share; number++) {
			// Now and then what an attack used up is attacked again.
			if (spent && !randomOf(`${options.seed}/${operation.id}/${number}/again`).chance(ATTACKED_AGAIN)) {
				await renew(siege);
				spent = false;
			}
			if (run.failures.length >= (options.mostFailures ?? DEFAULT_MOST_FAILURES)) break;
			const judged = await attempt(siege, number);
			count.requests += 1;
			run.done += 1;
			if (judged.operation === operation) count.reached += 1;
			const status = judged.byService ? String(judged.status) : "refused as no HTTP";
			count.statuses[status] = (count.statuses[status] ?? 0) + 1;
			if (judged.faults.length > 0) run.failures.push(await failureOf(siege, number, judged));
			if (judged.faults.length > 0 || (operation.method !== "GET" && status.startsWith("2"))) spent = true;
			options.progress?.(run.done, run.total, run.failures.length);
		}
		await renew(siege);
		await mustSucceed(siege, "after it was attacked");
		return count;
	} finally {
		client.close();
	}
}

async function besiege(run: Run, operation: Operation, client: RawClient): Promise<Siege> {
	const target = await newTarget(run, operation);
	const base = await prepareOf(operation)(target.organization, target.app);
	return { run, operation, client, target, base };
}

/** For the operator alone: the organization under attack is the first one of the server. */
const OPERATORS = ["PUT /organization/members/permissions", "GET /service/status"];

async function newTarget(run: Run, operation: Operation): Promise<Target> {
	const organization = run.targets.pop();
	if (organization === undefined) throw new Error("no organization is left; lower REQUESTS_PER_ORGANIZATION");
	const target = await createTarget(organization, run.bystander);
	if (OPERATORS.includes(operation.name)) await makeOperator(await databaseOf(run.product), organization);
	keepSecret(run, target.organization.adminKey, "$ADMIN_KEY");
	keepSecret(run, target.narrowKey, "$NARROW_KEY");
	return target;
}

/**
 * A request that succeeds, after an attack that may have used the last one up; in a new
 * organization where the old one suffered.
 */
async function renew(siege: Siege): Promise<void> {
	const { run, operation } = siege;
	if (!(await isIntact(siege.target))) siege.target = await newTarget(run, operation);
	try {
		siege.base = await prepareOf(operation)(siege.target.organization, siege.target.app);
	} catch {
		siege.target = await newTarget(run, operation);
		siege.base = await prepareOf(operation)(siege.target.organization, siege.target.app);
	}
}

/** The malice must go behind the door, so the door must be open. */
async function mustSucceed(siege: Siege, when: string): Promise<void> {
	const { run, operation, client, target } = siege;
	const draft = draftOf(operation, operation.method, siege.base);
	if (operation.takesKey) draft.headers.push(["authorization", target.organization.adminKey]);
	const request = wireOf(draft);
	const outcome = await client.send(request);
	const judged = run.oracle.judge(request, outcome);
	if (judged.operation === operation && judged.faults.length === 0 && (judged.status ?? 0) < 400) return;
	const text = typeof outcome === "string" ? outcome : outcome.body.toString("utf8").slice(0, 500);
	throw new Error(
		`The request for ${operation.name} does not succeed ${when}: ${judged.status} ${judged.faults.join("; ")} ${text}`,
	);
}

/** The caller of a request, usually one with the permission. */
function callerOf(siege: Siege, random: Random): { name: string; headers: [string, string][] } {
	const { run, operation, target } = siege;
	const header = random.pick(["authorization", "capstankey", "Bearer"]) as string;
	const with_ = (key: string): [string, string][] => [
		header === "Bearer" ? ["authorization", `Bearer ${key}`] : [header, key],
	];
	const drawn = random.number();
	// Its cookie stands in the request already; a key beside it is what is decided by, and refused.
	if (operation.ofSession && drawn < 0.9) return { name: "somebody signed in", headers: [] };
	if (drawn < 0.75) return { name: "administrator", headers: with_(target.organization.adminKey) };
	if (drawn < 0.87) return { name: "narrow key", headers: with_(target.narrowKey) };
	if (drawn < 0.94) return { name: "stranger", headers: with_(run.stranger.adminKey) };
	return { name: "nobody", headers: [] };
}

interface Planned {
	readonly draft: () => Draft;
	readonly steps: readonly Step[];
	readonly malice: (chance: string) => Malice;
	readonly as: string;
}

function plan(siege: Siege, number: number): Planned {
	const { run, operation, target } = siege;
	const name = `${run.options.seed}/${operation.id}/${number}`;
	const random = randomOf(name);
	const caller = callerOf(siege, random);
	const draft = () => {
		const fresh = draftOf(operation, operation.method, siege.base);
		fresh.headers.push(...caller.headers);
		return fresh;
	};
	const unknown = mintKey(() => Buffer.alloc(32, number % 248)).text;
	const keys = [target.organization.adminKey, target.narrowKey, run.stranger.adminKey, unknown];
	return {
		draft,
		steps: stepsOf(random, draft(), operation, name),
		malice: (chance) => ({ operation, known: target.known, keys, random: randomOf(chance) }),
		as: caller.name,
	};
}

function spoiled({ draft, malice }: Planned, steps: readonly Step[]): RawRequest {
	const fresh = draft();
	spoil(fresh, steps, malice);
	return wireOf(fresh);
}

async function attempt(siege: Siege, number: number): Promise<Judged & { readonly answer: string }> {
	const planned = plan(siege, number);
	return send(siege, spoiled(planned, planned.steps));
}

async function send(siege: Siege, request: RawRequest): Promise<Judged & { readonly answer: string }> {
	const outcome = await siege.client.send(request);
	const judged = siege.run.oracle.judge(request, outcome);
	const answer = typeof outcome === "string" ? outcome : outcome.body.toString("utf8").slice(0, 1_000);
	return { ...judged, answer };
}

/** The failure to report: the request with the fewest steps that still fails. */
async function failureOf(siege: Siege, number: number, first: Judged & { answer: string }): Promise<Failure> {
	const { run, operation } = siege;
	let steps = plan(siege, number).steps;
	// The request that failed, in this state; an attempt with fewer steps needs a fresh one.
	let request = spoiled(plan(siege, number), steps);
	let judged = first;
	for (const step of steps.length > 1 ? steps : []) {
		await renew(siege);
		const fewer = spoiled(plan(siege, number), [step]);
		const again = await send(siege, fewer);
		if (again.faults.length === 0) continue;
		[steps, request, judged] = [[step], fewer, again];
		break;
	}
	const bodyFile = join(run.options.failureDirectory, `${operation.id}-${number}.body`);
	if (needsFile(request)) {
		await mkdir(run.options.failureDirectory, { recursive: true });
		await writeFile(bodyFile, request.body ?? "");
	}
	const planned = plan(siege, number);
	return {
		operation: operation.name,
		number,
		faults: judged.faults,
		status: judged.status,
		mutations: steps.map(({ mutation }) => mutation),
		as: planned.as,
		curl: curlOf(request, { names: run.shown, bodyFile }),
		again: `npm run test:fuzz -- --seed ${run.options.seed} --only ${operation.id} --requests ${number + 1}`,
		answer: judged.answer,
	};
}

/** Invariants that are checked after all requests. */
async function aftermathOf(run: Run): Promise<string[]> {
	const { product, oracle } = run;
	const faults: string[] = (await run.bystander.changes()).map((change) => `the bystander: ${change}`);
	const secret = await privateTexts(run.db);
	for (const [digits, request] of oracle.shownDigits) {
		if (secret.has(digits)) faults.push(`a private column of the database was shown in the answer to ${request}`);
	}
	for (const path of ["/organization", "/app", "/ok"]) {
		const { status } = await product.api("GET", path);
		if (status !== 200) faults.push(`the administrator gets ${status} from GET ${path}`);
	}
	const broken = await run.db.prepare("PRAGMA foreign_key_check").all();
	if (broken.results.length > 0)
		faults.push(`rows refer to rows that are not there: ${JSON.stringify(broken.results[0])}`);
	return faults;
}
