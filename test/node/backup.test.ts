/**
 * `npm run backup` and `npm run restore` as a round trip: an installation with data in most tables
 * is backed up while it runs, restored into an empty state, and started. Every GET then answers as
 * before, devices get the same bytes, and a promotion reaches them.
 */
import { cp, mkdtemp, readdir, readFile, rm, stat, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { dayOf } from "../../src/domain/statistics/days";
import { backup } from "../../src/operator/backup";
import { type Manifest, readManifest } from "../../src/operator/backup-files";
import { openState } from "../../src/operator/places";
import { showProgress } from "../../src/operator/progress";
import { PROJECT_DIRECTORY } from "../../src/operator/project";
import { checkedManifest } from "../../src/operator/restore-plan";
import { restoreState } from "../../src/operator/restore-state";
import { statementsOf } from "../../src/operator/schema-text";
import { answerOf, type Product, startProduct, uploadProductBundle } from "./support/product";
import { createRichInstallation, deviceId, type RichInstallation, readEverything } from "./support/rich-installation";

const progress = showProgress(undefined);
let scratch: string;
let source: Product;
let rich: RichInstallation;
let directory: string;
let before: Record<string, unknown>;
let readAtMs: number;

const sourceState = () => join(source.directory, "state");
const backUp = async (state: string, target: string) => {
	const place = await openState(state);
	try {
		return await backup({ place, directory: target, nowMs: () => Date.now(), progress });
	} finally {
		await place.close();
	}
};
const restore = async (from: string, state: string, more: Partial<Parameters<typeof restoreState>[0]> = {}) =>
	restoreState(
		{
			directory: from,
			manifest: await checkedManifest(from, progress),
			progress,
			withoutSecret: false,
			onlyObjects: false,
			...more,
		},
		state,
	);
const manifestOf = async (from: string) => (await readManifest(from)) as Manifest;

const ask = async (product: Product, device: number, version = "builtin") => {
	const response = await answerOf(`${product.url}/updates`, {
		method: "POST",
		headers: { "content-type": "application/json" },
		body: JSON.stringify({
			app_id: rich.app,
			device_id: deviceId(device),
			version_name: version,
			version_build: "1.0.0",
			platform: "ios",
			plugin_version: "8.51.23",
			is_prod: true,
			is_emulator: false,
		}),
	});
	return JSON.parse(await response.text());
};
const bytesOf = async (product: Product, device: number) => {
	const { version, url, manifest } = await ask(product, device);
	const links = [url, ...(manifest ?? []).map((one: { download_url: string }) => one.download_url)];
	const files = [];
	for (const link of links.filter((one) => typeof one === "string" && one.startsWith("http://127"))) {
		const response = await answerOf(link);
		expect(response.status).toBe(200);
		files.push(Buffer.from(await response.arrayBuffer()).toString("base64"));
	}
	return { version, files };
};

/** Bytes of downloads that are counted. */
const bandwidthOf = async (product: Product): Promise<number> => {
	const { body } = await product.api("GET", `/statistics/app/${rich.app}`);
	return (body as unknown as { bandwidth: number }[]).at(-1)?.bandwidth ?? 0;
};

beforeAll(async () => {
	scratch = await mkdtemp(join(tmpdir(), "capstan-backup-"));
	directory = join(scratch, "backup");
	source = await startProduct({ unlimitedRequests: true });
	rich = await createRichInstallation(source);
	await vi.waitFor(
		async () => {
			const { body } = await source.api("GET", `/device/list?app_id=${rich.app}`);
			expect(body.devices).toHaveLength(5);
			expect(JSON.stringify(body)).toContain("1.0.0");
		},
		{ timeout: 30_000, interval: 500 },
	);
});
afterAll(async () => {
	await source?.stop();
	await rm(scratch, { recursive: true, force: true });
});

describe("a round trip", () => {
	let target: Product;
	let state: string;
	let bytes: Awaited<ReturnType<typeof bytesOf>>[];

	beforeAll(async () => {
		const counted = await bandwidthOf(source);
		bytes = [await bytesOf(source, 0), await bytesOf(source, 1)];
		const loaded = bytes
			.flatMap(({ files }) => files)
			.reduce((sum, text) => sum + Buffer.from(text, "base64").length, 0);
		// Nothing may change between the answers and the backup.
		await vi.waitFor(async () => expect((await bandwidthOf(source)) - counted).toBe(loaded), {
			timeout: 30_000,
			interval: 500,
		});
		readAtMs = Date.now();
		before = await readEverything(source, rich);
		await backUp(sourceState(), directory);
	});
	afterAll(() => target?.stop());

	test("the source has data: every GET answers, and most tables have rows", async () => {
		const failed = Object.entries(before).filter(
			([address, answer]) => !address.includes(rich.sampleApp) && (answer as { status: number }).status !== 200,
		);
		expect(failed).toEqual([]);
		const manifest = await manifestOf(directory);
		const filled = manifest.databases.flatMap(({ tables }) => tables).filter(({ rows }) => rows > 0);
		expect(filled.length).toBeGreaterThan(40);
		expect(manifest.objects.count).toBeGreaterThan(5);
		expect(manifest.secretIds).toHaveLength(1);
		expect(manifest.missingObjects).toEqual([]);
	});

	test("the backup has every table of schema.sql, readable only by its owner", async () => {
		const schema = await readFile(join(PROJECT_DIRECTORY, "schema.sql"), "utf8");
		for (const { kind, tables } of (await manifestOf(directory)).databases) {
			const expected = [...statementsOf(schema, kind).matchAll(/^CREATE TABLE (\w+)/gm)].map(([, name]) => name);
			expect(tables.map(({ name }) => name).sort()).toEqual([...expected, "d1_migrations", "sqlite_sequence"].sort());
		}
		for (const entry of await readdir(directory, { recursive: true, withFileTypes: true })) {
			const { mode } = await stat(join(entry.parentPath, entry.name));
			expect(mode & 0o077, entry.name).toBe(0);
		}
	});

	test("a restore needs the secret that sealed values, and changes nothing without it", async () => {
		state = join(scratch, "state");
		await expect(restore(directory, state)).rejects.toThrow("Copy secret.key of the installation");
		await writeFile(join(state, "secret.key"), "ab".repeat(32));
		await expect(restore(directory, state)).rejects.toThrow("Copy secret.key of the installation");
		expect(await readdir(state)).toEqual(["secret.key"]);
	});

	test("the restored installation answers as before", async () => {
		for (const name of ["secret.key", "admin.key"]) await cp(join(sourceState(), name), join(state, name));
		const summary = await restore(directory, state);
		expect(summary).toMatchObject({ failedObjects: [], missingObjects: [] });
		const again = join(scratch, "again");
		await backUp(state, again);
		const hashes = ({ databases }: Manifest) =>
			databases.flatMap(({ binding, tables }) =>
				tables
					.filter(({ name }) => !["changed_items", "changes", "sqlite_sequence"].includes(name))
					.map(({ name, rows, sha256 }) => `${binding} ${name} ${rows} ${sha256}`),
			);
		expect(hashes(await manifestOf(again))).toEqual(hashes(await manifestOf(directory)));
		await rm(again, { recursive: true });

		// Charts end with the present day.
		if (dayOf(Date.now()) !== dayOf(readAtMs)) before = await readEverything(source, rich);
		await source.running.stop();
		target = await startProduct({ stateDirectory: state, unlimitedRequests: true });
		expect(target.adminKey).toBe(source.adminKey);
		const after = await readEverything(target, rich);
		// The start creates a sign-in link, which the log of the operator's account names.
		const { "/account/log?": log, ...others } = after;
		const { "/account/log?": formerLog, ...formerOthers } = before;
		expect(others).toEqual(formerOthers);
		expect(JSON.stringify(log)).toContain(JSON.stringify(formerLog).slice(40, 200));
		expect([await bytesOf(target, 0), await bytesOf(target, 1)]).toEqual(bytes);
	});

	test("a promotion and a new channel work: triggers and counters are there", async () => {
		await uploadProductBundle(target, rich.app, "2.0.0");
		const promoted = await target.api("POST", "/channel", {
			app_id: rich.app,
			channel: "production",
			version: "2.0.0",
		});
		expect(promoted.status).toBeLessThan(300);
		await vi.waitFor(async () => expect((await ask(target, 1)).version).toBe("2.0.0"), { timeout: 10_000 });
		const db = await target.running.miniflare.getD1Database("DB");
		const feed = await db.prepare("SELECT count(*) AS n FROM changes WHERE app_id = ?").bind(rich.appUuid).first("n");
		expect(feed).toBeGreaterThan(0);
		const created = await target.api("POST", "/channel", { app_id: rich.app, channel: "newest" });
		expect(created.body.id).toBe(rich.goneChannelId + 1);
	});
});

describe("a backup directory", () => {
	let copy: string;
	const newCopy = async () => {
		copy = await mkdtemp(join(scratch, "copy-"));
		await cp(directory, copy, { recursive: true });
		return copy;
	};
	/** The state of the source after it has stopped. */
	const state = () => sourceState();

	test("is brought up to date without fetching objects again, and without what is gone", async () => {
		const { objects, fetchedObjects } = await backUp(state(), await newCopy());
		expect({ objects, fetchedObjects }).toEqual({ objects, fetchedObjects: 0 });
		const snapshots = (await readdir(copy)).filter((name) => name.startsWith("snapshot-"));
		expect(snapshots).toEqual([(await manifestOf(copy)).snapshot]);
		const place = await openState(state());
		try {
			const key = await place.query<{ object_key: string }>(
				"DB",
				"SELECT object_key FROM bundles WHERE object_key IS NOT NULL ORDER BY id DESC LIMIT 1",
			);
			const path = join(copy, "objects", key[0]?.object_key ?? "");
			await rm(path);
			const progressOptions = { place, directory: copy, nowMs: () => Date.now(), progress };
			expect(await backup(progressOptions)).toMatchObject({ objects, fetchedObjects: 1, removedObjects: 0 });
			// The bytes are lost, and the row still names them.
			const lost = {
				...place,
				object: async (one: string) => (one === key[0]?.object_key ? undefined : place.object(one)),
			};
			await rm(path);
			const summary = await backup({ ...progressOptions, place: lost });
			expect(summary).toMatchObject({ objects: objects - 1, missingObjects: [key[0]?.object_key] });
			// The bundle is deleted between the databases and the objects: the databases are read again.
			let reads = 0;
			const racing = {
				...place,
				query: async <Row>(binding: string, sql: string) => {
					if (sql.includes("sqlite_schema WHERE type IN") && binding === "DB") reads++;
					return place.query<Row>(binding, sql);
				},
				object: async (one: string) => {
					if (one !== key[0]?.object_key) return place.object(one);
					await place.execute("DB", `UPDATE bundles SET object_key = NULL WHERE object_key = '${one}'`);
					return undefined;
				},
			};
			expect(await backup({ ...progressOptions, place: racing })).toMatchObject({
				objects: objects - 1,
				missingObjects: [],
			});
			expect(reads).toBe(2);
			await place.execute(
				"DB",
				`UPDATE bundles SET object_key = '${key[0]?.object_key}' WHERE id = (SELECT max(id) FROM bundles WHERE status = 'ready' AND object_key IS NULL)`,
			);
		} finally {
			await place.close();
		}
	});

	test("stays whole when the next backup into it is killed", async () => {
		const { snapshot } = await manifestOf(await newCopy());
		const place = await openState(state());
		try {
			const killed = {
				...place,
				object: async () => {
					throw new Error("killed");
				},
			};
			await rm(join(copy, "objects"), { recursive: true });
			const options = { directory: copy, nowMs: () => Date.now(), progress };
			await expect(backup({ ...options, place: killed })).rejects.toThrow("killed");
			expect((await manifestOf(copy)).snapshot).toBe(snapshot);
			await backup({ ...options, place });
			expect((await readdir(copy)).sort()).toEqual(
				["manifest.json", "objects", (await manifestOf(copy)).snapshot].sort(),
			);
			await checkedManifest(copy, progress);
		} finally {
			await place.close();
		}
	});

	test("with a damaged or missing file is refused by its name", async () => {
		const { databases, objects } = await manifestOf(await newCopy());
		const table = databases[0]?.tables.find(({ rows }) => rows > 0)?.path ?? "";
		const [object = ""] = (await readFile(join(copy, objects.path), "utf8")).split("\n");
		for (const path of [table, join("objects", JSON.parse(object).key)]) {
			const file = join(copy, path);
			const content = await readFile(file);
			await writeFile(file, Buffer.concat([content.subarray(1), Buffer.from(" ")]));
			await expect(checkedManifest(copy, progress)).rejects.toThrow(`${file} has other content than the manifest says`);
			await rm(file);
			await expect(checkedManifest(copy, progress)).rejects.toThrow(`${file} is missing`);
			await writeFile(file, content);
		}
		await checkedManifest(copy, progress);
		await rm(join(copy, "manifest.json"));
		await expect(checkedManifest(copy, progress)).rejects.toThrow("has no complete backup");
	});

	test("of a newer release is refused", async () => {
		const manifest = await manifestOf(await newCopy());
		const [main, ...others] = manifest.databases;
		const databases = [{ ...main, migrations: ["0001_schema.sql", "9999_future.sql"] }, ...others];
		await writeFile(join(copy, "manifest.json"), JSON.stringify({ ...manifest, databases }));
		await expect(checkedManifest(copy, progress)).rejects.toThrow("is of a newer Capstan");
	});

	test.each(["null", "{}", "[", '{ "format": "1" }'])("whose manifest is %s is refused", async (text) => {
		await newCopy();
		await writeFile(join(copy, "manifest.json"), text);
		await expect(checkedManifest(copy, progress)).rejects.toThrow("manifest.json is no manifest. Use another backup.");
	});

	test("names a file, a directory that cannot be created, and a full disk", async () => {
		const file = join(scratch, "file");
		await writeFile(file, "mine");
		await expect(backUp(sourceState(), file)).rejects.toThrow(`${file} is a file, and a directory is needed.`);
		await expect(backUp(sourceState(), "/proc/backup")).rejects.toThrow("/proc/backup cannot be written to");
		const before = await readFile(join(await newCopy(), "manifest.json"), "utf8");
		await symlink("/dev/full", join(copy, "manifest.json.part"));
		await expect(backUp(sourceState(), copy)).rejects.toThrow(
			`No space is left for ${copy}. A former backup in it is whole. Free some space, and run the same command again.`,
		);
		expect(await readFile(join(copy, "manifest.json"), "utf8")).toBe(before);
		await checkedManifest(copy, progress);
	});

	test("is not written into a directory of something else", async () => {
		const other = await mkdtemp(join(scratch, "other-"));
		await writeFile(join(other, "notes.txt"), "mine");
		await expect(backUp(state(), other)).rejects.toThrow("has notes.txt, which is not of a backup");
	});
});

describe("a restore", () => {
	test("refuses a state that has databases, and changes nothing", async () => {
		await expect(restore(directory, sourceState())).rejects.toThrow("has databases already");
	});

	test("that was killed half way is done again by the same command", async () => {
		const state = join(scratch, "killed");
		const aside = join(state, "restoring");
		await cp(join(sourceState(), "d1"), join(aside, "d1"), { recursive: true });
		await cp(join(sourceState(), "r2"), join(state, "r2"), { recursive: true });
		await cp(join(sourceState(), "secret.key"), join(state, "secret.key"));
		expect((await restore(directory, state)).rows).toBeGreaterThan(100);
		expect(await readdir(state)).toEqual(expect.not.arrayContaining(["restoring", "lock"]));
	});

	test("puts missing objects back into an installation that runs on", async () => {
		const place = await openState(sourceState());
		const { object_key: key } = (
			await place.query<{ object_key: string }>("DB", "SELECT object_key FROM bundles WHERE object_key IS NOT NULL")
		)[0] ?? { object_key: "" };
		await place.removeObject(key);
		await place.close();
		expect(await restore(directory, sourceState(), { onlyObjects: true })).toMatchObject({ storedObjects: 1 });
	});
});
