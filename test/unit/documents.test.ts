/**
 * Tables and numbers of the guides are those of the code. A table stands after its marker, such as
 * `<!-- table: events -->`, up to the next empty line; `npm run vitest -- --project unit
 * test/unit/documents.test.ts -u` writes it again.
 */
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { assumptionTable, costTable, limitTable, MEASURED } from "../../bench/cost-docs";
import { gigabytesOfMillion } from "../../bench/cost-model";
import { devDependencies } from "../../package.json";
import {
	CLEAN_UP_MINUTES,
	DELIVERY_DAYS,
	PREVIEW_DAYS,
	RESTORABLE_DAYS,
	RETENTION_DAYS,
	UNUSED_DAYS,
} from "../../src/domain/defaults";
import { ACCEPTANCE_FIELDS, type ChannelField, DELIVERY_FIELDS } from "../../src/domain/updates/channel-fields";
import { REFUSAL_CODES, refusalOf, UNDECIDED, UNDECIDED_CODES } from "../../src/domain/updates/refusals";
import { EVENT_TYPES, EVENTS } from "../../src/domain/webhooks/event-types";
import { anchorOf, GUIDE_NAMES } from "../../src/operator/docs-pages";
import { guideText } from "../node/support/guide-blocks";
import { explained, refusalSections } from "./support/refusal-scenes";

const tableOf = (head: readonly string[], rows: readonly (readonly string[])[]) =>
	[head, head.map(() => "---"), ...rows].map((cells) => `| ${cells.join(" | ")} |`).join("\n");

/** The first row is the head. */
const tableOfRows = ([head = [], ...rows]: readonly (readonly string[])[]) => tableOf(head, rows);
const CLIENTS = ["@capgo/capacitor-updater", "@capgo/electron-updater", "@capgo/cli"] as const;

/** The values of a setting, the default first; a choice with its names. */
function valuesOf(field: ChannelField): string {
	if (field.kind === "flag") return field.default === 1 ? "`true`, `false`" : "`false`, `true`";
	if (field.kind !== "choice") throw new Error(`no words for a setting of the kind ${field.kind}`);
	const { options, names } = field;
	const sorted = [field.default, ...options.filter((option) => option !== field.default)];
	return sorted.map((option) => `\`${option}\`: ${names[option]?.toLowerCase()}`).join("; ");
}

/** The refusals that a change of the setting removes, as links. */
function refusalsOf(setting: string): string {
	const codes = REFUSAL_CODES.filter((code) => {
		const refusal = refusalOf(code);
		return refusal.decidedBy === "channel_rule" && setting in refusal.settings;
	});
	const named = setting === "public" || setting === "allow_device_self_set" ? [...codes, "no_channel"] : codes;
	return named.map((code) => `[\`${code}\`](#${anchorOf(`\`${code}\``)})`).join(", ");
}

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
	settings: {
		page: "how-a-device-decides",
		table: tableOf(
			["Setting, and its name in the dashboard", "Values, with the default first", "Refusals that it causes"],
			Object.values({ ...DELIVERY_FIELDS, ...ACCEPTANCE_FIELDS }).map((field) => [
				`\`${field.field}\`: ${field.label}`,
				valuesOf(field),
				refusalsOf(field.field),
			]),
		),
	},
	undecided: {
		page: "how-a-device-decides",
		table: tableOf(
			["Code", "Message", "Remedy"],
			UNDECIDED_CODES.map((code) => [`\`${code}\``, UNDECIDED[code].message, UNDECIDED[code].remedy]),
		),
	},
	versions: {
		page: "stores-and-versions",
		table: tableOf(
			["Client", "Version"],
			CLIENTS.map((name) => [`\`${name}\``, devDependencies[name]]),
		),
	},
};

/** The page with its tables, and with the section of every refusal, as the code has them. */
function derived(page: string, text: string): string {
	let result = text;
	for (const [name, { table }] of Object.entries(TABLES).filter(([, each]) => each.page === page)) {
		const marker = `<!-- table: ${name} -->\n`;
		const [before, after, ...more] = result.split(marker);
		if (after === undefined || more.length > 0) throw new Error(`${page}.md has not one marker of the table ${name}`);
		result = `${before}${marker}${table}\n${after.replace(/^(\|.*\n)*/, "")}`;
	}
	return result.replace(
		/(<!-- refusals -->\n)[\s\S]*?(<!-- \/refusals -->)/,
		(_, begin: string, end: string) => `${begin}\n${refusalSections()}\n${end}`,
	);
}

test.each([...new Set(Object.values(TABLES).map(({ page }) => page))])(
	"the tables of %s.md are those of the code",
	async (page) => {
		const path = fileURLToPath(new URL(`../../src/docs/${page}.md`, import.meta.url));
		await expect(derived(page, readFileSync(path, "utf8"))).toMatchFileSnapshot(path);
	},
);

