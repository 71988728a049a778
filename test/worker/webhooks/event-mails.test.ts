/**
 * Mails about events that a person chose: to that person alone, and only while the person may read
 * the audit log.
 */
import { expect, test } from "vitest";
import { wakeDueWebhooks } from "../../../src/queue/webhook-wake";
import { createTestKey, createTestMember } from "../support/scene";
import { signIn } from "../support/sessions";
import { createScene } from "../support/webhook-scene";

test("reach the person who chose them, until the role ends", async () => {
	const { world, deliver } = await createScene();
	const member = await createTestMember(world, "org_admin");
	const other = await createTestMember(world, "org_member");
	const { headers: session } = await signIn(world, member.email);
	const choose = (headers: Readonly<Record<string, string>>, events: string[]) =>
		world.request("PUT", "/account/mails", { headers, body: { org_id: world.orgId, events } });
	expect((await choose(session, ["key.created"])).status).toBe(200);
	expect((await choose((await signIn(world, other.email)).headers, ["key.created"])).status).toBe(404);
	const list = await world.request("GET", "/account/mails", { headers: session });
	expect(list.body).toEqual({
		available: true,
		organizations: [{ org_id: world.orgId, name: "Test", events: ["key.created"] }],
	});
	const mails = () => world.deps.printed.filter((line) => line.includes("You chose mails"));
	await createTestKey(world, "org_member");
	await deliver();
	expect(mails()).toHaveLength(1);
	expect(mails()[0]).toMatch(new RegExp(`^Mail to ${member.email}: admin created API key org_member\\.`));

	// No webhook of the organization, so its administrators neither see nor change the choice.
	const query = { orgId: world.orgId };
	expect((await world.request("GET", "/webhook", { key: world.adminKey, query })).body).toEqual([]);

	const body = { orgId: world.orgId, email: member.email, role: "org_member" };
	expect((await world.request("PUT", "/organization/members", { key: world.adminKey, body })).status).toBe(200);
	await createTestKey(world, "org_member");
	await wakeDueWebhooks(world.deps);
	await deliver();
	expect(mails()).toHaveLength(1);
});

test("and webhooks take a list of known events, and answer a longer one with one sentence", async () => {
	const { world } = await createScene();
	const member = await createTestMember(world, "org_admin");
	const { headers } = await signIn(world, member.email);
	const answers = (events: unknown) => [
		world.request("PUT", "/account/mails", { headers, body: { org_id: world.orgId, events } }),
		world.request("POST", "/webhook", {
			key: world.adminKey,
			body: { orgId: world.orgId, description: "Log", format: "standard", url: "https://hooks.example.com/", events },
		}),
	];
	const many = Array.from({ length: 10_000 }, () => "no such event");
	for (const { status, body } of await Promise.all(answers(many))) {
		expect(status).toBe(400);
		expect(body.moreInfo.issues).toMatchObject([{ path: "events", message: "names each event once" }]);
	}
	for (const { body } of await Promise.all(answers(["key.created", "no.event", 7]))) {
		const paths = body.moreInfo.issues.map(({ path }: { path: string }) => path);
		expect(paths).toEqual(["events.1", "events.2"]);
		expect(body.moreInfo.issues[0].message).toContain("must be one of channel.promoted, ");
	}
	for (const { body } of await Promise.all(answers("key.created"))) {
		expect(body.moreInfo.issues).toMatchObject([{ path: "events" }]);
	}
	for (const { status } of await Promise.all(answers(["key.created"]))) expect([200, 201]).toContain(status);
});
