/**
 * The page of a preview. The token is in the fragment and is sent in request bodies only, so that no server log contains it. Text from the
 * server, such as the title of a pull request, is shown as text, never as markup.
 */
import { drawCode } from "./qr-code.js";

const element = (id) => document.getElementById(id);
const date = (text) => new Date(text).toLocaleDateString("en-GB", { dateStyle: "long" });
const count = (number, one, several) => `${number} ${number === 1 ? one : several}`;

function size(bytes) {
	if (bytes < 1000) return `${bytes} bytes`;
	return bytes < 1_000_000 ? `${(bytes / 1000).toFixed(1)} kB` : `${(bytes / 1_000_000).toFixed(1)} MB`;
}

function textElement(name, text, className) {
	const created = document.createElement(name);
	created.textContent = text;
	if (className !== undefined) created.className = className;
	return created;
}

function showState(text, isClosed = false) {
	element("state").textContent = text;
	element("state").classList.toggle("closed", isClosed);
}

const CLOSED = {
	request: "CI or a member of the organization closed it.",
	webhook: "The pull request was closed or merged.",
	time: "It had no upload for a while.",
	kept: "Its channel is a regular channel of the app now.",
};

function showFacts(preview) {
	const facts = [
		["App", preview.app_id],
		["Version", preview.version],
		["Commit", preview.commit?.slice(0, 12)],
		["Size", preview.size === null ? undefined : size(preview.size)],
		[
			"Devices",
			preview.version === null || preview.devices === null
				? undefined
				: `${count(preview.devices, "device runs", "devices run")} it`,
		],
	];
	for (const [name, value] of facts) {
		if (value === undefined || value === null) continue;
		element("facts").append(textElement("dt", name), textElement("dd", value));
	}
	element("facts").hidden = false;
}

function showChanges({ live_version, files }) {
	element("changes").hidden = false;
	if (files === null) {
		element("summary").textContent =
			`Compared with the live version ${live_version}: no list of files, because one of the two was uploaded without --delta.`;
		return;
	}
	const { added, changed, removed, named } = files;
	const parts = [
		[added, "added"],
		[changed, "changed"],
		[removed, "removed"],
	].filter(([number]) => number > 0);
	element("summary").textContent =
		parts.length === 0
			? `The files are those of the live version ${live_version}.`
			: `Compared with the live version ${live_version}: ${parts.map(([number, what]) => `${number} ${what}`).join(", ")}, ${size(files.size)} to download.`;
	for (const { file, change, size: bytes } of named) {
		const item = document.createElement("li");
		item.append(
			textElement("span", change, "change"),
			textElement("span", file, "name"),
			textElement("span", bytes === null ? "" : size(bytes)),
		);
		element("files").append(item);
	}
	const more = added + changed + removed - named.length;
	if (more > 0) element("files").append(textElement("li", `and ${count(more, "more file", "more files")}`));
}

function show(preview) {
	const source = `${preview.repository}#${preview.number}`;
	element("title").textContent = preview.title ?? `Preview of ${source}`;
	element("source").textContent = source;
	document.title = `${preview.title ?? source} · Preview`;
	if (preview.state === "closed") {
		showState(
			`This preview was closed on ${date(preview.closed_at)}. ${CLOSED[preview.closed_as] ?? ""} Devices that ran it get the public version again.`,
			true,
		);
		element("foot").hidden = true;
		return;
	}
	showFacts(preview);
	if (preview.deep_link === null) {
		showState("Open, without an upload. Reload this page when the build has finished.");
		return;
	}
	showState(`Open until ${date(preview.expires_at)}, and longer with each upload.`);
	element("link").href = preview.deep_link;
	drawCode(element("qr"), preview.deep_link);
	element("open").hidden = false;
	if (preview.changes !== null) showChanges(preview.changes);
}

try {
	const response = await fetch("/preview/show", {
		method: "POST",
		headers: { "content-type": "application/json" },
		body: JSON.stringify({ token: location.hash.slice(1) || "none" }),
	});
	const answer = await response.json();
	if (response.ok) show(answer);
	else showState(answer.message, true);
} catch {
	showState("The server did not answer. Try again in a moment.", true);
}