test("each refusal has a scene, which the product refuses with its code", () => {
	expect(REFUSAL_CODES.map((code) => explained(code).code)).toEqual(REFUSAL_CODES);
});

const fileText = (path: string) => readFileSync(fileURLToPath(new URL(`../../${path}`, import.meta.url)), "utf8");
/** Entries and tabs of the dashboard. Their module has drawings, which this project does not read. */
const PLACES = [...fileText("dashboard/src/shell/places.ts").matchAll(/(?:\blabel: |\["[a-z]+", )"([^"]+)"/g)].map(
	([, label]) => label,
);
/** Names that guides quote: pages and switches of the dashboard, and what other products call theirs. */
const QUOTED = [
	...PLACES,
	...Object.values({ ...DELIVERY_FIELDS, ...ACCEPTANCE_FIELDS }).map(({ label }) => label),
	...["Your account", "The app has no report of …", "Capstan"],
	// Cloudflare, GitHub and GitLab.
	...["Eligible for cache", "Pull requests", "Report a vulnerability", "Merge request events"],
];

test.each(GUIDE_NAMES)("%s.md names the dashboard as it is", (name) => {
	const prose = guideText(name)
		.replaceAll(/^```[\s\S]*?^```/gm, "")
		.replaceAll(/`[^`]*`/g, "");
	const named = [...prose.matchAll(/"([A-Z][^"\n]{1,40})"/g)].map(([, quoted]) => quoted);
	expect(named.filter((each) => !QUOTED.includes(each))).toEqual([]);
});

const { AUDIT_DAYS, DEVICE_DAYS, EVENT_DAYS, EVENT_MEMORY_DAYS, STATISTICS_DAYS } = RETENTION_DAYS;
const gigabytes = (deviceDays: number) => gigabytesOfMillion(MEASURED, deviceDays).toFixed(1);
const retention = (name: keyof typeof RETENTION_DAYS) => {
	const { least, most, default: days } = RETENTION_DAYS[name];
	return `| ${days} days | \`${name}\`, ${least} to ${most} |`;
};

/** Sentences with a number of src/domain/defaults.ts. */
const SENTENCES: Readonly<Record<string, readonly string[]>> = {
	"README.md": [`or ${PREVIEW_DAYS} quiet days`],
	"actions/preview/action.yml": [`Days without an upload until the preview closes. Default is ${PREVIEW_DAYS}`],
	"src/docs/previews.md": [`A preview ends ${PREVIEW_DAYS} days after its last push`],
	"src/docs/access.md": [
		`For ${RESTORABLE_DAYS} days (\`restorable_until\`)`,
		`can be undone for ${RESTORABLE_DAYS} days`,
		`for ${AUDIT_DAYS.default} days (\`AUDIT_DAYS\`)`,
	],
	"src/docs/security.md": [`A deleted app can be restored for ${RESTORABLE_DAYS} days.`],
	"src/docs/ci.md": [`marks publishers as \`unused\` after ${UNUSED_DAYS} days`],
	"src/docs/webhooks.md": [`deliveries of ${DELIVERY_DAYS} days`],
	"wrangler.toml": (Object.keys(RETENTION_DAYS) as (keyof typeof RETENTION_DAYS)[])
		.map((name) => `Empty: ${RETENTION_DAYS[name].default}. ${name} = ""`)
		.concat(`crons = ["*/${CLEAN_UP_MINUTES} * * * *"]`),
	"src/docs/deploying.md": [
		`audit log: ${[EVENT_MEMORY_DAYS, EVENT_DAYS, STATISTICS_DAYS, DEVICE_DAYS, AUDIT_DAYS].map((each) => each.default).join(", ")} |`,
		`need ${gigabytes(DEVICE_DAYS.default)} GB with the default \`DEVICE_DAYS\` (${DEVICE_DAYS.default})`,
		`${gigabytes(DEVICE_DAYS.least)} GB with ${DEVICE_DAYS.least} (`,
	],
	"ARCHITECTURE.md": [
		`${MEASURED.deviceBytes} bytes for each device seen in \`DEVICE_DAYS\`, and ${MEASURED.updateBytes} for each update`,
		`that is ${gigabytes(DEVICE_DAYS.default)} GB for a million daily devices with ${DEVICE_DAYS.default} \`DEVICE_DAYS\``,
		`and ${gigabytes(DEVICE_DAYS.least)} GB with ${DEVICE_DAYS.least}.`,
	],
	"src/docs/statistics.md": (Object.keys(RETENTION_DAYS) as (keyof typeof RETENTION_DAYS)[]).map(retention),
};

test.each(Object.entries(SENTENCES))("%s has the numbers of the code", (path, sentences) => {
	const text = fileText(path).replaceAll(/\s+/g, " ");
	expect(sentences.filter((sentence) => !text.includes(sentence))).toEqual([]);
});
