/**
 * `npm run test:mutation`: removes each condition that separates tenants, one at a time, and runs
 * the test files that reach it until one fails. A condition that no test misses is a survivor: a
 * missing test, or a condition without effect. equivalent.txt lists the mutants that no test can
 * catch, with reasons. The run fails when an unlisted mutant survives, when a listed one is caught
 * or no longer exists, and when tests did not end.
 *
 *   npm run test:mutation -- [--since <commit> [--minutes 20]] [--list] [--only <text in "file:line [kind] text">]...
 *     [--quick <number of test files>] [--processes 2]
 *
 * With `--since` it judges the conditions on lines that changed after the commit, and ends in time:
 * those that it did not judge are listed, and fail the run. Half of the time is for finding which
 * tests reach them, the likely files first; a condition that these do not miss is not judged.
 */
import { readdirSync } from "node:fs";
import { parseArgs } from "node:util";
import { changedLines } from "./changed-lines";
import { readEquivalents, staleEquivalents } from "./equivalents";
import { allMutants, describeMutant, type Mutant, ROOT } from "./mutants";
import { Runner } from "./runner";

/**
 * Test files for each mutant in equivalent.txt: the written reason explains them, and these files
 * only double-check it.
 */
const DOUBLE_CHECKS = 3;
/**
 * These let every call fail in turn or send malformed requests, which takes minutes and does not
 * depend on the tenant. `prepared` counts how often statements are built, which is each time here
 * (vitest.config.ts).
 */
const NOT_ABOUT_TENANTS =
	/(^|\/)(crash-points|fault.*|malformed.*|prepared|request-limits|schema|mutation|architecture)\.test\.ts$/;
/** These hold statements to exact rows, so they catch most mutants of `src/db`. */
const HOLDS_STATEMENTS = /^test\/worker\/tenancy\/tenant-/;

const { values: options } = parseArgs({
	options: {
		list: { type: "boolean", default: false },
		only: { type: "string", multiple: true, default: [] },
		since: { type: "string" },
		/** With `since`, no test file is begun after this time. */
		minutes: { type: "string", default: "20" },
		quick: { type: "string" },
		/** Each is a vitest with its own workerd. */
		processes: { type: "string", default: "2" },
	},
});

const mutants = allMutants();
const changed = options.since === undefined ? undefined : changedLines(options.since);
const wanted = mutants.filter(
	(mutant) =>
		(options.only.length === 0 || options.only.some((text) => describeMutant(mutant).includes(text))) &&
		(changed === undefined || changed.get(mutant.file)?.has(mutant.line) === true),
);
if (wanted.length === 0) {
	console.log("0 mutants");
	process.exit(0);
}
const equivalents = readEquivalents();
const isListed = (mutant: Mutant) => equivalents.some((entry) => entry.matches(mutant));
const stale = staleEquivalents(equivalents, mutants);
if (stale.length > 0) {
	console.error(
		`Remove these lines of test/proof/mutation/equivalent.txt, which match no mutant:\n${stale.join("\n")}`,
	);
	process.exit(1);
}
if (options.list) {
	for (const mutant of wanted) console.log(describeMutant(mutant));
	console.log(`${wanted.length} mutants`);
	process.exit(0);
}

const startedMs = Date.now();
const report = (text: string) => console.log(`${((Date.now() - startedMs) / 60_000).toFixed(1)} min  ${text}`);
const runners = Array.from({ length: Number(options.processes) }, () => new Runner());

/** Each runner takes the next piece when it has finished one. */
async function inParallel<Piece>(pieces: readonly Piece[], work: (runner: Runner, piece: Piece) => Promise<void>) {
	const queue = [...pieces];
	await Promise.all(
		runners.map(async (runner) => {
			for (let piece = queue.shift(); piece !== undefined; piece = queue.shift()) await work(runner, piece);
		}),
	);
}

/** The words of a file's name and folder without the endings of plurals. */
const words = (path: string) =>
	path
		.split("/")
		.slice(-2)
		.flatMap((part) => part.split(/\W/))
		.map((word) => word.replace(/s$/, ""))
		.filter((word) => word.length > 2 && word !== "test");

/** How likely the file tests the source, by their names. */
function kinship(testFile: string, sourceFile: string): number {
	const named = words(sourceFile);
	const shared = words(testFile).filter((word) => named.includes(word)).length;
	return shared + Number(sourceFile.startsWith("src/db/") && HOLDS_STATEMENTS.test(testFile));
}

