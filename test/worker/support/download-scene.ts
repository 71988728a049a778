/**
 * An app with one bundle of known bytes, and the signed link to its object.
 */
import { query } from "../../../src/db/client";
import { downloadUrl, rows } from "./bytes";
import { createTestApp, createWorld, type TestApp, uploadTestBundle, type World } from "./world";
import { bundleOf } from "./zip";

export let world: World;
export let app: TestApp;
export let url: string;
export let objectKey: string;
export const SIZE = 1000;
export const bytes = bundleOf(SIZE);

export const objectKeyOf = async (version: string, of = app) =>
	(
		await rows(
			query.selectFrom("bundles").select("object_key").where("app_id", "=", of.uuid).where("name", "=", version),
		)
	)[0]?.object_key ?? "";

export async function prepareDownload(): Promise<void> {
	world = await createWorld();
	app = await createTestApp(world);
	await uploadTestBundle(world, app, "1.0.0", world.adminKey, bytes);
	objectKey = await objectKeyOf("1.0.0");
	url = await downloadUrl(world, objectKey);
}
export const get = (headers: Record<string, string> = {}, address = url) => world.request("GET", address, { headers });
export const bodyOf = (answer: { body: unknown }) => new Uint8Array(answer.body as ArrayBuffer);
