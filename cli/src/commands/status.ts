/**
 * `capstan status`: what every channel serves, how its rollout goes, and what devices could not
 * install.
 */
import type { AnswerOf } from "../../../src/client/client";
import { plainSentence, platformNames, releaseSentence } from "../../../src/domain/words/releases";
import { type Channel, channelsOf } from "../channels";
import { type Command, text } from "../command";
import { EXIT } from "../failure";
import { resolve, type Settings } from "../settings";
import type { Terminal } from "../terminal";
import { type Rollout, readyLines } from "./rollout";

type Proposal = AnswerOf<"GET /proposal">[number];

export const status: Command = {
	name: "status",
	usage: "status",
	summary: "Show what is live on each channel, rollouts, failures and promotions that wait.",
	mostWords: 0,
	options: { channel: { type: "string", short: "c", value: "name", help: "Only this channel" } },
	examples: ["capstan status", "capstan status --channel production --json"],
	async run(run) {
		const settings = await resolve(run);
		const { server, appId } = settings;
		const only = text(run.options, "channel");
		const [all, installs, proposals] = await Promise.all([
			channelsOf(server, appId),
			server.api("GET /statistics/app/:app_id/installs", { params: { app_id: appId } }),
			server.api("GET /proposal", { query: { app_id: appId } }),
		]);
		const channels = only === undefined ? all : all.filter(({ name }) => name === only);
		const rollouts = await rolloutsOf(settings, channels);
		const waiting = proposals.filter(({ state, channel }) => state === "pending" && (only ?? channel) === channel);
		run.terminal.result("status", {
			app_id: appId,
			channels: channels.map((channel) => ({
				name: channel.name,
				public: channel.public,
				protected: channel.protected,
				version: channel.version?.name ?? null,
				rollout: rollouts.get(channel.name) ?? null,
				problems: channel.misconfigured,
			})),
			installs: installs.total,
			failing_bundles: installs.byBundle.filter(({ fail }) => fail > 0),
			waiting: waiting.map(({ id, channel, version, expires_at }) => ({ id, channel, version, expires_at })),
		});
		show(run.terminal, server.origin, appId, channels, rollouts, waiting);
		for (const bundle of installs.byBundle.filter(({ fail }) => fail > 0)) {
			const rate = bundle.success_rate === null ? "" : `, ${Math.round(bundle.success_rate)} % succeed`;
			run.terminal.line(
				`${run.terminal.style("red", "Failures")} ${bundle.version}: ${bundle.fail} of ${bundle.install + bundle.fail} installs failed${rate}`,
			);
		}
		return EXIT.ok;
	},
};

async function rolloutsOf(
	{ server, appId }: Settings,
	channels: readonly Channel[],
): Promise<ReadonlyMap<string, Rollout>> {
	const running = channels.filter(({ rollout_id }) => rollout_id !== null);
	const found = await Promise.all(
		running.map(({ name }) => server.api("GET /channel/rollout", { query: { app_id: appId, channel: name } })),
	);
	return new Map(found.map((rollout) => [rollout.channel, rollout]));
}

/** The devices that start on a public channel, or how devices get to a private one. */
function audienceOf(channel: Channel): string {
	if (!channel.public) return channel.allow_device_self_set ? "devices that join" : "builds and overrides";
	const names = platformNames(channel);
	return names.length === 3 ? "every device" : names.join(", ");
}

function show(
	terminal: Terminal,
	origin: string,
	appId: string,
	channels: readonly Channel[],
	rollouts: ReadonlyMap<string, Rollout>,
	waiting: readonly Proposal[],
): void {
	terminal.line(`${terminal.style("bold", appId)} on ${origin}`);
	if (channels.length === 0) terminal.line("No channels yet; capstan release creates the first one.");
	else {
		terminal.table([
			["CHANNEL", "LIVE", "ROLLOUT", "FOR"],
			...channels.map((channel) => [
				channel.name,
				channel.version?.name ?? "store build",
				rolloutText(rollouts.get(channel.name)),
				[audienceOf(channel), ...(channel.protected ? ["protected"] : [])].join(", "),
			]),
		]);
	}
	for (const rollout of rollouts.values()) {
		terminal.line(`${rollout.channel}: ${rollout.reason}`, ...readyLines(terminal, rollout));
	}
	for (const { misconfigured } of channels) {
		for (const problem of misconfigured) terminal.line(`${terminal.style("yellow", "Problem")} ${problem.message}`);
	}
	for (const { channel, version, proposed_by } of waiting) {
		terminal.line(
			`${terminal.style("yellow", "Waiting")} ${proposed_by.name ?? "A team member"} ${plainSentence(proposalSentence(channel, version))}; it needs an approval`,
		);
	}
}

const proposalSentence = (channel: string, version: string | null) =>
	releaseSentence({
		action: "proposal_created",
		channel: { name: channel, isPreview: false },
		version,
		previousVersion: null,
		rolloutPercentageBps: null,
	});

function rolloutText(rollout: Rollout | undefined): string {
	if (rollout === undefined || rollout.version === null) return "-";
	const { installed, failed } = rollout.devices;
	return `${rollout.version} ${rollout.percentageBps / 100} % ${rollout.state} (${installed} ok, ${failed} failed)`;
}