const minutes = changed === undefined ? Number.POSITIVE_INFINITY : Number(options.minutes);
const until = (share: number) => startedMs + minutes * share * 60_000;
const sources = [...new Set(wanted.map(({ file }) => file))];
const likely = (testFile: string) => Math.max(...sources.map((source) => kinship(testFile, source)));

const testFiles = ["test/unit", "test/worker"]
	.flatMap((folder) =>
		readdirSync(`${ROOT}${folder}`, { recursive: true, encoding: "utf8" })
			.filter((name) => name.endsWith(".test.ts") && !NOT_ABOUT_TENANTS.test(name))
			.map((name) => `${folder}/${name}`),
	)
	.sort((one, other) => likely(other) - likely(one));

/** The mutants that each test file reaches on the code as it is, and how long the file takes. */
const reach = new Map<string, { readonly mutants: ReadonlySet<number>; readonly tookMs: number }>();
const failing: string[] = [];
let untried = 0;
await inParallel(testFiles, async (runner, file) => {
	if (Date.now() > until(1 / 2)) {
		untried += 1;
		return;
	}
	const { result, because, reached, tookMs } = await runner.run({ mutant: 0, file });
	if (result === "passed") reach.set(file, { mutants: new Set(reached), tookMs });
	else failing.push(`${file}: ${because}`);
	report(`${reach.size}/${testFiles.length}  ${file} reaches ${reached.length} mutants in ${tookMs} ms`);
});
if (failing.length > 0) {
	for (const runner of runners) runner.stop();
	console.error(`These test files fail without a mutant; fix them first:\n${failing.join("\n")}`);
	process.exit(1);
}

/**
 * How often a test file caught a mutant of a source file, which makes it likely to catch the next.
 */
const catches = new Map<string, number>();
/** The test files that reach the mutant, those first that are likely to catch it in little time. */
function candidates(mutant: Mutant): string[] {
	const likelihood = (file: string, tookMs: number) =>
		(0.2 + (catches.get(`${file} ${mutant.file}`) ?? 0) + 2 * kinship(file, mutant.file)) / tookMs;
	return [...reach]
		.filter(([, { mutants: reached }]) => reached.has(mutant.id))
		.sort(([left, one], [right, other]) => likelihood(right, other.tookMs) - likelihood(left, one.tookMs))
		.map(([file]) => file)
		.slice(0, options.quick === undefined ? undefined : Number(options.quick));
}

const lines: Record<"caught" | "equivalent" | "survives" | "unclear" | "unjudged", string[]> = {
	caught: [],
	equivalent: [],
	survives: [],
	unclear: [],
	unjudged: [],
};
const refuted: string[] = [];

await inParallel(wanted, async (runner, mutant) => {
	const description = describeMutant(mutant);
	const files = candidates(mutant).slice(0, isListed(mutant) ? DOUBLE_CHECKS : undefined);
	let verdict: keyof typeof lines = isListed(mutant) ? "equivalent" : untried > 0 ? "unjudged" : "survives";
	let line = `${description} (${files.length} test files)`;
	for (const file of files) {
		if (Date.now() > until(1)) {
			verdict = "unjudged";
			break;
		}
		const { result, because } = await runner.run({ mutant: mutant.id, file });
		if (result === "passed") continue;
		verdict = result === "failed" ? "caught" : "unclear";
		line = `${description} (${file}: ${because})`;
		if (result === "unclear") continue;
		catches.set(`${file} ${mutant.file}`, (catches.get(`${file} ${mutant.file}`) ?? 0) + 1);
		if (isListed(mutant)) refuted.push(line);
		break;
	}
	lines[verdict].push(line);
	report(`${Object.values(lines).flat().length}/${wanted.length}  ${verdict}  ${line}`);
});
for (const runner of runners) runner.stop();

const counts = Object.entries(lines).map(([verdict, of]) => `${of.length} ${verdict}`);
report(`${wanted.length} mutants: ${counts.join(", ")}`);
for (const line of lines.survives) console.log(`survives: ${line}`);
for (const line of lines.unclear) console.log(`unclear: ${line}`);
for (const line of lines.unjudged) console.log(`not judged: ${line}`);
for (const line of refuted) console.log(`caught, though equivalent.txt lists it: ${line}`);
process.exitCode = lines.survives.length + lines.unclear.length + lines.unjudged.length + refuted.length > 0 ? 1 : 0;
