/**
 * `capstan init`: points the updater of a Capacitor or Electron project at the server, creates the
 * app there and writes CI jobs. It shows each difference, changes only what differs, and never
 * replaces a workflow that a person changed. What it cannot edit it names, and does the rest all
 * the same; with `--config none` it leaves the configuration alone and names everything.
 */
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { CapstanError } from "../../../src/client/client";
import { connect, dashboardPage } from "../api";
import { type Ci, ciOf, type FileChange, LOOPBACK } from "../ci-files";
import { type Command, type Run, text } from "../command";
import { type Configuration, configure, configureByHand } from "../configuration";
import { EXIT, usage } from "../failure";
import { ignoredKey } from "../key-exposure";
import { lineDifference } from "../line-difference";
import { addCommand, execCommand } from "../package-manager";
import { PLATFORMS, type Project, UPDATERS } from "../project";
import { type Trust, trustRepository } from "../repository";
import { givenKey, hereOf, PLATFORM_OPTION, platformOf, projectOf, serverAddress } from "../settings";
import { question } from "../terminal-question";
import { writeFiles } from "../written-files";

export const init: Command = {
	name: "init",
	usage: "init",
	summary: "Point a Capacitor or Electron project at your server, create the app, and write a CI workflow.",
	mostWords: 0,
	options: {
		name: { type: "string", value: "name", help: "Name of the app; default: appName of capacitor.config" },
		organization: { type: "string", value: "name", help: "Organization of a new app, if the key reaches several" },
		...PLATFORM_OPTION,
		config: { type: "string", value: "none", help: "none: change no configuration, and print what to set in it" },
		ci: { type: "string", value: "system", help: "github, gitlab or none; default: by the repository" },
		branch: { type: "string", value: "name", help: "Branch that is released; default: the main branch" },
		"dry-run": { type: "boolean", help: "Show what would change, and change nothing" },
	},
	examples: [
		"capstan init --server https://updates.example.com",
		"capstan init --ci none --dry-run",
		"capstan init --config none --app com.example.app --platform capacitor",
	],
	async run(run) {
		const isByHand = isConfigurationLeft(run);
		const project = await meantProject(run, isByHand);
		const address = await serverAddress(run, project);
		const origin = hereOf(address);
		const appId = text(run.options, "app") ?? project.appId;
		if (appId === undefined) {
			const message = `${project.config?.path ?? "The project"} names no appId that can be read; pass --app com.example.app.`;
			throw usage("missing_app", message, { field: "app" });
		}
		const isDryRun = run.options["dry-run"] === true;
		const configuration = (isByHand ? configureByHand : configure)(project, address, appId);
		const ci = await ciOf(run, { project, origin, appId });
		const ignored = await ignoredKey(project);
		const changes = [configuration.change, ignored, ...ci.changes].filter((change) => change !== undefined);
		// A server that refuses or does not answer leaves the project as it is.
		const app = isDryRun ? "not_asked" : await ensureApp(run, project, origin, appId);
		const trust = isDryRun ? undefined : await trustOf(run, { origin, appId, app, ci });
		for (const { path, before, after } of changes) {
			run.terminal.line(`${run.terminal.style("bold", path)}${before === "" ? " (new)" : ""}`);
			for (const line of lineDifference(before, after)) {
				const style = line.startsWith("+") ? "green" : line.startsWith("-") ? "red" : "dim";
				run.terminal.line(run.terminal.style(style, `  ${line.replace(/\r$/, "")}`));
			}
		}
		if (!isDryRun) await write(run.directory, changes);
		run.terminal.result("init", {
			status: isDryRun ? "planned" : "ok",
			server: address,
			app_id: appId,
			app,
			kind: project.kind,
			changed: changes.map(({ path }) => path),
			kept: ci.kept,
			...(configuration.byHand.length === 0 ? {} : { by_hand: configuration.byHand.map(byHandLine) }),
			...(ci.system === undefined ? {} : { branch: ci.branch, publishers: trust ?? "not_asked" }),
		});
		// A computed value may be right, and a second run knows nothing new about it.
		const isComputed = configuration.byHand.every((each) => each.isComputed);
		const isAgain = changes.length === 0 && app === "exists" && isComputed && !isByHand;
		for (const line of byHandLines(configuration, isAgain)) run.terminal.line(line);
		for (const note of ci.notes) run.terminal.line(...note.split("\n"));
		if (ci.system !== undefined && !isDryRun) run.terminal.line(...trustLines(ci, trust, { origin, appId }));
		await report(run, { project, origin: address, appId, changed: changes.length, app, configuration, isAgain });
		return EXIT.ok;
	},
};

/** @throws {Failure} `invalid_option` */
function isConfigurationLeft({ options }: Run): boolean {
	const named = text(options, "config");
	if (named === undefined || named === "none") return named === "none";
	throw usage("invalid_option", `--config must be none, or absent; it is "${named}".`, { field: "config" });
}

/**
 * The project to set up; of two in one directory, the one that a person names.
 * @throws {Failure} `project_not_found`, `project_ambiguous`
 */
