/**
 * The repository of a project at GitHub or GitLab, and the publishers that let its CI jobs release
 * without a secret. Repositories are trusted by their ids, which no rename or new owner of the name
 * changes, so the provider is asked for them.
 */
import { type CiSystem, jobClaims } from "../../src/client/ci-workflow";
import { CapstanError, type RequestOf } from "../../src/client/client";
import type { Server } from "./api";
import { FIRST_CHANNEL } from "./channels";
import type { Run } from "./command";
import { placeOf } from "./git";

const TIME_LIMIT_MS = 10_000;
const STAGES = [
	{ stage: "promote", name: "Releases" },
	{ stage: "preview", name: "Previews" },
] as const;

export interface Repository {
	/** Such as acme/shop. */
	readonly path: string;
	/** The issuer of its jobs' tokens; undefined: that of github.com or gitlab.com. */
	readonly issuer: string | undefined;
	/** The main branch. */
	readonly branch: string;
	/** Claims of its jobs' tokens. */
	readonly ids: Readonly<Record<string, string>>;
}

interface Found {
	readonly id?: number;
	readonly default_branch?: string;
	/** GitHub. */
	readonly owner?: { readonly id?: number };
	/** GitLab. */
	readonly namespace?: { readonly id?: number };
}

/** The token that the provider's own command would send to this host, and to no other. */
export function tokenFor(system: CiSystem, origin: string, environment: Run["environment"]) {
	const { GH_TOKEN, GITHUB_TOKEN, GH_HOST, GH_ENTERPRISE_TOKEN, GITLAB_TOKEN, GITLAB_HOST } = environment;
	if (system === "gitlab") return origin === `https://${GITLAB_HOST || "gitlab.com"}` ? GITLAB_TOKEN : undefined;
	const cloudToken = GH_TOKEN || GITHUB_TOKEN;
	if (origin === PUBLIC_ORIGINS.github) return cloudToken;
	if (origin !== `https://${GH_HOST}`) return undefined;
	return CLOUD_OF_REGION.test(origin) ? cloudToken : GH_ENTERPRISE_TOKEN;
}

const PUBLIC_ORIGINS = { github: "https://github.com", gitlab: "https://gitlab.com" } as const;
/** GitHub's cloud with the data in a region. */
const CLOUD_OF_REGION = /^https:\/\/[\w-]+\.ghe\.com$/;

/** A name without a dot is one of the configuration of SSH, which does not say what it stands for. */
export const isEnterpriseServer = (system: CiSystem, origin: string) =>
	system === "github" && origin !== PUBLIC_ORIGINS.github && !CLOUD_OF_REGION.test(origin) && /\./.test(origin);

/** The provider's API, and the issuer of its jobs' tokens unless it is that of the public host. */
function addressesOf(system: CiSystem, origin: string): { readonly api: string; readonly issuer: string | undefined } {
	const isPublic = origin === PUBLIC_ORIGINS[system];
	if (system === "gitlab") return { api: `${origin}/api/v4`, issuer: isPublic ? undefined : origin };
	if (isPublic) return { api: "https://api.github.com", issuer: undefined };
	if (!CLOUD_OF_REGION.test(origin)) return { api: `${origin}/api/v3`, issuer: `${origin}/_services/token` };
	const below = (name: string) => origin.replace("://", `://${name}.`);
	return { api: below("api"), issuer: below("token.actions") };
}

/**
 * Asks the provider; undefined if the repository is not public and no token of the environment may
 * read it, or there is none.
 */
export async function repositoryOf(run: Run, system: CiSystem): Promise<Repository | undefined> {
	const place = await placeOf(run.directory);
	if (place === undefined) return undefined;
	const { origin, path } = place;
	const { api, issuer } = addressesOf(system, origin);
	const url = system === "github" ? `${api}/repos/${path}` : `${api}/projects/${encodeURIComponent(path)}`;
	const token = tokenFor(system, origin, run.environment);
	run.terminal.progress(`Asking ${new URL(url).host} for the ids of ${path}`);
	const headers = {
		"user-agent": `capstan-cli/${run.version}`,
		...(token === undefined || token === "" ? {} : { authorization: `Bearer ${token}` }),
	};
	const found = await fetch(url, { headers, redirect: "manual", signal: AbortSignal.timeout(TIME_LIMIT_MS) })
		.then(async (answer) => (answer.ok ? ((await answer.json()) as Found) : undefined))
		.catch(() => undefined);
	const owner = system === "github" ? found?.owner?.id : found?.namespace?.id;
	if (found?.id === undefined || owner === undefined) return undefined;
	return {
		path,
		issuer,
		branch: found.default_branch ?? "main",
		ids:
			system === "github"
				? { repository_id: String(found.id), repository_owner_id: String(owner) }
				: { project_id: String(found.id), namespace_id: String(owner) },
	};
}

export type Trust = "added" | "exists" | "not_allowed";

/** Adds the publishers that the app is missing. */
export async function trustRepository(
	{ api }: Pick<Server, "api">,
	appId: string,
	system: CiSystem,
	{ issuer, ids }: Repository,
	jobs: Parameters<typeof jobClaims>[2],
): Promise<Trust> {
	try {
		const known = await api("GET /publisher", { query: { app_id: appId } });
		const missing = STAGES.map(({ stage, name }) => ({
			stage,
			name,
			claims: { ...ids, ...jobClaims(system, stage, jobs) },
		})).filter(
			({ stage, claims }) =>
				!known.some(
					(each) =>
						each.stage === stage && Object.entries(claims).every(([claim, text]) => each.claims[claim] === text),
				),
		);
		for (const publisher of missing) {
			const body: RequestOf<"POST /publisher">["body"] = { app_id: appId, provider: system, ...publisher };
			await api("POST /publisher", { body: issuer === undefined ? body : { ...body, issuer } });
		}
		// A key of a job creates no public channel, so its first release needs one.
		const channels = missing.length === 0 ? undefined : await api("GET /channel", { query: { app_id: appId } });
		if (Array.isArray(channels) && channels.length === 0) {
			await api("POST /channel", { body: { app_id: appId, channel: FIRST_CHANNEL, public: true } });
		}
		return missing.length === 0 ? "exists" : "added";
	} catch (error) {
		if (error instanceof CapstanError && error.status === 403) return "not_allowed";
		throw error;
	}
}
