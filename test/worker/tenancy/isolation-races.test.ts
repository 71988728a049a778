/**
 * The target of a request is deleted or moved between its authorization and its write: the
 * statements check again, in the batch that writes. Another request runs completely between the
 * read and the write, so the race happens every time.
 */
import { beforeEach, describe, expect, test } from "vitest";
import { databaseText } from "../support/database-text";
import { readThenWrite } from "../support/interleave";
import {
	type Answer,
	createTestApp,
	createTestKey,
	createWorld,
	NOW_MS,
	type RequestOptions,
	setTestChannel,
	type TestApp,
	testEnv,
	uploadTestBundle,
	type World,
} from "../support/world";

let world: World;
let app: TestApp;
beforeEach(async () => {
	world = await createWorld();
	app = await createTestApp(world);
});

const by = (through: Pick<World, "request">, method: string, path: string, options: RequestOptions): Promise<Answer> =>
	through.request(method, path, { key: world.adminKey, ...options });

/** The request comes too late for `between`, and changes nothing. */
async function expectTooLate(
	request: (racing: Pick<World, "request">) => Promise<Answer>,
	between: () => Promise<Answer>,
	refusal: { status: number; error: string },
): Promise<void> {
	let after = "";
	const answer = await readThenWrite(world, request, async () => {
		const done = await between();
		after = await databaseText();
		return done;
	});
	expect(answer).toMatchObject({ status: refusal.status, body: { error: refusal.error } });
	expect(await databaseText(), "a refused request changed something").toBe(after);
}

describe("a change of an app", () => {
	const changes: readonly [string, (through: Pick<World, "request">, key: string) => Promise<Answer>][] = [
		[
			"PUT /app/:app_id",
			(through, key) => through.request("PUT", `/app/${app.appId}`, { key, body: { name: "changed" } }),
		],
		["DELETE /app/:app_id", (through, key) => through.request("DELETE", `/app/${app.appId}`, { key })],
		[
			"the stock CLI's change",
			(through, key) =>
				through.request("PATCH", "/compat/capgo-cli/rest/v1/apps", {
					key,
					query: { app_id: `eq.${app.appId}` },
					body: { default_upload_channel: "changed" },
				}),
		],
	];

	test.each(changes)("%s is refused if the key was revoked or lost its role in between", async (_, change) => {
		const revoked = await createTestKey(world, "app_admin", app);
		await expectTooLate(
			(racing) => change(racing, revoked.text),
			() => by(world, "DELETE", `/apikey/${revoked.id}`, {}),
			{ status: 401, error: "invalid_api_key" },
		);
		const weakened = await createTestKey(world, "app_admin", app);
		const weaker = [{ role_name: "app_reader", scope_type: "app", org_id: world.orgId, app_id: app.uuid }];
		await expectTooLate(
			(racing) => change(racing, weakened.text),
			() => by(world, "PUT", `/apikey/${weakened.id}`, { body: { bindings: weaker } }),
			{ status: 401, error: "invalid_api_key" },
		);
	});

	test.each(changes)("%s is refused if the organization was deleted in between", async (_, change) => {
		await expectTooLate(
			(racing) => change(racing, world.adminKey),
			() => by(world, "DELETE", "/organization", { query: { orgId: world.orgId } }),
			{ status: 404, error: "app_not_found" },
		);
	});

	test.each(changes)("%s writes nothing if the same key deleted the app in between", async (_, change) => {
		await expectTooLate(
			(racing) => change(racing, world.adminKey),
			() => by(world, "DELETE", `/app/${app.appId}`, {}),
			{ status: 404, error: "app_not_found" },
		);
	});

	test("is refused if the key was revoked or the organization deleted while it was being created", async () => {
		const create = (through: Pick<World, "request">, key: string) =>
			through.request("POST", "/app", {
				key,
				body: { app_id: `com.example.r${crypto.randomUUID().slice(0, 8)}`, name: "late", owner_org: world.orgId },
			});
		const revoked = await createTestKey(world, "org_member");
		await expectTooLate(
			(racing) => create(racing, revoked.text),
			() => by(world, "DELETE", `/apikey/${revoked.id}`, {}),
			{ status: 401, error: "invalid_api_key" },
		);
		await expectTooLate(
			(racing) => create(racing, world.adminKey),
			() => by(world, "DELETE", "/organization", { query: { orgId: world.orgId } }),
			{ status: 404, error: "organization_not_found" },
		);
	});
});

