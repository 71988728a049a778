/**
 * Field types of requests and answers. Unknown fields of a request are ignored, and an optional
 * field that is null is absent (`optional`), unless null has a meaning (`nullable`).
 */

import parseVersion from "semver/functions/parse";
import * as v from "valibot";
import { CUSTOM_ROLE_NAME } from "../authz/custom-roles";
import { MOST_PREVIEW_DAYS } from "../domain/defaults";
import { isReservedAddress } from "../domain/network/reserved-address";
import { DAY_MS } from "../domain/time";
import { ENDING_SETTINGS } from "../domain/updates/refusals";
import { EVENT_TYPES } from "../domain/webhooks/event-types";
import { plainText } from "../domain/words/plain-text";

export const PAGE_SIZE = 50;
const LONGEST_TEXT = 512;

/** An optional field; null counts as absent. */
export function optional<const Schema extends v.GenericSchema>(schema: Schema) {
	return v.pipe(
		v.nullish(schema),
		v.transform((value): v.InferOutput<Schema> | undefined => value ?? undefined),
	);
}

/**
 * A list whose length is checked before its items, because an answer names each wrong item. The
 * document of the API has the items and the length.
 */
export function shortList<const Item extends v.GenericSchema>(item: Item, most: number, message: string) {
	const list = v.pipe(v.array(item), v.maxLength(most, message));
	const length = v.pipe(v.array(v.unknown()), v.maxLength(most, message));
	const run: (typeof list)["~run"] = (dataset, config) => {
		const checked = length["~run"]({ value: dataset.value }, config);
		return checked.issues === undefined ? list["~run"](dataset, config) : { ...checked, typed: false };
	};
	return { ...list, "~run": run };
}

/** Any text, also an empty one, as devices and links send it. */
export const textUpTo = (longest: number) =>
	v.pipe(v.string(), v.maxLength(longest, `must have at most ${longest} characters`));

export const text = (longest = LONGEST_TEXT) =>
	v.pipe(
		v.string(),
		v.minLength(1, "must not be empty"),
		v.maxLength(longest, `must have at most ${longest} characters`),
		// Lone surrogates cannot be stored as UTF-8, and NUL ends strings in many tools.
		v.check((value) => value.isWellFormed() && !value.includes("\0"), "must be valid Unicode text without NUL"),
	);

/** Text for people, without surrounding space and characters that only disturb its display. */
export const label = (longest = 128) =>
	v.pipe(text(longest), v.transform(plainText), v.trim(), v.minLength(1, "must not be blank"));

