/**
 * Proposals that wait for the caller, in the answers that the sidebar, the home of an app and the
 * list of apps ask for anyway. They say the same as `can_approve` of GET /proposal, and cost no
 * round trip.
 */
import { beforeEach, describe, expect, test } from "vitest";
import { DAY_MS } from "../../../src/domain/time";
import { signIn } from "../support/sessions";
import { createTestKey, createTestMember, createWorld } from "../support/world";
import {
	admin,
	app,
	approver,
	type Caller,
	decide,
	keyed,
	other,
	prepareChannel,
	proposals,
	propose,
	protect,
	uploader,
	world,
} from "./protected-scene";

const shown = async (by: Caller) => {
	const one = await world.request("GET", `/app/${app.appId}`, by);
	expect(one.status).toBe(200);
	const list = await world.request("GET", "/statistics/apps", { ...by, query: { org_id: world.orgId } });
	const listed = list.body.find(({ app_id }: { app_id: string }) => app_id === app.appId);
	expect(listed.approvals).toEqual(one.body.approvals);
	return one.body.approvals;
};

beforeEach(async () => {
	await prepareChannel();
	await protect({ requires_approval: true });
});

describe("a waiting proposal", () => {
	test("is shown to those who may approve it, and to nobody else", async () => {
		const id = await propose();
		const reader = await createTestKey(world, "app_reader", app);
		const member = await createTestMember(world, "org_member");
		const callers: Record<string, Caller> = {
			approver: { headers: approver.headers },
			proposer: keyed(uploader.text),
			"the proposer's administrator key": admin(),
			"a key of the approver that promoters does not name": keyed(other.key.text),
			reader: keyed(reader.text),
			member: { headers: (await signIn(world, member.email)).headers },
		};
		for (const [name, by] of Object.entries(callers)) {
			const expected = (await proposals({}, by))
				.filter(({ can_approve }: { can_approve: boolean }) => can_approve)
				.map(() => ({ id, channel: "production", version: "1.2.0" }));
			const seen = name === "member" ? [] : await shown(by);
			expect(seen, name).toEqual(name === "member" ? [] : expected);
			expect(seen.length, name).toBe(name === "approver" ? 1 : 0);
		}
	});

	test.each([
		["approved", async (id: string) => void (await decide("approve", { headers: approver.headers }, id))],
		["rejected", async (id: string) => void (await decide("reject", keyed(uploader.text), id))],
		[
			"expired",
			async () => {
				world.clock.nowMs += 7 * DAY_MS;
			},
		],
	])("is shown no more when it is %s", async (state, end) => {
		const id = await propose();
		expect(await shown({ headers: approver.headers })).toHaveLength(1);
		await end(id);
		// The session has ended after the days.
		const { headers } = state === "expired" ? await signIn(world, other.email) : approver;
		expect(await shown({ headers })).toEqual([]);
	});

	test("is not shown to another organization, and costs no round trip", async () => {
		const before = await world.request("GET", `/app/${app.appId}`, { headers: approver.headers });
		await propose();
		const after = await world.request("GET", `/app/${app.appId}`, { headers: approver.headers });
		expect(after.body.approvals).toHaveLength(1);
		expect(after.trips).toBeLessThanOrEqual(before.trips ?? 0);
		const stranger = await createWorld();
		expect((await world.request("GET", `/app/${app.appId}`, { key: stranger.adminKey })).status).toBe(404);
	});
});
