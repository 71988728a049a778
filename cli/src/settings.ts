/**
 * The inputs of a command: the project, the server, the app and the key. Options win over the
 * environment, and that wins over the project and stored keys.
 */
import { readFileSync } from "node:fs";
import { connect, type Server } from "./api";
import { ciJobOf } from "./ci-job";
import { type Option, type Run, text } from "./command";
import { readCredentials } from "./credentials";
import { EXIT, Failure, usage } from "./failure";
import { keylessKey, type Stages } from "./keyless";
import { originOf, PLATFORMS, type Platform, type Project, readProject } from "./project";

/** Named without a scheme; a server of `npm start` has no certificate. */
const LOOPBACK = /^(localhost|127(\.\d+){3}|\[::1\])(:|\/|$)/i;

export interface Settings {
	readonly project: Project;
	readonly server: Server;
	readonly appId: string;
}

/** For a directory with two projects. */
export const PLATFORM_OPTION: Readonly<Record<string, Option>> = {
	platform: { type: "string", value: "name", help: "capacitor or electron, if the directory has both" },
};

/** @throws {Failure} `invalid_option` */
export function platformOf(run: Run): Platform | undefined {
	const named = text(run.options, "platform");
	const platform = PLATFORMS.find((each) => each === named);
	if (named === undefined || platform !== undefined) return platform;
	const problem = `--platform must be ${PLATFORMS.join(" or ")}; it is "${named}".`;
	throw usage("invalid_option", problem, { field: "platform" });
}

/** The project here; the options of the command say which one of two is meant. */
export const projectOf = (run: Run, platform: Platform | undefined): Promise<Project> =>
	readProject(run.directory, { platform, appId: text(run.options, "app") ?? run.environment.CAPSTAN_APP });

/** The server as this computer reaches it. */
export const serverOrigin = async (run: Run, project: Project): Promise<string> =>
	hereOf(await serverAddress(run, project));

/** The Android emulator has a name of its own for the computer that it runs on. */
export const hereOf = (origin: string) => origin.replace(/^(https?:\/\/)10\.0\.2\.2(?=:|$)/, "$1localhost");

/** The server as the app reaches it. */
export async function serverAddress(run: Run, project: Project): Promise<string> {
	const named = text(run.options, "server") ?? run.environment.CAPSTAN_SERVER;
	if (named !== undefined && named !== "") {
		// `localhost:8787` parses as an address of the scheme "localhost".
		const origin = originOf(named) ?? originOf(`${LOOPBACK.test(named) ? "http" : "https"}://${named}`);
		if (origin !== undefined) return origin;
		throw usage(
			"invalid_option",
			`The server "${named}" is not a URL. Write an address such as https://updates.example.com.`,
			{
				field: "server",
			},
		);
	}
	if (project.server !== undefined) return project.server;
	const [stored, ...others] = Object.keys((await readCredentials(run.environment)).servers);
	if (stored !== undefined && others.length === 0) return stored;
	throw usage(
		"missing_server",
		"No server is known: pass --server https://updates.example.com (or CAPSTAN_SERVER). After capstan login or init with it, the other commands know it.",
		{ field: "server" },
	);
}

export function appOf(run: Run, project: Project): string {
	const appId = text(run.options, "app") ?? run.environment.CAPSTAN_APP ?? project.appId;
	if (appId !== undefined) return appId;
	throw usage(
		"missing_app",
		"No app is known: run this in a project with a capacitor.config, or pass --app com.example.app.",
		{
			field: "app",
		},
	);
}

/**
 * Whether the person named the server. A project may be anybody's, so an address in it is none that
 * a secret was meant for.
 */
const isNamed = (run: Run): boolean => ((text(run.options, "server") ?? run.environment.CAPSTAN_SERVER) || "") !== "";

/**
 * The key that the user gave, or stored for this server. It is concealed in all output.
 * @throws {Failure} `server_not_confirmed` for a given key and a server that only the project names
 */
export async function givenKey(run: Run, origin: string): Promise<string | undefined> {
	const option = text(run.options, "key");
	const { CAPSTAN_TOKEN, CAPGO_TOKEN } = run.environment;
	const variable = CAPSTAN_TOKEN || CAPGO_TOKEN || undefined;
	const stored = (await readCredentials(run.environment)).servers[origin];
	if ((option ?? variable) !== undefined && !isNamed(run) && stored === undefined) {
		throw new Failure(
			"server_not_confirmed",
			`Only this project's configuration names ${origin}, so the key was not sent there. If it is your server, pass --server ${origin} (or CAPSTAN_SERVER), or run capstan login --server ${origin} once.`,
			EXIT.denied,
			{ server: origin },
		);
	}
	const given = option === "-" ? readFileSync(0, "utf8") : option;
	const key = (given ?? variable ?? stored?.key)?.trim();
	if (key === undefined || key === "") return undefined;
	run.terminal.conceal(key);
	if (/^[\x21-\x7e]+$/.test(key)) return key;
	throw new Failure("invalid_api_key", "The API key has characters that no key has; copy it again.", EXIT.denied);
}

/** @param stages those of the publishers that may give a keyless job its key */
export async function resolve(run: Run, stages: Stages = [], platform?: Platform): Promise<Settings> {
	const project = await projectOf(run, platform);
	const origin = await serverOrigin(run, project);
	const appId = appOf(run, project);
	const key = (await givenKey(run, origin)) ?? (await keylessKey(run, origin, appId, stages));
	if (key === undefined) {
		const message = `No API key for ${origin}: run ${loginFor(run, origin, project)}, or set CAPSTAN_TOKEN.${keylessRemedy(run, origin)}`;
		throw new Failure("missing_key", message, EXIT.denied, { server: origin });
	}
	return { project, server: connect(origin, key, run.version), appId };
}

/** Without an option, the command asks the server of the project. */
const loginFor = (run: Run, origin: string, project: Project) =>
	isNamed(run) && hereOf(project.server ?? "") !== origin ? `capstan login --server ${origin}` : "capstan login";

/** The lines of a CI job that let it request an identity token. */
function keylessRemedy({ environment }: Run, origin: string): string {
	const line = {
		github: "permissions: { contents: read, id-token: write }",
		gitlab: `id_tokens: { CAPSTAN_ID_TOKEN: { aud: "${origin}" } }`,
	}[ciJobOf(environment).system as string];
	if (line !== undefined) return ` Or let the job request an identity token, with this line in it: ${line}`;
	return environment.CI === undefined
		? ""
		: " A keyless job needs the permission to request an identity token (/docs/cli).";
}

/** The server that the app asks, if a release to this one does not reach it. */
export function otherServer({ server }: Project, origin: string): string | undefined {
	const at = (address: string) =>
		hereOf(address).replace(/^(https?:\/\/)(?:127\.[\d.]+|\[::1\])(?=:|$)/, "$1localhost");
	return server === undefined || at(server) === at(origin) ? undefined : server;
}
