/** Isolates with their own memory on one database. */
import { createApp } from "../../../src/app";
import type { Deps } from "../../../src/deps";
import {
	createTestApp,
	createWorld,
	requestThrough,
	setTestChannel,
	type TestApp,
	testEnv,
	uploadTestBundle,
	type World,
} from "./world";

export interface Watched {
	readonly request: World["request"];
	/** Texts of the statements of each question to D1, since the last call. */
	asked(): string[][];
	/** Called before each question. */
	before: (texts: readonly string[]) => Promise<void> | void;
}

/** Another isolate of the world's server. */
export function isolate(world: World, deps: Partial<Deps> = {}): Watched {
	let trips: string[][] = [];
	const texts = new WeakMap<object, string>();
	const d1 = {
		withSession(constraint: D1SessionConstraint) {
			const session = testEnv.DB.withSession(constraint);
			return {
				prepare(text: string) {
					const statement = session.prepare(text);
					const bind = statement.bind.bind(statement);
					return {
						bind(...values: unknown[]) {
							const bound = bind(...values);
							texts.set(bound, text);
							return bound;
						},
					};
				},
				async batch(statements: D1PreparedStatement[]) {
					const asked = statements.map((statement) => texts.get(statement) ?? "");
					trips.push(asked);
					await watched.before(asked);
					return session.batch(statements);
				},
			};
		},
	} as unknown as D1Database;
	const watched: Watched = {
		request: requestThrough(createApp({ ...world.deps, d1, ...deps })),
		asked() {
			const since = trips;
			trips = [];
			return since;
		},
		before: () => undefined,
	};
	return watched;
}

/** Questions that read a whole app. */
export const loads = (asked: readonly (readonly string[])[]) =>
	asked.filter((texts) => texts.some((text) => /FROM channels/.test(text))).length;

export async function scene(
	bundle: (world: World, app: TestApp, version: string) => Promise<unknown> = uploadTestBundle,
) {
	const world = await createWorld();
	const apps: TestApp[] = [];
	for (let index = 0; index < 3; index++) {
		const app = await createTestApp(world);
		await bundle(world, app, "1.0.1");
		await bundle(world, app, "1.0.2");
		await setTestChannel(world, app, "production", { public: true, version: "1.0.1" });
		apps.push(app);
	}
	const [one, two, three] = apps;
	if (one === undefined || two === undefined || three === undefined) throw new Error("three apps were created");
	return { world, one, two, three };
}

export const ask = (of: Pick<World, "request">, app: TestApp, fields: object = {}, answered?: () => void) =>
	of.request("POST", "/updates", {
		...(answered === undefined ? {} : { answered }),
		body: {
			app_id: app.appId,
			device_id: crypto.randomUUID(),
			version_name: "builtin",
			version_build: "1.0.0",
			platform: "android",
			plugin_version: "8.51.23",
			...fields,
		},
	});

export const offered = async (of: Pick<World, "request">, app: TestApp) => (await ask(of, app)).body.version;

export const publish = (world: World, app: TestApp, version: string) =>
	setTestChannel(world, app, "production", { version });

/** Overrides of devices that no test asks for; above 5,000 a snapshot does not hold them. */
export async function addOverrides(app: TestApp, count: number): Promise<void> {
	const many = `WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ${count})`;
	await testEnv.DB.batch([
		testEnv.DB.prepare(
			`${many} INSERT INTO device_overrides (app_id, device_id, version_id, created_by, created_at_ms, updated_at_ms)
				SELECT ?1, 'device-' || i, (SELECT max(id) FROM bundles WHERE app_id = ?1), 'test', 0, 0 FROM n`,
		).bind(app.uuid),
	]);
}
