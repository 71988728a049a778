/**
 * `capstan explain`, `what-if` and `logs`: what devices get, what they would get, and what they
 * reported.
 */

import { type AnswerOf, CapstanError } from "../../../src/client/client";
import { EFFECT_DAYS } from "../../../src/domain/defaults";
import { isUpToDate } from "../../../src/domain/updates/refusals";
import { eventNote, eventSentence } from "../../../src/domain/words/events";
import { plainSentence } from "../../../src/domain/words/releases";
import { existingChannel } from "../channels";
import { type Command, durationOf, numberOf, type Run, text } from "../command";
import { EXIT, usage } from "../failure";
import { resolve, type Settings } from "../settings";

type Device = Extract<AnswerOf<"GET /device">, { readonly device_id: string }>;

const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;
const PLATFORMS = ["android", "ios", "electron"] as const;

export const explain: Command = {
	name: "explain",
	usage: "explain [device]",
	summary:
		"Explain why a device gets what it gets. The device is its id, its custom id, or one that the options describe.",
	mostWords: 1,
	options: {
		platform: { type: "string", value: "name", help: "android, ios or electron" },
		"store-build": { type: "string", value: "version", help: "Version of its store build" },
		plugin: { type: "string", value: "version", help: "Version of its updater plugin" },
		runs: { type: "string", value: "version", help: "Bundle that it runs; default: the store build" },
		"default-channel": { type: "string", value: "name", help: "Channel that the app was built with" },
		rules: { type: "boolean", help: "Show every rule" },
	},
	examples: ["capstan explain 8a1f…", "capstan explain --platform android --store-build 1.0.0"],
	async run(run) {
		const settings = await resolve(run);
		const { server, appId, project } = settings;
		const device = run.words[0] === undefined ? undefined : await deviceId(settings, run.words[0]);
		const platform = oneOf(run, "platform", PLATFORMS);
		const build = text(run.options, "store-build");
		const plugin =
			text(run.options, "plugin") ??
			(device === undefined
				? project.dependencies["@capgo/capacitor-updater"]?.replace(/^\D+/, "") || "8.0.0"
				: undefined);
		if (device === undefined && (platform === undefined || build === undefined)) {
			throw usage("missing_device", "Name a device, or describe one with --platform and --store-build.", {
				field: "device",
			});
		}
		const runs = text(run.options, "runs");
		const defaultChannel = text(run.options, "default-channel");
		const asked = server.api("GET /device/explain", {
			query: {
				app_id: appId,
				...(device === undefined ? {} : { device_id: device }),
				...(platform === undefined ? {} : { platform }),
				...(build === undefined ? {} : { version_build: build }),
				...(plugin === undefined ? {} : { plugin_version: plugin }),
				...(runs === undefined ? {} : { version_name: runs }),
				...(defaultChannel === undefined ? {} : { defaultChannel }),
			},
		});
		const answer = await asked.catch((error: unknown) => {
			if (device === undefined || !lacksReport(error)) throw error;
			throw usage(
				"device_not_found",
				`The app has no report of ${device}; describe it with --platform, --store-build and --plugin.`,
				{
					field: "device",
				},
			);
		});
		const { outcome, because, decided_by, channel, remedy, trace } = answer;
		const version = "version" in answer.answer ? answer.answer.version : null;
		run.terminal.result("explain", {
			app_id: appId,
			outcome,
			version,
			channel,
			decided_by,
			because,
			remedy,
			trace,
			device: answer.device,
		});
		const gets =
			outcome === "update"
				? `gets ${version}`
				: outcome === "builtin"
					? "returns to the store build"
					: "keeps what it has";
		const { device_id, version_build, version_name } = answer.device;
		const who = device === undefined ? "Such a device" : device_id;
		run.terminal.line(
			`${run.terminal.style("bold", who)} (${answer.device.platform}, store build ${version_build}, runs ${version_name}) ${gets}:`,
		);
		run.terminal.line(`  ${because}${channel === null ? "" : ` (channel ${channel})`}`);
		if (remedy !== null) run.terminal.line(`  ${run.terminal.style("cyan", "To change that")}: ${remedy.message}`);
		if (run.options.rules === true)
			run.terminal.table([
				["RULE", "OUTCOME", "FINDING"],
				...trace.map((step) => [step.rule, step.outcome, step.finding]),
			]);
		return EXIT.ok;
	},
};

