/**
 * An app under requests of strangers, with every D1 batch counted. `tripsOf` gives the batches of
 * some work, so that the cost of an attack can be compared with the legitimate use beside it.
 */
import type { Limiter } from "../../../src/deps";
import { beforeEachTrip } from "./interleave";
import {
	createTestApp,
	createWorld,
	NOW_MS,
	setTestChannel,
	type TestApp,
	testEnv,
	uploadTestBundle,
	type World,
	type WorldOptions,
} from "./world";

export const OFFICE = "198.51.100.7";

export const STRANGER = "203.0.113.9";

export interface Scene {
	readonly world: World;
	readonly app: TestApp;
}

let trips = 0;

/** A world whose D1 batches are counted, with an app that offers 1.0.1 to everybody. */
export async function scene(options: WorldOptions = {}): Promise<Scene> {
	const { d1 } = beforeEachTrip(testEnv.DB, () => {
		trips += 1;
	});
	const world = await createWorld({ ...options, bindings: { d1, ...options.bindings } });
	const app = await createTestApp(world);
	await uploadTestBundle(world, app, "1.0.1");
	await setTestChannel(world, app, "production", { public: true, version: "1.0.1" });
	world.deps.sent.length = 0;
	return { world, app };
}

/** The number of D1 batches of the work. */
export async function tripsOf(work: () => Promise<unknown>): Promise<number> {
	const before = trips;
	await work();
	return trips - before;
}

let devices = 0;
export const newDevice = () => `00000000-0000-4000-8000-${String(++devices).padStart(12, "0")}`;
export const deviceList = (count: number) => Array.from({ length: count }, newDevice);

export const about = (appId: string, device_id: string, fields: object = {}) => ({
	app_id: appId,
	device_id,
	version_name: "builtin",
	version_build: "1.0.0",
	platform: "android",
	plugin_version: "8.51.23",
	...fields,
});

export const from = (address: string) => ({ "cf-connecting-ip": address });

export const check = (
	world: Pick<World, "request">,
	appId: string,
	device: string,
	address = STRANGER,
	fields: object = {},
) => world.request("POST", "/updates", { body: about(appId, device, fields), headers: from(address) });

export const stats = (world: Pick<World, "request">, body: unknown, address = STRANGER) =>
	world.request("POST", "/stats", { body, headers: from(address) });

export const install = (appId: string, device: string, fields: object = {}) =>
	about(appId, device, { action: "set", version_name: "1.0.1", timestamp: NOW_MS, ...fields });

export const statistics = async ({ world, app }: Scene) =>
	(await world.admin("GET /statistics/app/:app_id", { params: { app_id: app.appId } })).body.at(-1);

export const TOO_MANY = { status: 429, body: { error: "too_many_requests" } };

/** A platform limiter that lets each key through `limit` times. */
export function counting(limit: number): Limiter & { readonly seen: Map<string, number> } {
	const seen = new Map<string, number>();
	return {
		seen,
		async limit({ key }) {
			seen.set(key, (seen.get(key) ?? 0) + 1);
			return { success: (seen.get(key) ?? 0) <= limit };
		},
	};
}
