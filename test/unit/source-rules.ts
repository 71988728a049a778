/**
 * The rules of the source tree as data: which layer may import which, which files may touch the
 * clock or name a role, how files begin. Each rule comes with texts that break it, so that a rule
 * that cannot fail is caught, and with texts that only look as if they did.
 */
import { ROLE_NAMES } from "../../src/authz/permissions";
import { RAW_STATEMENTS, rawStatements } from "./raw-statements";
import { importsOf, layerOf, layersOf, packageOf, pairsOf, type SourceFile, withoutComments } from "./source-tree";

/**
 * The one rule: entry, compat, features, http, snapshots, queue, then db, storage and authz, then
 * domain and errors. A file imports files of the same level or below. The operator's commands and
 * the typed client stand beside the entry.
 */
const LEVELS: readonly (readonly string[])[] = [
	["domain", "errors", "config"],
	["db", "storage", "authz", "messages", "deps"],
	["queue", "mail", "charts"],
	["snapshots"],
	["http"],
	["features"],
	["compat"],
	["worker", "app", "endpoints", "fast-endpoints", "consumer", "schedule", "warm-up"],
	["client", "operator"],
];
export const levelOf = (layer: string) => LEVELS.findIndex((layers) => layers.includes(layer));
/** Types of the outside world and of Queue messages, which every level may know. */
const SHARED_TYPES = ["deps", "messages"];
/** db and authz stand side by side: statements take the ids that a decision gave out. */
const APART: readonly (readonly [string, string])[] = [
	["authz", "db"],
	["authz", "storage"],
	["storage", "db"],
	["storage", "authz"],
	["db", "storage"],
];
/**
 * The commands of the operator work without the Worker's features; openapi.ts makes openapi.json
 * from the endpoint list.
 */
const OPERATOR_MAY_IMPORT = ["client", "db", "authz", "domain", "errors", "config", "deps", "messages"];
const OPERATOR_EXCEPTIONS = ["operator/openapi.ts", "operator/written-docs.ts", "operator/guide.ts"];
/** Features that import another one. The list may only shrink. */
export const FEATURE_PAIRS = [
	"apps -> signing",
	"bundles -> channels",
	"bundles -> previews",
	"bundles -> signing",
	"channels -> signing",
	"channels -> updates",
	"devices -> signing",
	"groups -> keys",
	"groups -> organizations",
	"organizations -> accounts",
	"organizations -> keys",
	"organizations -> signing",
	"statistics -> rollouts",
	"statistics -> updates",
	"updates -> rollouts",
];
/** Screens that show a part of another feature's screens. The list may only shrink. */
export const SCREEN_PAIRS = ["apps -> bundles", "apps -> connect", "channels -> rollouts", "releases -> rollouts"];

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

/** Packages that run in the Worker. */
const WORKER_PACKAGES = [
	"@noble/hashes",
	"@simplewebauthn/server",
	"crc-32",
	"d3-scale",
	"d3-shape",
	"hono",
	"ipaddr.js",
	"jose",
	"kysely",
	"kysely-d1",
	"oauth4webapi",
	"semver",
	"valibot",
];

