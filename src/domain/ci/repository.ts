/**
 * The ids of a repository at GitHub and GitLab: the address that answers them, and the claims that
 * they stand for in the tokens of its jobs. Pure.
 *
 * Publishers trust ids and never names, because a name that is given up can be taken by others.
 */
export const REPOSITORY_HOSTS = { github: "https://github.com", gitlab: "https://gitlab.com" } as const;
export type RepositoryHost = keyof typeof REPOSITORY_HOSTS;

export interface FoundRepository {
	/** Such as `acme/shop`, as the provider writes it. */
	readonly path: string;
	readonly defaultBranch: string | null;
	/** Claims that identify its jobs. */
	readonly claims: Readonly<Record<string, string>>;
}

/** GitHub's cloud with the data in a region. */
export const isRegionalCloud = (origin: string) => /^https:\/\/[\w-]+\.ghe\.com$/.test(origin);

const below = (origin: string, name: string) => origin.replace("://", `://${name}.`);

/**
 * The address of the provider's API.
 * @param origin of the host, such as that of a GitHub Enterprise
 * @param path matches `REPOSITORY_PATH`
 */
export function repositoryAddress(host: RepositoryHost, origin: string, path: string): string {
	if (host === "gitlab") return `${origin}/api/v4/projects/${encodeURIComponent(path)}`;
	if (origin === REPOSITORY_HOSTS.github || isRegionalCloud(origin)) return `${below(origin, "api")}/repos/${path}`;
	return `${origin}/api/v3/repos/${path}`;
}

/** The issuer of its jobs' tokens; undefined for that of the public host. */
export function tokenIssuerOf(host: RepositoryHost, origin: string): string | undefined {
	if (origin === REPOSITORY_HOSTS[host]) return undefined;
	if (host === "gitlab") return origin;
	return isRegionalCloud(origin) ? below(origin, "token.actions") : `${origin}/_services/token`;
}

/** The parts of both providers' answers, whose content is checked below. */
interface RepositoryAnswer {
	readonly id?: unknown;
	readonly default_branch?: unknown;
	/** GitHub. */
	readonly full_name?: unknown;
	readonly owner?: { readonly id?: unknown } | null;
	/** GitLab. */
	readonly path_with_namespace?: unknown;
	readonly namespace?: { readonly id?: unknown } | null;
}

const isId = (value: unknown): value is number => Number.isSafeInteger(value) && Number(value) > 0;
const textOr = <Other>(value: unknown, other: Other) => (typeof value === "string" && value !== "" ? value : other);

/** The repository in an answer of the provider; undefined: it is none. */
export function repositoryIn(host: RepositoryHost, path: string, answer: unknown): FoundRepository | undefined {
	if (typeof answer !== "object" || answer === null) return undefined;
	const { id, owner, namespace, full_name, path_with_namespace, default_branch }: RepositoryAnswer = answer;
	const ownerId = host === "github" ? owner?.id : namespace?.id;
	if (!isId(id) || !isId(ownerId)) return undefined;
	return {
		path: textOr(host === "github" ? full_name : path_with_namespace, path),
		defaultBranch: textOr(default_branch, null),
		claims:
			host === "github"
				? { repository_id: String(id), repository_owner_id: String(ownerId) }
				: { project_id: String(id), namespace_id: String(ownerId) },
	};
}
