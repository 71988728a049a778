/**
 * The npm package of the `capstan` command. An address with its version and hash never changes its
 * bytes, so lock files and CI jobs that name one work after any upgrade: R2 keeps every package
 * whose address this server has given away, before it gives it away. `/capstan.tgz` redirects to
 * the newest.
 */
import { sha256 } from "@noble/hashes/sha2.js";
import { bytesToHex } from "@noble/hashes/utils.js";
import { VERSION } from "../../config";
import type { Deps } from "../../deps";
import { ApiError, serviceUnavailable } from "../../errors";
import { endpoint } from "../../http/endpoint";
import { commandKey, putOnce } from "../../storage/objects";

const TAG = "Service";
/** The package of this build, among the static assets. */
const ASSET = "/command/capstan.tgz";
const FOLDER = "/command/";
const FILE_NAME = /^capstan-\d[\w.+-]*-[0-9a-f]{16}\.tgz$/;
const PACKAGE = "application/gzip";
const FOREVER = "public, max-age=31536000, immutable";

/** The name of the package by the assets of the isolate, which change with a deployment only. */
const names = new WeakMap<Deps["assets"], string>();

async function currentName({ assets, bundles }: Pick<Deps, "assets" | "bundles">, origin: string): Promise<string> {
	const known = names.get(assets);
	if (known !== undefined) return known;
	const answer = await assets.fetch(new URL(ASSET, origin));
	if (!answer.ok) throw serviceUnavailable(new Error(`the asset ${ASSET} answers ${answer.status}`));
	const bytes = new Uint8Array(await answer.arrayBuffer());
	const name = `capstan-${VERSION}-${bytesToHex(sha256(bytes)).slice(0, 16)}.tgz`;
	await putOnce(bundles, commandKey(name), bytes, { contentType: PACKAGE });
	names.set(assets, name);
	return name;
}

export const newestCommand = endpoint({
	method: "GET",
	path: "/capstan.tgz",
	tag: TAG,
	summary: "Redirect to the newest package of the capstan command",
	description:
		"For `npx https://updates.example.com/capstan.tgz`. A lock file needs the address in Location, because it never changes its bytes.",
	access: { public: "The package is the same for every caller." },
	status: [302],
	response: { contentType: "text/plain", description: "The address of the package is in Location." },
	errors: [],
	example: {},
	async handle({ deps, origin }) {
		const location = new URL(FOLDER + (await currentName(deps, origin)), origin).href;
		return new Response(null, { status: 302, headers: { Location: location } });
	},
});

export const commandPackage = endpoint({
	method: "GET",
	path: "/command/:file",
	tag: TAG,
	summary: "Download a version of the capstan command",
	description:
		"The npm package that GET /capstan.tgz redirected to, at this or an earlier version of the server. Its bytes never change.",
	access: { public: "The package is the same for every caller." },
	response: { contentType: PACKAGE, description: "The npm package." },
	errors: ["not_found"],
	example: {},
	async handle({ deps, origin, input, request, edgeCache, waitUntil }) {
		const { file } = input.params;
		const reader = { host: new URL(request.url).host, waitUntil };
		const found = FILE_NAME.test(file) ? await edgeCache.whole(reader, commandKey(file)) : null;
		if (found === null) {
			const newest = new URL(FOLDER + (await currentName(deps, origin)), origin).href;
			throw new ApiError(
				"not_found",
				`This server has offered no such package of the command. The newest is ${newest}`,
				{
					moreInfo: { newest },
				},
			);
		}
		const headers = { "Content-Type": PACKAGE, "Content-Length": String(found.sizeBytes), "Cache-Control": FOREVER };
		return new Response(request.method === "HEAD" ? null : found.body, { headers });
	},
});
