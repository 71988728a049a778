/**
 * `npm run test:mutation`: takes each condition that keeps tenants apart away, one at a time, and runs the tests that come by it: first
 * all in one sweep through every test file (sweep.ts), then those that no test of the sweep missed, with each test file anew. A condition
 * that no test misses is a survivor: a missing test, or a condition that does nothing. Those that cannot be missed are listed with their
 * reasons in equivalent.txt. Fails when a mutant survives that is not listed, when a listed one is caught or gone, and when the tests did
 * not come to an end about one.
 *
 *   npm run test:mutation -- [--list] [--only <text in "file:line [kind] text">]... [--quick <number of test files>]
 *                            [--json <file to write the verdicts to> [--resume]] [--processes 2]
 *
 * With --resume, what the file says of a mutant and a test file is believed as long as neither the code nor that test file changed.
 */
import { existsSync, readdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { parseArgs } from "node:util";
import { readEquivalents, staleEquivalents } from "./equivalents";
import { allMutants, describeMutant, type Mutant, ROOT } from "./mutants";
import { type FileReach, keepReach, knownReach, stateOf } from "./reach";
import { Runner } from "./runner";

/** Where the conditions of statements are missed first. */
const LIKELY: readonly (readonly [RegExp, string])[] = ["statements", "reads", "guards", "writes"].map((name) => [
	/^src\/db\//,
	`test/worker/tenant-${name}.test.ts`,
]);
/** So many test files are asked about a mutant that is listed as equivalent: its reason is what is believed, and this only doubts it. */
const DOUBTING_FILES = 3;
/** For so long each test is asked about what it comes by, in one sweep and the next: what is caught in no time is out of the way then. */
const SWEEPS_MS = [1_000, 20_000];
/** The files that decide and that ask the database come first. */
const FIRST = [/^src\/authz\//, /^src\/api\/(scope|key-rules|member-rules|pipeline)\.ts$/, /^src\/db\//];

const { values: options } = parseArgs({
	options: {
		list: { type: "boolean", default: false },
		only: { type: "string", multiple: true, default: [] },
		json: { type: "string" },
		resume: { type: "boolean", default: false },
		quick: { type: "string" },
		/** Each is a vitest with a workerd of its own. */
		processes: { type: "string", default: "2" },
	},
});

const mutants = allMutants();
const rank = ({ file }: Mutant) => [...FIRST, /^/].findIndex((pattern) => pattern.test(file));
const wanted = mutants
	.filter((mutant) => options.only.length === 0 || options.only.some((text) => describeMutant(mutant).includes(text)))
	.sort((left, right) => rank(left) - rank(right));
const equivalents = readEquivalents();
const isListed = (mutant: Mutant) => equivalents.some((entry) => entry.matches(mutant));
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

const runners = Array.from({ length: Number(options.processes) }, () => new Runner());

/** Does the work on all runners, each taking the next piece when it has done one. */
async function inParallel<Piece>(pieces: readonly Piece[], work: (runner: Runner, piece: Piece) => Promise<void>) {
	const queue = [...pieces];
	await Promise.all(
		runners.map(async (runner) => {
			for (let piece = queue.shift(); piece !== undefined; piece = queue.shift()) await work(runner, piece);
		}),
	);
}

/**
 * They let every call fail in turn, or send what is malformed: minutes for a question that is not whose something is. And one counts how
 * often statements are built, which is each time here (vitest.config.ts).
 */
const NOT_ABOUT_TENANTS = /^(crash-points.*|fault.*|malformed.*|fuzz.*|prepared|request-limits|schema)\.test\.ts$/;
const reach = knownReach();
const testFiles = readdirSync(`${ROOT}test/worker`)
	.filter((name) => name.endsWith(".test.ts") && !NOT_ABOUT_TENANTS.test(name))
	.map((name) => `test/worker/${name}`);
/** How often a test file caught a mutant of a source file: what caught one is likely to catch the next. */
const catches = new Map<string, number>();
/** The test file that caught a mutant in a state of the sources that is gone. */
const hints = new Map<number, string>();

/** The test files that come by the mutant, the likeliest to catch it in the least time first: those named after its file, to begin with. */
function candidates(mutant: Mutant): string[] {
	const words = wordsOf(mutant.file);
	const likelihood = ([file, { tookMs }]: [string, FileReach]) => {
		if (hints.get(mutant.id) === file) return Number.POSITIVE_INFINITY;
		const isLikely = LIKELY.some(([source, likely]) => likely === file && source.test(mutant.file));
		const named = wordsOf(file).filter((word) => words.includes(word)).length + Number(isLikely);
		return ((catches.get(`${file} ${mutant.file}`) ?? 0) + 0.1 * (catches.get(file) ?? 0) + 2 * named + 0.2) / tookMs;
	};
	return [...reach]
		.filter(([, { mutants: reached }]) => reached.has(mutant.id))
		.sort((left, right) => likelihood(right) - likelihood(left))
		.map(([file]) => file)
		.slice(0, options.quick === undefined ? undefined : Number(options.quick));
}

/** Those that hold statements to their rows catch the most in the least time; the quick ones come before the slow. */
function inOrderOfSweep(left: string, right: string): number {
	const likely = (file: string) => Number(LIKELY.some(([, name]) => name === file));
	return likely(right) - likely(left) || (reach.get(left)?.tookMs ?? 0) - (reach.get(right)?.tookMs ?? 0);
}

/** The words of a file's name, without the endings of plurals. */
function wordsOf(path: string): string[] {
	return (path.split("/").at(-1) ?? "")
		.split(/\W/)
		.map((word) => word.replace(/s$/, ""))
		.filter((word) => word.length > 2 && word !== "test");
}

type Verdict = "caught" | "survives" | "equivalent" | "unclear";

/** What the file of --json has a line of for each mutant. */
interface Line {
	readonly mutant: string;
	readonly verdict: Verdict;
	/** The test file that caught it, what failed there, and the state of the sources in which it did. */
	readonly caughtBy?: string;
	readonly because?: string;
	readonly state?: string;
	/** The test files that missed it, each with its state. */
	readonly missedBy?: Readonly<Record<string, string>>;
	readonly ran: number;
}

const lines: Line[] = [];
const refuted: Line[] = [];
const startedMs = Date.now();

function note(mutant: Mutant, line: Line): void {
	lines.push(line);
	if (line.verdict === "caught") {
		for (const source of [`${line.caughtBy}`, `${line.caughtBy} ${mutant.file}`]) {
			catches.set(source, (catches.get(source) ?? 0) + 1);
		}
		if (isListed(mutant)) refuted.push(line);
	}
	if (options.json === undefined) return;
	writeFileSync(`${options.json}.new`, `${JSON.stringify(lines, null, "\t")}\n`);
	renameSync(`${options.json}.new`, options.json);
}

const before = new Map(
	(options.resume && options.json !== undefined && existsSync(options.json)
		? (JSON.parse(readFileSync(options.json, "utf8")) as Line[])
		: []
	).map((line) => [withoutLine(line.mutant), line]),
);

/** What is written of a mutant, wherever in its file it stands now. */
function withoutLine(description: string): string {
	return description.replace(/:\d+ /, " ");
}

let left: Mutant[] = [];
for (const mutant of wanted) {
	const line = before.get(withoutLine(describeMutant(mutant)));
	const { caughtBy } = line ?? {};
	if (caughtBy !== undefined) hints.set(mutant.id, caughtBy);
	if (line === undefined || caughtBy === undefined || !testFiles.includes(caughtBy) || stateOf(caughtBy) !== line.state)
		left.push(mutant);
	else note(mutant, { ...line, mutant: describeMutant(mutant) });
}
if (options.resume) console.log(`${lines.length} mutants were caught before, ${left.length} are left.`);

const tell = (text: string) => console.log(`${((Date.now() - startedMs) / 60_000).toFixed(1)} min  ${text}`);

/** What the sweeps ask about, without what they caught. */
const uncaught = new Map(left.filter((mutant) => !isListed(mutant)).map((mutant) => [mutant.id, mutant]));
const failing: string[] = [];
// A run that is resumed has swept what it knows the reach of.
let unswept = uncaught.size > 0 && !options.resume ? testFiles : testFiles.filter((file) => !reach.has(file));
// Asks every test file about all mutants that nothing caught yet, and learns which ones each comes by.
for (const longestMsOfTest of SWEEPS_MS) {
	const cutShort: string[] = [];
	await inParallel(unswept.toSorted(inOrderOfSweep), async (runner, file) => {
		const uncaughtBefore = uncaught.size;
		const order = { mutant: 0, file, sweep: { mutants: [...uncaught.keys()], longestMsOfTest } };
		const sweep = await runner.run(order, (caught) => {
			const mutant = uncaught.get(caught.mutant);
			// The other runner may have caught it meanwhile.
			if (mutant === undefined) return;
			uncaught.delete(mutant.id);
			const told = { mutant: describeMutant(mutant), because: `${file}: ${caught.because}`, ran: 1 };
			note(mutant, { ...told, verdict: "caught", caughtBy: file, state: stateOf(file) });
		});
		const caughtMeanwhile = uncaughtBefore - uncaught.size;
		tell(`${caughtMeanwhile} caught, ${uncaught.size} left, in ${sweep.tookMs} ms: ${file} ${sweep.because}`);
		if (sweep.cutShort) cutShort.push(file);
		if (reach.has(file)) return;
		const isWhole = sweep.result === "passed" && !sweep.leftOut;
		const { result, because, reached, tookMs } = isWhole ? sweep : await runner.run({ mutant: 0, file });
		if (result === "passed") reach.set(file, { mutants: new Set(reached), tookMs });
		else failing.push(`${file}: ${because}`);
		keepReach(reach);
	});
	unswept = cutShort;
}
if (failing.length > 0) {
	console.error(`What fails on the code as it is cannot tell a mutant; make it pass first:\n${failing.join("\n")}`);
	process.exit(1);
}
left = left.filter((mutant) => isListed(mutant) || uncaught.has(mutant.id));

await inParallel(left, async (runner, mutant) => {
	const ran = candidates(mutant).slice(0, isListed(mutant) ? DOUBTING_FILES : undefined);
	const verdict = isListed(mutant) ? "equivalent" : "survives";
	let line: Line = { mutant: describeMutant(mutant), verdict, ran: ran.length };
	const missedBefore = before.get(withoutLine(line.mutant))?.missedBy ?? {};
	const missedBy: Record<string, string> = {};
	for (const [index, file] of ran.entries()) {
		const state = stateOf(file);
		if (missedBefore[file] === state) {
			missedBy[file] = state;
			continue;
		}
		const { result, because } = await runner.run({ mutant: mutant.id, file });
		if (result === "passed") {
			missedBy[file] = state;
			continue;
		}
		const told = { ...line, because: `${file}: ${because}`, ran: index + 1 };
		if (result === "failed") {
			line = { ...told, verdict: "caught", caughtBy: file, state };
			break;
		}
		line = { ...told, verdict: "unclear" };
	}
	note(mutant, line.verdict === "caught" ? line : { ...line, missedBy });
	const ending = line.verdict === "caught" ? `caught by ${line.caughtBy}` : line.verdict.toUpperCase();
	tell(`${lines.length}/${wanted.length}  ${ending}  ${line.mutant}`);
});
for (const runner of runners) runner.stop();

const count = (verdict: Verdict) => lines.filter((line) => line.verdict === verdict).length;
const seconds = Math.round((Date.now() - startedMs) / 1000);
console.log(
	`\nOf ${lines.length} mutants ${count("caught")} were caught, ${count("equivalent")} are equivalent, ` +
		`${count("survives")} survive, ${count("unclear")} are unclear; in ${seconds} seconds.`,
);
for (const { verdict, mutant, ran, because } of lines) {
	if (verdict === "survives") console.log(`survives ${ran} test files: ${mutant}`);
	if (verdict === "unclear") console.log(`unclear (${because}): ${mutant}`);
}
for (const { mutant, because } of refuted) {
	console.log(`caught though equivalent.txt says that it cannot be (${because}): ${mutant}`);
}
process.exitCode = count("survives") + count("unclear") + refuted.length > 0 ? 1 : 0;
