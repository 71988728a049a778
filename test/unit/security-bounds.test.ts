/** The bounds that /docs/security promises are those of the code and of wrangler.toml. */
import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { MANIFEST_ANSWER_BYTES, setManifest } from "../../src/compat/capgo-cli/uploads";
import { mostUnpackedBytes as mostUnpackedOfZip } from "../../src/domain/bundles/archive-files";
import { DEFAULT_QUOTAS } from "../../src/domain/quotas";
import { allEndpoints } from "../../src/endpoints";
import { SEGMENT_BYTES } from "../../src/features/bundles/tus-protocol";
import { REFUSAL_MS } from "../../src/features/bundles/upload-errors";
import { ANSWER_BYTES_A_SECOND } from "../../src/http/limits/callers";
import { BODY_BYTES_A_SECOND } from "../../src/http/limits/credentials";
import { ANONYMOUS_BYTES, CALLER_BYTES, DIRECTORIES } from "../../src/http/limits/memory";
import { SILENCE_MS } from "../../src/http/limits/silent-body";
import { DEFAULT_LIMIT_BYTES } from "../../src/http/pipeline/body";
import { mostUnpackedBytes } from "../../src/storage/brotli";

const textOf = (path: string) => readFileSync(new URL(`../../${path}`, import.meta.url), "utf8");

const MEBIBYTE = 1024 * 1024;
const size = (bytes: number) => (bytes < MEBIBYTE ? `${bytes / 1024} KiB` : `${bytes / MEBIBYTE} MiB`);
const count = (value: number) => value.toLocaleString("en-US");
const ratioOf = (most: (bytes: number) => number) => most(1_001) - most(1_000);

function limitOf(name: string) {
	const found = new RegExp(`name = "${name}"\\n.*\\nsimple = \\{ limit = (\\d+), period = (\\d+) \\}`).exec(
		textOf("wrangler.toml"),
	);
	if (found === null) throw new Error(`wrangler.toml has no ${name}`);
	return { limit: Number(found[1]), period: Number(found[2]) };
}

test("the bounds in the documentation", () => {
	const fetches = limitOf("FETCHES");
	expect(fetches.period).toBe(60);
	const rows = [
		`in an isolate | ${size(CALLER_BYTES.each)} or one request, ${size(CALLER_BYTES.group)}, ${size(CALLER_BYTES.all)} |`,
		`and of all | ${size(ANONYMOUS_BYTES.each)} or one request, ${size(ANONYMOUS_BYTES.group)}, ${size(ANONYMOUS_BYTES.all)} |`,
		`| Body of a manifest, and of a caller that is limited to its own work | ${size(setManifest.bodyLimitBytes ?? 0)}, ${size(DEFAULT_LIMIT_BYTES)} |`,
		`| Bodies above 64 kB, per key and second; later ones wait up to 20 s | ${size(BODY_BYTES_A_SECOND)} |`,
		`which waits in memory | ${size(SEGMENT_BYTES)} |`,
		`| Open uploads, per organization, per app and per key | ${count(DEFAULT_QUOTAS.open_uploads_per_organization)}, ${count(DEFAULT_QUOTAS.open_uploads_per_app)}, ${count(DEFAULT_QUOTAS.open_uploads_per_key)} |`,
		`of a Brotli file | ${size(mostUnpackedBytes(0))} and ${ratioOf(mostUnpackedBytes)} times its size, at most ${size(mostUnpackedBytes(1e12))} |`,
		`the next is checked and answered after | ${REFUSAL_MS / 1_000} s |`,
		`per caller, per organization and of all at a time | ${DIRECTORIES.each}, ${DIRECTORIES.group}, ${DIRECTORIES.all} |`,
		`that are compared | ${size(mostUnpackedOfZip(0))} and ${ratioOf(mostUnpackedOfZip)} times its size, at most ${size(mostUnpackedOfZip(1e12))} |`,
		`limited to its own work | ${size(MANIFEST_ANSWER_BYTES.others)}, ${size(MANIFEST_ANSWER_BYTES.own)} |`,
		`later ones wait up to 20 s | ${size(ANSWER_BYTES_A_SECOND)} |`,
		`| Fetches of \`external_url\`, per key and minute | ${fetches.limit} |`,
		`| Tests and replays, per webhook and minute | ${fetches.limit} |`,
		`| Addresses tried for webhooks, per app or organization and minute | ${fetches.limit} |`,
		`| Repositories looked up for publishers, per key and minute | ${fetches.limit} |`,
		`sends nothing for ${SILENCE_MS / 1_000} to ${(2 * SILENCE_MS) / 1_000} seconds`,
	];
	const text = textOf("src/docs/security.md");
	expect(rows.filter((row) => !text.includes(row))).toEqual([]);
	// An endpoint with another large body needs a row of its own.
	const large = allEndpoints.filter(({ bodyLimitBytes = 0 }) => bodyLimitBytes > DEFAULT_LIMIT_BYTES);
	expect(large.map(({ path }) => path)).toEqual([setManifest.path]);
});