// Patterns have no flags, because JSON Schema cannot express them.
export const uuid = v.pipe(
	v.string(),
	v.regex(/^[0-9a-fA-F]{8}-([0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}$/, "must be a UUID"),
	v.toLowerCase(),
);

/**
 * The id of a device as a caller names it. Updaters send UUIDs, which are compared in lower case;
 * other ids may be prepared for clients that have their own.
 */
export const deviceIdOfRequest = v.pipe(
	v.string(),
	v.regex(/^[\x21-\x7e]{1,64}$/, "must have 1 to 64 printable characters without spaces"),
	v.transform((id) => (v.is(uuid, id) ? id.toLowerCase() : id)),
);

/** The public reverse-domain id of an app. */
export const publicAppId = v.pipe(
	v.string(),
	v.maxLength(128, "must have at most 128 characters"),
	v.regex(/^[a-zA-Z0-9]+(\.[\w-]+)+$/, 'must be a reverse-domain id such as "com.example.app"'),
);

export const channelName = v.pipe(
	text(128),
	// Names are part of URLs and of filters of the stock CLI.
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

/** A link for people, so http is allowed; credentials in it would be public. */
export const webUrl = v.pipe(
	text(2048),
	v.check(
		(value) => isShowable(value, ["http:", "https:"]),
		"must be an http or https address without a user name or password",
	),
);

/** An image that pages show. */
export const imageUrl = v.pipe(
	text(2048),
	v.check((value) => isShowable(value, ["https:"]), "must be an https address without a user name or password"),
);

/** Address of an app's page in a store. */
export const storeUrl = imageUrl;

/** A boolean that the stock CLI sends as text, as typed on its command line. */
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

/** An e-mail address; case-insensitive. */
export const emailAddress = v.pipe(
	text(254),
	v.trim(),
	v.email('must be an e-mail address such as "ada@example.com"'),
	v.toLowerCase(),
);

/** An e-mail address that is not reserved for the service itself. */
export const personsAddress = v.pipe(
	emailAddress,
	v.check((email) => !isReservedAddress(email), "is reserved for the service itself; use the person's own address"),
);

/** RFC 3339 time; epoch milliseconds inside. */
export const timestamp = v.pipe(
	v.string(),
	v.regex(
		/^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}(:\d{2}(\.\d+)?)?(Z|[+-]\d{2}:\d{2})$/,
		'must be an RFC 3339 time such as "2030-01-31T00:00:00Z"',
	),
	v.check((value) => {
		const [year = 0, month = 0, day = 0] = value.split(/[-T]/).map(Number);
		// Date.parse accepts February 31st as March 3rd.
		const dayExists = new Date(Date.UTC(year, month - 1, day)).getUTCDate() === day;
		const atMs = Date.parse(value);
		// An offset can lead to a year beyond four digits, which RFC 3339 cannot express.
		return dayExists && !Number.isNaN(atMs) && /^\d{4}-/.test(new Date(atMs).toISOString());
	}, "must be a valid time"),
	v.transform((value) => Date.parse(value)),
);

/** A day of UTC; its first millisecond inside. */
export const day = v.pipe(
	v.string(),
	v.isoDate(),
	v.check((value) => {
		const atMs = Date.parse(`${value}T00:00:00Z`);
		// Date.parse accepts February 30th as March 2nd.
		return !Number.isNaN(atMs) && new Date(atMs).toISOString().startsWith(value);
	}),
	v.transform((value) => Date.parse(`${value}T00:00:00Z`)),
);

const timeOrDay = (lengthOfDayMs: number) =>
	v.union(
		[
			v.pipe(
				day,
				v.transform((atMs) => atMs + lengthOfDayMs),
			),
			timestamp,
		],
		'must be an RFC 3339 time such as "2026-11-21T08:00:00Z", or a day that exists, such as "2026-11-21"',
	);

/** A time, or the first millisecond of a day in UTC. */
export const fromTime = timeOrDay(0);
/** A time, or the last millisecond of a day in UTC. */
export const toTime = timeOrDay(DAY_MS - 1);

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

/** A page number where absence differs from page 0. */
export const pageNumberIfAny = v.pipe(
	v.string(),
	v.regex(/^\d{1,9}$/, "must be a whole number, 0 or more"),
	v.transform(Number),
);

/** Items per page. */
export const pageLimit = (most: number) =>
	v.pipe(
		v.string(),
		v.regex(/^[1-9]\d{0,5}$/, `must be a whole number from 1 to ${most}`),
		v.transform(Number),
		v.maxValue(most, `must be a whole number from 1 to ${most}`),
	);

/** Items on a page of a list that has rows of a few hundred bytes. */
export const MOST_ITEMS_PER_PAGE = 1_000;
export const itemsPerPage = optional(pageLimit(MOST_ITEMS_PER_PAGE));

/** The query of a signed link. Without a signature the link is invalid, not the request. */
export const linkQuery = v.object({
	expires: v.pipe(v.optional(v.string(), "0"), v.regex(/^\d{1,12}$/, "must be as in the link")),
	signature: v.optional(v.pipe(v.string(), v.maxLength(64, "must be as in the link")), ""),
});

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

/** Keys and people whose access to a preview channel ended, because it is no longer a preview. */
export const previewAccessEnded = v.array(v.strictObject({ id: v.string(), name: v.string() }));

/** Time to live of a preview after its last upload. */
export const previewDays = v.pipe(
	v.number(),
	v.integer("must be a whole number of days"),
	v.minValue(1, "must be at least 1 day"),
	v.maxValue(MOST_PREVIEW_DAYS, `must be at most ${MOST_PREVIEW_DAYS} days`),
);

/** Events that a webhook or a person chooses. */
export const eventsField = shortList(
	v.picklist(EVENT_TYPES, `must be one of ${EVENT_TYPES.join(", ")}`),
	EVENT_TYPES.length,
	"names each event once",
);

/** The name of a role that an organization defines; whether it does is checked with the data. */
export const customRoleName = v.pipe(
	v.string(),
	v.regex(CUSTOM_ROLE_NAME, "must be 2 to 30 lower-case letters, digits and hyphens, and begin with a letter"),
);

type OptionalLiteral<Value extends string | boolean> = v.OptionalSchema<v.LiteralSchema<Value, undefined>, undefined>;
const optionalLiterals = <const Values extends Readonly<Record<string, string | boolean>>>(values: Values) =>
	Object.fromEntries(Object.entries(values).map(([name, value]) => [name, v.optional(v.literal(value))])) as {
		readonly [Name in keyof Values]: OptionalLiteral<Values[Name]>;
	};

/** Settings of POST /channel that end a refusal of update checks. */
export const refusalSettings = optionalLiterals(ENDING_SETTINGS);
