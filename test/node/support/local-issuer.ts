/**
 * An issuer of identity tokens on loopback, as a CI provider is one on the internet: discovery,
 * keys, and GitHub's address for jobs. The product fetches its keys over HTTP.
 */
import { createSign, generateKeyPairSync, randomUUID } from "node:crypto";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";

export interface LocalIssuer {
	/** On loopback. */
	readonly url: string;
	/** A token of a job. `iss` may be another issuer, whose addresses lead here. */
	token(claims: Readonly<Record<string, unknown>>): string;
	/** The documents of an issuer, by their path. */
	document(issuer: string, path: string): unknown;
	/** Claims of the tokens that GitHub's address gives to jobs. */
	job: Readonly<Record<string, unknown>>;
	stop(): Promise<void>;
}

const KID = "local-1";
const CONFIGURATION = "/.well-known/openid-configuration";
const encode = (value: unknown) => Buffer.from(JSON.stringify(value)).toString("base64url");

export async function startLocalIssuer(): Promise<LocalIssuer> {
	const { privateKey, publicKey } = generateKeyPairSync("rsa", { modulusLength: 2048 });
	const jwk = { ...publicKey.export({ format: "jwk" }), kid: KID, alg: "RS256", use: "sig" };
	const server = createServer((request, response) => {
		const { pathname, searchParams } = new URL(request.url ?? "/", issuer.url);
		const isJob = pathname === "/token" && request.headers.authorization?.toLowerCase() === "bearer job-secret";
		const answer = isJob
			? { value: issuer.token({ ...issuer.job, aud: searchParams.get("audience") }) }
			: issuer.document(issuer.url, pathname);
		response.writeHead(answer === undefined ? 404 : 200, { "content-type": "application/json" });
		response.end(JSON.stringify(answer ?? {}));
	});
	await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
	const issuer: LocalIssuer = {
		url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
		job: {},
		token(claims) {
			const now = Math.floor(Date.now() / 1_000);
			const payload = { iss: issuer.url, jti: randomUUID(), iat: now, nbf: now, exp: now + 300, ...claims };
			const signed = `${encode({ typ: "JWT", alg: "RS256", kid: KID })}.${encode(payload)}`;
			return `${signed}.${createSign("RSA-SHA256").update(signed).sign(privateKey, "base64url")}`;
		},
		document(iss, path) {
			if (path.endsWith(CONFIGURATION)) return { issuer: iss, jwks_uri: `${iss}/keys` };
			return path.endsWith("/keys") ? { keys: [jwk] } : undefined;
		},
		stop: () => new Promise((resolve) => server.close(() => resolve())),
	};
	return issuer;
}

/** Answers of the APIs of GitHub and GitLab about public repositories; undefined: there is none. */
export function repositoryAnswer(url: string): object | undefined {
	switch (url) {
		case "https://api.github.com/repos/octo-org/octo-repo":
			return { id: 456_789, full_name: "octo-org/octo-repo", owner: { id: 123_456 }, default_branch: "main" };
		case "https://gitlab.com/api/v4/projects/group%2Fproject":
			return { id: 20, path_with_namespace: "group/project", namespace: { id: 72 }, default_branch: "trunk" };
		default:
			return undefined;
	}
}

/** A push to the main branch of a repository at GitHub. */
export const GITHUB_JOB = {
	sub: "repo:octo-org@123456/octo-repo@456789:ref:refs/heads/main",
	repository: "octo-org/octo-repo",
	repository_id: "456789",
	repository_owner: "octo-org",
	repository_owner_id: "123456",
	ref: "refs/heads/main",
	ref_type: "branch",
	head_ref: "",
	event_name: "push",
	sha: "b4f1234c5d6e7f8091a2b3c4d5e6f708192a3b4c",
	run_id: "1",
	run_attempt: "1",
	actor: "mona",
	workflow_ref: "octo-org/octo-repo/.github/workflows/release.yml@refs/heads/main",
} as const;
