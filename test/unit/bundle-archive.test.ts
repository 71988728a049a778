/**
 * Which zips are bundles: one archive that breaks each rule, archives of common tools that must
 * pass, and thousands of damaged ones. Each gets a verdict after a bounded read inside the file.
 */
import crc32 from "crc-32";
import fc from "fast-check";
import { zipSync } from "fflate";
import { describe, expect, test } from "vitest";
import { checkBundleArchive, MOST_ENTRIES } from "../../src/domain/bundles/archive";
import {
	type ArchiveSource,
	contentOffset,
	MOST_DIRECTORY_BYTES,
	MOST_END_BYTES,
} from "../../src/domain/bundles/archive-directory";
import { type ArchiveReason, BundleArchiveError } from "../../src/domain/bundles/archive-errors";
import { MOST_UNPACKED_BYTES, MOST_WINDOWS } from "../../src/domain/bundles/archive-files";
import { bundleOf, joined, patterned, type ZipEntry, zipOf } from "../worker/support/zip";

const INDEX: ZipEntry = { name: "index.html", content: patterned(50) };
const ROOMY = { mostUncompressedBytes: Number.MAX_SAFE_INTEGER };

interface Reads {
	readonly source: ArchiveSource;
	readonly reads: { readonly offset: number; readonly length: number }[];
}

/** A source that records all reads and fails on a read outside the archive. */
function sourceOf(bytes: Uint8Array, options: Partial<ArchiveSource> = {}): Reads {
	const reads: Reads["reads"] = [];
	return {
		reads,
		source: {
			sizeBytes: bytes.length,
			async read(offset, length) {
				const isInside = Number.isSafeInteger(offset) && offset >= (options.readableFrom ?? 0) && length >= 0;
				if (!isInside || offset + length > bytes.length) throw new RangeError(`read ${length} at ${offset}`);
				reads.push({ offset, length });
				return bytes.slice(offset, offset + length);
			},
			...options,
		},
	};
}

const check = (bytes: Uint8Array, rules = ROOMY) => checkBundleArchive(sourceOf(bytes).source, rules);

/** The reason, facts and message of a refusal. */
async function refusal(bytes: Uint8Array, rules = ROOMY) {
	try {
		await check(bytes, rules);
	} catch (error) {
		if (error instanceof BundleArchiveError) return { reason: error.reason, message: error.message, ...error.facts };
		throw error;
	}
	return { reason: undefined };
}

describe("checkBundleArchive accepts", () => {
	test.each<[string, Uint8Array, number]>([
		["a stored index.html", zipOf([INDEX]), 1],
		[
			"a deflated archive with folders",
			zipSync({ "index.html": patterned(5000), assets: { "a.js": patterned(9) } }),
			3,
		],
		["ZIP64 records", zipOf([INDEX, { name: "a.js" }], { zip64: true }), 2],
		["a comment", zipOf([INDEX], { comment: patterned(0xffff) }), 1],
		["a comment on ZIP64", zipOf([INDEX], { comment: patterned(0xffff), zip64: true }), 1],
		["a comment that contains an end record", zipOf([INDEX], { comment: joined(zipOf([INDEX]), patterned(3)) }), 1],
		["files that macOS adds", zipOf([INDEX, { name: "__MACOSX/._index.html" }, { name: ".DS_Store" }]), 3],
		["names that start with ./", zipOf([{ name: "./a/" }, { ...INDEX, name: "./index.html" }]), 2],
		["a folder twice", zipOf([INDEX, { name: "a/" }, { name: "A/" }, { name: "a/b.js" }, { name: "A/c.js" }]), 5],
		["the same name in two folders", zipOf([INDEX, { name: "a/index.html" }, { name: "b/index.html" }]), 3],
		["names with dots", zipOf([INDEX, { name: "..a/b..c" }, { name: "a/..." }]), 3],
		["UTF-8 names without the UTF-8 flag", zipOf([INDEX, { name: "é.png", flags: 0 }]), 2],
		["a name of 255 bytes", zipOf([INDEX, { name: `a/${"é".repeat(127)}x/b.js` }]), 2],
		["a colon later in the name", zipOf([INDEX, { name: "ab:c.js" }]), 2],
	])("%s", async (_name, bytes, entries) => {
		expect(await check(bytes)).toMatchObject({ entries });
	});

	test("as many entries and unpacked bytes as the limits allow", async () => {
		const names = Array.from({ length: MOST_ENTRIES - 1 }, (_, index) => ({ name: `assets/${index}.js` }));
		expect(await check(zipOf([INDEX, ...names]))).toEqual({ entries: MOST_ENTRIES, uncompressedBytes: 50 });
		expect(await check(zipOf([INDEX]), { mostUncompressedBytes: 50 })).toEqual({ entries: 1, uncompressedBytes: 50 });
	});

	test("an archive, and reports each entry with the offset of its content", async () => {
		const { source } = sourceOf(zipOf([INDEX, { name: "a/b.js", content: patterned(7, 3) }]));
		const found: [string, Uint8Array][] = [];
		const entries: Parameters<typeof contentOffset>[1][] = [];
		await checkBundleArchive(source, { ...ROOMY, onEntry: (entry) => entries.push(entry) });
		for (const entry of entries) {
			found.push([entry.name, await source.read(await contentOffset(source, entry), entry.compressedBytes)]);
		}
		expect(found).toEqual([
			["index.html", patterned(50)],
			["a/b.js", patterned(7, 3)],
		]);
	});
});

