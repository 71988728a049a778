/** Actions of the tests about members, in the world of the running test. */
import { query } from "../../../src/db/client";
import { DAY_MS } from "../../../src/domain/time";
import { rows, run } from "./bytes";
import { invitedToken } from "./people";
import { createTestMember, NOW_MS, type TestMember, type World } from "./world";

const PATH = "/organization/members";

/** @param current the world of the running test */
export function memberActions(current: () => World) {
	const list = async (key = current().adminKey, orgId = current().orgId) =>
		(await current().request("GET", PATH, { key, query: { orgId } })).body;
	const setRole = (email: string, role: string, key = current().adminKey, via: Pick<World, "request"> = current()) =>
		via.request("PUT", PATH, { key, body: { orgId: current().orgId, email, role } });
	const remove = (
		email: string,
		key = current().adminKey,
		fields: Record<string, string> = {},
		via: Pick<World, "request"> = current(),
		orgId = current().orgId,
	) => via.request("DELETE", PATH, { key, query: { orgId, email, ...fields } });
	const invite = (email: string, role: string, key = current().adminKey) => invitedToken(current(), email, role, key);
	/** True if the key can see the organization. */
	const works = async (key: string, orgId = current().orgId) =>
		(await current().request("GET", "/organization", { key, query: { orgId } })).status === 200;
	const auditOf = (...actions: string[]) =>
		rows(query.selectFrom("audit_log").selectAll().where("action", "in", actions).orderBy("id"));
	/** Entries of the organization's log, the oldest first. */
	const auditHere = async (...actions: string[]) =>
		(await auditOf(...actions)).filter(({ org_id }) => org_id === current().orgId);
	const roleOf = async (email: string, key?: string) =>
		(await list(key)).find((each: { email: string }) => each.email === email)?.role;
	/** Members whose invitations are pending. */
	const invitations = async () => (await list()).filter((each: { is_tmp: boolean }) => each.is_tmp);

	/** Another key of the member's account, created with the member's key. */
	async function keyOf(member: TestMember, name: string, role: string, by = member.key.text): Promise<string> {
		// Keys are listed oldest first.
		current().clock.nowMs += 1;
		const { body, status } = await current().request("POST", "/apikey", {
			key: by,
			body: {
				name,
				hashed: false,
				expires_at: new Date(NOW_MS + DAY_MS).toISOString(),
				bindings: [{ role_name: role, scope_type: "org", org_id: current().orgId }],
			},
		});
		if (status !== 201) throw new Error(JSON.stringify(body));
		return body.key;
	}

	/** Gives the member's first key another role, directly in the database. */
	const strengthen = (member: TestMember, role: string) =>
		run(query.updateTable("role_bindings").set({ role_name: role }).where("api_key_id", "=", member.key.id));

	/** Gives the key the permission to create organizations, directly in the database. */
	const letCreate = (keyId: string) =>
		run(query.updateTable("api_keys").set({ global_permissions: '["org.create"]' }).where("id", "=", keyId));

	/** An owner until tomorrow, who does not count as the last owner. */
	async function passingOwner(): Promise<TestMember> {
		const member = await createTestMember(current(), "org_super_admin");
		await run(
			query
				.updateTable("role_bindings")
				.set({ expires_at_ms: NOW_MS + DAY_MS })
				.where("user_id", "=", member.uid),
		);
		return member;
	}
	return {
		list,
		setRole,
		remove,
		invite,
		invitations,
		works,
		auditOf,
		auditHere,
		roleOf,
		keyOf,
		strengthen,
		letCreate,
		passingOwner,
	};
}
