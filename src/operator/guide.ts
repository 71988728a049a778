/**
 * The guides: src/docs/<name>.md, which docs-pages.ts serves as HTML at /docs/<name>. The table of
 * roles and the definitions of the figures are generated from the source, so that a guide cannot
 * contradict the service.
 */
import { PERMISSIONS, ROLE_NAMES, ROLES } from "../authz/permissions";

interface Guide {
	readonly title: string;
	/** The question that it answers. */
	readonly text: string;
}

const guides = <const Names extends Readonly<Record<string, Guide>>>(names: Names) => names;

/**
 * The guides in the order of the navigation of /docs, in groups: first those for the app, then
 * those for the service.
 */
export const GUIDE_GROUPS = {
	"Your app": guides({
		"first-update": { title: "First update", text: "From your app to an update on a device, in five steps." },
		"how-a-device-decides": {
			title: "How a device decides",
			text: "Every setting, every refusal code with its remedy.",
		},
		"does-not-update": { title: "It does not update", text: "A decision tree that begins with explain." },
		javascript: { title: "The JavaScript side", text: "When to apply, events, channels, delay, custom id." },
		encryption: { title: "Encryption", text: "A key pair from the first release on." },
		moving: { title: "Coming from another service", text: "Capgo, Appflow, CodePush, Capawesome." },
		"stores-and-versions": {
			title: "Store rules, versions",
			text: "What Apple and Google allow; what works with what.",
		},
		faq: { title: "Questions and answers", text: "Monorepos, Windows, proxies, SSO, exports, paging." },
	}),
	Releases: guides({
		cli: { title: "The capstan command", text: "Release, roll back and explain, from a laptop or CI." },
		ci: {
			title: "Publishing from CI without a secret",
			text: "GitHub Actions, GitLab, CircleCI, Buildkite, any OIDC issuer.",
		},
		previews: {
			title: "Previews of pull requests",
			text: "A channel and a page for testers, gone when the request ends.",
		},
		rollouts: { title: "Staged rollouts", text: "A few devices first, by hand or in automatic steps." },
		statistics: { title: "Statistics", text: "What each figure counts, and how long data is kept." },
		webhooks: { title: "Webhooks", text: "Events to your server, Slack, Discord, Teams and mail." },
	}),
	"The service": guides({
		operating: { title: "Operating", text: "Upgrade, backup, staging, cost, uninstall." },
		costs: { title: "Costs and limits", text: "Dollars a month, and what each limit does when it is reached." },
		deploying: { title: "Deploying", text: "A domain, data places, updates, logs and all settings." },
		access: { title: "Organizations, roles and keys", text: "Who may do what, and what an error means." },
		security: { title: "Security", text: "What is protected, against whom, and the tests that show it." },
		"capgo-api": { title: "Scripts for Capgo's API", text: "What works unchanged, and the short list of differences." },
	}),
};

export const GUIDES = {
	...GUIDE_GROUPS["Your app"],
	...GUIDE_GROUPS.Releases,
	...GUIDE_GROUPS["The service"],
};

const TABLE = /(<!-- roles -->\n)[\s\S]*?(<!-- \/roles -->)/;

/** Fills in the current table of roles. */
export function withRoleTable(markdown: string): string {
	if (!TABLE.test(markdown)) throw new Error("the page has no markers for the table of roles");
	return markdown.replace(TABLE, `$1${roleTable()}$2`);
}

function roleTable(): string {
	const header = ["Permission", ...ROLE_NAMES.map((name) => `\`${name}\``)];
	const rows = PERMISSIONS.map((permission) => [
		`\`${permission}\``,
		...ROLE_NAMES.map((name) => (ROLES[name].permissions.includes(permission) ? "yes" : "")),
	]);
	const level = ["scope", ...ROLE_NAMES.map((name) => ROLES[name].scopeType)];
	const line = (cells: readonly string[]) =>
		`| ${cells.join(" | ")} |`.replaceAll("|  |", "| |").replaceAll("|  |", "| |");
	return `${[line(header), line(header.map(() => "---")), line(level), ...rows.map(line)].join("\n")}\n`;
}

const FIGURES = /(<!-- figures -->\n)[\s\S]*?(<!-- \/figures -->)/;

/** Fills in the definition of each figure. */
export function withFigures(markdown: string, definitions: Readonly<Record<string, string>>): string {
	if (!FIGURES.test(markdown)) throw new Error("the page has no markers for the figures");
	const list = Object.entries(definitions).map(([figure, text]) => `- **\`${figure}\`**: ${text}\n`);
	return markdown.replace(FIGURES, (_, begin: string, end: string) => `${begin}${list.join("")}${end}`);
}
