/**
 * Why a zip is refused as a bundle: the reason for programs, and a message for people that names
 * the defect and then the fix.
 */

/** Every reason for which a zip is refused, as `moreInfo.reason` gives it. */
export type ArchiveReason =
	| "not_a_zip"
	| "damaged_zip"
	| "split_zip"
	| "encrypted_entry"
	| "unsupported_compression"
	| "stored_with_descriptor"
	| "absolute_path"
	| "parent_path"
	| "drive_letter_path"
	| "backslash_path"
	| "invalid_name"
	| "name_too_long"
	| "path_too_long"
	| "root_folder"
	| "ambiguous_type"
	| "large_descriptor"
	| "missing_utf8_flag"
	| "symlink"
	| "duplicate_name"
	| "too_many_entries"
	| "directory_too_large"
	| "uncompressed_too_large"
	| "missing_index_html"
	| "index_html_in_folder";

/** Details for programs, beside the message. */
interface ArchiveFacts {
	readonly entry?: string;
	readonly other_entry?: string;
	readonly folder?: string;
	readonly limit?: number;
}

export class BundleArchiveError extends Error {
	override readonly name = "BundleArchiveError";
	constructor(
		readonly reason: ArchiveReason,
		message: string,
		readonly facts: ArchiveFacts = {},
	) {
		super(message);
	}
}

/**
 * iOS allows 1,024 bytes for a whole path; the folders of the app take up to 190, those of the
 * simulator included.
 */
export const MOST_PATH_BYTES = 800;

const MOST_SHOWN = 200;
const shown = (name: string) => (name.length > MOST_SHOWN ? `${name.slice(0, MOST_SHOWN)}…` : name).toWellFormed();
export const quoted = (name: string) => JSON.stringify(shown(name));

export function notAZip(): BundleArchiveError {
	return new BundleArchiveError(
		"not_a_zip",
		"The file is not a zip archive. Upload a zip of the built web app, with index.html at its top.",
	);
}

export function damaged(what: string): BundleArchiveError {
	return new BundleArchiveError("damaged_zip", `The zip is damaged: ${what}. Create it again and upload the new file.`);
}

export function splitZip(): BundleArchiveError {
	return new BundleArchiveError(
		"split_zip",
		"The zip is one part of a split archive. Create it as a single file and upload that.",
	);
}

/** Defects of one entry, by the reason; each text gets the quoted name. */
const ENTRY_DEFECTS = {
	encrypted_entry: (name: string) =>
		`${name} is encrypted with a password, which devices do not have. Create the zip without a password; encrypt bundles with the CLI's key instead.`,
	stored_with_descriptor: (name: string) =>
		`${name} is stored without compression and its size follows its content, which Android cannot unpack. Create the zip with the Deflate method, or from files instead of a stream.`,
	invalid_name: (name: string) =>
		`The name ${name} is empty, contains NUL or is not valid UTF-8, which Android cannot unpack. Rename the file, or create the zip with capstan release, Python or 7-Zip.`,
	name_too_long: (name: string) =>
		`A part of the path ${name} has more than 255 bytes, which devices cannot write. Shorten the name and create the zip again.`,
	path_too_long: (name: string) =>
		`The path ${name} has more than ${MOST_PATH_BYTES} bytes, which iOS cannot write. Shorten it and create the zip again.`,
	root_folder: (name: string) =>
		`The entry ${name} is the build folder itself, which Android refuses. Create the zip from the files in the folder: zip -r ../bundle.zip .`,
	ambiguous_type: (name: string) =>
		`${name} is a file by its name and a folder by its attributes, or the reverse, so devices disagree. Create the zip again with another tool.`,
	large_descriptor: (name: string) =>
		`The sizes after ${name} have 64 bits, which Android cannot read. Create the zip from files instead of a stream.`,
	missing_utf8_flag: (name: string) =>
		`The name ${name} has no UTF-8 flag, so iOS reads another name, and the zip cannot be corrected because its checksum is given or it is on another server. Leave the checksum out, or create the zip with capstan release, Python or 7-Zip.`,
	backslash_path: (name: string) =>
		`The name ${name} contains a backslash, which devices refuse. Create the zip with a tool that separates folders by "/".`,
	absolute_path: (name: string) =>
		`The name ${name} is an absolute path. Create the zip inside the build folder: zip -r ../bundle.zip .`,
	drive_letter_path: (name: string) =>
		`The name ${name} begins with a drive letter. Create the zip with paths relative to the build folder.`,
	parent_path: (name: string) =>
		`The name ${name} leads out of the bundle with "..". Create the zip inside the build folder: zip -r ../bundle.zip .`,
	symlink: (name: string) =>
		`${name} is a symbolic link, which devices do not unpack. Replace it with the file (zip does so without -y).`,
} satisfies Partial<Record<ArchiveReason, (name: string) => string>>;

export function entryDefect(reason: keyof typeof ENTRY_DEFECTS, name: string): BundleArchiveError {
	return new BundleArchiveError(reason, ENTRY_DEFECTS[reason](quoted(name)), { entry: shown(name) });
}

export function unsupportedCompression(name: string, method: number): BundleArchiveError {
	return new BundleArchiveError(
		"unsupported_compression",
		`${quoted(name)} is compressed with method ${method}, which devices cannot unpack. Create the zip with the Deflate method.`,
		{ entry: shown(name) },
	);
}

export function duplicateName(name: string, other: string): BundleArchiveError {
	return new BundleArchiveError(
		"duplicate_name",
		name === other
			? `The name ${quoted(name)} is in the zip twice. Create the zip again from an empty file.`
			: `${quoted(name)} and ${quoted(other)} are the same path on Windows and macOS, or one is the other's folder. Rename one of them.`,
		{ entry: shown(name), other_entry: shown(other) },
	);
}

export function tooManyEntries(entries: number, limit: number): BundleArchiveError {
	return new BundleArchiveError(
		"too_many_entries",
		`The zip has ${entries} entries; at most ${limit} are accepted. Leave out what the app does not load, such as source maps.`,
		{ limit },
	);
}

export function directoryTooLarge(limit: number): BundleArchiveError {
	return new BundleArchiveError(
		"directory_too_large",
		`The names in the zip take more than ${limit} bytes. Shorten the paths or leave out what the app does not load.`,
		{ limit },
	);
}

export function uncompressedTooLarge(limit: number): BundleArchiveError {
	return new BundleArchiveError(
		"uncompressed_too_large",
		`The zip unpacks to more than ${limit} bytes. Leave out what the app does not load, such as source maps and original media.`,
		{ limit },
	);
}

/** @param startPath the path nearest to the top that may be meant as the start page */
export function missingIndexHtml(startPath: string | undefined): BundleArchiveError {
	if (startPath === undefined) {
		return new BundleArchiveError(
			"missing_index_html",
			"There is no index.html at the top of the zip. Zip the contents of the folder that your web build writes: zip -r ../bundle.zip .",
		);
	}
	const folder = startPath.slice(0, Math.max(0, startPath.lastIndexOf("/")));
	if (folder === "") {
		return new BundleArchiveError(
			"missing_index_html",
			`The start page is named ${quoted(startPath)}, and devices look for index.html. Rename it.`,
			{ entry: shown(startPath) },
		);
	}
	return new BundleArchiveError(
		"index_html_in_folder",
		`index.html is in the folder ${quoted(folder)} and not at the top of the zip. Zip the contents of that folder instead of the folder: cd ${quoted(folder)} && zip -r ../bundle.zip .`,
		{ folder: shown(folder), entry: shown(startPath) },
	);
}
