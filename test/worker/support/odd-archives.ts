/**
 * Odd zips, each with what the server decides and what devices can do with it. The server's rules
 * are those of Android's and iOS's unpackers, so a zip that Android unpacks in full is accepted,
 * unless another platform would lose something.
 */
import crc32 from "crc-32";
import { deflateSync, zipSync } from "fflate";
import type { ArchiveReason } from "../../../src/domain/bundles/archive-errors";
import { joined, patterned, type ZipEntry, zipOf } from "./zip";

interface OddArchive {
	readonly what: string;
	readonly bytes: Uint8Array;
	/** Undefined for an accepted zip. */
	readonly reason?: ArchiveReason;
	/** Android unpacks it, and the reason is another platform or a rule of bundles. */
	readonly isForOthers?: true;
	/** The names are UTF-8 without the flag, which the server sets. */
	readonly isUnflagged?: true;
}

const text = (value: string) => new TextEncoder().encode(value);
const INDEX: ZipEntry = { name: "index.html", content: text("<html></html>") };
const CONTENT = patterned(5_000);
const PACKED = deflateSync(text("capstan ".repeat(500)));
const UNPACKED_BYTES = 4_000;
const UNPACKED_CRC = crc32.buf(text("capstan ".repeat(500))) >>> 0;
const UTF8 = 0x0800;
const DESCRIPTOR = 0x0008;

const numbers = (width: 4 | 8, ...values: readonly number[]): Uint8Array => {
	const bytes = new Uint8Array(values.length * width);
	const view = new DataView(bytes.buffer);
	for (const [index, value] of values.entries()) {
		if (width === 4) view.setUint32(index * width, value, true);
		else view.setBigUint64(index * width, BigInt(value), true);
	}
	return bytes;
};

const packed = (more: Partial<ZipEntry> = {}): ZipEntry => ({
	name: "app.js",
	content: PACKED,
	method: 8,
	checksum: UNPACKED_CRC,
	compressedBytes: PACKED.length,
	uncompressedBytes: UNPACKED_BYTES,
	...more,
});

const SIGNATURE = 0x08074b50;
const SIZES = [PACKED.length, UNPACKED_BYTES] as const;
const streamed = (after: Uint8Array, more: Partial<ZipEntry> = {}) =>
	packed({ flags: UTF8 | DESCRIPTOR, after, ...more });

const APP_AT = 30 + "index.html".length + (INDEX.content?.length ?? 0);

/**
 * A zip of the start page, `app.js` and a last file, changed at an offset in the local header of
 * `app.js`.
 */
function changed(at: number, bytes: Uint8Array, entry: ZipEntry = { name: "app.js", content: CONTENT }): Uint8Array {
	const zip = zipOf([INDEX, entry, { name: "last.js", content: text("last") }]);
	zip.set(bytes, APP_AT + at);
	return zip;
}

const withEntry = (...entries: readonly ZipEntry[]) =>
	zipOf([INDEX, ...entries, { name: "last.js", content: text("last") }]);
const bytesOf = (...bytes: readonly number[]) => new Uint8Array(bytes);
/** A local header and content that no directory names. */
const hidden = (name: string) => {
	const zip = zipOf([{ name, content: text("hidden") }]);
	return zip.slice(0, 30 + name.length + 6);
};
const zip64Extra = (uncompressed: number, compressed: number) =>
	joined(bytesOf(1, 0, 16, 0), numbers(8, uncompressed, compressed));
const named = (name: string | Uint8Array, more: Partial<ZipEntry> = {}) =>
	withEntry({ name, content: text("content"), ...more });

