/**
 * An app that trusts the jobs of a repository with previews: keys of jobs for pull requests,
 * uploads with them, and the previews, channels and offers that result. Each test has a pull
 * request of its own, `number`.
 */
import { expect } from "vitest";
import { query } from "../../../src/db/client";
import { putBytes, rows } from "../support/bytes";
import { createIssuer, IDS, networkOf, type ProviderName, signingKeys, type TestIssuer } from "../support/issuer";
import {
	createTestApp,
	createWorld,
	NOW_MS,
	setTestChannel,
	type TestApp,
	uploadTestBundle,
	type World,
} from "../support/world";
import { bundleOf } from "../support/zip";

export const REPOSITORY = "octo-org/octo-repo";
const BYTES = bundleOf(300);
export let world: World;
export let app: TestApp;
export let github: TestIssuer;
export let gitlab: TestIssuer;
export let number = 100;

export type Client = Pick<World, "request">;
export type Fields = Record<string, unknown>;

export async function trust(provider: ProviderName = "github", stage = "preview", inApp = app): Promise<void> {
	const body = { app_id: inApp.appId, name: stage, stage, provider, claims: IDS[provider] };
	expect((await world.request("POST", "/publisher", { key: world.adminKey, body })).status).toBe(201);
}

/** The key of a job of the pull request. */
export async function jobOf(pullRequest = number, claims: Fields = {}, inApp = app): Promise<string> {
	const token = await github.token({
		event_name: "pull_request",
		ref: `refs/pull/${pullRequest}/merge`,
		head_ref: "feature",
		...claims,
	});
	return exchanged(token, inApp);
}

/** The key of a job that GitHub runs for a pull request from this branch after the merge. */
export const mergedJobOf = async (branch: string, claims: Fields = {}) =>
	exchanged(
		await github.token({
			event_name: "pull_request",
			ref: "refs/heads/main",
			head_ref: branch,
			base_ref: "main",
			...claims,
		}),
	);

/** The key of a job of GitLab for a merge request from this branch. */
export const gitlabJobOf = async (branch: string, claims: Fields = {}, inApp = app) =>
	exchanged(
		await gitlab.token({
			pipeline_source: "merge_request_event",
			ref: branch,
			ref_path: `refs/heads/${branch}`,
			sub: `project_path:group/project:ref_type:branch:ref:${branch}`,
			...claims,
		}),
		inApp,
	);

export async function exchanged(token: string, inApp = app): Promise<string> {
	const { status, body } = await world.request("POST", "/oidc/token", {
		body: { token, app_id: inApp.appId, stage: "preview" },
		mostTrips: 4,
	});
	expect(status, JSON.stringify(body)).toBe(200);
	return body.token;
}

/**
 * The job's first request that writes, as the stock CLI sends it; one round trip more than others,
 * because it reads the preview.
 */
export const register = (key: string, version: string, { client = world as Client, of = app } = {}) =>
	client.request("POST", "/compat/capgo-cli/rest/v1/app_versions", {
		key,
		query: { on_conflict: "name,app_id" },
		body: { app_id: of.appId, name: version, storage_provider: "r2-direct" },
		mostTrips: 8,
	});
export const promote = (key: string, version: string, channel = `pr-${number}`) =>
	world.request("POST", "/channel", { key, body: { app_id: app.appId, channel, version } });
/** An upload with the public API, until the bundle is ready. */
export async function upload(key: string, version: string, client: Client = world) {
	const registered = await client.request("POST", "/bundle", {
		key,
		body: { app_id: app.appId, version },
		mostTrips: 8,
	});
	if (registered.status !== 201) return registered;
	return putBytes(client, registered.body.upload_url, BYTES);
}
export const close = (fields: Record<string, string> = {}, key = world.adminKey) =>
	world.request("DELETE", "/preview", {
		key,
		query: { app_id: app.appId, repository: REPOSITORY, number: String(number), ...fields },
	});
export const list = async (of = app, query: Record<string, string> = {}) =>
	(await world.request("GET", "/preview", { key: world.adminKey, query: { app_id: of.appId, ...query } })).body;
export const show = async () => (await list(app, { repository: REPOSITORY, number: String(number) }))[0];
export const channelNames = (of = app) =>
	rows(query.selectFrom("channels").select("name").where("app_id", "=", of.uuid).orderBy("name"));
export const bundleNamed = (name: string) =>
	rows(
		query
			.selectFrom("bundles")
			.select(["name", "preview_id"])
			.where("app_id", "=", app.uuid)
			.where("name", "=", name)
			.where("deleted_at_ms", "is", null),
	);
export const offered = async (defaultChannel: string) => {
	const device = { app_id: app.appId, device_id: crypto.randomUUID(), platform: "android", defaultChannel };
	const versions = { version_name: "builtin", version_build: "0.9.0", plugin_version: "8.51.23" };
	return (await world.request("POST", "/updates", { body: { ...device, ...versions } })).body.version;
};
export const at = (ms: number) => new Date(ms).toISOString();
export const CLOSED = { status: 409, body: { error: "preview_closed" } };

/** Another pull request. */
export function nextRequest(): void {
	selectRequest(number + 1);
}

export function selectRequest(another: number): void {
	number = another;
}

/** For `beforeAll`. */
export async function prepareJobs(): Promise<void> {
	await signingKeys();
	github = createIssuer("github", "https://token.actions.githubusercontent.com");
	gitlab = createIssuer("gitlab", "https://gitlab.com");
	world = await createWorld({ bindings: { fetch: networkOf(github, gitlab) }, config: { ADDRESS_LIMIT_SCALE: "0" } });
	app = await createTestApp(world);
	await trust();
	await uploadTestBundle(world, app, "1.0.0");
	await setTestChannel(world, app, "production", { public: true, version: "1.0.0" });
}

/** For `beforeEach`. */
export function startRequest(): void {
	nextRequest();
	world.clock.nowMs = NOW_MS;
}
