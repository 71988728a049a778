/**
 * One request for every endpoint about an app and what belongs to it: transfers, publishers,
 * channels, proposals, previews and devices.
 */
import { isSampleAppId } from "../../../src/domain/sample-app";
import {
	bundleThing,
	channelThing,
	fresh,
	freshVersion,
	madeChannel,
	nextNumber,
	openedPreview,
	type Prepare,
	type PreparedRequest,
	previewHook,
	uploaded,
} from "./request-parts";
import { createTestApp, createTestMember, type Scene, setTestChannel, type TestApp, uploadTestBundle } from "./scene";

async function otherOrganization(world: Scene): Promise<string> {
	const made = await world.request("PUT", "/organization", { key: world.adminKey, body: { name: fresh("other") } });
	return made.body.id;
}

async function offerTo(world: Scene, app: TestApp, to_org: string): Promise<void> {
	const body = { app_id: app.appId, to_org };
	const { status } = await world.request("POST", "/app/transfer", { key: world.adminKey, body });
	if (status !== 201) throw new Error("app not offered");
}

/** The id of an app that another organization offers to this one. */
async function offeredApp(world: Scene): Promise<string> {
	const app = await createTestApp({ ...world, orgId: await otherOrganization(world) }, "offered");
	await offerTo(world, app, world.orgId);
	return app.appId;
}

async function deletedApp(world: Scene): Promise<TestApp> {
	const app = await createTestApp(world, "deleted");
	const { status } = await world.request("DELETE", `/app/${app.appId}`, { key: world.adminKey });
	if (status !== 200) throw new Error("app not deleted");
	return app;
}

/** The clock of the world; a running product has the machine's. */
const nowMsOf = (world: Scene & { readonly clock?: { readonly nowMs: number } }) => world.clock?.nowMs ?? Date.now();

const publisherBody = (world: Scene, app: TestApp) => ({
	app_id: app.appId,
	name: fresh("publisher"),
	stage: "upload",
	provider: "github",
	// The keys of some roles expire, and so does what they create.
	expires_at: new Date(nowMsOf(world) + 3_600_000).toISOString(),
	claims: { repository_id: "456789", repository_owner_id: "123456" },
});

async function madePublisher(world: Scene, app: TestApp): Promise<string> {
	const { status, body } = await world.request("POST", "/publisher", {
		key: world.adminKey,
		body: publisherBody(world, app),
	});
	if (status !== 201) throw new Error(`publisher not created: ${JSON.stringify(body)}`);
	return body.id;
}

/** Keys named as promoters; the others promote by their roles. */
const MOST_NAMED_KEYS = 40;

/** Proposed by another account, to a channel whose promoters are the keys that there are. */
async function waitingProposal(world: Scene, app: TestApp, path: string): Promise<PreparedRequest> {
	const channel = fresh("pr-guarded");
	const version = freshVersion();
	await uploadTestBundle(world, app, version);
	const promoters = ["org_super_admin", "org_admin", "app_admin", "app_developer", "app_uploader"];
	type Listed = { id: string; name: string; bindings: { role_name: string; app_id: string | null }[] };
	const listed: Listed[] = [];
	for (let page = 0, size = -1; size !== 0; page += 1) {
		const query = { org_id: world.orgId, page: String(page) };
		const { body } = await world.request("GET", "/apikey", { key: world.adminKey, query });
		listed.push(...body);
		size = body.length;
	}
	// The list is in no fixed order. Keys that promote nothing here, and those of earlier proposers,
	// must not take the places of the others.
	const promotes = ({ role_name, app_id }: Listed["bindings"][number]) =>
		promoters.includes(role_name) && (app_id === null || app_id === app.uuid);
	const isPersonal = ({ name }: Listed) => Number(name === "Personal key");
	const ids = listed
		.filter(({ bindings }) => bindings.some(promotes))
		.sort((one, other) => isPersonal(one) - isPersonal(other))
		.map(({ id }) => id);
	const named = [...new Set([...(world.adminKeyId === undefined ? [] : [world.adminKeyId]), ...ids])];
	const rules = {
		protected: true,
		requires_approval: true,
		promoters: [...promoters, ...named.slice(0, MOST_NAMED_KEYS)],
	};
	await setTestChannel(world, app, channel, rules);
	const proposer = (await createTestMember(world, "org_admin")).key.text;
	const body = { app_id: app.appId, channel, version };
	const proposed = await world.request("POST", "/channel", { key: proposer, body });
	if (proposed.status !== 202) throw new Error(`not proposed: ${JSON.stringify(proposed.body)}`);
	return { path, body: { app_id: app.appId, id: proposed.body.proposal_id } };
}