describe("checkBundleArchive refuses", () => {
	const withEntry = (entry: ZipEntry) => zipOf([INDEX, entry]);
	const cut = (bytes: Uint8Array, length: number) => bytes.slice(0, length);
	test.each<[string, ArchiveReason, () => Uint8Array, object?]>([
		["five bytes of text", "not_a_zip", () => new TextEncoder().encode("hello")],
		["no bytes", "not_a_zip", () => new Uint8Array()],
		["an HTML page", "not_a_zip", () => new TextEncoder().encode("<html></html>".repeat(9_000))],
		["a zip that was cut off", "damaged_zip", () => cut(bundleOf(100_000), 90_000)],
		["a zip with bytes after its end", "damaged_zip", () => joined(zipOf([INDEX]), patterned(30))],
		["bytes before the first entry", "damaged_zip", () => zipOf([INDEX], { before: patterned(100) })],
		["a zip without its first bytes", "damaged_zip", () => zipOf([INDEX]).slice(3)],
		["only an end record that names entries", "damaged_zip", () => zipOf([INDEX]).slice(-22)],
		["an empty zip", "missing_index_html", () => zipOf([])],
		["no index.html", "missing_index_html", () => zipOf([{ name: "main.js" }])],
		["a folder named index.html", "missing_index_html", () => zipOf([{ name: "index.html/" }])],
		[
			"a start page in capital letters",
			"missing_index_html",
			() => zipOf([{ name: "Index.HTML" }]),
			{ entry: "Index.HTML" },
		],
		[
			"index.html in a folder",
			"index_html_in_folder",
			() => zipOf([{ name: "dist/" }, { name: "dist/index.html" }, { name: "dist/sub/index.html" }]),
			{ folder: "dist", entry: "dist/index.html" },
		],
		[
			"index.html two folders down, beside files that macOS adds",
			"index_html_in_folder",
			() => zipOf([{ name: "__MACOSX/index.html" }, { name: "my app/www/index.html" }]),
			{ folder: "my app/www" },
		],
		["an absolute path", "absolute_path", () => withEntry({ name: "/etc/passwd" }), { entry: "/etc/passwd" }],
		["a path that leads out", "parent_path", () => withEntry({ name: "a/../../b" }), { entry: "a/../../b" }],
		["a path that is ..", "parent_path", () => withEntry({ name: ".." })],
		["a backslash", "backslash_path", () => withEntry({ name: "a\\..\\b.js" }), { entry: "a\\..\\b.js" }],
		["a drive letter", "drive_letter_path", () => withEntry({ name: "c:/a.js" }), { entry: "c:/a.js" }],
		["NUL in a name", "invalid_name", () => withEntry({ name: "a\0.js" }), { entry: "a\0.js" }],
		["an empty name", "invalid_name", () => withEntry({ name: "" })],
		["a name that is a dot", "invalid_name", () => withEntry({ name: "." })],
		[
			"a name with the UTF-8 flag that is not UTF-8",
			"invalid_name",
			() => withEntry({ name: new Uint8Array([0x61, 0xff]) }),
		],
		[
			"a name in a code page of DOS",
			"invalid_name",
			() => withEntry({ name: new Uint8Array([0x9a, 0x62, 0x65, 0x72, 0x2e, 0x68, 0x74, 0x6d, 0x6c]), flags: 0 }),
		],
		[
			"a name in Shift-JIS",
			"invalid_name",
			() => withEntry({ name: new Uint8Array([0x83, 0x65, 0x83, 0x58, 0x83, 0x67]), flags: 0 }),
		],
		[
			"a name in Latin-1",
			"invalid_name",
			() => withEntry({ name: new Uint8Array([0xe9, 0x2e, 0x6a, 0x73]), flags: 0 }),
		],
		["a part of 256 bytes", "name_too_long", () => withEntry({ name: `a/${"é".repeat(128)}/b.js` })],
		["a symbolic link", "symlink", () => withEntry({ name: "a", unixMode: 0o120777 }), { entry: "a" }],
		["a name twice", "duplicate_name", () => zipOf([INDEX, INDEX]), { entry: "index.html" }],
		[
			"names that differ in case",
			"duplicate_name",
			() => zipOf([INDEX, { name: "Icon.png" }, { name: "icon.png" }]),
			{ entry: "icon.png", other_entry: "Icon.png" },
		],
		[
			"names that differ in their Unicode form",
			"duplicate_name",
			() => zipOf([INDEX, { name: "\u00e9" }, { name: "e\u0301" }]),
		],
		["a name twice in two spellings", "duplicate_name", () => withEntry({ name: "./index.html" })],
		["a file that is also a folder", "duplicate_name", () => zipOf([INDEX, { name: "a" }, { name: "a/b" }])],
		["a folder that is also a file", "duplicate_name", () => zipOf([INDEX, { name: "a/b" }, { name: "a" }])],
		[
			"an entry with a password",
			"encrypted_entry",
			() => withEntry({ name: "a.js", flags: 0x0801 }),
			{ entry: "a.js" },
		],
		[
			"a compression method that devices do not support",
			"unsupported_compression",
			() => withEntry({ name: "a.js", method: 12 }),
			{ entry: "a.js" },
		],
		["a stored entry with two different sizes", "damaged_zip", () => withEntry({ name: "a.js", uncompressedBytes: 9 })],
		["an entry beyond the end", "damaged_zip", () => withEntry({ name: "a.js", headerOffset: 5_000 })],
		["entries that overlap", "damaged_zip", () => withEntry({ name: "a.js", headerOffset: 0 })],
		["a local header with another name", "damaged_zip", () => zipOf([INDEX, { name: "a.js", nameInHeader: "b.js" }])],
		[
			"a local header with another size",
			"damaged_zip",
			() => {
				const bytes = zipOf([INDEX, { name: "a.js", content: patterned(10) }]);
				const at = 30 + 10 + 50;
				new DataView(bytes.buffer).setUint32(at + 18, 11, true);
				return bytes;
			},
		],
		[
			"a stored file whose size follows its content",
			"stored_with_descriptor",
			() => zipOf([INDEX, { name: "a.js", content: patterned(10), flags: 0x0808 }]),
		],
		[
			"a stored file whose local header alone says that the size follows",
			"stored_with_descriptor",
			() => {
				const bytes = zipOf([INDEX, { name: "a.js", content: patterned(10) }]);
				new DataView(bytes.buffer).setUint16(30 + 10 + 50 + 6, 0x0808, true);
				return bytes;
			},
		],
		[
			"a start page that is not where the directory says",
			"damaged_zip",
			() => zipOf([{ ...INDEX, nameInHeader: "other.html" }]),
		],
		[
			"one entry too many",
			"too_many_entries",
			() => zipOf(Array.from({ length: MOST_ENTRIES + 1 }, (_, index) => ({ name: String(index) }))),
			{ limit: MOST_ENTRIES },
		],
		[
			"a directory that is larger than the limit",
			"directory_too_large",
			() => {
				const count = Math.ceil(MOST_DIRECTORY_BYTES / 60_000) + 1;
				return zipOf([
					INDEX,
					...Array.from({ length: count }, (_, index) => ({ name: `${index}${"n".repeat(60_000)}` })),
				]);
			},
			{ limit: MOST_DIRECTORY_BYTES },
		],
	])("%s", async (_name, reason, bytes, facts = {}) => {
		const refused = await refusal(bytes());
		expect(refused).toMatchObject({ reason, ...facts });
		// The message names the defect, then the fix.
		expect((refused as { message: string }).message).toMatch(/^.+\. .+\.$/s);
	});

	test("more unpacked bytes than the limit, even if the size is only declared", async () => {
		const bomb = zipOf([INDEX, { name: "a", method: 8, uncompressedBytes: 0xfffffffe }]);
		expect(await refusal(bomb, { mostUncompressedBytes: 2 ** 31 })).toMatchObject({
			reason: "uncompressed_too_large",
			limit: 2 ** 31,
		});
		expect(await refusal(zipOf([INDEX]), { mostUncompressedBytes: 49 })).toMatchObject({
			reason: "uncompressed_too_large",
		});
	});

	test("a split archive", async () => {
		for (const at of [4, 6, 8]) {
			const bytes = zipOf([INDEX]);
			new DataView(bytes.buffer).setUint16(bytes.length - 22 + at, 7, true);
			expect([at, (await refusal(bytes)).reason]).toEqual([at, "split_zip"]);
		}
	});

	test("ZIP64 records that contradict each other", async () => {
		const field = (at: number, value: bigint) => {
			const bytes = zipOf([INDEX], { zip64: true });
			new DataView(bytes.buffer).setBigUint64(bytes.length - 22 - 20 - 56 + at, value, true);
			return bytes;
		};
		// Length of the record, size of the directory, its offset and that of the record (twice each).
		for (const [at, value] of [
			[4, 45n],
			[40, 1n],
			[48, 1n],
			[48, 2n ** 63n],
			[56 + 8, 0n],
			[56 + 8, 2n ** 53n],
		] as const) {
			expect([at, value, (await refusal(field(at, value))).reason]).toEqual([at, value, "damaged_zip"]);
		}
		const more = field(32, 2n ** 40n);
		new DataView(more.buffer).setBigUint64(more.length - 22 - 20 - 56 + 24, 2n ** 40n, true);
		expect((await refusal(more)).reason).toBe("too_many_entries");
	});
});

