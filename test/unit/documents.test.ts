/**
 * Tables and numbers of the guides are those of the code. A table stands behind its marker, such as `<!-- table: events -->`, up to the next empty
 * line; `npm run vitest -- --project unit test/unit/documents.test.ts -u` writes it again.
 */
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { assumptionTable, costTable, limitTable } from "../../bench/cost-docs";
import { DELIVERY_DAYS, PREVIEW_DAYS, RESTORABLE_DAYS, RETENTION_DAYS, UNUSED_DAYS } from "../../src/domain/defaults";
import { REFUSAL_CODES, refusalOf, refusalWords } from "../../src/domain/updates/refusals";
import { settingsText } from "../../src/domain/updates/remedy";
import { EVENT_TYPES, EVENTS } from "../../src/domain/webhooks/event-types";

const tableOf = (head: readonly string[], rows: readonly (readonly string[])[]) =>
	[head, head.map(() => "---"), ...rows].map((cells) => `| ${cells.join(" | ")} |`).join("\n");

/** The first row is the head. */
const tableOfRows = ([head = [], ...rows]: readonly (readonly string[])[]) => tableOf(head, rows);

const TABLES: Readonly<Record<string, { readonly page: string; readonly table: string }>> = {
	costs: { page: "costs", table: tableOfRows(costTable()) },
	"cost-assumptions": { page: "costs", table: tableOfRows(assumptionTable()) },
	limits: { page: "costs", table: tableOfRows(limitTable()) },
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

const PAGES = [...Map.groupBy(Object.entries(TABLES), ([, { page }]) => page)];

test.each(PAGES)("the tables of %s are those of the code", async (page, tables) => {
	const path = fileURLToPath(new URL(`../../src/docs/${page}.md`, import.meta.url));
	const written = tables.reduce(
		(text, [name, { table }]) => {
			const marker = `<!-- table: ${name} -->\n`;
			const [before, after, ...more] = text.split(marker);
			expect(more).toEqual([]);
			return `${before}${marker}${table}\n${after?.replace(/^(\|.*\n)*/, "")}`;
		},
		readFileSync(path, "utf8"),
	);
	await expect(written).toMatchFileSnapshot(path);
});

const { AUDIT_DAYS } = RETENTION_DAYS;
const retention = (name: keyof typeof RETENTION_DAYS) => {
	const { least, most, usual } = RETENTION_DAYS[name];
	return `| ${usual} days | \`${name}\`, ${least} to ${most} |`;
};

/** Sentences with a number of src/domain/defaults.ts. */
const SENTENCES: Readonly<Record<string, readonly string[]>> = {
	"README.md": [`or ${PREVIEW_DAYS} quiet days`],
	"actions/preview/action.yml": [`Days without an upload until the preview closes. Default is ${PREVIEW_DAYS}`],
	"src/docs/previews.md": [`A preview ends ${PREVIEW_DAYS} days after its last push`],
	"src/docs/access.md": [
		`For ${RESTORABLE_DAYS} days (\`restorable_until\`)`,
		`can be undone for ${RESTORABLE_DAYS} days`,
		`for ${AUDIT_DAYS.usual} days (\`AUDIT_DAYS\`)`,
	],
	"src/docs/security.md": [`A deleted app can be restored for ${RESTORABLE_DAYS} days.`],
	"src/docs/ci.md": [`marks publishers as \`unused\` after ${UNUSED_DAYS} days`],
	"src/docs/webhooks.md": [`deliveries of ${DELIVERY_DAYS} days`],
	"src/docs/statistics.md": (Object.keys(RETENTION_DAYS) as (keyof typeof RETENTION_DAYS)[]).map(retention),
};

test.each(Object.entries(SENTENCES))("%s has the numbers of the code", (path, sentences) => {
	const text = readFileSync(fileURLToPath(new URL(`../../${path}`, import.meta.url)), "utf8").replaceAll(/\s+/g, " ");
	expect(sentences.filter((sentence) => !text.includes(sentence))).toEqual([]);
});
