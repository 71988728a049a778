/**
 * One request for every endpoint about an organization: its settings, members, keys, webhooks,
 * signing keys, audit log and statistics, and for the state of the service.
 */
import { fresh, type Prepare, type Thing } from "./request-parts";
import { createTestKey, createTestMember, type Scene, type TestApp } from "./scene";

const keyThing = (name: string): Thing => ({ name, removal: { method: "DELETE", path: `/apikey/${name}` } });

const memberThing = (world: Scene, name: string): Thing => ({
	name,
	removal: { method: "DELETE", path: "/organization/members", query: { orgId: world.orgId, email: name } },
});

const roleThing = (world: Scene, name: string): Thing => ({
	name,
	removal: { method: "DELETE", path: "/organization/roles", query: { orgId: world.orgId, name } },
});

const ROLE = { title: "A role", scope_type: "org", permissions: ["org.read", "org.read_members"] };

/** An organization takes few of them, so those that earlier requests created go. */
async function newRole(world: Scene) {
	const options = { key: world.adminKey };
	const { body } = await world.request("GET", "/organization/roles", { ...options, query: { orgId: world.orgId } });
	for (const { name } of body) {
		if (!name.startsWith("fresh-")) continue;
		await world.request("DELETE", "/organization/roles", { ...options, query: { orgId: world.orgId, name } });
	}
	return {
		orgId: world.orgId,
		name: `fresh-${fresh("r")
			.toLowerCase()
			.replaceAll(/[^a-z0-9]/g, "")}`.slice(0, 30),
		...ROLE,
	};
}