describe("checkBundleArchive reads", () => {
	test("a small archive in one read, and the content of a large one only up to a bound", async () => {
		const small = sourceOf(zipOf([INDEX]));
		await checkBundleArchive(small.source, ROOMY);
		expect(small.reads).toHaveLength(1);
		const medium = sourceOf(bundleOf(5_000_000));
		await checkBundleArchive(medium.source, ROOMY);
		expect(medium.reads.length).toBeLessThan(8);
		const large = sourceOf(bundleOf(MOST_UNPACKED_BYTES + 100_000));
		await checkBundleArchive(large.source, ROOMY);
		expect(large.reads.map(({ length }) => length)).toEqual([MOST_END_BYTES, 40]);
	});

	test("the largest directory in a few bounded reads", async () => {
		const name = (index: number) => `${"n".repeat(200)}/${index}-${"n".repeat(60)}`;
		const entries = Array.from({ length: MOST_ENTRIES - 1 }, (_, index) => ({ name: name(index) }));
		const { source, reads } = sourceOf(zipOf([...entries, INDEX]));
		await checkBundleArchive(source, ROOMY);
		expect(reads.length).toBeLessThan(10);
		expect(Math.max(...reads.map(({ length }) => length))).toBeLessThanOrEqual(4 * 1024 * 1024);
		expect(reads.reduce((sum, { length }) => sum + length, 0)).toBeLessThan(MOST_DIRECTORY_BYTES + 2 * MOST_END_BYTES);
	});

	test("headers once for each megabyte, and once for each large file, up to a bound", async () => {
		const many = Array.from({ length: 1_500 }, (_, index) => ({ name: `${index}.js`, content: patterned(2_000) }));
		const near = sourceOf(zipOf([INDEX, ...many]));
		await checkBundleArchive(near.source, ROOMY);
		expect(near.reads.length).toBeLessThanOrEqual(6);
		const content = new Uint8Array(1_100_000);
		const checksum = crc32.buf(content) >>> 0;
		const large = Array.from({ length: MOST_WINDOWS + 30 }, (_, index) => ({
			name: `${index}.bin`,
			content,
			checksum,
		}));
		const far = sourceOf(zipOf([INDEX, ...large]));
		await checkBundleArchive(far.source, ROOMY);
		expect(far.reads.length).toBe(1 + MOST_WINDOWS);
	});

	test("nothing before the bytes that the source keeps", async () => {
		const bytes = bundleOf(300_000);
		const { source, reads } = sourceOf(bytes, { readableFrom: bytes.length - MOST_END_BYTES });
		await checkBundleArchive(source, ROOMY);
		expect(reads).toHaveLength(1);
	});
});

