/**
 * `npm run doctor`: examines a deployment or a local run from outside and prints one line per
 * check, with the remedy below a line that is not ok. Only `--repair` changes anything. The exit
 * code is 1 if a check failed.
 */
import { readdir, readFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { VERSION } from "../config";
import type { Deployment } from "./deployment";
import { examine } from "./doctor-checks";
import type { AccountFacts, Finding } from "./doctor-types";
import { Failure } from "./failure";
import { readOptions } from "./options";
import { showProgress } from "./progress";
import { PROJECT_DIRECTORY } from "./project";
import { findAccount, installedWrangler, must, onAccount, parse, readProject, type Wrangler } from "./wrangler";

const HELP = `Examines a deployment or a local run from outside. Changes nothing without --repair.

  npm run doctor                    the deployment: its PUBLIC_URL, or the address of the last npm run deploy
  npm run doctor -- --name=NAME     another deployment than capstan, with deployments/NAME.toml
  npm run doctor -- --local         the run of npm start
  npm run doctor -- --url=ADDRESS   another address
  npm run doctor -- --json          one JSON document
  npm run doctor -- --deep          also compares all rows of bundles with all objects of the bucket, and the databases
                                    with the schema; needs a login, or --local
  npm run doctor -- --deep --repair removes objects that no row needs

  CAPSTAN_KEY                       admin key, instead of the stored one
  CAPSTAN_STATE                     directory of the stored keys (default .capstan)
  CLOUDFLARE_API_TOKEN, CLOUDFLARE_ACCOUNT_ID   as for npm run deploy; without a login, secrets and consumers are not checked
`;

/** Written by `npm run deploy`, next to the admin key. */
export const DEPLOYED_URL_FILE = "deployed-url";

interface DoctorCommand {
	readonly argv: readonly string[];
	readonly stateDirectory: string;
	readonly wrangler: Wrangler;
	readonly nowMs: () => number;
	readonly print: (line: string) => void;
	readonly fetch?: typeof fetch;
}

/**
 * @returns whether no check failed
 * @throws {Failure} if there is nothing to examine
 */
export async function runDoctor({
	argv,
	stateDirectory,
	wrangler,
	nowMs,
	print,
	fetch,
}: DoctorCommand): Promise<boolean> {
	const { help, json, local, name, url: given, deep, repair } = optionsOf(argv);
	if (repair === true && deep !== true) throw new Failure("--repair goes with --deep. See npm run doctor -- --help.");
	if (help === true) {
		print(HELP);
		return true;
	}
	const deployment = local === true ? undefined : await deploymentNamed(name, stateDirectory);
	const stored = (file: string) =>
		readFile(join(deployment?.stateDirectory ?? stateDirectory, file), "utf8").then(
			(text) => text.trim(),
			() => "",
		);
	const url = given ?? (deployment === undefined ? await stored("url") : await deployedUrl(deployment, stored));
	if (!isWebAddress(url)) {
		throw new Failure(
			given !== undefined
				? `--url=${given} is no address. Write it with its scheme, such as https://updates.example.com.`
				: local === true
					? "No local run is known here. Run npm start, or set CAPSTAN_STATE."
					: "The address of the deployment is not known here. Run npm run doctor -- --url=<address>, or --local for npm start.",
		);
	}
	const isLocal = local === true || ["localhost", "127.0.0.1", "[::1]"].includes(new URL(url).hostname);
	const key = process.env.CAPSTAN_KEY || (await stored(isLocal ? "admin.key" : "deployed-admin.key"));
	const examined = await examine({
		url: new URL(url).origin,
		isLocal,
		nowMs,
		version: VERSION,
		option: deployment?.option ?? "",
		schema: await newestMigration("src/db/migrations"),
		telemetrySchema: await newestMigration("src/db/telemetry-migrations"),
		key: key === "" ? undefined : key,
		account: async () => (deployment === undefined ? undefined : accountFacts(wrangler, deployment)),
		...(fetch === undefined ? {} : { fetch }),
	});
	const settings = (deployment?.problems ?? []).map(
		(detail) => ({ check: "settings", state: "warning", detail }) as const,
	);
	const findings: Finding[] = [...examined, ...settings];
	if (deep === true) {
		const options = { nowMs, repair: repair === true, ...(fetch === undefined ? {} : { fetch }) };
		findings.push(...(await deepFindingsOf(deployment ?? stateDirectory, wrangler, options)));
	}
	const isHealthy = findings.every(({ state }) => state !== "failed");
	if (json === true) print(JSON.stringify({ url, healthy: isHealthy, checks: findings }, undefined, "\t"));
	else for (const line of findings.flatMap(linesOf)) print(line);
	return isHealthy;
}

async function deepFindingsOf(
	/** A deployment, or the state directory of a local run. */
	target: Deployment | string,
	wrangler: Wrangler,
	{ fetch, ...options }: Pick<DoctorCommand, "nowMs" | "fetch"> & { readonly repair: boolean },
): Promise<Finding[]> {
	// They load wrangler and the runtime.
	const [{ deepFindings }, { databaseFindings }, { openDeployment, openState }] = await Promise.all([
		import("./doctor-bytes"),
		import("./doctor-database"),
		import("./places"),
	]);
	const progress = showProgress(process.stderr, "Doctor");
	const place = await (typeof target === "string"
		? openState(target)
		: openDeployment(target, { wrangler, removes: options.repair, fetch }));
	try {
		progress.step("reading the schema");
		const databases = await databaseFindings(place);
		return [...databases, ...(await deepFindings({ ...options, place, onProgress: progress.step }))];
	} finally {
		progress.end();
		await place.close();
	}
}

const isWebAddress = (text: string) => URL.canParse(text) && /^https?:$/.test(new URL(text).protocol);

/** Loads wrangler, which takes a second that the check of a local run does not need. */
async function deploymentNamed(name: string | undefined, state: string): Promise<Deployment> {
	const { readDeployment } = await import("./deployment");
	return readDeployment(name, { state });
}

async function deployedUrl({ rawConfig }: Deployment, stored: (name: string) => Promise<string>): Promise<string> {
	const publicUrl = rawConfig.vars?.PUBLIC_URL;
	return typeof publicUrl === "string" && publicUrl !== "" ? publicUrl : stored(DEPLOYED_URL_FILE);
}

async function newestMigration(directory: string): Promise<string> {
	const files = await readdir(join(PROJECT_DIRECTORY, directory));
	return (
		files
			.filter((name) => name.endsWith(".sql"))
			.sort()
			.at(-1)
			?.replace(/\.sql$/, "") ?? ""
	);
}

/** Undefined without a login, because the other checks need none. */
async function accountFacts(
	call: Wrangler,
	{ name: worker, rawConfig }: Deployment,
): Promise<AccountFacts | undefined> {
	const command = ["secret", "list", "--name", worker, "--format", "json"];
	try {
		if ((await call(["whoami", "--json"])).code !== 0) return undefined;
		const { consumersOf } = await import("./survey");
		const wrangler = onAccount(call, await findAccount(call, rawConfig.account_id));
		const secrets = parse<{ name: string }[]>(command, await must(wrangler, command)).map(({ name }) => name);
		const consumers: Record<string, readonly string[] | undefined> = {};
		for (const queue of readProject(rawConfig).consumedQueues) consumers[queue] = await consumersOf(wrangler, queue);
		return { secrets, worker, consumers };
	} catch {
		return undefined;
	}
}

const MARKS = { ok: "ok      ", warning: "warning ", failed: "FAILED  ", skipped: "skipped " } as const;

function linesOf({ check, state, detail, remedy }: Finding): string[] {
	return [
		`${MARKS[state]}${check}: ${detail}`,
		...(remedy === undefined || remedy === "" ? [] : [`        ${remedy}`]),
	];
}

function optionsOf(argv: readonly string[]) {
	return readOptions("npm run doctor", {
		args: [...argv],
		options: {
			name: { type: "string" },
			help: { type: "boolean" },
			json: { type: "boolean" },
			local: { type: "boolean" },
			deep: { type: "boolean" },
			repair: { type: "boolean" },
			url: { type: "string" },
		},
	}).values;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
	try {
		const isHealthy = await runDoctor({
			argv: process.argv.slice(2),
			stateDirectory: resolve(process.env.CAPSTAN_STATE || ".capstan"),
			wrangler: installedWrangler(),
			nowMs: () => Date.now(),
			print: (line) => console.log(line),
		});
		process.exitCode = isHealthy ? 0 : 1;
	} catch (error) {
		console.error(error instanceof Failure ? error.message : error);
		process.exitCode = 1;
	}
}
