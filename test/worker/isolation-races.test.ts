/**
 * What a request decided upon is gone, or another's, when it comes to write: the statements look again, in the batch that writes. Another
 * request runs whole between the reading and the writing, so the race happens every time.
 */
import { beforeEach, describe, expect, test } from "vitest";
import { databaseText } from "./support/database-text";
import { readThenWrite } from "./support/interleave";
import {
	type Answer,
	createTestApp,
	createWorld,
	type RequestOptions,
	setTestChannel,
	type TestApp,
	uploadTestBundle,
	type World,
} from "./support/world";

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

describe("a change of a channel", () => {
	test("does not point to a bundle that was deleted meanwhile", async () => {
		await uploadTestBundle(world, app, "1.0.0");
		await setTestChannel(world, app, "production");
		const body = { app_id: app.appId, channel: "production", version: "1.0.0" };
		await expectTooLate(
			(racing) => by(racing, "POST", "/channel", { body }),
			() => by(world, "DELETE", "/bundle", { query: { app_id: app.appId, version: "1.0.0" } }),
			{ status: 404, error: "bundle_not_found" },
		);
	});

	test("does not answer for a channel that was deleted meanwhile", async () => {
		await setTestChannel(world, app, "production");
		const body = { app_id: app.appId, channel: "production", allow_device_self_set: true };
		await expectTooLate(
			(racing) => by(racing, "POST", "/channel", { body }),
			() => by(world, "DELETE", "/channel", { query: { app_id: app.appId, channel: "production" } }),
			{ status: 404, error: "channel_not_found" },
		);
	});
});
