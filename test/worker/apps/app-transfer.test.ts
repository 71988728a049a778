/**
 * Transfer of an app to another organization: both must agree, and the batch that moves the app
 * ends the rights of the giving organization's keys and people. Devices notice nothing, and the
 * history moves along.
 */
import { beforeEach, describe, expect, test } from "vitest";
import { query } from "../../../src/db/client";
import { DAY_MS } from "../../../src/domain/time";
import { purgeOrganizations } from "../../../src/features/organizations/purge";
import { putBytes, register, rows, tusCreate, zipName } from "../support/bytes";
import { readThenWrite } from "../support/interleave";
import { violations } from "../support/invariants";
import { createSigner, type Signer } from "../support/signing";
import { createTestKey, createWorld, setTestChannel, uploadTestBundle, type World } from "../support/world";
import { testBundle } from "../support/zip";
import {
	accept,
	app,
	check,
	giver,
	NOT_FOUND,
	offer,
	offers,
	ownerOf,
	prepareTransfer,
	receiver,
	removeGiver,
	show,
	withdraw,
} from "./transfer-scene";

beforeEach(prepareTransfer);

describe("an offered app", () => {
	test("loses promoters that are keys or people, and pending proposals", async () => {
		await uploadTestBundle(giver, app, "1.1.0");
		const key = await createTestKey(giver, "app_uploader", app);
		const protect = (channel: string, promoters: readonly string[], version = "1.0.1") =>
			giver.request("POST", "/channel", {
				key: giver.adminKey,
				body: { app_id: app.appId, channel, version, protected: true, promoters },
			});
		await protect("beta", [key.id, giver.userId]);
		await giver.request("POST", "/channel", {
			key: giver.adminKey,
			body: { app_id: app.appId, channel: "production", protected: true, requires_approval: true },
		});
		await giver.request("POST", "/channel", {
			key: giver.adminKey,
			body: { app_id: app.appId, channel: "production", promoters: ["app_developer", key.id] },
		});
		const proposed = await giver.request("POST", "/channel", {
			key: key.text,
			body: { app_id: app.appId, channel: "production", version: "1.1.0" },
		});
		expect(proposed.status).toBe(202);
		await offer();
		expect((await accept()).status).toBe(200);
		const shown = async (channel: string) =>
			(
				await receiver.request("GET", "/channel", {
					key: receiver.adminKey,
					query: { app_id: app.appId, channel },
				})
			).body;
		expect(await shown("production")).toMatchObject({ protected: true, promoters: ["app_developer"] });
		const { promoters } = await shown("beta");
		expect(promoters).toContain("org_admin");
		expect(promoters).not.toContain(key.id);
		expect(promoters).not.toContain(giver.userId);
		const list = { key: receiver.adminKey, query: { app_id: app.appId } };
		expect((await receiver.request("GET", "/proposal", list)).body).toMatchObject([{ state: "withdrawn" }]);
	});

	test("moves with all its contents when the other organization accepts, and its devices notice nothing", async () => {
		expect((await check()).body).toMatchObject({ version: "1.0.1" });
		expect(await offer()).toMatchObject({ status: 201, body: { dry_run: false, to_org: receiver.orgId }, trips: 2 });
		expect((await show(receiver)).status, "before it is accepted").toBe(404);
		expect((await offers(receiver)).body).toMatchObject([
			{ id: app.uuid, app_id: app.appId, direction: "incoming", from_org: giver.orgId, offered_by: null },
		]);
		expect((await offers(giver)).body).toMatchObject([
			{ direction: "outgoing", to_org: receiver.orgId, offered_by: "admin" },
		]);
		expect(await accept()).toMatchObject({
			status: 200,
			body: { id: app.uuid, receives: { channels: 1, bundles: 1, bundle_bytes: testBundle("1.0.1").length } },
			trips: 2,
		});
		expect((await show(giver)).status).toBe(404);
		expect(await show(receiver)).toMatchObject({ status: 200, body: { id: app.uuid, owner_org: receiver.orgId } });
		for (const path of ["/channel", "/bundle"]) {
			const list = await receiver.request("GET", path, { key: receiver.adminKey, query: { app_id: app.appId } });
			expect(list.body, path).toHaveLength(1);
		}
		expect((await check()).body).toMatchObject({ version: "1.0.1" });
		expect([(await offers(giver)).body, (await offers(receiver)).body]).toEqual([[], []]);
		const usage = await receiver.request("GET", "/organization/usage", {
			key: receiver.adminKey,
			query: { orgId: receiver.orgId },
		});
		expect(usage.body.apps).toMatchObject([{ id: app.uuid, storage_bytes: testBundle("1.0.1").length }]);
		expect(await violations(app.uuid)).toEqual([]);
	});

	test("keeps its history, and both organizations' logs record the transfer", async () => {
		await offer();
		await accept();
		const actions = async (world: World, path: string, parameters = {}) =>
			(
				(await world.request("GET", path, { key: world.adminKey, query: parameters })).body as {
					action: string;
					ip_address: string | null;
				}[]
			).map(({ action }) => action);
		expect(await actions(receiver, `/app/${app.appId}/audit`)).toEqual(
			expect.arrayContaining(["app.transfer", "channel.create", "bundle.upload", "app.create"]),
		);
		expect(await actions(giver, "/organization/audit", { orgId: giver.orgId })).toEqual(
			expect.arrayContaining(["app.transfer", "app.transfer_offer", "channel.create"]),
		);
		expect(await actions(receiver, "/organization/audit", { orgId: receiver.orgId })).toContain("app.transfer");
		// The history stays after the permanent removal of the giving organization.
		await removeGiver();
		expect(await actions(receiver, `/app/${app.appId}/audit`)).toEqual(expect.arrayContaining(["app.create"]));
		expect(await ownerOf()).toBe(receiver.orgId);
	});

	test("brings no IP address of people of the giving organization, before and after that one is removed", async () => {
		const work = (world: World, address: string) =>
			world.request("POST", "/channel", {
				key: world.adminKey,
				headers: { "cf-connecting-ip": address },
				body: { app_id: app.appId, channel: `from-${address}` },
			});
		expect((await work(giver, "198.51.100.9")).status).toBe(201);
		const addresses = async (world: World, path: string, parameters: Record<string, string>) => {
			const { body } = await world.request("GET", path, { key: world.adminKey, query: parameters });
			return (body as { ip_address: string | null }[]).map(({ ip_address }) => ip_address);
		};
		const ofApp = (world: World) => addresses(world, `/app/${app.appId}/audit`, { action: "channel.create" });
		expect(await ofApp(giver), "the control").toContain("198.51.100.9");
		await offer();
		await accept();
		expect((await work(receiver, "203.0.113.5")).status).toBe(201);
		expect(await ofApp(receiver)).toEqual(["203.0.113.5", null, null]);
		const own = { orgId: giver.orgId, action: "channel.create" };
		expect(await addresses(giver, "/organization/audit", own), "its own log").toContain("198.51.100.9");
		await removeGiver();
		expect(await ofApp(receiver)).toEqual(["203.0.113.5", null, null]);
		const moved = { orgId: receiver.orgId, action: "channel.create" };
		expect(await addresses(receiver, "/organization/audit", moved)).toEqual(["203.0.113.5", null, null]);
	});

	test("has its history when it is restored after the removal of the giving organization", async () => {
		await offer();
		await accept();
		giver.clock.nowMs += 25 * DAY_MS;
		await giver.request("DELETE", "/organization", { key: giver.adminKey, query: { orgId: giver.orgId } });
		receiver.clock.nowMs = giver.clock.nowMs + 25 * DAY_MS;
		await receiver.request("DELETE", `/app/${app.appId}`, { key: receiver.adminKey });
		giver.clock.nowMs += 31 * DAY_MS;
		receiver.clock.nowMs = giver.clock.nowMs;
		await purgeOrganizations(giver.deps);
		expect(await rows(query.selectFrom("organizations").select("id").where("id", "=", giver.orgId))).toEqual([]);
		const restored = await receiver.request("POST", "/app/restore", {
			key: receiver.adminKey,
			body: { app_id: app.appId },
		});
		expect(restored.status).toBe(200);
		const log = await receiver.request("GET", `/app/${app.appId}/audit`, { key: receiver.adminKey });
		expect((log.body as { action: string }[]).map(({ action }) => action)).toEqual(
			expect.arrayContaining(["app.restore", "channel.create", "bundle.upload", "app.create"]),
		);
	});

	test("names the channels with bundles that no key of a receiver with the signing policy verified", async () => {
		const [own, foreign] = [await createSigner(), await createSigner()];
		const sendSigned = async (version: string, signer: Signer) => {
			await giver.request("POST", "/organization/signing_key", {
				key: giver.adminKey,
				body: { orgId: giver.orgId, name: version, public_key: signer.publicKey },
			});
			const { bytes, fields } = await signer.encrypt(testBundle(version));
			const registered = await register(giver, app, version, giver.adminKey, fields);
			expect((await putBytes(giver, registered.body.upload_url, bytes)).status).toBe(200);
			await setTestChannel(giver, app, `by-${version}`, { version });
		};
		await sendSigned("2.0.0", own);
		await sendSigned("3.0.0", foreign);
		const inReceiver = (path: string, body: object) =>
			receiver.request("POST", path, { key: receiver.adminKey, body: { orgId: receiver.orgId, ...body } });
		await inReceiver("/organization/signing_key", { name: "ours", public_key: own.publicKey });
		await offer();
		const dryRun = () => accept(receiver, receiver.adminKey, { dry_run: true });
		expect((await dryRun()).body, "where none are required").toMatchObject({
			unsigned_channels: [],
			unsigned_channel_count: 0,
		});
		expect((await inReceiver("/organization", { require_signed_bundles: true })).status).toBe(200);
		const named = {
			unsigned_channels: [
				{ app_id: app.appId, channel: "by-3.0.0", version: "3.0.0" },
				{ app_id: app.appId, channel: "production", version: "1.0.1" },
			],
			unsigned_channel_count: 2,
		};
		expect((await dryRun()).body).toMatchObject(named);
		expect(await accept()).toMatchObject({ status: 200, body: named, trips: 2 });
	});

	test("grants nothing to keys, people and links of the giving organization any more", async () => {
		const key = await createTestKey(giver, "app_admin", app);
		const preview = await createTestKey(giver, "app_preview", app);
		await giver.request("POST", "/channel", { key: preview.text, body: { app_id: app.appId, channel: "pr-1" } });
		const pending = await register(giver, app, "2.0.0", key.text);
		const dry = await offer({ dry_run: true });
		expect(dry).toMatchObject({ status: 200, body: { dry_run: true, ends: { binding_count: 3 } } });
		expect((dry.body.ends.bindings as { holder_id: string }[]).map(({ holder_id }) => holder_id)).toEqual(
			expect.arrayContaining([key.id, preview.id]),
		);
		await offer();
		await accept();
		for (const text of [key.text, preview.text, giver.adminKey]) {
			expect((await show(giver, text)).status).toBe(404);
			expect((await register(giver, app, "3.0.0", text)).status).toBe(404);
			expect((await tusCreate(giver, text, zipName(giver, app, "2.0.0"), 10)).status).toBe(404);
		}
		expect(await putBytes(giver, pending.body.upload_url, testBundle("2.0.0"))).toMatchObject({ status: 404 });
		expect(await rows(query.selectFrom("role_bindings").select("id").where("app_id", "=", app.uuid))).toEqual([]);
		expect((await show(receiver)).status, "the control").toBe(200);
		const log = await giver.request("GET", "/organization/audit", {
			key: giver.adminKey,
			query: { orgId: giver.orgId, action: "binding.delete" },
		});
		expect(log.body).toHaveLength(3);
	});

	test("gives an accepting member the role of an app's creator", async () => {
		const member = await createTestKey(receiver, "org_member");
		await offer();
		expect((await accept(receiver, member.text)).status).toBe(200);
		expect((await register(receiver, app, "2.0.0", member.text)).status).toBe(201);
	});
});