/** Whether the server knows too little of the device to decide. */
function lacksReport(error: unknown): boolean {
	if (!(error instanceof CapstanError) || error.code !== "invalid_request") return false;
	const { issues } = error.moreInfo;
	const paths: readonly unknown[] = Array.isArray(issues) ? issues.map(({ path }) => path) : [];
	return ["platform", "version_build", "plugin_version"].some((path) => paths.includes(path));
}

function oneOf<const Choice extends string>(run: Run, name: string, choices: readonly Choice[]): Choice | undefined {
	const value = text(run.options, name);
	const choice = choices.find((each) => each === value);
	if (value === undefined || choice !== undefined) return choice;
	throw usage("invalid_option", `--${name} must be one of ${choices.join(", ")}; it is "${value}".`, { field: name });
}

/**
 * @throws {Failure} `device_not_found`, or `device_ambiguous` for a custom id of several devices
 */
async function deviceId({ server, appId }: Settings, named: string): Promise<string> {
	if (UUID.test(named)) return named.toLowerCase();
	const found = listOf(await server.api("GET /device", { query: { app_id: appId, custom_id: named } }));
	const [device, ...others] = found;
	if (device === undefined)
		throw usage("device_not_found", `No device of the app has the custom id "${named}".`, { field: "device" });
	if (others.length === 0) return device.device_id;
	const ids = found.map(({ device_id }) => device_id);
	throw usage(
		"device_ambiguous",
		`${found.length} devices have the custom id "${named}"; name one of ${ids.slice(0, 5).join(", ")}.`,
		{ devices: ids },
	);
}

const listOf = (answer: AnswerOf<"GET /device">): readonly Device[] => (Array.isArray(answer) ? answer : [answer]);

export const whatIf: Command = {
	name: "what-if",
	usage: "what-if <version>",
	summary: "Show how many devices would change version if a channel got a bundle. Changes nothing.",
	mostWords: 1,
	options: {
		channel: { type: "string", short: "c", value: "name", help: "Channel; default: the app's upload channel" },
		rollout: { type: "string", value: "percent", help: "As a rollout to this share" },
		days: { type: "string", value: "days", help: `Count devices seen in this many days (default ${EFFECT_DAYS})` },
	},
	examples: ["capstan what-if 1.4.0", "capstan what-if 1.4.0 --channel production --rollout 5"],
	async run(run) {
		const [version] = run.words;
		if (version === undefined) throw usage("missing_version", "Name the version: capstan what-if 1.4.0.");
		const rollout = numberOf(run.options, "rollout", 0.01, 100);
		const days = numberOf(run.options, "days", 1, 365);
		const { server, appId } = await resolve(run);
		const app = await server.api("GET /app/:app_id", { params: { app_id: appId } });
		const channel = await existingChannel(server, app, text(run.options, "channel"));
		const answer = await server.api("POST /channel/what_if", {
			body: {
				app_id: appId,
				channel: channel.name,
				...(days === undefined ? {} : { days }),
				...(rollout === undefined
					? { version }
					: { rolloutVersion: version, rolloutPercentage: rollout, rolloutEnabled: true }),
			},
		});
		const { devices, changed, sampled, outcomes } = answer;
		run.terminal.result("what-if", {
			app_id: appId,
			channel: channel.name,
			version,
			devices,
			devices_changed: changed,
			sampled,
			outcomes,
		});
		const sample = sampled ? " (a sample of the fleet)" : "";
		run.terminal.line(`${changed} of ${devices} devices would change version${sample}.`);
		if (outcomes.length > 0) {
			run.terminal.table([
				["DEVICES", "NOW", "THEN"],
				...outcomes.map((each) => [String(each.devices), outcomeText(each.before), outcomeText(each.after)]),
			]);
		}
		return EXIT.ok;
	},
};

