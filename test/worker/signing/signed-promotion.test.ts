/**
 * Promotions and manifests while an organization requires signatures: no way to a device for a
 * bundle that no registered key verifies.
 */
import { beforeEach, describe, expect, test } from "vitest";
import { query } from "../../../src/db/client";
import { HOUR_MS } from "../../../src/domain/time";
import { stepRollouts } from "../../../src/features/rollouts/steps";
import { deltaName, locationOf, register, rows, tusCreate, tusPatch } from "../support/bytes";
import { readThenWrite } from "../support/interleave";
import * as scene from "../support/rollout-scene";
import { createSigner } from "../support/signing";
import {
	admin,
	app,
	bundle,
	ci,
	keyId,
	prepareSigning,
	promote,
	refused,
	registerKey,
	removeKey,
	requireSigned,
	send,
	sendSigned,
	served,
	signer,
	world,
} from "../support/signing-scene";
import { uploadTestBundle } from "../support/world";
import { testBundle } from "../support/zip";

beforeEach(() => prepareSigning());

const NOT_SIGNED = refused(409, "bundle_not_signed");

describe("a promotion while signatures are required", () => {
	const unsignedOf = async (...versions: string[]) => {
		for (const version of versions) await uploadTestBundle(world, app, version);
	};
	const put = async (version: string, channelId: number) =>
		world.request("PUT", "/bundle", {
			key: ci.text,
			body: { app_id: app.appId, version_id: (await bundle(version)).id, channel_id: channelId },
		});

	test("includes opening a channel to more devices: refused for an unsigned bundle, accepted for a signed one", async () => {
		await uploadTestBundle(world, app, "1.0.0");
		const closed = { allow_device_self_set: false, allow_emulator: false, ios: false };
		expect((await promote("1.0.0", "beta", closed)).status).toBeLessThan(300);
		expect((await sendSigned("1.1.0")).status).toBe(200);
		await promote("1.1.0", "signed", closed);
		await requireSigned();
		const open = (channel: string, fields: object) =>
			world.request("POST", "/channel", { key: ci.text, body: { app_id: app.appId, channel, ...fields } });
		const give = (channel: string) =>
			world.request("POST", "/device", {
				key: ci.text,
				body: { app_id: app.appId, device_id: crypto.randomUUID(), channel },
			});
		for (const fields of [{ ios: true }, { allow_device_self_set: true }, { allow_emulator: true }, { public: true }]) {
			expect(await open("beta", fields), JSON.stringify(fields)).toMatchObject(NOT_SIGNED);
			expect((await open("signed", fields)).status, JSON.stringify(fields)).toBe(200);
		}
		expect(await give("beta")).toMatchObject(NOT_SIGNED);
		expect((await give("signed")).status).toBe(200);
		expect((await open("beta", { android: false })).status, "narrower").toBe(200);
		expect(await served()).toBe("1.1.0");
	});

	test("is refused for an unsigned bundle on every path to devices; signed ones pass", async () => {
		await unsignedOf("1.0.0", "1.1.0");
		const { body: channel } = await setTestChannelOf("1.0.0");
		await promote("1.1.0");
		await requireSigned();
		await sendSigned("2.0.0");
		expect(await promote("1.0.0", "other")).toMatchObject(NOT_SIGNED);
		expect(await put("1.0.0", channel.id)).toMatchObject(NOT_SIGNED);
		const rollback = (version?: string) =>
			world.request("POST", "/channel/rollback", {
				key: ci.text,
				body: { app_id: app.appId, channel: "production", ...(version === undefined ? {} : { version }) },
			});
		expect(await rollback()).toMatchObject(NOT_SIGNED);
		const rollout = (version: string) =>
			world.request("POST", "/channel", {
				key: ci.text,
				body: {
					app_id: app.appId,
					channel: "production",
					rolloutVersion: version,
					rolloutPercentage: 10,
					rolloutEnabled: true,
				},
			});
		expect(await rollout("1.0.0")).toMatchObject(NOT_SIGNED);
		const override = async (version: string) =>
			admin("POST", "/device", {
				body: { app_id: app.appId, device_id: crypto.randomUUID(), version_id: (await bundle(version)).id },
			});
		expect(await override("1.0.0")).toMatchObject(NOT_SIGNED);
		const whatIf = (version: string) =>
			admin("POST", "/channel/what_if", { body: { app_id: app.appId, channel: "production", version } });
		expect(await whatIf("1.0.0")).toMatchObject(NOT_SIGNED);
		const stock = (version: string) =>
			world.request("POST", "/compat/capgo-cli/rest/v1/channels", {
				key: ci.text,
				body: { app_id: app.appId, channel: "production", version },
			});
		expect((await stock("1.0.0")).status).not.toBe(200);
		// The live bundle stays live until it is replaced, and settings of its channel can be changed.
		expect(await served()).toBe("1.1.0");
		expect(
			(
				await world.request("POST", "/channel", {
					key: ci.text,
					body: { app_id: app.appId, channel: "production", ios: false },
				})
			).status,
		).toBe(200);

		expect((await whatIf("2.0.0")).status).toBe(200);
		expect((await rollout("2.0.0")).status).toBe(200);
		expect((await override("2.0.0")).status).toBe(200);
		expect((await put("2.0.0", channel.id)).status).toBe(200);
		expect(await served()).toBe("2.0.0");
		await sendSigned("2.1.0");
		expect((await promote("2.1.0")).status).toBe(200);
		expect((await rollback()).status).toBe(200);
		expect(await served()).toBe("2.0.0");
		expect((await rollback("builtin")).status).toBe(200);
	});

	const setTestChannelOf = async (version: string) => {
		const answer = await promote(version, "production", { public: true });
		expect(answer.status, JSON.stringify(answer.body)).toBeLessThan(300);
		return { body: { id: answer.body.id as number } };
	};

	test("is refused for an unsigned rollout: its share cannot grow and it cannot become stable", async () => {
		await unsignedOf("1.0.0", "1.1.0");
		await setTestChannelOf("1.0.0");
		const change = (fields: object) =>
			world.request("POST", "/channel", {
				key: ci.text,
				body: { app_id: app.appId, channel: "production", ...fields },
			});
		await change({ rolloutVersion: "1.1.0", rolloutPercentage: 20, rolloutEnabled: true });
		await requireSigned();
		expect(await change({ rolloutPercentage: 30 })).toMatchObject(NOT_SIGNED);
		expect(await change({ promoteToStable: true })).toMatchObject(NOT_SIGNED);
		expect((await change({ rolloutPercentage: 10 })).status).toBe(200);
		expect((await change({ rolloutPaused: true })).status).toBe(200);
		expect(await change({ rolloutPaused: false })).toMatchObject(NOT_SIGNED);
		await requireSigned(false);
		expect((await change({ rolloutPaused: false, rolloutPercentage: 30 })).status).toBe(200);
	});

	test("of an unsigned rollout does not happen automatically either, until the policy is off again", async () => {
		await scene.prepareRollout();
		const fleet = await scene.known(40);
		await scene.begin({ autoPauseFailureRateBps: 5_000, rolloutSteps: [90, 100], rolloutStepMinDevices: 5 });
		await scene.fleetAsks(fleet, new Map());
		const { world: own } = scene;
		const policy = (require_signed_bundles: boolean) =>
			own.request("POST", "/organization", {
				key: own.adminKey,
				body: { orgId: own.orgId, require_signed_bundles },
			});
		const share = async () =>
			(
				await rows(query.selectFrom("channels").select("rollout_percentage_bps").where("app_id", "=", scene.app.uuid))
			)[0]?.rollout_percentage_bps;
		await own.request("POST", "/organization/signing_key", {
			key: own.adminKey,
			body: { orgId: own.orgId, name: "Release key", public_key: signer.publicKey },
		});
		expect((await policy(true)).status).toBe(200);
		scene.later(HOUR_MS);
		await stepRollouts(own.deps);
		expect(await share()).toBe(9_000);
		expect((await policy(false)).status).toBe(200);
		scene.later(HOUR_MS);
		await stepRollouts(own.deps);
		expect(await share()).toBe(10_000);
	});

	test("verifies a bundle that is older than its key's registration, once", async () => {
		const late = await createSigner();
		await sendSigned("1.0.0", late);
		expect(await bundle("1.0.0")).toMatchObject({ key_id: late.keyId, signed_by: null });
		await requireSigned();
		expect(await promote("1.0.0")).toMatchObject(NOT_SIGNED);
		await registerKey(late.publicKey);
		const first = await promote("1.0.0");
		expect(first.status).toBeLessThan(300);
		expect(first.trips).toBe(4);
		expect((await bundle("1.0.0")).signed_by).toBe(late.keyId);
		expect((await promote("1.0.0", "second", {}, 2)).trips).toBe(2);
	});

	test("is refused for a bundle with a copied signature, also if its key is registered later", async () => {
		const late = await createSigner();
		const [first, second] = [await late.encrypt(testBundle("1.0.0")), await late.encrypt(testBundle("2.0.0"))];
		expect((await send("1.0.0", second.bytes, first.fields)).status).toBe(200);
		await requireSigned();
		await registerKey(late.publicKey);
		expect(await promote("1.0.0")).toMatchObject(NOT_SIGNED);
	});

	test("is refused if the policy is set between its read and its write", async () => {
		await unsignedOf("1.0.0");
		const answer = await readThenWrite(
			world,
			(racing) =>
				racing.request("POST", "/channel", {
					key: ci.text,
					body: { app_id: app.appId, channel: "production", version: "1.0.0" },
				}),
			() => requireSigned(),
		);
		expect(answer).toMatchObject(NOT_SIGNED);
	});

	test("is refused once the key is removed, and accepted when it is registered again", async () => {
		await sendSigned("1.0.0");
		await registerKey((await createSigner()).publicKey, world.adminKey, "New key");
		await requireSigned();
		await promote("1.0.0", "production", { public: true });
		expect((await removeKey(keyId, { dry_run: "true" })).body).toMatchObject({
			dry_run: true,
			unsigned_channels: [{ app_id: app.appId, channel: "production", version: "1.0.0" }],
			unsigned_channel_count: 1,
		});
		await removeKey(keyId);
		expect(await promote("1.0.0", "second")).toMatchObject(NOT_SIGNED);
		expect((await bundle("1.0.0")).signed_by).toBe(null);
		await registerKey(signer.publicKey);
		expect((await promote("1.0.0", "second")).status).toBeLessThan(300);
	});

	test("switching the policy on names the channels that serve unsigned bundles", async () => {
		await unsignedOf("1.0.0");
		await sendSigned("2.0.0");
		await promote("1.0.0", "production", { public: true });
		await promote("2.0.0", "beta");
		const named = {
			unsigned_channels: [{ app_id: app.appId, channel: "production", version: "1.0.0" }],
			unsigned_channel_count: 1,
		};
		expect((await requireSigned(true, { dry_run: true })).body).toMatchObject(named);
		expect((await promote("1.0.0", "still allowed")).status).toBeLessThan(300);
		expect((await requireSigned()).body).toMatchObject({ unsigned_channel_count: 2 });
	});
});

