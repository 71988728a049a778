/**
 * The effects of a preview key on others: to the releases of its app, to previews of another key,
 * and to the end of previews that it never opened. Seen by the device of an ordinary user, by the
 * stock CLI and by a repository's webhook.
 */
import { beforeAll, beforeEach, describe, expect, test } from "vitest";
import { query } from "../../../src/db/client";
import { MOST_NEVER_OPENED } from "../../../src/db/previews";
import { register, rows } from "../support/bytes";
import { createIssuer, IDS, networkOf, signingKeys, type TestIssuer } from "../support/issuer";
import {
	createTestApp,
	createTestKey,
	createWorld,
	NOW_MS,
	setTestChannel,
	type TestApp,
	testEnv,
	uploadTestBundle,
	type World,
} from "../support/world";

const REPOSITORY = "octo-org/octo-repo";
let world: World;
let github: TestIssuer;
let app: TestApp;
let ci: string;
let other: string;
let number = 100;
beforeAll(async () => {
	await signingKeys();
	github = createIssuer("github", "https://token.actions.githubusercontent.com");
	world = await createWorld({ bindings: { fetch: networkOf(github) }, config: { ADDRESS_LIMIT_SCALE: "0" } });
});
beforeEach(async () => {
	number += 1;
	world.clock.nowMs = NOW_MS;
	app = await createTestApp(world);
	ci = (await createTestKey(world, "app_preview", app)).text;
	other = (await createTestKey(world, "app_preview", app)).text;
	await uploadTestBundle(world, app, "1.0.0");
	await setTestChannel(world, app, "production", { public: true, version: "1.0.0" });
});

type Fields = Record<string, unknown>;
const open = (fields: Fields = {}, key = ci) =>
	world.request("POST", "/preview", {
		key,
		body: { app_id: app.appId, repository: REPOSITORY, number, ...fields },
		mostTrips: 8,
	});
const close = (fields: Record<string, string> = {}, key = ci) =>
	world.request("DELETE", "/preview", {
		key,
		query: { app_id: app.appId, repository: REPOSITORY, number: String(number), ...fields },
		mostTrips: 8,
	});
const promote = (version: string, fields: Fields = {}, key = world.adminKey) =>
	world.request("POST", "/channel", { key, body: { app_id: app.appId, channel: "production", version, ...fields } });
const at = (ms: number) => new Date(ms).toISOString();
const offered = async () => {
	const device = { app_id: app.appId, device_id: crypto.randomUUID(), platform: "android", defaultChannel: "" };
	const versions = { version_name: "builtin", version_build: "0.9.0", plugin_version: "8.51.23" };
	return (await world.request("POST", "/updates", { body: { ...device, ...versions } })).body.version;
};
const FROM_PREVIEW = { status: 409, body: { error: "bundle_from_preview" } };
const OF_ANOTHER = { status: 409, body: { error: "bundle_of_another_preview" } };

const COPIED = [
	"app_id",
	"repository",
	"state",
	"lifetime_ms",
	"expires_at_ms",
	"created_by",
	"created_by_key",
	"created_at_ms",
];

/** The key of a job of the repository; `ref` names its pull request, if it has one. */
async function jobKey(ref: string): Promise<string> {
	const claims = ref.startsWith("refs/pull/") ? { event_name: "pull_request", head_ref: "feature" } : {};
	const { status, body } = await world.request("POST", "/oidc/token", {
		body: { token: await github.token({ ref, ...claims }), app_id: app.appId, stage: "preview" },
		mostTrips: 4,
	});
	expect(status, JSON.stringify(body)).toBe(200);
	return body.token;
}
const trust = () =>
	world.request("POST", "/publisher", {
		key: world.adminKey,
		body: { app_id: app.appId, name: "Previews", stage: "preview", provider: "github", claims: IDS.github },
	});

