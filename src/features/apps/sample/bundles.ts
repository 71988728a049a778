/**
 * The bundles of the sample app: versions, notes and commits, and small zips without compression
 * that differ as releases differ. A device that got one would show a page and confirm its start.
 * Pure: the same bytes on every server.
 */
import crc32 from "crc-32";

interface SampleBundle {
	readonly version: string;
	/** Day of the upload, before today. */
	readonly daysAgo: number;
	readonly notes: string;
	readonly commit: string;
	/** Files that differ from the bundle before it, beside the start page and the main script. */
	readonly changes: readonly string[];
}

export const PREVIEW_VERSION = "2.4.0-pr.52.1";

/** From old to new. */
export const SAMPLE_BUNDLES: readonly SampleBundle[] = [
	{
		version: "2.1.0",
		daysAgo: 29,
		notes: "Search finds brands and colours",
		commit: "4b1d9c07e2a85f63",
		changes: ["assets/search.js", "assets/basket.js", "assets/style.css"],
	},
	{
		version: "2.1.1",
		daysAgo: 25,
		notes: "Fixes the price of sets in the basket",
		commit: "c83e5f10b97a264d",
		changes: ["assets/basket.js"],
	},
	{
		version: "2.2.0",
		daysAgo: 21,
		notes: "New checkout with saved addresses",
		commit: "19fa7e3dd4c0b582",
		changes: ["assets/checkout.js", "assets/style.css"],
	},
	{
		version: "2.2.1",
		daysAgo: 15,
		notes: "Product lists load in half the time",
		commit: "7d20c6e58b1f93a4",
		changes: ["assets/search.js"],
	},
	{
		version: "2.3.0",
		daysAgo: 10,
		notes: "Wish lists",
		commit: "e5904ab37c16d8f2",
		changes: ["assets/wishlist.js", "assets/style.css"],
	},
	{
		version: "2.3.1",
		daysAgo: 7,
		notes: "Wish lists without the crash on Android 13",
		commit: "a2c7f8193e5d604b",
		changes: ["assets/wishlist.js"],
	},
	{
		version: "2.4.0-beta.1",
		daysAgo: 4,
		notes: "First version of order tracking",
		commit: "0f6b3d92a7e148c5",
		changes: ["assets/tracking.js"],
	},
	{
		version: PREVIEW_VERSION,
		daysAgo: 3,
		notes: "Dark mode, pull request 52",
		commit: "b61e07f4d38a5c29",
		changes: ["assets/style.css"],
	},
	{
		version: "2.4.0",
		daysAgo: 2,
		notes: "Order tracking with a map",
		commit: "d94c2a6f0b7e8135",
		changes: ["assets/tracking.js", "assets/style.css"],
	},
];

interface File {
	readonly name: Uint8Array;
	readonly bytes: Uint8Array;
	readonly crc: number;
}

const encoder = new TextEncoder();
const LINES = 90;

function fileOf(name: string, text: string): File {
	const bytes = encoder.encode(text);
	return { name: encoder.encode(name), bytes, crc: crc32.buf(bytes) };
}

const script = (name: string, version: string) =>
	Array.from({ length: LINES }, (_, line) => `// ${name} of the sample shop ${version}, line ${line + 1}\n`).join("");

const startPage = (version: string) => `<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><title>Sample shop ${version}</title><link rel="stylesheet" href="assets/style.css"></head>
<body><h1>Sample shop ${version}</h1><script src="assets/app.js"></script></body>
</html>
`;

const mainScript = (version: string) =>
	`${script("assets/app.js", version)}window.Capacitor?.Plugins?.CapacitorUpdater?.notifyAppReady();\n`;

/** The zip of each bundle, by version. */
export function sampleZips(): ReadonlyMap<string, Uint8Array> {
	const files = new Map<string, File>();
	return new Map(
		SAMPLE_BUNDLES.map(({ version, changes }) => {
			files.set("index.html", fileOf("index.html", startPage(version)));
			files.set("assets/app.js", fileOf("assets/app.js", mainScript(version)));
			for (const name of changes) {
				const text = name.endsWith(".css")
					? `/* ${version} */\nbody { font-family: sans-serif }\n`
					: script(name, version);
				files.set(name, fileOf(name, text));
			}
			return [version, storedZip([...files.values()])];
		}),
	);
}

const LOCAL_HEADER_BYTES = 30;
const DIRECTORY_HEADER_BYTES = 46;
const END_BYTES = 22;
/** 1 January 1980, the first day that a zip can name. */
const DATE = 0x21;
const VERSION = 20;

function storedZip(files: readonly File[]): Uint8Array {
	const namesBytes = files.reduce((sum, { name }) => sum + name.length, 0);
	const contentBytes = files.reduce((sum, { bytes }) => sum + bytes.length, 0);
	const localBytes = files.length * LOCAL_HEADER_BYTES + namesBytes + contentBytes;
	const directoryBytes = files.length * DIRECTORY_HEADER_BYTES + namesBytes;
	const zip = new Uint8Array(localBytes + directoryBytes + END_BYTES);
	const view = new DataView(zip.buffer);
	let [at, entry] = [0, localBytes];
	for (const { name, bytes, crc } of files) {
		view.setUint32(at, 0x04034b50, true);
		view.setUint32(entry, 0x02014b50, true);
		view.setUint16(entry + 4, VERSION, true);
		for (const fields of [at + 4, entry + 6]) {
			view.setUint16(fields, VERSION, true);
			view.setUint16(fields + 8, DATE, true);
			view.setInt32(fields + 10, crc, true);
			view.setUint32(fields + 14, bytes.length, true);
			view.setUint32(fields + 18, bytes.length, true);
			view.setUint16(fields + 22, name.length, true);
		}
		view.setUint32(entry + 42, at, true);
		zip.set(name, at + LOCAL_HEADER_BYTES);
		zip.set(bytes, at + LOCAL_HEADER_BYTES + name.length);
		zip.set(name, entry + DIRECTORY_HEADER_BYTES);
		at += LOCAL_HEADER_BYTES + name.length + bytes.length;
		entry += DIRECTORY_HEADER_BYTES + name.length;
	}
	view.setUint32(entry, 0x06054b50, true);
	view.setUint16(entry + 8, files.length, true);
	view.setUint16(entry + 10, files.length, true);
	view.setUint32(entry + 12, directoryBytes, true);
	view.setUint32(entry + 16, localBytes, true);
	return zip;
}