/** The role of this name, created unless it is there. */
async function roleNamed(world: Scene, name: string) {
	const body = { orgId: world.orgId, name, ...ROLE };
	const { status, body: answer } = await world.request("POST", "/organization/roles", { key: world.adminKey, body });
	if (status !== 201 && status !== 409) throw new Error(`no role: ${JSON.stringify(answer)}`);
	return body;
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
async function removeWebhooks(world: Scene, app: TestApp | undefined): Promise<void> {
	const options = { key: world.adminKey, query: { orgId: world.orgId } };
	const { body } = await world.request("GET", "/webhook", options);
	const ofOwner = body.filter(({ app_id }: { readonly app_id: string | null }) => app_id === (app?.appId ?? null));
	const most = app === undefined ? 30 : 8;
	const old = ofOwner.length >= most ? ofOwner.slice(0, most / 2) : [];
	for (const { id } of old) {
		await world.request("DELETE", "/webhook", { ...options, query: { orgId: world.orgId, id } });
	}
}

/** A webhook of the app, or of the organization, whose events no other request causes. */
async function madeWebhook(world: Scene, app?: TestApp): Promise<string> {
	await removeWebhooks(world, app);
	const { status, body } = await world.request("POST", "/webhook", {
		key: world.adminKey,
		body: {
			orgId: world.orgId,
			...(app === undefined ? {} : { app_id: app.appId }),
			...{ url: "https://hooks.example.com/made", events: ["preview.opened"] },
		},
	});
	if (status !== 201) throw new Error(`webhook not created: ${JSON.stringify(body)}`);
	return body.id;
}

async function waitingDelivery(world: Scene, app: TestApp): Promise<string> {
	const body = { orgId: world.orgId, id: await madeWebhook(world, app) };
	return (await world.request("POST", "/webhook/test", { key: world.adminKey, body })).body.delivery_id;
}

/** A delivery that a replay changes, because it is not pending. */
async function failedDelivery(world: Scene, app?: TestApp): Promise<string> {
	const body = { orgId: world.orgId, id: await madeWebhook(world, app) };
	const tested = await world.request("POST", "/webhook/test", { key: world.adminKey, body });
	for (const enabled of [false, true]) {
		await world.request("PUT", "/webhook", { key: world.adminKey, body: { ...body, enabled } });
	}
	return tested.body.delivery_id;
}

/** The form of a public key of 2,048 bits; nobody has its private key. */
function randomPublicKey(): string {
	const modulus = crypto.getRandomValues(new Uint8Array(256));
	modulus[0] = 0x80;
	modulus[255] = 1;
	const bytes = [0x30, 0x82, 0x01, 0x0a, 0x02, 0x82, 0x01, 0x01, 0, ...modulus, 2, 3, 1, 0, 1];
	return `-----BEGIN RSA PUBLIC KEY-----\n${btoa(String.fromCharCode(...bytes))}\n-----END RSA PUBLIC KEY-----`;
}

export const ORGANIZATION_REQUESTS: Readonly<Record<string, Prepare>> = {
	"GET /service/addresses": async () => ({ path: "/service/addresses" }),
	"GET /service/status": async () => ({ path: "/service/status" }),
	"GET /organization": async (world) => ({ path: "/organization", query: { orgId: world.orgId } }),
	"PUT /organization": async () => ({ path: "/organization", body: { name: fresh("organization") } }),
	"POST /organization": async (world) => ({
		path: "/organization",
		body: { orgId: world.orgId, name: fresh("organization") },
	}),
	// The announcement: it needs what the deletion needs, and the organization is there for the next
	// request.
	"DELETE /organization": async (world) => ({
		path: "/organization",
		query: { orgId: world.orgId, dry_run: "true" },
	}),
	// Restores another organization of the administrator, so that this one is still there for the next
	// request.
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
	"POST /webhook/try": async (world, app) => ({
		path: "/webhook/try",
		body: { orgId: world.orgId, app_id: app.appId, url: "https://hooks.example.com/tried" },
	}),
	"GET /webhook/delivery": async (world, app) => ({
		path: "/webhook/delivery",
		query: { orgId: world.orgId, id: await madeWebhook(world, app) },
	}),
	"GET /webhook/delivery/attempts": async (world, app) => ({
		path: "/webhook/delivery/attempts",
		query: { orgId: world.orgId, id: await failedDelivery(world, app) },
	}),
	"POST /webhook/delivery/replay": async (world, app) => ({
		path: "/webhook/delivery/replay",
		body: { orgId: world.orgId, id: await failedDelivery(world, app) },
	}),
	"POST /webhook/delivery/stop": async (world, app) => ({
		path: "/webhook/delivery/stop",
		body: { orgId: world.orgId, id: await waitingDelivery(world, app) },
	}),
	"GET /webhooks": async (world) => ({ path: "/webhooks", query: { orgId: world.orgId } }),
	"POST /webhooks": async (world) => {
		await removeWebhooks(world, undefined);
		const url = `https://hooks.example.com/${fresh("hook")}`;
		return { path: "/webhooks", body: { orgId: world.orgId, name: fresh("hook"), url, events: ["preview.opened"] } };
	},
	"PUT /webhooks": async (world) => ({
		path: "/webhooks",
		body: { orgId: world.orgId, webhookId: await madeWebhook(world), name: fresh("hook") },
	}),
	"DELETE /webhooks": async (world) => ({
		path: "/webhooks",
		query: { orgId: world.orgId, webhookId: await madeWebhook(world) },
	}),
	"POST /webhooks/test": async (world) => ({
		path: "/webhooks/test",
		body: { orgId: world.orgId, webhookId: await madeWebhook(world) },
	}),
	"GET /webhooks/deliveries": async (world) => ({
		path: "/webhooks/deliveries",
		query: { orgId: world.orgId, webhookId: await madeWebhook(world) },
	}),
	"POST /webhooks/deliveries/retry": async (world) => {
		const deliveryId = await failedDelivery(world);
		return { path: "/webhooks/deliveries/retry", body: { orgId: world.orgId, deliveryId } };
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
	"GET /organization/members/bindings": async (world) => ({
		path: "/organization/members/bindings",
		query: { orgId: world.orgId },
	}),
	"POST /organization/members/bindings": async (world, app) => {
		const { email } = await createTestMember(world, "org_member");
		const body = { orgId: world.orgId, email, role_name: "app_reader", app_id: app.appId };
		return { path: "/organization/members/bindings", body, thing: memberThing(world, email) };
	},
	"DELETE /organization/members/bindings": async (world, app) => {
		const { email } = await createTestMember(world, "org_member");
		const { body } = await world.request("POST", "/organization/members/bindings", {
			key: world.adminKey,
			body: { orgId: world.orgId, email, role_name: "app_reader", app_id: app.appId },
		});
		const query = { orgId: world.orgId, id: body.id };
		return { path: "/organization/members/bindings", query, thing: memberThing(world, email) };
	},
	"DELETE /organization/members": async (world) => {
		const { email } = await createTestMember(world, "org_member");
		return {
			path: "/organization/members",
			query: { orgId: world.orgId, email },
			thing: memberThing(world, email),
		};
	},
	"GET /organization/roles": async (world) => ({ path: "/organization/roles", query: { orgId: world.orgId } }),
	"POST /organization/roles": async (world) => ({ path: "/organization/roles", body: await newRole(world) }),
	"PUT /organization/roles": async (world) => {
		const { orgId, name } = await roleNamed(world, "changed-role");
		return {
			path: "/organization/roles",
			body: { orgId, name, title: fresh("role") },
			thing: roleThing(world, name),
		};
	},
	"DELETE /organization/roles": async (world) => {
		const { orgId, name } = await roleNamed(world, "deleted-role");
		return { path: "/organization/roles", query: { orgId, name }, thing: roleThing(world, name) };
	},
	"GET /organization/audit": async (world) => ({ path: "/organization/audit", query: { orgId: world.orgId } }),
	"GET /statistics/app/:app_id": async (_, app) => ({ path: `/statistics/app/${app.appId}` }),
	"GET /statistics/app/:app_id/bundle_usage": async (_, app) => ({ path: `/statistics/app/${app.appId}/bundle_usage` }),
	"GET /statistics/app/:app_id/native_usage": async (_, app) => ({ path: `/statistics/app/${app.appId}/native_usage` }),
	"GET /statistics/app/:app_id/installs": async (_, app) => ({ path: `/statistics/app/${app.appId}/installs` }),
	"GET /statistics/app/:app_id/health": async (_, app) => ({ path: `/statistics/app/${app.appId}/health` }),
	"GET /statistics/app/:app_id/failures": async (_, app) => ({ path: `/statistics/app/${app.appId}/failures` }),
	"GET /statistics/app/:app_id/channels": async (_, app) => ({
		path: `/statistics/app/${app.appId}/channels`,
		query: { channel_ids: "1,2" },
	}),
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
	"PUT /apikey": async (world, app) => {
		const { id } = await createTestKey(world, "app_reader", app);
		return { path: "/apikey", body: { id, name: fresh("renamed") }, thing: keyThing(id) };
	},
	"DELETE /apikey/:id": async (world, app) => {
		const { id } = await createTestKey(world, "app_reader", app);
		return { path: `/apikey/${id}`, thing: keyThing(id) };
	},
};
