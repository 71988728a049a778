/**
 * `npm run test:mutation`: takes each condition that keeps tenants apart away, one at a time, and runs the tests that come by it. A
 * condition that no test misses is a survivor: a missing test, or a condition that does nothing. Those that cannot be missed are listed
 * with their reasons in equivalent.txt. Fails when a mutant survives that is not listed, and when a listed one is caught or gone.
 *
 *   npm run test:mutation -- [--list] [--only <text in "file:line [kind] text">]... [--json <file>] [--quick <number of test files>]
 */
import { type ChildProcess, fork } from "node:child_process";
import { readdirSync, writeFileSync } from "node:fs";
import { parseArgs } from "node:util";
import { readEquivalents, staleEquivalents } from "./equivalents";
import { allMutants, describeMutant, type Mutant, ROOT } from "./mutants";
import { keepReach, knownReach, type Reach } from "./reach";
import type { Order, Outcome } from "./worker";

/** Each is a vitest with a workerd of its own. */
const PROCESSES = 2;
/** A test file that takes longer hangs, which is being caught. */
const LONGEST_RUN_MS = 240_000;

const { values: options } = parseArgs({
	options: {
		list: { type: "boolean", default: false },
		only: { type: "string", multiple: true, default: [] },
		json: { type: "string" },
		quick: { type: "string" },
	},
});

const mutants = allMutants();
const wanted = mutants.filter(
	(mutant) => options.only.length === 0 || options.only.some((text) => describeMutant(mutant).includes(text)),
);
const equivalents = readEquivalents();
const stale = staleEquivalents(equivalents, mutants);
if (stale.length > 0) {
	console.error(
		`These lines of test/mutation/equivalent.txt are about nothing any more; remove them:\n${stale.join("\n")}`,
	);
	process.exit(1);
}
if (options.list) {
	for (const mutant of wanted) console.log(describeMutant(mutant));
	console.log(`${wanted.length} mutants`);
	process.exit(0);
}

/** A process that runs one order at a time. */
class Runner {
	#child: ChildProcess | undefined;

	async run(order: Order): Promise<Outcome> {
		const child = this.#child ?? (await start());
		this.#child = child;
		const outcome = await new Promise<Outcome | undefined>((resolve, reject) => {
			const timer = setTimeout(() => finish(() => resolve(undefined)), LONGEST_RUN_MS);
			const finish = (end: () => void) => {
				clearTimeout(timer);
				child.removeAllListeners();
				end();
			};
			child.once("message", (message) => finish(() => resolve(message as Outcome)));
			// A process that was ended from outside has caught nothing.
			child.once("exit", () => finish(() => reject(new Error(`the test process ended while it ran ${order.file}`))));
			child.send(order);
		});
		if (outcome !== undefined) return outcome;
		child.kill("SIGKILL");
		this.#child = undefined;
		return { ...order, passed: false, reached: [], tookMs: LONGEST_RUN_MS };
	}

	stop(): void {
		this.#child?.disconnect();
	}
}

function start(): Promise<ChildProcess> {
	const child = fork(`${ROOT}test/mutation/worker.ts`, {
		execArgv: ["--import", "tsx"],
		stdio: ["ignore", "ignore", "ignore", "ipc"],
	});
	return new Promise((resolve, reject) => {
		child.once("message", () => resolve(child));
		child.once("exit", (code) =>
			reject(new Error(`the test process did not start (exit code ${code}); try npm run vitest`)),
		);
	});
}

const runners = Array.from({ length: PROCESSES }, () => new Runner());

/** Does the work on all runners, each taking the next piece when it has done one. */
async function inParallel<Piece>(pieces: readonly Piece[], work: (runner: Runner, piece: Piece) => Promise<void>) {
	const queue = [...pieces];
	await Promise.all(
		runners.map(async (runner) => {
			for (let piece = queue.shift(); piece !== undefined; piece = queue.shift()) await work(runner, piece);
		}),
	);
}

