/**
 * An app with publishers, and the exchange of a job's identity token for a key: the set-up of the
 * tests of POST /oidc/token. All state belongs to the running test file.
 */

import { createApp } from "../../../src/app";
import { createIssuer, IDS, networkOf, type ProviderName, signingKeys, type TestIssuer } from "../support/issuer";
import {
	createTestApp,
	createWorld,
	NOW_MS,
	requestThrough,
	type TestApp,
	testEnv,
	type World,
} from "../support/world";

export const GITHUB = "https://token.actions.githubusercontent.com";
export const seconds = NOW_MS / 1_000;

export let world: World;
export let app: TestApp;
export let github: TestIssuer;

/**
 * For `beforeAll`: a world whose network has GitHub and these issuers. The tests send more from one
 * address than a minute allows.
 */
export const createExchangeWorld = (...others: readonly TestIssuer[]) => createScene("0", others);

/** For `beforeAll`: the same with the limits of a deployment. */
export const createLimitedWorld = () => createScene("1", []);

async function createScene(limitScale: string, others: readonly TestIssuer[]): Promise<void> {
	await signingKeys();
	github = createIssuer("github", GITHUB);
	world = await createWorld({
		bindings: { fetch: networkOf(github, ...others) },
		config: { ADDRESS_LIMIT_SCALE: limitScale },
	});
}

/** For `beforeEach`: a new app, and issuers whose keys nobody fetched and no isolate has. */
export async function prepareExchange(): Promise<void> {
	Object.assign(world, { request: requestThrough(createApp({ ...world.deps })) });
	world.clock.nowMs = NOW_MS;
	app = await createTestApp(world);
	await testEnv.DB.prepare("DELETE FROM issuer_keys").run();
	Object.assign(github, { fetches: 0, fault: undefined, published: ["key-1", "key-2"] });
	github.discovery = { issuer: GITHUB, jwks_uri: `${GITHUB}/jwks` };
}

export async function publisher(
	fields: Record<string, unknown> = {},
	{ of = world, inApp = app, provider = "github" }: { of?: World; inApp?: TestApp; provider?: ProviderName } = {},
): Promise<{ id: string; key_id: string }> {
	const claims = { ...IDS[provider], ...(fields.claims as object) };
	const { status, body } = await of.request("POST", "/publisher", {
		key: of.adminKey,
		body: { app_id: inApp.appId, name: "CI", stage: "upload", provider, ...fields, claims },
	});
	if (status !== 201) throw new Error(`publisher not created: ${JSON.stringify(body)}`);
	return body;
}

// Fetching and storing keys takes two round trips more than an exchange with known keys.
export const exchange = (token: string, more: Record<string, unknown> = {}, of: World = world) =>
	of.request("POST", "/oidc/token", { body: { token, app_id: app.appId, ...more }, mostTrips: 4 });
