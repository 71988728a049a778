/**
 * Everything that a person can fix ends `npm start` with one sentence and exit code 1. A few start
 * the process; the others call its function, which prints nothing and throws the sentence.
 */
import { chmod, cp, mkdir, mkdtemp, readdir, readFile, rm, stat, truncate, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { join } from "node:path";
import { convertV4MiniflareOptions, Miniflare } from "miniflare";
import { describe, expect, test } from "vitest";
import { hostToServe } from "../../src/operator/network";
import { serveCapstan } from "../../src/operator/serve";
import { failureOf, refusalOf, startScene } from "./support/npm-start";
import { makeZip, sha256 } from "./support/product";

const scene = startScene();

async function databaseFile(state: string): Promise<string> {
	const files = await readdir(join(state, "d1"), { recursive: true });
	const paths = files
		.filter((file) => file.endsWith(".sqlite") && !file.includes("metadata"))
		.map((file) => join(state, "d1", file));
	const sizeOf = (path: string) =>
		stat(path).then(
			({ size }) => size,
			() => 0,
		);
	const sizes = await Promise.all(paths.map(async (path) => (await sizeOf(path)) + (await sizeOf(`${path}-wal`))));
	// The telemetry database has fewer tables.
	const path = paths[sizes.indexOf(Math.max(...sizes))];
	if (path === undefined) throw new Error("no database");
	return path;
}

let folded: Promise<string> | undefined;

/**
 * Gives the state directory a database after so many writes that SQLite merged its write-ahead log
 * into the file.
 */
async function foldedDatabase(state: string): Promise<string> {
	folded ??= scene.copiedState().then(fold);
	await rm(join(state, "d1"), { recursive: true });
	await cp(join(await folded, "d1"), join(state, "d1"), { recursive: true });
	return databaseFile(state);
}

async function fold(state: string): Promise<string> {
	const running = await serveCapstan({ stateDirectory: state, port: 0 });
	const db = await running.miniflare.getD1Database("DB");
	const entry = `INSERT INTO audit_log (org_id, at_ms, actor_type, actor_name, action, target_type, target_id, details, request_id)
		VALUES ('', 0, 'system', '', '', '', '', hex(randomblob(800000)), '')`;
	for (let count = 0; count < 6; count++) await db.prepare(entry).run();
	await running.stop();
	if ((await stat(await databaseFile(state))).size < 1_000_000) throw new Error("the log was not folded in");
	return state;
}

describe("npm start ends with one sentence and exit code 1", () => {
	test("when the port is in use", async () => {
		const server = createServer();
		await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
		const { port } = server.address() as { port: number };
		const run = scene.start({ CAPSTAN_STATE: await scene.newState(), PORT: String(port) });
		expect(await failureOf(run)).toContain(`Port ${port} is in use`);
		server.close();
	});

	test("when PORT is no port, HOST is not an address of this machine, or an option does not exist", async () => {
		const state = await scene.newState();
		const failure = (environment: Record<string, string>, ...options: string[]) =>
			failureOf(scene.start({ CAPSTAN_STATE: state, ...environment }, ...options));
		// In the background, PORT=80a ends in the same way (start.test.ts).
		const [number, option, address] = await Promise.all([
			failure({ PORT: "70000" }),
			failure({}, "--fast"),
			refusalOf({ stateDirectory: await scene.newState(), host: hostToServe("203.0.113.9", false) }),
		]);
		expect(number).toContain("65535");
		expect(option).toContain("--fast");
		expect(() => hostToServe("example.com", false)).toThrow("HOST");
		expect(address).toContain("not an address of this machine");
	});
});

describe("a start is refused in one sentence", () => {
	test("by a state directory that is a file, or below one", async () => {
		const file = join(await mkdtemp(join(scene.directory(), "file-")), "file");
		await writeFile(file, "");
		for (const stateDirectory of [file, join(file, "below")]) {
			expect(await refusalOf({ stateDirectory })).toContain("cannot be written to");
		}
	});

	test.skipIf(process.getuid?.() === 0)("by a state directory without write permission", async () => {
		const stateDirectory = await scene.newState();
		await mkdir(stateDirectory, { mode: 0o500 });
		expect(await refusalOf({ stateDirectory })).toContain("cannot be written to");
		await chmod(stateDirectory, 0o700);
	});

	test("by a bucket that was lost, and by a state directory that a newer version wrote", async () => {
		const stateDirectory = await scene.copiedState();
		const running = await serveCapstan({ stateDirectory, port: 0 });
		const headers = { authorization: running.adminKey ?? "", "content-type": "application/json" };
		const send = async (path: string, body: object) =>
			(
				await fetch(`${running.url}${path}`, { method: "POST", headers, body: JSON.stringify(body) })
			).json() as Promise<{
				upload_url: string;
			}>;
		const [{ id }] = (await (await fetch(`${running.url}/organization`, { headers })).json()) as [{ id: string }];
		await send("/app", { app_id: "com.example.lost", name: "Lost", owner_org: id });
		const zip = makeZip("1.0.0");
		const fields = { checksum: sha256(zip), size: zip.length };
		const { upload_url } = await send("/bundle", { app_id: "com.example.lost", version: "1.0.0", ...fields });
		expect((await fetch(upload_url, { method: "PUT", body: zip })).status).toBe(200);
		await running.stop();
		const lost = await scene.newState();
		await cp(stateDirectory, lost, { recursive: true });
		await rm(join(lost, "r2"), { recursive: true });
		expect(await refusalOf({ stateDirectory: lost })).toContain("the bundles' bytes are missing");
		// With its bucket it starts.
		const again = await serveCapstan({ stateDirectory, port: 0 });
		expect(again.created).toBe(false);
		const db = await again.miniflare.getD1Database("DB");
		await db.prepare("INSERT INTO d1_migrations (name) VALUES ('9999_later.sql')").run();
		await again.stop();
		expect(await refusalOf({ stateDirectory })).toContain("newer Capstan (migration 9999_later.sql)");
	});

	test("by the state of a development build, of which nothing is deleted", async () => {
		const stateDirectory = await scene.copiedState();
		const running = await serveCapstan({ stateDirectory, port: 0 });
		const ledger = await running.miniflare.getD1Database("DB");
		await ledger.prepare("UPDATE d1_migrations SET name = '0001_first_schema.sql'").run();
		await ledger.prepare("INSERT INTO d1_migrations (name) VALUES ('0063_groups.sql')").run();
		await running.stop();
		const files = async () =>
			(await readdir(stateDirectory, { recursive: true })).filter((name) => !/-(wal|shm)$/.test(name));
		const before = await files();
		const sentence = await failureOf(scene.start({ CAPSTAN_STATE: stateDirectory, PORT: "0" }));
		expect(sentence).toMatch(
			new RegExp(
				`^The state directory ${stateDirectory} has the database of a development build, [^.]*: move the directory away [^.]*\\.$`,
			),
		);
		expect(await files()).toEqual(before);
		const miniflare = new Miniflare(
			convertV4MiniflareOptions({
				modules: true,
				script: "export default {}",
				d1Databases: { DB: "DB" },
				resourcePersistencePath: stateDirectory,
			}),
		);
		const db = await miniflare.getD1Database("DB");
		expect(await db.prepare("SELECT count(*) AS number FROM organizations").first("number")).toBe(1);
		await miniflare.dispose();
	});

	test.each([
		["a lost database", (state: string) => rm(join(state, "d1"), { recursive: true })],
		[
			"a log of garbage",
			async (state: string) => writeFile(`${await databaseFile(state)}-wal`, "garbage ".repeat(4000)),
		],
		["a database whose log is lost", async (state: string) => rm(`${await databaseFile(state)}-wal`)],
		[
			"a database of garbage",
			async (state: string) => {
				const file = await databaseFile(state);
				await rm(`${file}-wal`);
				await writeFile(file, "garbage ".repeat(4000));
			},
		],
		["a database that is cut off", async (state: string) => truncate(await foldedDatabase(state), 50_000)],
		[
			"a page of garbage in the database",
			async (state: string) => {
				const path = await foldedDatabase(state);
				const bytes = await readFile(path);
				bytes.fill("garbage ", 4096, bytes.length);
				await rm(`${path}-wal`);
				await writeFile(path, bytes);
			},
		],
		["a key file of garbage", (state: string) => writeFile(join(state, "admin.key"), "not a key\n")],
		["a secret of garbage", (state: string) => writeFile(join(state, "secret.key"), "short\n")],
		["a lost secret", (state: string) => rm(join(state, "secret.key"))],
	])("by damage: %s", async (_, damage) => {
		const stateDirectory = await scene.copiedState();
		await damage(stateDirectory);
		expect(await refusalOf({ stateDirectory })).toContain("is damaged");
	});
});
