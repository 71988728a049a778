/**
 * Holds the source tree to its rules (source-rules.ts), and the command line, the dashboard, the
 * documents and the migrations to theirs. Each rule is first shown a text that breaks it, so that a
 * rule that cannot fail is caught.
 */
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, test } from "vitest";
import { RAW_STATEMENTS, rawStatements } from "./raw-statements";
import { FEATURE_PAIRS, levelOf, RULES, SCREEN_PAIRS } from "./source-rules";
import { circleIn, importsOf, layerOf, localImports, packageOf, pairsOf, type SourceFile } from "./source-tree";

const SOURCE = fileURLToPath(new URL("../../src", import.meta.url));
const DASHBOARD = fileURLToPath(new URL("../../dashboard/src", import.meta.url));
const CLI = fileURLToPath(new URL("../../cli/src", import.meta.url));

const files: readonly SourceFile[] = readdirSync(SOURCE, { recursive: true, encoding: "utf8" })
	.filter((path) => path.endsWith(".ts"))
	.map((path) => ({ path, text: readFileSync(join(SOURCE, path), "utf8") }));

describe("the source tree", () => {
	test("is read whole", () => {
		expect(files.length).toBeGreaterThan(60);
		const layers = new Set(files.map(({ path }) => layerOf(path)));
		expect(
			[...layers].filter((layer) => levelOf(layer) < 0),
			"give it a level in LEVELS",
		).toEqual([]);
	});

	test("has no listed pair of features that nothing imports any more", () => {
		const pairs = files.flatMap(pairsOf);
		expect(FEATURE_PAIRS.filter((pair) => !pairs.includes(pair))).toEqual([]);
	});

	test("has no listed raw statement that is gone", () => {
		const counts = new Map(files.map(({ path, text }) => [path, rawStatements(text).length]));
		const gone = Object.entries(RAW_STATEMENTS).filter(([path, count]) => (counts.get(path) ?? 0) < count);
		expect(gone, "lower the number in RAW_STATEMENTS").toEqual([]);
	});

	test("has no import circle, in the Worker and in the dashboard", () => {
		const graph = (root: string) =>
			new Map(
				readdirSync(root, { recursive: true, encoding: "utf8" })
					.filter((path) => /\.tsx?$/.test(path))
					.map((path) => [path, localImports(path, readFileSync(join(root, path), "utf8"))]),
			);
		expect(
			circleIn(
				new Map([
					["a.ts", ["b"]],
					["b.tsx", ["c"]],
					["c.ts", ["a"]],
				]),
			),
		).toEqual(["a", "b", "c", "a"]);
		expect(circleIn(graph(SOURCE))).toEqual([]);
		expect(circleIn(graph(DASHBOARD))).toEqual([]);
	});

	test("the dashboard's screens stand on components, and know neither the shell nor screens of another folder", () => {
		const wrong = (path: string, text: string) =>
			localImports(path, text).filter((target) => {
				const [from = "", feature = ""] = path.split("/");
				const [to = "", other = ""] = target.split("/");
				if (from === "components") return ["screens", "shell", "app", "main"].includes(to);
				if (from !== "screens") return false;
				if (to === "screens") return other !== feature && !SCREEN_PAIRS.includes(`${feature} -> ${other}`);
				return ["shell", "app", "main"].includes(to);
			});
		expect(wrong("components/x.tsx", 'import { A } from "../screens/apps/apps";\n')).toEqual(["screens/apps/apps"]);
		expect(wrong("screens/apps/x.tsx", 'import type { A } from "../../app";\n')).toEqual(["app"]);
		expect(wrong("screens/apps/x.tsx", 'import { A } from "../keys/key";\n')).toEqual(["screens/keys/key"]);
		const broken = readdirSync(DASHBOARD, { recursive: true, encoding: "utf8" })
			.filter((path) => /\.tsx?$/.test(path))
			.flatMap((path) =>
				wrong(path, readFileSync(join(DASHBOARD, path), "utf8")).map((target) => `${path} imports ${target}`),
			);
		expect(broken).toEqual([]);
	});

	test.each(Object.entries(RULES))("%s", (_, { breaks, violations, fine = [] }) => {
		for (const violation of violations) {
			expect(
				breaks(violation),
				`the rule does not see what breaks it: ${violation.path} ${violation.text}`,
			).toBeDefined();
		}
		for (const kept of fine) expect(breaks(kept), `${kept.path} ${kept.text}`).toBeUndefined();
		const broken = files.flatMap((file) => {
			const remedy = breaks(file);
			return remedy === undefined ? [] : [`src/${file.path}: ${remedy}`];
		});
		expect(broken).toEqual([]);
	});

	test("the capstan command has only the typed client of src, nothing but Node at run time, and the rules of src for text, versions and repositories", () => {
		const bundled = ["fflate", "semver", "uqr"];
		const wrong = ({ path, text }: SourceFile) =>
			importsOf(text)
				.filter(({ target, typeOnly }) => {
					if (!target.startsWith(".")) return !target.startsWith("node:") && !bundled.includes(packageOf(target));
					const file = join(path, "..", target);
					const isShared =
						/^\.\.\/\.\.\/src\/(client\/|domain\/(defaults$|ci\/repository$|words\/[a-z]+|updates\/(version|refusals))$)/.test(
							file,
						);
					return file.startsWith("../../src/") && !typeOnly && !isShared;
				})
				.map(({ target }) => `${path} imports ${target}`);
		expect(wrong({ path: "x.ts", text: 'import { ApiError } from "../../src/errors";\n' })).toHaveLength(1);
		expect(wrong({ path: "commands/x.ts", text: 'import { hono } from "hono";\n' })).toHaveLength(1);
		expect(
			wrong({ path: "commands/x.ts", text: 'import { CapstanError } from "../../../src/client/client";\n' }),
		).toEqual([]);
		const own = readdirSync(CLI, { recursive: true, encoding: "utf8" })
			.filter((path) => path.endsWith(".ts"))
			.map((path) => ({ path, text: readFileSync(join(CLI, path), "utf8") }));
		const shared = [
			"no any, and no non-null assertion",
			"a file opens with what it is for",
			"words are those of the field",
			"file names are kebab-case",
		];
		const broken = own.flatMap((file) => [
			...wrong(file),
			...shared.flatMap((name) => RULES[name]?.breaks(file) ?? []),
		]);
		expect(own.length).toBeGreaterThan(10);
		expect(broken).toEqual([]);
		expect(circleIn(new Map(own.map(({ path, text }) => [path, localImports(path, text)])))).toEqual([]);
	});

	test.each(["src", "cli/src", "dashboard/src", "test", "bench"])(
		"the files of %s have the words of the field, and at most 400 lines",
		(tree) => {
			const root = join(SOURCE, "..", tree);
			const words = RULES["words are those of the field"];
			const broken = readdirSync(root, { recursive: true, encoding: "utf8" })
				// Its rules have the words that they refuse.
				.filter((path) => /\.tsx?$/.test(path) && path !== "unit/source-rules.ts")
				.map((path) => ({ path, text: readFileSync(join(root, path), "utf8") }))
				.flatMap((file) => [
					...(file.text.split("\n").length > 401 ? [`${file.path}: split it`] : []),
					...[words?.breaks(file) ?? []].flat().map((remedy) => `${file.path}: ${remedy}`),
				]);
			expect(broken).toEqual([]);
		},
	);

	const pages = ["ARCHITECTURE.md", "CONTRIBUTING.md", "test/README.md", "bench/README.md"];
	const featurePages = ["bundles", "rollouts", "statistics", "updates"].map((name) => `src/features/${name}/README.md`);
	test.each([...pages, ...featurePages])("%s names files that exist", (page) => {
		const root = join(SOURCE, "..");
		const named = (text: string) =>
			[...text.matchAll(/\b(?<!\/)(?:src|cli|test|bench|dashboard)\/[\w./-]*\w/g)].map(([path]) => path);
		const missing = (text: string) => named(text).filter((path) => !existsSync(join(root, path)));
		expect(missing("see `src/nowhere.ts`.")).toEqual(["src/nowhere.ts"]);
		expect(missing(readFileSync(join(root, page), "utf8"))).toEqual([]);
	});

	/**
	 * SQLite knows averages alone: where one app has most of a table's rows, its planner takes an
	 * index by the app for useless and scans the table for every other app, which in growth.test.ts
	 * makes 16 requests read more than their budget. Without statistics the plans are those that the
	 * tests hold.
	 */
	test("nothing collects statistics for the query planner", () => {
		const collects = /^\s*ANALYZE\b|\bPRAGMA\s+optimize\b|["'`]ANALYZE\b/im;
		for (const text of ["ANALYZE;", "\nPRAGMA optimize;", 'plain("ANALYZE devices")'])
			expect(collects.test(text)).toBe(true);
		const files = readdirSync(SOURCE, { recursive: true, encoding: "utf8" }).filter((name) => /\.(ts|sql)$/.test(name));
		const found = files.filter((name) => collects.test(readFileSync(join(SOURCE, name), "utf8")));
		expect(found).toEqual([]);
	});

	test("migrations hold no transactions and no triggers, which work locally and fail in a deployment", () => {
		const forbidden = /^\s*(BEGIN|COMMIT|ROLLBACK|SAVEPOINT|CREATE\s+(TEMP\w*\s+)?TRIGGER)\b/im;
		for (const text of ["BEGIN TRANSACTION;", "SELECT 1;\nCREATE TRIGGER t AFTER INSERT ON x\nBEGIN"])
			expect(forbidden.test(text)).toBe(true);
		for (const directory of ["db/migrations", "db/telemetry-migrations"].map((path) => join(SOURCE, path)))
			for (const name of readdirSync(directory))
				expect(readFileSync(join(directory, name), "utf8"), name).not.toMatch(forbidden);
	});
});
