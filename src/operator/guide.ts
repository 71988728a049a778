/**
 * The guides: src/docs/<name>.md, served as HTML at /docs/<name>. The table of roles and the definitions of the figures are generated
 * from the source, so that a guide cannot contradict the service.
 */
import { marked } from "marked";
import { PERMISSIONS, ROLE_NAMES, ROLES } from "../authz/permissions";

/** The names of the guides and their titles in the navigation of /docs. */
export const GUIDES = {
	access: "Organizations, roles and keys",
	previews: "Previews of pull requests",
	cli: "The capstan command",
	rollouts: "Staged rollouts",
	ci: "Publishing from CI without a secret",
	webhooks: "Webhooks",
	statistics: "Statistics",
	security: "Security",
	deploying: "Deploying",
} as const;

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

/** A whole HTML page without script, for the strict policy of /docs. */
export function guidePage(markdown: string): string {
	const title = /^# (.+)$/m.exec(markdown)?.[1] ?? "Capstan";
	const body = marked
		.parse(markdown, { async: false })
		.replaceAll(/<h2>(.+?)<\/h2>/g, (_, text: string) => `<h2 id="${anchor(text)}">${text}</h2>`)
		.replaceAll("<table>", '<div class="table"><table>')
		.replaceAll("</table>", "</table></div>");
	return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${title} · Capstan</title>
<link rel="icon" type="image/svg+xml" href="/favicon.svg">
<link rel="stylesheet" href="/docs-assets/page.css">
</head>
<body>
<nav><a href="/docs">Every endpoint</a></nav>
<main>
${body}</main>
</body>
</html>
`;
}

function anchor(text: string): string {
	return text.toLowerCase().replaceAll(/[^a-z0-9]+/g, "-");
}
