/**
 * An installation with data in most tables, made through the API: for claims about everything that
 * a backup has. `readEverything` asks every GET of the API that answers with stored data, in a form
 * that does not depend on the address and the time of the answer.
 */
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { expect, vi } from "vitest";
import { PROJECT_DIRECTORY } from "../../../src/operator/project";
import { answerOf, type Product, sha256, uploadProductBundle } from "./product";

export interface RichInstallation {
	readonly orgId: string;
	readonly app: string;
	readonly appUuid: string;
	readonly sampleUuid: string;
	readonly sampleApp: string;
	readonly cookie: string;
	readonly keyId: string;
	readonly groupId: string;
	readonly webhookId: string;
	/** A delivery of the webhook, with an attempt. */
	readonly deliveryId: string;
	/** The newest channel, which was deleted. */
	readonly goneChannelId: number;
}

type Body = Record<string, unknown>;

/** Signs the operator in; the cookie. */
async function signIn(product: Product): Promise<string> {
	const token = product.running.signInLink?.replace(/.*#token=/, "") ?? "";
	const origin = new URL(product.running.signInLink ?? "").origin;
	const response = await answerOf(`${origin}/sign-in/link`, {
		method: "POST",
		headers: { "content-type": "application/json", origin },
		body: JSON.stringify({ token }),
	});
	const [cookie = ""] = (response.headers.getSetCookie()[0] ?? "").split(";");
	if (response.status !== 200 || cookie === "") throw new Error(`not signed in: ${await response.text()}`);
	return cookie;
}

export async function createRichInstallation(product: Product): Promise<RichInstallation> {
	const { orgId } = product;
	const send = async (method: string, path: string, body: Body) => {
		const answer = await product.api(method, path, body);
		if (answer.status >= 300) throw new Error(`${method} ${path}: ${JSON.stringify(answer.body)}`);
		return answer.body;
	};
	const receiver = await startReceiver();
	const cookie = await signIn(product);
	const sample = await send("POST", "/app/sample", { owner_org: orgId });
	const app = product.newAppId();
	const { id: appUuid } = await send("POST", "/app", { app_id: app, name: "Rich 'app' — ☃\n--", owner_org: orgId });
	for (const version of ["1.0.0", "1.1.0", "1.2.0"]) await uploadProductBundle(product, app, version);
	await send("POST", "/bundle/metadata", {
		app_id: app,
		version: "1.1.0",
		comment: "It's 'quoted';\nnew line, \\n no new line, a tab\t and 🦊",
	});
	await uploadDelta(product, app, "1.3.0");
	await send("POST", "/bundle", { app_id: app, version: "9.0.0-pending" });
	await send("POST", "/channel", { app_id: app, channel: "production", version: "1.0.0", public: true });
	await send("POST", "/channel", { app_id: app, channel: "beta", version: "1.3.0", allow_device_self_set: true });
	await send("POST", "/channel", {
		app_id: app,
		channel: "production",
		rolloutVersion: "1.1.0",
		rolloutPercentageBps: 10_000,
		rolloutEnabled: true,
	});
	await send("POST", "/channel", { app_id: app, channel: "guarded", version: "1.0.0" });
	for (let device = 0; device < 5; device++) {
		const facts = {
			app_id: app,
			device_id: deviceId(device),
			platform: device % 2 === 0 ? "ios" : "android",
			version_build: "1.0.0",
			plugin_version: "8.51.23",
			is_prod: true,
			is_emulator: false,
		};
		await answerOf(
			`${product.url}/updates`,
			jsonPost({ ...facts, version_name: "builtin", custom_id: `user '${device}'` }),
		);
		await answerOf(
			`${product.url}/stats`,
			jsonPost({ ...facts, version_name: "1.0.0", old_version_name: "builtin", action: "set" }),
		);
	}
	await send("POST", "/device", { app_id: app, device_id: deviceId(0), channel: "beta" });
	const key = await send("POST", "/apikey", {
		name: "plain",
		hashed: false,
		bindings: [{ role_name: "app_developer", scope_type: "app", org_id: orgId, app_id: appUuid }],
	});
	const hook = { orgId, url: `${receiver.url}/secret/path`, description: "Receiver" };
	const webhook = await send("POST", "/webhook", { ...hook, events: [] });
	const group = await send("POST", "/organization/groups", { orgId, name: "Team", description: "" });
	await send("POST", `/organization/groups/${group.id}/bindings`, { role_name: "app_developer", app_id: app });
	await send("POST", "/organization/roles", {
		orgId,
		name: "app-auditor",
		title: "Auditor",
		description: "Reads",
		scope_type: "app",
		permissions: ["app.read", "app.read_audit"],
	});
	await send("POST", "/organization/members", { orgId, email: "somebody@example.com", role: "org_member" });
	await send("POST", "/preview", { app_id: app, repository: "acme/shop", number: 12, title: "A 'title'" });
	await send("POST", "/preview/hook", { app_id: app, provider: "github" });
	const claims = { repository: "acme/shop", repository_id: "42", repository_owner_id: "7" };
	await send("POST", "/publisher", { app_id: app, provider: "github", name: "CI", stage: "upload", claims });
	const other = await product.api("PUT", "/organization", { name: "Other" });
	await send("POST", "/app/transfer", { app_id: app, to_org: other.body.id });
	const deleted = product.newAppId();
	await send("POST", "/app", { app_id: deleted, name: "Deleted", owner_org: orgId });
	await fetch(`${product.running.pageUrl}/app/${deleted}`, {
		method: "DELETE",
		headers: { cookie, origin: product.running.pageUrl },
	});
	// The newest channel, so that only the counters of the database know its id.
	const gone = await send("POST", "/channel", { app_id: app, channel: "gone", version: "1.0.0" });
	await product.api("DELETE", `/channel?app_id=${app}&channel=gone`);
	await receiver.settled();
	const { body: deliveries } = await product.api("GET", `/webhook/delivery?orgId=${orgId}&id=${webhook.id}`);
	return {
		orgId,
		app,
		appUuid,
		cookie,
		keyId: key.id,
		groupId: group.id,
		webhookId: webhook.id,
		deliveryId: deliveries[0].id,
		goneChannelId: gone.id,
		sampleUuid: sample.id,
		sampleApp: sample.app_id,
	};
}

/** Answers webhooks, until no more arrive: what is stored of a delivery then changes no more. */
async function startReceiver() {
	let lastMs = Date.now();
	const server = createServer((request, response) => {
		lastMs = Date.now();
		request.resume();
		response.writeHead(204).end();
	});
	await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
	return {
		url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
		async settled() {
			await vi.waitFor(() => expect(Date.now() - lastMs).toBeGreaterThan(3_000), { timeout: 30_000, interval: 200 });
			server.closeAllConnections();
			server.close();
		},
	};
}

export const deviceId = (device: number) => `00000000-0000-4000-8000-00000000000${device}`;

const jsonPost = (body: Body): RequestInit => ({
	method: "POST",
	headers: { "content-type": "application/json" },
	body: JSON.stringify(body),
});

/** Uploads a bundle as single files, as the stock CLI does with `--delta-only`. */
async function uploadDelta(product: Product, app: string, version: string): Promise<void> {
	const { orgId, adminKey, url } = product;
	const manifest = [];
	for (const [name, content] of [
		["index.html", `<title>${version}</title>`],
		["empty.css", ""],
	] as const) {
		const hash = sha256(Buffer.from(content));
		const path = `orgs/${orgId}/apps/${app}/delta/${sha256(Buffer.from(hash))}_${name}`;
		const headers = { authorization: adminKey, "tus-resumable": "1.0.0" };
		const created = await answerOf(`${url}/files/upload/attachments`, {
			method: "POST",
			headers: { ...headers, "upload-length": String(content.length), "upload-metadata": `filename ${btoa(path)}` },
		});
		if (created.status !== 201) throw new Error(`not created: ${await created.text()}`);
		if (content !== "") {
			const sent = await answerOf(created.headers.get("location") ?? "", {
				method: "PATCH",
				headers: { ...headers, "upload-offset": "0", "content-type": "application/offset+octet-stream" },
				body: content,
			});
			if (sent.status !== 204) throw new Error(`not sent: ${await sent.text()}`);
		}
		manifest.push({ file_name: name, s3_path: path, file_hash: hash });
	}
	await product.api("POST", "/bundle", { app_id: app, version });
	await product.api("POST", "/private/set_manifest", { app_id: app, name: version, manifest });
	const { status, body } = await product.api("POST", "/private/finalize_bundle_upload", { app_id: app, name: version });
	if (status !== 200) throw new Error(`not finalized: ${JSON.stringify(body)}`);
}

/**
 * Operations that answer with nothing stored, or only to a link. The stock CLI's own requests
 * answer with the rows of the others.
 */
const NOT_READ = new Set([
	"/",
	"/command/{file}",
	"/files/config",
	"/files/download/{app}/{upload}/{part}",
	"/files/read/attachments/{path}",
	"/files/upload/attachments/{id}",
	"/preview/bundle",
	"/preview/channel",
	"/private/config",
	"/service/addresses",
	"/service/status",
	"/sign-in/methods",
	"/sign-in/provider/{provider}",
	"/sign-in/provider/{provider}/callback",
	"/updates",
]);

const QUERIES: Readonly<Record<string, string>> = {
	"/bundle/compatibility": "version=1.1.0&channel=production",
	"/bundle/difference": "version=1.1.0&base=1.0.0",
	"/bundle/download": "version=1.1.0",
	"/bundle/files": "version=1.3.0",
	"/bundle/list": "app_id=$app",
	"/channel/approvers": "channel=production",
	"/channel/history": "channel=production",
	"/channel/rollout": "channel=production",
	"/channel_self": "platform=ios",
	"/device/list": "app_id=$app",
	"/device/explain": `device_id=${deviceId(0)}`,
	"/preview/link": "version=1.1.0",
	"/release": "channel=production&id=1.0.0",
	"/statistics/app/{app_id}/channels": "channel_ids=1,2",
};

/** GET operations of test/api-surface.txt with the names of their query. */
function operations(): { path: string; query: string[] }[] {
	const surface = readFileSync(join(PROJECT_DIRECTORY, "test/api-surface.txt"), "utf8");
	return [...surface.matchAll(/^(\S+) GET \[[^\]]*\](?: query\(([^)]*)\))?/gm)]
		.map(([, path = "", query = ""]) => ({ path, query: query.split(" ") }))
		.filter(({ path }) => !NOT_READ.has(path) && !path.startsWith("/compat/capgo-cli/rest/"));
}