const ACCEPTED: readonly (readonly [what: string, bytes: Uint8Array])[] = [
	["stored files", withEntry({ name: "app.js", content: CONTENT })],
	["deflated files", withEntry(packed())],
	["what fflate writes", zipSync({ "index.html": text("<html></html>"), assets: { "é.js": CONTENT } })],
	["an empty file", named("empty.txt", { content: new Uint8Array() })],
	[
		"an empty file that is deflated",
		withEntry(packed({ content: bytesOf(3, 0), compressedBytes: 2, uncompressedBytes: 0, checksum: 0 })),
	],
	["sizes after the content, with a signature", withEntry(streamed(numbers(4, SIGNATURE, UNPACKED_CRC, ...SIZES)))],
	["sizes after the content, without a signature", withEntry(streamed(numbers(4, UNPACKED_CRC, ...SIZES)))],
	["sizes after the content of the last file", zipOf([INDEX, streamed(numbers(4, SIGNATURE, UNPACKED_CRC, ...SIZES))])],
	[
		"zeros in the header before sizes that follow",
		(() => {
			const zip = withEntry(streamed(numbers(4, SIGNATURE, UNPACKED_CRC, ...SIZES)));
			zip.set(new Uint8Array(12), APP_AT + 14);
			return zip;
		})(),
	],
	["an extra field", withEntry(packed({ extra: joined(bytesOf(0x55, 0x54, 5, 0), patterned(5)) }))],
	["an extra field that is padding", withEntry(packed({ extra: new Uint8Array(64) }))],
	["ZIP64 sizes in a header that needs none", withEntry(packed({ extra: zip64Extra(UNPACKED_BYTES, PACKED.length) }))],
	[
		"ZIP64 sizes in a header",
		(() => {
			const zip = withEntry(packed({ extra: zip64Extra(UNPACKED_BYTES, PACKED.length) }));
			zip.set(numbers(4, 0xffffffff, 0xffffffff), APP_AT + 18);
			return zip;
		})(),
	],
	["a ZIP64 directory", zipOf([INDEX, { name: "app.js", content: CONTENT }], { zip64: true })],
	["a comment", zipOf([INDEX], { comment: text("made by hand") })],
	["folders of their own", withEntry({ name: "a/" }, { name: "a/b/" }, { name: "a/b/c.js", content: CONTENT })],
	["a folder after its file", withEntry({ name: "a/c.js", content: CONTENT }, { name: "a/" })],
	["a folder twice", withEntry({ name: "a/" }, { name: "a/" }, { name: "a/c.js", content: CONTENT })],
	[
		"a folder with deflated nothing",
		withEntry({ name: "a/", method: 8, content: bytesOf(3, 0), compressedBytes: 2, uncompressedBytes: 0, checksum: 0 }),
	],
	["names that start with ./", withEntry({ name: "./a.js", content: CONTENT })],
	["doubled slashes", withEntry({ name: "a//b.js", content: CONTENT })],
	["a dot in the path", withEntry({ name: "a/./b.js", content: CONTENT })],
	["names of dots", withEntry({ name: "...", content: CONTENT }, { name: "a/..b/c..", content: CONTENT })],
	["spaces, quotes and percent signs", named("a b/c'd\"e%20f.js")],
	["a line break in a name", named("a\nb.js")],
	["a leading blank and a trailing dot", named(" a./b .")],
	["names with the UTF-8 flag", named("ü/日本語/😀.js")],
	["a combining accent", named("e\u0301.js")],
	["right-to-left marks", named("\u202eabc.js")],
	["a name of 255 bytes", named(`${"é".repeat(127)}x`)],
	["a path of 800 bytes", named(`${"d".repeat(199)}/`.repeat(3) + "f".repeat(200))],
	["a colon later in a name", named("a/b:c.js")],
	["files made on DOS", withEntry({ ...packed(), madeBy: 0, unixMode: 0, dosAttributes: 0x20 })],
	[
		"a folder made on DOS",
		withEntry({ name: "a/", madeBy: 0, unixMode: 0, dosAttributes: 0x10 }, { name: "a/b.js", content: CONTENT }),
	],
	["a file without attributes", withEntry({ ...packed(), unixMode: 0 })],
	["an executable file", withEntry({ ...packed(), unixMode: 0o100755 })],
	[
		"two hundred files",
		withEntry(
			...Array.from({ length: 200 }, (_, index) => ({ name: `assets/${index}.js`, content: patterned(index) })),
		),
	],
	[
		"files that macOS adds",
		withEntry({ name: "__MACOSX/._index.html", content: CONTENT }, { name: ".DS_Store", content: CONTENT }),
	],
	[
		"bytes between the last file and the directory",
		zipOf([INDEX, { name: "app.js", content: CONTENT, after: patterned(40) }]),
	],
];

const UNFLAGGED: readonly (readonly [what: string, bytes: Uint8Array])[] = [
	["a UTF-8 name without the flag", named("é à.txt", { flags: 0 })],
	[
		"a UTF-8 folder without the flag",
		withEntry({ name: "ü/", flags: 0 }, { name: "ü/a.js", flags: 0, content: CONTENT }),
	],
	[
		"the flag in the directory alone",
		(() => {
			const zip = withEntry({ name: "ü.js", content: CONTENT });
			zip[APP_AT + 7] = 0;
			return zip;
		})(),
	],
	[
		"many UTF-8 names without the flag",
		withEntry(
			...Array.from({ length: 50 }, (_, index) => ({ name: `日本/${index}.js`, flags: 0, content: patterned(index) })),
		),
	],
	[
		"a UTF-8 name without the flag, with sizes after the content",
		withEntry(streamed(numbers(4, SIGNATURE, UNPACKED_CRC, ...SIZES), { name: "ü.js", flags: DESCRIPTOR })),
	],
];

