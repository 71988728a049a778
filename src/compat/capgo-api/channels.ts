/**
 * Channels as Capgo's scripts name them.
 */
import * as v from "valibot";
import { listChannels, setChannel } from "../../features/channels/routes";
import { optional } from "../../http/schemas";
import type { RawInput } from "../../http/scope";
import { bodyOf, digits, type Fields, recordsWith, withForm, withRecordFields } from "./form";

/**
 * A rollout is computed at each check and never cached, and the health gate keeps its times
 * elsewhere.
 */
const ABSENT = {
	rolloutCacheTtlSeconds: v.literal(0),
	autoPauseLastTriggeredAt: v.null(),
	autoPauseLastCheckedAt: v.null(),
} as const;

export const listChannelsForm = withForm(listChannels, {
	response: (own) => withRecordFields(own, ABSENT),
	answer: recordsWith(() => ({
		rolloutCacheTtlSeconds: 0 as const,
		autoPauseLastTriggeredAt: null,
		autoPauseLastCheckedAt: null,
	})),
});

const CACHE_TIMES = ["rolloutCacheTtlSeconds", "rollout_cache_ttl_seconds"] as const;
const BUNDLES = ["rolloutVersion", "rollout_version"] as const;

/** A version is SemVer, so digits alone are the id of a bundle. */
function read(raw: RawInput): RawInput {
	const body = bodyOf(raw);
	const ids = BUNDLES.filter((name) => body[name] !== undefined).map((name) => [name, digits(body[name])]);
	return ids.length === 0 ? raw : { ...raw, body: { ...body, ...Object.fromEntries(ids) } };
}

/** The flag of 2023 that a choice replaced. */
function withoutFlag({ disableAutoUpdateToMajor: flag, ...fields }: Fields): Fields {
	const own = Object.fromEntries(Object.entries(fields).filter(([name]) => !CACHE_TIMES.some((time) => time === name)));
	if (typeof flag !== "boolean" || own.disableAutoUpdate !== undefined) return own;
	return { ...own, disableAutoUpdate: flag ? "major" : "none" };
}

function withoutEffect(raw: RawInput): string[] {
	const body = bodyOf(raw);
	const isGiven = (name: string) => body[name] !== undefined && body[name] !== null;
	return [
		...CACHE_TIMES.filter(isGiven),
		...(isGiven("disableAutoUpdateToMajor") && isGiven("disableAutoUpdate") ? ["disableAutoUpdateToMajor"] : []),
	];
}

const seconds = optional(
	v.pipe(v.number(), v.integer("must be a whole number of seconds"), v.minValue(0, "must not be negative")),
);

export const setChannelForm = withForm(setChannel, {
	body: {
		entries: {
			disableAutoUpdateToMajor: optional(v.boolean()),
			rolloutCacheTtlSeconds: seconds,
			rollout_cache_ttl_seconds: seconds,
		},
		translate: withoutFlag,
		kept: Object.fromEntries(CACHE_TIMES.map((name) => [name, name])),
	},
	forms: { read, withoutEffect },
	response: (own) => withRecordFields(own, { rolloutCacheTtlSeconds: v.optional(v.unknown()) }),
	answer: recordsWith((_, { input }) => {
		const time = CACHE_TIMES.map((name) => input.body?.[name]).find((value) => typeof value === "number");
		return time === undefined ? {} : { rolloutCacheTtlSeconds: time };
	}),
	description: [
		"`disableAutoUpdateToMajor: true` is `disableAutoUpdate: major`.",
		"A time for which clients of other services cache a rollout",
		"is accepted without effect, because each check computes it.",
	],
});
