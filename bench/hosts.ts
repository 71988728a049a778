/** The Workers of a run by name: started when a case first needs one, shared by the cases that do, ended with the last of them. */
import { type CapstanFacts, capstan, capstanScript } from "./capstan";
import { fetchHotUpdater, type HotUpdaterFacts, type HotUpdaterPackage, hotUpdater } from "./hot-updater";
import { bundle, type RunningWorker, startWorker, type WorkerDefinition } from "./runtime";

export interface Host<Facts> {
	readonly name: string;
	/** The copy that counts; until `timed`. */
	counting(): Promise<RunningWorker<Facts>>;
	/** The Worker itself. */
	timed(): Promise<RunningWorker<Facts>>;
	/** The first of this many numbers that no operation since the start has had. */
	takeNumbers(count: number): number;
	stop(): Promise<void>;
}

export interface Hosts {
	readonly capstan10: Host<CapstanFacts>;
	readonly capstan1000: Host<CapstanFacts>;
	/** Ten bundles and channels, like many other apps of the same server that no device has asked about. */
	readonly capstanFresh: Host<CapstanFacts>;
	readonly hono: Host<null>;
	/** Undefined where the package cannot be had. */
	readonly hotUpdater10: Host<HotUpdaterFacts> | undefined;
	readonly hotUpdater1000: Host<HotUpdaterFacts> | undefined;
}

export interface Sources {
	readonly hosts: Hosts;
	readonly scripts: readonly { readonly name: string; readonly script: string }[];
	/** Why hot-updater is left out. */
	readonly missing: string | undefined;
}

const OVERRIDDEN_DEVICES = 100;
const BASELINE_ROWS = 1000;

/** Builds the Workers; starts none. */
export async function prepareHosts(freshApps: number): Promise<Sources> {
	const [product, baseline, fetched] = await Promise.all([
		capstanScript(),
		bundle("worker/baseline.ts"),
		fetchHotUpdater().catch((error: Error) => error.message),
	]);
	const shipped = typeof fetched === "string" ? undefined : fetched;
	const incumbent = (bundles: number) =>
		shipped === undefined ? undefined : host(`hot-updater, ${bundles} bundles`, () => hotUpdater(shipped, bundles));
	return {
		hosts: {
			capstan10: host("Capstan, 10 bundles", () => capstan(product, { bundles: 10, overrides: OVERRIDDEN_DEVICES })),
			capstan1000: host("Capstan, 1,000 bundles", () => capstan(product, { bundles: 1000 })),
			capstanFresh: host("Capstan, many apps", () => capstan(product, { bundles: 10, freshApps })),
			hono: host("Hono", () => hono(baseline)),
			hotUpdater10: incumbent(10),
			hotUpdater1000: incumbent(1000),
		},
		scripts: [
			{ name: "Capstan", script: product },
			{ name: "bare Hono", script: baseline },
			...(shipped === undefined ? [] : [scriptOf(shipped)]),
		],
		missing: typeof fetched === "string" ? fetched : undefined,
	};
}

const scriptOf = ({ script }: HotUpdaterPackage) => ({ name: "hot-updater", script });

function hono(script: string): WorkerDefinition<null> {
	return {
		script,
		options: {
			compatibilityDate: "2026-04-01",
			compatibilityFlags: ["nodejs_compat"],
			d1Databases: { DB: "DB" },
			r2Buckets: { BUCKET: "BUCKET" },
		},
		async seed(database) {
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

function host<Facts>(name: string, define: () => WorkerDefinition<Facts>): Host<Facts> {
	let seeded: Promise<RunningWorker<Facts>> | undefined;
	let timed: Promise<RunningWorker<Facts>> | undefined;
	let nextNumber = 1;
	const counting = () => {
		seeded ??= startWorker(define());
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
