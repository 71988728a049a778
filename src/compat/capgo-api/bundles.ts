/**
 * Bundles as Capgo's scripts name them.
 */
import * as v from "valibot";
import { bundleListSchema, bundleTotalsSchema, listBundles } from "../../features/bundles/list";
import { changeMetadata } from "../../features/bundles/metadata";
import { promoteBundle } from "../../features/bundles/promote";
import { registerBundle } from "../../features/bundles/register";
import { optional, textUpTo } from "../../http/schemas";
import type { RawInput } from "../../http/scope";
import { type Asked, bodyOf, digits, type Fields, recordsWith, unlessTotals, withForm, withRecordFields } from "./form";

const FURTHER = {
	minUpdateVersion: v.nullable(v.string()),
	owner_org: v.string(),
	deleted: v.literal(false),
	user_id: v.null(),
	bucket_id: v.null(),
	r2_path: v.null(),
} as const;

const further = (record: Fields, { scope }: Asked): Fields => ({
	minUpdateVersion: record.min_update_version,
	owner_org: scope.orgId,
	deleted: false,
	user_id: null,
	bucket_id: null,
	r2_path: null,
});

export const listBundlesForm = withForm(listBundles, {
	response: () => v.union([withRecordFields(bundleListSchema, FURTHER), bundleTotalsSchema]),
	answer: unlessTotals(recordsWith(further)),
});

/**
 * CRC-32, which older clients send for the file of an address; the server computes the SHA-256 of
 * the file instead.
 */
const isCrc32 = (checksum: unknown) => typeof checksum === "string" && /^[\da-f]{1,8}$/i.test(checksum);
const isUnverified = ({ checksum, external_url, session_key }: Fields) =>
	isCrc32(checksum) && typeof external_url === "string" && (session_key ?? null) === null;

const UNVERIFIED = "checksum is no SHA-256, so it was not compared; the record has the SHA-256 of the file.";

export const registerBundleForm = withForm(registerBundle, {
	body: {
		entries: { checksum: optional(textUpTo(2048)) },
		translate(fields) {
			if (!isUnverified(fields)) return fields;
			const { checksum: _, ...rest } = fields;
			return rest;
		},
		kept: { checksum: "sent_checksum" },
	},
	forms: { withoutEffect: (raw) => (isUnverified(bodyOf(raw)) ? ["checksum"] : []) },
	response(own) {
		const record = withRecordFields(own, FURTHER);
		return withRecordFields(record, {
			status: v.literal("success"),
			bundle: record,
			warning: v.optional(v.string()),
		});
	},
	answer(own, asked) {
		const record = { ...(own as Fields), ...further(own as Fields, asked) };
		const { sent_checksum: checksum, ...body } = asked.input.body ?? {};
		const warning = isUnverified({ ...body, checksum }) ? { warning: UNVERIFIED } : {};
		return { status: "success", ...record, bundle: record, ...warning };
	},
	description:
		"`bundle` in the answer is the record again. With `external_url` a checksum of another kind than SHA-256 is accepted and not compared (`warning`).",
});

const IDS = ["version_id", "channel_id"] as const;

/** Ids may come as digits in a text. */
function withNumbers(raw: RawInput): RawInput {
	const body = bodyOf(raw);
	const ids = IDS.filter((name) => body[name] !== undefined).map((name) => [name, digits(body[name])]);
	return ids.length === 0 ? raw : { ...raw, body: { ...body, ...Object.fromEntries(ids) } };
}

export const promoteBundleForm = withForm(promoteBundle, { forms: { read: withNumbers } });
export const changeMetadataForm = withForm(changeMetadata, { forms: { read: withNumbers } });
