/**
 * The fields of a publisher's form, in the words of each provider, the claims that they stand for,
 * and a publisher in words. test/node/dashboard-publishers.test.ts creates and changes publishers
 * with them.
 */

import { acceptsAnyRef, PROVIDERS } from "../../../../src/domain/ci/providers";
import type { RepositoryHost } from "../../../../src/domain/ci/repository";
import type { AnswerOf, RequestOf } from "../../api";

type Body = RequestOf<"POST /publisher">["body"];
export type Publisher = AnswerOf<"GET /publisher">[number];
export type Provider = Body["provider"];
export type Stage = Body["stage"];

export interface Preset {
	/** Name of the choice. */
	readonly label: string;
	readonly provider: Provider;
	/** The host whose public repositories the server finds by their names. */
	readonly host?: RepositoryHost;
	/** Whether the issuer has to be entered, with an example. */
	readonly issuer?: {
		readonly label: string;
		readonly placeholder: string;
		readonly prefix?: string;
		readonly suffix?: string;
	};
	readonly fields: readonly Field[];
	/** How to find the ids. */
	readonly help: string;
}

export interface Field {
	readonly claim: string;
	readonly label: string;
	readonly placeholder: string;
	readonly isRequired?: true;
	/** The id is a number, so that a name in it matches no job. */
	readonly isNumber?: true;
	/** A branch is entered by its name; the claim has this before it. */
	readonly prefix?: string;
}

const BRANCH = { label: "Branch or tag", placeholder: "main, or refs/tags/v*", prefix: "refs/heads/" } as const;

const GITHUB_FIELDS: readonly Field[] = [
	{ claim: "repository_id", label: "Repository ID", placeholder: "456789", isRequired: true, isNumber: true },
	{ claim: "repository_owner_id", label: "Owner ID", placeholder: "123456", isRequired: true, isNumber: true },
	{ claim: "workflow_ref", label: "Workflow file", placeholder: "release.yml" },
	{ claim: "ref", ...BRANCH },
	{ claim: "environment", label: "Environment", placeholder: "production" },
];
const GITHUB_HELP = "gh api repos/OWNER/REPO --jq '.id, .owner.id'";

const GITLAB_FIELDS: readonly Field[] = [
	{ claim: "project_id", label: "Project ID", placeholder: "20", isRequired: true, isNumber: true },
	{ claim: "namespace_id", label: "Namespace ID", placeholder: "72", isRequired: true, isNumber: true },
	{ claim: "ref_path", ...BRANCH },
	{ claim: "ref_protected", label: "Protected ref", placeholder: "true" },
	{ claim: "environment", label: "Environment", placeholder: "production" },
];
const GITLAB_HELP = "glab api projects/GROUP%2FPROJECT";

export const PRESETS = {
	github: {
		label: "GitHub Actions",
		provider: "github",
		host: "github",
		fields: GITHUB_FIELDS,
		help: GITHUB_HELP,
	},
	"github-enterprise": {
		label: "GitHub Enterprise Server",
		provider: "github",
		issuer: { label: "Server", placeholder: "https://git.example.com", suffix: "/_services/token" },
		fields: GITHUB_FIELDS,
		help: GITHUB_HELP,
	},
	gitlab: {
		label: "GitLab CI (gitlab.com)",
		provider: "gitlab",
		host: "gitlab",
		fields: GITLAB_FIELDS,
		help: GITLAB_HELP,
	},
	"gitlab-self-managed": {
		label: "GitLab, self-managed",
		provider: "gitlab",
		issuer: { label: "Server", placeholder: "https://gitlab.example.com" },
		fields: GITLAB_FIELDS,
		help: GITLAB_HELP,
	},
	circleci: {
		label: "CircleCI",
		provider: "circleci",
		issuer: {
			label: "Organization ID",
			placeholder: "8c2f0000-0000-4000-8000-000000000000",
			prefix: "https://oidc.circleci.com/org/",
		},
		fields: [
			{ claim: "oidc.circleci.com/project-id", label: "Project ID", placeholder: "5d1e6a3c-…", isRequired: true },
			{ claim: "oidc.circleci.com/vcs-origin", label: "Repository", placeholder: "github.com/octo-org/octo-repo" },
			{ claim: "oidc.circleci.com/vcs-ref", ...BRANCH },
		],
		help: "Organization settings and project settings, Overview",
	},
	buildkite: {
		label: "Buildkite",
		provider: "buildkite",
		fields: [
			{ claim: "pipeline_id", label: "Pipeline ID", placeholder: "0184990a-…", isRequired: true },
			{ claim: "organization_id", label: "Organization ID", placeholder: "0184990a-…", isRequired: true },
			{ claim: "build_branch", label: "Branch", placeholder: "main" },
		],
		help: "Pipeline settings, and organization settings",
	},
} as const satisfies Record<string, Preset>;
export type PresetName = keyof typeof PRESETS;
export const PRESET_NAMES = Object.keys(PRESETS) as PresetName[];