describe("a change of a channel", () => {
	test("does not point to a bundle that was deleted in between", async () => {
		await uploadTestBundle(world, app, "1.0.0");
		await setTestChannel(world, app, "production");
		const body = { app_id: app.appId, channel: "production", version: "1.0.0" };
		await expectTooLate(
			(racing) => by(racing, "POST", "/channel", { body }),
			() => by(world, "DELETE", "/bundle", { query: { app_id: app.appId, version: "1.0.0" } }),
			{ status: 404, error: "bundle_not_found" },
		);
	});

	test("is refused for a channel that was deleted in between", async () => {
		await setTestChannel(world, app, "production");
		const body = { app_id: app.appId, channel: "production", allow_device_self_set: true };
		await expectTooLate(
			(racing) => by(racing, "POST", "/channel", { body }),
			() => by(world, "DELETE", "/channel", { query: { app_id: app.appId, channel: "production" } }),
			{ status: 404, error: "channel_not_found" },
		);
	});
});

describe("a manifest", () => {
	const VERSION = "1.0.0";
	const pathOf = (file: string) => `orgs/${world.orgId}/apps/${app.appId}/delta/${file}`;
	const ofBundle = () => ({ app_id: app.appId, name: VERSION });
	const set = (through: Pick<World, "request">, ...files: string[]) => {
		const manifest = files.map((file) => ({ file_name: file, s3_path: pathOf(file), file_hash: "ab".repeat(32) }));
		return by(through, "POST", "/private/set_manifest", { body: { ...ofBundle(), manifest } });
	};
	const finalize = (through: Pick<World, "request">) =>
		by(through, "POST", "/private/finalize_bundle_upload", { body: ofBundle() });
	/** Changes rows that no request changes. */
	const past = async (statement: string, ...values: string[]): Promise<Answer> => {
		await testEnv.DB.prepare(statement)
			.bind(...values)
			.run();
		return { status: 200, body: undefined, headers: new Headers(), trips: undefined };
	};
	beforeEach(async () => {
		for (const file of ["index.html", "b.js"]) {
			await past(
				`INSERT INTO delta_objects (app_id, path, object_key, size_bytes, last_claimed_at_ms) VALUES (?1, ?2, ?2, 1, ${NOW_MS})`,
				app.uuid,
				pathOf(file),
			);
		}
	});

	test("is not set for a bundle that was deleted in between", async () => {
		await uploadTestBundle(world, app, VERSION);
		await expectTooLate(
			(racing) => set(racing, "index.html"),
			() => by(world, "DELETE", "/bundle", { query: { app_id: app.appId, version: VERSION } }),
			{ status: 404, error: "bundle_not_found" },
		);
	});

	test("does not replace a manifest that was set in between and has all its files", async () => {
		await by(world, "POST", "/bundle", { body: { app_id: app.appId, version: VERSION } });
		await expectTooLate(
			(racing) => set(racing, "index.html"),
			() => set(world, "index.html", "b.js"),
			{ status: 409, error: "bundle_already_ready" },
		);
	});

	test("names no file that was removed from the store in between", async () => {
		await by(world, "POST", "/bundle", { body: { app_id: app.appId, version: VERSION } });
		await expectTooLate(
			(racing) => set(racing, "index.html", "b.js"),
			() => past("DELETE FROM delta_objects WHERE app_id = ? AND path = ?", app.uuid, pathOf("b.js")),
			{ status: 400, error: "missing_delta_files" },
		);
	});

	test("completes its bundle once, and only if it exists", async () => {
		await by(world, "POST", "/bundle", { body: { app_id: app.appId, version: VERSION } });
		expect(await finalize(world)).toMatchObject({ status: 409, body: { error: "bundle_incomplete" } });
		await set(world, "index.html");
		await expectTooLate(finalize, () => finalize(world), { status: 409, error: "bundle_already_ready" });
	});
});