/** They let every call fail in turn, or send what is malformed: minutes for a question that is not whose something is. */
const NOT_ABOUT_TENANTS = /^(crash-points|fault.*|malformed.*|fuzz.*|request-limits|schema)\.test\.ts$/;
const testFiles = readdirSync(`${ROOT}test/worker`)
	.filter((name) => name.endsWith(".test.ts") && !NOT_ABOUT_TENANTS.test(name))
	.map((name) => `test/worker/${name}`);
const known = knownReach();
const reach: Reach = known ?? new Map();
if (known === undefined) {
	console.log(`Running ${testFiles.length} test files on the code as it is, to see what they come by.`);
	const failing: string[] = [];
	await inParallel(testFiles, async (runner, file) => {
		const outcome = await runner.run({ mutant: 0, file });
		console.log(`${outcome.passed ? "passes" : "FAILS"} in ${outcome.tookMs} ms: ${file}`);
		if (!outcome.passed) failing.push(file);
		reach.set(file, { mutants: new Set(outcome.reached), tookMs: outcome.tookMs });
	});
	if (failing.length > 0) {
		console.error(`What fails on the code as it is cannot tell a mutant; make it pass first:\n${failing.join("\n")}`);
		process.exit(1);
	}
	keepReach(reach);
}

/** How often a test file caught a mutant of a source file: what caught one is likely to catch the next. */
const catches = new Map<string, number>();

/** The test files that come by the mutant, the likeliest to catch it first. */
function candidates(mutant: Mutant): string[] {
	const likelihood = (file: string) => (catches.get(`${file} ${mutant.file}`) ?? 0) / (reach.get(file)?.tookMs ?? 1);
	return [...reach]
		.filter(([, { mutants: reached }]) => reached.has(mutant.id))
		.sort(
			([left, { tookMs: leftMs }], [right, { tookMs: rightMs }]) =>
				likelihood(right) - likelihood(left) || leftMs - rightMs,
		)
		.map(([file]) => file)
		.slice(0, options.quick === undefined ? undefined : Number(options.quick));
}

interface Verdict {
	readonly mutant: Mutant;
	readonly caughtBy: string | undefined;
	readonly ran: number;
	readonly reason: string | undefined;
}

const verdicts: Verdict[] = [];
const startedMs = Date.now();
await inParallel(wanted, async (runner, mutant) => {
	const files = candidates(mutant);
	let caughtBy: string | undefined;
	let ran = 0;
	for (const file of files) {
		ran += 1;
		if ((await runner.run({ mutant: mutant.id, file })).passed) continue;
		caughtBy = file;
		catches.set(`${file} ${mutant.file}`, (catches.get(`${file} ${mutant.file}`) ?? 0) + 1);
		break;
	}
	const reason = equivalents.find((entry) => entry.matches(mutant))?.reason;
	verdicts.push({ mutant, caughtBy, ran, reason });
	const minutes = ((Date.now() - startedMs) / 60_000).toFixed(1);
	const verdict = caughtBy === undefined ? (reason === undefined ? "SURVIVES" : "equivalent") : `caught by ${caughtBy}`;
	console.log(`${verdicts.length}/${wanted.length} ${minutes} min  ${verdict}  ${describeMutant(mutant)}`);
	if (options.json !== undefined) {
		const lines = verdicts.map((one) => ({ ...one, mutant: describeMutant(one.mutant) }));
		writeFileSync(options.json, `${JSON.stringify(lines, null, "\t")}\n`);
	}
});
for (const runner of runners) runner.stop();

const survivors = verdicts.filter(({ caughtBy, reason }) => caughtBy === undefined && reason === undefined);
const refuted = verdicts.filter(({ caughtBy, reason }) => caughtBy !== undefined && reason !== undefined);
const caught = verdicts.filter(({ caughtBy }) => caughtBy !== undefined);
console.log(
	`\n${caught.length} of ${verdicts.length} mutants were caught, ${verdicts.length - caught.length - survivors.length} are equivalent, ${survivors.length} survive.`,
);
for (const { mutant, ran } of survivors) console.log(`survives ${ran} test files: ${describeMutant(mutant)}`);
for (const { mutant, caughtBy } of refuted) {
	console.log(`caught by ${caughtBy} though equivalent.txt says that it cannot be: ${describeMutant(mutant)}`);
}
process.exitCode = survivors.length + refuted.length > 0 ? 1 : 0;
