/**
 * Random histories of an app with a preview key, an uploader and an administrator. After each step
 * the preview key tries every change for devices that are not its testers: devices of the public
 * channel, and devices with a channel name that was ever public, the default or another creator's.
 * No attempt may succeed, and no such device may get another answer.
 */
import fc from "fast-check";
import { beforeAll, describe, expect, test } from "vitest";
import { IS_PROOF } from "../../proof-sample";
import {
	createTestApp,
	createTestKey,
	createWorld,
	type TestApp,
	uploadTestBundle,
	type World,
} from "../support/world";

const NAMES = ["pr-main", "pr-stable", "pr-1"] as const;
type Name = (typeof NAMES)[number];
const RUNS = IS_PROOF ? 40 : 15;
const MOST_STEPS = 14;
/** An id that no channel has. */
const NO_CHANNEL = 999_999_999;

let world: World;
beforeAll(async () => {
	world = await createWorld();
});

interface Model {
	/** Names whose devices a preview key must not reach. */
	readonly sensitive: Set<Name>;
	/** Existing channels, and whether they are previews of the present key. */
	readonly channels: Map<Name, "preview" | "ordinary">;
}

const isOpenToPreviews = ({ sensitive, channels }: Model, name: Name) =>
	!sensitive.has(name) && channels.get(name) !== "ordinary";

class Real {
	ciKey = { id: "", text: "" };
	/** The bundle that the present preview key uploaded. */
	ownVersion = "";
	ownBundle = 0;
	private previews = 0;

	constructor(
		readonly app: TestApp,
		readonly uploaderKey: string,
		readonly adminVersions: readonly string[],
	) {}

	async replacePreviewKey(): Promise<void> {
		this.ciKey = await createTestKey(world, "app_preview", this.app);
		this.ownVersion = `1.9.9-pr.${++this.previews}`;
		this.ownBundle = await uploadTestBundle(world, this.app, this.ownVersion, this.ciKey.text);
	}

	send(method: string, path: string, key: string, body: Record<string, unknown>) {
		const sent = { app_id: this.app.appId, ...body };
		return world.request(method, path, { key, ...(method === "DELETE" ? { query: sent as never } : { body: sent }) });
	}

	async served(defaultChannel: string): Promise<unknown> {
		const { body } = await world.request("POST", "/updates", {
			body: {
				app_id: this.app.appId,
				device_id: "b5a3f9d2-6a60-4f2e-9a57-9f1f1f5a2d61",
				platform: "android",
				version_name: "builtin",
				version_build: "1.0.0",
				plugin_version: "8.51.23",
				defaultChannel,
			},
		});
		return body.version ?? body.error;
	}

	async idOf(channel: Name): Promise<number> {
		const { body } = await world.request("GET", "/channel", {
			key: world.adminKey,
			query: { app_id: this.app.appId, channel },
		});
		return body.id ?? NO_CHANNEL;
	}
}

/** Every attempt of the preview key against devices with this channel name. */
async function attacksOn(real: Real, channel: Name): Promise<(readonly [string, number])[]> {
	const key = real.ciKey.text;
	const tries: readonly (readonly [string, () => ReturnType<Real["send"]>])[] = [
		["set version", () => real.send("POST", "/channel", key, { channel, version: real.ownVersion })],
		["create", () => real.send("POST", "/channel", key, { channel, allow_device_self_set: true })],
		[
			"roll out",
			() => real.send("POST", "/channel", key, { channel, rolloutVersion: real.ownVersion, rolloutPercentage: 100 }),
		],
		["roll back", () => real.send("POST", "/channel/rollback", key, { channel, version: real.ownVersion })],
		["delete", () => real.send("DELETE", "/channel", key, { channel, delete_bundle: "true" })],
	];
	const answers: (readonly [string, number])[] = [];
	for (const [name, attempt] of tries) answers.push([name, (await attempt()).status]);
	const promoted = await real.send("PUT", "/bundle", key, {
		version_id: real.ownBundle,
		channel_id: await real.idOf(channel),
	});
	return [...answers, ["promote", promoted.status]];
}

async function servedToOthers(model: Model, real: Real): Promise<Record<string, unknown>> {
	const answers: Record<string, unknown> = { "": await real.served("") };
	for (const name of model.sensitive) answers[name] = await real.served(name);
	return answers;
}

async function expectNoPower(model: Model, real: Real): Promise<void> {
	const before = await servedToOthers(model, real);
	for (const name of model.sensitive) {
		for (const [attempt, status] of await attacksOn(real, name)) {
			// A request that changes nothing succeeds on its own channel; on another one it is not found.
			expect(status, `${attempt} on ${name}`).toBeGreaterThanOrEqual(400);
		}
	}
	expect(await servedToOthers(model, real)).toEqual(before);
}

type Step = fc.AsyncCommand<Model, Real, false>;
const step = (text: string, change: (model: Model, real: Real) => Promise<unknown>): Step => ({
	check: () => true,
	toString: () => text,
	async run(model, real) {
		await change(model, real);
		await expectNoPower(model, real);
	},
});

