/**
 * Runs the steps of a composite GitHub Action and the job of a GitLab component as their runners
 * do: inputs filled in with their defaults, each script in the shell of the provider, outputs read
 * from its file.
 */
import { spawn } from "node:child_process";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { parse, parseAllDocuments } from "yaml";
import { FAST_PATH } from "./tools";

const ROOT = fileURLToPath(new URL("../../..", import.meta.url));

/** The address of the command that jobs name: the one to which the server redirects. */
export const commandOf = async ({ url }: { readonly url: string }): Promise<string> =>
	(await fetch(`${url}/capstan.tgz`, { method: "HEAD" })).url;

export interface StepRun {
	readonly code: number;
	readonly log: string;
	readonly outputs: Readonly<Record<string, string>>;
}

interface Place {
	readonly directory: string;
	readonly home: string;
	/** Variables of the job. */
	readonly environment: Readonly<Record<string, string>>;
}

interface Action {
	readonly inputs: Readonly<Record<string, { readonly default?: string; readonly required?: boolean }>>;
	readonly outputs?: Readonly<Record<string, { readonly value: string }>>;
	readonly runs: { readonly steps: readonly Step[] };
}
interface Step {
	readonly id?: string;
	readonly run: string;
	readonly env?: Readonly<Record<string, string>>;
}

/** The steps of `actions/<name>` one after another, until one fails. */
export async function runAction(
	name: string,
	inputs: Readonly<Record<string, string>>,
	place: Place,
	/** Values of expressions such as `github.token`. */
	facts: Readonly<Record<string, string>> = {},
): Promise<StepRun> {
	const action: Action = parse(await readFile(join(ROOT, `actions/${name}/action.yml`), "utf8"));
	const unknown = Object.keys(inputs).find((input) => action.inputs[input] === undefined);
	if (unknown !== undefined) throw new Error(`the action has no input ${unknown}`);
	const given = (input: string) => {
		const declared = action.inputs[input];
		if (declared === undefined) throw new Error(`the action uses the unknown input ${input}`);
		return inputs[input] ?? declared.default ?? "";
	};
	const evaluated = (expression: string): string => {
		const input = /^inputs\.([\w-]+)$/.exec(expression)?.[1];
		const found = input === undefined ? facts[expression] : filled(given(input));
		if (found === undefined) throw new Error(`the action uses the unknown value ${expression}`);
		return found;
	};
	const filled = (text: string): string =>
		text.replace(/\$\{\{ ([\w.-]+) \}\}/g, (_, expression: string) => evaluated(expression));
	const ids: Record<string, string> = {};
	let log = "";
	for (const { id = "", run, env = {} } of action.runs.steps) {
		if (run.includes("${{")) throw new Error("a script contains an expression, so an input could add commands");
		const outputFile = join(place.home, `output-${id}`);
		await writeFile(outputFile, "");
		const variables = Object.fromEntries(Object.entries(env).map(([key, value]) => [key, filled(value)]));
		const step = await shell(["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", run], {
			...place,
			environment: { ...place.environment, ...variables, GITHUB_OUTPUT: outputFile, RUNNER_TEMP: place.home },
		});
		log += step.log;
		for (const line of (await readFile(outputFile, "utf8")).split("\n").filter(Boolean)) {
			ids[`${id}.${line.slice(0, line.indexOf("="))}`] = line.slice(line.indexOf("=") + 1);
		}
		if (step.code !== 0) return { ...step, log, outputs: outputsOf(action, ids) };
	}
	return { code: 0, log, outputs: outputsOf(action, ids) };
}

function outputsOf({ outputs = {} }: Action, ids: Readonly<Record<string, string>>): Record<string, string> {
	const value = (text: string) =>
		text.replace(
			/\$\{\{ steps\.([\w-]+)\.outputs\.([\w-]+) \}\}/g,
			(_, id: string, name: string) => ids[`${id}.${name}`] ?? "",
		);
	return Object.fromEntries(Object.entries(outputs).map(([name, output]) => [name, value(output.value)]));
}

interface Job {
	readonly script: readonly string[];
	readonly variables?: Readonly<Record<string, string>>;
	readonly allow_failure?: { readonly exit_codes: number };
}

/**
 * A job of `templates/<name>.yml`; GitLab runs its lines in one shell and stops at the first that
 * fails.
 */
export async function runComponent(
	name: string,
	inputs: Readonly<Record<string, string>>,
	place: Place,
	jobName?: string,
): Promise<Omit<StepRun, "outputs"> & { readonly mayFail: boolean }> {
	const text = await readFile(join(ROOT, `templates/${name}.yml`), "utf8");
	const [head = "", body = ""] = text.split(/^---$/m);
	const { spec } = parse(head) as { spec: { inputs: Readonly<Record<string, { readonly default?: string } | null>> } };
	const filled = body.replace(/\$\[\[ inputs\.([\w-]+) \]\]/g, (_, input: string) => {
		const declared = spec.inputs[input];
		if (declared === undefined) throw new Error(`the component uses the unknown input ${input}`);
		return inputs[input] ?? declared?.default ?? "";
	});
	const jobs = parseAllDocuments(filled)[0]?.toJS() as Readonly<Record<string, Job>>;
	const job = jobs[jobName ?? Object.keys(jobs)[0] ?? ""];
	if (job === undefined) throw new Error(`the component has no job ${jobName}`);
	const run = await shell(["sh", "-e", "-c", job.script.join("\n")], {
		...place,
		environment: { ...place.environment, ...job.variables },
	});
	return { ...run, mayFail: job.allow_failure?.exit_codes === run.code };
}

function shell([program = "", ...words]: readonly string[], place: Place): Promise<{ code: number; log: string }> {
	return new Promise((resolve, reject) => {
		const child = spawn(program, words, {
			cwd: place.directory,
			env: {
				PATH: FAST_PATH,
				HOME: place.home,
				npm_config_cache: join(place.home, "npm"),
				...place.environment,
			},
			stdio: ["ignore", "pipe", "pipe"],
		});
		let log = "";
		for (const stream of [child.stdout, child.stderr]) {
			stream.on("data", (chunk) => {
				log += chunk;
			});
		}
		child.once("error", reject);
		child.once("close", (code) => resolve({ code: code ?? -1, log }));
	});
}
