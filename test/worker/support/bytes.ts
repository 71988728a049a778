/**
 * Helpers of the tests about uploads: register, send and resume, and read the database and the
 * bucket directly.
 */
import type { Compilable } from "kysely";
import { openDb, query } from "../../../src/db/client";
import { downloadLinks } from "../../../src/storage/links";
import { type Answer, sha256Hex, type TestApp, testEnv, type World } from "./world";

export { bundleOf, patterned } from "./zip";

type Client = Pick<World, "request">;
// biome-ignore lint/suspicious/noExplicitAny: tests look into answers of every shape
type AnyAnswer = Answer<any>;

export function register(
	client: Client,
	app: TestApp,
	version: string,
	key: string,
	fields: Record<string, unknown> = {},
): Promise<AnyAnswer> {
	return client.request("POST", "/bundle", { key, body: { app_id: app.appId, version, ...fields } });
}

/** Sends the whole body to an upload link. */
export function putBytes(client: Client, url: string, bytes: Uint8Array): Promise<AnyAnswer> {
	return client.request("PUT", url, { rawBody: bytes, headers: { "content-length": String(bytes.length) } });
}

export function complete(client: Client, app: TestApp, version: string, key: string): Promise<AnyAnswer> {
	return client.request("POST", "/bundle/complete", { key, body: { app_id: app.appId, version } });
}

const TUS = { "tus-resumable": "1.0.0" };
export const TUS_PATH = "/files/upload/attachments";

export const zipName = (world: World, app: TestApp, version: string) =>
	`orgs/${world.orgId}/apps/${app.appId}/${version}.zip`;
export const deltaName = (world: World, app: TestApp, file: string) =>
	`orgs/${world.orgId}/apps/${app.appId}/delta/${file}`;

export function tusCreate(
	client: Client,
	key: string,
	fileName: string,
	length: number,
	headers: Record<string, string> = {},
): Promise<AnyAnswer> {
	return client.request("POST", TUS_PATH, {
		key,
		headers: {
			...TUS,
			"upload-length": String(length),
			"upload-metadata": `filename ${btoa(fileName)},filetype ${btoa("application/zip")}`,
			...headers,
		},
	});
}

export function tusHead(client: Client, key: string, location: string): Promise<AnyAnswer> {
	return client.request("HEAD", location, { key, headers: TUS });
}

export function tusPatch(
	client: Client,
	key: string,
	location: string,
	offset: number,
	body: BodyInit,
	headers: Record<string, string> = {},
): Promise<AnyAnswer> {
	return client.request("PATCH", location, {
		key,
		rawBody: body,
		headers: {
			...TUS,
			"content-type": "application/offset+octet-stream",
			"upload-offset": String(offset),
			...(body instanceof Uint8Array ? { "content-length": String(body.length) } : {}),
			...headers,
		},
	});
}

/** The Location of a creation that worked. */
export function locationOf(created: Answer): string {
	const location = created.headers.get("location");
	if (created.status !== 201 || location === null) throw new Error(`no upload: ${created.status}`);
	return location;
}

/** A body that breaks off after the given bytes, as a lost connection does. */
export function brokenBody(...chunks: Uint8Array[]): ReadableStream<Uint8Array> {
	const rest = [...chunks];
	return new ReadableStream<Uint8Array>({
		pull(controller) {
			const next = rest.shift();
			if (next === undefined) controller.error(new Error("the connection was lost"));
			else controller.enqueue(next);
		},
	});
}

/** Rows as the database has them. */
export async function rows<Row>(statement: Compilable<Row>): Promise<Row[]> {
	const [result] = await openDb(testEnv.DB, "first-primary").batch([statement.compile()]);
	return result.rows;
}

type RowsOf<Statements extends readonly Compilable[]> = {
	-readonly [Index in keyof Statements]: Statements[Index] extends Compilable<infer Row> ? Row[] : never;
};

/** The rows of several statements at one moment, in one round trip. */
export async function readAll<const Statements extends readonly Compilable[]>(
	...statements: Statements
): Promise<RowsOf<Statements>> {
	const results = await openDb(testEnv.DB, "first-primary").batch(statements.map((statement) => statement.compile()));
	return results.map((result) => result.rows) as RowsOf<Statements>;
}

/** The last bundle of the app that has the name, whatever became of it. */
export async function newestBundle(appUuid: string, name: string) {
	const [newest] = await rows(
		query
			.selectFrom("bundles")
			.selectAll()
			.where("app_id", "=", appUuid)
			.where("name", "=", name)
			.orderBy("id", "desc"),
	);
	return newest;
}

export async function run(...statements: Compilable[]): Promise<void> {
	await openDb(testEnv.DB, "first-primary").batch(statements.map((statement) => statement.compile()));
}

/** Keys in the bucket under the prefix, sorted. */
export async function storedKeys(prefix: string): Promise<string[]> {
	const keys: string[] = [];
	let cursor: string | undefined;
	do {
		const page = await testEnv.BUNDLES.list({ prefix, ...(cursor === undefined ? {} : { cursor }) });
		keys.push(...page.objects.map((object) => object.key));
		cursor = page.truncated ? page.cursor : undefined;
	} while (cursor !== undefined);
	return keys.sort();
}

export async function storedBytes(key: string): Promise<Uint8Array | undefined> {
	const object = await testEnv.BUNDLES.get(key);
	return object === null ? undefined : new Uint8Array(await object.arrayBuffer());
}

export async function storedSha256(key: string): Promise<string | undefined> {
	const bytes = await storedBytes(key);
	return bytes === undefined ? undefined : sha256Hex(bytes);
}

/** A link as POST /updates hands it out. */
export async function downloadUrl(world: Pick<World, "deps" | "clock">, objectKey: string): Promise<string> {
	const [app = ""] = objectKey.split("/");
	return (await downloadLinks(world.deps, "https://updates.example.com", app, world.clock.nowMs))(objectKey);
}