/** The id of a device with a version override. */
async function overriddenDevice(world: Scene, app: TestApp): Promise<string> {
	const device_id = crypto.randomUUID();
	const { id } = await uploaded(world, app);
	const body = { app_id: app.appId, device_id, version_id: id };
	const { status } = await world.request("POST", "/device", { key: world.adminKey, body });
	if (status !== 200) throw new Error("device not overridden");
	return device_id;
}

/** Once for each organization, so the one before goes. */
async function sampleRequest(world: Scene, path: string) {
	const { body } = await world.request("GET", "/app", { key: world.adminKey, query: { org_id: world.orgId } });
	for (const { app_id } of body) {
		if (!isSampleAppId(app_id)) continue;
		await world.request("DELETE", `/app/${app_id}`, { key: world.adminKey });
	}
	return { path, body: { owner_org: world.orgId }, mostTrips: 3 };
}

export const APP_REQUESTS: Readonly<Record<string, Prepare>> = {
	"GET /publisher": async (world, app) => {
		await madePublisher(world, app);
		return { path: "/publisher", query: { app_id: app.appId } };
	},
	"POST /publisher": async (world, app) => ({ path: "/publisher", body: publisherBody(world, app) }),
	"PUT /publisher": async (world, app) => ({
		path: "/publisher",
		body: { app_id: app.appId, id: await madePublisher(world, app), name: fresh("renamed") },
	}),
	"DELETE /publisher": async (world, app) => ({
		path: "/publisher",
		query: { app_id: app.appId, id: await madePublisher(world, app) },
	}),
	"POST /publisher/repository": async (_, app) => ({
		path: "/publisher/repository",
		body: { app_id: app.appId, provider: "github", repository: "octo-org/octo-repo" },
	}),
	"GET /device/key": async (_, app) => ({ path: "/device/key", query: { app_id: app.appId } }),
	"GET /app/:app_id/audit": async (_, app) => ({ path: `/app/${app.appId}/audit` }),
	"GET /app": async () => ({ path: "/app" }),
	"GET /app/transfer": async (world) => ({ path: "/app/transfer", query: { orgId: world.orgId } }),
	"POST /app/transfer": async (world, app) => {
		const withdrawn = { key: world.adminKey, query: { app_id: app.appId } };
		await world.request("DELETE", "/app/transfer", withdrawn);
		return { path: "/app/transfer", body: { app_id: app.appId, to_org: await otherOrganization(world) } };
	},
	"DELETE /app/transfer": async (world, app) => {
		await offerTo(world, app, await otherOrganization(world));
		return { path: "/app/transfer", query: { app_id: app.appId } };
	},
	"POST /app/transfer/accept": async (world) => ({
		path: "/app/transfer/accept",
		body: { app_id: await offeredApp(world) },
	}),
	"POST /app/transfer/decline": async (world) => ({
		path: "/app/transfer/decline",
		body: { app_id: await offeredApp(world) },
	}),
	"GET /app/reservation": async (world) => ({ path: "/app/reservation", query: { orgId: world.orgId } }),
	"DELETE /app/reservation": async (world) => ({
		path: "/app/reservation",
		query: { app_id: (await deletedApp(world)).appId },
	}),
	"POST /app/restore": async (world) => ({ path: "/app/restore", body: { app_id: (await deletedApp(world)).appId } }),
	"GET /app/:app_id": async (_, app) => ({ path: `/app/${app.appId}` }),
	"POST /app/sample": (world) => sampleRequest(world, "/app/sample"),
	"POST /app/demo": (world) => sampleRequest(world, "/app/demo"),
	"POST /app": async (world) => ({
		path: "/app",
		body: {
			app_id: `com.example.made${nextNumber()}.t${crypto.randomUUID().slice(0, 8)}`,
			name: "made",
			owner_org: world.orgId,
		},
	}),
	"PUT /app/:app_id": async (_, app) => ({ path: `/app/${app.appId}`, body: { name: fresh("name") } }),
	"DELETE /app/:app_id": async (_, app) => ({ path: `/app/${app.appId}` }),
	"GET /channel": async (_, app) => ({ path: "/channel", query: { app_id: app.appId } }),
	"GET /channel/rollout": async (world, app, creators) => {
		const channel = fresh("pr-staged");
		await madeChannel(world, app, channel, creators);
		return { path: "/channel/rollout", query: { app_id: app.appId, channel } };
	},
	"GET /channel/history": async (world, app, creators) => {
		const channel = fresh("pr-chronicled");
		await madeChannel(world, app, channel, creators);
		return { path: "/channel/history", query: { app_id: app.appId, channel } };
	},
	"GET /channel/approvers": async (world, app, creators) => {
		const channel = fresh("pr-approved");
		await madeChannel(world, app, channel, creators);
		return { path: "/channel/approvers", query: { app_id: app.appId, channel } };
	},
	"GET /release": async (world, app, creators) => {
		const channel = fresh("pr-released");
		await madeChannel(world, app, channel, creators);
		const query = { app_id: app.appId, channel };
		const { body } = await world.request("GET", "/channel/history", { key: world.adminKey, query });
		return { path: "/release", query: { ...query, id: String(body[0]?.id ?? 1) } };
	},
	"GET /app/:app_id/releases": async (_world, app) => ({ path: `/app/${app.appId}/releases` }),
	"POST /channel/rollback": async (world, app, creators) => {
		const channel = fresh("pr-mistaken");
		await madeChannel(world, app, channel, creators);
		const { version } = await uploaded(world, app, creators);
		const body = { app_id: app.appId, channel, version };
		return { path: "/channel/rollback", body, thing: channelThing(app, channel) };
	},
	"GET /proposal": async (_, app) => ({ path: "/proposal", query: { app_id: app.appId } }),
	"POST /proposal/approve": async (world, app) => waitingProposal(world, app, "/proposal/approve"),
	"POST /proposal/reject": async (world, app) => waitingProposal(world, app, "/proposal/reject"),
	"POST /channel": async (_, app) => ({ path: "/channel", body: { app_id: app.appId, channel: fresh("pr-made") } }),
	"POST /channel/what_if": async (_, app) => ({
		path: "/channel/what_if",
		body: { app_id: app.appId, channel: fresh("pondered"), public: true },
	}),
	"DELETE /channel": async (world, app, creators) => {
		const channel = fresh("pr-doomed");
		await madeChannel(world, app, channel, creators);
		return { path: "/channel", query: { app_id: app.appId, channel }, thing: channelThing(app, channel) };
	},
	"GET /preview": async (_, app) => ({ path: "/preview", query: { app_id: app.appId } }),
	"POST /preview": async (_, app) => ({
		path: "/preview",
		// The first preview of a repository stores its name as well.
		body: { app_id: app.appId, repository: fresh("acme/shop"), number: nextNumber() },
	}),
	"DELETE /preview": async (world, app, creators) => ({
		path: "/preview",
		query: {
			app_id: app.appId,
			repository: "acme/shop",
			number: (await openedPreview(world, app, creators)).number,
		},
	}),
	"POST /preview/page": async (world, app, creators) => ({
		path: "/preview/page",
		body: { app_id: app.appId, channel: (await openedPreview(world, app, creators)).channel },
	}),
	"GET /preview/hook": async (_, app) => ({ path: "/preview/hook", query: { app_id: app.appId } }),
	"POST /preview/hook": async (_, app) => ({
		path: "/preview/hook",
		body: { app_id: app.appId, provider: "github" },
	}),
	"POST /preview/hook/rotate": async (world, app) => ({
		path: "/preview/hook/rotate",
		body: { app_id: app.appId, id: (await previewHook(world, app)).id },
	}),
	"DELETE /preview/hook": async (world, app) => ({
		path: "/preview/hook",
		query: { app_id: app.appId, id: (await previewHook(world, app)).id },
	}),
	"GET /preview/link": async (world, app, creators) => {
		const { id, version } = await uploaded(world, app, creators);
		return { path: "/preview/link", query: { app_id: app.appId, version }, thing: bundleThing(app, id, version) };
	},
	"GET /device": async (_, app) => ({ path: "/device", query: { app_id: app.appId } }),
	"GET /device/list": async (_, app) => ({ path: "/device/list", query: { app_id: app.appId } }),
	"GET /device/events": async (_, app) => ({ path: "/device/events", query: { app_id: app.appId } }),
	"GET /device/explain": async (_, app) => ({
		path: "/device/explain",
		query: { app_id: app.appId, platform: "android", version_build: "1.0.0", plugin_version: "8.51.23" },
	}),
	"POST /device": async (world, app) => {
		const { id, version } = await uploaded(world, app);
		const body = { app_id: app.appId, device_id: crypto.randomUUID(), version_id: id };
		return { path: "/device", body, thing: bundleThing(app, id, version) };
	},
	"DELETE /device": async (world, app) => ({
		path: "/device",
		query: { app_id: app.appId, device_id: await overriddenDevice(world, app) },
	}),
};
