/**
 * Keyless releases: jobs of a stand-in for GitHub and GitLab, which the server trusts, run the
 * action and the component.
 */
import { generateKeyPairSync, randomUUID } from "node:crypto";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type CapstanProject, createCapstanProject } from "./support/capstan-cli";
import { type CiProvider, startCiProvider } from "./support/ci-provider";
import { commandOf, runAction, runComponent } from "./support/ci-steps";
import { createProductApp, type Product, sharedProduct } from "./support/product";

let product: Product;
let provider: CiProvider;
beforeAll(async () => {
	product = await sharedProduct();
	provider = await startCiProvider();
});
afterAll(() => provider.stop());

/** The bundle that a device would get. */
async function received(appId: string): Promise<string | undefined> {
	const device = { device_id: randomUUID(), version_name: "builtin", version_build: "1.0.0", platform: "android" };
	return (await product.api("POST", "/updates", { app_id: appId, ...device, plugin_version: "8.51.23" })).body.version;
}

async function newProject(): Promise<{ readonly appId: string; readonly project: CapstanProject }> {
	const appId = product.newAppId();
	await createProductApp(product, appId);
	const project = await createCapstanProject(product, appId);
	delete project.environment.CAPSTAN_TOKEN;
	return { appId, project };
}

async function trust(appId: string, stage: string, system: "github" | "gitlab", claims: object): Promise<void> {
	const { status, body } = await product.api("POST", "/publisher", {
		app_id: appId,
		name: `${stage} of ${system}`,
		stage,
		provider: system,
		issuer: provider.url,
		claims,
	});
	expect(status, JSON.stringify(body)).toBe(201);
}

const IDS = { repository_owner: "acme", repository_owner_id: "123456" };
let repositories = 0;
/** The claims of a repository that no other test trusts. */
function newRepository() {
	repositories += 1;
	return { ...IDS, repository: `acme/shop-${repositories}`, repository_id: String(456_789 + repositories) };
}