/** A step of the preview key: anything it may do, without effect on the devices of others. */
const ciStep = (text: string, act: (model: Model, real: Real) => Promise<unknown>): Step =>
	step(text, async (model, real) => {
		const before = await servedToOthers(model, real);
		await act(model, real);
		expect(await servedToOthers(model, real), text).toEqual(before);
	});

const steps = (name: Name, version: number): readonly Step[] => [
	ciStep(`preview key creates ${name}`, async (model, real) => {
		const { status } = await real.send("POST", "/channel", real.ciKey.text, {
			channel: name,
			allow_device_self_set: true,
		});
		if (status === 201) model.channels.set(name, "preview");
		if (model.sensitive.has(name)) expect(status).not.toBe(201);
		if (isOpenToPreviews(model, name)) expect([200, 201], "positive control").toContain(status);
	}),
	ciStep(`preview key promotes to ${name}`, async (model, real) => {
		const body = { channel: name, version: real.ownVersion, allow_device_self_set: true };
		const { status } = await real.send("POST", "/channel", real.ciKey.text, body);
		if (status === 201) model.channels.set(name, "preview");
		if (isOpenToPreviews(model, name)) {
			expect([200, 201], "positive control").toContain(status);
			expect(await real.served(name)).toBe(real.ownVersion);
		}
	}),
	ciStep(`preview key deletes ${name}`, async (model, real) => {
		const { status } = await real.send("DELETE", "/channel", real.ciKey.text, { channel: name });
		if (status === 200) model.channels.delete(name);
		if (model.channels.get(name) === "preview" && !model.sensitive.has(name)) expect(status).toBe(200);
	}),
	step(`administrator creates or publishes ${name}`, async (model, real) => {
		const body = { channel: name, public: true, version: real.adminVersions[version] };
		const { status } = await real.send("POST", "/channel", world.adminKey, body);
		expect([200, 201]).toContain(status);
		model.channels.set(name, "ordinary");
		model.sensitive.add(name);
	}),
	step(`administrator creates ${name}, private`, async (model, real) => {
		const { status } = await real.send("POST", "/channel", world.adminKey, { channel: name });
		if (status !== 201) return;
		model.channels.set(name, "ordinary");
		model.sensitive.add(name);
	}),
	step(`administrator hides ${name}`, async (model, real) => {
		if (model.channels.has(name)) await real.send("POST", "/channel", world.adminKey, { channel: name, public: false });
	}),
	step(`administrator deletes ${name}`, async (model, real) => {
		await real.send("DELETE", "/channel", world.adminKey, { channel: name });
		model.channels.delete(name);
	}),
	step(`administrator makes ${name} the default upload channel`, async (model, real) => {
		const path = `/app/${real.app.appId}`;
		await world.request("PUT", path, { key: world.adminKey, body: { default_upload_channel: name } });
		if (model.channels.has(name)) model.channels.set(name, "ordinary");
		model.sensitive.add(name);
	}),
	step(`administrator promotes the preview's bundle to ${name}`, async (model, real) => {
		if (model.channels.get(name) === "ordinary") {
			await real.send("POST", "/channel", world.adminKey, { channel: name, version: real.ownVersion });
		}
	}),
	step(`uploader promotes to ${name}`, async (model, real) => {
		if (model.channels.has(name)) {
			await real.send("POST", "/channel", real.uploaderKey, { channel: name, version: real.adminVersions[version] });
		}
	}),
	step("preview key expires, and another one takes its place", async (model, real) => {
		const { status } = await world.request("PUT", `/apikey/${real.ciKey.id}`, {
			key: world.adminKey,
			body: { expires_at: new Date(world.clock.nowMs + 1).toISOString() },
		});
		expect(status).toBe(200);
		world.clock.nowMs += 1000;
		const refused = await real.send("POST", "/channel", real.ciKey.text, { channel: name });
		expect(refused).toMatchObject({ status: 401, body: { error: "expired_api_key" } });
		await real.replacePreviewKey();
		for (const [channel, kind] of model.channels) if (kind === "preview") model.channels.set(channel, "ordinary");
	}),
	step("preview key is regenerated", async (_, real) => {
		const { body } = await world.request("PUT", `/apikey/${real.ciKey.id}`, {
			key: world.adminKey,
			body: { regenerate: true },
		});
		real.ciKey = { id: real.ciKey.id, text: body.key };
	}),
];

const history = fc.commands(
	NAMES.flatMap((name) => [0, 1].flatMap((version) => steps(name, version).map((each) => fc.constant(each)))),
	{ maxCommands: MOST_STEPS, size: "max" },
);

describe("a preview key, over the life of an app", () => {
	test("changes nothing for devices that are not its testers", { timeout: 240_000 }, async () => {
		await fc.assert(
			fc.asyncProperty(history, async (commands) => {
				const app = await createTestApp(world);
				const uploader = await createTestKey(world, "app_uploader", app);
				const versions = ["1.1.0", "1.2.0"];
				for (const version of versions) await uploadTestBundle(world, app, version);
				const real = new Real(app, uploader.text, versions);
				await real.replacePreviewKey();
				const setup = () => ({
					model: { sensitive: new Set<Name>(), channels: new Map<Name, "preview" | "ordinary">() },
					real,
				});
				await fc.asyncModelRun(setup, commands);
			}),
			{ numRuns: RUNS, endOnFailure: true },
		);
	});
});
