/**
 * A preview in requests and answers.
 */
import * as v from "valibot";
import type { PreviewRow } from "../../db/previews";
import { LARGEST_NUMBER, REPOSITORY_PATH } from "../../domain/ci/context";
import { nullableRfc3339, nullableTime, optional, rfc3339, text, time, timestamp } from "../../http/schemas";
import type { CountedPreview } from "./devices";

/**
 * `owner/name` as GitHub, or a path of groups as GitLab has it. Ids that differ only in case are
 * the same repository.
 */
export const repositoryName = v.pipe(
	text(256),
	v.regex(REPOSITORY_PATH, 'must be the path of a repository, such as "acme/shop"'),
	v.toLowerCase(),
);
export const requestNumber = v.pipe(
	v.number(),
	v.integer("must be a whole number"),
	v.minValue(1, "must be positive"),
	v.maxValue(LARGEST_NUMBER, `must be at most ${LARGEST_NUMBER}`),
);
export const requestNumberText = v.pipe(
	v.string(),
	v.regex(/^[1-9]\d{0,8}$/, "must be the number of a pull request"),
	v.transform(Number),
);
/** Time of the provider's event for which CI runs. */
export const eventTime = optional(timestamp);

export const previewSchema = v.strictObject({
	id: v.string(),
	app_id: v.string(),
	repository: v.string(),
	number: v.number(),
	commit: v.nullable(v.string()),
	title: v.nullable(v.string()),
	state: v.picklist(["open", "closed"]),
	channel: v.nullable(v.string()),
	/** Versions that begin with it belong to the preview. */
	version_prefix: v.nullable(v.string()),
	version: v.nullable(v.string()),
	bundles: v.number(),
	size: v.number(),
	keys: v.number(),
	/** Null: the database of the reports does not answer. */
	devices: v.nullable(v.number()),
	/** The page for testers; its address can be replaced with POST /preview/page. */
	page_url: v.string(),
	opened_at: nullableTime,
	expires_at: nullableTime,
	closed_at: nullableTime,
	closed_as: v.nullable(v.picklist(["request", "time", "webhook", "kept"])),
	updated_at: time,
});

/**
 * In lists the address is null to a caller that may act on its own previews only, because it is the
 * right to see the page.
 */
export const listedPreviewSchema = v.strictObject({ ...previewSchema.entries, page_url: v.nullable(v.string()) });

export function previewAnswer<PageUrl extends string | null>(
	row: CountedPreview<PreviewRow>,
	pageUrl: PageUrl,
): Omit<v.InferOutput<typeof previewSchema>, "page_url"> & { readonly page_url: PageUrl } {
	const isOpen = row.state === "open";
	return {
		id: row.id,
		app_id: row.public_app_id,
		repository: row.repository,
		number: row.number,
		commit: row.commit_sha,
		title: row.title,
		state: isOpen ? "open" : "closed",
		channel: row.channel_name,
		version_prefix: isOpen && /^[0-9A-Za-z-]+$/.test(row.channel_name ?? "") ? `0.0.0-${row.channel_name}.` : null,
		version: row.version_name,
		bundles: row.bundles,
		size: row.bundle_bytes,
		keys: row.keys,
		devices: row.devices,
		page_url: pageUrl,
		opened_at: nullableRfc3339(row.opened_at_ms),
		expires_at: isOpen ? rfc3339(row.expires_at_ms) : null,
		closed_at: nullableRfc3339(isOpen ? null : row.closed_at_ms),
		closed_as: isOpen ? null : row.closed_as,
		updated_at: rfc3339(row.updated_at_ms),
	};
}

export const EXAMPLE_PREVIEW: v.InferOutput<typeof previewSchema> = {
	id: "6d6f2f2a-1b0e-4a55-9c3f-5c2b8d1f7e04",
	app_id: "com.example.app",
	repository: "acme/shop",
	number: 128,
	commit: "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b",
	title: "New checkout",
	state: "open",
	channel: "pr-128",
	version_prefix: "0.0.0-pr-128.",
	version: null,
	bundles: 0,
	size: 0,
	keys: 1,
	devices: 0,
	page_url: "https://updates.example.com/p#6d6f2f2a1b0e4a559c3f5c2b8d1f7e04…",
	opened_at: "2026-11-21T08:00:00.000Z",
	expires_at: "2026-12-05T08:00:00.000Z",
	closed_at: null,
	closed_as: null,
	updated_at: "2026-11-21T08:00:00.000Z",
};