const REFUSED: readonly (readonly [what: string, reason: ArchiveReason, bytes: Uint8Array])[] = [
	["a name in CP437", "invalid_name", named(bytesOf(0x9a, 0x62, 0x65, 0x72, 0x2e, 0x68), { flags: 0 })],
	["a name in Shift-JIS", "invalid_name", named(bytesOf(0x83, 0x65, 0x83, 0x58, 0x83, 0x67), { flags: 0 })],
	["a name in Latin-1 with the flag", "invalid_name", named(bytesOf(0xe9, 0x2e, 0x6a, 0x73))],
	["half of a surrogate pair", "invalid_name", named(bytesOf(0xed, 0xa0, 0xbd))],
	["an overlong name", "invalid_name", named(bytesOf(0xc0, 0xaf, 0x61))],
	["NUL in a name", "invalid_name", named("a\0b.js")],
	["an empty name", "invalid_name", named("")],
	["a dot as a name", "invalid_name", named(".")],
	["the folder itself", "root_folder", zipOf([{ name: "./" }, INDEX])],
	["a part of 256 bytes", "name_too_long", named(`a/${"é".repeat(128)}`)],
	["a folder of 300 bytes", "name_too_long", named(`${"d".repeat(300)}/b.js`)],
	["a backslash", "backslash_path", named("assets\\app.js")],
	["a parent folder", "parent_path", named("../app.js")],
	["a parent folder inside", "parent_path", named("a/../../app.js")],
	["a password", "encrypted_entry", withEntry({ name: "app.js", content: CONTENT, flags: UTF8 | 1 })],
	["a password in the header alone", "encrypted_entry", changed(6, bytesOf(1, 8))],
	["Deflate64", "unsupported_compression", withEntry(packed({ method: 9 }))],
	["BZIP2", "unsupported_compression", withEntry(packed({ method: 12 }))],
	["LZMA", "unsupported_compression", withEntry(packed({ method: 14 }))],
	["Zstandard", "unsupported_compression", withEntry(packed({ method: 93 }))],
	[
		"a stored file whose size follows",
		"stored_with_descriptor",
		withEntry({
			name: "app.js",
			content: CONTENT,
			flags: UTF8 | DESCRIPTOR,
			after: numbers(4, SIGNATURE, crc32.buf(CONTENT) >>> 0, CONTENT.length, CONTENT.length),
		}),
	],
	[
		"a stored folder whose size follows",
		"stored_with_descriptor",
		withEntry({ name: "a/", flags: UTF8 | DESCRIPTOR, after: numbers(4, SIGNATURE, 0, 0, 0) }),
	],
	[
		"a file that is a folder, too",
		"duplicate_name",
		withEntry({ name: "a", content: CONTENT }, { name: "a/b.js", content: CONTENT }),
	],
	[
		"a folder that is a file, too",
		"duplicate_name",
		withEntry({ name: "a/b.js", content: CONTENT }, { name: "a", content: CONTENT }),
	],
	["a false checksum of a stored file", "damaged_zip", withEntry({ name: "app.js", content: CONTENT, checksum: 1 })],
	["a false checksum of a deflated file", "damaged_zip", withEntry(packed({ checksum: 1 }))],
	["a false checksum in the header", "damaged_zip", changed(14, numbers(4, 1))],
	["a false checksum after the content", "damaged_zip", withEntry(streamed(numbers(4, SIGNATURE, 1, ...SIZES)))],
	[
		"a false size after the content",
		"damaged_zip",
		withEntry(streamed(numbers(4, SIGNATURE, UNPACKED_CRC, PACKED.length, 9))),
	],
	["no sizes after the content", "damaged_zip", withEntry(streamed(new Uint8Array()))],
	["a false unpacked size", "damaged_zip", withEntry(packed({ uncompressedBytes: UNPACKED_BYTES - 1 }))],
	["a false unpacked size that is larger", "damaged_zip", withEntry(packed({ uncompressedBytes: UNPACKED_BYTES + 1 }))],
	[
		"a size that the header leaves to a missing ZIP64 field",
		"damaged_zip",
		changed(18, numbers(4, 0xffffffff, 0xffffffff)),
	],
	["another name in the header", "damaged_zip", changed(30, text("b"))],
	["another method in the header", "damaged_zip", changed(8, bytesOf(8))],
	["no header where the directory says", "damaged_zip", changed(0, bytesOf(0))],
	["content that is no Deflate", "damaged_zip", withEntry(packed({ content: patterned(PACKED.length) }))],
	["Deflate that breaks off", "damaged_zip", withEntry(packed({ content: PACKED.slice(0, 20), compressedBytes: 20 }))],
	[
		"bytes after the end of Deflate",
		"damaged_zip",
		withEntry(packed({ content: joined(PACKED, patterned(7)), compressedBytes: PACKED.length + 7 })),
	],
	["bytes between two files", "damaged_zip", withEntry({ name: "app.js", content: CONTENT, after: patterned(9) })],
	[
		"a deleted file between two files",
		"damaged_zip",
		withEntry({ name: "app.js", content: CONTENT, after: hidden("old.js") }),
	],
	[
		"a file that only the headers name, at the end",
		"damaged_zip",
		zipOf([INDEX, { name: "app.js", content: CONTENT, after: hidden("old.js") }]),
	],
	["bytes before the first file", "damaged_zip", zipOf([INDEX], { before: patterned(64) })],
	[
		"bytes after the end",
		"damaged_zip",
		joined(zipOf([INDEX, { name: "last.js", content: CONTENT }]).slice(0, -22 - 100), patterned(30)),
	],
	["a zip that was cut off", "damaged_zip", withEntry({ name: "app.js", content: CONTENT }).slice(0, 3_000)],
	["text", "not_a_zip", text("<html></html>")],
	["nothing", "not_a_zip", new Uint8Array()],
	["gzip", "not_a_zip", joined(bytesOf(0x1f, 0x8b, 8, 0), patterned(200))],
];

