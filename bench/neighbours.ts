/**
 * Measures how the worst traffic of one preview key, or of a stranger, affects another caller of the same isolate: the time of its requests during the
 * traffic and before it, and the growth of the process. The limits by key and address are those of wrangler.toml. Each kind of traffic runs
 * against a separate process. The load comes from the same machine, so its own work is in the ratios.
 */
import { createHash, randomBytes } from "node:crypto";
import { type ClientRequest, request as httpRequest } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";
import { brotliCompressSync } from "node:zlib";
import { convertV4MiniflareOptions, Log, LogLevel, Miniflare, type V4MiniflareOptions } from "miniflare";
import { mintKey } from "../src/authz/secrets";
import type { WorkerModules } from "../src/operator/build";
import { miniflareModules } from "../src/operator/local-build";
import { capstan } from "./capstan";
import type { Question } from "./connection";
import { megabytesOf, type Reopening, reopening } from "./memory";
import { databasesOf, runtimePids } from "./runtime";
import { deviceId } from "./scenarios";
import { percentile } from "./statistics";

export interface NeighboursEffort {
	/** Duration of each measurement: without the traffic, and during it. */
	readonly durationMs: number;
}

export const FULL_NEIGHBOURS: NeighboursEffort = { durationMs: 10_000 };
export const QUICK_NEIGHBOURS: NeighboursEffort = { durationMs: 4_000 };

interface Traffic {
	readonly title: string;
	readonly requests: number;
	/** Answers by status; `closed`: the connection ended without an answer. */
	readonly statuses: Readonly<Record<string, number>>;
	/** Times of the neighbour's requests. */
	readonly before: { readonly p50Ms: number; readonly p99Ms: number };
	readonly during: { readonly p50Ms: number; readonly p99Ms: number };
	readonly grownMegabytes: number;
}

export interface NeighboursResult {
	readonly traffic: readonly Traffic[];
}

/** Goals: the ratio of the neighbour's p99, and the growth of the process. */
export const NEIGHBOUR_GOALS = { ratio: 5, megabytes: 100 };

/** Ordinary traffic, whose ratio shows the share of the local database and of the load itself. */
const COMPARISON = "for comparison,";
const NAME = "measured";
const PAUSE_MS = 25;
const SAMPLE_MS = 50;
const WARM_REQUESTS = 200;
const MEBIBYTE = 1024 * 1024;
const JSON_TYPE = { "content-type": "application/json" };
const TUS = { "tus-resumable": "1.0.0" };

interface Scene {
	readonly origin: string;
	readonly orgId: string;
	readonly appId: string;
	readonly adminKey: string;
	readonly previewKey: string;
}

/** One step of an attacker on one connection. @returns the status; undefined if the connection was closed */
type Step = (connection: Reopening, number: number) => Promise<number | undefined>;

interface Kind {
	readonly title: string;
	readonly connections: number;
	readonly prepare: (scene: Scene) => Promise<Step>;
}

const sha256 = (bytes: Uint8Array | string) => createHash("sha256").update(bytes).digest("hex");
const strangersKey = () => mintKey((length) => randomBytes(length)).text;

function manifestOf(bytes: number, path: string): object[] {
	const entry = { file_name: "index.html", s3_path: path, file_hash: "ab".repeat(256) };
	const count = Math.floor(bytes / JSON.stringify(entry).length);
	return Array.from({ length: count }, (_, index) => ({
		...entry,
		file_name: index === 0 ? "index.html" : `${index}`,
	}));
}