export const RULES: Readonly<Record<string, Rule>> = {
	"a file imports its own level or one below": {
		breaks(file) {
			const layer = layerOf(file.path);
			const isWrong = (target: string) => {
				if (target === layer) return false;
				if (layer === "operator" && !OPERATOR_EXCEPTIONS.includes(file.path)) {
					return !OPERATOR_MAY_IMPORT.includes(target);
				}
				const isApart = APART.some(([from, to]) => from === layer && to === target);
				return levelOf(layer) < 0 || levelOf(target) > levelOf(layer) || isApart;
			};
			const wrong = layersOf(file).find(
				(target) => isWrong(target.layer) && !(target.typeOnly && SHARED_TYPES.includes(target.layer)),
			);
			return wrong === undefined
				? undefined
				: `${layer} must not import ${wrong.layer}; move what you need to a level that both may import`;
		},
		violations: [
			file("domain/rule.ts", 'import { query } from "../db/client";\n'),
			file("db/apps.ts", 'import {\n\tendpoint,\n} from "../http/endpoint";\n'),
			file("storage/objects.ts", 'import type { Kysely } from "../db/client";\n'),
			file("authz/principal.ts", 'import { query } from "../db/client";\n'),
			file("features/apps/routes.ts", 'export { x } from "../../compat/capgo-cli/rpc";\n'),
			file("http/x.ts", 'const compat = await import("../compat/capgo-cli/rpc");\n'),
			file("domain/x.ts", 'import "../schedule";\n'),
			file("queue/x.ts", 'import { isFull } from "../features/statistics/device-rows";\n'),
			file("operator/start.ts", 'import { allEndpoints } from "../endpoints";\n'),
			file("snapshots/x.ts", 'import { createDeviceState } from "../http/device-state";\n'),
			file("queue/x.ts", 'import { STALE_MS } from "../snapshots/freshness";\n'),
			file("db/x.ts", 'import { STALE_MS } from "../snapshots/freshness";\n'),
			file("nowhere/x.ts", 'import { allEndpoints } from "../endpoints";\n'),
		],
		fine: [
			file("features/apps/routes.ts", 'import { query } from "../../db/client";\nimport * as v from "valibot";\n'),
			file("snapshots/x.ts", 'import { changesFrom } from "../db/changes";\n'),
			file("db/x.ts", 'import type { Deps } from "../deps";\n'),
			file("db/x.ts", 'import type { AppId } from "../authz/decide";\n'),
			file("operator/openapi.ts", 'import { allEndpoints } from "../endpoints";\n'),
		],
	},
	"a feature imports another only through the listed pairs": {
		breaks(file) {
			const wrong = pairsOf(file).find((pair) => !FEATURE_PAIRS.includes(pair));
			return wrong === undefined ? undefined : `${wrong}: move what both need to a level below the features`;
		},
		violations: [file("features/keys/rules.ts", 'import { x } from "../channels/change";\n')],
		fine: [
			file("features/keys/rules.ts", 'import { x } from "./record";\n'),
			file("features/apps/transfer.ts", 'import { x } from "../signing/routes";\n'),
		],
	},
	"the client has nothing of the server at run time": {
		breaks: (file) =>
			layerOf(file.path) === "client" && layersOf(file).some((target) => target.layer !== "client" && !target.typeOnly)
				? "import types only"
				: undefined,
		violations: [file("client/client.ts", 'import { allEndpoints } from "../endpoints";\n')],
		fine: [file("client/client.ts", 'import type { allEndpoints } from "../endpoints";\n')],
	},
	"the Worker is made of dependencies, and the document of the API is made without it": {
		breaks({ path, text }) {
			if (layerOf(path) === "operator") return undefined;
			const allowed = path === "http/openapi.ts" ? ["@valibot/to-json-schema"] : [];
			const foreign = importsOf(text).find(
				({ target }) =>
					!/^(\.|cloudflare:|node:)/.test(target) &&
					!WORKER_PACKAGES.includes(packageOf(target)) &&
					!allowed.includes(packageOf(target)),
			);
			if (foreign !== undefined)
				return `${foreign.target}: add it to WORKER_PACKAGES, or use it from src/operator alone`;
			const document = importsOf(text).some(({ target }) => /^\..*\/openapi(\.json)?$/.test(target));
			return document ? "only src/operator makes openapi.json; the Worker serves the file as an asset" : undefined;
		},
		violations: [
			file("features/apps/x.ts", 'import { toJsonSchema } from "@valibot/to-json-schema";\n'),
			file("app.ts", 'import { openApiDocument } from "../node/api/openapi";\n'),
			file("features/apps/x.ts", 'import document from "../docs/openapi.json";\n'),
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
			if (path === "deps.ts" || ["operator", "client"].includes(layerOf(path))) return undefined;
			const found =
				/Date\.now\(|new Date\(\)|Math\.random|performance\.now|randomUUID|getRandomValues|(?<![.\w]|async )fetch\(/.exec(
					withoutComments(text),
				);
			return found === null ? undefined : `${found[0]}: take it from Deps`;
		},
		violations: [
			file("features/apps/x.ts", "const now = Date.now();\n"),
			file("features/apps/x.ts", "const now = new Date();\n"),
			file("domain/x.ts", "if (Math.random() < 0.5) return;\n"),
			file("db/x.ts", "const id = crypto.randomUUID();\n"),
			file("authz/x.ts", "crypto.getRandomValues(bytes);\n"),
			file("queue/x.ts", "const started = performance.now();\n"),
			file("storage/x.ts", "await fetch(url);\n"),
		],
		fine: [
			file("features/apps/x.ts", "const at = new Date(nowMs);\nawait deps.fetch(url); // Date.now()\n"),
			file("deps.ts", "Date.now();\n"),
		],
	},
	"roles are named in the role table alone": {
		breaks({ path, text }) {
			// Examples in documentation, error texts with a remedy, and the first run's own rows.
			const excepted = ["authz/permissions.ts", "db/bootstrap.ts"];
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
			file("features/apps/x.ts", 'if (role === "org_admin") allow();\n'),
			file("db/x.ts", "sql`SELECT 1 FROM role_bindings WHERE role_name = 'app_preview'`;\n"),
		],
		fine: [file("features/apps/x.ts", "if (ROLES[role].ownWorkOnly) limit(); // not org_admin\n")],
	},
	"statements find an app by its public id with appIdOf, in whatever case": {
		breaks({ path, text }) {
			// These are about the id itself, which an organization keeps without an app.
			const excepted = [
				"db/public-app-id.ts",
				"db/deleted-apps.ts",
				"features/apps/deletion.ts",
				"operator/app-ids.ts",
			];
			if (excepted.includes(path)) return undefined;
			const found = /\bapps?\.app_id", "="|\bapp_id(?: = \$\{|", "=", )publicAppId\b/.exec(withoutComments(text));
			return found === null ? undefined : `${found[0]}: compare the app's UUID with appIdOf(publicAppId)`;
		},
		violations: [
			file("db/x.ts", 'query.selectFrom("apps").where("apps.app_id", "=", id);\n'),
			file("db/x.ts", 'query.selectFrom("apps").where("app_id", "=", publicAppId);\n'),
			file("features/apps/x.ts", `const where = "a.app_id = \${publicAppId} AND 1";\n`),
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
			file("features/apps/x.ts", "const x = rows[0]!.id;\n"),
			file("features/apps/x.ts", "const x = value!;\n"),
			file("features/apps/x.ts", "function f(x: any) {}\n"),
			file("features/apps/x.ts", "const x = y as any;\n"),
			file("features/apps/x.ts", "const x: Record<string, any> = {};\n"),
			file("features/apps/x.ts", "const x: any[] = [];\n"),
		],
		fine: [
			file(
				"features/apps/x.ts",
				'const ok = !done && left !== right;\nconst text = "take any: of these";\n// as any other\n',
			),
		],
	},
	"a statement over one or two tables is built, so that a renamed column fails to compile": {
		breaks({ path, text }) {
			const raw = rawStatements(text);
			const first = raw[0]?.replaceAll(/\s+/g, " ").trim().slice(0, 60);
			return raw.length <= (RAW_STATEMENTS[path] ?? 0)
				? undefined
				: `${raw.length} raw statements such as "${first}": build it with query or reportQuery (src/db/client.ts)`;
		},
		violations: [
			file("db/x.ts", "const x = sql`DELETE FROM apps WHERE id = 1`.compile(query);\n"),
			file(
				"db/x.ts",
				"const x = sql<{ id: string }>`\n\tSELECT a.id FROM apps a JOIN channels c ON c.app_id = a.id`;\n",
			),
			file("features/apps/x.ts", `const x = [sql\`UPDATE apps SET name = \${name} WHERE \${f(\`\${id}\`)}\`];\n`),
			file("db/x.ts", `const x = sql\`INSERT INTO apps (id) SELECT \${id} WHERE \${sql\`EXISTS (SELECT 1)\`}\`;\n`),
		],
		fine: [
			file("db/x.ts", "const x = sql<boolean>`EXISTS (SELECT 1 FROM apps WHERE id = 1)`;\n"),
			file("db/x.ts", "const x = sql`SELECT id FROM apps INDEXED BY apps_by_org WHERE owner_org = 1`;\n"),
			file("db/x.ts", `const x = sql\`SELECT id FROM apps WHERE id IN \${jsonList(ids)}\`;\n`),
			file("db/x.ts", "const x = sql`DELETE FROM bundles WHERE +app_id = 1 AND id = 2`;\n"),
			file("db/x.ts", "const x = sql`SELECT 1 FROM apps a JOIN channels c ON true JOIN bundles b ON true`;\n"),
			file("db/x.ts", 'const x = query.deleteFrom("apps").where(sql<boolean>`id = 1`).compile();\n'),
		],
	},
	"what only people need is imported when they sign in, so that no device waits for it": {
		breaks({ path, text }) {
			const late = (target: string) => ["@simplewebauthn/server", "oauth4webapi"].includes(target);
			const found = importsOf(text).find(
				({ target, typeOnly }) =>
					!typeOnly && late(target) && !/^features\/accounts\/(webauthn|openid)-library\.ts$/.test(path),
			);
			const early = /^import (?!type )[^;]*?from "[^"]*(?:webauthn|openid)-library"/ms.exec(text);
			return found === undefined && early === null
				? undefined
				: "import the library's file with import() where it is used";
		},
		violations: [
			file("features/apps/x.ts", 'import { verifyRegistrationResponse } from "@simplewebauthn/server";\n'),
			file("features/apps/x.ts", 'const library = await import("oauth4webapi");\n'),
			file("features/apps/x.ts", 'import {\n\tcustomFetch,\n} from "../node/openid-library";\n'),
		],
		fine: [
			file(
				"api/x.ts",
				'import type { Client } from "oauth4webapi";\nconst library = () => import("../node/openid-library");\n',
			),
			file("features/accounts/openid-library.ts", 'export { customFetch } from "oauth4webapi";\n'),
		],
	},
	"a file opens with what it is for": {
		breaks: ({ text }) => (/^\/\*\*\n \* \S/.test(text) ? undefined : "open with a comment of two or three sentences"),
		violations: [
			{ path: "features/apps/x.ts", text: "export const x = 1;\n" },
			{ path: "features/apps/x.ts", text: "// x\nexport const x = 1;\n" },
		],
	},
	"words are those of the field": {
		breaks({ text }) {
			const word = /\b([Tt]old|[Ww]hoever|heard|mend|[Gg]ather(ed|s)?|[Oo]vertaken|outlived|per cent|anew)\b/.exec(
				text,
			);
			if (word !== null) return `${word[0]}: write reported, the actor, fix, buffer, conflict, expired, % or again`;
			const start = /(\/\*\*|\/\/|^ \*) (Of|What|Whoever|Where|By what|So that) [a-z]/m.exec(text);
			return start === null ? undefined : `${start[0]}: begin the sentence with its subject`;
		},
		violations: [
			file("domain/x.ts", "// The version that the device told last.\n"),
			file("domain/x.ts", "/** What the device reported last. */\n"),
			file("features/apps/x.ts", 'const message = "50 per cent";\n'),
		],
		fine: [file("domain/x.ts", 'const kind = "rollout_told";\n')],
	},
	"a text names a period by its constant": {
		breaks({ path, text }) {
			if (path === "domain/defaults.ts") return undefined;
			const code = text.replaceAll(/^\t*(\/\*| \*|\/\/).*/gm, "");
			const spelled = /["'`][^"'`\n$]*?\b([2-9]|[1-9]\d+) (days|minutes)\b/.exec(code);
			return spelled === null ? undefined : `${spelled[0]}: take the number from its constant (src/domain/defaults.ts)`;
		},
		violations: [
			file("features/apps/x.ts", 'const summary = "Can be undone for 30 days";\n'),
			file("db/x.ts", "const text = `within 15 minutes`;\n"),
		],
		fine: [
			file("features/apps/x.ts", "// Within 30 days.\nconst text = `within $" + "{RESTORABLE_DAYS} days`;\n"),
			file("features/apps/x.ts", 'const text = "devices of one day, or 1 minute";\n'),
		],
	},
	"a line has at most 150 columns, and a text at most 300": {
		breaks({ path, text }) {
			// Texts of files that Capstan writes, whose lines are these.
			if (["client/ci-gitlab.ts", "operator/build.ts", "operator/docs-pages.ts"].includes(path)) return undefined;
			const columns = (line: string) => line.replaceAll("\t", "  ").length;
			const isText = (line: string) => /["'`][,;)]*$/.test(line);
			const long = text.split("\n").find((line) => columns(line) > (isText(line) ? 300 : 150));
			return long === undefined
				? undefined
				: `${long.trim().slice(0, 60)}: break it; a description of an endpoint has a line for each sentence (Prose)`;
		},
		violations: [
			file("features/apps/x.ts", `const x = "${"word ".repeat(60)}";\n`),
			file("db/x.ts", `const x = sql\`SELECT ${"column, ".repeat(20)}\nFROM apps\`;\n`),
		],
		fine: [file("features/apps/x.ts", `throw new Error("${"word ".repeat(50)}");\n`)],
	},
	"a comment is at most 100 columns wide": {
		breaks({ text }) {
			const wide = text.split("\n").find((line) => /^\t*(\/\*| \*|\/\/)/.test(line) && line.trim().length > 100);
			return wide === undefined ? undefined : `${wide.trim().slice(0, 60)}: break it`;
		},
		violations: [
			file("domain/x.ts", `// ${"word ".repeat(25)}\n`),
			file("domain/x.ts", `/*\n * ${"word ".repeat(25)}\n */\n`),
		],
		fine: [file("domain/x.ts", `\t\t// ${"word ".repeat(19)}\n`)],
	},
	"a tag begins a line of its comment": {
		breaks({ text }) {
			const inline = /^(?:\t* \*|\t*\/\*\*) [^@\n]+ @(?:throws|returns|param)\b/m.exec(text);
			return inline === null ? undefined : `${inline[0].trim()}: begin a line with the tag`;
		},
		violations: [file("domain/x.ts", "/** The name. @throws {ApiError} always */\n")],
		fine: [file("domain/x.ts", "/**\n * The name.\n * @throws {ApiError} always\n */\n")],
	},
	"file names are kebab-case": {
		breaks: ({ path }) => (/^([a-z0-9-]+\/)*[a-z0-9-]+(\.d)?\.ts$/.test(path) ? undefined : "rename it"),
		violations: [file("features/apps/myFile.ts", ""), file("Features/x.ts", ""), file("features/apps/my_file.ts", "")],
	},
};
