/**
 * Checks of `npm run doctor` on the bytes of bundles: a line about the newest live ones in every
 * run, and with `--deep` a comparison of all rows with all objects, in both directions. Objects are
 * only removed with `--repair`, and only if they are older than any upload that may still be under
 * way. Rows are never changed: their devices get 410, and the same bytes can be put back.
 */
import { DAY_MS } from "../domain/time";
import type { DoctorOptions, Finding, Status } from "./doctor-types";
import { npmCommand } from "./options";
import { LOCAL_OPTION, type Place } from "./place";

const remedyOf = (option: string) =>
	`Devices get 410 for them. Put the bytes back with ${npmCommand("restore", option, "<directory> --missing-objects")}, upload the same bundle again, or release another one. If all are lost, check which bucket BUNDLES is bound to.`;
/** The longest upload takes a day, and what was removed from a row is garbage for another one. */
const OLD_OBJECT_MS = 3 * DAY_MS;
const MOST_NAMED = 20;
const PAGE_ROWS = 5_000;

export function liveBundles(
	{ isLocal, option }: Pick<DoctorOptions, "isLocal" | "option">,
	{ live_bundles: live }: Status,
): Finding {
	const check = "live bundles";
	if (live === undefined) return { check, state: "skipped", detail: "this release does not report them" };
	const { checked, lost } = live;
	if (lost.length === 0) {
		const detail = `the bytes of the newest ${checked === 1 ? "one are" : `${checked} are`} there`;
		return { check, state: "ok", detail: checked === 0 ? "none yet" : detail };
	}
	const detail = `the bytes of ${lost.length} of the newest ${checked} are lost: ${named(lost)}`;
	return { check, state: "failed", detail, remedy: remedyOf(isLocal ? LOCAL_OPTION : option) };
}

interface ObjectRow {
	readonly object_key: string;
	readonly size_bytes: number | null;
	/** Names the object for a person, such as `com.example.app 1.2.0, live on production`. */
	readonly label: string;
}

interface DeepOptions {
	readonly place: Place;
	readonly nowMs: () => number;
	/** Removes objects without a row. */
	readonly repair: boolean;
	readonly onProgress: (text: string) => void;
}

const BUNDLES = `SELECT b.object_key, b.size_bytes, a.app_id || ' ' || b.name ||
	coalesce((SELECT ', live on ' || group_concat(c.name, ', ') FROM channels c WHERE c.version_id = b.id OR c.rollout_version_id = b.id), '') AS label
	FROM bundles b JOIN apps a ON a.id = b.app_id WHERE b.object_key IS NOT NULL`;
const FILES = `SELECT d.object_key, d.size_bytes, a.app_id || ' ' || d.path AS label
	FROM delta_objects d JOIN apps a ON a.id = d.app_id WHERE true`;
/** Objects below these belong to uploads that are under way, or are removed by the clean-up. */
const PREFIXES = "SELECT object_prefix FROM uploads UNION SELECT object_prefix FROM garbage_objects";

export async function deepFindings({ place, nowMs, repair, onProgress }: DeepOptions): Promise<Finding[]> {
	// The objects first: a row that is younger than the list has its object all the same.
	onProgress("listing objects");
	const objects = new Map<string, { sizeBytes: number; storedAtMs: number }>();
	for await (const { key, ...facts } of place.objects()) if (!key.startsWith("snapshots/")) objects.set(key, facts);
	onProgress("reading rows");
	const rows = [...(await allRows(place, BUNDLES)), ...(await allRows(place, FILES))];
	const prefixes = await place.query<{ object_prefix: string }>("DB", PREFIXES);
	const lost: string[] = [];
	const wrong: string[] = [];
	const known = new Set<string>();
	for (const { object_key: key, size_bytes: size, label } of rows) {
		known.add(key);
		const object = objects.get(key);
		if (object !== undefined && (size === null || object.sizeBytes === size)) continue;
		// It may be younger than the list, or have been removed with its row since.
		if (object === undefined && (await isStored(place, key))) continue;
		if (object === undefined) lost.push(label);
		else wrong.push(`${label} (${object.sizeBytes} bytes instead of ${size})`);
	}
	const own = prefixes.map(({ object_prefix }) => object_prefix);
	const isOwned = (key: string) => own.includes(key.replace(/[^/]*$/, "")) || /\/empty\/object$/.test(key);
	const orphans = [...objects].filter(([key]) => !known.has(key) && !isOwned(key));
	const old = orphans.filter(([, { storedAtMs }]) => storedAtMs < nowMs() - OLD_OBJECT_MS);
	if (repair) {
		for (const [index, [key]] of old.entries()) {
			await place.removeObject(key);
			if (index % 20 === 0) onProgress(`removing objects: ${index} of ${old.length}`);
		}
	}
	return [
		rowsFinding(place, "bytes of all rows", lost, `${rows.length} rows have their objects`),
		rowsFinding(place, "sizes of all objects", wrong, `${objects.size} objects have the sizes of their rows`),
		orphanFinding(place, orphans.length, old, repair),
	];
}

/** Asks for the first byte only, as far as the place can: the body is not read. */
async function isStored(place: Place, key: string): Promise<boolean> {
	const [still] = await place.query<{ found: number }>(
		"DB",
		`SELECT EXISTS (SELECT 1 FROM bundles WHERE object_key = '${key}') OR EXISTS (SELECT 1 FROM delta_objects WHERE object_key = '${key}') AS found`,
	);
	if (still?.found !== 1) return true;
	const object = await place.object(key);
	await object?.cancel();
	return object !== undefined;
}

async function allRows(place: Place, select: string): Promise<ObjectRow[]> {
	const rows: ObjectRow[] = [];
	for (let after = ""; ; ) {
		const page = await place.query<ObjectRow>(
			"DB",
			`${select} AND object_key > '${after}' ORDER BY object_key LIMIT ${PAGE_ROWS}`,
		);
		rows.push(...page);
		after = page.at(-1)?.object_key ?? "";
		if (page.length < PAGE_ROWS) return rows;
	}
}

function rowsFinding({ option }: Place, check: string, bad: readonly string[], fine: string): Finding {
	if (bad.length === 0) return { check, state: "ok", detail: fine };
	return { check, state: "failed", detail: `${bad.length} lost: ${named(bad)}`, remedy: remedyOf(option) };
}

function orphanFinding(
	{ option }: Place,
	count: number,
	old: readonly (readonly [string, { readonly sizeBytes: number }])[],
	repaired: boolean,
): Finding {
	const check = "objects without a row";
	const young = count - old.length;
	const waiting = young === 0 ? "" : `; ${young} younger than three days may belong to running uploads`;
	if (old.length === 0) return { check, state: "ok", detail: `none${waiting}` };
	const megabytes = (old.reduce((sum, [, { sizeBytes }]) => sum + sizeBytes, 0) / 1_000_000).toFixed(1);
	const detail = `${old.length} (${megabytes} MB)${waiting}: ${named(old.map(([key]) => key))}`;
	if (repaired) return { check, state: "ok", detail: `removed ${detail}` };
	const remedy = `Nothing needs them. ${npmCommand("doctor", option, "--deep --repair")} removes those that are older than three days.`;
	return { check, state: "warning", detail, remedy };
}

function named(all: readonly string[]): string {
	const shown = all.slice(0, MOST_NAMED).join(", ");
	return all.length > MOST_NAMED ? `${shown} and ${all.length - MOST_NAMED} more` : shown;
}
