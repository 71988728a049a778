/**
 * Signing as a policy: only bundles that a registered key verifies come in and are promoted, by every way that leads to devices. Each refusal
 * stands beside the same request with a signed bundle, which works.
 */
import { beforeEach, describe, expect, test } from "vitest";
import { query } from "../../src/db/client";
import { sha256OfDecrypted } from "../../src/domain/encrypted-bytes";
import { openValue, parsePublicKey, signingKeyOf } from "../../src/domain/signing-key";
import { consume } from "../../src/events/consumer";
import { stepRollouts } from "../../src/events/rollout-steps";
import {
	bundleOf,
	complete,
	deltaName,
	locationOf,
	newestBundle,
	patterned,
	putBytes,
	register,
	rows,
	tusCreate,
	tusPatch,
	zipName,
} from "./support/bytes";
import { readThenWrite } from "./support/interleave";
import * as scene from "./support/rollout-scene";
import { signIn } from "./support/sessions";
import { createSigner, type Signer } from "./support/signing";
import {
	type Answer,
	createTestApp,
	createTestKey,
	createWorld,
	setTestChannel,
	type TestApp,
	type TestKey,
	uploadTestBundle,
	type World,
} from "./support/world";
import { testBundle } from "./support/zip";

let world: World;
let app: TestApp;
let ci: TestKey;
let signer: Signer;
let keyId: string;

const admin = (method: "GET" | "POST" | "PUT" | "DELETE", path: string, options: object = {}) =>
	world.request(method, path, { key: world.adminKey, ...options });
const registerKey = (publicKey: string, key = world.adminKey, name = "Release key") =>
	world.request("POST", "/organization/signing_key", {
		key,
		body: { orgId: world.orgId, name, public_key: publicKey },
	});
const removeKey = (id: string, fields: object = {}) =>
	admin("DELETE", "/organization/signing_key", { query: { orgId: world.orgId, id, ...fields } });
const requireSigned = (require_signed_bundles = true, fields: object = {}) =>
	admin("POST", "/organization", { body: { orgId: world.orgId, require_signed_bundles, ...fields } });

beforeEach(async () => {
	world = await createWorld();
	app = await createTestApp(world);
	ci = await createTestKey(world, "app_developer", app);
	signer ??= await createSigner();
	keyId = (await registerKey(signer.publicKey)).body.id;
});

/** The last answer of an upload with this content and these fields. */
async function send(version: string, bytes: Uint8Array, fields: object): Promise<Answer> {
	const registered = await register(world, app, version, ci.text, { ...fields });
	return registered.status === 201 ? putBytes(world, registered.body.upload_url, bytes) : registered;
}
async function sendSigned(version: string, by = signer, zip = testBundle(version)): Promise<Answer> {
	const { bytes, fields } = await by.encrypt(zip);
	return send(version, bytes, fields);
}
/** A promotion that is refused at first may read the bundles and repeat itself. */
const promote = (version: string, channel = "production", fields: object = {}, mostTrips = 4) =>
	world.request("POST", "/channel", {
		mostTrips,
		key: ci.text,
		body: { app_id: app.appId, channel, version, ...fields },
	});
const bundle = async (version: string) =>
	(await admin("GET", "/bundle", { query: { app_id: app.appId, version } })).body[0];
const refused = (status: number, error: string, reason?: string) => ({
	status,
	body: { error, ...(reason === undefined ? {} : { moreInfo: { reason } }) },
});
const NOT_SIGNED = refused(409, "bundle_not_signed");
const device = (fields: object = {}) => ({
	...{ app_id: app.appId, device_id: crypto.randomUUID(), version_name: "builtin", version_build: "1.0.0" },
	...{ platform: "android", plugin_version: "8.51.23", is_emulator: false, is_prod: true, ...fields },
});
const served = async () => (await world.request("POST", "/updates", { body: device() })).body.version;

