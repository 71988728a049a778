/**
 * One request for every endpoint, for the authorization tests. Each entry makes what it needs and gives back a request that succeeds
 * with enough rights. A new endpoint needs an entry here, `"METHOD path": async (world, app, makers) => ({ path, query?, body? })`, or,
 * if it is public, its name in PUBLIC_ENDPOINTS: the coverage test fails and names it. Whatever an entry makes for its request is made
 * by the keys in `makers`, because some endpoints are for the maker alone. A request about something smaller than an organization or an
 * app names it in `thing`, so that the tests can delete it first.
 */
import {
	createTestApp,
	createTestKey,
	createTestMember,
	type RequestOptions,
	type Scene,
	setTestChannel,
	type TestApp,
	tokenOf,
	uploadTestBundle,
} from "./scene";
import { bundleOf } from "./zip";

export interface PreparedRequest extends Omit<RequestOptions, "key"> {
	/** The path with its parameters filled in. */
	readonly path: string;
	/** The target of the request, unless that is the whole app or organization. */
	readonly thing?: Thing;
}

/** Something that can be deleted. */
export interface Thing {
	/** How the request names it. */
	readonly name: string | number;
	/** The request by which an administrator deletes it. */
	readonly removal: Omit<RequestOptions, "key"> & { readonly method: string; readonly path: string };
}

/** Whose key makes the bundles and files, and the channels, that a request is about. */
export interface Makers {
	readonly bundle: string;
	readonly channel: string;
}

/** Without makers the administrator makes everything. */
type Prepare = (world: Scene, app: TestApp, makers?: Makers) => Promise<PreparedRequest>;

const byAdmin = (world: Scene): Makers => ({ bundle: world.adminKey, channel: world.adminKey });

let counter = 0;
const fresh = (name: string) => `${name}-${++counter}`;
const freshVersion = () => `1.0.${++counter}`;
const PREFIX = "/compat/capgo-cli";
const RPC = `${PREFIX}/rest/v1/rpc`;

const tusHeaders = (world: Scene, app: TestApp, version: string, length: number) => ({
	"tus-resumable": "1.0.0",
	"upload-length": String(length),
	"upload-metadata": `filename ${btoa(`orgs/${world.orgId}/apps/${app.appId}/${version}.zip`)}`,
});

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

async function registered(world: Scene, app: TestApp, makers = byAdmin(world)): Promise<string> {
	const version = freshVersion();
	const { status, body } = await world.request("POST", "/bundle", {
		key: makers.bundle,
		body: { app_id: app.appId, version },
	});
	if (status !== 201) throw new Error(`bundle not registered: ${JSON.stringify(body)}`);
	return version;
}

async function uploaded(world: Scene, app: TestApp, makers = byAdmin(world)): Promise<{ id: number; version: string }> {
	const version = freshVersion();
	return { id: await uploadTestBundle(world, app, version, makers.bundle), version };
}

async function madeChannel(world: Scene, app: TestApp, name: string, makers = byAdmin(world)): Promise<number> {
	return setTestChannel(world, app, name, {}, makers.channel);
}

async function previewHook(world: Scene, app: TestApp, provider = "github"): Promise<{ id: string; secret: string }> {
	const body = { app_id: app.appId, provider };
	const { status, body: created } = await world.request("POST", "/preview/hook", { key: world.adminKey, body });
	if (status !== 201) throw new Error(`webhook not created: ${JSON.stringify(created)}`);
	return created;
}

/** The number of an open preview. */
async function openedPreview(
	world: Scene,
	app: TestApp,
	makers = byAdmin(world),
): Promise<{ readonly number: string; readonly channel: string }> {
	const number = ++counter;
	const { status, body } = await world.request("POST", "/preview", {
		key: makers.channel,
		body: { app_id: app.appId, repository: "acme/shop", number },
	});
	if (status !== 201) throw new Error("preview not opened");
	return { number: String(number), channel: body.channel };
}

/** An empty file of the delta store, which is whole as soon as it is begun. */
async function storedFile(world: Scene, app: TestApp, makers = byAdmin(world)): Promise<string> {
	// The hash in the path is that of a file without bytes.
	const hash = "cd372fb85148700fa88095e3492d3f9f5beb43e555e5ff26d95f5a6adc36f8e6";
	const path = `orgs/${world.orgId}/apps/${app.appId}/delta/${hash}_${fresh("empty")}`;
	const { status } = await world.request("POST", "/files/upload/attachments", {
		key: makers.bundle,
		headers: { "tus-resumable": "1.0.0", "upload-length": "0", "upload-metadata": `filename ${btoa(path)}` },
	});
	if (status !== 201) throw new Error("file not stored");
	return path;
}

