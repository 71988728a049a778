/**
 * The search of /docs, in the browser: a small index of sections and operations is loaded when the field gets the focus. `/` and Ctrl K go to the
 * field, the arrow keys choose. On narrow screens the contents begin folded. Examples name the server that serves the page.
 */
import { search } from "../domain/words/search";

const MOST = 8;
const input = document.getElementById("search");
const list = document.getElementById("found");
input.hidden = false;
if (matchMedia("(max-width: 900px)").matches) document.querySelector("nav details").open = false;

/** Examples name the server that serves the page, and its key. One with HTTPS, such as that of CI, needs a server that has it. */
const isSecure = location.protocol === "https:";
for (const place of document.querySelectorAll("main [data-server]")) {
	if (isSecure || place.textContent.startsWith("http:")) place.textContent = location.origin;
}
for (const place of document.querySelectorAll("main [data-port]")) {
	if (!isSecure && location.port !== "") place.textContent = location.port;
}
for (const place of document.querySelectorAll("main [data-key]")) {
	if (isSecure) place.textContent = ".capstan/deployed-admin.key";
}

// Jobs name the address of the command that never changes its bytes.
const commands = document.querySelectorAll("main [data-command]");
if (commands.length > 0) {
	fetch("/capstan.tgz", { method: "HEAD" }).then(
		({ url }) => {
			const path = /\/command\/capstan-[\w.+-]+\.tgz$/.exec(url)?.[0];
			if (path !== undefined) for (const place of commands) place.textContent = path;
		},
		() => undefined,
	);
}

let index;
const load = () => {
	index ??= fetch("/docs-assets/search.json").then((response) => response.json());
	return index;
};

async function find() {
	const entries = await load();
	const query = input.value.trim();
	const found = search(entries, query, MOST);
	list.replaceChildren(
		...found.map((entry) => {
			const link = document.createElement("a");
			link.href = entry.to;
			const page = document.createElement("small");
			page.textContent = entry.page;
			link.append(entry.title, page);
			const item = document.createElement("li");
			item.append(link);
			return item;
		}),
	);
	if (query !== "" && found.length === 0) {
		const item = document.createElement("li");
		item.textContent = "Nothing found. Try fewer words.";
		list.append(item);
	}
	list.hidden = query === "";
}

input.addEventListener("focus", load);
input.addEventListener("input", find);
const close = () => {
	list.hidden = true;
};
document.addEventListener("keydown", (event) => {
	const isTyping = /^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName);
	const isSearchKey = event.key === "k" && (event.ctrlKey || event.metaKey);
	if (isSearchKey || (event.key === "/" && !isTyping)) {
		event.preventDefault();
		input.focus();
	}
	if (!event.target.closest?.("search")) return;
	const stops = [input, ...list.querySelectorAll("a")];
	const at = stops.indexOf(document.activeElement);
	if (event.key === "ArrowDown" || event.key === "ArrowUp") {
		event.preventDefault();
		stops.at((at + (event.key === "ArrowDown" ? 1 : -1)) % stops.length).focus();
	} else if (event.key === "Enter" && at === 0) stops[1]?.click();
	else if (event.key === "Escape") {
		close();
		input.focus();
	}
});
document.addEventListener("click", (event) => {
	if (!event.target.closest("search") || event.target.closest("a")) close();
});
