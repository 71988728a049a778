/**
 * The rotation of the signing secret, seen by holders of links, codes and keys of the old one: one
 * database, and the application before, during and after the rotation.
 */
import { beforeEach, describe, expect, test } from "vitest";
import { parseConfig } from "../../../src/config";
import { query } from "../../../src/db/client";
import { parseSecret, type Secret, type Secrets, signingSecret } from "../../../src/domain/secrets";
import { MINUTE_MS } from "../../../src/domain/time";
import { runJobs } from "../../../src/schedule";
import { downloadUrl, putBytes, register, rows } from "../support/bytes";
import { askForCode, codeFor, OWN_PAGE } from "../support/sessions";
import {
	createTestApp,
	createWorld,
	NOW_MS,
	type TestApp,
	testEnv,
	uploadTestBundle,
	type World,
} from "../support/world";

const OLD = testEnv.CAPSTAN_SECRET ?? "";
const NEW = "a7".repeat(32);
const SIGNS_FROM_MS = NOW_MS + 10 * MINUTE_MS;
const ROTATING = { CAPSTAN_SECRET_2: `${NEW}@${SIGNS_FROM_MS / 1000}` };
const AFTERWARDS = { CAPSTAN_SECRET: "", CAPSTAN_SECRET_2: ROTATING.CAPSTAN_SECRET_2 };

let before: World;
let during: World;
let after: World;
let app: TestApp;
beforeEach(async () => {
	before = await createWorld();
	during = await createWorld({ config: ROTATING });
	after = await createWorld({ config: AFTERWARDS });
	app = await createTestApp(before);
});

/** The time from which every isolate with the new secret signs with it. */
function letNewSecretSign(): void {
	for (const world of [before, during, after]) world.clock.nowMs = SIGNS_FROM_MS;
}

async function objectKeyOf(version: string): Promise<string> {
	const [row] = await rows(
		query.selectFrom("bundles").select("object_key").where("app_id", "=", app.uuid).where("name", "=", version),
	);
	return row?.object_key ?? "";
}

const statusAt = async (world: World, url: string) => (await world.request("GET", url)).status;

