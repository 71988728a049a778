/**
 * The pages of /docs: a front page with a quickstart, the guides, and the API reference, all with the same navigation and search. Without script
 * everything can be read; the search needs it. Only the reference, which Swagger UI draws, may set inline styles.
 */
import { marked } from "marked";
import { MARK } from "../domain/words/mark";
import { escapeXml } from "../domain/words/plain-text";
import { GUIDES } from "./guide";

export const GUIDE_NAMES = Object.keys(GUIDES) as readonly (keyof typeof GUIDES)[];
export type GuideName = keyof typeof GUIDES;

interface Section {
	/** Undefined before the first heading. */
	readonly anchor: string | undefined;
	readonly title: string;
	readonly markdown: string;
}

function anchorOf(text: string): string {
	return text.toLowerCase().replaceAll(/[^a-z0-9]+/g, "-");
}

/** The page in pieces at its second-level headings; lines of code that begin with # are none. */
function sectionsOf(markdown: string): Section[] {
	const sections: { anchor: string | undefined; title: string; markdown: string }[] = [];
	let isCode = false;
	for (const line of markdown.split("\n")) {
		if (line.startsWith("```")) isCode = !isCode;
		const [, level = "", title = ""] = (isCode ? null : /^(##?) (.+)$/.exec(line)) ?? [];
		if (level !== "") {
			sections.push({
				anchor: level === "##" ? anchorOf(title) : undefined,
				title: title.replaceAll("`", ""),
				markdown: "",
			});
			continue;
		}
		const last = sections.at(-1);
		if (last !== undefined) last.markdown += `${line}\n`;
	}
	return sections;
}

/** The text of a heading, so that its id is the same as in the navigation. */
const plain = (text: string) =>
	text
		.replaceAll(/<[^>]+>/g, "")
		.replaceAll("&#39;", "'")
		.replaceAll("&quot;", '"')
		.replaceAll("&amp;", "&");

function html(markdown: string): string {
	return marked
		.parse(markdown, { async: false })
		.replaceAll(/<h2>(.+?)<\/h2>/g, (_, text: string) => `<h2 id="${anchorOf(plain(text))}">${text}</h2>`)
		.replaceAll("<table>", '<div class="table"><table>')
		.replaceAll("</table>", "</table></div>");
}

/** One link of the navigation; the open page lists its sections. */
function entry(href: string, title: string, isHere: boolean, sections: readonly Section[] = []): string {
	const parts = sections
		.filter(({ anchor }) => anchor !== undefined)
		.map(({ anchor, title: text }) => `<li><a href="#${anchor}">${escapeXml(text)}</a></li>`);
	const list = parts.length === 0 ? "" : `<ul>${parts.join("")}</ul>`;
	return `<li><a href="${href}"${isHere ? ' aria-current="page"' : ""}>${title}</a>${list}</li>`;
}

interface Page {
	/** Name of the guide, `index` or `api`. */
	readonly name: string;
	readonly title: string;
	readonly body: string;
	readonly sections?: readonly Section[];
	readonly head?: string;
	readonly foot?: string;
}

function frame({ name, title, body, sections = [], head = "", foot = "" }: Page): string {
	return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>${title} · Capstan</title>
<link rel="icon" type="image/svg+xml" href="/favicon.svg">
${head}<link rel="stylesheet" href="/docs-assets/page.css">
</head>
<body>
<a class="skip" href="#content">Skip to content</a>
<header>
<a class="brand" href="/docs"><svg viewBox="0 0 16 16" aria-hidden="true"><path fill="currentColor" d="${MARK}"/></svg>Capstan <span>docs</span></a>
<search><input id="search" type="search" placeholder="Search" aria-label="Search the documentation" autocomplete="off" hidden><ul id="found" aria-label="Results" hidden></ul></search>
<a class="out" href="/dashboard/">Dashboard</a>
</header>
<div class="page">
<nav aria-label="Documentation">
<details open><summary>Contents</summary>
<ul>
${entry("/docs", "Quickstart", name === "index")}
${GUIDE_NAMES.map((guide) => entry(`/docs/${guide}`, GUIDES[guide].title, guide === name, guide === name ? sections : [])).join("\n")}
${entry("/docs/api", "API reference", name === "api")}
</ul></details>
</nav>
<main id="content" tabindex="-1">
${body}</main>
</div>
${foot}<script src="/docs-assets/docs.js" type="module"></script>
</body>
</html>
`;
}

export function guidePage(name: GuideName, markdown: string): string {
	const title = /^# (.+)$/m.exec(markdown)?.[1] ?? GUIDES[name].title;
	return frame({ name, title, body: html(markdown), sections: sectionsOf(markdown) });
}

/** The front page. The quickstart is a section of the guide of the command, whose examples the tests run. */
export function frontPage(commandGuide: string): string {
	const start = sectionsOf(commandGuide).find(({ anchor }) => anchor === "start")?.markdown ?? "";
	const quickstart = start.slice(0, start.lastIndexOf("```") + 3);
	const cards = GUIDE_NAMES.map(
		(name) =>
			`<li><a href="/docs/${name}"><strong>${GUIDES[name].title}</strong><span>${GUIDES[name].text}</span></a></li>`,
	);
	const body = `<h1>Live updates for Capacitor and Electron apps</h1>
<p>Release a web bundle to your users' devices without a store review, on your own Cloudflare account or your own computer.</p>
<h2 id="quickstart">Quickstart</h2>
<ol>
<li>Run <code>npm ci &amp;&amp; npm start</code> in the source of Capstan. It prints a link that signs you in to the <a href="/dashboard/">dashboard</a>.</li>
<li>Connect an app and release its first bundle, as below; or do the same in the dashboard, which leads through each step.</li>
<li>Start the app. It installs the bundle at its next check, and the dashboard shows the device.</li>
</ol>
${html(quickstart)}<p><a href="/docs/cli">More about the command</a></p>
<h2 id="guides">Guides</h2>
<ul class="cards">
${cards.join("\n")}
<li><a href="/docs/api"><strong>API reference</strong><span>Every request of the dashboard and the command, to try out here.</span></a></li>
</ul>
`;
	return frame({ name: "index", title: "Documentation", body });
}

export function referencePage(): string {
	return frame({
		name: "api",
		title: "API reference",
		body: '<h1>API reference</h1>\n<div id="api"><p>Loading the API description…</p></div>\n',
		head: '<link rel="stylesheet" href="/docs-assets/swagger-ui.css">\n',
		foot: '<script src="/docs-assets/swagger-ui-bundle.js"></script>\n<script src="/docs-assets/start.js"></script>\n',
	});
}

/** One place that the search finds. */
interface SearchEntry {
	readonly page: string;
	readonly title: string;
	readonly to: string;
	/** Its different words in lower case. */
	readonly words: string;
}

const wordsOf = (text: string) => [...new Set(text.toLowerCase().match(/[a-z0-9][a-z0-9_.-]+/g) ?? [])].join(" ");

/** The sections of the guides and the operations of the API. */
export function searchIndex(
	guides: ReadonlyMap<GuideName, string>,
	openapi: { readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>> },
): SearchEntry[] {
	const sections = [...guides].flatMap(([name, markdown]) =>
		sectionsOf(markdown).map(({ anchor, title, markdown: text }) => ({
			page: GUIDES[name].title,
			title,
			to: `/docs/${name}${anchor === undefined ? "" : `#${anchor}`}`,
			words: wordsOf(`${title} ${text}`),
		})),
	);
	const operations = Object.entries(openapi.paths).flatMap(([path, methods]) =>
		Object.entries(methods).map(([method, { summary = "", tags: [tag = ""] = [], operationId }]) => ({
			page: "API reference",
			title: `${method.toUpperCase()} ${path}`,
			to: `/docs/api#/${encodeURIComponent(tag)}/${operationId}`,
			words: wordsOf(`${path} ${summary} ${tag}`),
		})),
	);
	return [...sections, ...operations];
}

interface Operation {
	readonly summary?: string;
	readonly tags?: readonly string[];
	readonly operationId?: string;
}
