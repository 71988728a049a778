/**
 * The growth of each endpoint: the rows that D1 reads, its round trips and the bytes of the answer
 * in an installation of a tenth and in a large one. The requests are those that the isolation tests
 * hold every endpoint to, and lists with their parameters.
 */
import type { WorkerModules } from "../src/operator/build";
import { requestOver } from "../test/proof/fuzz/scene";
import { GROWTH_REQUESTS } from "../test/worker/support/growth-requests";
import type { Prepare } from "../test/worker/support/request-parts";
import { MORE_REQUESTS, REQUESTS } from "../test/worker/support/requests";
import { createTestApp, type Scene, uploadTestBundle } from "../test/worker/support/scene";
import { type CapstanFacts, capstan, withoutConsumer } from "./capstan";
import { type Counts, NOTHING } from "./counts";
import {
	type GrowthScene,
	type GrowthSize,
	LARGE_INSTALLATION,
	mainRows,
	SMALL_INSTALLATION,
	telemetryRows,
} from "./growth-fill";
import { type OpenDatabase, type RunningWorker, startWorker, type WorkerDefinition } from "./runtime";

export interface GrowthEffort {
	readonly small: GrowthSize;
	readonly large: GrowthSize;
}

/** Apps and channels as the default quotas allow them with room for the requests. */
export const FULL_GROWTH: GrowthEffort = {
	small: SMALL_INSTALLATION,
	large: { ...LARGE_INSTALLATION, apps: 900 },
};
export const QUICK_GROWTH: GrowthEffort = {
	small: { apps: 30, channels: 300, bundles: 150, devices: 1_000, members: 20, auditEntries: 1_000 },
	large: { apps: 300, channels: 3_000, bundles: 1_500, devices: 10_000, members: 200, auditEntries: 10_000 },
};

interface Figures {
	readonly rows: number;
	readonly trips: number;
	readonly bytes: number;
	readonly status: number;
}

export interface GrowthResult {
	readonly effort: GrowthEffort;
	readonly requests: readonly { readonly name: string; readonly small: Figures; readonly large: Figures }[];
}

/** Above any quota of channels, which the large installation exceeds. */
const QUOTAS = "channels_per_app=1000000,apps_per_organization=1000000";
const SETTLED_MS = 25;

/** They end the app or the organization, so they come last. */
const isLast = (name: string) =>
	["DELETE /organization", "DELETE /app/:app_id", "POST /app/transfer/accept"].includes(name);

const ALL: readonly (readonly [name: string, prepare: Prepare])[] = [
	...Object.entries(REQUESTS),
	...Object.entries(MORE_REQUESTS).flatMap(([name, further]) =>
		Object.entries(further).map(([what, prepare]) => [`${name} ${what}`, prepare] as const),
	),
	...GROWTH_REQUESTS,
].sort(([one], [other]) => Number(isLast(one)) - Number(isLast(other)));

export async function measureGrowth(
	script: WorkerModules,
	effort: GrowthEffort,
	signal: AbortSignal,
	say: (text: string) => void,
): Promise<GrowthResult> {
	const small = await figuresOf(script, effort.small, signal, (text) => say(`small: ${text}`));
	const large = await figuresOf(script, effort.large, signal, (text) => say(`large: ${text}`));
	const requests = ALL.flatMap(([name]) => {
		const [one, other] = [small.get(name), large.get(name)];
		return one === undefined || other === undefined ? [] : [{ name, small: one, large: other }];
	});
	return { effort, requests };
}

interface GrowthFacts extends CapstanFacts {
	readonly scene: GrowthScene;
}

async function figuresOf(
	script: WorkerModules,
	size: GrowthSize,
	signal: AbortSignal,
	say: (text: string) => void,
): Promise<Map<string, Figures>> {
	say("filling");
	const worker = await startWorker(filled(script, size));
	try {
		const world = worldOf(worker.origin, worker.facts);
		const app = { appId: worker.facts.scene.appId, uuid: worker.facts.scene.app };
		const figures = new Map<string, Figures>();
		for (const [name, prepare] of ALL) {
			signal.throwIfAborted();
			say(name);
			const prepared = await prepare(world, app).catch(() => undefined);
			if (prepared === undefined) continue;
			const { path, ...options } = prepared;
			const before = await settled(worker);
			const [method = ""] = name.split(" ");
			const answer = await world.request(method, path, { key: world.adminKey, ...options });
			const after = await settled(worker);
			figures.set(name, {
				rows: after.d1RowsRead - before.d1RowsRead,
				trips: after.d1Trips - before.d1Trips,
				bytes: sizeOf(answer.body),
				status: answer.status,
			});
		}
		return figures;
	} finally {
		await worker.stop();
	}
}

