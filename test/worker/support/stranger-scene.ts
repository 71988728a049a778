/** An app under requests of strangers, with every D1 batch counted. */
import type { Limiter } from "../../../src/deps";
import { NOW_MS, type TestApp, type World } from "./world";

export const OFFICE = "198.51.100.7";

export const STRANGER = "203.0.113.9";

export interface Scene {
	readonly world: World;
	readonly app: TestApp;
}

export const about = (appId: string, device_id: string, fields: object = {}) => ({
	...{ app_id: appId, device_id, version_name: "builtin", version_build: "1.0.0", platform: "android" },
	...{ plugin_version: "8.51.23", ...fields },
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