describe("a manifest while signatures are required", () => {
	const store = async (name: string, content: string) => {
		const bytes = new TextEncoder().encode(content);
		const path = deltaName(world, app, `${"ab".repeat(20)}/${name}`);
		const location = locationOf(await tusCreate(world, ci.text, path, bytes.length));
		expect((await tusPatch(world, ci.text, location, 0, bytes)).status).toBe(204);
		return path;
	};
	const setManifest = async (version: string, hashes: Record<string, string>) => {
		const manifest = [];
		for (const [file_name, file_hash] of Object.entries(hashes)) {
			manifest.push({ file_name, file_hash, s3_path: await store(`${version}_${file_name}`, file_name) });
		}
		return world.request("POST", "/private/set_manifest", {
			key: ci.text,
			body: { app_id: app.appId, name: version, manifest },
		});
	};
	const finalize = (version: string) =>
		world.request("POST", "/private/finalize_bundle_upload", {
			key: ci.text,
			body: { app_id: app.appId, name: version },
		});
	const content = new TextEncoder().encode("content");

	test("is accepted if the bundle's key signed every hash, also without a zip", async () => {
		await requireSigned();
		const { fields } = await signer.encrypt(testBundle("1.0.0"));
		await register(world, app, "1.0.0", ci.text, { ...fields });
		const signed = await signer.signedHash(content);
		expect((await setManifest("1.0.0", { "index.html": signed, "app.js": signed })).status).toBe(200);
		expect((await finalize("1.0.0")).status).toBe(200);
		expect((await bundle("1.0.0")).signed_by).toBe(signer.keyId);
		expect((await promote("1.0.0")).status).toBeLessThan(300);
	});

	test("is refused if one hash is plain, or signed with another key", async () => {
		await requireSigned();
		await sendSigned("1.0.0");
		const signed = await signer.signedHash(content);
		const other = await createSigner();
		await registerKey(other.publicKey);
		for (const wrong of ["ab".repeat(32), await other.signedHash(content)]) {
			expect(await setManifest("1.0.0", { "index.html": signed, "app.js": wrong })).toMatchObject(
				refused(422, "bundle_signature_invalid", "manifest_not_signed"),
			);
		}
		expect((await promote("1.0.0")).status).toBeLessThan(300);
	});

	test("from before the policy blocks the promotion of its bundle unless it is signed", async () => {
		const signed = await signer.signedHash(content);
		await sendSigned("1.0.0");
		await sendSigned("1.1.0");
		expect((await setManifest("1.0.0", { "index.html": "ab".repeat(32) })).status).toBe(200);
		expect((await setManifest("1.1.0", { "index.html": signed })).status).toBe(200);
		await requireSigned();
		expect(await promote("1.0.0")).toMatchObject(NOT_SIGNED);
		expect((await promote("1.1.0")).status).toBeLessThan(300);
	});

	test("is not enough to complete a bundle that is not encrypted", async () => {
		await register(world, app, "1.0.0", ci.text);
		expect((await setManifest("1.0.0", { "index.html": "ab".repeat(32) })).status).toBe(200);
		await requireSigned();
		expect(await finalize("1.0.0")).toMatchObject(refused(422, "bundle_signature_required"));
		await requireSigned(false);
		expect((await finalize("1.0.0")).status).toBe(200);
	});
});