async function meantProject(run: Run, isByHand: boolean): Promise<Project> {
	const platform = platformOf(run);
	const found = await projectOf(run, undefined);
	const project = platform === undefined ? found : await projectOf(run, platform);
	// A configuration that no file of a known name holds can be set by hand.
	const isHere = found.kind === project.kind || found.hasBoth || isByHand;
	if (project.kind === "none" || !isHere) {
		const missing = {
			none: "There is no Capacitor or Electron project here: no capacitor.config, and no electron in package.json.",
			capacitor: "There is no Capacitor project here: no capacitor.config.",
			electron: "There is no Electron project here: no electron in package.json.",
		}[project.kind];
		const remedy = isByHand
			? "Run this in your project, or name what it is with --platform capacitor or --platform electron."
			: "Run this in your project.";
		throw usage("project_not_found", `${missing} ${remedy}`);
	}
	if (!project.isAmbiguous) return project;
	const both = `This directory has a Capacitor project (${project.config?.path}) and an Electron project (electron in package.json).`;
	const answer = await question(run.terminal, `${both} Which one? [${PLATFORMS.join("/")}] `);
	const chosen = PLATFORMS.find((each) => each === answer);
	if (chosen !== undefined) return projectOf(run, chosen);
	throw usage(
		"project_ambiguous",
		`${both} Name one with --platform capacitor or --platform electron; run init once for each.`,
		{ field: "platform", platforms: PLATFORMS },
	);
}

const byHandLine = ({ path, value }: Configuration["byHand"][number]) =>
	value === undefined ? `${path.join(".")}: remove it` : `${path.join(".")}: ${JSON.stringify(value)}`;

function byHandLines({ byHand, reason }: Configuration, isAgain: boolean): string[] {
	if (byHand.length === 0) return [];
	if (isAgain) {
		const names = byHand.map(({ path }) => path.at(-1)).join(", ");
		return [`${reason} The computed values were not checked: ${names}. capstan init --config none lists them.`];
	}
	return [`${reason} Set these values yourself:`, ...byHand.map((each) => `  ${byHandLine(each)}`)];
}

interface Place {
	readonly origin: string;
	readonly appId: string;
}

/**
 * Trusts the jobs of the repository; undefined if the app, the key or the ids of the repository are
 * missing.
 */
async function trustOf(
	run: Run,
	{ origin, appId, app, ci }: Place & { readonly app: AppState; readonly ci: Ci },
): Promise<Trust | undefined> {
	const key = await givenKey(run, origin);
	const isThere = app === "exists" || app === "created";
	const { system, repository, branch, folder, platform } = ci;
	if (!isThere || key === undefined || system === undefined || repository === undefined || branch === undefined) {
		return undefined;
	}
	return trustRepository(connect(origin, key, run.version), appId, system, repository, {
		branch,
		folder,
		...(platform === undefined ? {} : { platform }),
	});
}

function trustLines(
	{ system, repository, path = "" }: Ci,
	trust: Trust | undefined,
	{ origin, appId }: Place,
): string[] {
	if (trust === "added") return [`${appId} now trusts the jobs of ${repository?.path}, so CI needs no secret.`];
	if (trust === "exists") return [`${appId} trusts the jobs of ${repository?.path}.`];
	const ids =
		system === "gitlab"
			? `glab api projects/${path === "" ? "GROUP%2FPROJECT" : encodeURIComponent(path)}`
			: `gh api repos/${path === "" ? "OWNER/REPO" : path} --jq '.id, .owner.id'`;
	return [
		"Trust the repository, so that CI needs no secret: add a publisher for releases and one for previews at",
		`  ${dashboardPage({ origin }, "apps", appId, "publishers")}`,
		`  with the ids of: ${ids}`,
	];
}

const BYTE_ORDER_MARK = "\uFEFF";

async function write(directory: string, changes: readonly FileChange[]): Promise<void> {
	const files: { readonly path: string; readonly content: string }[] = [];
	for (const { path: shown, after } of changes) {
		const path = join(directory, shown);
		const before = await readFile(path, "utf8").catch(() => "");
		files.push({ path, content: before.startsWith(BYTE_ORDER_MARK) ? BYTE_ORDER_MARK + after : after });
	}
	await writeFiles(files);
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

interface Done {
	readonly project: Project;
	readonly origin: string;
	readonly appId: string;
	readonly changed: number;
	readonly app: AppState;
	readonly configuration: Configuration;
	/** Nothing was left to do. */
	readonly isAgain: boolean;
}

async function report(
	{ terminal, directory }: Run,
	{ project, origin, appId, changed, app, configuration, isAgain }: Done,
): Promise<void> {
	const states: Readonly<Record<AppState, string>> = {
		exists: "The app exists on the server.",
		created: "The app was created on the server.",
		no_key: "Next: capstan login, and then capstan init again to create the app.",
		not_allowed: "This key may not create apps; create it in the dashboard.",
		not_asked: "Dry run: nothing was changed.",
	};
	if (changed === 0 && configuration.byHand.length === 0) {
		terminal.line(`The project points at ${origin} already.`);
	}
	terminal.line(states[app]);
	if (project.kind === "capacitor" && LOOPBACK.test(origin)) {
		terminal.line(
			`Phones and the Android emulator do not reach ${origin}; ${origin}/docs/first-update has the address for each.`,
		);
	}
	if (app !== "exists" && app !== "created") return;
	const plugin = UPDATERS[project.kind === "electron" ? "electron" : "capacitor"];
	// Capacitor copies the build, so it must be there before.
	const isMissing = project.dependencies[plugin] === undefined;
	const steps = [
		...(isMissing ? [await addCommand(directory, plugin)] : []),
		...(configuration.byHand.length === 0 || isAgain ? [] : ["set the values above"]),
		"build your app",
		...(project.kind === "capacitor" && (isMissing || changed > 0 || configuration.byHand.length > 0)
			? [await execCommand(directory, "cap sync")]
			: []),
		project.appId === undefined ? `capstan release --app ${appId}` : "capstan release",
	];
	terminal.line(`Next: ${steps.join(", then ")}`);
}