describe("signing keys", () => {
	test("are registered as PKCS#1 and as SubjectPublicKeyInfo with the id that devices carry", async () => {
		const { body } = await admin("GET", "/organization/signing_key", { query: { orgId: world.orgId } });
		expect(body).toEqual([
			{
				id: keyId,
				name: "Release key",
				key_id: signer.keyId,
				fingerprint: signer.fingerprint,
				public_key: signer.publicKey,
				created_at: expect.any(String),
			},
		]);
		expect(await registerKey(signer.spki)).toMatchObject(refused(409, "signing_key_already_exists"));
		const other = await createSigner();
		expect(await registerKey(other.spki)).toMatchObject({ status: 201, body: { fingerprint: other.fingerprint } });
	});

	test("are refused if devices cannot use them", async () => {
		const short = await createSigner(1024);
		const body = signer.publicKey.split("\n").slice(1, -2).join("");
		const wrong = [
			short.publicKey,
			short.spki,
			"no key",
			signer.publicKey.replace("RSA PUBLIC", "RSA PRIVATE"),
			signer.publicKey.replace(/RSA /g, ""),
			signer.spki.replace(/PUBLIC/g, "RSA PUBLIC"),
			`-----BEGIN RSA PUBLIC KEY-----\n${body.slice(0, -8)}\n-----END RSA PUBLIC KEY-----`,
			`-----BEGIN RSA PUBLIC KEY-----\n${body.replace(/IDAQAB$/, "IDAQAD")}\n-----END RSA PUBLIC KEY-----`,
		];
		for (const key of wrong) {
			expect(await registerKey(key), key).toMatchObject({ status: 400, body: { error: "invalid_request" } });
		}
		expect((await registerKey((await createSigner()).publicKey)).status).toBe(201);
	});

	test("are changed by administrators only, by people after a recent sign-in", async () => {
		const other = await createSigner();
		expect((await registerKey(other.publicKey, ci.text)).status).toBe(403);
		const appAdmin = await createTestKey(world, "app_admin", app);
		expect((await registerKey(other.publicKey, appAdmin.text)).status).toBe(403);
		const orgAdmin = await createTestKey(world, "org_admin");
		expect((await registerKey(other.publicKey, orgAdmin.text)).status).toBe(201);
		expect(
			(
				await world.request("DELETE", "/organization/signing_key", {
					key: ci.text,
					query: { orgId: world.orgId, id: keyId },
				})
			).status,
		).toBe(403);
	});

	test("cannot all be removed while signatures are required, and the policy needs one", async () => {
		await requireSigned();
		expect(await removeKey(keyId)).toMatchObject(refused(409, "signing_key_required"));
		const other = await createSigner();
		const { body } = await registerKey(other.publicKey);
		expect((await removeKey(keyId)).status).toBe(200);
		expect(await removeKey(body.id)).toMatchObject(refused(409, "signing_key_required"));
		await requireSigned(false);
		expect((await removeKey(body.id)).status).toBe(200);
		expect(await requireSigned()).toMatchObject(refused(409, "signing_key_required"));
		expect((await admin("GET", "/organization", { query: { orgId: world.orgId } })).body.require_signed_bundles).toBe(
			false,
		);
	});

	test("two of which the last are removed at once leave one", async () => {
		await requireSigned();
		const { body } = await registerKey((await createSigner()).publicKey);
		const answer = await readThenWrite(
			world,
			(racing) =>
				racing.request("DELETE", "/organization/signing_key", {
					key: world.adminKey,
					query: { orgId: world.orgId, id: keyId },
				}),
			() => removeKey(body.id),
		);
		expect(answer).toMatchObject(refused(409, "signing_key_required"));
	});

	test("of another organization are neither shown nor removed here", async () => {
		const stranger = await createWorld();
		const theirs = await stranger.request("POST", "/organization/signing_key", {
			key: stranger.adminKey,
			body: { orgId: stranger.orgId, name: "Theirs", public_key: signer.publicKey },
		});
		expect(theirs.status).toBe(201);
		expect(await removeKey(theirs.body.id)).toMatchObject(refused(404, "signing_key_not_found"));
		const { body } = await admin("GET", "/organization/signing_key", { query: { orgId: world.orgId } });
		expect(body.map(({ id }: { id: string }) => id)).toEqual([keyId]);
	});

	test("of another organization verify nothing here", async () => {
		const stranger = await createWorld();
		const foreign = await createSigner();
		await stranger.request("POST", "/organization/signing_key", {
			key: stranger.adminKey,
			body: { orgId: stranger.orgId, name: "Theirs", public_key: foreign.publicKey },
		});
		await requireSigned();
		expect(await sendSigned("1.0.0", foreign)).toMatchObject(refused(422, "bundle_signature_invalid", "unknown_key"));
	});
});

