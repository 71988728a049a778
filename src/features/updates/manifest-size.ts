/**
 * POST /updates/manifest_size: the number of bytes that a device would download for a manifest.
 * Unknown files are counted and named; their size is never guessed.
 */
import * as v from "valibot";
import type { Database } from "../../db/client";
import { manifestSizes } from "../../db/devices";
import { endpoint } from "../../http/endpoint";
import { optional, publicAppId, textUpTo } from "../../http/schemas";
import type { AppSnapshot } from "../../snapshots/app-snapshot";
import type { SnapshotCache } from "../../snapshots/cache";
import { EXAMPLE_DEVICE } from "./device-request";

/** Files with ordinary names reach the limit of the body first. */
const MOST_FILES = 10_000;
const BODY_LIMIT_BYTES = 64 * 1024;

const manifest = optional(
	v.pipe(
		v.array(
			v.object({
				file_name: textUpTo(2048),
				file_hash: optional(textUpTo(2048)),
				download_url: optional(textUpTo(4096)),
			}),
		),
		v.maxLength(MOST_FILES, `must have at most ${MOST_FILES} files`),
	),
);

export const manifestSize = endpoint({
	method: "POST",
	path: "/updates/manifest_size",
	tag: "Devices",
	summary: "Ask, as a device, how large the files of a manifest are",
	access: { public: "Devices have no key. They learn the sizes of files that they were offered." },
	body: v.object({
		app_id: publicAppId,
		version: optional(textUpTo(128)),
		manifest,
		files: manifest,
	}),
	bodyLimitBytes: BODY_LIMIT_BYTES,
	response: v.strictObject({
		totalSize: v.number(),
		knownFiles: v.number(),
		unknownFiles: v.number(),
		files: v.array(
			v.strictObject({
				file_name: v.string(),
				file_hash: v.optional(v.string()),
				download_url: v.optional(v.string()),
				size: v.optional(v.number()),
				error: v.optional(v.literal("size_unknown")),
			}),
		),
	}),
	errors: [],
	example: {
		body: {
			...EXAMPLE_DEVICE,
			version: "1.4.0",
			manifest: [{ file_name: "index.html", file_hash: "9f86…", download_url: "https://updates.example.com/files/…" }],
		},
		response: {
			totalSize: 512,
			knownFiles: 1,
			unknownFiles: 0,
			files: [
				{ file_name: "index.html", file_hash: "9f86…", download_url: "https://updates.example.com/files/…", size: 512 },
			],
		},
	},
	async handle({ db, input, snapshots, waitUntil }) {
		const { app_id, version = "" } = input.body;
		const asked = input.body.manifest ?? input.body.files ?? [];
		const { snapshot } = await snapshots.read(db, app_id, { waitUntil });
		const sizes = new Map(
			(await filesOf(db, snapshots, snapshot, version, waitUntil)).map((file) => [
				`${file.file_name}\n${file.file_hash}`,
				file.size_bytes,
			]),
		);
		const files = asked.map(({ file_name, file_hash, download_url }) => {
			const size = sizes.get(`${file_name}\n${file_hash ?? ""}`);
			return {
				file_name,
				...(file_hash === undefined ? {} : { file_hash }),
				...(download_url === undefined ? {} : { download_url }),
				...(size === undefined ? { error: "size_unknown" as const } : { size }),
			};
		});
		const known = files.flatMap((file) => ("size" in file && file.size !== undefined ? [file.size] : []));
		return {
			totalSize: known.reduce((sum, size) => sum + size, 0),
			knownFiles: known.length,
			unknownFiles: files.length - known.length,
			files,
		};
	},
});

/** From memory if a channel serves the bundle, as is usual for a bundle that was just offered. */
async function filesOf(
	db: Database,
	snapshots: SnapshotCache,
	snapshot: AppSnapshot | null,
	version: string,
	waitUntil: (work: Promise<unknown>) => void,
) {
	if (snapshot === null) return [];
	const served = [...snapshot.bundles.values()].find((bundle) => bundle.version === version && bundle.ready);
	if (served !== undefined) {
		if (!served.hasManifest) return [];
		const deadlineMs = snapshots.deadline(snapshot.app.publicId);
		return snapshots.manifest(db, snapshot, served.id, { waitUntil, deadlineMs });
	}
	const [files] = await db.batch([manifestSizes(snapshot.app.id, version)]);
	return files.rows;
}
