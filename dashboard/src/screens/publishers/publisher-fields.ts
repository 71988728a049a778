/**
 * The fields of the form "Add publisher", in the words of each provider, and the claims that they
 * stand for. test/node/dashboard-publishers.test.ts creates a publisher with them.
 */
import type { RequestOf } from "../../api";

type Body = RequestOf<"POST /publisher">["body"];
export type Provider = Body["provider"];
export type Stage = Body["stage"];

export interface Preset {
	/** Name of the choice. */
	readonly label: string;
	readonly provider: Provider;
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
}

const GITHUB_FIELDS: readonly Field[] = [
	{ claim: "repository_id", label: "Repository ID", placeholder: "456789", isRequired: true, isNumber: true },
	{ claim: "repository_owner_id", label: "Owner ID", placeholder: "123456", isRequired: true, isNumber: true },
	{ claim: "workflow_ref", label: "Workflow file", placeholder: "release.yml" },
	{ claim: "ref", label: "Branch or tag", placeholder: "refs/heads/main" },
	{ claim: "environment", label: "Environment", placeholder: "production" },
];
const GITHUB_HELP = "gh api repos/OWNER/REPO --jq '.id, .owner.id'";

const GITLAB_FIELDS: readonly Field[] = [
	{ claim: "project_id", label: "Project ID", placeholder: "20", isRequired: true, isNumber: true },
	{ claim: "namespace_id", label: "Namespace ID", placeholder: "72", isRequired: true, isNumber: true },
	{ claim: "ref_path", label: "Branch or tag", placeholder: "refs/heads/main" },
	{ claim: "ref_protected", label: "Protected ref", placeholder: "true" },
	{ claim: "environment", label: "Environment", placeholder: "production" },
];
const GITLAB_HELP = "glab api projects/GROUP%2FPROJECT";

export const PRESETS = {
	github: { label: "GitHub Actions", provider: "github", fields: GITHUB_FIELDS, help: GITHUB_HELP },
	"github-enterprise": {
		label: "GitHub Enterprise Server",
		provider: "github",
		issuer: { label: "Server", placeholder: "https://git.example.com", suffix: "/_services/token" },
		fields: GITHUB_FIELDS,
		help: GITHUB_HELP,
	},
	gitlab: { label: "GitLab CI (gitlab.com)", provider: "gitlab", fields: GITLAB_FIELDS, help: GITLAB_HELP },
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
			{ claim: "oidc.circleci.com/vcs-ref", label: "Branch or tag", placeholder: "refs/heads/main" },
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

interface PublisherForm {
	readonly appId: string;
	readonly name: string;
	readonly preset: PresetName;
	readonly stage: Stage;
	readonly issuer: string;
	readonly texts: Readonly<Record<string, string>>;
}

/** The request for the filled form; empty fields are left out. */
export function publisherBody({ appId, name, preset, stage, issuer, texts }: PublisherForm): Body {
	const { provider, fields, issuer: entered }: Preset = PRESETS[preset];
	const claims = fields
		.map(({ claim }) => [claim, (texts[claim] ?? "").trim()] as const)
		.filter(([, text]) => text !== "");
	const named = `${entered?.prefix ?? ""}${issuer.trim().replace(/\/+$/, "")}${entered?.suffix ?? ""}`;
	return {
		app_id: appId,
		name,
		provider,
		stage,
		claims: Object.fromEntries(claims),
		...(entered === undefined ? {} : { issuer: named }),
	};
}
