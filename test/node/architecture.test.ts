/**
 * The rules of the source tree, read from its text: which layer may import which, where the clock and randomness are touched, where
 * roles are named, how files begin. Each rule is first shown a text that breaks it, so that a rule that cannot fail is caught.
 */
import { existsSync, readdirSync, readFileSync } from "node:fs";
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
	api: ["statistics", "events", "authz", "storage", "db", "deps", ...BOTTOM],
	events: ["authz", "storage", "db", "deps", ...BOTTOM],
	storage: [...BOTTOM],
	authz: ["db", ...BOTTOM],
	// Queries take the branded ids that decisions give out, and the key's shape; those are types of authz.
	db: ["authz", ...BOTTOM],
	deps: ["events", ...BOTTOM],
	config: ["domain", "errors"],
	domain: [],
	// Drawings of numbers; knows neither the database nor HTTP.
	statistics: [],
	errors: [],
	// Reaches the server through its types alone.
	client: ["app"],
	// Starts and deploys the server: it needs the first rows and the form of a key. Whatever else it wants goes through client.
	cli: ["client", "db", "authz", ...BOTTOM],
};
/** Files that may import more than their layer, with the reason. */
const MAY_ALSO_IMPORT: Readonly<Record<string, readonly string[]>> = {
	// Writes openapi.json from the endpoint list; nothing of it runs against a server.
	"cli/openapi.ts": ["app", "api"],
};

const layerOf = (path: string) => path.split("/")[0]?.replace(/\.ts$/, "") ?? "";

interface Import {
	readonly target: string;
	readonly typeOnly: boolean;
}

