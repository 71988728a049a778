/**
 * src/docs/ci.md is true: its publisher is created as printed, and the job of each provider gets a key and uploads with the stock CLI,
 * while a local issuer plays the provider.
 */
import { chmod, mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { Response } from "miniflare";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { parse } from "yaml";
import { guidePage } from "../../src/operator/guide";
import { CLI, createCliProject } from "../proof/clients/capgo-cli";
import { difference, examplesOf, jsonValues, runExamples } from "./support/examples";
import { GITHUB_JOB, type LocalIssuer, startLocalIssuer } from "./support/local-issuer";
import { type Product, startProduct } from "./support/product";
import { writeTools } from "./support/tools";

const PATH = fileURLToPath(new URL("../../src/docs/ci.md", import.meta.url));
const APP = "com.example.keyless";
const CIRCLE = "https://oidc.circleci.com/org/8c2f0000-0000-4000-8000-000000000000";

let product: Product;
let issuer: LocalIssuer;
let tools: string;
let page: string;

beforeAll(async () => {
	issuer = await startLocalIssuer();
	product = await startProduct({
		outboundService: ({ url }) => {
			const { origin, pathname } = new URL(url);
			const path = pathname.match(/(\/\.well-known\/.*|\/keys)$/)?.[0] ?? "";
			const document = issuer.document(url.slice(0, url.length - path.length), path);
			return document === undefined ? new Response(`nothing at ${origin}`, { status: 404 }) : Response.json(document);
		},
	});
	tools = join(product.directory, "bin");
	await mkdir(tools);
	await writeTools(tools);
	await mkdir(join(product.directory, ".capstan"));
	await writeFile(join(product.directory, ".capstan/admin.key"), `${product.adminKey}\n`);
	page = (await readFile(PATH, "utf8")).replaceAll("http://127.0.0.1:8787", product.url);
	const examples = examplesOf(page);
	const printed = await runExamples(examples, { directory: product.directory, path: tools });
	for (const [index, { line, shown }] of examples.entries()) {
		if (shown === undefined) continue;
		expect(difference(jsonValues(shown), jsonValues(printed[index] ?? "")), `line ${line}`).toBe(undefined);
	}
});
afterAll(async () => {
	await product.stop();
	await issuer.stop();
});

/** The YAML block below a heading of the page. */
const blockOf = (heading: string) =>
	parse(page.split(`### ${heading}\n`)[1]?.match(/```yaml\n([\s\S]*?)```/)?.[1] ?? "");

interface Job {
	readonly heading: string;
	/** The commands of the job, from its block. */
	// biome-ignore lint/suspicious/noExplicitAny: blocks of four formats
	readonly commands: (block: any) => string;
	readonly claims: Readonly<Record<string, unknown>>;
	/** Absent: the page's own request creates it. */
	readonly publisher?: Readonly<Record<string, unknown>>;
	readonly environment: () => Readonly<Record<string, string>>;
	readonly version: string;
}

const JOBS: readonly Job[] = [
	{
		heading: "GitHub Actions",
		commands: ({ jobs }) => jobs.release.steps.at(-1).run,
		claims: { ...GITHUB_JOB, iss: "https://token.actions.githubusercontent.com" },
		environment: () => ({
			ACTIONS_ID_TOKEN_REQUEST_TOKEN: "job-secret",
			ACTIONS_ID_TOKEN_REQUEST_URL: `${issuer.url}/token?api-version=2.0`,
			GITHUB_RUN_NUMBER: "7",
		}),
		version: "1.0.7",
	},
	{
		heading: "GitLab CI",
		commands: ({ release }) => release.script.slice(1).join("\n"),
		claims: { iss: "https://gitlab.com", project_id: "20", namespace_id: "72", pipeline_source: "push" },
		publisher: { provider: "gitlab", claims: { project_id: "20", namespace_id: "72" } },
		environment: () => ({
			TOKEN: issuer.token({ ...issuer.job, aud: blockOf("GitLab CI").release.id_tokens.TOKEN.aud }),
			CI_JOB_ID: "7",
		}),
		version: "1.1.7",
	},
	{
		heading: "CircleCI",
		commands: ({ jobs }) => jobs.release.steps.at(-1).run,
		claims: { iss: CIRCLE, "oidc.circleci.com/project-id": "p-1", "oidc.circleci.com/ssh-rerun": false },
		publisher: { provider: "circleci", issuer: CIRCLE, claims: { "oidc.circleci.com/project-id": "p-1" } },
		environment: () => ({ CIRCLE_BUILD_NUM: "7" }),
		version: "1.2.7",
	},
	{
		heading: "Buildkite",
		// The agent replaces $$ by $ before the shell runs it.
		commands: ({ steps }) => steps[0].command.replaceAll("$$", "$").split("\n").slice(1).join("\n"),
		claims: { iss: "https://agent.buildkite.com", pipeline_id: "p-2", organization_id: "o-2", build_branch: "main" },
		publisher: { provider: "buildkite", claims: { pipeline_id: "p-2", organization_id: "o-2" } },
		environment: () => ({ BUILDKITE_BUILD_NUMBER: "7" }),
		version: "1.3.7",
	},
];

describe("src/docs/ci.md", () => {
	test.each(JOBS)(
		"the job of $heading gets a key and uploads",
		async ({ heading, commands, claims, publisher, environment, version }) => {
			issuer.job = claims;
			if (publisher !== undefined) {
				const body = { app_id: APP, name: heading, stage: "promote", ...publisher };
				expect((await product.api("POST", "/publisher", body)).status).toBe(201);
			}
			const project = await createCliProject(product.directory, product.url, APP);
			const bin = join(project.home, "bin");
			await mkdir(bin);
			await writeTools(bin);
			const agent = `#!${process.execPath}
			const words = process.argv.slice(2).join(" ");
			const audience = /"aud":"([^"]+)"/.exec(words)?.[1] ?? /--audience (\\S+)/.exec(words)?.[1];
			fetch("${issuer.url}/token?audience=" + audience, { headers: { authorization: "bearer job-secret" } })
				.then((answer) => answer.json()).then(({ value }) => console.log(value));\n`;
			const npx = `#!/bin/bash\nshift\nexec "${process.execPath}" "${CLI}" "$@"\n`;
			for (const [name, script] of Object.entries({ circleci: agent, "buildkite-agent": agent, npx })) {
				await writeFile(join(bin, name), script);
				await chmod(join(bin, name), 0o755);
			}
			const script = { line: 0, commands: commands(blockOf(heading)), shown: undefined };
			await runExamples([script], {
				directory: project.directory,
				path: bin,
				environment: { ...environment(), CI: "1" },
			});
			const { body } = await product.api("GET", `/channel?app_id=${APP}&channel=production`);
			expect(body.version.name).toBe(version);
		},
	);

	test("is served at /docs/ci", async () => {
		const html = await (await fetch(`${product.url}/docs/ci`)).text();
		expect(html).toBe(guidePage(await readFile(PATH, "utf8")));
		expect(await (await fetch(`${product.url}/docs`)).text()).toContain('href="/docs/ci"');
	});
});
