/**
 * The commands that people paste from the pages about Capgo's public API, one for each, with the
 * header that its page uses. Only addresses, keys, ids, dates and checksums are ours.
 */
import { beforeAll, describe, expect, test } from "vitest";
import { type CapgoScene, createCapgoScene } from "../support/capgo-api-scene";
import type { RequestOptions } from "../support/scene";

let scene: CapgoScene;
beforeAll(async () => {
	scene = await createCapgoScene();
	await scene.check("00000000-0000-4000-8000-000000000456");
});

type Command = { readonly path: string; readonly ignored?: readonly string[] } & RequestOptions;
const id = () => scene.app.appId;
const days = "from=2026-11-01&to=2026-11-21";
const ofDevice = () => ({ app_id: id(), device_id: "device_456" });
const doomedOrganization = async () =>
	(await scene.send("POST", "/organization", { body: { name: `Doomed ${crypto.randomUUID()}` } })).body.id;

/** By page: the method, the header of the key, and the request. */
const PAGES: Readonly<
	Record<string, readonly (readonly [method: string, keyHeader: string, request: () => Command | Promise<Command>])[]>
> = {
	overview: [["GET", "x-api-key", () => ({ path: "/organization/" })]],
	organizations: [
		["GET", "x-api-key", () => ({ path: "/organization/" })],
		["GET", "x-api-key", () => ({ path: `/organization/?orgId=${scene.world.orgId}` })],
		[
			"POST",
			"x-api-key",
			() => ({
				path: "/organization/",
				body: { name: "New organization", email: "admin@example.com", website: "https://example.com" },
			}),
		],
		[
			"PUT",
			"x-api-key",
			() => ({
				path: "/organization/",
				body: { orgId: scene.world.orgId, name: "New name", management_email: "new@example.com" },
			}),
		],
		["DELETE", "x-api-key", async () => ({ path: `/organization/?orgId=${await doomedOrganization()}` })],
	],
	members: [
		[
			"POST",
			"authorization",
			() => ({
				path: "/organization/members/",
				body: { orgId: scene.world.orgId, email: "newmember@example.com", role: "write" },
			}),
		],
		["GET", "authorization", () => ({ path: `/organization/members/?orgId=${scene.world.orgId}` })],
		[
			"DELETE",
			"authorization",
			() => ({ path: "/organization/members/", body: { orgId: scene.world.orgId, email: "newmember@example.com" } }),
		],
	],
	statistics: [
		["GET", "authorization", () => ({ path: `/statistics/app/${id()}/?${days}` })],
		["GET", "authorization", () => ({ path: `/statistics/org/${scene.world.orgId}/?${days}` })],
		["GET", "authorization", () => ({ path: `/statistics/user/?${days}` })],
		["GET", "authorization", () => ({ path: `/statistics/app/${id()}/bundle_usage?${days}` })],
	],
	channels: [
		[
			"POST",
			"authorization",
			() => ({
				path: "/channel/",
				body: {
					app_id: id(),
					channel: "production",
					rolloutVersion: "1.1.0",
					rolloutPercentage: 5,
					rolloutEnabled: true,
					rolloutCacheTtlSeconds: 2_592_000,
					autoPauseEnabled: true,
					autoPauseFailureRateBps: 500,
					autoPauseMinAttempts: 100,
					autoPauseAction: "pause",
				},
				ignored: ["rolloutCacheTtlSeconds"],
			}),
		],
		["GET", "authorization", () => ({ path: `/channel/?app_id=${id()}` })],
		["GET", "authorization", () => ({ path: `/channel/?app_id=${id()}&channel=production` })],
		["GET", "authorization", () => ({ path: `/channel/?app_id=${id()}&page=1` })],
		["DELETE", "authorization", () => ({ path: "/channel/", body: { app_id: id(), channel: "beta" } })],
		[
			"DELETE",
			"capgkey",
			async () => {
				await scene.send("POST", "/bundle", {
					body: { app_id: id(), version: "0.0.0-pr-123.1", external_url: scene.file.url },
				});
				await scene.send("POST", "/channel", { body: { app_id: id(), channel: "pr-123", version: "0.0.0-pr-123.1" } });
				return { path: "/channel/", body: { app_id: id(), channel: "pr-123", delete_bundle: true } };
			},
		],
	],
	devices: [
		["POST", "authorization", () => ({ path: "/device/", body: { ...ofDevice(), channel: "production" } })],
		["GET", "authorization", () => ({ path: `/device/?app_id=${id()}` })],
		["GET", "authorization", () => ({ path: `/device/?app_id=${id()}&device_id=device_456` })],
		["GET", "authorization", () => ({ path: `/device/?app_id=${id()}&customIdMode=true` })],
		["GET", "authorization", () => ({ path: `/device/?app_id=${id()}&cursor=2026-01-01T00:00:00Z%7Cdevice_456` })],
		["DELETE", "authorization", () => ({ path: "/device/", body: ofDevice() })],
	],
	bundles: [
		["GET", "authorization", () => ({ path: `/bundle/?app_id=${id()}` })],
		["GET", "authorization", () => ({ path: `/bundle/?app_id=${id()}&page=1` })],
		[
			"POST",
			"authorization",
			() => ({
				path: "/bundle/",
				body: { app_id: id(), version: "1.2.3", external_url: scene.file.url, checksum: scene.file.checksum },
			}),
		],
		[
			"POST",
			"authorization",
			() => ({
				path: "/bundle/metadata",
				body: {
					...{ app_id: id(), version_id: scene.bundles.first, link: "https://example.com/releases/1.0.0" },
					comment: "Signs in again after a restart",
				},
			}),
		],
		[
			"PUT",
			"authorization",
			() => ({
				path: "/bundle/",
				body: { app_id: id(), version_id: scene.bundles.first, channel_id: scene.channels.production },
			}),
		],
		["DELETE", "authorization", () => ({ path: "/bundle/", body: { app_id: id(), version: "1.2.3" } })],
		["DELETE", "authorization", () => ({ path: "/bundle/", body: { app_id: id() } })],
	],
	apps: [
		["GET", "authorization", () => ({ path: "/app/" })],
		["GET", "authorization", () => ({ path: `/app/?org_id=${scene.world.orgId}` })],
		["GET", "authorization", () => ({ path: `/app/${id()}` })],
		[
			"POST",
			"authorization",
			() => ({
				path: "/app/",
				body: {
					name: "My new app",
					app_id: `com.demo.a${crypto.randomUUID().slice(0, 8)}`,
					...{ icon: "https://example.com/icon.png", owner_org: scene.world.orgId },
				},
			}),
		],
		[
			"PUT",
			"authorization",
			() => ({
				path: `/app/${id()}`,
				body: {
					block_provider_infra_requests: true,
					name: "Updated name",
					...{ icon: "https://example.com/updated.png", retention: 45 },
				},
			}),
		],
		["DELETE", "authorization", () => ({ path: `/app/${id()}` })],
		["GET", "authorization", () => ({ path: `/app/?org_id=${scene.world.orgId}` })],
	],
};

const COMMANDS = Object.entries(PAGES).flatMap(([page, commands]) =>
	commands.map(([method, keyHeader, request], index) => [`${page} ${index + 1}`, method, keyHeader, request] as const),
);

describe("the printed commands", () => {
	test("are 39", () => {
		expect(COMMANDS.length).toBe(39);
	});

	test.each(COMMANDS)("%s: %s is done, and nothing of it is ignored", async (_, method, keyHeader, request) => {
		const { path, ignored, ...options } = await request();
		const answer = await scene.send(method, path, { keyHeader, ...options });
		expect([200, 201], JSON.stringify(answer.body)).toContain(answer.status);
		expect(answer.headers.get("x-ignored-fields")).toBe(ignored?.join(", ") ?? null);
	});
});
