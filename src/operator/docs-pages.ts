/**
 * The pages of /docs: a front page with a quickstart, the guides, and the API reference, all with
 * the same navigation and search. Without script everything can be read; the search needs it. Only
 * the reference, which Swagger UI draws, may set inline styles.
 */
import { marked } from "marked";
import { MARK } from "../domain/words/mark";
import { escapeXml } from "../domain/words/plain-text";
import { type SearchEntry, wordsOf } from "../domain/words/search";
import { GUIDE_GROUPS, GUIDES } from "./guide";

export const GUIDE_NAMES = Object.keys(GUIDES) as readonly (keyof typeof GUIDES)[];
export type GuideName = keyof typeof GUIDES;

const GROUPS = Object.entries(GUIDE_GROUPS).map(([title, guides]) => ({
	title,
	names: Object.keys(guides) as GuideName[],
}));
const LAST_GROUP = GROUPS.at(-1)?.title;

interface Section {
	/** 1 for the title of the page, 2 and 3 for its headings. */
	readonly level: number;
	/** Undefined before the first heading. */
	readonly anchor: string | undefined;
	readonly title: string;
	readonly markdown: string;
}

/** The id of a heading. */
export function anchorOf(text: string): string {
	return text
		.toLowerCase()
		.replaceAll(/[^a-z0-9_]+/g, "-")
		.replaceAll(/^-|-$/g, "");
}

/** The page in pieces at its headings; lines of code that begin with # are none. */
function sectionsOf(markdown: string): Section[] {
	const sections: { level: number; anchor: string | undefined; title: string; markdown: string }[] = [];
	let isCode = false;
	for (const line of markdown.split("\n")) {
		if (line.startsWith("```")) isCode = !isCode;
		const [, level = "", title = ""] = (isCode ? null : /^(#{1,3}) (.+)$/.exec(line)) ?? [];
		if (level !== "") {
			sections.push({
				level: level.length,
				anchor: level === "#" ? undefined : anchorOf(title),
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

/**
 * The address of the command in jobs, below that of the server; the served page shows that of the
 * server's newest.
 */
export const EXAMPLE_COMMAND = /\/command\/capstan-1\.0\.0-5d41402abc4b2a76\.tgz/g;

/**
 * The addresses that examples have for the server; src/pages/docs.js shows that of the server that
 * serves the page instead.
 */
const EXAMPLE_SERVERS = /(?<!PUBLIC_URL = &quot;)https?:\/\/(?:127\.0\.0\.1:8787|updates\.example\.com)(?![\w.])/g;

/** Ports of a server on the reader's computer; src/pages/docs.js shows that of this one. */
const EXAMPLE_PORTS = /(?<=\b(?:localhost|10\.0\.2\.2|tcp):)8787\b/g;

function html(markdown: string): string {
	return marked
		.parse(markdown, { async: false })
		.replaceAll(
			/<h([23])>(.+?)<\/h\1>/g,
			(_, level: string, text: string) => `<h${level} id="${anchorOf(plain(text))}">${text}</h${level}>`,
		)
		.replaceAll(EXAMPLE_SERVERS, "<span data-server>$&</span>")
		.replaceAll(EXAMPLE_PORTS, "<span data-port>$&</span>")
		.replaceAll(EXAMPLE_COMMAND, "<span data-command>$&</span>")
		.replaceAll("cat .capstan/admin.key", "cat <span data-key>.capstan/admin.key</span>")
		.replaceAll("<table>", '<div class="table"><table>')
		.replaceAll("</table>", "</table></div>");
}

/** One link of the navigation; the open page lists its sections. */
function entry(href: string, title: string, isHere: boolean, sections: readonly Section[] = []): string {
	const parts = sections
		.filter(({ level }) => level === 2)
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
</ul>
${GROUPS.map(
	({ title: group, names }) => `<h2>${group}</h2>
<ul>
${names.map((guide) => entry(`/docs/${guide}`, GUIDES[guide].title, guide === name, guide === name ? sections : [])).join("\n")}
${group === LAST_GROUP ? entry("/docs/api", "API reference", name === "api") : ""}</ul>`,
).join("\n")}
</details>
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

/**
 * The front page. The quickstart is the commands of the guide to the first update, which the tests
 * run.
 */
export function frontPage(firstUpdate: string): string {
	const commandsOf = (heading: string) => {
		const text = sectionsOf(firstUpdate).find(({ title }) => title.includes(heading))?.markdown ?? "";
		const blocks = [...text.matchAll(/```(?:sh|console)\n([\s\S]*?)```/g)].map(([, commands = ""]) => commands);
		return blocks.join("").replaceAll(/^\$ /gm, "");
	};
	const commands = `${commandsOf("Point the app")}${commandsOf("Release an update")}`;
	const card = (href: string, title: string, text: string) =>
		`<li><a href="${href}"><strong>${title}</strong><span>${text}</span></a></li>`;
	const groups = GROUPS.map(({ title, names }) => {
		const cards = names.map((name) => card(`/docs/${name}`, GUIDES[name].title, GUIDES[name].text));
		if (title === LAST_GROUP) {
			cards.push(
				card("/docs/api", "API reference", "Every request of the dashboard and the command, to try out here."),
			);
		}
		return `<h2 id="${anchorOf(title)}">${title}</h2>\n<ul class="cards">\n${cards.join("\n")}\n</ul>\n`;
	});
	const body = `<h1>Live updates for Capacitor and Electron apps</h1>
<p>Release a web bundle to your users' devices without a store review, on your own Cloudflare account or your own computer.</p>
<h2 id="quickstart">Quickstart</h2>
<p>In the folder of your app, which has the plugin <code>@capgo/capacitor-updater</code> and calls <code>notifyAppReady()</code>:</p>
${html(`\`\`\`sh\n${commands}\`\`\`\n`)}<p>Start the app. It installs the bundle at its next check, and the <a href="/dashboard/">dashboard</a> shows the device.
<a href="/docs/first-update">Step by step, with plugin, simulator, emulator and phone</a></p>
${groups.join("")}`;
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
			words: wordsOf(text).join(" "),
		})),
	);
	const operations = Object.entries(openapi.paths).flatMap(([path, methods]) =>
		Object.entries(methods).map(([method, { summary = "", tags: [tag = ""] = [], operationId }]) => ({
			page: "API reference",
			title: `${method.toUpperCase()} ${path}`,
			to: `/docs/api#/${encodeURIComponent(tag)}/${operationId}`,
			words: wordsOf(`${path} ${summary} ${tag}`).join(" "),
		})),
	);
	return [...sections, ...operations];
}

interface Operation {
	readonly summary?: string;
	readonly tags?: readonly string[];
	readonly operationId?: string;
}
