/**
 * The rules of the source tree, read from its text: which layer may import which, where the clock and randomness are touched, where
 * roles are named, how files begin. Each rule is first shown a text that breaks it, so that a rule that cannot fail is caught.
 */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, test } from "vitest";
import { ROLE_NAMES } from "../../src/authz/permissions";

const SOURCE = fileURLToPath(new URL("../../src", import.meta.url));

interface SourceFile {
	/** Below src, e.g. `api/routes/app.ts`. */
	readonly path: string;
	readonly text: string;
}

const files: readonly SourceFile[] = readdirSync(SOURCE, { recursive: true, encoding: "utf8" })
	.filter((path) => path.endsWith(".ts"))
	.map((path) => ({ path, text: readFileSync(join(SOURCE, path), "utf8") }));

/** What each layer may import besides itself. A layer calls to its right: worker, app, compat, api, ..., domain. */
const BOTTOM = ["domain", "errors", "config"];
const MAY_IMPORT: Readonly<Record<string, readonly string[]>> = {
	worker: ["app", "events", "deps", ...BOTTOM],
	app: ["compat", "api", "device", "deps", ...BOTTOM],
	compat: ["api", "events", "authz", "storage", "db", "deps", ...BOTTOM],
	device: ["api", "events", "authz", "storage", "db", "deps", ...BOTTOM],
	api: ["events", "authz", "storage", "db", "deps", ...BOTTOM],
	events: ["storage", "db", "deps", ...BOTTOM],
	storage: [...BOTTOM],
	authz: ["db", ...BOTTOM],
	// Queries take the branded ids that decisions give out, and the key's shape; those are types of authz.
	db: ["authz", ...BOTTOM],
	deps: ["events", ...BOTTOM],
	config: ["errors"],
	domain: [],
	errors: [],
	// Reaches the server through its types alone.
	client: ["app"],
	// Starts and deploys the server; whatever else it wants of it goes through client.
	cli: ["client", "db", "authz", "app", "api", ...BOTTOM],
};

const layerOf = (path: string) => path.split("/")[0]?.replace(/\.ts$/, "") ?? "";

function importsOf({ path, text }: SourceFile): { layer: string; typeOnly: boolean }[] {
	const found: { layer: string; typeOnly: boolean }[] = [];
	for (const [, type, target = ""] of text.matchAll(/^(?:import|export) (type )?[^;]*?from "(\.[^"]+)";$/gms)) {
		const resolved = join(path, "..", target);
		found.push({ layer: layerOf(resolved), typeOnly: type !== undefined });
	}
	return found;
}

const RULES: Readonly<Record<string, { breaks: (file: SourceFile) => string | undefined; violation: SourceFile }>> = {
	"a layer imports only layers to its right": {
		breaks(file) {
			const layer = layerOf(file.path);
			const wrong = importsOf(file).find(
				(target) =>
					target.layer !== layer &&
					!(MAY_IMPORT[layer] ?? []).includes(target.layer) &&
					// What the world outside looks like is a type that everybody may know.
					!(target.typeOnly && target.layer === "deps"),
			);
			return wrong === undefined
				? undefined
				: `${layer} must not import ${wrong.layer}; move what you need to a layer that both may import`;
		},
		violation: { path: "domain/rule.ts", text: '/**\n * x\n */\nimport { query } from "../db/client";\n' },
	},
	"the client has nothing of the server at run time": {
		breaks: (file) =>
			layerOf(file.path) === "client" && importsOf(file).some((target) => target.layer !== "client" && !target.typeOnly)
				? "import types only"
				: undefined,
		violation: { path: "client/client.ts", text: '/**\n * x\n */\nimport { allEndpoints } from "../app";\n' },
	},
	"only deps.ts and the command line touch the clock, randomness and the network": {
		breaks({ path, text }) {
			if (path === "deps.ts" || ["cli", "client"].includes(layerOf(path))) return undefined;
			const found = /Date\.now\(|new Date\(\)|Math\.random|randomUUID|getRandomValues|(?<![.\w]|async )fetch\(/.exec(
				withoutComments(text),
			);
			return found === null ? undefined : `${found[0]}: take it from Deps`;
		},
		violation: { path: "api/x.ts", text: "/**\n * x\n */\nconst now = Date.now();\n" },
	},
	"roles are named in the role table alone": {
		breaks({ path, text }) {
			// Examples in documentation, error texts with a remedy, and the first run's own rows.
			const excepted = ["authz/permissions.ts", "db/bootstrap.ts", "docs/openapi.json"];
			if (excepted.includes(path)) return undefined;
			const code = withoutComments(text)
				.replace(/\brole_name: "app_preview"/g, "")
				.replace(/"org\.create needs an .*"/g, "");
			const named = ROLE_NAMES.find((name) => code.includes(`"${name}"`));
			return named === undefined
				? undefined
				: `${named}: give the role a property in authz/permissions.ts and ask for that`;
		},
		violation: { path: "api/x.ts", text: '/**\n * x\n */\nif (role === "org_admin") allow();\n' },
	},
	"no any, and no non-null assertion": {
		breaks({ text }) {
			const found = /:\s*any\b|\bas any\b|<any>|[\w\])]!(?=[.;,)[\]])/.exec(
				withoutComments(text).replace(/(["'`])(?:\\.|(?!\1).)*\1/g, '""'),
			);
			return found === null ? undefined : `${found[0]}: say what it is, or handle that it is missing`;
		},
		violation: { path: "api/x.ts", text: "/**\n * x\n */\nconst x = rows[0]!.id;\n" },
	},
	"a file opens with what it is for": {
		breaks: ({ text }) => (/^\/\*\*\n \* \S/.test(text) ? undefined : "open with a comment of two or three sentences"),
		violation: { path: "api/x.ts", text: "export const x = 1;\n" },
	},
	"file names are kebab-case": {
		breaks: ({ path }) => (/^([a-z0-9-]+\/)*[a-z0-9-]+\.ts$/.test(path) ? undefined : "rename it"),
		violation: { path: "api/myFile.ts", text: "" },
	},
};

function withoutComments(text: string): string {
	return text.replace(/\/\*[\s\S]*?\*\//g, "").replace(/(^|\s)\/\/.*$/gm, "");
}

describe("the source tree", () => {
	test.each(Object.entries(RULES))("%s", (_, { breaks, violation }) => {
		expect(breaks(violation), "the rule does not see a text that breaks it").toBeDefined();
		const broken = files.flatMap((file) => {
			const remedy = breaks(file);
			return remedy === undefined ? [] : [`src/${file.path}: ${remedy}`];
		});
		expect(broken).toEqual([]);
	});

	test("migrations hold no transaction statements, which work locally and fail in a deployment", () => {
		const directory = join(SOURCE, "db/migrations");
		const forbidden = /^\s*(BEGIN|COMMIT|ROLLBACK|SAVEPOINT)\b/im;
		expect(forbidden.test("BEGIN TRANSACTION;")).toBe(true);
		for (const name of readdirSync(directory))
			expect(readFileSync(join(directory, name), "utf8"), name).not.toMatch(forbidden);
	});
});