async function send(scene: Scene, method: string, path: string, body: unknown, key: string): Promise<unknown> {
	const response = await fetch(scene.origin + path, {
		...{ method, headers: { ...JSON_TYPE, authorization: key }, body: JSON.stringify(body) },
	});
	const text = await response.text();
	if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${text}`);
	return JSON.parse(text);
}

const deltaPath = ({ orgId, appId }: Scene, hash: string, name: string) =>
	`orgs/${orgId}/apps/${appId}/delta/${hash}_${name}`;

function creation(key: string, path: string, length: number): Question {
	const metadata = `filename ${Buffer.from(path).toString("base64")}`;
	const headers = { ...TUS, authorization: key, "upload-length": String(length), "upload-metadata": metadata };
	return { method: "POST", path: "/files/upload/attachments", headers };
}

async function beginUpload({ origin }: Scene, key: string, path: string, length: number): Promise<string> {
	const { method, path: created, headers } = creation(key, path, length);
	const response = await fetch(origin + created, { method, ...(headers === undefined ? {} : { headers }) });
	const location = response.headers.get("location");
	if (location === null) throw new Error(`no upload: ${response.status} ${await response.text()}`);
	return new URL(location).pathname;
}

const appending = (key: string) => ({
	...{ ...TUS, authorization: key, "upload-offset": "0", "content-type": "application/offset+octet-stream" },
});

async function storeFile(scene: Scene, key: string, name: string, bytes: Uint8Array): Promise<string> {
	const path = deltaPath(scene, sha256(bytes), name);
	const location = await beginUpload(scene, key, path, bytes.length);
	const response = await fetch(scene.origin + location, { method: "PATCH", headers: appending(key), body: bytes });
	if (response.status !== 204) throw new Error(`${name}: ${response.status} ${await response.text()}`);
	return path;
}

/** Uploads the bytes under the hash of other ones, so that nothing is stored. */
async function uploading(scene: Scene, body: Uint8Array): Promise<Step> {
	return async (connection, number) => {
		const path = deltaPath(scene, randomBytes(32).toString("hex"), `${number}.js.br`);
		const location = await beginUpload(scene, scene.previewKey, path, body.length).catch(() => undefined);
		if (location === undefined) return 429;
		return connection.ask({ method: "PATCH", path: location, headers: appending(scene.previewKey), body });
	};
}

const KINDS: readonly Kind[] = [
	{
		title: "a stranger: manifests of 15.5 MB under invented keys",
		connections: 8,
		async prepare({ appId }) {
			const text = JSON.stringify({
				app_id: appId,
				name: "1.0.0",
				manifest: manifestOf(15_500_000, "orgs/x/apps/y/z"),
			});
			const body = Buffer.from(text);
			return (connection) =>
				connection.ask({
					...{ method: "POST", path: "/private/set_manifest", body },
					headers: { ...JSON_TYPE, authorization: strangersKey() },
				});
		},
	},
	{
		title: "a stranger: lists of devices under invented keys",
		connections: 8,
		prepare:
			async ({ appId }) =>
			(connection) =>
				connection.ask({
					...{ method: "GET", path: `/device?app_id=${appId}`, headers: { authorization: strangersKey() } },
				}),
	},
	{
		title: "a preview key: manifests of 7.5 MB",
		connections: 8,
		async prepare(scene) {
			const path = deltaPath(scene, "ab".repeat(32), "index.html");
			const manifest = manifestOf(7_500_000, path);
			const body = Buffer.from(JSON.stringify({ app_id: scene.appId, name: "1.0.0", manifest }));
			return (connection) =>
				connection.ask({
					...{ method: "POST", path: "/private/set_manifest", body },
					headers: { ...JSON_TYPE, authorization: scene.previewKey },
				});
		},
	},
	{
		title: `${COMPARISON} a preview key: ordinary files of 200 bytes`,
		connections: 12,
		prepare: (scene) => uploading(scene, brotliCompressSync(randomBytes(190))),
	},
	{
		title: "a preview key: files of 200 bytes that unpack to 250 MB",
		connections: 12,
		prepare: (scene) => uploading(scene, brotliCompressSync(Buffer.alloc(250_000_000))),
	},
	{
		title: "a stranger: checks that answer the largest manifest of a preview key",
		connections: 12,
		async prepare(scene) {
			const { appId, previewKey } = scene;
			const path = await storeFile(scene, previewKey, "index.html", Buffer.from("page"));
			const name = "9.0.0-pr.1";
			await send(scene, "POST", "/bundle", { app_id: appId, version: name }, previewKey);
			// The second is the largest that is accepted of a preview key.
			for (const files of [10_000, 1_200]) {
				const entries = manifestOf(15_500_000, path).slice(0, files);
				const body = { app_id: appId, name, manifest: entries };
				const isSet = await send(scene, "POST", "/private/set_manifest", body, previewKey).then(
					() => true,
					() => false,
				);
				if (isSet) break;
			}
			await send(scene, "POST", "/private/finalize_bundle_upload", { app_id: appId, name }, previewKey);
			const channel = { app_id: appId, channel: "pr-1", version: name, allow_device_self_set: true };
			await send(scene, "POST", "/channel", channel, previewKey);
			return (connection, number) =>
				connection.ask({
					...{ method: "POST", path: "/updates", headers: JSON_TYPE },
					body: JSON.stringify({
						...{ app_id: appId, device_id: deviceId(number % 10), version_name: "builtin", version_build: "1.0.0" },
						...{ platform: "ios", plugin_version: "8.51.23", defaultChannel: "pr-1" },
					}),
				});
		},
	},
	{
		title: "a preview key: 24 uploads of 8 MiB without their last byte",
		connections: 24,
		async prepare(scene) {
			const bytes = Buffer.alloc(8 * MEBIBYTE - 1);
			return async (_, number) => {
				const path = deltaPath(scene, randomBytes(32).toString("hex"), `${number}.bin`);
				const location = await beginUpload(scene, scene.previewKey, path, 8 * MEBIBYTE).catch(() => undefined);
				if (location === undefined) return 429;
				const headers = { ...appending(scene.previewKey), "content-length": String(8 * MEBIBYTE) };
				let asked: ClientRequest | undefined;
				const answered = new Promise<number | undefined>((resolve) => {
					asked = httpRequest(scene.origin + location, { method: "PATCH", headers }, (answer) => {
						answer.resume();
						resolve(answer.statusCode);
					});
					asked.on("error", () => resolve(undefined));
					asked.write(bytes);
				});
				const status = await Promise.race([answered, sleep(3_000)]);
				asked?.destroy();
				return status ?? undefined;
			};
		},
	},
];

export async function measureNeighbours(
	script: WorkerModules,
	effort: NeighboursEffort,
	signal: AbortSignal,
	say: (text: string) => void,
): Promise<NeighboursResult | undefined> {
	const traffic: Traffic[] = [];
	for (const kind of KINDS) {
		signal.throwIfAborted();
		say(kind.title);
		const measured = await measureKind(script, kind, effort, signal);
		if (measured === undefined) return undefined;
		traffic.push(measured);
	}
	return { traffic };
}

/** Undefined if the system does not report memory per process. */
async function measureKind(
	script: WorkerModules,
	kind: Kind,
	effort: NeighboursEffort,
	signal: AbortSignal,
): Promise<Traffic | undefined> {
	const definition = capstan(script, { bundles: 10, isLimited: true });
	const { queueConsumers: _, ...options } = definition.options;
	const pidsBefore = new Set(await runtimePids());
	const miniflare = new Miniflare(
		convertV4MiniflareOptions({
			...options,
			...{ name: NAME, modules: miniflareModules(script), modulesRoot: "/", host: "127.0.0.1", port: 0 },
			unsafeDirectSockets: [{ host: "127.0.0.1", port: 0 }],
			cf: false,
			log: new Log(LogLevel.NONE),
		} as unknown as V4MiniflareOptions),
	);
	const connections: Reopening[] = [];
	try {
		await miniflare.ready;
		const pid = (await runtimePids()).find((candidate) => !pidsBefore.has(candidate));
		const { origin } = await miniflare.unsafeGetDirectURL();
		const { appId, key: adminKey } = await definition.seed(databasesOf(miniflare), origin);
		const scene = await withPreviewKey({ origin, appId, adminKey });
		const step = await kind.prepare(scene);
		const neighbour = await reopening(origin);
		connections.push(neighbour);
		const ask = async () => {
			const startMs = performance.now();
			const status = await neighbour.ask({
				...{ method: "GET", path: "/organization", headers: { authorization: adminKey } },
			});
			if (status !== 200) throw new Error(`the neighbour got ${status}`);
			return performance.now() - startMs;
		};
		for (let request = 0; request < WARM_REQUESTS; request += 1) {
			await ask();
			await sleep(1);
		}
		const watch = async (isOver: () => boolean) => {
			const times: number[] = [];
			while (!isOver()) {
				times.push(await ask());
				await sleep(PAUSE_MS);
			}
			return { p50Ms: percentile(times, 50), p99Ms: percentile(times, 99) };
		};
		const forDuration = () => {
			const endMs = performance.now() + effort.durationMs;
			return () => performance.now() >= endMs || signal.aborted;
		};
		const before = await watch(forDuration());
		const idle = await megabytesOf(pid);
		if (idle === undefined) return undefined;
		let peak = idle;
		const sampling = setInterval(async () => {
			peak = Math.max(peak, (await megabytesOf(pid)) ?? 0);
		}, SAMPLE_MS);
		const statuses: Record<string, number> = {};
		let requests = 0;
		const isOver = forDuration();
		const attacking = Promise.all(
			Array.from({ length: kind.connections }, async () => {
				const connection = await reopening(origin);
				connections.push(connection);
				while (!isOver()) {
					const status = (await step(connection, requests++)) ?? "closed";
					statuses[status] = (statuses[status] ?? 0) + 1;
				}
			}),
		);
		const during = await watch(isOver);
		await attacking;
		clearInterval(sampling);
		return { title: kind.title, requests, statuses, before, during, grownMegabytes: peak - idle };
	} finally {
		for (const connection of connections) connection.close();
		await miniflare.dispose();
	}
}

async function withPreviewKey(scene: Pick<Scene, "origin" | "appId" | "adminKey">): Promise<Scene> {
	const answer = await fetch(`${scene.origin}/organization`, { headers: { authorization: scene.adminKey } });
	const [{ id: orgId }] = (await answer.json()) as [{ id: string }];
	const begun = { ...scene, orgId, previewKey: "" };
	const { id: appUuid } = (await (
		await fetch(`${scene.origin}/app/${scene.appId}`, { headers: { authorization: scene.adminKey } })
	).json()) as { id: string };
	const bindings = [{ role_name: "app_preview", scope_type: "app", org_id: orgId, app_id: appUuid }];
	const made = await send(begun, "POST", "/apikey", { name: "previews", hashed: true, bindings }, scene.adminKey);
	return { ...begun, previewKey: (made as { key: string }).key };
}

export function neighboursLines({ traffic }: NeighboursResult): string[] {
	const attacks = traffic.filter(({ title }) => !title.startsWith(COMPARISON));
	const ratioOf = ({ before, during }: Traffic) => during.p99Ms / before.p99Ms;
	const worst = {
		ratio: Math.max(...attacks.map(ratioOf)),
		megabytes: Math.max(...attacks.map((one) => one.grownMegabytes)),
	};
	const met = (isMet: boolean) => (isMet ? "met" : "**missed**");
	return [
		`Another caller's requests during the worst traffic of one preview key or a stranger. Goals: p99 below ${NEIGHBOUR_GOALS.ratio} times, worst ${worst.ratio.toFixed(1)}, ${met(worst.ratio < NEIGHBOUR_GOALS.ratio)}; growth of the process below ${NEIGHBOUR_GOALS.megabytes} MB, worst ${worst.megabytes} MB, ${met(worst.megabytes < NEIGHBOUR_GOALS.megabytes)}.`,
		"",
		"| traffic | requests | answers | p50 before / during, ms | p99 before / during, ms | ratio of p99 | growth, MB |",
		"|---|--:|---|--:|--:|--:|--:|",
		...traffic.map((one) => {
			const answers = Object.entries(one.statuses).map(([status, count]) => `${status}: ${count}`);
			const pair = (percent: "p50Ms" | "p99Ms") =>
				`${one.before[percent].toFixed(1)} / ${one.during[percent].toFixed(1)}`;
			return `| ${one.title} | ${one.requests} | ${answers.join(", ")} | ${pair("p50Ms")} | ${pair("p99Ms")} | ${ratioOf(one).toFixed(1)} | ${one.grownMegabytes} |`;
		}),
	];
}
