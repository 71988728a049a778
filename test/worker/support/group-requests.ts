/**
 * One request for every endpoint about groups, by this server's paths and by those of Capgo's
 * scripts. Each is about a group of its own, because a request that succeeds changes or deletes it.
 */
import { nextNumber, type Prepare, type Thing } from "./request-parts";
import { createTestMember, type Scene, type TestApp } from "./scene";

const groupThing = (id: string): Thing => ({
	name: id,
	removal: { method: "DELETE", path: `/organization/groups/${id}` },
});

/** Sorted by age. */
const newName = () => `group ${String(nextNumber()).padStart(6, "0")}`;

/**
 * An organization takes few of them, so old ones go. Those of requests that were not sent yet stay.
 */
async function madeGroup(world: Scene): Promise<string> {
	const options = { key: world.adminKey };
	const { body } = await world.request("GET", "/organization/groups", { ...options, query: { orgId: world.orgId } });
	const old = body.length >= 30 ? body.slice(0, 15) : [];
	for (const { id } of old) await world.request("DELETE", `/organization/groups/${id}`, options);
	const made = await world.request("POST", "/organization/groups", {
		...options,
		body: { orgId: world.orgId, name: newName() },
	});
	if (made.status !== 201) throw new Error(`group not created: ${JSON.stringify(made.body)}`);
	return made.body.id;
}

/** One for each organization, because an address accepts few invitations a minute. */
const members = new WeakMap<Scene, Promise<{ readonly email: string }>>();
function oneMember(world: Scene): Promise<{ readonly email: string }> {
	const known = members.get(world) ?? createTestMember(world, "org_member");
	members.set(world, known);
	return known;
}

async function groupWithMember(world: Scene): Promise<{ id: string; user_id: string }> {
	const id = await madeGroup(world);
	const { email } = await oneMember(world);
	const { status, body } = await world.request("POST", `/organization/groups/${id}/members`, {
		key: world.adminKey,
		body: { email },
	});
	if (status !== 201) throw new Error(`nobody added: ${JSON.stringify(body)}`);
	return { id, user_id: body.user_id };
}

async function groupWithRole(world: Scene, app: TestApp): Promise<{ id: string; binding: string }> {
	const id = await madeGroup(world);
	const { status, body } = await world.request("POST", `/organization/groups/${id}/bindings`, {
		key: world.adminKey,
		body: { role_name: "app_reader", app_id: app.appId },
	});
	if (status !== 201) throw new Error(`no role given: ${JSON.stringify(body)}`);
	return { id, binding: body.id };
}

const renaming =
	(base: string): Prepare =>
	async (world) => {
		const id = await madeGroup(world);
		return { path: `${base}/${id}`, body: { name: newName() }, thing: groupThing(id) };
	};

const deletion =
	(base: string): Prepare =>
	async (world) => {
		const id = await madeGroup(world);
		return { path: `${base}/${id}`, thing: groupThing(id) };
	};

const listing =
	(base: string): Prepare =>
	async (world) => {
		const { id } = await groupWithMember(world);
		return { path: `${base}/${id}/members`, thing: groupThing(id) };
	};

const addition =
	(base: string): Prepare =>
	async (world) => {
		const id = await madeGroup(world);
		const { email } = await oneMember(world);
		return { path: `${base}/${id}/members`, body: { email }, thing: groupThing(id) };
	};

const removal =
	(base: string): Prepare =>
	async (world) => {
		const { id, user_id } = await groupWithMember(world);
		return { path: `${base}/${id}/members/${user_id}`, thing: groupThing(id) };
	};

const OWN = "/organization/groups";
const SCRIPTS = "/private/groups";

export const GROUP_REQUESTS: Readonly<Record<string, Prepare>> = {
	[`GET ${OWN}`]: async (world) => ({ path: OWN, query: { orgId: world.orgId } }),
	[`POST ${OWN}`]: async (world) => {
		await madeGroup(world);
		return { path: OWN, body: { orgId: world.orgId, name: newName() } };
	},
	[`PUT ${OWN}/:id`]: renaming(OWN),
	[`DELETE ${OWN}/:id`]: deletion(OWN),
	[`GET ${OWN}/:id/members`]: listing(OWN),
	[`POST ${OWN}/:id/members`]: addition(OWN),
	[`DELETE ${OWN}/:id/members/:user_id`]: removal(OWN),
	[`POST ${OWN}/:id/bindings`]: async (world, app) => {
		const id = await madeGroup(world);
		const body = { role_name: "app_reader", app_id: app.appId };
		return { path: `${OWN}/${id}/bindings`, body, thing: groupThing(id) };
	},
	[`DELETE ${OWN}/:id/bindings/:binding_id`]: async (world, app) => {
		const { id, binding } = await groupWithRole(world, app);
		return { path: `${OWN}/${id}/bindings/${binding}`, thing: groupThing(id) };
	},
	[`GET ${SCRIPTS}/:id`]: async (world) => ({ path: `${SCRIPTS}/${world.orgId}` }),
	[`POST ${SCRIPTS}/:id`]: async (world) => {
		await madeGroup(world);
		return { path: `${SCRIPTS}/${world.orgId}`, body: { name: newName() } };
	},
	[`PUT ${SCRIPTS}/:id`]: renaming(SCRIPTS),
	[`DELETE ${SCRIPTS}/:id`]: deletion(SCRIPTS),
	[`GET ${SCRIPTS}/:id/members`]: listing(SCRIPTS),
	[`POST ${SCRIPTS}/:id/members`]: addition(SCRIPTS),
	[`DELETE ${SCRIPTS}/:id/members/:user_id`]: removal(SCRIPTS),
};
