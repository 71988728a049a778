/**
 * `capstan init`: points the updater of a Capacitor or Electron project at the server, creates the app there and writes a CI workflow. It
 * shows each difference, changes only what differs, and never replaces a workflow that exists.
 */
import { mkdir, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { type CiSystem, ciFiles } from "../../../src/client/ci-workflow";
import { CapstanError } from "../../../src/client/client";
import { connect, dashboardPage } from "../api";
import { buildSteps, ciSystemOf, isCiSystem } from "../ci-files";
import { type Command, type Run, text } from "../command";
import { EXIT, usage } from "../failure";
import { readText } from "../json-file";
import { lineDifference } from "../line-difference";
import { type ConfigFile, type Project, readProject } from "../project";
import { type Repository, repositoryOf, type Trust, trustRepository } from "../repository";
import { givenKey, serverOrigin } from "../settings";
import { NotEditable, type SettingChange, withSettings, withSettingsAt } from "../source-object";

/** Addresses of this computer. */
const LOOPBACK = /^https?:\/\/(localhost|127\.[\d.]+|\[::1\])(:|$)/;

interface FileChange {
	readonly path: string;
	readonly before: string;
	readonly after: string;
}

export const init: Command = {
	name: "init",
	usage: "init",
	summary: "Point a Capacitor or Electron project at your server, create the app, and write a CI workflow.",
	mostWords: 0,
	options: {
		name: { type: "string", value: "name", help: "Name of the app; default: appName of capacitor.config" },
		organization: { type: "string", value: "name", help: "Organization of a new app, if the key reaches several" },
		ci: { type: "string", value: "system", help: "github, gitlab or none; default: by the project's files" },
		"dry-run": { type: "boolean", help: "Show what would change, and change nothing" },
	},
	examples: ["capstan init --server https://updates.example.com", "capstan init --ci none --dry-run"],
	async run(run) {
		const project = await readProject(run.directory);
		if (project.kind === "none") {
			throw usage(
				"project_not_found",
				"There is no Capacitor or Electron project here: no capacitor.config, and no electron in package.json. Run this in your project.",
			);
		}
		const origin = await serverOrigin(run, project);
		const appId = text(run.options, "app") ?? project.appId;
		if (appId === undefined) {
			throw usage("missing_app", `${project.config?.path ?? "The project"} has no appId; pass --app com.example.app.`, {
				field: "app",
			});
		}
		const isDryRun = run.options["dry-run"] === true;
		const config = configChange(project, origin, appId);
		const ci = await workflowChanges(run, project, origin, appId);
		const changes = [...(config === undefined ? [] : [config]), ...ci.changes];
		for (const { path, before, after } of changes) {
			run.terminal.line(`${run.terminal.style("bold", path)}${before === "" ? " (new)" : ""}`);
			for (const line of lineDifference(before, after)) {
				const style = line.startsWith("+") ? "green" : line.startsWith("-") ? "red" : "dim";
				run.terminal.line(run.terminal.style(style, `  ${line.replace(/\r$/, "")}`));
			}
			if (!isDryRun) await put(join(run.directory, path), after);
		}
		const app = isDryRun ? "not_asked" : await ensureApp(run, project, origin, appId);
		const trust = isDryRun ? undefined : await trustOf(run, { origin, appId, app, ci });
		run.terminal.result("init", {
			status: isDryRun ? "planned" : "ok",
			...{ server: origin, app_id: appId, app, kind: project.kind },
			...{ changed: changes.map(({ path }) => path), kept: ci.kept },
			...(ci.system === undefined ? {} : { publishers: trust ?? "not_asked" }),
		});
		for (const note of ci.notes) run.terminal.line(...note.split("\n"));
		if (ci.system !== undefined && !isDryRun) run.terminal.line(...trustLines(ci, trust, { origin, appId }));
		report(run, { project, origin, changed: changes.length, app });
		return EXIT.ok;
	},
};

/** Fields of the updater, the same in capacitor.config and in the options of Electron's updater. */
const addressesOf = (origin: string): readonly (readonly [string, string])[] => [
	["updateUrl", `${origin}/updates`],
	["statsUrl", `${origin}/stats`],
	["channelUrl", `${origin}/channel_self`],
];

/** The change of the configuration; undefined if it is as it should be. @throws {Failure} `config_not_editable` */
function configChange(project: Project, origin: string, appId: string): FileChange | undefined {
	const { config, kind } = project;
	const wanted =
		kind === "electron" ? electronSettings(project, origin, appId) : capacitorSettings(project, origin, appId);
	const byHand = () => wanted.map(({ path, value }) => `  ${path.join(".")}: ${JSON.stringify(value)}`).join("\n");
	if (config?.root === undefined) {
		const where =
			config === undefined
				? "No file creates an ElectronUpdater yet."
				: `${config.path} computes its object, so it cannot be edited safely.`;
		throw usage("config_not_editable", `${where} Set these values yourself:\n${byHand()}`);
	}
	try {
		const after = edited(config, kind, wanted);
		return after === config.text ? undefined : { path: config.path, before: config.text, after };
	} catch (error) {
		if (!(error instanceof NotEditable)) throw error;
		throw usage("config_not_editable", `${config.path}: ${error.message}. Set these values yourself:\n${byHand()}`);
	}
}

function edited(config: ConfigFile, kind: Project["kind"], wanted: readonly SettingChange[]): string {
	return kind === "electron" && config.root !== undefined
		? withSettingsAt(config.text, config.root.start, wanted)
		: withSettings(config.text, config.isJson, wanted);
}

function capacitorSettings(project: Project, origin: string, appId: string): SettingChange[] {
	const at = (field: string, value: string | boolean) => ({ path: ["plugins", "CapacitorUpdater", field], value });
	return [
		...(project.appId === undefined ? [{ path: ["appId"], value: appId }] : []),
		// Somebody who switched it off has a reason.
		...(project.setting("plugins", "CapacitorUpdater", "autoUpdate") === undefined ? [at("autoUpdate", true)] : []),
		// The stock CLI reads these two.
		...[at("localApi", origin), at("localApiFiles", origin)],
		...addressesOf(origin).map(([field, value]) => at(field, value)),
		// Lets the Android app use plain HTTP during development.
		...(origin.startsWith("http:") ? [{ path: ["server", "cleartext"], value: true }] : []),
	];
}

const electronSettings = (project: Project, origin: string, appId: string): SettingChange[] => [
	...(project.appId === undefined ? [{ path: ["appId"], value: appId }] : []),
	...addressesOf(origin).map(([field, value]) => ({ path: [field], value })),
];

interface Ci {
	/** Undefined: no workflow was wanted. */
	readonly system: CiSystem | undefined;
	/** Undefined if the provider does not tell. */
	readonly repository: Repository | undefined;
	readonly changes: readonly FileChange[];
	readonly kept: readonly string[];
	readonly notes: readonly string[];
}

async function workflowChanges(run: Run, project: Project, origin: string, appId: string): Promise<Ci> {
	const named = text(run.options, "ci");
	if (named !== undefined && named !== "none" && !isCiSystem(named)) {
		throw usage("invalid_option", `--ci must be github, gitlab or none; it is "${named}".`, { field: "ci" });
	}
	const none = { system: undefined, repository: undefined, changes: [], kept: [] };
	if (named === "none") return { ...none, notes: [] };
	if (named === undefined && LOOPBACK.test(origin)) {
		const note = `CI cannot reach ${origin}, so no workflow was written; run init again with the deployed server.`;
		return { ...none, notes: [note] };
	}
	const system = named ?? (await ciSystemOf(run.directory));
	const repository = await repositoryOf(run, system);
	const build = await buildSteps(run.directory);
	const branch = repository?.branch ?? "main";
	// GitHub replaces expressions before the shell sees the command.
	const expression = [appId, project.webDir, branch].find((name) => name?.includes("${{"));
	if (expression !== undefined) {
		throw usage("invalid_option", `"${expression}" has an expression of GitHub Actions; rename it, or pass --ci none.`);
	}
	const facts = { origin, appId, webDir: project.webDir ?? "dist", branch, ...build };
	const changes: FileChange[] = [];
	const kept: string[] = [];
	const notes: string[] = [];
	for (const { path, content, otherwise } of ciFiles(system, facts)) {
		const before = await readText(join(run.directory, path));
		if (before === undefined) changes.push({ path, before: "", after: content });
		else if (before !== content) {
			kept.push(path);
			if (otherwise === undefined || !before.includes(otherwise.trim())) {
				notes.push(`${path} exists and was not changed.${otherwise === undefined ? "" : ` Add to it:\n${otherwise}`}`);
			}
		}
	}
	return { system, repository, changes, kept, notes };
}

interface Place {
	readonly origin: string;
	readonly appId: string;
}

/** Trusts the jobs of the repository; undefined if the app, the key or the ids of the repository are missing. */
async function trustOf(
	run: Run,
	{ origin, appId, app, ci }: Place & { readonly app: AppState; readonly ci: Ci },
): Promise<Trust | undefined> {
	const key = await givenKey(run, origin);
	const isThere = app === "exists" || app === "created";
	if (!isThere || key === undefined || ci.system === undefined || ci.repository === undefined) return undefined;
	return trustRepository(connect(origin, key, run.version), appId, ci.system, ci.repository);
}

function trustLines({ system, repository }: Ci, trust: Trust | undefined, { origin, appId }: Place): string[] {
	if (trust === "added") return [`${appId} now trusts the jobs of ${repository?.path}, so CI needs no secret.`];
	if (trust === "exists") return [`${appId} trusts the jobs of ${repository?.path}.`];
	const ids =
		system === "gitlab" ? "glab api projects/GROUP%2FPROJECT" : "gh api repos/OWNER/REPO --jq '.id, .owner.id'";
	return [
		"Trust the repository, so that CI needs no secret: add a publisher for releases and one for previews at",
		`  ${dashboardPage({ origin }, "apps", appId, "publishers")}`,
		`  with the ids of: ${ids}`,
	];
}

async function put(path: string, content: string): Promise<void> {
	await mkdir(dirname(path), { recursive: true });
	await writeFile(path, content);
}

type AppState = "exists" | "created" | "no_key" | "not_allowed" | "not_asked";

async function ensureApp(run: Run, project: Project, origin: string, appId: string): Promise<AppState> {
	const key = await givenKey(run, origin);
	if (key === undefined) return "no_key";
	const { api } = connect(origin, key, run.version);
	try {
		await api("GET /app/:app_id", { params: { app_id: appId } });
		return "exists";
	} catch (error) {
		if (!(error instanceof CapstanError) || error.code !== "app_not_found") throw error;
	}
	try {
		const found = await api("GET /organization");
		const wanted = text(run.options, "organization");
		const reached = Array.isArray(found) ? found : [found];
		const fitting = wanted === undefined ? reached : reached.filter(({ id, name }) => id === wanted || name === wanted);
		const [organization, ...others] = fitting;
		if (organization === undefined && wanted === undefined) return "not_allowed";
		if (organization === undefined || others.length > 0) {
			const names = reached.map((each) => each.name);
			throw usage(
				"organization_ambiguous",
				`Name the organization of the new app with --organization, one of: ${names.join(", ")}.`,
				{
					field: "organization",
					organizations: names,
				},
			);
		}
		const name = text(run.options, "name") ?? project.appName ?? appId;
		await api("POST /app", { body: { app_id: appId, name, owner_org: organization.id } });
		return "created";
	} catch (error) {
		if (error instanceof CapstanError && error.status === 403) return "not_allowed";
		throw error;
	}
}

function report(
	{ terminal }: Run,
	{
		project,
		origin,
		changed,
		app,
	}: { readonly project: Project; readonly origin: string; readonly changed: number; readonly app: AppState },
): void {
	const states: Readonly<Record<AppState, string>> = {
		exists: "The app exists on the server.",
		created: "The app was created on the server.",
		no_key: "Next: capstan login, and capstan init again to create the app.",
		not_allowed: "This key may not create apps; create it in the dashboard.",
		not_asked: "Dry run: nothing was changed.",
	};
	if (changed === 0) terminal.line(`The project points at ${origin} already.`);
	terminal.line(states[app]);
	if (app !== "exists" && app !== "created") return;
	const plugin = project.kind === "electron" ? "@capgo/electron-updater" : "@capgo/capacitor-updater";
	const steps = [
		...(project.dependencies[plugin] === undefined ? [`npm install ${plugin}`] : []),
		...(project.kind === "capacitor" && changed > 0 ? ["npx cap sync"] : []),
		"build your app",
		project.dependencies.capstan === undefined ? `npx ${origin}/capstan.tgz release` : "npx capstan release",
	];
	terminal.line(`Next: ${steps.join(", ")}`);
}