describe("an upload while signatures are required", () => {
	beforeEach(async () => {
		expect((await requireSigned()).status).toBe(200);
	});

	test("is accepted by every way if a registered key verifies it, and says by which", async () => {
		expect((await sendSigned("1.0.0")).status).toBe(200);
		expect(await bundle("1.0.0")).toMatchObject({ key_id: signer.keyId, signed_by: signer.keyId });
		const zip = bundleOf(9 * 1024 * 1024);
		const { bytes, fields } = await signer.encrypt(zip);
		await register(world, app, "1.1.0", ci.text, { ...fields });
		const location = locationOf(await tusCreate(world, ci.text, zipName(world, app, "1.1.0"), bytes.length));
		const half = 5 * 1024 * 1024;
		expect((await tusPatch(world, ci.text, location, 0, bytes.slice(0, half))).status).toBe(204);
		expect((await tusPatch(world, ci.text, location, half, bytes.slice(half))).status).toBe(204);
		expect((await bundle("1.1.0")).signed_by).toBe(signer.keyId);
		expect((await promote("1.1.0", "production", { public: true })).status).toBeLessThan(300);
		expect(await served()).toBe("1.1.0");
	});

	test("is refused if it is not encrypted, by registration and by the stock CLI's", async () => {
		const required = refused(422, "bundle_signature_required", "not_encrypted");
		expect(await send("1.0.0", testBundle("1.0.0"), {})).toMatchObject(required);
		const stock = await world.request("POST", "/compat/capgo-cli/rest/v1/app_versions", {
			key: ci.text,
			query: { on_conflict: "name,app_id" },
			body: { app_id: app.appId, name: "1.0.0", storage_provider: "r2-direct" },
		});
		expect(stock).toMatchObject(required);
		expect(await newestBundle(app.uuid, "1.0.0")).toBeUndefined();
	});

	test("is refused if another key encrypted it, its checksum or its key", async () => {
		const other = await createSigner();
		expect(await sendSigned("1.0.0", other)).toMatchObject(refused(422, "bundle_signature_invalid", "unknown_key"));
		const mine = await signer.encrypt(testBundle("1.0.0"));
		const theirs = await other.encrypt(testBundle("1.0.0"));
		const mixed = { ...mine.fields, checksum: theirs.fields.checksum };
		expect(await send("1.0.0", mine.bytes, mixed)).toMatchObject(refused(422, "bundle_signature_invalid", "malformed"));
		// A signed value of another length is a session key and no checksum.
		const [, key = ""] = mine.fields.session_key.split(":");
		const confused = { ...mine.fields, checksum: key };
		expect(await send("1.0.0", mine.bytes, confused)).toMatchObject(
			refused(422, "bundle_signature_invalid", "malformed"),
		);
		expect((await send("1.0.0", mine.bytes, mine.fields)).status).toBe(200);
	});

	test("is refused if its bytes are not those that were signed, and its name is free again", async () => {
		const first = await signer.encrypt(testBundle("1.0.0"));
		const second = await signer.encrypt(testBundle("2.0.0"));
		const altered = first.bytes.slice();
		altered[20] = (altered[20] ?? 0) ^ 1;
		for (const bytes of [second.bytes, altered, first.bytes.slice(0, -16), first.bytes.slice(0, -1), patterned(64)]) {
			expect(await send("1.0.0", bytes, first.fields)).toMatchObject(
				refused(422, "bundle_signature_invalid", "content_differs"),
			);
			expect(await newestBundle(app.uuid, "1.0.0")).toBeUndefined();
		}
		expect((await send("1.0.0", first.bytes, first.fields)).status).toBe(200);
	});

	test("that was registered before is refused at its end, and by POST /bundle/complete", async () => {
		await requireSigned(false);
		const { body } = await register(world, app, "1.0.0", ci.text);
		await requireSigned();
		expect(await putBytes(world, body.upload_url, testBundle("1.0.0"))).toMatchObject(
			refused(422, "bundle_signature_required"),
		);
		expect((await complete(world, app, "1.0.0", ci.text)).status).toBe(404);
	});

	test("is refused if its key is removed while its bytes are checked", async () => {
		await registerKey((await createSigner()).publicKey);
		const { bytes, fields } = await signer.encrypt(testBundle("1.0.0"));
		const { body } = await register(world, app, "1.0.0", ci.text, { ...fields });
		const answer = await readThenWrite(
			world,
			(racing) => putBytes(racing, body.upload_url, bytes),
			() => removeKey(keyId),
		);
		expect(answer).toMatchObject(refused(422, "bundle_signature_invalid"));
		expect(await newestBundle(app.uuid, "1.0.0")).toBeUndefined();
	});

	test("from an external address is refused before it is fetched unless its values are signed", async () => {
		const fetched: string[] = [];
		const zip = await signer.encrypt(testBundle("1.0.0"));
		world = await createWorld({
			bindings: {
				fetch: async (url: string) => {
					fetched.push(url);
					return new Response(zip.bytes);
				},
			},
		});
		app = await createTestApp(world);
		ci = await createTestKey(world, "app_developer", app);
		await registerKey(signer.publicKey);
		await requireSigned();
		const external_url = "https://bundles.example.com/1.zip";
		expect(await register(world, app, "1.0.0", ci.text, { external_url })).toMatchObject(
			refused(422, "bundle_signature_required"),
		);
		expect(fetched).toEqual([]);
		expect((await register(world, app, "1.0.0", ci.text, { external_url, ...zip.fields })).status).toBe(201);
		expect((await bundle("1.0.0")).signed_by).toBe(signer.keyId);
		expect((await promote("1.0.0")).status).toBeLessThan(300);
	});
});

