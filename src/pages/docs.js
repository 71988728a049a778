/**
 * The search of /docs, in the browser: a small index of sections and operations is loaded when the field gets the focus. `/` and Ctrl K go to the
 * field, the arrow keys choose. On narrow screens the contents begin folded.
 */
const MOST = 8;
const input = document.getElementById("search");
const list = document.getElementById("found");
input.hidden = false;
if (matchMedia("(max-width: 900px)").matches) document.querySelector("nav details").open = false;

let index;
const load = () => {
	index ??= fetch("/docs-assets/search.json").then((response) => response.json());
	return index;
};

/** Every word must begin a word of the section; words of the title count more. */
function rankOf({ title, page, words }, wanted) {
	const inTitle = `${title} ${page}`.toLowerCase();
	let rank = 0;
	for (const word of wanted) {
		if (inTitle.includes(word)) rank += inTitle.startsWith(word) ? 4 : 3;
		else if (` ${words}`.includes(` ${word}`)) rank += 1;
		else return 0;
	}
	return rank;
}

async function find() {
	const wanted = input.value.toLowerCase().split(/\s+/).filter(Boolean);
	const entries = wanted.length === 0 ? [] : await load();
	const found = entries
		.map((entry) => ({ entry, rank: rankOf(entry, wanted) }))
		.filter(({ rank }) => rank > 0)
		.sort((one, other) => other.rank - one.rank)
		.slice(0, MOST);
	list.replaceChildren(
		...found.map(({ entry }) => {
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
	if (wanted.length > 0 && found.length === 0) {
		const item = document.createElement("li");
		item.textContent = "Nothing found. Try fewer words.";
		list.append(item);
	}
	list.hidden = wanted.length === 0;
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
