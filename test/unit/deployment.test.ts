/**
 * Settings of deployments: what `deployments/<name>.toml` changes of the delivered wrangler.toml,
 * and which names another deployment gets.
 */
import { copyFile, mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { createSettings, misplacedText, readDeployment } from "../../src/operator/deployment";
import { PROJECT_DIRECTORY } from "../../src/operator/project";

let project: string;
const read = (name?: string) => readDeployment(name, { project, state: join(project, "state") });
const settle = async (text: string, name = "capstan") => {
	await mkdir(join(project, "deployments"), { recursive: true });
	await writeFile(join(project, `deployments/${name}.toml`), text);
};
const editWrangler = async (from: string | RegExp, to: string) => {
	const path = join(project, "wrangler.toml");
	await writeFile(path, (await readFile(path, "utf8")).replace(from, to));
};

beforeEach(async () => {
	project = await mkdtemp(join(tmpdir(), "capstan-deployment-"));
	await copyFile(join(PROJECT_DIRECTORY, "wrangler.toml"), join(project, "wrangler.toml"));
});
afterEach(() => rm(project, { recursive: true }));

describe("the delivered configuration", () => {
	test("is deployed as it is, with rate limit namespaces of the Worker's name", () => {
		const { name, rawConfig, misplaced, option, stateDirectory } = read();
		expect([name, misplaced, option, stateDirectory]).toEqual(["capstan", [], "", join(project, "state")]);
		expect(rawConfig.r2_buckets).toEqual([{ binding: "BUNDLES", bucket_name: "capstan-bundles" }]);
		const ids = rawConfig.ratelimits?.map((one) => one.namespace_id) ?? [];
		expect(new Set(ids).size).toBe(6);
		for (const id of ids) expect(id).toMatch(/^[1-9]\d*$/);
	});

	test("bounds the consumers of each queue, keeps workers.dev beside a domain, and serves no preview URLs", () => {
		const { rawConfig } = read();
		for (const { queue, max_concurrency: most } of rawConfig.queues?.consumers ?? []) {
			expect(most, queue).toBeGreaterThanOrEqual(5);
			expect(most, queue).toBeLessThanOrEqual(10);
		}
		expect(rawConfig).toMatchObject({ workers_dev: true, preview_urls: false });
	});
});

describe("settings", () => {
	test("replace values, and entries of lists by their binding, name or queue", async () => {
		await settle(`
routes = [{ pattern = "updates.example.com", custom_domain = true }]
[vars]
PUBLIC_URL = "https://updates.example.com"
[[d1_databases]]
binding = "DB"
database_id = "given"
[[d1_databases]]
binding = "TELEMETRY_1"
database_name = "more"
migrations_dir = "src/db/telemetry-migrations"
[[ratelimits]]
name = "D1_READS"
namespace_id = "7"
[[queues.consumers]]
queue = "capstan-events"
max_concurrency = 10
`);
		const { rawConfig } = read();
		expect(rawConfig).toMatchObject({
			routes: [{ pattern: "updates.example.com" }],
			vars: { PUBLIC_URL: "https://updates.example.com", EVENT_DAYS: "" },
			d1_databases: [
				{ binding: "DB", database_name: "capstan", database_id: "given" },
				{ binding: "TELEMETRY", database_name: "capstan-telemetry" },
				{ binding: "TELEMETRY_1", database_name: "more" },
			],
		});
		expect(rawConfig.ratelimits?.find((one) => one.name === "D1_READS")).toEqual({
			name: "D1_READS",
			namespace_id: "7",
			simple: { limit: 120, period: 60 },
		});
		expect(rawConfig.queues?.consumers?.[0]).toMatchObject({ max_concurrency: 10, max_batch_size: 100 });
		expect(rawConfig.queues?.consumers).toHaveLength(3);
	});

	test.each([
		[
			'[vars]\nPUBLC_URL = "https://a.example"',
			"vars.PUBLC_URL has no effect, because Capstan does not know it. Did you mean PUBLIC_URL?",
		],
		[
			'[vars]\nREGION = "eu"',
			"vars.REGION has no effect, because Capstan does not know it. Known are PUBLIC_URL, BUNDLES_URL,",
		],
		[
			'[vars]\nMAIL_API_KEY = "k"',
			"MAIL_API_KEY is a secret and must not stand in a file. Remove it, and run npx wrangler secret put",
		],
		['[var]\nEVENT_DAYS = "7"', "var has no effect, because Capstan does not know it. Did you mean vars?"],
		[
			'[[ratelimits]]\nname = "D1_READ"\nsimple = { limit = 1, period = 60 }',
			"ratelimits with the name D1_READ has no effect, because Capstan does not know it. Did you mean D1_READS?",
		],
		[
			'[[d1_databases]]\nbinding = "TELEMETRY1"\ndatabase_name = "x"',
			"d1_databases with the binding TELEMETRY1 has no effect",
		],
		[
			'[[queues.consumers]]\nqueue = "capstan-event"\nmax_concurrency = 9',
			"queues.consumers with the queue capstan-event has no effect, because Capstan does not know it. Did you mean capstan-events?",
		],
	])("that have no effect are named: %j", async (text, problem) => {
		await settle(text);
		expect(read().problems).toEqual([expect.stringContaining(`deployments/capstan.toml: ${problem}`)]);
	});

	test("that take effect are no problem", async () => {
		await settle(`
account_id = "a"
routes = [{ pattern = "updates.example.com", custom_domain = true }]
placement = { mode = "smart" }
[vars]
EVENT_DAYS = "7"
[[d1_databases]]
binding = "TELEMETRY_1"
database_name = "more"
[[queues.consumers]]
queue = "capstan-events"
max_concurrency = 10
[observability]
enabled = false
[limits]
cpu_ms = 100
`);
		expect(read().problems).toEqual([]);
	});

	test("are created once, with examples that can be used as they stand", async () => {
		expect(await createSettings(read(), project)).toBe(true);
		const untouched = read().rawConfig;
		expect(await createSettings(read(), project)).toBe(false);
		const path = join(project, "deployments/capstan.toml");
		const text = await readFile(path, "utf8");
		await writeFile(path, text.replaceAll(/^# (?=\[|\w+ = )/gm, ""));
		const { rawConfig } = read();
		expect(rawConfig).not.toEqual(untouched);
		expect(Object.keys(rawConfig)).toEqual(expect.arrayContaining(["routes"]));
		expect(Object.keys(rawConfig.vars ?? {})).toEqual(Object.keys(untouched.vars ?? {}));
	});

	test("that are no TOML are named", async () => {
		await settle("[vars");
		expect(() => read()).toThrow(/^deployments\/capstan\.toml cannot be read: /);
	});

	test("in wrangler.toml still apply, and the way out is one sentence", async () => {
		await editWrangler('PUBLIC_URL = ""', 'PUBLIC_URL = "https://updates.example.com"');
		await editWrangler(/^name = .*/m, 'name = "acme"\naccount_id = "acc1"');
		const { name, rawConfig, misplaced } = read();
		expect([name, rawConfig.d1_databases?.[0]?.database_name]).toEqual(["acme", "capstan"]);
		expect(misplacedText(misplaced)).toMatch(
			/^wrangler\.toml has settings of your deployment \(name, account_id, vars\.PUBLIC_URL\)\. .*deployments\/capstan\.toml.*git checkout wrangler\.toml/,
		);
		// Another deployment must not take them over.
		expect(() => read("capstan-staging")).toThrow("Nothing was done: wrangler.toml has settings");
	});
});

describe("another deployment", () => {
	test("has its own Worker, databases, bucket, queues, rate limits, settings and key", async () => {
		await settle('[vars]\nPUBLIC_URL = "https://updates.example.com"');
		await settle('[vars]\nEVENT_DAYS = "7"', "capstan-staging");
		const [production, staging] = [read(), read("capstan-staging")];
		expect(staging).toMatchObject({
			name: "capstan-staging",
			option: " --name=capstan-staging",
			stateDirectory: join(project, "state/deployments/capstan-staging"),
			rawConfig: {
				name: "capstan-staging",
				vars: { PUBLIC_URL: "", EVENT_DAYS: "7" },
				d1_databases: [
					{ binding: "DB", database_name: "capstan-staging" },
					{ binding: "TELEMETRY", database_name: "capstan-staging-telemetry" },
				],
				r2_buckets: [{ bucket_name: "capstan-staging-bundles" }],
				queues: {
					producers: [{ queue: "capstan-staging-events" }, { queue: "capstan-staging-webhooks" }],
					consumers: [
						{ queue: "capstan-staging-events", dead_letter_queue: "capstan-staging-events-dead" },
						{ queue: "capstan-staging-webhooks" },
						{ queue: "capstan-staging-events-dead" },
					],
				},
			},
		});
		const ids = [production, staging].flatMap(({ rawConfig }) => rawConfig.ratelimits ?? []);
		expect(new Set(ids.map((one) => one.namespace_id)).size).toBe(12);
	});

	test.each([
		['name = "capstan"', "Worker capstan"],
		['[[d1_databases]]\nbinding = "DB"\ndatabase_name = "capstan"', "database capstan"],
		['[[d1_databases]]\nbinding = "TELEMETRY"\ndatabase_id = "0a1b"', "database 0a1b"],
		['[[r2_buckets]]\nbinding = "BUNDLES"\nbucket_name = "capstan-bundles"', "bucket capstan-bundles"],
		['[[queues.producers]]\nbinding = "EVENTS"\nqueue = "capstan-events"', "Queue capstan-events"],
		['[[queues.consumers]]\nqueue = "capstan-webhooks"\nmax_concurrency = 2', "Queue capstan-webhooks"],
	])("that names a resource of the first one is refused: %j", async (settings, resource) => {
		await settle('[[d1_databases]]\nbinding = "TELEMETRY"\ndatabase_id = "0a1b"');
		await settle(settings, "capstan-staging");
		for (const [name, file] of [
			["capstan-staging", "deployments/capstan-staging.toml and deployments/capstan.toml"],
			[undefined, "deployments/capstan.toml and deployments/capstan-staging.toml"],
		] as const) {
			expect(() => read(name)).toThrow(`Nothing was done: ${file} both name the ${resource}, so each`);
		}
		// In another account, names are free.
		await settle(`account_id = "other"\n${settings}`, "capstan-staging");
		expect(read("capstan-staging").name).toBe(settings.startsWith("name") ? "capstan" : "capstan-staging");
	});

	test.each(["Staging", "-a", "a b", "a".repeat(55), ""])("cannot be called %j", (name) => {
		expect(() => read(name)).toThrow("--name takes up to 54");
	});
});