describe("a bundle that a preview key uploaded under the version of the next release", () => {
	test("reaches no channel outside of previews until the request says that it is a preview's", async () => {
		await uploadTestBundle(world, app, "1.1.0", ci);
		const refused = await promote("1.1.0");
		expect(refused).toMatchObject(FROM_PREVIEW);
		expect(refused.body.message).toContain("allow_preview_bundle");
		expect(await promote("1.1.0", { channel: "beta" }), "a new channel").toMatchObject(FROM_PREVIEW);
		expect(await promote("1.0.0", { rolloutVersion: "1.1.0", rolloutPercentage: 10 })).toMatchObject(FROM_PREVIEW);
		const [bundle] = await rows(
			query.selectFrom("bundles").select("id").where("app_id", "=", app.uuid).where("name", "=", "1.1.0"),
		);
		const shown = await world.request("GET", "/channel", {
			key: world.adminKey,
			query: { app_id: app.appId, channel: "production" },
		});
		const put = (fields: Fields) =>
			world.request("PUT", "/bundle", {
				key: world.adminKey,
				body: { app_id: app.appId, version_id: bundle?.id, channel_id: shown.body.id, ...fields },
			});
		expect(await put({})).toMatchObject(FROM_PREVIEW);
		expect(await offered()).toBe("1.0.0");
		expect((await put({ allow_preview_bundle: true })).status).toBe(200);
		expect(await offered()).toBe("1.1.0");
		await uploadTestBundle(world, app, "1.2.0", ci);
		expect((await promote("1.2.0", { allow_preview_bundle: true })).status).toBe(200);
		expect(await offered()).toBe("1.2.0");
	});

	test("is no hurdle if the version names the preview, as the stock CLI sends it, also after the preview was closed", async () => {
		await open();
		const version = `0.0.0-pr-${number}.1`;
		await uploadTestBundle(world, app, version, ci);
		expect((await promote(version, { channel: "beta" })).status).toBe(201);
		await close();
		expect((await promote(version)).status).toBe(200);
		expect(await offered()).toBe(version);
		await uploadTestBundle(world, app, "1.1.0-pr.7", ci);
		expect((await promote("1.1.0-pr.7")).status).toBe(200);
		await uploadTestBundle(world, app, "1.2.0-beta.1", ci);
		expect(await promote("1.2.0-beta.1"), "a pre-release of somebody else").toMatchObject(FROM_PREVIEW);
	});

	test("does not become the newest bundle for the releases of the stock CLI, but for those of the preview key", async () => {
		await uploadTestBundle(world, app, "99.0.0", ci);
		const newest = async (key: string) =>
			(
				await world.request("GET", "/compat/capgo-cli/rest/v1/app_versions", {
					key,
					query: { select: "name", app_id: `eq.${app.appId}`, order: "created_at.desc", limit: "1" },
				})
			).body;
		expect(await newest(world.adminKey)).toEqual([{ name: "1.0.0" }]);
		expect(await newest(ci)).toEqual([{ name: "99.0.0" }]);
	});
});

describe("the version of a preview", () => {
	test("takes no bundle of another preview key, which neither joins nor renews the preview", async () => {
		await open({ days: 3 });
		const version = `0.0.0-pr-${number}.9`;
		world.clock.nowMs += 1000;
		expect(await register(world, app, version, other)).toMatchObject(OF_ANOTHER);
		const [preview] = await rows(query.selectFrom("previews").selectAll().where("app_id", "=", app.uuid));
		expect(preview?.expires_at_ms).toBe(NOW_MS + 3 * 86_400_000);
		expect((await register(world, app, version, ci)).status).toBe(201);
		expect((await register(world, app, `0.0.0-pr-${number}.10`, world.adminKey)).status, "a wider role may").toBe(201);
	});

	test("takes no bundle of a push, although all jobs share the publisher's key", async () => {
		await trust();
		const pull = await jobKey(`refs/pull/${number}/merge`);
		expect((await open({}, pull)).status).toBe(201);
		const push = await jobKey("refs/heads/main");
		expect(await register(world, app, `0.0.0-pr-${number}.2`, push)).toMatchObject(OF_ANOTHER);
	});
});

