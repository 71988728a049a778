/**
 * The styles of the component library: those of the parts that screens use, and of the parts
 * within these, in the library's own order, because later rules win over earlier ones.
 */
import { readdirSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { expect, test } from "vitest";
import { PROJECT_DIRECTORY } from "../../src/operator/project";

const LIBRARY = join(PROJECT_DIRECTORY, "node_modules/@mantine/core");
const NOTIFICATIONS = join(PROJECT_DIRECTORY, "node_modules/@mantine/notifications/esm");
const SCREENS = join(PROJECT_DIRECTORY, "dashboard/src");
const LIST = join(SCREENS, "library-parts.css");
/** Styles of no part. */
const GROUNDS = ["default-css-variables", "baseline", "global"];

const read = (...path: string[]) => readFileSync(join(...path), "utf8");

/** Names that the files of a directory import from the library. */
function importedNames(directory: string, files: RegExp): string[] {
	return readdirSync(directory, { recursive: true, encoding: "utf8" })
		.filter((file) => files.test(file))
		.flatMap((file) => [...read(directory, file).matchAll(/import \{([^}]*)\} from "@mantine\/core"/g)])
		.flatMap(([, names = ""]) => names.split(",").map((name) => name.trim()))
		.filter((name) => name !== "" && !name.startsWith("type "));
}

/** The file of each name that the library exports. */
function exportedFiles(): ReadonlyMap<string, string> {
	const index = read(LIBRARY, "esm/index.mjs");
	const imports = [...index.matchAll(/import \{([^}]*)\} from "\.\/([^"]+)"/g)];
	return new Map(
		imports.flatMap(([, names = "", file = ""]) =>
			names.split(",").map((name) => [name.trim().split(" as ").at(-1) ?? "", join(LIBRARY, "esm", file)] as const),
		),
	);
}

/** The files with all that they import. */
function closureOf(files: readonly string[]): ReadonlySet<string> {
	const closure = new Set(files);
	for (const file of closure)
		for (const [, imported = ""] of read(file).matchAll(/(?:from|import) "(\.[^"]+)"/g))
			closure.add(join(dirname(file), imported));
	return closure;
}

test("the dashboard has the styles of the library's parts that it uses, and no others", () => {
	const exported = exportedFiles();
	const names = [...importedNames(SCREENS, /\.tsx?$/), ...importedNames(NOTIFICATIONS, /\.mjs$/)];
	// It sets state while it renders, which Preact repeats without end once its value changes while
	// somebody types; components/number-field.tsx is in its place.
	expect(names).not.toContain("NumberInput");
	// A name without a file of the library's own is another package's, and has no styles.
	const files = [...new Set(names)].flatMap((name) => exported.get(name) ?? []);
	expect(files.length).toBeGreaterThan(20);
	const parts = [...closureOf(files)].flatMap((file) => /(\w+)\.module\.mjs$/.exec(file)?.[1] ?? []);
	const whole = read(LIBRARY, "styles.css");
	const places = [...GROUNDS, ...new Set(parts)].map((part) => {
		const place = whole.indexOf(read(LIBRARY, `styles/${part}.css`));
		expect(place, part).not.toBe(-1);
		return { part, place };
	});
	const expected = places
		.sort((one, other) => one.place - other.place)
		.map(({ part }) => `@import "@mantine/core/styles/${part}.css";\n`)
		.join("");
	expect(read(LIST).replace(/^\/\*[\s\S]*?\*\/\n/, "")).toBe(expected);
});