describe("a GitHub job", () => {
	const jobOf = (repository: string) => ({
		CI: "true",
		GITHUB_ACTIONS: "true",
		GITHUB_REPOSITORY: repository,
		GITHUB_RUN_NUMBER: "57",
		GITHUB_RUN_ATTEMPT: "1",
		ACTIONS_ID_TOKEN_REQUEST_URL: `${provider.url}/token?api-version=2.0`,
		ACTIONS_ID_TOKEN_REQUEST_TOKEN: provider.bearer,
	});
	const tokenOf = (claims: ReturnType<typeof newRepository>) => ({
		...claims,
		sub: "anything",
		event_name: "push",
		ref: "refs/heads/main",
		ref_type: "branch",
		ref_protected: "true",
		workflow_ref: `${claims.repository}/.github/workflows/release.yml@refs/heads/main`,
		sha: "b".repeat(40),
		run_id: "1",
		run_number: "57",
		run_attempt: "1",
		actor: "mona",
		actor_id: "12",
	});

	test("releases without a secret where the app trusts its repository, and is refused with the reason elsewhere", async () => {
		const { appId, project } = await newProject();
		const claims = newRepository();
		const { repository_id, repository_owner_id } = claims;
		await trust(appId, "promote", "github", {
			repository_id,
			repository_owner_id,
			workflow_ref: "release.yml@refs/heads/main",
		});
		await product.api("POST", "/channel", { app_id: appId, channel: "production", public: true });
		provider.claims = tokenOf(claims);
		const place = { ...project, environment: jobOf(claims.repository) };
		const run = await runAction("release", { server: product.url, command: await commandOf(product) }, place);
		expect(run.code, run.log).toBe(0);
		expect(provider.audiences.at(-1)).toBe(product.url);
		for (const secret of [provider.bearer, "cap_", "eyJ"]) expect(run.log).not.toContain(secret);
		expect(await received(appId)).toBe("1.0.1");
		provider.claims = tokenOf(newRepository());
		const refused = await runAction("release", { server: product.url, command: await commandOf(product) }, place);
		expect(refused.code).toBe(4);
		expect(refused.log).toContain("no_matching_publisher");
	});

	test("releases with a promote or propose key although a publisher of previews trusts the same claims", async () => {
		const { appId, project } = await newProject();
		const claims = newRepository();
		const { repository_id, repository_owner_id } = claims;
		await trust(appId, "preview", "github", { repository_id, repository_owner_id });
		await product.api("POST", "/channel", { app_id: appId, channel: "production", public: true });
		provider.claims = tokenOf(claims);
		Object.assign(project.environment, jobOf(claims.repository));
		const onlyPreviews = await project.run("release", "--json");
		expect([onlyPreviews.code, onlyPreviews.json.error.code]).toEqual([4, "no_matching_publisher"]);
		expect(onlyPreviews.json.error.message).toContain("promote");
		expect((await product.api("GET", `/bundle?app_id=${appId}`)).body).toEqual([]);
		await trust(appId, "propose", "github", { repository_id, repository_owner_id, ref: "refs/heads/main" });
		const proposed = await project.run("release", "--json");
		expect([proposed.code, proposed.json.status], proposed.error).toEqual([3, "waiting_for_approval"]);
		await trust(appId, "promote", "github", { repository_id, repository_owner_id, ref: "refs/heads/main" });
		const audiences = provider.audiences.length;
		const run = await project.run("release", "--json");
		expect([run.code, run.json.status], run.error).toEqual([0, "live"]);
		expect(provider.audiences.length - audiences).toBe(1);
		expect(await received(appId)).toBe(run.json.version);
		const preview = await project.run("preview", "open", "--repository", "acme/shop", "--number", "7");
		expect(preview.error).toContain("a preview key");
	});

	test("without the permission to request a token exits with 4 and names the permission", async () => {
		const { project } = await newProject();
		project.environment.CI = "true";
		const without = await project.run("status", "--json");
		expect(without.json.error.code).toBe("missing_key");
		expect(without.json.error.message).toContain("identity token");
		Object.assign(project.environment, jobOf("acme/shop"), { ACTIONS_ID_TOKEN_REQUEST_TOKEN: "wrong" });
		const refused = await project.run("status", "--json");
		expect([refused.code, refused.json.error.code]).toEqual([4, "identity_token_unavailable"]);
		expect(refused.json.error.message).toContain("id-token: write");
	});
});

test("a GitLab job releases with the token of id_tokens, encrypted, so that each file belongs to its key", async () => {
	const { appId, project } = await newProject();
	const { privateKey } = generateKeyPairSync("rsa", { modulusLength: 2048 });
	await project.write(".capgo_key_v2", String(privateKey.export({ type: "pkcs1", format: "pem" })));
	await trust(appId, "promote", "gitlab", { project_id: "4711", namespace_id: "42", ref_path: "refs/heads/main" });
	await product.api("POST", "/channel", { app_id: appId, channel: "production", public: true });
	const CAPSTAN_ID_TOKEN = provider.token(product.url, {
		project_id: "4711",
		namespace_id: "42",
		project_path: "acme/shop",
		namespace_path: "acme",
		sub: "anything",
		pipeline_source: "push",
		pipeline_id: "5",
		job_id: "900",
		ref: "main",
		ref_type: "branch",
		ref_path: "refs/heads/main",
		ref_protected: "true",
		user_login: "mona",
		user_id: "12",
		sha: "b".repeat(40),
	});
	const environment = { CI: "true", GITLAB_CI: "true", CAPSTAN_ID_TOKEN };
	const run = await runComponent(
		"release",
		{ server: product.url, command: await commandOf(product), build: "echo built" },
		{ ...project, environment },
	);
	expect(run.code, run.log).toBe(0);
	expect(run.log).toContain("encrypted");
	expect(run.log).not.toContain(CAPSTAN_ID_TOKEN);
	expect(await received(appId)).toBe("1.0.1");
});
