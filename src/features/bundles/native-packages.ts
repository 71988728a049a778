/**
 * Native packages in requests and answers: the list that an uploader sends with a bundle. Its size
 * is bounded, because every comparison reads it; src/domain/bundles/native-packages.ts compares.
 */
import * as v from "valibot";
import { packagesText } from "../../domain/bundles/native-packages";
import { optional, shortList, text } from "../../http/schemas";

const MOST_PACKAGES = 500;
const MOST_CHARACTERS = 65_536;

/** npm allows names of 214 characters. */
const LONGEST_NAME = 214;
const checksum = v.pipe(v.string(), v.regex(/^[0-9a-fA-F]{64}$/, "must be a SHA-256, 64 hexadecimal digits"));

const nativePackage = v.object({
	name: text(LONGEST_NAME),
	version: text(128),
	requested_version: optional(text()),
	ios_checksum: optional(checksum),
	android_checksum: optional(checksum),
});

/** In a request; the stored text inside. */
export const nativePackagesField = v.pipe(
	shortList(nativePackage, MOST_PACKAGES, `must have at most ${MOST_PACKAGES} packages`),
	v.check(
		(packages) => new Set(packages.map(({ name }) => name)).size === packages.length,
		"must name each package once",
	),
	v.transform((packages) => packagesText(packages)),
	v.maxLength(MOST_CHARACTERS, `must have at most ${MOST_CHARACTERS} characters as JSON`),
);

/** In an answer. */
export const nativePackages = v.nullable(
	v.array(
		v.strictObject({
			name: v.string(),
			version: v.string(),
			requested_version: v.optional(v.string()),
			ios_checksum: v.optional(v.string()),
			android_checksum: v.optional(v.string()),
		}),
	),
);
