/**
 * A stand-in for GitHub and GitLab: it issues identity tokens that a local server verifies, and
 * keeps comments of pull requests. It checks what the real ones check: the bearer, the token for
 * comments, and the shape of each request.
 */
import { createSign, generateKeyPairSync, randomUUID } from "node:crypto";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";

export interface StoredComment {
	readonly id: number;
	body: string;
	/** GitHub has a `user`, and GitLab an `author`. */
	readonly user?: Writer;
	readonly author?: Writer;
}

interface Writer {
	readonly id: number;
	readonly type?: "Bot" | "User";
	readonly login?: string;
}

/** The token of a GitHub job belongs to a bot that may not ask who it is. */
const GITHUB_BOT: Writer = { id: 41_898_282, type: "Bot", login: "github-actions[bot]" };
export const GITLAB_BOT: Writer = { id: 77 };

export interface CiProvider {
	/**
	 * Issuer of tokens, and base of GitHub's API; GitLab's is below `/api/v4`. A GitHub Enterprise has
	 * its issuer below `/_services/token`.
	 */
	readonly url: string;
	/** By `owner/name#number` on GitHub, by `project!number` on GitLab. */
	readonly comments: Map<string, StoredComment[]>;
	/** Bearer of token requests, and token for comments. */
	readonly bearer: string;
	/** A token that may read comments and write none. */
	readonly reader: string;
	/** Audiences that were asked for. */
	readonly audiences: string[];
	/** A signed token. */
	token(audience: string, claims: Readonly<Record<string, string>>): string;
	/** Claims of the token that the next job gets. */
	claims: Readonly<Record<string, string>>;
	stop(): Promise<void>;
}

/** Public ones; the paths are those of GitHub Enterprise and of GitLab. */
const REPOSITORIES: Readonly<Record<string, object>> = {
	"/api/v3/repos/acme/own": { id: 9, owner: { id: 8 }, default_branch: "trunk" },
	"/api/v4/projects/acme%2Fown": { id: 4713, namespace: { id: 43 }, default_branch: "trunk" },
};

const base64Url = (value: object) => Buffer.from(JSON.stringify(value)).toString("base64url");

export async function startCiProvider(): Promise<CiProvider> {
	const { privateKey, publicKey } = generateKeyPairSync("rsa", { modulusLength: 2048 });
	const jwk = { ...publicKey.export({ format: "jwk" }), kid: "key-1", alg: "RS256", use: "sig" };
	const comments: CiProvider["comments"] = new Map();
	const audiences: string[] = [];
	const [bearer, reader] = [randomUUID(), randomUUID()];
	let ids = 0;
	const answerTo = (method: string, url: URL, headers: Record<string, unknown>, body: string): [number, unknown] => {
		const [, path] = /^(|\/_services\/token)\/\.well-known\/openid-configuration$/.exec(url.pathname) ?? [];
		if (path !== undefined) return [200, { issuer: `${provider.url}${path}`, jwks_uri: `${provider.url}/jwks` }];
		const repository = REPOSITORIES[url.pathname];
		if (repository !== undefined) return [200, repository];
		if (url.pathname === "/jwks") return [200, { keys: [jwk] }];
		const isAllowed = headers.authorization === `Bearer ${bearer}` || headers["private-token"] === bearer;
		const isReader = headers.authorization === `Bearer ${reader}`;
		if (isReader && !["GET", "HEAD"].includes(method))
			return [403, { message: "Resource not accessible by integration" }];
		if (!isAllowed && !isReader) return [401, { message: "Bad credentials" }];
		if (url.pathname === "/token") {
			const audience = url.searchParams.get("audience") ?? "";
			audiences.push(audience);
			return [200, { value: provider.token(audience, provider.claims) }];
		}
		if (url.pathname === "/user") return [403, { message: "Resource not accessible by integration" }];
		if (url.pathname === "/api/v4/user") return [200, GITLAB_BOT];
		const github = /^\/repos\/([^/]+\/[^/]+)\/issues\/(?:(\d+)\/comments|comments\/(\d+))$/.exec(url.pathname);
		const gitlab = /^\/api\/v4\/projects\/(\d+)\/merge_requests\/(\d+)\/notes(?:\/(\d+))?$/.exec(url.pathname);
		if (github === null && gitlab === null) return [404, { message: "Not Found" }];
		const id = Number(github?.[3] ?? gitlab?.[3] ?? 0);
		const thread =
			id > 0
				? ([...comments].find(([, list]) => list.some((comment) => comment.id === id))?.[0] ?? "")
				: github === null
					? `${gitlab?.[1]}!${gitlab?.[2]}`
					: `${github[1]}#${github[2]}`;
		const list = comments.get(thread) ?? [];
		if (method === "GET") {
			const [size, page] = [Number(url.searchParams.get("per_page") ?? 20), Number(url.searchParams.get("page") ?? 1)];
			return [200, list.slice(size * (page - 1), size * page)];
		}
		const known = list.find((comment) => comment.id === id);
		if (method === "POST") {
			ids += 1;
			const writer = github === null ? { author: GITLAB_BOT } : { user: GITHUB_BOT };
			const comment = { id: ids, body: JSON.parse(body).body as string, ...writer };
			comments.set(thread, [...list, comment]);
			return [201, { ...comment, html_url: `${provider.url}/comment/${ids}` }];
		}
		if (known === undefined) return [404, { message: "Not Found" }];
		if (method === "DELETE") {
			comments.set(
				thread,
				list.filter((comment) => comment !== known),
			);
			return [204, undefined];
		}
		if (method !== (github === null ? "PUT" : "PATCH")) return [405, {}];
		known.body = JSON.parse(body).body;
		return [200, { ...known, html_url: `${provider.url}/comment/${id}` }];
	};
	const server = createServer(async (request, response) => {
		const url = new URL(request.url ?? "", provider.url);
		const [status, body] = answerTo(request.method ?? "", url, request.headers, await text(request));
		response
			.writeHead(status, { "content-type": "application/json" })
			.end(body === undefined ? undefined : JSON.stringify(body));
	});
	await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
	const provider: CiProvider = {
		url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
		comments,
		audiences,
		bearer,
		reader,
		claims: {},
		token(audience, claims) {
			const nowS = Math.floor(Date.now() / 1000);
			const times = { iat: nowS, nbf: nowS - 10, exp: nowS + 300, jti: randomUUID() };
			const signed = `${base64Url({ alg: "RS256", typ: "JWT", kid: "key-1" })}.${base64Url({ iss: provider.url, aud: audience, ...times, ...claims })}`;
			return `${signed}.${createSign("RSA-SHA256").update(signed).sign(privateKey, "base64url")}`;
		},
		stop: () =>
			new Promise((resolve) => {
				server.close(() => resolve());
				server.closeAllConnections();
			}),
	};
	return provider;
}