type Outcome = AnswerOf<"POST /channel/what_if">["outcomes"][number]["before"];

const outcomeText = ({ outcome, version, error }: Outcome) =>
	outcome === "update"
		? (version ?? "")
		: outcome === "builtin"
			? "store build"
			: isUpToDate(error)
				? "up to date"
				: (error ?? "");

/** Events of one answer, and the pause between two questions of --follow. */
const PAGE_SIZE = 200;
const MOST_EVENTS = 1_000;
const FOLLOW_MS = 5_000;

type DeviceEvent = AnswerOf<"GET /device/events">["events"][number];

export const logs: Command = {
	name: "logs",
	usage: "logs [device]",
	summary: "List what happened on devices, newest first: installs, failures, crashes, changed decisions, overrides.",
	mostWords: 1,
	options: {
		since: { type: "string", value: "time", help: "How far back, e.g. 15m, 2h or 7d (default 1d)" },
		kind: { type: "string", value: "kinds", help: "Only these, e.g. install,fail or crash,anr,js_error" },
		version: { type: "string", value: "version", help: "Only events about this bundle" },
		follow: { type: "boolean", short: "f", help: "Keep listing new events, oldest first" },
	},
	examples: ["capstan logs", "capstan logs 8a1f… --since 7d", "capstan logs --kind fail,crash --follow"],
	async run(run) {
		const sinceMs = durationOf(run.options, "since", "1d");
		const settings = await resolve(run);
		const { server, appId } = settings;
		const device = run.words[0] === undefined ? undefined : await deviceId(settings, run.words[0]);
		const kind = text(run.options, "kind");
		const version = text(run.options, "version");
		const from = new Date(Date.now() - sinceMs).toISOString();
		const query = {
			app_id: appId,
			from,
			limit: String(PAGE_SIZE),
			...(device === undefined ? {} : { device_id: device }),
			...(kind === undefined ? {} : { kind }),
			...(version === undefined ? {} : { version }),
		};
		const events: DeviceEvent[] = [];
		let before: string | null = null;
		let newest: string | null = null;
		do {
			const page: AnswerOf<"GET /device/events"> = await server.api("GET /device/events", {
				query: { ...query, ...(before === null ? {} : { before }) },
			});
			events.push(...page.events);
			newest ??= page.newest;
			before = page.next;
		} while (before !== null && events.length < MOST_EVENTS);
		run.terminal.result("logs", { app_id: appId, since: from, complete: before === null, events });
		if (events.length === 0) run.terminal.line("Nothing happened in this time; try --since 7d.");
		else run.terminal.table([["TIME (UTC)", "DEVICE", "WHAT HAPPENED"], ...events.map(rowOf)]);
		if (before !== null) {
			run.terminal.note(`Only ${events.length} events are listed; narrow it with --since, --kind or --version.`);
		}
		if (run.options.follow === true) await follow(settings, run, query, new Set(events.map(({ id }) => id)), newest);
		return EXIT.ok;
	},
};

/** The sentence of the dashboard, with the message of a crash or an error. */
const rowOf = (event: DeviceEvent) => {
	const note = eventNote(event);
	const sentence = plainSentence(eventSentence(event));
	return [event.at.slice(0, 19).replace("T", " "), event.device_id, note === null ? sentence : `${sentence}: ${note}`];
};

/**
 * Until the command is interrupted. The server repeats events of the last seconds, so those that
 * were listed are left out.
 */
async function follow(
	{ server }: Settings,
	run: Run,
	query: { readonly app_id: string },
	listed: Set<string>,
	newest: string | null,
): Promise<never> {
	let after = newest;
	for (;;) {
		await new Promise((resume) => setTimeout(resume, FOLLOW_MS));
		const page: AnswerOf<"GET /device/events"> = await server.api("GET /device/events", {
			query: { ...query, ...(after === null ? {} : { after }) },
		});
		after = page.newest ?? after;
		for (const event of page.events.toReversed()) {
			if (listed.has(event.id)) continue;
			listed.add(event.id);
			run.terminal.line(rowOf(event).join("  "));
		}
	}
}
