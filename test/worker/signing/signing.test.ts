/**
 * The signing policy: only bundles that a registered key verifies are accepted and promoted, on
 * every path to devices. Each refusal has a positive control with a signed bundle.
 */

import { beforeEach, describe, expect, test } from "vitest";
import { consume } from "../../../src/consumer";
import { sha256OfDecrypted } from "../../../src/domain/bundles/encrypted-bytes";
import { openValue, parsePublicKey, signingKeyOf } from "../../../src/domain/bundles/signing-key";
import {
	bundleOf,
	complete,
	locationOf,
	newestBundle,
	patterned,
	putBytes,
	register,
	tusCreate,
	tusPatch,
	zipName,
} from "../support/bytes";
import { readThenWrite } from "../support/interleave";
import { REPORTS } from "../support/reports";
import { signIn } from "../support/sessions";
import { createSigner } from "../support/signing";
import {
	admin,
	app,
	bundle,
	ci,
	device,
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
import { createTestKey, createWorld, setTestChannel } from "../support/world";
import { testBundle } from "../support/zip";

beforeEach(() => prepareSigning());

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

	test("keep one if the last two are removed concurrently", async () => {
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

	test("is accepted on every path if a registered key verifies it, and names the key", async () => {
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

	test("is refused at registration if it is not encrypted, by the API and the stock CLI", async () => {
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
		// A signed value of another length is a session key, not a checksum.
		const [, key = ""] = mine.fields.session_key.split(":");
		const confused = { ...mine.fields, checksum: key };
		expect(await send("1.0.0", mine.bytes, confused)).toMatchObject(
			refused(422, "bundle_signature_invalid", "malformed"),
		);
		expect((await send("1.0.0", mine.bytes, mine.fields)).status).toBe(200);
	});

	test("is refused if its bytes differ from the signed ones, and its version is free again", async () => {
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

	test("is refused at its completion if it was registered before the policy, also by POST /bundle/complete", async () => {
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

	test("is refused before an external file is fetched unless its values are signed", async () => {
		const fetched: string[] = [];
		const zip = await signer.encrypt(testBundle("1.0.0"));
		await prepareSigning({
			bindings: {
				fetch: async (url: string) => {
					fetched.push(url);
					return new Response(zip.bytes);
				},
			},
		});
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
		const stored = await REPORTS.prepare("SELECT key_id FROM devices WHERE app_id = ?").bind(app.uuid).all();
		expect(stored.results).toHaveLength(4);
		expect((await admin("GET", "/device/key", { query: { app_id: app.appId } })).body).toEqual([
			{ key_id: signer.keyId, devices: 2, more: false, registered: true, signing_key: "Release key" },
			{ key_id: old, devices: 1, more: false, registered: false, signing_key: null },
		]);
		const withOld = await admin("GET", "/device", { query: { app_id: app.appId, key_id: old } });
		expect(withOld.body).toHaveLength(1);
	});
});

describe("RSA and AES operations", () => {
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