export const STAGE_NAMES: Readonly<Record<Stage, string>> = {
	preview: "Preview",
	upload: "Upload",
	propose: "Propose",
	promote: "Release",
};

export const STAGE_TEXTS: Readonly<Record<Stage, string>> = {
	preview: "Preview: private channels for pull requests",
	upload: "Upload: bundles, on no channel",
	propose: "Propose: bundles, and releases that a person approves",
	promote: "Release: bundles, and releases to channels",
};

/** The stages whose jobs release, which the API accepts for jobs of a named branch alone. */
export const isReleasing = (stage: Stage) => stage === "promote" || stage === "propose";

/** The form of an existing publisher: the provider's, and a field for each other claim. */
export function presetOf({ provider, issuer, claims }: Publisher): Preset {
	const known: Preset | undefined = Object.values(PRESETS).find((preset) => preset.provider === provider);
	const fields = known?.fields ?? [];
	const isPublic = PROVIDERS[provider].issuer === issuer;
	return {
		label: isPublic ? (known?.label ?? provider) : `${known?.label ?? "OpenID Connect"}, ${issuer}`,
		provider,
		...(isPublic && known?.host !== undefined ? { host: known.host } : {}),
		fields: [
			...fields,
			...Object.keys(claims)
				.filter((claim) => !fields.some((field) => field.claim === claim))
				.map((claim) => ({ claim, label: claim, placeholder: "" })),
		],
		help: known?.help ?? "",
	};
}

/**
 * The claims of the filled fields; empty ones are left out.
 * @param stored a text that is not changed stays as it is
 */
export function claimsOf(
	{ fields }: Preset,
	texts: Readonly<Record<string, string>>,
	stored: Readonly<Record<string, string>>,
): Record<string, string> {
	return Object.fromEntries(
		fields.flatMap(({ claim, prefix }) => {
			const text = (texts[claim] ?? "").trim();
			if (text === "") return [];
			const isWhole = prefix === undefined || text.startsWith("refs/") || text === stored[claim];
			return [[claim, isWhole ? text : `${prefix}${text}`]];
		}),
	);
}

/** The issuer that the entered text stands for; undefined: that of the provider. */
export function enteredIssuer({ issuer: entered }: Preset, text: string): string | undefined {
	if (entered === undefined) return undefined;
	return `${entered.prefix ?? ""}${text.trim().replace(/\/+$/, "")}${entered.suffix ?? ""}`;
}

/** Whether everybody who can push to the repository can start a job that matches. */
export const isAnyBranch = (provider: Provider, stage: Stage, claims: Readonly<Record<string, string>>) =>
	stage !== "preview" && acceptsAnyRef(provider, claims);

const ACTS: Readonly<Record<Stage, string>> = {
	preview: "open previews of pull requests",
	upload: "upload bundles",
	propose: "propose releases",
	promote: "release",
};

interface Trust {
	readonly provider: Provider;
	readonly stage: Stage;
	readonly claims: Readonly<Record<string, string>>;
	/** Null: all of them. */
	readonly channels: readonly string[] | null;
	/** The name of the repository, where it is known. */
	readonly repository: string | undefined;
}

const shortRef = (ref: string) => ref.replace(/^refs\/(heads|tags)\//, "");

/** E.g. `release.yml on main`; empty: jobs of any kind. */
function jobText({ provider, stage, claims }: Pick<Trust, "provider" | "stage" | "claims">): string {
	const { refs, files } = PROVIDERS[provider];
	const words = (refs?.names ?? []).flatMap((claim) => {
		const text = claims[claim];
		if (text === undefined) return [];
		if (files.includes(claim)) return [text.replace(/@refs\/\w+\//, " on ")];
		return [claim === "environment" ? `to ${text}` : `on ${shortRef(text)}`];
	});
	const isProtected = refs?.protection.some((claim) => claims[claim] === "true") === true;
	const isAny = isAnyBranch(provider, stage, claims);
	return [...words, ...(isProtected ? ["on protected refs"] : []), ...(isAny ? ["on any branch"] : [])].join(" ");
}

/** E.g. `acme/shop: release.yml on main`. */
export function trustText({ repository, ...trust }: Omit<Trust, "channels">): string {
	const [id] = PROVIDERS[trust.provider].ids;
	const name = repository ?? (id === undefined ? "" : `id ${trust.claims[id]}`);
	return [name, jobText(trust)].filter((text) => text !== "").join(": ");
}

/** E.g. `Jobs of acme/shop, release.yml on main, may release to beta and dev.` */
export function trustSentence({ channels, repository, ...trust }: Trust): string {
	const jobs = jobText(trust);
	const places = channels === null ? "every channel" : channels.join(" and ");
	const where = isReleasing(trust.stage) ? ` to ${places}` : "";
	return `Jobs of ${repository ?? "the repository"}${jobs === "" ? "" : `, ${jobs},`} may ${ACTS[trust.stage]}${where}.`;
}
