/**
 * A local issuer of identity tokens that plays each CI provider: discovery and keys over the test's
 * `fetch`, two signing keys, rotation, outages, and tokens with any claims.
 */
import { NOW_MS, ORIGIN } from "./world";

export type ProviderName = "github" | "gitlab" | "circleci" | "buildkite" | "oidc";

const seconds = Math.floor(NOW_MS / 1_000);
let tokens = 0;

const CIRCLE = "oidc.circleci.com/";

/** The payloads of protocols.md: a push to the main branch. */
export const PAYLOADS: Readonly<Record<ProviderName, Readonly<Record<string, unknown>>>> = {
	github: {
		sub: "repo:octo-org@123456/octo-repo@456789:ref:refs/heads/main",
		repository: "octo-org/octo-repo",
		repository_id: "456789",
		repository_visibility: "private",
		repository_owner: "octo-org",
		repository_owner_id: "123456",
		head_ref: "",
		base_ref: "",
		ref: "refs/heads/main",
		ref_type: "branch",
		ref_protected: "true",
		event_name: "push",
		sha: "b4f1234c5d6e7f8091a2b3c4d5e6f708192a3b4c",
		workflow: "Release",
		environment: "Production",
		workflow_ref: "octo-org/octo-repo/.github/workflows/release.yml@refs/heads/main",
		job_workflow_ref: "octo-org/octo-repo/.github/workflows/release.yml@refs/heads/main",
		run_id: "1",
		run_number: "1",
		run_attempt: "1",
		runner_environment: "github-hosted",
		actor: "mona",
		actor_id: "12",
	},
	gitlab: {
		sub: "project_path:group/project:ref_type:branch:ref:main",
		namespace_id: "72",
		namespace_path: "group",
		project_id: "20",
		project_path: "group/project",
		user_id: "1",
		user_login: "sample-user",
		pipeline_id: "574",
		pipeline_source: "push",
		job_id: "302",
		ref: "main",
		ref_type: "branch",
		ref_path: "refs/heads/main",
		ref_protected: "true",
		runner_id: 1,
		sha: "714a629c0b401fdce83e847fc9589983fc6f46bc",
		ci_config_ref_uri: "gitlab.example.com/group/project//.gitlab-ci.yml@refs/heads/main",
	},
	circleci: {
		sub: "org/8c2f/project/5d1e/user/9f3a/vcs-origin/github.com/octo-org/octo-repo/vcs-ref/refs/heads/main",
		[`${CIRCLE}project-id`]: "5d1e6a3c-0000-4000-8000-000000000001",
		[`${CIRCLE}vcs-origin`]: "github.com/octo-org/octo-repo",
		[`${CIRCLE}vcs-ref`]: "refs/heads/main",
		[`${CIRCLE}context-ids`]: ["ctx-1", "ctx-2"],
		[`${CIRCLE}ssh-rerun`]: false,
	},
	buildkite: {
		sub: "organization:acme:pipeline:app:ref:refs/heads/main:commit:abc:step:build",
		organization_slug: "acme",
		pipeline_slug: "app",
		organization_id: "org-uuid",
		pipeline_id: "pipeline-uuid",
		build_number: 12,
		build_branch: "main",
		build_commit: "abc1234def",
		step_key: null,
		job_id: "j",
		agent_id: "a",
	},
	oidc: { sub: "job-1", project: "p-77", sha: "cafe1234" },
};

/** Claims that identify the repository of each payload. */
export const IDS: Readonly<Record<ProviderName, Readonly<Record<string, string>>>> = {
	github: { repository_id: "456789", repository_owner_id: "123456" },
	gitlab: { project_id: "20", namespace_id: "72" },
	circleci: { [`${CIRCLE}project-id`]: "5d1e6a3c-0000-4000-8000-000000000001" },
	buildkite: { pipeline_id: "pipeline-uuid", organization_id: "org-uuid" },
	oidc: { project: "p-77" },
};