describe("concurrent requests", () => {
	test("move the app once for 20 acceptances", async () => {
		await offer();
		const answers = await Promise.all(Array.from({ length: 20 }, () => accept()));
		expect(answers.filter(({ status }) => status === 200)).toHaveLength(1);
		expect(await ownerOf()).toBe(receiver.orgId);
	});

	test.each<[string, () => ReturnType<typeof offer>]>([
		["is withdrawn", () => withdraw()],
		["is made to somebody else", async () => offer({ to: (await createWorld()).orgId })],
		["ends with the app's deletion", () => giver.request("DELETE", `/app/${app.appId}`, { key: giver.adminKey })],
		[
			"ends with its organization's deletion",
			() => giver.request("DELETE", "/organization", { key: giver.adminKey, query: { orgId: giver.orgId } }),
		],
	])("move nothing if the offer %s while it is accepted", async (_, between) => {
		await offer();
		const answer = await readThenWrite(receiver, (racing) => accept(receiver, receiver.adminKey, {}, racing), between);
		expect(answer).toMatchObject(NOT_FOUND);
		expect(await ownerOf()).not.toBe(receiver.orgId);
	});

	test("refuse an upload of the giving organization during the move", async () => {
		const pending = await register(giver, app, "2.0.0", giver.adminKey);
		await offer();
		const answer = await readThenWrite(
			giver,
			(racing) => putBytes(racing, pending.body.upload_url, testBundle("2.0.0")),
			() => accept(),
		);
		expect(answer).toMatchObject({ status: 404 });
		expect(await rows(query.selectFrom("bundles").select("name").where("app_id", "=", app.uuid))).toEqual([
			{ name: "1.0.1" },
		]);
	});

	test("delete nothing by a deletion of the giving organization that began before the move", async () => {
		await offer();
		const answer = await readThenWrite(
			giver,
			(racing) => racing.request("DELETE", `/app/${app.appId}`, { key: giver.adminKey }),
			() => accept(),
		);
		expect(answer).toMatchObject({ status: 404 });
		expect((await show(receiver)).status).toBe(200);
	});
});
