/**
 * `capstan doctor`: checks the project and the server, with a remedy for each finding. Reads only.
 */
import { stat } from "node:fs/promises";
import { join } from "node:path";
import { type AnswerOf, CapstanError } from "../../../src/client/client";
import { connect, packageAddress, type Server } from "../api";
import { readBuild } from "../build-folder";
import { channelsOf } from "../channels";
import { type Command, type Run, text } from "../command";
import { KEY_FILE, namesPublicKey, privateKeyOf, publicKeyText } from "../encryption";
import { EXIT, failureOf } from "../failure";
import { readText } from "../json-file";
import { exposureProblem } from "../key-exposure";
import { addCommand } from "../package-manager";
import type { Project } from "../project";
import { givenKey, otherServer, PLATFORM_OPTION, platformOf, projectOf, serverOrigin } from "../settings";
import { counted } from "../terminal";

export interface Finding {
	readonly check: string;
	/** `unknown`: the server gives no means to check it. */
	readonly state: "ok" | "warning" | "failed" | "unknown";
	readonly detail: string;
}

const LOOPBACK = /^https?:\/\/(localhost|127\.[\d.]+|\[::1\])(:|$)/;
/** Signed links and short-lived tokens tolerate less. */
const MOST_CLOCK_DIFFERENCE_MS = 30_000;
/** The clean-up, every 15 minutes, wakes deliveries that wait; `npm run doctor` allows as much. */
const MOST_DELIVERY_DELAY_MS = 45 * 60_000;

export const doctor: Command = {
	name: "doctor",
	usage: "doctor",
	summary: "Check the project, the server and the key, with a remedy for each problem.",
	mostWords: 0,
	options: PLATFORM_OPTION,
	examples: ["capstan doctor", "capstan doctor --json"],
	async run(run) {
		const project = await projectOf(run, platformOf(run));
		const findings: Finding[] = [
			...(await projectFindings(project)),
			...(await buildFindings(project)),
			...(await keyPairFindings(run, project)),
		];
		try {
			const origin = await serverOrigin(run, project);
			const elsewhere = otherServer(project, origin);
			if (elsewhere !== undefined) {
				const detail = `the app asks ${elsewhere}, and this checks ${origin}; run capstan init to change the app`;
				findings.push({ check: "config", state: "warning", detail });
			}
			findings.push(...(await serverFindings(run, project, origin)));
		} catch (error) {
			findings.push({ check: "server", state: "failed", detail: failureOf(error).message });
		}
		const hasFailed = findings.some(({ state }) => state === "failed");
		run.terminal.result("doctor", { healthy: !hasFailed, cli: run.version, node: process.versions.node, findings });
		const marks = {
			ok: ["green", "ok"],
			warning: ["yellow", "warning"],
			failed: ["red", "failed"],
			unknown: ["dim", "unknown"],
		} as const;
		for (const { check, state, detail } of findings) {
			const [style, mark] = marks[state];
			run.terminal.line(`${run.terminal.style(style, mark.padEnd(8))} ${check.padEnd(10)} ${detail}`);
		}
		return hasFailed ? EXIT.failure : EXIT.ok;
	},
};

async function projectFindings(project: Project): Promise<Finding[]> {
	const { kind, config, dependencies, server } = project;
	if (kind === "none") {
		return [
			{
				check: "project",
				state: "failed",
				detail: "no capacitor.config and no Electron app here; run this in your project",
			},
		];
	}
	const name = kind === "electron" ? "@capgo/electron-updater" : "@capgo/capacitor-updater";
	const plugin = dependencies[name];
	const at = (field: string) =>
		kind === "electron" ? project.setting(field) : project.setting("plugins", "CapacitorUpdater", field);
	const addresses = ["updateUrl", "statsUrl", "channelUrl"].map((field) => [field, at(field)] as const);
	const computed = addresses.filter(([field, value]) => value === undefined && mayCompute(config, field));
	const elsewhere = addresses.filter(
		(each) =>
			!computed.includes(each) &&
			(typeof each[1] !== "string" || server === undefined || !each[1].startsWith(`${server}/`)),
	);
	return [
		{
			check: "project",
			state: "ok",
			detail: `${kind}, ${config?.path ?? "no configuration found"}, app ${project.appId ?? "unknown"}`,
		},
		plugin === undefined
			? {
					check: "plugin",
					state: "failed",
					detail: `${name} is not installed; run ${await addCommand(project.directory, name)}`,
				}
			: { check: "plugin", state: "ok", detail: `${name} ${plugin}` },
		config?.root === undefined
			? {
					check: "config",
					state: "warning",
					detail: `${config?.path ?? "the configuration"} is computed, so it cannot be checked`,
				}
			: elsewhere.length === 0 && computed.length > 0
				? {
						check: "config",
						state: "warning",
						detail: `${config.path} computes ${computed.map(([field]) => field).join(", ")}, so it cannot be checked`,
					}
				: elsewhere.length === 0
					? { check: "config", state: "ok", detail: `the app asks ${server}` }
					: {
							check: "config",
							state: "failed",
							detail: `${elsewhere.map(([field]) => field).join(", ")}: ${server === undefined ? "not set" : `not at ${server}`}; run capstan init`,
						},
		...configurationFindings(project),
	];
}

