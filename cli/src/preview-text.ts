/**
 * The text of the comment on a pull request: what a tester needs to open the preview, and what it
 * changes against the live bundle. Pure.
 */
import type { AnswerOf } from "../../src/client/client";
import { counted, sizeText } from "./terminal";

export type Preview = AnswerOf<"POST /preview">;
/** Without the address of its page if the key may not see it. */
export type ListedPreview = AnswerOf<"GET /preview">[number];
export type PreviewPage = AnswerOf<"POST /preview/show">;

/**
 * The first line of the comment, which readers do not see. The app may have previews on several
 * servers.
 */
export const markerOf = (appId: string, origin: string) => `<!-- capstan preview ${appId} ${new URL(origin).host} -->`;

export function openText(appId: string, preview: Preview, newest: PreviewPage): string {
	const { page_url: url, version, commit, expires_at } = preview;
	// Size and changes of another version would be wrong.
	const page = newest.version === version ? newest : { ...newest, size: null, changes: null };
	const facts = [
		`Version \`${version}\``,
		...(commit === null ? [] : [`commit ${commit.slice(0, 12)}`]),
		...(page.size === null ? [] : [sizeText(page.size)]),
	];
	return [
		`**Preview of \`${appId}\`**`,
		"",
		version === null
			? `[The preview](${url}) is open and has no bundle yet.`
			: `[Open it](${url}) on a phone that has the app, or [scan the QR code](${url}) from another screen.`,
		"",
		...(version === null ? [] : [`${facts.join(", ")}.`, ...changesText(page)]),
		...(expires_at === null ? [] : [`Open until ${expires_at.slice(0, 10)}, and longer with each upload.`]),
	].join("\n");
}

function changesText({ changes, size }: PreviewPage): string[] {
	if (changes === null) return [];
	const { live_version, live_size, files } = changes;
	const grown = size === null || live_size === null ? undefined : size - live_size;
	const difference =
		grown === undefined
			? ""
			: grown === 0
				? ", the same size"
				: `, ${sizeText(Math.abs(grown))} ${grown > 0 ? "larger" : "smaller"}`;
	const live = `the live version \`${live_version}\``;
	if (files === null) return [`Compared with ${live}${difference}: one of the two was uploaded without single files.`];
	const { added, changed, removed, size: bytes } = files;
	if (added + changed + removed === 0) return [`The files are those of ${live}.`];
	const counts = [
		[changed, "changed"],
		[added, "added"],
		[removed, "removed"],
	] as const;
	const parts = counts
		.filter(([count]) => count > 0)
		.map(([count, what], index) => `${index === 0 ? counted(count, "file") : count} ${what}`);
	return [`Compared with ${live}: ${parts.join(", ")}; ${sizeText(bytes)} to download${difference}.`];
}

export const closedText = (appId: string) =>
	`**Preview of \`${appId}\`**\n\nThe preview is closed. Its channel was deleted with the bundles that nothing else uses, and devices that ran it get the public version again.`;
