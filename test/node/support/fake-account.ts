/**
 * A Cloudflare account for the operator's commands: each test has an empty one, behind the wrangler
 * of `fake-wrangler.ts`.
 */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { D1Database } from "@cloudflare/workers-types";
import { convertV4MiniflareOptions, Miniflare } from "miniflare";
import { afterEach, beforeEach } from "vitest";
import { buildDeployment, type DeployOptions, deploy } from "../../../src/operator/deploy";
import { type Deployment, readDeployment } from "../../../src/operator/deployment";
import { migrate } from "../../../src/operator/migrate";
import type { Wrangler } from "../../../src/operator/wrangler";
import { type FakeAccount, fakeWrangler } from "./fake-wrangler";

export const DATABASE_ID = "0d1e2f3a-0000-4000-8000-000000000001";
export const TELEMETRY_ID = "0d1e2f3a-0000-4000-8000-000000000002";

export interface FakeAccountScene {
	/** Holds what wrangler was given; a new one for each test. */
	readonly directory: () => string;
	readonly wrangler: () => Wrangler;
	readonly account: () => FakeAccount;
	/** Its state is in the directory of the test. */
	deployment(name?: string): Deployment;
	/** The commands since the last call. */
	takeCalls(): string[][];
	setAccount(change: Partial<FakeAccount>): void;
	/**
	 * Opens a database for the commands of this test and closes it afterwards: a new one, or the one
	 * that the installed wrangler has written in this test.
	 */
	openDatabase(of?: "new" | "wrangler"): Promise<D1Database>;
	/** `npm run deploy` that prints nothing. */
	deploy(options?: Partial<DeployOptions>): ReturnType<typeof deploy>;
}

let built: Promise<void> | undefined;

export function fakeAccountScene(): FakeAccountScene {
	const environment = { ...process.env };
	const open: Miniflare[] = [];
	let directory: string;
	let account: FakeAccount;
	let calls: string[][] = [];

	const scene: FakeAccountScene = {
		directory: () => directory,
		wrangler: () => fakeWrangler(directory, account, calls),
		account: () => account,
		deployment: (name) => readDeployment(name, { state: join(directory, "state") }),
		takeCalls: () => calls.splice(0),
		setAccount: (change) => void Object.assign(account, change),
		async openDatabase(of = "new") {
			const miniflare = new Miniflare(
				convertV4MiniflareOptions({
					modules: true,
					script: "export default {}",
					d1Databases: { DB: DATABASE_ID, TELEMETRY: TELEMETRY_ID },
					...(of === "new" ? {} : { resourcePersistencePath: join(directory, "database/v3") }),
				}),
			);
			open.push(miniflare);
			const database = (await miniflare.getD1Database("DB")) as unknown as D1Database;
			const telemetry = (await miniflare.getD1Database("TELEMETRY")) as unknown as D1Database;
			if (of === "new") await Promise.all([migrate(database), migrate(telemetry, "telemetry")]);
			Object.assign(account, { database, telemetry });
			return database;
		},
		deploy: (options) =>
			deploy({
				deployment: scene.deployment(),
				wrangler: scene.wrangler(),
				keyPath: join(directory, "state/deployed-admin.key"),
				print: () => undefined,
				build: () => (built ??= buildDeployment()),
				...options,
			}),
	};

	beforeEach(async () => {
		directory = await mkdtemp(join(tmpdir(), "capstan-account-"));
		process.env.CLOUDFLARE_API_TOKEN = "no real token";
		delete process.env.CLOUDFLARE_ACCOUNT_ID;
		calls = [];
		account = {
			loggedIn: true,
			accounts: [{ id: "acc1", name: "One" }],
			databases: [],
			buckets: [],
			hasR2: true,
			hasSubdomain: true,
			queues: [],
			consumers: {},
			secrets: undefined,
		};
	});
	afterEach(async () => {
		process.env = { ...environment };
		for (const each of open.splice(0)) await each.dispose();
		await rm(directory, { recursive: true, force: true });
	});
	return scene;
}
