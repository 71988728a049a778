/**
 * The traffic of one preview key, or of a stranger, that the bench of neighbours sends: each kind
 * with the number of its connections and the step that every connection repeats.
 */
import { createHash, randomBytes } from "node:crypto";
import { type ClientRequest, request as httpRequest } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";
import { brotliCompressSync } from "node:zlib";
import { mintKey } from "../src/authz/secrets";
import type { Question } from "./connection";
import type { Reopening } from "./memory";
import { deviceId } from "./scenarios";

/**
 * Ordinary traffic, whose ratio shows the share of the load itself, and of the local database and
 * bucket, which run in the Worker's process.
 */
export const COMPARISON = "for comparison,";
const MEBIBYTE = 1024 * 1024;
const JSON_TYPE = { "content-type": "application/json" };
const TUS = { "tus-resumable": "1.0.0" };

export interface Scene {
	readonly origin: string;
	readonly orgId: string;
	readonly appId: string;
	readonly adminKey: string;
	readonly previewKey: string;
}

/**
 * One step of an attacker on one connection.
 * @returns the status; undefined if the connection was closed
 */
export type Step = (connection: Reopening, number: number) => Promise<number | undefined>;

export interface Kind {
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
		method,
		headers: { ...JSON_TYPE, authorization: key },
		body: JSON.stringify(body),
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
	...TUS,
	authorization: key,
	"upload-offset": "0",
	"content-type": "application/offset+octet-stream",
});

async function storeFile(scene: Scene, key: string, name: string, bytes: Uint8Array): Promise<string> {
	const path = deltaPath(scene, sha256(bytes), name);
	const location = await beginUpload(scene, key, path, bytes.length);
	const response = await fetch(scene.origin + location, { method: "PATCH", headers: appending(key), body: bytes });
	if (response.status !== 204) throw new Error(`${name}: ${response.status} ${await response.text()}`);
	return path;
}

/** Uploads a new small file. */
export const ordinaryFiles =
	(scene: Scene, key: string): Step =>
	async (connection, number) => {
		const content = randomBytes(190);
		const body = brotliCompressSync(content);
		const path = deltaPath(scene, sha256(content), `${number}.js.br`);
		const location = await beginUpload(scene, key, path, body.length).catch(() => undefined);
		if (location === undefined) return 429;
		return connection.ask({ method: "PATCH", path: location, headers: appending(key), body });
	};

/** Uploads the bytes under the hash of other ones, so that nothing is stored. */
async function uploading(scene: Scene, body: Uint8Array): Promise<Step> {
	return async (connection, number) => {
		const path = deltaPath(scene, randomBytes(32).toString("hex"), `${number}.js.br`);
		const location = await beginUpload(scene, scene.previewKey, path, body.length).catch(() => undefined);
		if (location === undefined) return 429;
		return connection.ask({ method: "PATCH", path: location, headers: appending(scene.previewKey), body });
	};
}

/** Sends so many bytes of a file of 8 MiB, and hangs up when no answer comes. */
function largeUploads(scene: Scene, sentBytes: number): Step {
	const bytes = Buffer.alloc(sentBytes);
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
}

export const KINDS: readonly Kind[] = [
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
					method: "POST",
					path: "/private/set_manifest",
					body,
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
					method: "GET",
					path: `/device?app_id=${appId}`,
					headers: { authorization: strangersKey() },
				}),
	},
	{
		title: "a preview key: manifests of 1 MB",
		connections: 8,
		async prepare(scene) {
			const path = deltaPath(scene, "ab".repeat(32), "index.html");
			const manifest = manifestOf(1_040_000, path);
			const body = Buffer.from(JSON.stringify({ app_id: scene.appId, name: "1.0.0", manifest }));
			return (connection) =>
				connection.ask({
					method: "POST",
					path: "/private/set_manifest",
					body,
					headers: { ...JSON_TYPE, authorization: scene.previewKey },
				});
		},
	},
	{
		title: `${COMPARISON} a preview key: ordinary files of 200 bytes`,
		connections: 12,
		prepare: async (scene) => ordinaryFiles(scene, scene.previewKey),
	},
	{
		title: "a preview key: files of 14 bytes that unpack to 3.9 MB",
		connections: 12,
		prepare: (scene) => uploading(scene, brotliCompressSync(Buffer.alloc(3_900_000))),
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
					method: "POST",
					path: "/updates",
					headers: JSON_TYPE,
					body: JSON.stringify({
						app_id: appId,
						device_id: deviceId(number % 10),
						version_name: "builtin",
						version_build: "1.0.0",
						platform: "ios",
						plugin_version: "8.51.23",
						defaultChannel: "pr-1",
					}),
				});
		},
	},
	{
		title: `${COMPARISON} a preview key: 24 uploads of 8 MiB at a time`,
		connections: 24,
		prepare: async (scene) => largeUploads(scene, 8 * MEBIBYTE),
	},
	{
		title: "a preview key: 24 uploads of 8 MiB without their last byte",
		connections: 24,
		prepare: async (scene) => largeUploads(scene, 8 * MEBIBYTE - 1),
	},
];

export async function withPreviewKey(scene: Pick<Scene, "origin" | "appId" | "adminKey">): Promise<Scene> {
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
