/**
 * Protected channels, checked by the offers to a device. Each refusal stands beside the same
 * request by a permitted caller.
 */
import { beforeEach, describe, expect, test } from "vitest";
import { readThenWrite } from "../support/interleave";
import { signIn } from "../support/sessions";
import {
	type Answer,
	createTestKey,
	createWorld,
	setTestChannel,
	uploadTestBundle,
	type World,
} from "../support/world";
import {
	admin,
	app,
	approver,
	type Caller,
	channelId,
	keyed,
	needs,
	nextId,
	other,
	PROTECTED,
	prepareChannel,
	proposals,
	protect,
	send,
	served,
	set,
	shown,
	uploader,
	world,
} from "./protected-scene";

beforeEach(prepareChannel);

describe("a protected channel", () => {
	test("is changed only by its promoters, by every way to promote", async () => {
		await protect({ promoters: ["app_admin", uploader.id] });
		expect(await shown()).toMatchObject({ protected: true, promoters: [uploader.id, "app_admin"].sort() });
		const stranger = keyed((await createTestKey(world, "app_developer", app)).text);
		const ways = (by: Caller): readonly (() => Promise<Answer>)[] => [
			() => set(by, { version: "1.2.0" }),
			() => send("PUT", "/bundle", by, { version_id: nextId, channel_id: channelId }),
			() => send("POST", "/channel/rollback", by, { channel: "production" }),
			() => set(by, { rolloutVersion: "1.2.0", rolloutPercentage: 50 }),
			() =>
				world.request("PATCH", "/compat/capgo-cli/rest/v1/channels", {
					...by,
					query: { app_id: `eq.${app.appId}`, name: "eq.production" },
					body: { app_id: app.appId, name: "production", version: nextId },
				}),
		];
		for (const way of ways(stranger)) expect(await way()).toMatchObject(PROTECTED);
		expect(await served()).toBe("1.1.0");
		for (const way of ways(keyed(uploader.text))) expect((await way()).status).toBe(200);
		expect(await served()).toBe("1.2.0");
	});

	test("keeps its platforms, and refuses a caller who would take one", async () => {
		await protect();
		const developer = keyed((await createTestKey(world, "app_developer", app)).text);
		const answer = await set(developer, { channel: "other", version: "1.0.1", public: true });
		expect(answer).toMatchObject(needs("app.update_user_roles"));
		expect(answer.body.message).toContain("protected channel");
		expect(await served()).toBe("1.1.0");
	});

	test("is protected, unprotected and configured only by administrators", async () => {
		const developer = keyed((await createTestKey(world, "app_developer", app)).text);
		expect(await set(developer, { protected: true })).toMatchObject(needs("app.update_user_roles"));
		expect((await set(developer, { ios: false })).status, "before").toBe(200);
		await protect({ promoters: ["app_developer"] });
		for (const body of [{ protected: false }, { promoters: ["app_uploader"] }, { public: false }, { android: false }]) {
			expect(await set(developer, body), JSON.stringify(body)).toMatchObject(needs("app.update_user_roles"));
		}
		expect((await set(developer, { version: "1.2.0" })).status, "a promoter promotes").toBe(200);
		expect((await set(admin(), { protected: false })).status).toBe(200);
		expect(await shown()).toMatchObject({ protected: false, promoters: [], requires_approval: false });
		expect((await set(developer, { ios: true })).status, "after").toBe(200);
	});

	test("needs a person's recent sign-in before its protection is loosened", async () => {
		await protect();
		world.clock.nowMs += 20 * 60_000;
		const old = { headers: approver.headers };
		for (const body of [{ protected: false }, { promoters: ["app_uploader"] }, { public: false }]) {
			expect(await set(old, body)).toMatchObject({ status: 403, body: { error: "recent_sign_in_required" } });
		}
		expect((await set({ headers: (await signIn(world, other.email)).headers }, { protected: false })).status).toBe(200);
	});

	test("needs a person's recent sign-in to publish or roll back, and never to slow a rollout down", async () => {
		await protect({ promoters: ["org_admin", "app_admin", "org_super_admin"] });
		expect(
			(await set(admin(), { rolloutVersion: "1.2.0", rolloutPercentageBps: 100, rolloutEnabled: true })).status,
		).toBe(200);
		world.clock.nowMs += 20 * 60_000;
		const old = { headers: approver.headers };
		const ways = (by: Caller) => [
			() => set(by, { rolloutPercentageBps: 5000 }),
			() => set(by, { version: "1.2.0" }),
			() => send("PUT", "/bundle", by, { version_id: nextId, channel_id: channelId }),
			() => send("POST", "/channel/rollback", by, { channel: "production", version: "1.0.1" }),
		];
		const RECENT = { status: 403, body: { error: "recent_sign_in_required" } };
		for (const way of ways(old)) expect(await way()).toMatchObject(RECENT);
		expect((await set(old, { rolloutPaused: true })).status, "pause").toBe(200);
		expect((await shown()).version.name).toBe("1.1.0");
		const recent = await signIn(world, other.email);
		for (const way of ways({ headers: recent.headers })) expect((await way()).status).toBe(200);
		expect(await served()).toBe("1.0.1");
		expect((await set(admin(), { version: "1.1.0" })).status, "a key").toBe(200);
		await set(admin(), { protected: false });
		world.clock.nowMs += 20 * 60_000;
		expect((await set(old, { version: "1.2.0" })).status, "not protected").toBe(200);
	});

	test("cannot be deleted or lose platforms without an administrator", async () => {
		await protect();
		const developer = keyed((await createTestKey(world, "app_developer", app)).text);
		const remove = () =>
			world.request("DELETE", "/channel", { ...admin(), query: { app_id: app.appId, channel: "production" } });
		expect(await remove()).toMatchObject(PROTECTED);
		await setTestChannel(world, app, "other", { version: "1.2.0" });
		for (const channel of ["other", "brand-new"]) {
			const taken = await send("POST", "/channel", developer, { channel, public: true });
			expect(taken, channel).toMatchObject(needs("app.update_user_roles"));
		}
		expect(await served()).toBe("1.1.0");
		expect((await send("POST", "/channel", admin(), { channel: "other", public: true })).status).toBe(200);
		expect(await served()).toBe("1.2.0");
		expect((await set(admin(), { protected: false })).status).toBe(200);
		expect((await remove()).status).toBe(200);
	});

	test("refuses requests that were decided before it was protected", async () => {
		const developer = keyed((await createTestKey(world, "app_developer", app)).text);
		await setTestChannel(world, app, "other", { version: "1.2.0" });
		const requests: readonly ((via: Pick<World, "request">) => Promise<Answer>)[] = [
			(via) => set(developer, { version: "1.2.0" }, via),
			(via) => send("PUT", "/bundle", developer, { version_id: nextId, channel_id: channelId }, via),
			(via) => send("POST", "/channel/rollback", developer, { channel: "production" }, via),
			(via) => send("POST", "/channel", developer, { channel: "other", public: true }, via),
			(via) => via.request("DELETE", "/channel", { ...admin(), query: { app_id: app.appId, channel: "production" } }),
		];
		for (const request of requests) {
			const answer = await readThenWrite(world, request, () => set(admin(), { protected: true }));
			expect(answer).toMatchObject({ status: 409, body: { error: "channel_changed" } });
			expect(await served()).toBe("1.1.0");
			await set(admin(), { protected: false });
		}
	});

	test("ends the access of the preview key that created it", async () => {
		const ci = await createTestKey(world, "app_preview", app);
		await send("POST", "/channel", keyed(ci.text), { channel: "pr-1" });
		await uploadTestBundle(world, app, "1.3.0-pr.1", ci.text);
		const answer = await send("POST", "/channel", admin(), {
			channel: "pr-1",
			protected: true,
			requires_approval: true,
		});
		expect(answer.body.preview_access_ended).toEqual([{ id: ci.id, name: "app_preview" }]);
		expect((await send("POST", "/channel", keyed(ci.text), { channel: "pr-1", version: "1.3.0-pr.1" })).status).toBe(
			403,
		);
		expect(await proposals()).toEqual([]);
	});

	test("refuses unknown promoters, and rules without protection", async () => {
		const nobody = await set(admin(), { protected: true, promoters: [crypto.randomUUID()] });
		expect(nobody).toMatchObject({ status: 400, body: { moreInfo: { issues: [{ path: "promoters" }] } } });
		const elsewhere = await createWorld();
		const foreign = await createTestKey(elsewhere, "org_admin");
		expect((await set(admin(), { protected: true, promoters: [foreign.id] })).status).toBe(400);
		expect((await set(admin(), { promoters: ["app_admin"] })).status).toBe(400);
		expect((await set(admin(), { protected: true, promoters: ["app_preview"] })).status).toBe(400);
		expect((await set(admin(), { protected: true, promoters: [other.uid] })).status, "a person").toBe(200);
	});
});