/** Counts once the work that follows an answer has ended. */
async function settled(worker: RunningWorker<GrowthFacts>): Promise<Counts> {
	let counts: Counts = NOTHING;
	for (let again = 0; again < 40; again++) {
		const next = await worker.counts();
		if (next.d1RowsRead === counts.d1RowsRead && again > 0) return next;
		counts = next;
		await new Promise((resolve) => setTimeout(resolve, SETTLED_MS));
	}
	return counts;
}

function filled(script: WorkerModules, size: GrowthSize): WorkerDefinition<GrowthFacts> {
	const { options, seed } = withoutConsumer(capstan(script, { bundles: 1 }));
	return {
		script,
		options: { ...options, bindings: { ...(options.bindings as object), QUOTAS } },
		async seed(open, origin) {
			const facts = await seed(open, origin);
			const scene = await fill(open, origin, facts, size);
			return { ...facts, scene };
		},
	};
}

async function fill(open: OpenDatabase, origin: string, facts: CapstanFacts, size: GrowthSize): Promise<GrowthScene> {
	const main = await open("DB");
	const owner = await main
		.prepare("SELECT owner_org AS orgId, (SELECT id FROM users LIMIT 1) AS userId FROM apps")
		.first<{ orgId: string; userId: string }>();
	if (owner === null) throw new Error("the installation has no app");
	const world = worldOf(origin, { ...facts, scene: { orgId: owner.orgId } as GrowthScene });
	const app = await createTestApp(world);
	await uploadTestBundle(world, app, "1.0.0");
	const binding = await main
		.prepare("SELECT telemetry_binding FROM apps WHERE id = ?")
		.bind(app.uuid)
		.first<string>("telemetry_binding");
	const telemetryBinding = binding ?? "TELEMETRY";
	const scene: GrowthScene = {
		orgId: owner.orgId,
		userId: owner.userId,
		app: app.uuid,
		appId: app.appId,
		telemetryBinding,
		nowMs: Date.now(),
	};
	for (const text of mainRows(scene, size)) await main.prepare(text).run();
	const firstChannel = await main
		.prepare("SELECT min(id) AS id FROM channels WHERE app_id = ?")
		.bind(app.uuid)
		.first<number>("id");
	const telemetry = await open(telemetryBinding);
	for (const text of telemetryRows(scene, size, firstChannel ?? 0)) await telemetry.prepare(text).run();
	return scene;
}

/** The same requests as in the tests, over HTTP. */
function worldOf(origin: string, { key: adminKey, scene: { orgId } }: GrowthFacts): Scene {
	const request = requestOver(origin);
	return {
		orgId,
		adminKey,
		request(method, address, options) {
			// Some paths are whole addresses, of the host that the product's bindings name.
			const { pathname, search } = new URL(address, origin);
			return request(method, pathname + search, options);
		},
	};
}

function sizeOf(body: unknown): number {
	return body instanceof Uint8Array ? body.length : Buffer.byteLength(JSON.stringify(body));
}

const MOST_ROWS = 1_000;

export function growthLines({ effort: { small, large }, requests }: GrowthResult): string[] {
	const sizeOf = ({ apps, channels, bundles, devices, members, auditEntries }: GrowthSize) =>
		`${apps + 2} apps, one with ${channels} channels, ${bundles} bundles and ${devices} devices, ${members} members, ${auditEntries} audit entries`;
	const above = requests.filter(({ large: { rows } }) => rows > MOST_ROWS);
	return [
		`Rows that D1 reads for one request, round trips, and bytes of the answer. Small: ${sizeOf(small)}. Large: ${sizeOf(large)}. Goal: at most ${MOST_ROWS} rows for a page of 50. ${above.length} of ${requests.length} requests read more.`,
		"",
		"| request | rows, small | rows, large | factor | trips | bytes, large |",
		"|---|--:|--:|--:|--:|--:|",
		...[...requests]
			.sort((one, other) => other.large.rows - one.large.rows)
			.map(
				({ name, small: before, large: after }) =>
					`| ${name} | ${before.rows} | ${after.rows} | ${(after.rows / Math.max(1, before.rows)).toFixed(1)} | ${after.trips} | ${after.bytes} |`,
			),
	];
}