describe("checkBundleArchive gives", () => {
	const archives = [
		zipOf([INDEX, { name: "a/b.js", content: patterned(30) }]),
		zipOf([INDEX, { name: "a/", unixMode: 0o040755 }, { name: "a/é.js" }], { zip64: true, comment: patterned(9) }),
		zipSync({ "index.html": patterned(200), assets: { "main.js": new Uint8Array(400) } }),
	];
	const change = fc.record({
		archive: fc.nat(archives.length - 1),
		// Most edits are near the end, where the records are.
		edits: fc.array(
			fc.record({
				fromEnd: fc.oneof(fc.nat(250), fc.nat(1500)),
				bytes: fc.oneof(
					fc.uint8Array({ minLength: 1, maxLength: 8 }),
					fc
						.constantFrom(0, 1, 0x7f, 0x80, 0xff)
						.chain((byte) => fc.constantFrom(1, 2, 4, 8).map((length) => new Uint8Array(length).fill(byte))),
				),
				kind: fc.constantFrom("replace", "insert", "remove"),
			}),
			{ minLength: 1, maxLength: 4 },
		),
	});

	test("damaged archives a verdict and no other error, in a bounded number of reads inside the file", async () => {
		const verdicts = new Map<string, number>();
		await fc.assert(
			fc.asyncProperty(change, async ({ archive, edits }) => {
				let bytes = archives[archive] ?? new Uint8Array();
				for (const { fromEnd, bytes: edit, kind } of edits) {
					const at = Math.max(0, bytes.length - fromEnd);
					const rest = bytes.slice(kind === "insert" ? at : at + edit.length);
					bytes = joined(bytes.slice(0, at), kind === "remove" ? new Uint8Array() : edit, rest);
				}
				const { source, reads } = sourceOf(bytes);
				const verdict = await checkBundleArchive(source, ROOMY).then(
					() => "accepted",
					(error: unknown) => {
						if (error instanceof BundleArchiveError) return error.reason;
						throw error;
					},
				);
				expect(reads.length).toBeLessThan(6);
				verdicts.set(verdict, (verdicts.get(verdict) ?? 0) + 1);
			}),
			{ numRuns: 4000, seed: 20_261_122 },
		);
		// The edits reach several rules, and some archives stay valid.
		expect([...verdicts.keys()]).toEqual(expect.arrayContaining(["accepted", "damaged_zip", "invalid_name"]));
	});

	test("random bytes a verdict that they are not a zip", async () => {
		await fc.assert(
			fc.asyncProperty(fc.uint8Array({ maxLength: 400 }), async (bytes) => {
				expect(["not_a_zip", "damaged_zip"]).toContain((await refusal(bytes)).reason);
			}),
		);
	});
});