describe("a promotion while signatures are required", () => {
	const unsignedOf = async (...versions: string[]) => {
		for (const version of versions) await uploadTestBundle(world, app, version);
	};
	const put = async (version: string, channelId: number) =>
		world.request("PUT", "/bundle", {
			key: ci.text,
			body: { app_id: app.appId, version_id: (await bundle(version)).id, channel_id: channelId },
		});

	test("is also what opens a channel to more devices: refused for the unsigned bundle there, not for a signed one", async () => {
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

	test("of an unsigned bundle is refused by every way that leads to devices; signed ones pass", async () => {
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

	test("of an unsigned rollout goes no further: neither its share grows nor does it become stable", async () => {
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

	test("of an unsigned rollout does not happen by itself either, until the policy is off again", async () => {
		await scene.prepareRollout();
		const fleet = await scene.known(40);
		await scene.begin({ autoPauseFailureRateBps: 5_000, rolloutSteps: [50, 100], rolloutStepMinDevices: 5 });
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
		scene.later(scene.HOUR_MS);
		await stepRollouts(own.deps);
		expect(await share()).toBe(5_000);
		expect((await policy(false)).status).toBe(200);
		scene.later(scene.HOUR_MS);
		await stepRollouts(own.deps);
		expect(await share()).toBe(10_000);
	});

	test("of a bundle from before its key was registered verifies it then, and once", async () => {
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

	test("of a bundle that was copied onto another signature is refused also when its key comes later", async () => {
		const late = await createSigner();
		const [first, second] = [await late.encrypt(testBundle("1.0.0")), await late.encrypt(testBundle("2.0.0"))];
		expect((await send("1.0.0", second.bytes, first.fields)).status).toBe(200);
		await requireSigned();
		await registerKey(late.publicKey);
		expect(await promote("1.0.0")).toMatchObject(NOT_SIGNED);
	});

	test("is refused when the policy comes between its reading and its writing", async () => {
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

	test("is refused once the key is removed, and works again when it is registered again", async () => {
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

	test("that was set before the policy keeps its bundle from being promoted unless it is signed", async () => {
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

test("the policy is switched off by people only after a recent sign-in", async () => {
	await requireSigned();
	const session = await signIn(world);
	const off = () =>
		world.request("POST", "/organization", {
			headers: session.headers,
			body: { orgId: world.orgId, require_signed_bundles: false },
		});
	world.clock.nowMs += 60 * 60 * 1000;
	expect(await off()).toMatchObject({ status: 403, body: { error: "recent_sign_in_required" } });
});

describe("GET /device/key", () => {
	test("counts devices by the key that they report, and says which keys are registered", async () => {
		await setTestChannel(world, app, "production", { public: true });
		const old = "MIIBCgKCAQEAold-key-";
		for (const key_id of [signer.keyId, signer.keyId, old, undefined]) {
			const { status } = await world.request("POST", "/updates", {
				body: device(key_id === undefined ? {} : { key_id }),
			});
			expect(status).toBe(200);
		}
		await consume(world.deps, { messages: world.deps.sent.map((message) => ({ body: message })) as never });
		expect(await rows(query.selectFrom("devices").select("key_id").where("app_id", "=", app.uuid))).toHaveLength(4);
		expect((await admin("GET", "/device/key", { query: { app_id: app.appId } })).body).toEqual([
			{ key_id: signer.keyId, devices: 2, more: false, registered: true, signing_key: "Release key" },
			{ key_id: old, devices: 1, more: false, registered: false, signing_key: null },
		]);
		const withOld = await admin("GET", "/device", { query: { app_id: app.appId, key_id: old } });
		expect(withOld.body).toHaveLength(1);
	});
});

describe("the mathematics", () => {
	test("open only blocks with exact padding and length", async () => {
		const key = await signingKeyOf(parsePublicKey(signer.publicKey) ?? "");
		const data = patterned(32);
		expect(openValue(key, signer.sign(data), 32)).toEqual(data);
		expect(openValue(key, signer.sign(data), 31)).toBeUndefined();
		expect(openValue(key, signer.sign(data), 33)).toBeUndefined();
		expect(openValue(key, signer.sign(data.slice(1)), 32)).toBeUndefined();
		const altered = signer.sign(data);
		altered[255] = (altered[255] ?? 0) ^ 1;
		expect(openValue(key, altered, 32)).toBeUndefined();
		expect(openValue(key, new Uint8Array(256).fill(255), 32)).toBeUndefined();
		expect(openValue(key, new Uint8Array(255), 32)).toBeUndefined();
		expect(
			openValue(
				key,
				Uint8Array.from({ length: 256 }, (_, at) => (at === 255 ? 1 : 0)),
				32,
			),
		).toBeUndefined();
	});

	test.each([0, 1, 15, 16, 17, 1048575, 1048576, 1048577, 2097152, 3000001])(
		"decrypt %i bytes in pieces as WebCrypto encrypted them whole",
		async (length) => {
			const [aesKey, iv] = [patterned(16, 2), patterned(16, 3)] as [Uint8Array<ArrayBuffer>, Uint8Array<ArrayBuffer>];
			const plain = patterned(length) as Uint8Array<ArrayBuffer>;
			const key = await crypto.subtle.importKey("raw", aesKey, "AES-CBC", false, ["encrypt"]);
			const bytes = new Uint8Array(await crypto.subtle.encrypt({ name: "AES-CBC", iv }, key, plain));
			const chunks = new ReadableStream<Uint8Array>({
				start(controller) {
					for (let at = 0; at < bytes.length; at += 65_537) controller.enqueue(bytes.slice(at, at + 65_537));
					controller.close();
				},
			});
			expect(await sha256OfDecrypted(chunks, aesKey, iv)).toEqual(
				new Uint8Array(await crypto.subtle.digest("SHA-256", plain)),
			);
		},
	);
});