describe("DELETE /preview of a preview key", () => {
	test("changes nothing of what another key closed", async () => {
		await open({ event_at: at(NOW_MS - 5000) });
		await close({ event_at: at(NOW_MS - 4000) });
		expect((await close({}, other)).body).toMatchObject({ state: "closed", removed: { bundles: 0 } });
		expect((await open({ event_at: at(NOW_MS - 3000) })).status, "its end is still that of its own key").toBe(201);
		await close({ event_at: at(NOW_MS - 2000) }, world.adminKey);
		expect((await close({ event_at: at(NOW_MS - 1000) })).body.state, "its own work").toBe("closed");
		expect((await open({ event_at: at(NOW_MS - 1500) })).status).toBe(409);
	});

	test("of invented pull requests drops the oldest of this key, and nothing of the app or of other callers", async () => {
		await close({ number: "1" }, world.adminKey);
		await close({ number: "2" }, other);
		await close({ number: "3" });
		const copied = [...COPIED].join(", ");
		await testEnv.DB.prepare(
			`WITH RECURSIVE counted (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM counted WHERE n < ${MOST_NEVER_OPENED})
			INSERT INTO previews (id, page_id, number, updated_at_ms, ${copied})
			SELECT id || n, page_id || n, 1000 + n, updated_at_ms + n, ${copied} FROM previews, counted WHERE app_id = ? AND number = 3`,
		)
			.bind(app.uuid)
			.run();
		world.clock.nowMs += 10_000;
		await close({ number: "9999" });
		const left = (
			await rows(query.selectFrom("previews").select("number").where("app_id", "=", app.uuid).orderBy("number"))
		).map((row) => row.number);
		expect(left.slice(0, 3)).toEqual([1, 2, 1002]);
		expect(left.at(-1)).toBe(9999);
		expect(left).toHaveLength(2 + MOST_NEVER_OPENED);
		expect((await open({ number: 9999, event_at: at(NOW_MS) })).body.error, "the end came first").toBe(
			"preview_closed",
		);
	});
});

test("the title of a preview has no characters that break its line or turn its direction", async () => {
	const opened = await open({ title: " New\r\ncheckout \u202egnp.exe\u2069\u0007 " });
	expect(opened.body.title).toBe("New checkout gnp.exe");
});

describe("the repository id of a preview", () => {
	test("is that of the job's token: another one in the request is refused, and the webhook of the repository closes it", async () => {
		await trust();
		const key = await jobKey(`refs/pull/${number}/merge`);
		const wrong = await open({ repository_id: "31337" }, key);
		expect(wrong).toMatchObject({ status: 400, body: { error: "invalid_request" } });
		expect(JSON.stringify(wrong.body)).toContain("repository_id");
		expect((await open({ repository_id: IDS.github.repository_id }, key)).status).toBe(201);
		await open({ repository_id: "31337" }, world.adminKey);
		const [preview] = await rows(query.selectFrom("previews").selectAll().where("app_id", "=", app.uuid));
		expect(preview).toMatchObject({ repository_id: IDS.github.repository_id, repository_id_proven: 1 });
		await deliverClosed(31337);
		expect(await state(), "another repository that has the name by now").toBe("open");
		await deliverClosed(Number(IDS.github.repository_id));
		expect(await state()).toBe("closed");
	});

	test("that an ordinary key claims does not keep the preview from its repository's webhook", async () => {
		await open({ repository_id: "31337" });
		await deliverClosed(456);
		expect(await state()).toBe("closed");
	});
});

const state = async () =>
	(
		await world.request("GET", "/preview", {
			key: world.adminKey,
			query: { app_id: app.appId, repository: REPOSITORY, number: String(number) },
		})
	).body[0]?.state;

async function deliverClosed(repositoryId: number) {
	const hook = await world.request("POST", "/preview/hook", {
		key: world.adminKey,
		body: { app_id: app.appId, provider: "github" },
	});
	const text = JSON.stringify({
		action: "closed",
		number,
		repository: { id: repositoryId, full_name: REPOSITORY },
		pull_request: { updated_at: at(NOW_MS), closed_at: at(NOW_MS) },
	});
	const bytes = new TextEncoder().encode(text);
	const secret = new TextEncoder().encode(hook.body.secret);
	const key = await crypto.subtle.importKey("raw", secret, { name: "HMAC", hash: "SHA-256" }, false, ["sign"]);
	const mac = new Uint8Array(await crypto.subtle.sign("HMAC", key, bytes));
	const signature = `sha256=${Array.from(mac, (byte) => byte.toString(16).padStart(2, "0")).join("")}`;
	const delivered = await world.request("POST", `/hooks/github/${hook.body.id}`, {
		rawBody: bytes,
		headers: {
			"content-type": "application/json",
			"x-github-event": "pull_request",
			"x-hub-signature-256": signature,
		},
		mostTrips: 3,
	});
	expect(delivered.status).toBe(200);
}