/** `import … from`, `export … from`, `import "…"` and `import("…")`. */
function importsOf(text: string): Import[] {
	const found = [...text.matchAll(/^(?:import|export) (type )?[^;]*?from "([^"]+)"/gms)].map(
		([, type, target = ""]) => ({ target, typeOnly: type !== undefined }),
	);
	for (const [, target = ""] of text.matchAll(/(?:^import |\bimport\(\s*)["'`]([^"'`]+)/gm)) {
		found.push({ target, typeOnly: false });
	}
	return found;
}

/** Imports of files of the source tree, by their layer. */
function layersOf({ path, text }: SourceFile): { layer: string; typeOnly: boolean }[] {
	return importsOf(text)
		.filter(({ target }) => target.startsWith("."))
		.map(({ target, typeOnly }) => ({ layer: layerOf(join(path, "..", target)), typeOnly }));
}

const { dependencies }: { dependencies: Record<string, string> } = JSON.parse(
	readFileSync(new URL("../../package.json", import.meta.url), "utf8"),
);
const packageOf = (target: string) => /^(@[^/]+\/)?[^/]+/.exec(target)?.[0] ?? "";

const HEADER = "/**\n * x\n */\n";
const file = (path: string, code: string): SourceFile => ({ path, text: HEADER + code });

interface Rule {
	/** The remedy; undefined where the file keeps the rule. */
	readonly breaks: (file: SourceFile) => string | undefined;
	/** Texts that break it. */
	readonly violations: readonly [SourceFile, ...SourceFile[]];
	/** Texts that look as if, and keep it. */
	readonly fine?: readonly SourceFile[];
}

const RULES: Readonly<Record<string, Rule>> = {
	"a layer imports only layers to its right": {
		breaks(file) {
			const layer = layerOf(file.path);
			const wrong = layersOf(file).find(
				(target) =>
					target.layer !== layer &&
					!(MAY_IMPORT[layer] ?? []).includes(target.layer) &&
					!(MAY_ALSO_IMPORT[file.path] ?? []).includes(target.layer) &&
					// What the world outside looks like is a type that everybody may know.
					!(target.typeOnly && target.layer === "deps"),
			);
			return wrong === undefined
				? undefined
				: `${layer} must not import ${wrong.layer}; move what you need to a layer that both may import`;
		},
		violations: [
			file("domain/rule.ts", 'import { query } from "../db/client";\n'),
			file("db/apps.ts", 'import {\n\tendpoint,\n} from "../api/endpoint";\n'),
			file("storage/objects.ts", 'import type { Kysely } from "../db/client";\n'),
			file("api/routes/app.ts", 'export { x } from "../../compat/capgo-cli/rpc";\n'),
			file("api/x.ts", 'const compat = await import("../compat/capgo-cli/rpc");\n'),
			file("domain/x.ts", 'import "../events/sweep";\n'),
			file("cli/start.ts", 'import { allEndpoints } from "../app";\n'),
			file("nowhere/x.ts", 'import { allEndpoints } from "../app";\n'),
		],
		fine: [
			file("api/routes/app.ts", 'import { query } from "../../db/client";\nimport * as v from "valibot";\n'),
			file("db/x.ts", 'import type { Deps } from "../deps";\n'),
			file("cli/openapi.ts", 'import { allEndpoints } from "../app";\n'),
		],
	},
	"the client has nothing of the server at run time": {
		breaks: (file) =>
			layerOf(file.path) === "client" && layersOf(file).some((target) => target.layer !== "client" && !target.typeOnly)
				? "import types only"
				: undefined,
		violations: [file("client/client.ts", 'import { allEndpoints } from "../app";\n')],
		fine: [file("client/client.ts", 'import type { allEndpoints } from "../app";\n')],
	},
	"the Worker is made of dependencies, and the document of the API is made without it": {
		breaks({ path, text }) {
			if (layerOf(path) === "cli") return undefined;
			const allowed = path === "api/openapi.ts" ? ["@valibot/to-json-schema"] : [];
			const foreign = importsOf(text).find(
				({ target }) =>
					!/^(\.|cloudflare:|node:)/.test(target) &&
					dependencies[packageOf(target)] === undefined &&
					!allowed.includes(packageOf(target)),
			);
			if (foreign !== undefined) return `${foreign.target}: make it a dependency, or use it from src/cli alone`;
			const document = importsOf(text).some(({ target }) => /^\..*\/openapi(\.json)?$/.test(target));
			return document ? "only src/cli makes openapi.json; the Worker serves the file as an asset" : undefined;
		},
		violations: [
			file("api/x.ts", 'import { toJsonSchema } from "@valibot/to-json-schema";\n'),
			file("app.ts", 'import { openApiDocument } from "./api/openapi";\n'),
			file("api/x.ts", 'import document from "../docs/openapi.json";\n'),
			file("domain/x.ts", 'import fc from "fast-check";\n'),
		],
		fine: [
			file(
				"domain/x.ts",
				'import parse from "semver/functions/parse";\nimport { sha256 } from "@noble/hashes/sha2.js";\n',
			),
		],
	},
	"only deps.ts and the command line touch the clock, randomness and the network": {
		breaks({ path, text }) {
			if (path === "deps.ts" || ["cli", "client"].includes(layerOf(path))) return undefined;
			const found =
				/Date\.now\(|new Date\(\)|Math\.random|performance\.now|randomUUID|getRandomValues|(?<![.\w]|async )fetch\(/.exec(
					withoutComments(text),
				);
			return found === null ? undefined : `${found[0]}: take it from Deps`;
		},
		violations: [
			file("api/x.ts", "const now = Date.now();\n"),
			file("api/x.ts", "const now = new Date();\n"),
			file("domain/x.ts", "if (Math.random() < 0.5) return;\n"),
			file("db/x.ts", "const id = crypto.randomUUID();\n"),
			file("authz/x.ts", "crypto.getRandomValues(bytes);\n"),
			file("events/x.ts", "const started = performance.now();\n"),
			file("storage/x.ts", "await fetch(url);\n"),
		],
		fine: [
			file("api/x.ts", "const at = new Date(nowMs);\nawait deps.fetch(url); // Date.now()\n"),
			file("deps.ts", "Date.now();\n"),
		],
	},
	"roles are named in the role table alone": {
		breaks({ path, text }) {
			// Examples in documentation, error texts with a remedy, and the first run's own rows.
			const excepted = ["authz/permissions.ts", "db/bootstrap.ts", "docs/openapi.json"];
			if (excepted.includes(path)) return undefined;
			const code = withoutComments(text)
				.replace(/\brole_name: "app_preview"/g, "")
				.replace(/"org\.create needs an .*"/g, "");
			// In quotes of every kind, because SQL has its own.
			const named = ROLE_NAMES.find((name) => new RegExp(`["'\`]${name}["'\`]`).test(code));
			return named === undefined
				? undefined
				: `${named}: give the role a property in authz/permissions.ts and ask for that`;
		},
		violations: [
			file("api/x.ts", 'if (role === "org_admin") allow();\n'),
			file("db/x.ts", "sql`SELECT 1 FROM role_bindings WHERE role_name = 'app_preview'`;\n"),
		],
		fine: [file("api/x.ts", "if (ROLES[role].ownWorkOnly) limit(); // not org_admin\n")],
	},
	"statements find an app by its public id with appIdOf, in whatever case": {
		breaks({ path, text }) {
			// These are about the id itself, which an organization keeps without an app.
			const excepted = ["db/public-app-id.ts", "db/deleted-apps.ts", "api/routes/app-deletion.ts", "cli/app-ids.ts"];
			if (excepted.includes(path)) return undefined;
			const found = /\bapps?\.app_id", "="|\bapp_id(?: = \$\{|", "=", )publicAppId\b/.exec(withoutComments(text));
			return found === null ? undefined : `${found[0]}: compare the app's UUID with appIdOf(publicAppId)`;
		},
		violations: [
			file("db/x.ts", 'query.selectFrom("apps").where("apps.app_id", "=", id);\n'),
			file("db/x.ts", 'query.selectFrom("apps").where("app_id", "=", publicAppId);\n'),
			file("api/x.ts", `const where = "a.app_id = \${publicAppId} AND 1";\n`),
		],
		fine: [
			file(
				"db/x.ts",
				`const where = "app_id = \${appIdOf(publicAppId)}";\njoin.onRef("channels.app_id", "=", "apps.id");\n`,
			),
			file("db/public-app-id.ts", `const where = "app_id = \${publicAppId}";\n`),
		],
	},
	"no any, and no non-null assertion": {
		breaks({ text }) {
			const found = /:\s*any\b|\bas any\b|[<,]\s*any\s*[,>[]|[\w\])]!(?=[.;,)[\]])/.exec(
				withoutComments(text).replace(/(["'`])(?:\\.|(?!\1).)*\1/g, '""'),
			);
			return found === null ? undefined : `${found[0]}: say what it is, or handle that it is missing`;
		},
		violations: [
			file("api/x.ts", "const x = rows[0]!.id;\n"),
			file("api/x.ts", "const x = value!;\n"),
			file("api/x.ts", "function f(x: any) {}\n"),
			file("api/x.ts", "const x = y as any;\n"),
			file("api/x.ts", "const x: Record<string, any> = {};\n"),
			file("api/x.ts", "const x: any[] = [];\n"),
		],
		fine: [
			file("api/x.ts", 'const ok = !done && left !== right;\nconst text = "take any: of these";\n// as any other\n'),
		],
	},
	"what only people need is imported when they sign in, so that no device waits for it": {
		breaks({ path, text }) {
			const late = (target: string) => ["@simplewebauthn/server", "oauth4webapi"].includes(target);
			const found = importsOf(text).find(
				({ target, typeOnly }) => !typeOnly && late(target) && !/^api\/(webauthn|openid)-library\.ts$/.test(path),
			);
			const early = /^import (?!type )[^;]*?from "[^"]*(?:webauthn|openid)-library"/ms.exec(text);
			return found === undefined && early === null
				? undefined
				: "import the library's file with import() where it is used";
		},
		violations: [
			file("api/x.ts", 'import { verifyRegistrationResponse } from "@simplewebauthn/server";\n'),
			file("api/x.ts", 'const library = await import("oauth4webapi");\n'),
			file("api/x.ts", 'import {\n\tcustomFetch,\n} from "./openid-library";\n'),
		],
		fine: [
			file(
				"api/x.ts",
				'import type { Client } from "oauth4webapi";\nconst library = () => import("./openid-library");\n',
			),
			file("api/openid-library.ts", 'export { customFetch } from "oauth4webapi";\n'),
		],
	},
	"a file opens with what it is for": {
		breaks: ({ text }) => (/^\/\*\*\n \* \S/.test(text) ? undefined : "open with a comment of two or three sentences"),
		violations: [
			{ path: "api/x.ts", text: "export const x = 1;\n" },
			{ path: "api/x.ts", text: "// x\nexport const x = 1;\n" },
		],
	},
	"file names are kebab-case": {
		breaks: ({ path }) => (/^([a-z0-9-]+\/)*[a-z0-9-]+(\.d)?\.ts$/.test(path) ? undefined : "rename it"),
		violations: [file("api/myFile.ts", ""), file("Api/x.ts", ""), file("api/my_file.ts", "")],
	},
};

function withoutComments(text: string): string {
	return text.replace(/\/\*[\s\S]*?\*\//g, "").replace(/(^|\s)\/\/.*$/gm, "");
}

describe("the source tree", () => {
	test("is read whole", () => {
		expect(files.length).toBeGreaterThan(60);
		const layers = new Set(files.map(({ path }) => layerOf(path)));
		expect(
			[...layers].filter((layer) => MAY_IMPORT[layer] === undefined),
			"say what it may import in MAY_IMPORT",
		).toEqual([]);
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

	test.each(["ARCHITECTURE.md", "CONTRIBUTING.md", "test/README.md"])("%s names files that exist", (page) => {
		const root = join(SOURCE, "..");
		const named = (text: string) =>
			[...text.matchAll(/\b(?:src|test|bench|dashboard)\/[\w./-]*\w/g)].map(([path]) => path);
		const missing = (text: string) => named(text).filter((path) => !existsSync(join(root, path)));
		expect(missing("see `src/nowhere.ts`.")).toEqual(["src/nowhere.ts"]);
		expect(missing(readFileSync(join(root, page), "utf8"))).toEqual([]);
	});

	test("migrations hold no transactions and no triggers, which work locally and fail in a deployment", () => {
		const directory = join(SOURCE, "db/migrations");
		const forbidden = /^\s*(BEGIN|COMMIT|ROLLBACK|SAVEPOINT|CREATE\s+(TEMP\w*\s+)?TRIGGER)\b/im;
		for (const text of ["BEGIN TRANSACTION;", "SELECT 1;\nCREATE TRIGGER t AFTER INSERT ON x\nBEGIN"])
			expect(forbidden.test(text)).toBe(true);
		for (const name of readdirSync(directory))
			expect(readFileSync(join(directory, name), "utf8"), name).not.toMatch(forbidden);
	});
});