const encode = (bytes: Uint8Array | string) =>
	btoa(typeof bytes === "string" ? unescape(encodeURIComponent(bytes)) : String.fromCharCode(...bytes))
		.replace(/\+/g, "-")
		.replace(/\//g, "_")
		.replace(/=+$/, "");

const RSA = {
	name: "RSASSA-PKCS1-v1_5",
	hash: "SHA-256",
	modulusLength: 2048,
	publicExponent: new Uint8Array([1, 0, 1]),
};

async function createKey(kid: string) {
	const pair = (await crypto.subtle.generateKey(RSA, true, ["sign", "verify"])) as CryptoKeyPair;
	const jwk = (await crypto.subtle.exportKey("jwk", pair.publicKey)) as JsonWebKey;
	return { kid, privateKey: pair.privateKey, jwk: { kty: "RSA", use: "sig", alg: "RS256", kid, n: jwk.n, e: jwk.e } };
}

// Creating keys is slow, so all issuers share them; each publishes those that it lists.
let keys: Promise<Awaited<ReturnType<typeof createKey>>[]> | undefined;
export const signingKeys = () => (keys ??= Promise.all(["key-1", "key-2", "foreign"].map(createKey)));

export interface TokenOptions {
	readonly kid?: string;
	/** The key that signs, where it is another one than `kid`. */
	readonly signer?: string;
	readonly header?: Readonly<Record<string, unknown>>;
}

export interface TestIssuer {
	readonly issuer: string;
	/** Kids that the key set lists. */
	published: string[];
	/** Requests of the discovery document. */
	fetches: number;
	/** Answer to the next requests instead of documents. */
	fault: (() => Response | Promise<Response>) | undefined;
	discovery: Record<string, unknown>;
	/**
	 * A token of a job; `claims` replace those of the provider's payload, and undefined ones are left
	 * out.
	 */
	token(claims?: Record<string, unknown>, options?: TokenOptions): Promise<string>;
	fetch(url: string): Promise<Response | undefined>;
}

export function createIssuer(provider: ProviderName, issuer: string): TestIssuer {
	const self: TestIssuer = {
		issuer,
		published: ["key-1", "key-2"],
		fetches: 0,
		fault: undefined,
		discovery: { issuer, jwks_uri: `${issuer}/jwks` },
		async token(claims = {}, { kid = "key-1", signer = kid, header = {} } = {}) {
			tokens += 1;
			const payload = {
				iss: issuer,
				aud: ORIGIN,
				jti: `jti-${tokens}-${crypto.randomUUID()}`,
				iat: seconds,
				nbf: seconds - 300,
				exp: seconds + 300,
				...PAYLOADS[provider],
				...claims,
			};
			const signed = `${encode(JSON.stringify({ typ: "JWT", alg: "RS256", kid, ...header }))}.${encode(JSON.stringify(payload))}`;
			const key = (await signingKeys()).find((one) => one.kid === signer);
			if (key === undefined) throw new Error(`no key ${signer}`);
			const signature = await crypto.subtle.sign(RSA.name, key.privateKey, new TextEncoder().encode(signed));
			return `${signed}.${encode(new Uint8Array(signature))}`;
		},
		async fetch(url) {
			if (!url.startsWith(issuer)) return undefined;
			const isDiscovery = url === `${issuer}/.well-known/openid-configuration`;
			if (isDiscovery) self.fetches += 1;
			if (self.fault !== undefined) return self.fault();
			if (isDiscovery) return Response.json(self.discovery);
			const all = await signingKeys();
			return Response.json({ keys: all.filter(({ kid }) => self.published.includes(kid)).map(({ jwk }) => jwk) });
		},
	};
	return self;
}

/** The network of a world: these issuers and nothing else. */
export function networkOf(...issuers: readonly TestIssuer[]) {
	return async (url: string): Promise<Response> => {
		for (const issuer of issuers) {
			const answer = await issuer.fetch(url);
			if (answer !== undefined) return answer;
		}
		throw new Error(`no such host: ${url}`);
	};
}

export { encode as base64Url };