/** Answers by request, without what depends on the time and the address. */
export async function readEverything(product: Product, rich: RichInstallation): Promise<Record<string, unknown>> {
	const answers: Record<string, unknown> = {};
	for (const { path, query } of operations()) {
		for (const app of [
			{ id: rich.app, uuid: rich.appUuid },
			{ id: rich.sampleApp, uuid: rich.sampleUuid },
		]) {
			const id = path.startsWith("/apikey") ? rich.keyId : rich.groupId;
			const target = path
				.replace("{app_id}", app.id)
				.replace("{org_id}", rich.orgId)
				.replace("{id}", path === "/private/groups/{id}" ? rich.orgId : id);
			const given: Record<string, string> = {
				app_id: app.id,
				orgId: rich.orgId,
				id: path === "/webhook/delivery/attempts" ? rich.deliveryId : rich.webhookId,
				webhookId: rich.webhookId,
			};
			const parameters = query
				.filter((name) => given[name.replace("?", "")] !== undefined)
				.filter((name) => !(name === "webhookId?" || (name === "app_id?" && path !== "/webhook")))
				.filter((name) => !(name === "id" && path === "/release"))
				.map((name) => `${name.replace("?", "")}=${given[name.replace("?", "")]}`);
			const more = QUERIES[path]?.replace("$app", app.id).replace("$org", rich.orgId);
			const address = `${target}?${[...parameters, ...(more === undefined ? [] : [more])].join("&")}`;
			if (address in answers) continue;
			const ownSession = path.startsWith("/account");
			const response = await answerOf(`${ownSession ? product.running.pageUrl : product.url}${address}`, {
				headers: ownSession ? { cookie: rich.cookie } : { authorization: product.adminKey },
			});
			answers[address] = { status: response.status, body: stable(await response.text()) };
		}
	}
	return answers;
}

function stable(text: string): string {
	return text
		.replaceAll(/(expires|signature)=[\w-]+/g, "$1=…")
		.replaceAll(/https?:\/\/(127\.0\.0\.1|localhost):\d+/g, "http://here")
		.replaceAll(/"(requestId|expires_at|recent_sign_in_until|last_used_at|now)":"[^"]*"/g, '"$1":"…"');
}
