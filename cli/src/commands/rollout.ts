/**
 * `capstan rollout …`: shows the rollout of a channel, and changes it as the dashboard's buttons
 * do. The words are the dashboard's.
 */
import type { AnswerOf, RequestOf } from "../../../src/client/client";
import { changeChannel, endWaiting, existingChannel, proposalOf } from "../channels";
import { type Command, type Run, text } from "../command";
import { EXIT, type ExitCode, usage } from "../failure";
import { RELEASE_STAGES } from "../keyless";
import { resolve, type Settings } from "../settings";
import { counted, type Terminal } from "../terminal";

export type Rollout = AnswerOf<"GET /channel/rollout">;
/** A rollout that exists. */
type Existing = Rollout & { readonly version: string };

const CHANNEL = {
	channel: { type: "string", short: "c", value: "name", help: "Channel; default: the app's upload channel" },
} as const;

/** The command that finishes a rollout to every device, for people who read about one. */
const finishCommand = (channel: string) => `capstan rollout finish --channel ${channel}`;

export const rolloutStatus: Command = {
	name: "rollout status",
	usage: "rollout status",
	summary: "Show the rollout of a channel: share, devices, failures, and what it waits for.",
	mostWords: 0,
	options: CHANNEL,
	examples: ["capstan rollout status", "capstan rollout status --channel production --json"],
	async run(run) {
		const { settings, rollout } = await rolloutOf(run);
		run.terminal.result("rollout status", { app_id: settings.appId, ...rollout });
		show(run.terminal, rollout);
		return EXIT.ok;
	},
};

interface Change {
	readonly verb: string;
	readonly usage: string;
	readonly summary: string;
	readonly example: string;
	readonly body: (run: Run, rollout: Existing) => Omit<RequestOf<"POST /channel">["body"], "app_id" | "channel">;
	/** The sentence after the change. */
	readonly done: (rollout: Existing, run: Run) => string;
}

const stableOf = ({ stableVersion }: Rollout) => stableVersion ?? "the store build";

const CHANGES: readonly Change[] = [
	{
		verb: "pause",
		usage: "rollout pause",
		summary: "Pause a rollout: devices that have the bundle keep it, and no other device gets it.",
		example: "capstan rollout pause --channel production",
		body: () => ({ rolloutPaused: true }),
		done: ({ version }) => `Rollout of ${version} paused.`,
	},
	{
		verb: "resume",
		usage: "rollout resume",
		summary: "Resume a rollout that is paused or off.",
		example: "capstan rollout resume",
		body: (_, { state }) => (state === "off" ? { rolloutEnabled: true } : { rolloutPaused: false }),
		done: ({ version, state }) =>
			state === "running" ? `The rollout of ${version} is running already.` : `Rollout of ${version} resumed.`,
	},
	{
		verb: "set",
		usage: "rollout set <percent>",
		summary: "Set the share of the devices that get the bundle of a rollout.",
		example: "capstan rollout set 25",
		body: (run) => ({ rolloutPercentage: shareOf(run) }),
		done: ({ version, state }, run) =>
			state === "running"
				? `${version} is now rolled out to ${shareOf(run)} % of devices.`
				: `${version} will be rolled out to ${shareOf(run)} % of devices when the rollout is resumed, which is ${state}: capstan rollout resume`,
	},
	{
		verb: "finish",
		usage: "rollout finish",
		summary: "End a rollout and make its bundle live for every device.",
		example: "capstan rollout finish --channel production",
		body: () => ({ promoteToStable: true }),
		done: ({ version, channel }) => `${version} is now live on ${channel}.`,
	},
	{
		verb: "stop",
		usage: "rollout stop",
		summary: "End a rollout and return its devices to the stable bundle.",
		example: "capstan rollout stop",
		body: () => ({ rollback: true }),
		done: (rollout) => `Rollout of ${rollout.version} rolled back; its devices return to ${stableOf(rollout)}.`,
	},
];

export const rolloutChanges: readonly Command[] = CHANGES.map((change) => ({
	name: `rollout ${change.verb}`,
	usage: change.usage,
	summary: change.summary,
	mostWords: change.verb === "set" ? 1 : 0,
	options: CHANNEL,
	examples: [change.example],
	async run(run): Promise<ExitCode> {
		// Refuses a wrong share before it asks the server.
		if (change.verb === "set") shareOf(run);
		const { settings, rollout } = await rolloutOf(run);
		const { server, appId } = settings;
		const { channel, version } = rollout;
		if (version === null)
			throw usage(
				"no_rollout",
				`The channel ${channel} has no rollout. Start one with: capstan promote <version> --channel ${channel} --rollout 10`,
				{ field: "channel" },
			);
		const existing = { ...rollout, version };
		const { waiting } = await changeChannel(server, { app_id: appId, channel, ...change.body(run, existing) });
		run.terminal.result(`rollout ${change.verb}`, {
			status: waiting === undefined ? "done" : "waiting_for_approval",
			app_id: appId,
			channel,
			version,
			stable_version: rollout.stableVersion,
			...(waiting === undefined ? {} : { proposal: proposalOf(waiting) }),
		});
		if (waiting !== undefined) return endWaiting(run, waiting);
		run.terminal.line(change.done(existing, run));
		return EXIT.ok;
	},
}));

/** @throws {Failure} `missing_share` or `invalid_option` */
function shareOf({ words: [word] }: Run): number {
	if (word === undefined)
		throw usage("missing_share", "Name the share of the devices in percent: capstan rollout set 25.", {
			field: "percent",
		});
	const share = /^\d+(\.\d+)?%?$/.test(word) ? Number(word.replace(/%$/, "")) : Number.NaN;
	if (share <= 100) return share;
	throw usage("invalid_option", `The share must be a number from 0 to 100; it is "${word}".`, { field: "percent" });
}

async function rolloutOf(run: Run): Promise<{ readonly settings: Settings; readonly rollout: Rollout }> {
	const settings = await resolve(run, RELEASE_STAGES);
	const { server, appId } = settings;
	const app = await server.api("GET /app/:app_id", { params: { app_id: appId } });
	const { name } = await existingChannel(server, app, text(run.options, "channel"));
	return { settings, rollout: await server.api("GET /channel/rollout", { query: { app_id: appId, channel: name } }) };
}

function show(terminal: Terminal, rollout: Rollout): void {
	const { channel, version, state, percentageBps, devices, reason, next, pauseReason } = rollout;
	if (version === null) {
		terminal.line(`The channel ${channel} has no rollout; every device gets ${stableOf(rollout)}.`);
		return;
	}
	const { served, installed, failed, silent } = devices;
	terminal.line(
		`${terminal.style("bold", version)} on ${channel}: ${state}, ${percentageBps / 100} % of devices; the others get ${stableOf(rollout)}`,
		`  ${counted(served, "device")} offered: ${installed} installed, ${failed} failed, ${silent} silent`,
		...(pauseReason === null ? [] : [`  Paused: ${pauseReason}`]),
		`  ${reason}`,
		...(next === null || next.waitingFor.length === 0
			? []
			: [`  Next step: ${next.percentageBps / 100} %, after ${next.waitingFor.join(", ")}`]),
	);
	for (const line of readyLines(terminal, rollout)) terminal.line(line);
}

/** One line if a person may make the bundle of the rollout live. */
export function readyLines(terminal: Terminal, { channel, version, readyToFinish }: Rollout): readonly string[] {
	if (!readyToFinish) return [];
	return [
		`${terminal.style("green", "Ready to finish")} the rollout of ${version} reaches every device of ${channel}: ${finishCommand(channel)}`,
	];
}