/** The clock of the world; a running product has the machine's. */
const nowMsOf = (world: Scene & { readonly clock?: { readonly nowMs: number } }) => world.clock?.nowMs ?? Date.now();

const publisherBody = (world: Scene, app: TestApp) => ({
	...{ app_id: app.appId, name: fresh("publisher"), stage: "upload", provider: "github" },
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
	const channel = fresh("guarded");
	const version = freshVersion();
	await uploadTestBundle(world, app, version);
	const keys = await world.request("GET", "/apikey", { key: world.adminKey, query: { org_id: world.orgId } });
	const promoters = ["org_super_admin", "org_admin", "app_admin", "app_developer", "app_uploader"];
	// The list is in no fixed order. Keys without a promoting role, and those of earlier proposers, must not take the places of the others. The
	// admin's may be on a later page.
	type Listed = { id: string; name: string; bindings: { role_name: string }[] };
	const isPersonal = ({ name }: Listed) => Number(name === "Personal key");
	const ids = (keys.body as Listed[])
		.filter(({ bindings }) => bindings.some(({ role_name }) => promoters.includes(role_name)))
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

/** An organization takes few of them. */
async function removeSigningKeys(world: Scene): Promise<void> {
	const options = { key: world.adminKey };
	const { body } = await world.request("GET", "/organization/signing_key", {
		...options,
		query: { orgId: world.orgId },
	});
	for (const { id } of body) {
		await world.request("DELETE", "/organization/signing_key", { ...options, query: { orgId: world.orgId, id } });
	}
}

/** An app and an organization take few of them. Those of requests that were not sent yet stay. */
async function removeWebhooks(world: Scene, app: TestApp): Promise<void> {
	const options = { key: world.adminKey, query: { orgId: world.orgId } };
	const { body } = await world.request("GET", "/webhook", options);
	const ofApp = body.filter(({ app_id }: { readonly app_id: string }) => app_id === app.appId);
	const old = body.length >= 40 ? body.slice(0, 20) : ofApp.length >= 8 ? ofApp.slice(0, 4) : [];
	for (const { id } of old) {
		await world.request("DELETE", "/webhook", { ...options, query: { orgId: world.orgId, id } });
	}
}

/** A webhook of the app whose events no other request causes. */
async function madeWebhook(world: Scene, app: TestApp): Promise<string> {
	await removeWebhooks(world, app);
	const { status, body } = await world.request("POST", "/webhook", {
		key: world.adminKey,
		body: {
			...{ orgId: world.orgId, app_id: app.appId },
			...{ url: "https://hooks.example.com/made", events: ["preview.opened"] },
		},
	});
	if (status !== 201) throw new Error(`webhook not created: ${JSON.stringify(body)}`);
	return body.id;
}

/** The form of a public key of 2,048 bits; nobody has its private key. */
function randomPublicKey(): string {
	const modulus = crypto.getRandomValues(new Uint8Array(256));
	modulus[0] = 0x80;
	modulus[255] = 1;
	const bytes = [0x30, 0x82, 0x01, 0x0a, 0x02, 0x82, 0x01, 0x01, 0, ...modulus, 2, 3, 1, 0, 1];
	return `-----BEGIN RSA PUBLIC KEY-----\n${btoa(String.fromCharCode(...bytes))}\n-----END RSA PUBLIC KEY-----`;
}

const channelThing = (app: TestApp, name: string | number, channel = String(name)): Thing => ({
	name,
	removal: { method: "DELETE", path: "/channel", query: { app_id: app.appId, channel } },
});
const bundleThing = (app: TestApp, name: string | number, version = String(name)): Thing => ({
	name,
	removal: { method: "DELETE", path: "/bundle", query: { app_id: app.appId, version } },
});
const keyThing = (name: string): Thing => ({ name, removal: { method: "DELETE", path: `/apikey/${name}` } });
const memberThing = (world: Scene, name: string): Thing => ({
	name,
	removal: { method: "DELETE", path: "/organization/members", query: { orgId: world.orgId, email: name } },
});

const constantProcedure =
	(name: string): Prepare =>
	async () => ({ path: `${RPC}/${name}`, body: {} });
const registeredProcedure =
	(path: string): Prepare =>
	async (world, app, makers) => {
		const name = await registered(world, app, makers);
		return { path, body: { app_id: app.appId, name }, thing: bundleThing(app, name) };
	};

/** Endpoints whose answer depends on the caller's own work: roles that may call them get 403 or 404 for another's. */
export const REQUESTS: Readonly<Record<string, Prepare>> = {
	"GET /service/addresses": async () => ({ path: "/service/addresses" }),
	"GET /service/status": async () => ({ path: "/service/status" }),
	"GET /organization": async (world) => ({ path: "/organization", query: { orgId: world.orgId } }),
	"PUT /organization": async () => ({ path: "/organization", body: { name: fresh("organization") } }),
	"POST /organization": async (world) => ({
		path: "/organization",
		body: { orgId: world.orgId, name: fresh("organization") },
	}),
	// The announcement: it needs what the deletion needs, and the organization is there for the next request.
	"DELETE /organization": async (world) => ({
		path: "/organization",
		query: { orgId: world.orgId, dry_run: "true" },
	}),
	// Restores another organization of the administrator, so that this one is still there for the next request.
	"POST /organization/restore": async (world) => {
		const key = world.adminKey;
		const made = await world.request("PUT", "/organization", { key, body: { name: fresh("doomed") } });
		const orgId: string = made.body.id;
		const deleted = await world.request("DELETE", "/organization", { key, query: { orgId } });
		if (deleted.status !== 200) throw new Error("organization not deleted");
		return { path: "/organization/restore", body: { orgId } };
	},
	"GET /organization/usage": async (world) => ({ path: "/organization/usage", query: { orgId: world.orgId } }),
	"GET /webhook": async (world, app) => ({ path: "/webhook", query: { orgId: world.orgId, app_id: app.appId } }),
	"POST /webhook": async (world, app) => {
		await removeWebhooks(world, app);
		const url = `https://hooks.example.com/${fresh("hook")}`;
		return { path: "/webhook", body: { orgId: world.orgId, app_id: app.appId, url, events: ["preview.opened"] } };
	},
	"PUT /webhook": async (world, app) => ({
		path: "/webhook",
		body: { orgId: world.orgId, id: await madeWebhook(world, app), description: fresh("hook") },
	}),
	"DELETE /webhook": async (world, app) => ({
		path: "/webhook",
		query: { orgId: world.orgId, id: await madeWebhook(world, app) },
	}),
	"POST /webhook/rotate": async (world, app) => ({
		path: "/webhook/rotate",
		body: { orgId: world.orgId, id: await madeWebhook(world, app) },
	}),
	"POST /webhook/test": async (world, app) => ({
		path: "/webhook/test",
		body: { orgId: world.orgId, id: await madeWebhook(world, app) },
	}),
	"GET /webhook/delivery": async (world, app) => ({
		path: "/webhook/delivery",
		query: { orgId: world.orgId, id: await madeWebhook(world, app) },
	}),
	"POST /webhook/delivery/replay": async (world, app) => {
		const body = { orgId: world.orgId, id: await madeWebhook(world, app) };
		const tested = await world.request("POST", "/webhook/test", { key: world.adminKey, body });
		// A delivery that is pending would not change.
		for (const enabled of [false, true]) {
			await world.request("PUT", "/webhook", { key: world.adminKey, body: { ...body, enabled } });
		}
		return { path: "/webhook/delivery/replay", body: { orgId: world.orgId, id: tested.body.delivery_id } };
	},
	"GET /organization/signing_key": async (world) => ({
		path: "/organization/signing_key",
		query: { orgId: world.orgId },
	}),
	"POST /organization/signing_key": async (world) => {
		await removeSigningKeys(world);
		return {
			path: "/organization/signing_key",
			body: { orgId: world.orgId, name: fresh("signing key"), public_key: randomPublicKey() },
		};
	},
	"DELETE /organization/signing_key": async (world) => {
		await removeSigningKeys(world);
		const { body } = await world.request("POST", "/organization/signing_key", {
			key: world.adminKey,
			body: { orgId: world.orgId, name: fresh("signing key"), public_key: randomPublicKey() },
		});
		return { path: "/organization/signing_key", query: { orgId: world.orgId, id: body.id } };
	},
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
	"GET /device/key": async (_, app) => ({ path: "/device/key", query: { app_id: app.appId } }),
	"GET /organization/members": async (world) => ({ path: "/organization/members", query: { orgId: world.orgId } }),
	"POST /organization/members": async (world) => ({
		path: "/organization/members",
		body: { orgId: world.orgId, email: `${fresh("invited")}@example.com`, role: "org_member" },
	}),
	"PUT /organization/members": async (world) => {
		const { email } = await createTestMember(world, "org_member");
		const body = { orgId: world.orgId, email, role: "org_admin" };
		return { path: "/organization/members", body, thing: memberThing(world, email) };
	},
	"PUT /organization/members/permissions": async (world) => {
		const { email } = await createTestMember(world, "org_admin");
		const body = { orgId: world.orgId, email, global_permissions: ["org.create"] };
		return { path: "/organization/members/permissions", body, thing: memberThing(world, email) };
	},
	"DELETE /organization/members": async (world) => {
		const { email } = await createTestMember(world, "org_member");
		return {
			path: "/organization/members",
			query: { orgId: world.orgId, email },
			thing: memberThing(world, email),
		};
	},
	"GET /organization/audit": async (world) => ({ path: "/organization/audit", query: { orgId: world.orgId } }),
	"GET /app/:app_id/audit": async (_, app) => ({ path: `/app/${app.appId}/audit` }),
	"GET /statistics/app/:app_id": async (_, app) => ({ path: `/statistics/app/${app.appId}` }),
	"GET /statistics/app/:app_id/bundle_usage": async (_, app) => ({ path: `/statistics/app/${app.appId}/bundle_usage` }),
	"GET /statistics/app/:app_id/installs": async (_, app) => ({ path: `/statistics/app/${app.appId}/installs` }),
	"GET /statistics/app/:app_id/health": async (_, app) => ({ path: `/statistics/app/${app.appId}/health` }),
	"GET /statistics/apps": async () => ({ path: "/statistics/apps" }),
	"GET /statistics/user": async () => ({ path: "/statistics/user" }),
	"GET /statistics/org/:org_id": async (world) => ({ path: `/statistics/org/${world.orgId}` }),
	"GET /apikey": async (world) => ({ path: "/apikey", query: { org_id: world.orgId } }),
	"GET /apikey/:id": async (world, app) => {
		const { id } = await createTestKey(world, "app_reader", app);
		return { path: `/apikey/${id}`, thing: keyThing(id) };
	},
	"POST /apikey": async (world) => ({ path: "/apikey", query: { org_id: world.orgId }, body: { name: "made" } }),
	"PUT /apikey/:id": async (world, app) => {
		const { id } = await createTestKey(world, "app_reader", app);
		return { path: `/apikey/${id}`, body: { name: fresh("renamed") }, thing: keyThing(id) };
	},
	"DELETE /apikey/:id": async (world, app) => {
		const { id } = await createTestKey(world, "app_reader", app);
		return { path: `/apikey/${id}`, thing: keyThing(id) };
	},
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
	"POST /app": async (world) => ({
		path: "/app",
		body: {
			app_id: `com.example.made${++counter}.t${crypto.randomUUID().slice(0, 8)}`,
			name: "made",
			owner_org: world.orgId,
		},
	}),
	"PUT /app/:app_id": async (_, app) => ({ path: `/app/${app.appId}`, body: { name: fresh("name") } }),
	"DELETE /app/:app_id": async (_, app) => ({ path: `/app/${app.appId}` }),
	"GET /channel": async (_, app) => ({ path: "/channel", query: { app_id: app.appId } }),
	"GET /channel/rollout": async (world, app, makers) => {
		const channel = fresh("staged");
		await madeChannel(world, app, channel, makers);
		return { path: "/channel/rollout", query: { app_id: app.appId, channel } };
	},
	"GET /channel/history": async (world, app, makers) => {
		const channel = fresh("chronicled");
		await madeChannel(world, app, channel, makers);
		return { path: "/channel/history", query: { app_id: app.appId, channel } };
	},
	"GET /app/:app_id/releases": async (_world, app) => ({ path: `/app/${app.appId}/releases` }),
	"POST /channel/rollback": async (world, app, makers) => {
		const channel = fresh("mistaken");
		await madeChannel(world, app, channel, makers);
		const { version } = await uploaded(world, app, makers);
		const body = { app_id: app.appId, channel, version };
		return { path: "/channel/rollback", body, thing: channelThing(app, channel) };
	},
	"GET /proposal": async (_, app) => ({ path: "/proposal", query: { app_id: app.appId } }),
	"POST /proposal/approve": async (world, app) => waitingProposal(world, app, "/proposal/approve"),
	"POST /proposal/reject": async (world, app) => waitingProposal(world, app, "/proposal/reject"),
	"POST /channel": async (_, app) => ({ path: "/channel", body: { app_id: app.appId, channel: fresh("made") } }),
	"POST /channel/what_if": async (_, app) => ({
		path: "/channel/what_if",
		body: { app_id: app.appId, channel: fresh("pondered"), public: true },
	}),
	"DELETE /channel": async (world, app, makers) => {
		const channel = fresh("doomed");
		await madeChannel(world, app, channel, makers);
		return { path: "/channel", query: { app_id: app.appId, channel }, thing: channelThing(app, channel) };
	},
	"GET /preview": async (_, app) => ({ path: "/preview", query: { app_id: app.appId } }),
	"POST /preview": async (_, app) => ({
		path: "/preview",
		// The first preview of a repository stores its name as well.
		body: { app_id: app.appId, repository: fresh("acme/shop"), number: ++counter },
	}),
	"DELETE /preview": async (world, app, makers) => ({
		path: "/preview",
		query: {
			app_id: app.appId,
			repository: "acme/shop",
			number: (await openedPreview(world, app, makers)).number,
		},
	}),
	"POST /preview/page": async (world, app, makers) => ({
		path: "/preview/page",
		body: { app_id: app.appId, channel: (await openedPreview(world, app, makers)).channel },
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
	"GET /preview/link": async (world, app, makers) => {
		const { id, version } = await uploaded(world, app, makers);
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
	"GET /bundle": async (_, app) => ({ path: "/bundle", query: { app_id: app.appId } }),
	"GET /bundle/difference": async (world, app, makers) => {
		const { version } = await uploaded(world, app, makers);
		return {
			path: "/bundle/difference",
			query: { app_id: app.appId, version, base: version },
			thing: bundleThing(app, version),
		};
	},
	"GET /bundle/list": async (_, app) => ({ path: "/bundle/list", query: { app_id: app.appId } }),
	"GET /bundle/files": async (world, app, makers) => {
		const { version } = await uploaded(world, app, makers);
		return { path: "/bundle/files", query: { app_id: app.appId, version }, thing: bundleThing(app, version) };
	},
	"GET /bundle/download": async (world, app, makers) => {
		const { version } = await uploaded(world, app, makers);
		return { path: "/bundle/download", query: { app_id: app.appId, version }, thing: bundleThing(app, version) };
	},
	"POST /bundle/metadata": async (world, app, makers) => {
		const { version } = await uploaded(world, app, makers);
		const body = { app_id: app.appId, version, comment: fresh("notes") };
		return { path: "/bundle/metadata", body, thing: bundleThing(app, version) };
	},
	"GET /bundle/compatibility": async (world, app, makers) => {
		const { version } = await uploaded(world, app, makers);
		const channel = fresh("compared");
		await madeChannel(world, app, channel, makers);
		return {
			path: "/bundle/compatibility",
			query: { app_id: app.appId, version, channel },
			thing: bundleThing(app, version),
		};
	},
	"POST /bundle": async (_, app) => ({ path: "/bundle", body: { app_id: app.appId, version: freshVersion() } }),
	"POST /bundle/complete": async (world, app, makers) => {
		const { version } = await uploaded(world, app, makers);
		return { path: "/bundle/complete", body: { app_id: app.appId, version }, thing: bundleThing(app, version) };
	},
	"PUT /bundle": async (world, app, makers) => {
		const { id, version } = await uploaded(world, app, makers);
		const channel_id = await madeChannel(world, app, fresh("target"), makers);
		return {
			path: "/bundle",
			body: { app_id: app.appId, version_id: id, channel_id },
			thing: bundleThing(app, id, version),
		};
	},
	"DELETE /bundle": async (world, app, makers) => {
		const { version } = await uploaded(world, app, makers);
		return { path: "/bundle", query: { app_id: app.appId, version }, thing: bundleThing(app, version) };
	},
	"POST /files/upload/attachments": async (world, app) => ({
		path: "/files/upload/attachments",
		headers: {
			...tusHeaders(world, app, "unused", 5),
			"upload-metadata": `filename ${btoa(`orgs/${world.orgId}/apps/${app.appId}/delta/${fresh("file")}`)}`,
		},
	}),
	"GET /files/upload/attachments/:id": async (world, app, makers) => ({
		...(await begunUpload(world, app, makers)),
		headers: { "tus-resumable": "1.0.0" },
	}),
	"PATCH /files/upload/attachments/:id": async (world, app, makers) => ({
		...(await begunUpload(world, app, makers)),
		headers: {
			"tus-resumable": "1.0.0",
			"upload-offset": "0",
			"content-type": "application/offset+octet-stream",
			"content-length": "130",
		},
		rawBody: bundleOf(130),
	}),
	"POST /private/events": async () => ({ path: "/private/events", body: { event: "x" } }),
	[`GET ${PREFIX}/functions/v1/app/:app_id`]: async (_, app) => ({ path: `${PREFIX}/functions/v1/app/${app.appId}` }),
	...Object.fromEntries(
		[
			"reject_access_due_to_2fa_for_app",
			"reject_access_due_to_2fa_for_org",
			"check_org_members_2fa_enabled",
			"is_allowed_action_org_action",
			"is_trial_org",
			"is_paying_org",
			"has_usage_credits_org",
			"request_actor_user_id",
			"request_actor_email_adress",
			"get_orgs_v7",
		].map((name) => [`POST ${RPC}/${name}`, constantProcedure(name)]),
	),
	[`POST ${RPC}/get_organization_cli_warnings`]: async (world) => ({
		path: `${RPC}/get_organization_cli_warnings`,
		body: { orgid: world.orgId },
	}),
	[`POST ${RPC}/cli_check_permission`]: async (_, app) => ({
		path: `${RPC}/cli_check_permission`,
		body: { permission_key: "app.read", app_id: app.appId },
	}),
	[`POST ${RPC}/exist_app_versions`]: async (_, app) => ({
		path: `${RPC}/exist_app_versions`,
		body: { appid: app.appId, name_version: "1.0.0" },
	}),
	[`POST ${RPC}/get_app_versions`]: async (world, app, makers) => {
		const { version } = await uploaded(world, app, makers);
		const body = { appid: app.appId, name_version: version };
		return { path: `${RPC}/get_app_versions`, body, thing: bundleThing(app, version) };
	},
	[`POST ${RPC}/get_channel_current_bundle_rbac`]: async (world, app, makers) => {
		const name = fresh("current");
		const id = await madeChannel(world, app, name, makers);
		const body = { p_app_id: app.appId, p_channel_id: id };
		return { path: `${RPC}/get_channel_current_bundle_rbac`, body, thing: channelThing(app, id, name) };
	},
	[`GET ${PREFIX}/rest/v1/channels`]: async (_, app) => ({
		path: `${PREFIX}/rest/v1/channels`,
		query: { select: "id,version", app_id: `eq.${app.appId}` },
	}),
	[`PATCH ${PREFIX}/rest/v1/channels`]: async (world, app, makers) => {
		const name = fresh("patched");
		await madeChannel(world, app, name, makers);
		return {
			path: `${PREFIX}/rest/v1/channels`,
			query: { app_id: `eq.${app.appId}`, name: `eq.${name}` },
			body: { app_id: app.appId, name, allow_device_self_set: true },
			thing: channelThing(app, name),
		};
	},
	[`GET ${PREFIX}/rest/v1/apps`]: async (_, app) => ({
		path: `${PREFIX}/rest/v1/apps`,
		query: { select: "default_upload_channel", app_id: `eq.${app.appId}` },
	}),
	[`PATCH ${PREFIX}/rest/v1/apps`]: async (_, app) => ({
		path: `${PREFIX}/rest/v1/apps`,
		query: { app_id: `eq.${app.appId}` },
		body: { default_upload_channel: fresh("nightly") },
	}),
	[`GET ${PREFIX}/rest/v1/orgs`]: async (world) => ({
		path: `${PREFIX}/rest/v1/orgs`,
		query: {
			select:
				"name,enforcing_2fa,password_policy_config,require_apikey_expiration,max_apikey_expiration_days,enforce_hashed_api_keys",
			id: `eq.${world.orgId}`,
		},
	}),
	[`POST ${PREFIX}/rest/v1/orgs`]: async () => ({
		path: `${PREFIX}/rest/v1/orgs`,
		query: { select: "*" },
		body: { name: fresh("organization"), management_email: "ada@example.com", created_by: crypto.randomUUID() },
	}),
	[`GET ${PREFIX}/rest/v1/app_versions`]: async (_, app) => ({
		path: `${PREFIX}/rest/v1/app_versions`,
		query: { select: "name", app_id: `eq.${app.appId}`, order: "created_at.desc", limit: "1" },
	}),
	[`POST ${PREFIX}/rest/v1/app_versions`]: async (_, app) => ({
		path: `${PREFIX}/rest/v1/app_versions`,
		body: { app_id: app.appId, name: freshVersion(), storage_provider: "r2-direct" },
	}),
	[`PATCH ${PREFIX}/rest/v1/app_versions`]: async (world, app, makers) => {
		const { version } = await uploaded(world, app, makers);
		return {
			path: `${PREFIX}/rest/v1/app_versions`,
			query: { app_id: `eq.${app.appId}`, name: `eq.${version}` },
			body: { deleted: true },
			thing: bundleThing(app, version),
		};
	},
	"POST /files/upload_link": registeredProcedure("/files/upload_link"),
	"POST /private/upload_link": registeredProcedure("/private/upload_link"),
	"GET /files/read/attachments/:path{.+}": async (world, app, makers) => ({
		path: `/files/read/attachments/${await storedFile(world, app, makers)}`,
	}),
	"POST /private/set_manifest": async (world, app, makers) => {
		const manifest = [{ file_name: "index.html", s3_path: await storedFile(world, app, makers), file_hash: "ab" }];
		const name = await registered(world, app, makers);
		return {
			path: "/private/set_manifest",
			body: { app_id: app.appId, name, manifest },
			thing: bundleThing(app, name),
		};
	},
	"POST /private/finalize_bundle_upload": async (world, app, makers) => {
		const { version } = await uploaded(world, app, makers);
		const body = { app_id: app.appId, name: version };
		return { path: "/private/finalize_bundle_upload", body, thing: bundleThing(app, version) };
	},
	"DELETE /private/delete_failed_version": async (world, app, makers) => {
		const name = await registered(world, app, makers);
		return {
			path: "/private/delete_failed_version",
			query: { app_id: app.appId, name },
			thing: bundleThing(app, name),
		};
	},
};

async function invitationToken(world: Scene): Promise<string> {
	const { status, body } = await world.request("POST", "/organization/members", {
		key: world.adminKey,
		body: { orgId: world.orgId, email: `${fresh("invited")}@example.com`, role: "org_member" },
	});
	if (status !== 201) throw new Error("nobody invited");
	return tokenOf(body.link);
}

async function begunUpload(world: Scene, app: TestApp, makers = byAdmin(world)): Promise<PreparedRequest> {
	const version = await registered(world, app, makers);
	const { headers, status } = await world.request("POST", "/files/upload/attachments", {
		key: makers.bundle,
		headers: tusHeaders(world, app, version, 130),
	});
	if (status !== 201) throw new Error("upload not begun");
	const { pathname } = new URL(headers.get("location") ?? "");
	return { path: pathname, thing: bundleThing(app, pathname.split("/").at(-1) ?? "", version) };
}

/** A public endpoint is reviewed here by hand: the list must equal what the declarations say. */
export const PUBLIC_ENDPOINTS: readonly string[] = [
	"POST /oidc/token",
	"POST /invitation/show",
	"POST /invitation/accept",
	"PUT /files/upload/one/:id",
	"OPTIONS /files/upload/attachments",
	"GET /files/download/:app/:upload/:part",
	"GET /",
	"GET /ok",
	"GET /updates",
	"POST /updates",
	"POST /updates/manifest_size",
	"POST /stats",
	"GET /preview/channel",
	"GET /preview/bundle",
	"POST /preview/show",
	"POST /hooks/github/:id",
	"POST /hooks/gitlab/:id",
	"POST /channel_self",
	"PUT /channel_self",
	"DELETE /channel_self",
	"GET /channel_self",
	"GET /private/config",
	"GET /files/config",
	"GET /sign-in/methods",
	"POST /sign-in/code",
	"POST /sign-in/code/verify",
	"POST /sign-in/link",
	"GET /sign-in/provider/:provider",
	"GET /sign-in/provider/:provider/callback",
	"POST /sign-in/passkey/options",
	"POST /sign-in/passkey",
];

/** The id of a device with a version override. */
async function overriddenDevice(world: Scene, app: TestApp): Promise<string> {
	const device_id = crypto.randomUUID();
	const { id } = await uploaded(world, app);
	const body = { app_id: app.appId, device_id, version_id: id };
	const { status } = await world.request("POST", "/device", { key: world.adminKey, body });
	if (status !== 200) throw new Error("device not overridden");
	return device_id;
}

/** Fields of an update check that the app's public channel has a bundle for. */
async function deviceOf(world: Scene, app: TestApp) {
	const { version } = await uploaded(world, app);
	await setTestChannel(world, app, fresh("production"), { version, public: true });
	return {
		app_id: app.appId,
		device_id: crypto.randomUUID(),
		version_name: "builtin",
		version_build: "1.0.0",
		platform: "android",
		plugin_version: "8.51.23",
		is_emulator: false,
		is_prod: true,
	};
}

async function allowPreviews(world: Scene, app: TestApp): Promise<void> {
	await world.request("PUT", `/app/${app.appId}`, { key: world.adminKey, body: { allow_preview: true } });
}

/** One request for every public endpoint; it succeeds without a key. */
export const PUBLIC_REQUESTS: Readonly<Record<string, Prepare>> = {
	"PUT /files/upload/one/:id": async (world, app) => {
		const { body } = await world.request("POST", "/bundle", {
			key: world.adminKey,
			body: { app_id: app.appId, version: freshVersion() },
		});
		return { path: body.upload_url, rawBody: bundleOf(130), headers: { "content-length": "130" } };
	},
	// Refused: a token that succeeds needs an issuer, which exchange.test.ts plays.
	"POST /oidc/token": async () => ({ path: "/oidc/token", body: { token: "a.b.c" } }),
	"OPTIONS /files/upload/attachments": async () => ({ path: "/files/upload/attachments" }),
	"GET /files/download/:app/:upload/:part": async (world, app) => {
		const { body } = await world.request("POST", "/updates", { body: await deviceOf(world, app) });
		return { path: body.url };
	},
	"GET /": async () => ({ path: "/" }),
	"GET /ok": async () => ({ path: "/ok" }),
	"GET /updates": async () => ({ path: "/updates" }),
	"POST /updates": async (world, app) => ({ path: "/updates", body: await deviceOf(world, app) }),
	"POST /updates/manifest_size": async (_, app) => ({
		path: "/updates/manifest_size",
		body: { app_id: app.appId, version: "1.0.0", manifest: [{ file_name: "index.html", file_hash: "ab" }] },
	}),
	"POST /stats": async (world, app) => ({ path: "/stats", body: { ...(await deviceOf(world, app)), action: "set" } }),
	"POST /preview/show": async (world, app) => {
		await openedPreview(world, app);
		const { body } = await world.request("GET", "/preview", { key: world.adminKey, query: { app_id: app.appId } });
		return { path: "/preview/show", body: { token: body[0].page_url.split("#")[1] } };
	},
	"POST /hooks/github/:id": async (world, app) => {
		const { id, secret } = await previewHook(world, app);
		const rawBody = new TextEncoder().encode("{}");
		const key = await crypto.subtle.importKey(
			"raw",
			new TextEncoder().encode(secret),
			{ name: "HMAC", hash: "SHA-256" },
			false,
			["sign"],
		);
		const signed = new Uint8Array(await crypto.subtle.sign("HMAC", key, rawBody));
		const signature = `sha256=${Array.from(signed, (byte) => byte.toString(16).padStart(2, "0")).join("")}`;
		const headers = { "x-github-event": "ping", "x-hub-signature-256": signature };
		return { path: `/hooks/github/${id}`, rawBody, headers };
	},
	"POST /hooks/gitlab/:id": async (world, app) => {
		const { id, secret } = await previewHook(world, app, "gitlab");
		return {
			path: `/hooks/gitlab/${id}`,
			rawBody: new TextEncoder().encode("{}"),
			headers: { "x-gitlab-token": secret },
		};
	},
	"GET /preview/channel": async (world, app) => {
		const { version } = await uploaded(world, app);
		const channel = fresh("previewed");
		await setTestChannel(world, app, channel, { version });
		await allowPreviews(world, app);
		return { path: "/preview/channel", query: { appId: app.appId, channel } };
	},
	"GET /preview/bundle": async (world, app) => {
		const { id } = await uploaded(world, app);
		await allowPreviews(world, app);
		return { path: "/preview/bundle", query: { appId: app.appId, versionId: String(id) } };
	},
	"POST /channel_self": async (world, app) => ({
		path: "/channel_self",
		body: { ...(await deviceOf(world, app)), channel: "absent" },
	}),
	"PUT /channel_self": async (world, app) => ({ path: "/channel_self", body: await deviceOf(world, app) }),
	"DELETE /channel_self": async (_, app) => ({
		path: "/channel_self",
		query: { app_id: app.appId, device_id: crypto.randomUUID() },
	}),
	"GET /channel_self": async (_, app) => ({ path: "/channel_self", query: { app_id: app.appId, platform: "android" } }),
	"POST /invitation/show": async (world) => ({
		path: "/invitation/show",
		body: { token: await invitationToken(world) },
	}),
	"POST /invitation/accept": async (world) => ({
		path: "/invitation/accept",
		body: { token: await invitationToken(world) },
	}),
	"GET /private/config": async () => ({ path: "/private/config" }),
	"GET /files/config": async () => ({ path: "/files/config" }),
};

/** Other requests of the same endpoints, where they go another way through the code: `"METHOD path": { what: … }`. */
export const MORE_REQUESTS: Readonly<Record<string, Readonly<Record<string, Prepare>>>> = {
	"DELETE /organization": {
		"in earnest": async (world) => {
			const made = await world.request("PUT", "/organization", {
				key: world.adminKey,
				body: { name: fresh("doomed") },
			});
			return { path: "/organization", query: { orgId: made.body.id } };
		},
	},
	"PUT /apikey/:id": {
		"regenerating with an overlap": async (world, app) => ({
			path: `/apikey/${(await createTestKey(world, "app_reader", app)).id}`,
			body: { regenerate: true, overlap_seconds: 3600 },
		}),
	},
	"POST /channel": {
		"taking the platforms over": async (world, app) => {
			const { version } = await uploaded(world, app);
			await setTestChannel(world, app, fresh("production"), { public: true });
			return { path: "/channel", body: { app_id: app.appId, channel: fresh("made"), version, public: true } };
		},
	},
	"DELETE /channel": {
		"with its bundle": async (world, app) => {
			const { version } = await uploaded(world, app);
			const channel = fresh("doomed");
			await setTestChannel(world, app, channel, { version });
			return { path: "/channel", query: { app_id: app.appId, channel, delete_bundle: "true" } };
		},
	},
	"DELETE /bundle": {
		"all of them": async (world, app) => {
			await uploaded(world, app);
			await uploaded(world, app);
			return { path: "/bundle", query: { app_id: app.appId, all: "true" } };
		},
	},
	"GET /files/download/:app/:upload/:part": {
		"in part": async (world, app) => {
			const { body } = await world.request("POST", "/updates", { body: await deviceOf(world, app) });
			return { path: body.url, headers: { range: "bytes=2-5" } };
		},
	},
};
