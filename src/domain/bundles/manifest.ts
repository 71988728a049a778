/**
 * Which file names a manifest may have: those that Android and iOS write to one place each. A
 * device that cannot write one of them installs nothing of the bundle, and tries again at every
 * check.
 */
import { BundleArchiveError } from "./archive-errors";
import { byteLengthOf, hasLongPart, isLongPath, NameIndex } from "./names";

/**
 * Devices keep a downloaded file as `<SHA-256>_<name>`, which has 65 bytes before the name and may
 * have 255 in all.
 */
const MOST_NAME_BYTES = 190;

/**
 * The file that a device writes for an entry of a manifest: it decompresses `app.js.br` to
 * `app.js`.
 */
const targetOf = (fileName: string): string => fileName.replace(/\.br$/, "");

/**
 * Why no device can write the file; undefined if all can. The text continues the name of a field.
 */
export function unwritableName(fileName: string): string | undefined {
	const target = targetOf(fileName);
	const parts = target.split("/");
	if (/^[/\\]|^[a-z]:|\\|\0/i.test(fileName) || parts.some((part) => ["", ".", ".."].includes(part)))
		return "must be a relative path without empty parts, backslashes, . or .. in it";
	if (hasLongPart(target)) return "must have at most 255 bytes between two slashes, which devices can write";
	if (byteLengthOf(parts.at(-1) ?? "") > MOST_NAME_BYTES)
		return `must end with a name of at most ${MOST_NAME_BYTES} bytes, because devices write a hash before it`;
	if (isLongPath(target)) return "must be a shorter path, because iOS cannot write it";
	return undefined;
}

/** Files that a device would write to one path, or one into the other. */
export function collidingNames(
	fileNames: readonly string[],
): readonly { readonly index: number; readonly message: string }[] {
	const names = new NameIndex();
	const found: { index: number; message: string }[] = [];
	for (const [index, fileName] of fileNames.entries()) {
		try {
			names.add({ name: targetOf(fileName), isDirectory: false });
		} catch (error) {
			if (!(error instanceof BundleArchiveError)) throw error;
			const other = error.facts.other_entry ?? "";
			const message =
				other === fileName
					? "is named twice"
					: `is the same file as ${other} on a device, which decompresses .br and may ignore case, or one is the other's folder; rename one of them, and leave precompressed files out of the build`;
			found.push({ index, message });
		}
	}
	return found;
}