const FOR_OTHERS: readonly (readonly [what: string, reason: ArchiveReason, bytes: Uint8Array])[] = [
	[
		"sizes of 64 bits after the content",
		"large_descriptor",
		withEntry(streamed(joined(numbers(4, SIGNATURE, UNPACKED_CRC), numbers(8, ...SIZES)))),
	],
	[
		"sizes of 64 bits without a signature",
		"large_descriptor",
		withEntry(streamed(joined(numbers(4, UNPACKED_CRC), numbers(8, ...SIZES)))),
	],
	["a false size in the header", "damaged_zip", changed(18, numbers(4, 11))],
	["false ZIP64 sizes in a header", "damaged_zip", withEntry(packed({ extra: zip64Extra(9, 9) }))],
	[
		"names that differ in case",
		"duplicate_name",
		withEntry({ name: "Icon.png", content: CONTENT }, { name: "icon.png", content: CONTENT }),
	],
	["names that differ in their Unicode form", "duplicate_name", withEntry({ name: "\u00e9" }, { name: "e\u0301" })],
	["a name twice", "duplicate_name", withEntry({ name: "a.js", content: CONTENT }, { name: "a.js", content: CONTENT })],
	[
		"a name in two spellings",
		"duplicate_name",
		withEntry({ name: "a.js", content: CONTENT }, { name: "./a.js", content: CONTENT }),
	],
	["a path of 801 bytes", "path_too_long", named(`${"d".repeat(199)}/`.repeat(3) + "f".repeat(201))],
	["a drive letter", "drive_letter_path", named("c:app.js")],
	["an absolute path", "absolute_path", named("/app.js")],
	["a symbolic link", "symlink", withEntry({ name: "a", unixMode: 0o120777, content: text("index.html") })],
	["a folder by its attributes", "ambiguous_type", withEntry({ name: "a", unixMode: 0o040755 })],
	["a file by its attributes", "ambiguous_type", withEntry({ name: "a/", unixMode: 0o100644 })],
	[
		"a folder by its attributes of DOS",
		"ambiguous_type",
		withEntry({ name: "a", madeBy: 0, unixMode: 0, dosAttributes: 0x10 }),
	],
	["no start page", "missing_index_html", zipOf([{ name: "app.js", content: CONTENT }])],
	["a start page in a folder", "index_html_in_folder", zipOf([{ name: "dist/index.html", content: CONTENT }])],
	[
		"a split archive",
		"split_zip",
		(() => {
			const zip = zipOf([INDEX]);
			zip[zip.length - 18] = 1;
			return zip;
		})(),
	],
];

export const ODD_ARCHIVES: readonly OddArchive[] = [
	...ACCEPTED.map(([what, bytes]) => ({ what, bytes })),
	...UNFLAGGED.map(([what, bytes]) => ({ what, bytes, isUnflagged: true as const })),
	...REFUSED.map(([what, reason, bytes]) => ({ what, reason, bytes })),
	...FOR_OTHERS.map(([what, reason, bytes]) => ({ what, reason, bytes, isForOthers: true as const })),
];
