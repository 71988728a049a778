/**
 * The Workers of a run by name. A Worker starts with the first case that needs it and ends with the
 * last.
 */
import type { WorkerModules } from "../src/operator/build";
import { type CapstanFacts, capstan, capstanScript, rawCapstan, withoutConsumer } from "./capstan";
import { fetchHotUpdater, type HotUpdaterFacts, type HotUpdaterPackage, hotUpdater } from "./hot-updater";
import { bundle, type RunningWorker, singleModule, startWorker, type WorkerDefinition } from "./runtime";

export interface Host<Facts> {
	readonly name: string;
	/** The counting copy, until `timed`. */
	counting(): Promise<RunningWorker<Facts>>;
	/** The Worker itself. */
	timed(): Promise<RunningWorker<Facts>>;
	/** Reserves this many numbers for operations and returns the first. */
	takeNumbers(count: number): number;
	stop(): Promise<void>;
}

export interface Hosts {
	readonly capstan10: Host<CapstanFacts>;
	readonly capstan1000: Host<CapstanFacts>;
	/**
	 * Ten bundles and channels, in each of many apps. All but one are apps that no device has asked
	 * for.
	 */
	readonly capstanApps: Host<CapstanFacts>;
	/** For reports: without a consumer, whose work would count as that of the requests. */
	readonly capstanReports: Host<CapstanFacts>;
	/** Capstan, with a path that runs only the statements of GET /channel, over the same databases. */
	readonly raw: Host<CapstanFacts>;
	readonly hono: Host<null>;
	/** A bare Worker that answers as many bytes as a check. */
	readonly alike: Host<null>;
	/** Undefined if the package cannot be fetched. */
	readonly hotUpdater10: Host<HotUpdaterFacts> | undefined;
	readonly hotUpdater1000: Host<HotUpdaterFacts> | undefined;
}

export interface Sources {
	readonly hosts: Hosts;
	readonly scripts: readonly { readonly name: string; readonly script: WorkerModules }[];
	/** Why hot-updater is left out. */
	readonly missing: string | undefined;
}

const OVERRIDDEN_DEVICES = 100;
const BASELINE_ROWS = 1000;
/**
 * Counting copies send the events of devices after a second instead of 20, so that their messages
 * and rows are counted.
 */
export const LONGEST_DELAY_MS = 1_000;

/** Builds the Workers without starting them. */
export async function prepareHosts(apps: number): Promise<Sources> {
	const [product, baseline, alike, fetched] = await Promise.all([
		capstanScript(),
		bundle("worker/baseline.ts"),
		bundle("worker/alike.ts"),
		fetchHotUpdater().catch((error: Error) => error.message),
	]);
	const shipped = typeof fetched === "string" ? undefined : fetched;
	const incumbent = (bundles: number) =>
		shipped === undefined ? undefined : host(`hot-updater, ${bundles} bundles`, () => hotUpdater(shipped, bundles));
	return {
		hosts: {
			capstan10: host("Capstan, 10 bundles", () => capstan(product, { bundles: 10, overrides: OVERRIDDEN_DEVICES })),
			capstan1000: host("Capstan, 1,000 bundles", () =>
				capstan(product, { bundles: 1000, overrides: OVERRIDDEN_DEVICES }),
			),
			capstanApps: host("Capstan, many apps", () =>
				capstan(product, { bundles: 10, overrides: OVERRIDDEN_DEVICES, freshApps: apps }),
			),
			capstanReports: host("Capstan, reports", () => withoutConsumer(capstan(product, { bundles: 10 }))),
			raw: host("raw statements", () => rawCapstan(product, { bundles: 10, overrides: OVERRIDDEN_DEVICES })),
			hono: host("Hono", () => floor(baseline)),
			alike: host("bare Worker", () => floor(alike)),
			hotUpdater10: incumbent(10),
			hotUpdater1000: incumbent(1000),
		},
		scripts: [
			{ name: "Capstan", script: product },
			{ name: "bare Hono", script: singleModule(baseline) },
			...(shipped === undefined ? [] : [scriptOf(shipped)]),
		],
		missing: typeof fetched === "string" ? fetched : undefined,
	};
}

const scriptOf = ({ script }: HotUpdaterPackage) => ({ name: "hot-updater", script: singleModule(script) });

function floor(script: string): WorkerDefinition<null> {
	return {
		script: singleModule(script),
		options: {
			compatibilityDate: "2026-11-17",
			d1Databases: { DB: "DB" },
			r2Buckets: { BUCKET: "BUCKET" },
		},
		async seed(open) {
			const database = await open("DB");
			await database.prepare("CREATE TABLE items (id INTEGER PRIMARY KEY, name TEXT NOT NULL)").run();
			await database
				.prepare(
					`WITH RECURSIVE item (number) AS (SELECT 1 UNION ALL SELECT number + 1 FROM item WHERE number < ?)
					INSERT INTO items (id, name) SELECT number, 'item ' || number FROM item`,
				)
				.bind(BASELINE_ROWS)
				.run();
			return null;
		},
	};
}

function host<Facts>(
	name: string,
	define: () => WorkerDefinition<Facts> | Promise<WorkerDefinition<Facts>>,
): Host<Facts> {
	let seeded: Promise<RunningWorker<Facts>> | undefined;
	let timed: Promise<RunningWorker<Facts>> | undefined;
	let nextNumber = 1;
	const counting = () => {
		seeded ??= Promise.resolve(define()).then((definition) => startWorker(definition, LONGEST_DELAY_MS));
		return seeded;
	};
	return {
		name,
		counting,
		timed() {
			timed ??= counting().then(async (worker) => {
				await worker.beginMeasuring();
				nextNumber = 1;
				return worker;
			});
			return timed;
		},
		takeNumbers(count) {
			const first = nextNumber;
			nextNumber += count;
			return first;
		},
		async stop() {
			const ending = seeded;
			seeded = undefined;
			timed = undefined;
			await (await ending?.catch(() => undefined))?.stop();
		},
	};
}
