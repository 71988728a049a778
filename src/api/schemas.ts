/**
 * The field types that requests and answers are made of. Two rules hold for every request: unknown fields are ignored, and an optional
 * field that is null is absent (`optional`), unless null means something of its own (`nullable`).
 */
import parseVersion from "semver/functions/parse";
import * as v from "valibot";
import { isReservedAddress } from "../domain/reserved-address";

export const PAGE_SIZE = 50;
const LONGEST_TEXT = 512;

/** A field that may be left out; null counts as left out. */
export function optional<const Schema extends v.GenericSchema>(schema: Schema) {
	return v.pipe(
		v.nullish(schema),
		v.transform((value): v.InferOutput<Schema> | undefined => value ?? undefined),
	);
}

export const text = (longest = LONGEST_TEXT) =>
	v.pipe(
		v.string(),
		v.minLength(1, "must not be empty"),
		v.maxLength(longest, `must have at most ${longest} characters`),
		// Lone surrogates cannot be stored as UTF-8, and NUL ends strings in too many tools.
		v.check((value) => value.isWellFormed() && !value.includes("\0"), "must be valid Unicode text without NUL"),
	);

/** Text that people read, free of surrounding space. */
export const label = (longest = 128) => v.pipe(text(longest), v.trim(), v.minLength(1, "must not be blank"));

// Patterns carry no flags: openapi.json cannot say them, and would refuse what is taken here.
export const uuid = v.pipe(
	v.string(),
	v.regex(/^[0-9a-fA-F]{8}-([0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}$/, "must be a UUID"),
	v.toLowerCase(),
);

/** The public reverse-domain id of an app. */
export const publicAppId = v.pipe(
	v.string(),
	v.maxLength(128, "must have at most 128 characters"),
	v.regex(/^[a-zA-Z0-9]+(\.[\w-]+)+$/, 'must be a reverse-domain id such as "com.example.app"'),
);

export const channelName = v.pipe(
	text(128),
	// Names stand in URLs and in filters of the stock CLI.
	v.regex(/^[\w.\-/@+ ]+$/, "may contain letters, digits, spaces and . _ - / @ +"),
	v.check((name) => name.trim() === name, "must not begin or end with a space"),
	v.check((name) => !["builtin", "unknown"].includes(name), "is a reserved name; choose another"),
);

/** SemVer 2.0 without a leading v. */
export const bundleVersion = v.pipe(
	text(128),
	v.check(
		(version) => /^\d\S*$/.test(version) && parseVersion(version)?.raw === version && !/^[v=]/.test(version),
		'must be SemVer such as "1.2.3"',
	),
);

export const integerId = v.pipe(v.number(), v.safeInteger("must be a whole number"), v.minValue(1, "must be positive"));

export const httpsUrl = v.pipe(
	text(2048),
	v.check((value) => URL.canParse(value) && new URL(value).protocol === "https:", "must be an https address"),
);

const isShowable = (value: string, protocols: readonly string[]) => {
	if (!URL.canParse(value)) return false;
	const { protocol, username, password } = new URL(value);
	return protocols.includes(protocol) && username === "" && password === "";
};

/** Where people look, so http is good enough; credentials in it would be shown to everybody. */
export const webUrl = v.pipe(
	text(2048),
	v.check(
		(value) => isShowable(value, ["http:", "https:"]),
		"must be an http or https address without a user name or password",
	),
);

/** A picture that pages show. */
export const imageUrl = v.pipe(
	text(2048),
	v.check((value) => isShowable(value, ["https:"]), "must be an https address without a user name or password"),
);

/** Address of an app's page in a store. */
export const storeUrl = imageUrl;

/** A switch that the stock CLI sends as the word of its command line. */
export const switchValue = v.union(
	[
		v.boolean(),
		v.pipe(
			v.picklist(["true", "false"]),
			v.transform((value) => value === "true"),
		),
	],
	"must be true or false",
);

/** An address of a person; upper and lower case are the same person. */
export const emailAddress = v.pipe(
	text(254),
	v.trim(),
	v.email('must be an e-mail address such as "ada@example.com"'),
	v.toLowerCase(),
);

/** The address of a person other than the operator: those of the service itself can be neither invited nor taken. */
export const personsAddress = v.pipe(
	emailAddress,
	v.check((email) => !isReservedAddress(email), "is reserved for the service itself; use an address of the person"),
);

/** A point in time in the future or the past, RFC 3339; epoch milliseconds inside. */
export const timestamp = v.pipe(
	v.string(),
	v.regex(
		/^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}(:\d{2}(\.\d+)?)?(Z|[+-]\d{2}:\d{2})$/,
		'must be an RFC 3339 time such as "2030-01-31T00:00:00Z"',
	),
	v.check((value) => {
		const [year = 0, month = 0, day = 0] = value.split(/[-T]/).map(Number);
		// Date.parse takes February 31st for March 3rd.
		const dayExists = new Date(Date.UTC(year, month - 1, day)).getUTCDate() === day;
		const atMs = Date.parse(value);
		// An offset can lead to a year that is no longer written with four digits, and so to a time that could not be told.
		return dayExists && !Number.isNaN(atMs) && /^\d{4}-/.test(new Date(atMs).toISOString());
	}, "must be a time that exists"),
	v.transform((value) => Date.parse(value)),
);

/** A day of UTC; its first millisecond inside. */
export const day = v.pipe(
	v.string(),
	v.isoDate(),
	v.check((value) => {
		const atMs = Date.parse(`${value}T00:00:00Z`);
		// Date.parse takes February 30th for March 2nd.
		return !Number.isNaN(atMs) && new Date(atMs).toISOString().startsWith(value);
	}),
	v.transform((value) => Date.parse(`${value}T00:00:00Z`)),
);

/** `true` or `false` in a query string. */
export const booleanText = v.pipe(
	v.picklist(["true", "false"], "must be true or false"),
	v.transform((value) => value === "true"),
);

/** A zero-based page number in a query string. */
export const pageNumber = v.pipe(
	v.optional(v.string(), "0"),
	v.regex(/^\d{1,9}$/, "must be a whole number, 0 or more"),
	v.transform(Number),
);

/** The same where leaving it out says something else than page 0. */
export const pageNumberIfAny = v.pipe(
	v.string(),
	v.regex(/^\d{1,9}$/, "must be a whole number, 0 or more"),
	v.transform(Number),
);

/** How many items a page is to hold. */
export const pageLimit = (most: number) =>
	v.pipe(
		v.string(),
		v.regex(/^[1-9]\d{0,5}$/, `must be a whole number from 1 to ${most}`),
		v.transform(Number),
		v.maxValue(most, `must be a whole number from 1 to ${most}`),
	);

/** In answers: RFC 3339 UTC. */
export const time = v.pipe(v.string(), v.isoTimestamp());
export const nullableTime = v.nullable(time);

export const acknowledgement = v.strictObject({ status: v.literal("ok") });
export const OK = { status: "ok" } as const;

/** In the answer of a dry run. */
export const bundleGoingSchema = v.strictObject({
	id: v.number(),
	version: v.string(),
	size: v.nullable(v.number()),
	devices: v.number(),
});

export function rfc3339(epochMs: number): string {
	return new Date(epochMs).toISOString();
}

export function nullableRfc3339(epochMs: number | null): string | null {
	return epochMs === null ? null : rfc3339(epochMs);
}

/** Keys and people that lost their power over a preview channel, because it is more than a preview now. */
export const previewAccessEnded = v.array(v.strictObject({ id: v.string(), name: v.string() }));
