/**
 * Backup, restore and the deep check of doctor on an account: they use the resources of the
 * deployment that --name names, and none of others.
 */
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { FORMAT } from "../../src/operator/backup-files";
import { runDoctor } from "../../src/operator/doctor";
import type { Finding } from "../../src/operator/doctor-types";
import { openDeployment } from "../../src/operator/places";
import { showProgress } from "../../src/operator/progress";
import { restoreAccount } from "../../src/operator/restore-account";
import { DATABASE_ID, fakeAccountScene, TELEMETRY_ID } from "./support/fake-account";

const NAME = "capstan-staging";
const scene = fakeAccountScene();
const calls = () => scene.takeCalls().map((command) => command.join(" "));

/** A deployment of this name that runs, beside the default one. */
async function deployed(): Promise<void> {
	await scene.openDatabase();
	scene.setAccount({
		databases: [
			{ name: "capstan", uuid: "another" },
			{ name: "capstan-telemetry", uuid: "another too" },
			{ name: NAME, uuid: DATABASE_ID },
			{ name: `${NAME}-telemetry`, uuid: TELEMETRY_ID },
		],
		buckets: [`${NAME}-bundles`],
		bindings: bindings(),
	});
}
const bindings = (bucket = `${NAME}-bundles`) => [
	{ type: "d1", name: "DB", id: DATABASE_ID },
	{ type: "r2_bucket", name: "BUNDLES", bucket_name: bucket },
];

/** Cloudflare's API for buckets; nothing else answers. */
function bucketApi(keys: readonly string[], buckets: string[], deleted: string[] = []): typeof fetch {
	return async (input, init = {}) => {
		const [, bucket = "", key] = /\/r2\/buckets\/([^/]+)\/objects\/?([^?]*)/.exec(String(input)) ?? [];
		if (bucket === "") throw new Error("no network");
		buckets.push(bucket);
		if (init.method === "DELETE") deleted.push(key ?? "");
		const result = keys.map((name) => ({ key: name, size: 1, last_modified: "2020-01-01T00:00:00.000Z" }));
		return Response.json({ success: true, result, result_info: { is_truncated: false } });
	};
}

async function deep(argv: readonly string[], fetch: typeof globalThis.fetch): Promise<Record<string, Finding>> {
	const lines: string[] = [];
	await runDoctor({
		...{ argv: [...argv, "--deep", "--json", "--url=https://updates.example.com"], fetch, nowMs: () => Date.now() },
		stateDirectory: join(scene.directory(), "state"),
		wrangler: scene.wrangler(),
		print: (line) => void lines.push(line),
	});
	const { checks } = JSON.parse(lines.join("\n")) as { checks: Finding[] };
	return Object.fromEntries(checks.map((one): [string, Finding] => [one.check, one]));
}

describe("npm run doctor -- --deep --name", () => {
	test("compares the rows and the bucket of the named deployment, and removes objects of its bucket only", async () => {
		await deployed();
		const [buckets, deleted]: [string[], string[]] = [[], []];
		const found = await deep([`--name=${NAME}`], bucketApi(["orphan"], buckets));
		expect(found["objects without a row"]).toMatchObject({
			state: "warning",
			remedy: expect.stringContaining(`npm run doctor -- --name=${NAME} --deep --repair`),
		});
		expect(new Set(buckets)).toEqual(new Set([`${NAME}-bundles`]));
		await deep([`--name=${NAME}`, "--repair"], bucketApi(["orphan"], buckets, deleted));
		expect(deleted).toEqual(["orphan"]);
		expect(new Set(buckets)).toEqual(new Set([`${NAME}-bundles`]));
	});

	test("does nothing if the Worker uses another bucket, and removes nothing without a Worker", async () => {
		await deployed();
		const buckets: string[] = [];
		scene.setAccount({ bindings: bindings("other-bundles") });
		await expect(deep([`--name=${NAME}`], bucketApi([], buckets))).rejects.toThrow(
			`the Worker "${NAME}" does not use the bucket "${NAME}-bundles"`,
		);
		scene.setAccount({ bindings: undefined });
		await expect(deep([`--name=${NAME}`, "--repair"], bucketApi(["orphan"], buckets))).rejects.toThrow(
			"Nothing was removed",
		);
		expect(buckets).toEqual([]);
	});
});

describe("npm run backup -- --name", () => {
	test("opens the databases of the named deployment, and says which command creates missing ones", async () => {
		await deployed();
		const deployment = scene.deployment(NAME);
		const place = await openDeployment(deployment, { wrangler: scene.wrangler() });
		expect(place).toMatchObject({ databaseIds: { DB: DATABASE_ID, TELEMETRY: TELEMETRY_ID }, isRunning: true });
		expect(place.name).toContain(`the deployment ${NAME} on the account acc1`);
		await place.close();
		scene.setAccount({ databases: [], bindings: undefined });
		await expect(openDeployment(deployment, { wrangler: scene.wrangler() })).rejects.toThrow(
			`no database "${NAME}". Run npm run deploy -- --name=${NAME} first`,
		);
	});
});

describe("npm run restore -- --name", () => {
	const manifestOf = async (keys: readonly string[]) => {
		const directory = join(scene.directory(), "backup");
		await mkdir(directory, { recursive: true });
		const lines = keys.map((key) => JSON.stringify({ key, sizeBytes: 1, sha256: "" }));
		await writeFile(join(directory, "objects.jsonl"), `${lines.join("\n")}\n`);
		const objects = { path: "objects.jsonl", sizeBytes: 1, sha256: "", count: keys.length, totalBytes: keys.length };
		const createdAt = "2026-11-28T08:00:00.000Z";
		const manifest = {
			format: FORMAT,
			version: "1.0.0",
			createdAt,
			snapshot: "snapshot",
			databases: [],
			objects,
			secretIds: [],
			missingObjects: [],
		};
		const progress = showProgress(undefined);
		return { directory, manifest, progress, withoutSecret: false, onlyObjects: false };
	};

	test("refuses a bucket that has objects, unless they are of the backup", async () => {
		scene.setAccount({ buckets: [`${NAME}-bundles`], objects: 3 });
		const options = await manifestOf(["app/upload/object"]);
		const restored = (keys: readonly string[]) => {
			const network = { wrangler: scene.wrangler(), fetch: bucketApi(keys, []) };
			return restoreAccount(options, scene.deployment(NAME), network);
		};
		await expect(restored(["photos/1.jpg"])).rejects.toThrow(`The bucket "${NAME}-bundles" has 3 objects`);
		expect(calls().filter((call) => call.includes(" create "))).toEqual([]);
		expect((await restored(["app/upload/object"])).next[0]).toContain(`Run npm run deploy -- --name=${NAME} now.`);
		expect(scene.account().databases.map(({ name }) => name)).toEqual([NAME, `${NAME}-telemetry`]);
	});

	test("leaves a bucket that the next deployment takes for its own", async () => {
		const database = await scene.openDatabase();
		const databases = [
			{ name: "capstan", uuid: DATABASE_ID },
			{ name: "capstan-telemetry", uuid: TELEMETRY_ID },
		];
		scene.setAccount({ databases, buckets: ["capstan-bundles"], objects: 3 });
		expect(await scene.deploy().catch(String)).toContain('the bucket "capstan-bundles", which has 3 objects');
		const position = "INSERT INTO job_positions (step, position) VALUES ('restored_bucket', ?)";
		await database.prepare(position).bind("capstan-bundles").run();
		expect(await scene.deploy()).toMatchObject({ key: { state: "created" } });
	});
});
