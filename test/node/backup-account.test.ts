/**
 * Backup and restore of a deployment: the installed wrangler exports and imports its local
 * databases in the place of an account's, and the bucket is the API of Cloudflare as far as these
 * commands use it. In test:proof, because each of about forty commands takes seconds.
 */
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { openAccountPlace } from "../../src/operator/account-place";
import { backup } from "../../src/operator/backup";
import { showProgress } from "../../src/operator/progress";
import { restoreAccount } from "../../src/operator/restore-account";
import { checkedManifest } from "../../src/operator/restore-plan";
import { RESOLVED_CONFIG } from "../../src/operator/wrangler";
import { IS_PROOF } from "../proof-sample";
import { fakeAccountScene } from "./support/fake-account";
import { fakeWrangler } from "./support/fake-wrangler";

const progress = showProgress(undefined);

/** A bucket behind Cloudflare's API. */
function bucketApi(objects: Map<string, Buffer>): typeof fetch {
	return async (input, init = {}) => {
		const url = new URL(String(input));
		const key = url.pathname.split("/objects/")[1];
		expect(new Headers(init.headers).get("authorization")).toBe("Bearer no real token");
		if (key === undefined) {
			const result = [...objects].map(([name, bytes]) => ({
				key: name,
				size: bytes.length,
				last_modified: "2026-11-21T08:00:00.000Z",
			}));
			return Response.json({ success: true, result, result_info: { is_truncated: false, cursor: "" } });
		}
		if (init.method === "PUT") {
			objects.set(key, Buffer.from(await new Response(init.body as BodyInit).arrayBuffer()));
			return Response.json({ success: true });
		}
		const found = objects.get(key);
		return found === undefined ? new Response("", { status: 404 }) : new Response(new Uint8Array(found));
	};
}

describe.runIf(IS_PROOF)("a deployment", () => {
	const scene = fakeAccountScene();

	test("is backed up by wrangler's export and restored into new databases", { timeout: 400_000 }, async () => {
		scene.setAccount({ database: "wrangler" });
		const objects = new Map([["app/upload/object", Buffer.from("the bytes")]]);
		const source = scene.wrangler();
		await source(["d1", "create", "capstan"]);
		await source(["d1", "create", "capstan-telemetry"]);
		const place = await openAccountPlace({
			deployment: scene.deployment(),
			wrangler: source,
			fetch: bucketApi(objects),
		});
		const comment = "It''s' || char(10) || 'both \\n; ☃";
		for (const binding of ["DB", "TELEMETRY"]) {
			const apply = ["d1", "migrations", "apply", binding, "--remote", "--config", RESOLVED_CONFIG];
			expect((await source(apply)).code).toBe(0);
		}
		const big = "replace(hex(zeroblob(60000)), '00', ' ab''')";
		await place.execute("TELEMETRY", `INSERT INTO counted_ids VALUES (1, ${big})`);
		await place.execute("DB", "INSERT INTO users VALUES ('u', 'a@example.com', 1, '[]', NULL)");
		await place.execute(
			"DB",
			"INSERT INTO organizations (id, name, created_by, created_at_ms, updated_at_ms) VALUES ('o', 'O', 'u', 1, 1)",
		);
		await place.execute(
			"DB",
			"INSERT INTO apps (id, app_id, owner_org, name, created_at_ms, updated_at_ms, telemetry_binding) VALUES ('app', 'com.example.app', 'o', 'A', 1, 1, 'TELEMETRY')",
		);
		await place.execute(
			"DB",
			`INSERT INTO bundles (app_id, name, status, sha256, size_bytes, storage_provider, object_key, comment, created_by, created_at_ms, updated_at_ms)
			VALUES ('app', '1.0.0', 'ready', NULL, 9, 'r2', 'app/upload/object', '${comment}', 'u', 1, 1)`,
		);
		await place.execute(
			"DB",
			"INSERT INTO channels (app_id, name, version_id, created_by, created_at_ms, updated_at_ms) VALUES ('app', 'production', 1, 'u', 1, 1)",
		);
		const facts = "SELECT b.comment, c.name, c.version_id FROM bundles b JOIN channels c ON c.version_id = b.id";
		const before = await place.query("DB", facts);
		const directory = join(scene.directory(), "backup");
		expect(await backup({ place, directory, nowMs: () => Date.now(), progress })).toMatchObject({
			objects: 1,
			fetchedObjects: 1,
			missingObjects: [],
		});
		await place.close();

		const restored = new Map<string, Buffer>();
		const empty = { ...scene.account(), databases: [], buckets: [] };
		const target = fakeWrangler(join(scene.directory(), "target"), empty, []);
		const deployment = scene.deployment("staging");
		const network = { wrangler: target, fetch: bucketApi(restored) };
		const manifest = await checkedManifest(directory, progress);
		const options = { directory, manifest, progress, withoutSecret: false, onlyObjects: false };
		expect(await restoreAccount(options, deployment, network)).toMatchObject({ storedObjects: 1, failedObjects: [] });
		expect(restored).toEqual(objects);
		const after = await openAccountPlace({ deployment, ...network });
		expect(await after.query("DB", facts)).toEqual(before);
		const length = "SELECT length(ids) AS n FROM counted_ids";
		expect(await after.query("TELEMETRY", length)).toEqual([{ n: 240_000 }]);
		expect(await after.query("DB", "SELECT * FROM changes")).toEqual([]);
		await after.close();
		await expect(restoreAccount(options, deployment, network)).rejects.toThrow("has tables already");
	});
});
