/**
 * Tables of the guides are those of the code. A table stands behind its marker, such as `<!-- table: events -->`, up to the next empty
 * line; `npm run vitest -- --project unit test/unit/documents.test.ts -u` writes it again.
 */
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { REFUSAL_CODES, refusalOf, refusalWords } from "../../src/domain/updates/refusals";
import { settingsText } from "../../src/domain/updates/remedy";
import { EVENT_TYPES, EVENTS } from "../../src/domain/webhooks/event-types";

const tableOf = (head: readonly string[], rows: readonly (readonly string[])[]) =>
	[head, head.map(() => "---"), ...rows].map((cells) => `| ${cells.join(" | ")} |`).join("\n");

const TABLES: Readonly<Record<string, { readonly page: string; readonly table: string }>> = {
	events: {
		page: "webhooks",
		table: tableOf(
			["Type", "Sent when"],
			EVENT_TYPES.map((type) => [`\`${type}\``, EVENTS[type].sent]),
		),
	},
	refusals: {
		page: "cli",
		table: tableOf(
			["Code", "Because", "Setting of the channel that removes it"],
			REFUSAL_CODES.map((code) => {
				const refusal = refusalOf(code);
				return [
					`\`${code}\``,
					refusalWords(code),
					refusal.decidedBy === "channel_rule" ? settingsText(refusal.settings) : "",
				];
			}),
		),
	},
};

test.each(Object.entries(TABLES))("the table of %s is that of the code", async (name, { page, table }) => {
	const path = fileURLToPath(new URL(`../../src/docs/${page}.md`, import.meta.url));
	const marker = `<!-- table: ${name} -->\n`;
	const [before, after, ...more] = readFileSync(path, "utf8").split(marker);
	expect(more).toEqual([]);
	const rest = after?.replace(/^(\|.*\n)*/, "");
	await expect(`${before}${marker}${table}\n${rest}`).toMatchFileSnapshot(path);
});
