/**
 * GET /channel/approvers names exactly those who could approve: compared with `can_approve` of the
 * proposal for each person, under every kind of promoter, and with the mails that they chose.
 */
import { beforeEach, describe, expect, test } from "vitest";
import { query } from "../../../src/db/client";
import { rows, run } from "../support/bytes";
import { bind } from "../support/people";
import { signIn, signInByPasskey } from "../support/sessions";
import { createTestKey, createTestMember, createWorld, type TestMember } from "../support/world";
import {
	admin,
	app,
	approver,
	channelId,
	keyed,
	other,
	prepareChannel,
	proposals,
	propose,
	protect,
	set,
	world,
} from "./protected-scene";

interface Approvers {
	readonly requires_approval: boolean;
	readonly count: number;
	readonly complete: boolean;
	readonly keys: number;
	readonly people: readonly {
		readonly id: string;
		readonly email: string;
		readonly has_passkey: boolean;
		readonly mailed: boolean;
	}[];
}

const ask = async (by = admin(), channel = "production") =>
	world.request("GET", "/channel/approvers", { ...by, query: { app_id: app.appId, channel } });
const asked = async (by = admin()): Promise<Approvers> => {
	const answer = await ask(by);
	expect(answer.status, JSON.stringify(answer.body)).toBe(200);
	return answer.body;
};

beforeEach(async () => {
	await prepareChannel();
	await protect({ requires_approval: true });
});

describe("GET /channel/approvers", () => {
	/** Members whose roles differ, with their session. */
	const cast = async () => {
		const roles = ["org_super_admin", "org_admin", "org_member"];
		const members = await Promise.all(roles.map((role) => createTestMember(world, role)));
		const [, , ofApp] = members as [TestMember, TestMember, TestMember];
		await bind({ user_id: ofApp.uid }, "app_admin", world.orgId, app.uuid);
		const developer = await createTestMember(world, "org_member");
		await bind({ user_id: developer.uid }, "app_developer", world.orgId, app.uuid);
		const reader = await createTestMember(world, "org_member");
		return [other, ...members, developer, reader];
	};

	test("names those for whom the proposal of the caller can be approved, and no other", async () => {
		const people = await cast();
		const [first, , , , developer] = people;
		if (first === undefined || developer === undefined) throw new Error("no cast");
		for (const promoters of [
			undefined,
			["app_developer"],
			["org_admin"],
			[developer.uid],
			[first.uid, "app_developer"],
		]) {
			await set(admin(), { protected: true, requires_approval: true, ...(promoters ? { promoters } : {}) });
			await propose(admin());
			const expected: string[] = [];
			for (const { email } of people) {
				const by = { headers: (await signIn(world, email)).headers };
				const [waiting] = await proposals({}, by).catch(() => []);
				if (waiting?.can_approve === true) expected.push(email);
			}
			const { people: named, count, complete } = await asked();
			expect(
				named.map(({ email }) => email),
				String(promoters),
			).toEqual(expected.sort());
			expect({ count, complete }).toEqual({ count: expected.length, complete: true });
			expect(expected.length, String(promoters)).toBeGreaterThan(0);
		}
	});

	test("says who has a passkey, and who gets a mail about proposals", async () => {
		expect((await asked()).people).toEqual([{ id: other.uid, email: other.email, has_passkey: true, mailed: false }]);
		const choose = (events: readonly string[]) =>
			world.request("PUT", "/account/mails", { headers: approver.headers, body: { org_id: world.orgId, events } });
		expect((await choose(["rollout.paused"])).status).toBe(200);
		expect((await asked()).people[0]?.mailed).toBe(false);
		expect((await choose(["proposal.created"])).status).toBe(200);
		expect((await asked()).people[0]?.mailed).toBe(true);
		const [{ email_verified_at_ms }] = (await rows(
			query.selectFrom("users").select("email_verified_at_ms").where("id", "=", other.uid),
		)) as [{ email_verified_at_ms: number | null }];
		expect(email_verified_at_ms).not.toBeNull();
	});

	test("leaves out the caller's own account, whose other session could approve nothing", async () => {
		const admins = await asked({ headers: approver.headers });
		expect(admins.people.map(({ email }) => email)).toEqual([world.adminEmail]);
		const passkey = await signInByPasskey(world, await signIn(world));
		expect((await asked({ headers: passkey.headers })).people.map(({ email }) => email)).toEqual([other.email]);
	});

	test("counts named keys of other accounts, and gives no name without app.read_audit", async () => {
		const key = await createTestKey(world, "app_developer", app);
		await set(admin(), { promoters: [key.id, other.uid, other.key.id] });
		expect(await asked()).toMatchObject({ keys: 1, count: 1 });
		const binding = { role_name: "channel_reader", scope_type: "channel", org_id: world.orgId };
		const reader = await createTestKey(world, "channel_reader", app, {
			bindings: [{ ...binding, app_id: app.uuid, channel_id: channelId }],
		});
		expect(await asked(keyed(reader.text))).toMatchObject({ count: 1, people: [] });
	});

	test.each(["app_reader", "app_uploader", "app_developer", "app_admin"])(
		"gives no name to a key with %s, which may not list the members",
		async (role) => {
			const key = await createTestKey(world, role, app);
			const members = await world.request("GET", "/organization/members", {
				...keyed(key.text),
				query: { orgId: world.orgId },
			});
			expect(members.status).toBe(403);
			const { count, people } = await asked(keyed(key.text));
			expect([count, people]).toEqual([1, []]);
		},
	);

	test("finds an approver behind many roles that have ended", async () => {
		const ended: TestMember[] = [];
		while (ended.length <= 20) ended.push(await createTestMember(world, "org_admin"));
		await run(
			query
				.updateTable("role_bindings")
				.set({ expires_at_ms: world.clock.nowMs - 1 })
				.where(
					"user_id",
					"in",
					ended.map(({ uid }) => uid),
				),
		);
		expect(await asked()).toMatchObject({ count: 1, complete: true, people: [{ id: other.uid }] });
	});

	test("knows no channel of another organization", async () => {
		const stranger = await createWorld();
		expect(await ask(keyed(stranger.adminKey))).toMatchObject({ status: 404, body: { error: "channel_not_found" } });
		expect(await ask(admin(), "nothing")).toMatchObject({ status: 404 });
	});
});