/** A script names the field without a literal, or takes some from elsewhere. */
const mayCompute = (config: Project["config"], field: string) =>
	config?.isJson === false && (config.text.includes("...") || new RegExp(`\\b${field}\\b`).test(config.text));

function configurationFindings(project: Project): Finding[] {
	const { config, kind, server } = project;
	const findings: Finding[] = [];
	if (config?.hasComments === true) {
		const detail = `${config.path} has comments or trailing commas, and Capacitor reads plain JSON; remove them`;
		findings.push({ check: "config", state: "warning", detail });
	}
	if (
		kind === "capacitor" &&
		project.setting("server", "cleartext") === true &&
		server?.startsWith("https:") === true
	) {
		const detail =
			"server.cleartext is true, so the Android app allows plain HTTP everywhere; remove it, because the server has HTTPS";
		findings.push({ check: "cleartext", state: "failed", detail });
	}
	return findings;
}

async function buildFindings(project: Project): Promise<Finding[]> {
	const { webDir, directory, kind } = project;
	const folder = webDir === undefined ? undefined : join(directory, webDir);
	if (folder === undefined || !(await stat(folder).catch(() => undefined))?.isDirectory()) {
		return [{ check: "build", state: "warning", detail: `${webDir ?? "no build folder"}: not built yet` }];
	}
	try {
		const build = await readBuild(folder);
		const isFine = build.confirmsStart || kind === "electron";
		return [
			isFine
				? { check: "build", state: "ok", detail: `${webDir}, ${counted(build.files.length, "file")}` }
				: {
						check: "build",
						state: "failed",
						detail: `no file of ${webDir} calls notifyAppReady(), so devices would roll back`,
					},
		];
	} catch (error) {
		return [{ check: "build", state: "failed", detail: failureOf(error).message }];
	}
}

/** The private key that bundles are encrypted with belongs to the public key of the app. */
async function keyPairFindings(run: Run, project: Project): Promise<Finding[]> {
	const pem = project.setting("plugins", "CapacitorUpdater", "publicKey");
	const exposure = await exposureProblem(join(project.directory, KEY_FILE));
	const isStored = (await readText(join(project.directory, KEY_FILE))) !== undefined;
	const exposed: readonly Finding[] =
		isStored && exposure !== undefined
			? [
					{
						check: "key file",
						state: exposure.exposure === "tracked" ? "failed" : "warning",
						detail: exposure.detail,
					},
				]
			: [];
	try {
		const key = await privateKeyOf(run, project);
		if (key === undefined) return [];
		const own = publicKeyText(key);
		const carried = typeof pem === "string" ? pem.replace(/-----[^-]+-----|\s/g, "") : undefined;
		if (carried === undefined && namesPublicKey(project)) {
			const detail = `${project.config?.path} computes publicKey, so it was not compared with the private key`;
			return [{ check: "encryption", state: "warning", detail }, ...exposed];
		}
		return [
			...exposed,
			carried === own
				? { check: "encryption", state: "ok", detail: `bundles are encrypted, key ${own.slice(0, 20)}` }
				: {
						check: "encryption",
						state: "failed",
						detail: "the private key here does not belong to publicKey of the app; devices could not open bundles",
					},
		];
	} catch (error) {
		return [{ check: "encryption", state: "warning", detail: failureOf(error).message }];
	}
}

