/**
 * An organization that invites one person, whose address is new in each test.
 */
import { createWorld, tokenOf, type World } from "./world";

export let world: World;
export let email: string;
export let counter = 0;

export async function prepareInvitation(): Promise<void> {
	world = await createWorld();
	email = `ada${++counter}@example.com`;
}

export const invite = (
	fields: Record<string, unknown> = {},
	key = world.adminKey,
	via: Pick<World, "request"> = world,
) =>
	via.request("POST", "/organization/members", {
		key,
		body: { orgId: world.orgId, email, role: "org_member", ...fields },
	});

export const accept = (token: string, fields: Record<string, unknown> = {}, via: Pick<World, "request"> = world) =>
	via.request("POST", "/invitation/accept", { body: { token, ...fields } });
export const show = (token: string) => world.request("POST", "/invitation/show", { body: { token } });

export const membersOf = async (orgId = world.orgId, key = world.adminKey) =>
	(await world.request("GET", "/organization/members", { key, query: { orgId } })).body;

export async function invitedToken(fields: Record<string, unknown> = {}, key = world.adminKey): Promise<string> {
	const { status, body } = await invite(fields, key);
	if (status !== 201) throw new Error(JSON.stringify(body));
	return tokenOf(body.link);
}
export const NOT_FOUND = { status: 404, body: { error: "invitation_not_found", moreInfo: {} } };
