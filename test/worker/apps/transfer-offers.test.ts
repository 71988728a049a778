/**
 * Offers of an app to another organization: who may make, see, accept and decline them, and how
 * they end. Each refusal stands beside a permitted request.
 */
import { beforeEach, describe, expect, test } from "vitest";
import { query } from "../../../src/db/client";
import { DAY_MS } from "../../../src/domain/time";
import { run } from "../support/bytes";
import { databaseText } from "../support/database-text";
import { readThenWrite } from "../support/interleave";
import { signIn } from "../support/sessions";
import { createTestApp, createTestKey, createTestMember, createWorld } from "../support/world";
import {
	accept,
	app,
	decline,
	giver,
	NOT_FOUND,
	offer,
	offers,
	ownerOf,
	prepareTransfer,
	receiver,
	withdraw,
} from "./transfer-scene";

beforeEach(prepareTransfer);

describe("an offered app", () => {
	test("can be accepted, declined or seen only by the receiving organization", async () => {
		const stranger = await createWorld();
		const reader = await createTestKey(receiver, "app_reader", await createTestApp(receiver));
		const expired = await createTestKey(receiver, "org_admin");
		await run(query.updateTable("api_keys").set({ expires_at_ms: 1 }).where("id", "=", expired.id));
		await offer();
		for (const world of [stranger, giver]) {
			if (world !== giver) expect(await accept(world)).toMatchObject(NOT_FOUND);
			if (world !== giver) expect(await decline(world)).toMatchObject(NOT_FOUND);
		}
		expect((await accept(giver)).status).toBe(404);
		expect((await accept(receiver, reader.text)).status).toBeGreaterThanOrEqual(403);
		expect(await accept(receiver, expired.text)).toMatchObject({ status: 401 });
		expect((await offers(stranger)).body).toEqual([]);
		expect(await ownerOf()).toBe(giver.orgId);
		expect(await accept(), "the control").toMatchObject({ status: 200 });
	});

	test("can be offered only by administrators of the organization who may delete the app", async () => {
		const stranger = await createWorld();
		for (const key of [
			(await createTestKey(giver, "app_admin", app)).text,
			(await createTestKey(giver, "org_member")).text,
			stranger.adminKey,
			receiver.adminKey,
		]) {
			expect((await offer({ key })).status).toBeGreaterThanOrEqual(403);
			expect((await withdraw(giver, key)).status).toBeGreaterThanOrEqual(403);
		}
		expect((await offers(receiver)).body).toEqual([]);
		expect((await offer({ key: (await createTestKey(giver, "org_admin")).text })).status, "the control").toBe(201);
	});

	test("cannot be accepted after its offerer was demoted, was removed, or lost the key of the offer", async () => {
		const members = (method: "PUT" | "DELETE", email: string) =>
			giver.request(method, "/organization/members", {
				key: giver.adminKey,
				...(method === "PUT"
					? { body: { orgId: giver.orgId, email, role: "org_member", keep_keys: true } }
					: { query: { orgId: giver.orgId, email } }),
			});
		const endings: Record<string, (made: { email: string; id: string }) => Promise<unknown>> = {
			demotion: ({ email }) => members("PUT", email),
			removal: ({ email }) => members("DELETE", email),
			"a role that went otherwise": ({ email }) =>
				run(
					query
						.deleteFrom("role_bindings")
						.where("user_id", "=", (users) => users.selectFrom("users").select("id").where("email", "=", email)),
				),
			"the key's end": ({ id }) => giver.request("DELETE", `/apikey/${id}`, { key: giver.adminKey }),
			"the key's expiry": ({ id }) => run(query.updateTable("api_keys").set({ expires_at_ms: 1 }).where("id", "=", id)),
			"the key's role": ({ id }) => run(query.deleteFrom("role_bindings").where("api_key_id", "=", id)),
		};
		for (const [name, end] of Object.entries(endings)) {
			const member = await createTestMember(giver, "org_admin");
			expect((await offer({ key: member.key.text })).status, name).toBe(201);
			expect((await accept(receiver, receiver.adminKey, { dry_run: true })).status, name).toBe(200);
			await end({ email: member.email, id: member.key.id });
			expect(await accept(receiver, receiver.adminKey, { dry_run: true }), name).toMatchObject(NOT_FOUND);
			expect(await accept(), name).toMatchObject(NOT_FOUND);
			expect((await offers(receiver)).body, name).toEqual([]);
		}
		expect(await ownerOf()).toBe(giver.orgId);
		const log = await giver.request("GET", "/organization/audit", {
			key: giver.adminKey,
			query: { orgId: giver.orgId, action: "app.transfer_withdraw" },
		});
		expect(log.body, "demotion and removal").toHaveLength(2);
		const keeper = await createTestMember(giver, "org_admin");
		const session = await signIn(giver, keeper.email);
		expect(
			(
				await giver.request("POST", "/app/transfer", {
					headers: session.headers,
					body: { app_id: app.appId, to_org: receiver.orgId },
				})
			).status,
		).toBe(201);
		await giver.request("DELETE", `/apikey/${keeper.key.id}`, { key: giver.adminKey });
		expect((await accept()).status, "an offer that a person made without a key").toBe(200);
	});

	test("is not accepted while its offerer is being demoted", async () => {
		const member = await createTestMember(giver, "org_admin");
		await offer({ key: member.key.text });
		const answer = await readThenWrite(
			receiver,
			(via) => accept(receiver, receiver.adminKey, {}, via),
			() =>
				giver.request("PUT", "/organization/members", {
					key: giver.adminKey,
					body: { orgId: giver.orgId, email: member.email, role: "org_member" },
				}),
		);
		expect(answer).toMatchObject(NOT_FOUND);
		expect(await ownerOf()).toBe(giver.orgId);
	});

	test("cannot be offered with a key whose account is no longer an administrator", async () => {
		const member = await createTestMember(giver, "org_admin");
		await giver.request("PUT", "/organization/members", {
			key: giver.adminKey,
			body: { orgId: giver.orgId, email: member.email, role: "org_member", keep_keys: true },
		});
		expect(await offer({ key: member.key.text })).toMatchObject({ status: 403, body: { error: "permission_denied" } });
		expect((await offers(receiver)).body).toEqual([]);
	});

	test("needs a recent sign-in from a person, except for a dry run", async () => {
		const session = await signIn(giver);
		giver.clock.nowMs += 20 * 60_000;
		const ask = (dry_run: boolean) =>
			giver.request("POST", "/app/transfer", {
				headers: session.headers,
				body: { app_id: app.appId, to_org: receiver.orgId, dry_run },
			});
		expect(await ask(false)).toMatchObject({ status: 403, body: { error: "recent_sign_in_required" } });
		expect(await ask(true)).toMatchObject({ status: 200 });
		expect((await offers(receiver)).body).toEqual([]);
	});

	test("expires after seven days, and can be withdrawn and declined", async () => {
		await offer();
		receiver.clock.nowMs += 7 * DAY_MS;
		expect(await accept()).toMatchObject(NOT_FOUND);
		expect((await offers(receiver)).body).toEqual([]);
		receiver.clock.nowMs -= 7 * DAY_MS;
		expect(await withdraw()).toMatchObject({ status: 200 });
		expect(await withdraw()).toMatchObject(NOT_FOUND);
		expect(await accept()).toMatchObject(NOT_FOUND);
		await offer();
		expect(await decline()).toMatchObject({ status: 200 });
		expect(await accept()).toMatchObject(NOT_FOUND);
		expect(await ownerOf()).toBe(giver.orgId);
	});

	test("cannot be offered to an unknown, deleted or its own organization, and a dry run changes nothing", async () => {
		expect(await offer({ to: crypto.randomUUID() })).toMatchObject({
			status: 404,
			body: { error: "organization_not_found" },
		});
		expect(await offer({ to: giver.orgId })).toMatchObject({ status: 400, body: { error: "invalid_request" } });
		await offer();
		const before = await databaseText();
		expect(await offer({ dry_run: true })).toMatchObject({ status: 200 });
		expect(await accept(receiver, receiver.adminKey, { dry_run: true })).toMatchObject({
			status: 200,
			body: { dry_run: true, receives: { channels: 1 } },
		});
		expect(await databaseText()).toBe(before);
	});

	test("is accepted only within the quotas of the receiver", async () => {
		const small = await createWorld({ config: { QUOTAS: "storage_bytes_per_organization=10" } });
		await offer({ to: small.orgId });
		expect(await accept(small)).toMatchObject({
			status: 409,
			body: { error: "quota_exceeded", moreInfo: { quota: "storage_bytes_per_organization", used: 0 } },
		});
		const full = await createWorld({ config: { QUOTAS: "apps_per_organization=1" } });
		await createTestApp(full);
		await offer({ to: full.orgId });
		expect(await accept(full)).toMatchObject({ body: { moreInfo: { quota: "apps_per_organization" } } });
		expect(await ownerOf()).toBe(giver.orgId);
	});
});