async function serverFindings(run: Run, project: Project, origin: string): Promise<Finding[]> {
	const open = connect(origin, undefined, run.version);
	const findings: Finding[] = [];
	const { version, schema } = await open.api("GET /ok");
	findings.push({
		check: "server",
		state: "ok",
		detail: `${origin}, version ${version}, schema ${schema ?? "unknown"}`,
	});
	const command = await packageAddress(origin, run.version).catch(() => undefined);
	findings.push(...commandFindings(command, run.version));
	if (origin.startsWith("http://")) {
		const detail =
			"plain http: phones refuse it unless the app allows it, and the key is sent unencrypted; use https outside of development";
		findings.push({ check: "transport", state: "warning", detail });
	}
	findings.push(await clockFinding(open, Date.now()));
	const key = await givenKey(run, origin);
	if (key === undefined) {
		return [
			...findings,
			{ check: "key", state: "failed", detail: "no API key; run capstan login, or set CAPSTAN_TOKEN" },
		];
	}
	const server = connect(origin, key, run.version);
	return [
		...findings,
		...(await appFindings(server, text(run.options, "app") ?? project.appId)),
		...(await operatorFindings(server)),
	];
}

/** @param address that of the server's newest command; npx runs the copy that it has, also of an older one */
export function commandFindings(address: string | undefined, version: string): Finding[] {
	const offered = /\/capstan-([\w.+-]+)-[0-9a-f]{16}\.tgz$/.exec(address ?? "")?.[1];
	if (offered === undefined || offered === version) return [];
	const detail = `this is version ${version}, and the server offers ${offered}; run npx --yes ${address}, or delete the copies of npx (~/.npm/_npx)`;
	return [{ check: "command", state: "warning", detail }];
}

/** Only the operator's key reads the state of the installation; any other key gets no findings. */
async function operatorFindings(server: Server): Promise<Finding[]> {
	try {
		return webhookFindings(await server.apiOnce("GET /service/status"), Date.now());
	} catch (error) {
		if (error instanceof CapstanError && [401, 403, 404].includes(error.status)) return [];
		return [{ check: "webhooks", state: "unknown", detail: failureOf(error).message }];
	}
}

/** @param status an older server reports no webhooks */
export function webhookFindings(
	{ webhooks }: Partial<Pick<AnswerOf<"GET /service/status">, "webhooks">>,
	nowMs: number,
): Finding[] {
	if (webhooks === undefined) return [];
	const { due, oldest_at } = webhooks;
	const ageMs = oldest_at === null ? 0 : Math.max(0, nowMs - Date.parse(oldest_at));
	const age = due === 0 ? "" : `, the oldest for ${counted(Math.round(ageMs / 60_000), "minute")}`;
	const detail = `${counted(due, "delivery", "deliveries")} due${age}`;
	return ageMs <= MOST_DELIVERY_DELAY_MS
		? [{ check: "webhooks", state: "ok", detail }]
		: [{ check: "webhooks", state: "failed", detail: `${detail}; run npm run doctor, where the server runs` }];
}

export async function clockFinding({ send, origin }: Pick<Server, "origin" | "send">, nowMs: number): Promise<Finding> {
	const response = await send(`${origin}/ok`, { method: "GET" });
	await response.arrayBuffer();
	const serverMs = Date.parse(response.headers.get("date") ?? "");
	if (Number.isNaN(serverMs) && LOOPBACK.test(origin)) {
		return { check: "clock", state: "ok", detail: "the server runs on this computer" };
	}
	if (Number.isNaN(serverMs)) {
		const detail = "the server does not send its time, so this computer's clock was not compared";
		return { check: "clock", state: "unknown", detail };
	}
	const seconds = Math.round(Math.abs(nowMs - serverMs) / 1000);
	return seconds * 1000 <= MOST_CLOCK_DIFFERENCE_MS
		? { check: "clock", state: "ok", detail: `within ${Math.max(1, seconds)} s of the server` }
		: {
				check: "clock",
				state: "failed",
				detail: `this computer's clock differs by ${seconds} s; set it, or keyless CI tokens are refused`,
			};
}

async function appFindings(server: Server, appId: string | undefined): Promise<Finding[]> {
	if (appId === undefined)
		return [
			{
				check: "app",
				state: "failed",
				detail: "no app id that can be read; set appId in the configuration, or pass --app",
			},
		];
	try {
		const app = await server.api("GET /app/:app_id", { params: { app_id: appId } });
		const channels = await channelsOf(server, appId);
		const problems = channels.flatMap(({ misconfigured }) => misconfigured);
		return [
			{ check: "app", state: "ok", detail: `${app.name} (${appId}), ${counted(channels.length, "channel")}` },
			...problems.map(({ message }) => ({ check: "channel", state: "warning" as const, detail: message })),
		];
	} catch (error) {
		const isMissing = error instanceof CapstanError && error.code === "app_not_found";
		const detail = isMissing
			? `${appId} does not exist for this key; run capstan init, or create it in the dashboard`
			: failureOf(error).message;
		return [{ check: isMissing ? "app" : "key", state: "failed", detail }];
	}
}
