/**
 * The repository of a project at GitHub or GitLab, and the publishers that let its CI jobs release
 * without a secret. Repositories are trusted by their ids, which no rename or new owner of the name
 * changes, so the provider is asked for them.
 */
import { type CiSystem, jobClaims } from "../../src/client/ci-workflow";
import { CapstanError, type RequestOf } from "../../src/client/client";
import {
	isRegionalCloud,
	REPOSITORY_HOSTS,
	repositoryAddress,
	repositoryIn,
	tokenIssuerOf,
} from "../../src/domain/ci/repository";
import type { Server } from "./api";
import { FIRST_CHANNEL } from "./channels";
import type { Run } from "./command";
import { placeOf } from "./git";
import { REPOSITORY_PATH } from "./pull-request";

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

/** The token that the provider's own command would send to this host, and to no other. */
export function tokenFor(system: CiSystem, origin: string, environment: Run["environment"]) {
	const { GH_TOKEN, GITHUB_TOKEN, GH_HOST, GH_ENTERPRISE_TOKEN, GITLAB_TOKEN, GITLAB_HOST } = environment;
	if (system === "gitlab") return origin === `https://${GITLAB_HOST || "gitlab.com"}` ? GITLAB_TOKEN : undefined;
	const cloudToken = GH_TOKEN || GITHUB_TOKEN;
	if (origin === REPOSITORY_HOSTS.github) return cloudToken;
	if (origin !== `https://${GH_HOST}`) return undefined;
	return isRegionalCloud(origin) ? cloudToken : GH_ENTERPRISE_TOKEN;
}

/** A name without a dot is one of the configuration of SSH, which does not say what it stands for. */
export const isEnterpriseServer = (system: CiSystem, origin: string) =>
	system === "github" && origin !== REPOSITORY_HOSTS.github && !isRegionalCloud(origin) && /\./.test(origin);

/**
 * Asks the provider; undefined if the repository is not public and no token of the environment may
 * read it, or there is none.
 */
export async function repositoryOf(run: Run, system: CiSystem): Promise<Repository | undefined> {
	const place = await placeOf(run.directory);
	if (place === undefined) return undefined;
	const { origin, path } = place;
	const url = repositoryAddress(system, origin, path);
	if (!REPOSITORY_PATH.test(path) || !URL.canParse(url)) return undefined;
	const token = tokenFor(system, origin, run.environment);
	run.terminal.progress(`Asking ${new URL(url).host} for the ids of ${path}`);
	const headers = {
		"user-agent": `capstan-cli/${run.version}`,
		...(token === undefined || token === "" ? {} : { authorization: `Bearer ${token}` }),
	};
	const found = await fetch(url, { headers, redirect: "manual", signal: AbortSignal.timeout(TIME_LIMIT_MS) })
		.then(async (answer) => (answer.ok ? repositoryIn(system, path, await answer.json()) : undefined))
		.catch(() => undefined);
	if (found === undefined) return undefined;
	return {
		path,
		issuer: tokenIssuerOf(system, origin),
		branch: found.defaultBranch ?? "main",
		ids: found.claims,
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
