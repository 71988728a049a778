/**
 * The public endpoints, listed by hand, and one request for each of them, which succeeds without a
 * key.
 */
import { deviceOf, fresh, freshVersion, openedPreview, type Prepare, previewHook, uploaded } from "./request-parts";
import { type Scene, setTestChannel, type TestApp, tokenOf } from "./scene";
import { bundleOf } from "./zip";

async function invitationToken(world: Scene): Promise<string> {
	const { status, body } = await world.request("POST", "/organization/members", {
		key: world.adminKey,
		body: { orgId: world.orgId, email: `${fresh("invited")}@example.com`, role: "org_member" },
	});
	if (status !== 201) throw new Error("nobody invited");
	return tokenOf(body.link);
}

async function allowPreviews(world: Scene, app: TestApp): Promise<void> {
	await world.request("PUT", `/app/${app.appId}`, { key: world.adminKey, body: { allow_preview: true } });
}

/** A public endpoint is reviewed here by hand: the list must equal what the declarations say. */
export const PUBLIC_ENDPOINTS: readonly string[] = [
	"POST /oidc/token",
	"POST /invitation/show",
	"POST /invitation/accept",
	"POST /invitation/decline",
	"PUT /files/upload/one/:id",
	"OPTIONS /files/upload/attachments",
	"GET /files/download/:app/:upload/:part",
	"GET /",
	"GET /ok",
	"GET /capstan.tgz",
	"GET /command/:file",
	"GET /updates",
	"POST /updates",
	"POST /updates/manifest_size",
	"POST /stats",
	"GET /preview/channel",
	"GET /preview/bundle",
	"POST /preview/show",
	"POST /hooks/github/:id",
	"POST /hooks/gitlab/:id",
	"POST /channel_self",
	"PUT /channel_self",
	"DELETE /channel_self",
	"GET /channel_self",
	"GET /private/config",
	"GET /files/config",
	"GET /sign-in/methods",
	"POST /sign-in/code",
	"POST /sign-in/code/verify",
	"POST /sign-in/link",
	"GET /sign-in/provider/:provider",
	"GET /sign-in/provider/:provider/callback",
	"POST /sign-in/passkey/options",
	"POST /sign-in/passkey",
];

/** One request for every public endpoint; it succeeds without a key. */
export const PUBLIC_REQUESTS: Readonly<Record<string, Prepare>> = {
	"GET /capstan.tgz": async () => ({ path: "/capstan.tgz" }),
	"GET /command/:file": async (world) => {
		const { headers } = await world.request("GET", "/capstan.tgz");
		return { path: new URL(headers.get("location") ?? "").pathname };
	},
	"PUT /files/upload/one/:id": async (world, app) => {
		const { body } = await world.request("POST", "/bundle", {
			key: world.adminKey,
			body: { app_id: app.appId, version: freshVersion() },
		});
		return { path: body.upload_url, rawBody: bundleOf(130), headers: { "content-length": "130" } };
	},
	// Refused: a token that succeeds needs an issuer, which exchange.test.ts plays.
	"POST /oidc/token": async () => ({ path: "/oidc/token", body: { token: "a.b.c" } }),
	"OPTIONS /files/upload/attachments": async () => ({ path: "/files/upload/attachments" }),
	"GET /files/download/:app/:upload/:part": async (world, app) => {
		const { body } = await world.request("POST", "/updates", { body: await deviceOf(world, app) });
		return { path: body.url };
	},
	"GET /": async () => ({ path: "/" }),
	"GET /ok": async () => ({ path: "/ok" }),
	"GET /updates": async () => ({ path: "/updates" }),
	"POST /updates": async (world, app) => ({ path: "/updates", body: await deviceOf(world, app) }),
	"POST /updates/manifest_size": async (_, app) => ({
		path: "/updates/manifest_size",
		body: { app_id: app.appId, version: "1.0.0", manifest: [{ file_name: "index.html", file_hash: "ab" }] },
	}),
	"POST /stats": async (world, app) => ({ path: "/stats", body: { ...(await deviceOf(world, app)), action: "set" } }),
	"POST /preview/show": async (world, app) => {
		await openedPreview(world, app);
		const { body } = await world.request("GET", "/preview", { key: world.adminKey, query: { app_id: app.appId } });
		return { path: "/preview/show", body: { token: body[0].page_url.split("#")[1] } };
	},
	"POST /hooks/github/:id": async (world, app) => {
		const { id, secret } = await previewHook(world, app);
		const rawBody = new TextEncoder().encode("{}");
		const key = await crypto.subtle.importKey(
			"raw",
			new TextEncoder().encode(secret),
			{ name: "HMAC", hash: "SHA-256" },
			false,
			["sign"],
		);
		const signed = new Uint8Array(await crypto.subtle.sign("HMAC", key, rawBody));
		const signature = `sha256=${Array.from(signed, (byte) => byte.toString(16).padStart(2, "0")).join("")}`;
		const headers = { "x-github-event": "ping", "x-hub-signature-256": signature };
		return { path: `/hooks/github/${id}`, rawBody, headers };
	},
	"POST /hooks/gitlab/:id": async (world, app) => {
		const { id, secret } = await previewHook(world, app, "gitlab");
		return {
			path: `/hooks/gitlab/${id}`,
			rawBody: new TextEncoder().encode("{}"),
			headers: { "x-gitlab-token": secret },
		};
	},
	"GET /preview/channel": async (world, app) => {
		const { version } = await uploaded(world, app);
		const channel = fresh("previewed");
		await setTestChannel(world, app, channel, { version });
		await allowPreviews(world, app);
		return { path: "/preview/channel", query: { appId: app.appId, channel } };
	},
	"GET /preview/bundle": async (world, app) => {
		const { id } = await uploaded(world, app);
		await allowPreviews(world, app);
		return { path: "/preview/bundle", query: { appId: app.appId, versionId: String(id) } };
	},
	"POST /channel_self": async (world, app) => ({
		path: "/channel_self",
		body: { ...(await deviceOf(world, app)), channel: "absent" },
	}),
	"PUT /channel_self": async (world, app) => ({ path: "/channel_self", body: await deviceOf(world, app) }),
	"DELETE /channel_self": async (_, app) => ({
		path: "/channel_self",
		query: { app_id: app.appId, device_id: crypto.randomUUID() },
	}),
	"GET /channel_self": async (_, app) => ({ path: "/channel_self", query: { app_id: app.appId, platform: "android" } }),
	"POST /invitation/show": async (world) => ({
		path: "/invitation/show",
		body: { token: await invitationToken(world) },
	}),
	"POST /invitation/accept": async (world) => ({
		path: "/invitation/accept",
		body: { token: await invitationToken(world) },
	}),
	"POST /invitation/decline": async (world) => ({
		path: "/invitation/decline",
		body: { token: await invitationToken(world) },
	}),
	"GET /private/config": async () => ({ path: "/private/config" }),
	"GET /files/config": async () => ({ path: "/files/config" }),
};
