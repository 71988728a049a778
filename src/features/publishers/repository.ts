/**
 * POST /publisher/repository: the ids of a public repository, so that nobody has to find them. The
 * server asks the provider and nobody else, changes nothing, and an answer that does not come is no
 * error: the ids can be entered by hand.
 */
import * as v from "valibot";
import type { Deps } from "../../deps";
import { REPOSITORY_PATH } from "../../domain/ci/context";
import { type FoundRepository, REPOSITORY_HOSTS, repositoryAddress, repositoryIn } from "../../domain/ci/repository";
import { causeText } from "../../errors";
import { endpoint } from "../../http/endpoint";
import { countFetch } from "../../http/limits/requests";
import { publicAppId, text } from "../../http/schemas";
import { appScope } from "../../http/scope";
import { readJson } from "./read-json";
import { EXAMPLE_PUBLISHER, PUBLISHERS_TAG } from "./record";
import { MANAGES_PUBLISHERS } from "./rights";

const TIME_LIMIT_MS = 5_000;
const HOSTS = ["github", "gitlab"] as const;
const STATES = ["found", "not_found", "unavailable"] as const;
/** A name of GitHub is of exactly two parts, and a path of GitLab of two or more. */
const PARTS = { github: /^[^/]+\/[^/]+$/, gitlab: /^[^/]+\/.+$/ };

/** The beginning of an address, with the provider that it names. */
const ADDRESS = /^https:\/\/(?:www\.)?(github|gitlab)\.com\//;

const pathIn = (entered: string) => entered.replace(ADDRESS, "").replace(/(\.git)?\/*$/, "");

const repositoryField = v.pipe(
	text(512),
	v.check(
		(entered) => REPOSITORY_PATH.test(pathIn(entered)),
		"must be owner/repository, or the address of the repository",
	),
);

/** At another provider the same path may be the repository of a stranger. */
const isAtProvider = (provider: string, entered: string) => (ADDRESS.exec(entered)?.[1] ?? provider) === provider;

const EXAMPLE_REPOSITORY = "octo-org/octo-repo";

export const findRepository = endpoint({
	method: "POST",
	path: "/publisher/repository",
	tag: PUBLISHERS_TAG,
	summary: "Find the ids of a public repository, for the claims of a publisher",
	description: [
		"The server asks github.com or gitlab.com.",
		"`not_found` includes private repositories, and `unavailable` means that the provider did not answer.",
	],
	access: { permission: MANAGES_PUBLISHERS, scope: appScope("body.app_id") },
	refusesUnknown: true,
	body: v.pipe(
		v.object({
			app_id: publicAppId,
			provider: v.picklist(HOSTS, `must be one of ${HOSTS.join(", ")}`),
			repository: repositoryField,
		}),
		v.forward(
			v.check(
				({ provider, repository }) => isAtProvider(provider, repository),
				"is an address of the other provider; choose that one",
			),
			["repository"],
		),
		v.forward(
			v.check(({ provider, repository }) => PARTS[provider].test(pathIn(repository)), "must be owner/repository"),
			["repository"],
		),
	),
	response: v.strictObject({
		state: v.picklist(STATES),
		/** As the provider writes it. */
		repository: v.string(),
		default_branch: v.nullable(v.string()),
		claims: v.nullable(v.record(v.string(), v.string())),
	}),
	errors: [],
	example: {
		body: { app_id: EXAMPLE_PUBLISHER.app_id, provider: "github", repository: EXAMPLE_REPOSITORY },
		response: {
			state: "found" as const,
			repository: EXAMPLE_REPOSITORY,
			default_branch: "main",
			claims: { repository_id: "456789", repository_owner_id: "123456" },
		},
	},
	async handle({ deps, principal, input }) {
		const { provider } = input.body;
		const repository = pathIn(input.body.repository);
		const caller = principal.keyId ?? principal.userId;
		await countFetch(deps, `repository ${caller}`, "This caller has asked for too many repositories");
		const found = await ask(deps, provider, repository);
		if (typeof found === "string") return { state: found, repository, default_branch: null, claims: null };
		return {
			state: "found" as const,
			repository: found.path,
			default_branch: found.defaultBranch,
			claims: { ...found.claims },
		};
	},
});

async function ask(
	deps: Pick<Deps, "fetch" | "log">,
	provider: (typeof HOSTS)[number],
	path: string,
): Promise<FoundRepository | "not_found" | "unavailable"> {
	const url = repositoryAddress(provider, REPOSITORY_HOSTS[provider], path);
	try {
		// The provider redirects a renamed repository to another address of its own.
		const response = await deps.fetch(url, {
			headers: { accept: "application/json", "user-agent": "Capstan" },
			redirect: "follow",
			signal: AbortSignal.timeout(TIME_LIMIT_MS),
		});
		if (response.status !== 200 || response.body === null) {
			await response.body?.cancel();
			if (response.status === 404) return "not_found";
			throw new Error(`${url} answered ${response.status}`);
		}
		const found = repositoryIn(provider, path, await readJson(response.body, url));
		if (found === undefined) throw new Error(`${url} answered no repository`);
		return found;
	} catch (error) {
		deps.log("info", "repository_not_asked", { url, cause: causeText(error) });
		return "unavailable";
	}
}
