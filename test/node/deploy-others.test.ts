/**
 * A deployment in an account that has resources of others: they stop it before it changes anything,
 * and another name has its own.
 */
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { DATABASE_ID, fakeAccountScene, TELEMETRY_ID } from "./support/fake-account";

const scene = fakeAccountScene();
const { deploy: runDeploy, setAccount } = scene;
const calls = () => scene.takeCalls().map((command) => command.join(" "));

describe("resources of others", () => {
	const DATABASES = [
		{ name: "capstan", uuid: DATABASE_ID },
		{ name: "capstan-telemetry", uuid: TELEMETRY_ID },
	];
	const WORKER = [{ type: "d1", name: "DB", id: "theirs" }];
	const changes = () => calls().filter((call) => / create |^deploy |migrations apply|^secret list/.test(call));

	test.each([
		[{ bindings: WORKER }, 'the Worker "capstan", which does not use the database "capstan"'],
		[{ bindings: WORKER, databases: DATABASES }, 'the Worker "capstan", which does not use the database "capstan"'],
		[{ bindings: [] }, 'the Worker "capstan"'],
		[{ buckets: ["capstan-bundles"], objects: 1_200 }, 'the bucket "capstan-bundles", which has 1,200 objects'],
	])("%j stop a deployment before it changes anything, unless --take-over is given", async (theirs, named) => {
		setAccount(structuredClone(theirs));
		const refused = await runDeploy().catch(String);
		expect(refused).toContain(`  - ${named}`);
		expect(refused).toContain("npm run deploy -- --name=NAME");
		expect(refused).toContain("npm run deploy -- --take-over");
		expect(changes()).toEqual([]);
		expect(await runDeploy({ takeOver: true })).toMatchObject({ key: { state: "created" } });
		expect(await runDeploy(), "all of it is this deployment's now").toBeDefined();
	});

	test("in a database are its tables, and the deployment's own reports in the place of its main database", async () => {
		setAccount({ databases: DATABASES });
		const database = await scene.openDatabase();
		await database.batch(
			["DROP TABLE app_reservations", "CREATE TABLE wp_posts (id INTEGER)"].map((text) => database.prepare(text)),
		);
		const refused = await runDeploy().catch(String);
		expect(refused).toMatch(/ - the database "capstan", which has other tables, such as \w+\n/);
		expect(refused).not.toContain("capstan-telemetry");
		expect(refused).not.toContain("development build");
		setAccount({ database: scene.account().telemetry });
		expect(await runDeploy().catch(String)).toContain('the database "capstan", which has other tables');
		expect(changes()).toEqual([]);
	});

	test("are not the Worker, the databases and the full bucket of this deployment, or an empty bucket and database", async () => {
		setAccount({ databases: DATABASES, buckets: ["capstan-bundles"] });
		await runDeploy();
		setAccount({ objects: 7 });
		await scene.openDatabase();
		expect(await runDeploy()).toBeDefined();
	});

	test.each([
		["worker:reports", 'The Worker "reports" consumes', "npx wrangler queues consumer remove capstan-events reports"],
		["HTTP Pull Consumer.", "is read over HTTP", "npx wrangler queues consumer http remove capstan-events"],
	])("on a Queue (%s) stop it too, with the command that ends that", async (consumer, named, command) => {
		setAccount({ queues: ["capstan-events"], consumers: { "capstan-events": consumer } });
		for (const takeOver of [false, true]) {
			const refused = await runDeploy({ takeOver }).catch(String);
			expect(refused).toContain(named);
			expect(refused).toContain(command);
		}
		expect(changes()).toEqual([]);
		setAccount({ consumers: {} });
		expect(await runDeploy()).toMatchObject({ key: { state: "created" } });
	});
});

describe("npm run deploy -- --name=capstan-staging", () => {
	test("creates its own resources beside those of the first deployment, and each is found again", async () => {
		await runDeploy();
		const bindings = scene.account().bindings;
		setAccount({ bindings: undefined, secrets: undefined });
		calls();
		const deployment = scene.deployment("capstan-staging");
		const keyPath = join(deployment.stateDirectory, "deployed-admin.key");
		expect(await runDeploy({ deployment, keyPath })).toMatchObject({ key: { state: "created" } });
		expect(scene.account()).toMatchObject({
			databases: ["capstan", "capstan-telemetry", "capstan-staging", "capstan-staging-telemetry"].map((name) => ({
				name,
			})),
			buckets: ["capstan-bundles", "capstan-staging-bundles"],
			consumers: { "capstan-events": "worker:capstan", "capstan-staging-events": "worker:capstan-staging" },
		});
		expect(calls()).toContain("secret list --name capstan-staging --format json");
		const config = JSON.parse(await readFile(join(scene.directory(), "config.json"), "utf8"));
		expect(config.name).toBe("capstan-staging");
		await runDeploy({ deployment, keyPath });
		setAccount({ bindings });
		await runDeploy();
		expect(calls().filter((call) => call.includes(" create "))).toEqual([]);
	});

	test("names its option in refusals, and creates its file of settings once nothing stands against it", async () => {
		const deployment = scene.deployment("capstan-staging");
		const settled: string[] = [];
		const settle = async () => settled.push("settled") > 0;
		setAccount({ bindings: [] });
		const refused = await runDeploy({ deployment, settle }).catch(String);
		expect(refused).toContain("npm run deploy -- --name=capstan-staging --take-over");
		expect(settled).toEqual([]);
		setAccount({ bindings: undefined });
		const lines: string[] = [];
		await runDeploy({ deployment, settle, print: (line) => lines.push(line) });
		expect(lines).toContain("  deployments/capstan-staging.toml was created, for the settings of this deployment.");
	});
});