describe("a rotated secret", () => {
	test("signs from its time on, and download links of both secrets are valid until the old one is removed", async () => {
		await uploadTestBundle(before, app, "1.0.1");
		const key = await objectKeyOf("1.0.1");
		const oldLink = await downloadUrl(before, key);
		expect(await downloadUrl(during, key)).toBe(oldLink);
		letNewSecretSign();
		const newLink = await downloadUrl(during, key);
		expect(newLink.replace(/signature=.*/, "")).toBe((await downloadUrl(before, key)).replace(/signature=.*/, ""));
		expect(newLink).not.toBe(await downloadUrl(before, key));
		expect([await statusAt(during, oldLink), await statusAt(during, newLink)]).toEqual([200, 200]);
		expect([await statusAt(after, oldLink), await statusAt(after, newLink)]).toEqual([403, 200]);
	});

	test("accepts an upload with a link that the old secret signed", async () => {
		const registered = await register(before, app, "1.0.2", before.adminKey);
		letNewSecretSign();
		const refused = await putBytes(after, registered.body.upload_url, new Uint8Array([1]));
		expect(refused).toMatchObject({ status: 403, body: { error: "invalid_signature" } });
		const accepted = await putBytes(during, registered.body.upload_url, new Uint8Array([1]));
		expect(accepted.body.error).not.toBe("invalid_signature");
		expect(accepted.status).not.toBe(403);
	});

	test("accepts a sign-in code that was sent before the rotation", async () => {
		const attempt = await askForCode(before, before.adminEmail);
		const code = codeFor(before, before.adminEmail);
		const verify = (world: World) =>
			world.request("POST", "/sign-in/code/verify", { headers: OWN_PAGE, body: { attempt, code } });
		expect((await verify(after)).status).toBe(401);
		letNewSecretSign();
		during.clock.nowMs = SIGNS_FROM_MS - MINUTE_MS;
		expect((await verify(during)).status).toBe(200);
	});

	test("reveals key secrets that the old secret sealed, and the clean-up seals them again", async () => {
		const created = await before.request("POST", "/apikey", {
			key: before.adminKey,
			query: { org_id: before.orgId },
			body: { name: "readable", hashed: false, bindings: [] },
		});
		expect(created.status).toBe(201);
		const { id, key } = created.body;
		const reveal = (world: World) =>
			world.request("GET", `/apikey/${id}`, { key: before.adminKey, query: { reveal: "true" } });
		const sealed = async () => {
			const [row] = await rows(query.selectFrom("api_keys").select("key_ciphertext").where("id", "=", id));
			return row?.key_ciphertext ?? "";
		};
		const first = await sealed();
		expect(first.startsWith(`${parseSecret(OLD)?.id}.`)).toBe(true);
		expect((await reveal(during)).body.key).toBe(key);
		await runJobs(before.deps);
		expect(await sealed()).toBe(first);
		letNewSecretSign();
		await runJobs(during.deps);
		const second = await sealed();
		expect(second.startsWith(`${parseSecret(ROTATING.CAPSTAN_SECRET_2)?.id}.`)).toBe(true);
		expect([(await reveal(during)).body.key, (await reveal(after)).body.key]).toEqual([key, key]);
		await runJobs(during.deps);
		expect(await sealed()).toBe(second);
	});

	test("opens a text that was sealed before sealed texts named their secret", async () => {
		const { body } = await before.request("POST", "/apikey", {
			key: before.adminKey,
			query: { org_id: before.orgId },
			body: { name: "old", hashed: false, bindings: [] },
		});
		await testEnv.DB.prepare("UPDATE api_keys SET key_ciphertext = substr(key_ciphertext, 10) WHERE id = ?")
			.bind(body.id)
			.run();
		const reveal = async (world: World) =>
			(await world.request("GET", `/apikey/${body.id}`, { key: before.adminKey, query: { reveal: "true" } })).body.key;
		expect(await reveal(before)).toBe(body.key);
		letNewSecretSign();
		expect(await reveal(during)).toBe(body.key);
		await runJobs(during.deps);
		expect(await reveal(after)).toBe(body.key);
	});
});

describe("the secrets of a configuration", () => {
	const secret = (id: string, signsFromMs: number): Secret => ({ id, bytes: new Uint8Array(32), signsFromMs });
	test.each([
		["the only one signs, also before its time", [secret("a", 500)], 1, "a"],
		["the new one does not sign before its time", [secret("a", 0), secret("b", 500)], 499, "a"],
		["the new one signs from its time on", [secret("a", 0), secret("b", 500)], 500, "b"],
		["their order does not matter", [secret("b", 500), secret("a", 0)], 500, "b"],
		["the latest due one signs", [secret("b", 500), secret("a", 400)], 900, "b"],
		["before the time of both, the earlier one signs", [secret("b", 500), secret("a", 400)], 1, "a"],
	])("%s", (_, secrets, nowMs, id) => {
		expect(signingSecret(secrets as unknown as Secrets, nowMs as number).id).toBe(id);
	});

	test.each([
		[{ CAPSTAN_SECRET: "", CAPSTAN_SECRET_2: "" }, "CAPSTAN_SECRET must be"],
		[{ CAPSTAN_SECRET: "", CAPSTAN_SECRET_2: "5e" }, "CAPSTAN_SECRET_2 must be"],
		[{ CAPSTAN_SECRET_2: `${NEW}@soon` }, "CAPSTAN_SECRET_2 must be"],
		[{ CAPSTAN_SECRET_2: NEW.toUpperCase() }, "CAPSTAN_SECRET_2 must be"],
	])("refuse %j and name the variable", (variables, message) => {
		expect(() => parseConfig({ ...testEnv, ...variables })).toThrow(message);
	});
});
