/**
 * Channels as commands need them: which one a release goes to, the change that points it to a
 * bundle, and a promotion that waits for approval.
 */
import { type AnswerOf, CapstanError, type RequestOf } from "../../src/client/client";
import { dashboardPage, type Server, sleep } from "./api";
import type { Run } from "./command";
import { EXIT, type ExitCode, Failure, usage } from "./failure";

export type App = AnswerOf<"GET /app/:app_id">;
export type Channel = Extract<AnswerOf<"GET /channel">, { readonly name: string }>;

/** The first channels of the app, oldest first. */
export async function channelsOf({ api }: Server, appId: string): Promise<readonly Channel[]> {
	const channels = await api("GET /channel", { query: { app_id: appId } });
	return Array.isArray(channels) ? channels : [channels];
}

export async function channelNamed({ api }: Server, appId: string, name: string): Promise<Channel | undefined> {
	try {
		const channel = await api("GET /channel", { query: { app_id: appId, channel: name } });
		return Array.isArray(channel) ? undefined : channel;
	} catch (error) {
		if (error instanceof CapstanError && error.code === "channel_not_found") return undefined;
		throw error;
	}
}

const PAGE_SIZE = 50;

/**
 * The channel that a command means without `--channel`: the app's upload channel, or its only
 * public one.
 */
export async function defaultChannel(
	server: Server,
	app: App,
	channels: readonly Channel[],
): Promise<Channel | undefined> {
	const name = app.default_upload_channel;
	const listed = channels.find((channel) => channel.name === name);
	if (listed !== undefined) return listed;
	// An app with many previews has more channels than these.
	const upload = channels.length < PAGE_SIZE ? undefined : await channelNamed(server, app.app_id, name);
	const open = channels.filter((channel) => channel.public);
	return upload ?? (open.length === 1 ? open[0] : undefined);
}

/** @throws {Failure} `channel_not_found` with the names that exist */
export async function existingChannel(server: Server, app: App, name: string | undefined): Promise<Channel> {
	const channel =
		name === undefined
			? await defaultChannel(server, app, await channelsOf(server, app.app_id))
			: await channelNamed(server, app.app_id, name);
	if (channel !== undefined) return channel;
	const names = (await channelsOf(server, app.app_id)).map((each) => each.name);
	throw unknownChannel(name, names);
}

export function unknownChannel(name: string | undefined, names: readonly string[]): Failure {
	const list = names.length === 0 ? "The app has no channels yet." : `Channels of the app: ${names.join(", ")}.`;
	const message =
		name === undefined ? `Name the channel with --channel. ${list}` : `There is no channel ${name}. ${list}`;
	return usage(name === undefined ? "missing_channel" : "channel_not_found", message, {
		field: "channel",
		channels: names,
	});
}

export interface Changed {
	/** Undefined if the change is live. */
	readonly waiting: Waiting | undefined;
	/** The rollout of another bundle that the change ended. */
	readonly rolloutEnded: RolloutEnded | undefined;
}

export type RolloutEnded = { readonly version: string | null; readonly percentage_bps: number };

export interface Waiting {
	readonly id: string;
	readonly message: string;
	readonly expiresAt: string;
	/** The page on which a promoter decides. */
	readonly url: string;
}

/** The public channel of an app without channels. */
export const FIRST_CHANNEL = "production";

/** Sends the change; a promotion to a protected channel may wait for approval. */
export async function changeChannel(server: Server, body: RequestOf<"POST /channel">["body"]): Promise<Changed> {
	const answer = await server.api("POST /channel", { body });
	if (answer.status === "ok") return { waiting: undefined, rolloutEnded: answer.rollout_ended ?? undefined };
	const at = dashboardPage(server, "apps", body.app_id, "channels", body.channel);
	const waiting = { id: answer.proposal_id, message: answer.message, expiresAt: answer.expires_at, url: at };
	return { waiting, rolloutEnded: undefined };
}

/** Fields of a change that serves a bundle: stable, or to a share of the devices. */
export const servedFields = (
	version: string,
	{ rollout, keepsRollout }: { readonly rollout: number | undefined; readonly keepsRollout: boolean },
) =>
	rollout === undefined
		? { version, ...(keepsRollout ? { keep_rollout: true } : {}) }
		: { rolloutVersion: version, rolloutPercentage: rollout, rolloutEnabled: true };

/** The bundle that most devices of a channel run, if they are up to date. */
export function servedBefore(channel: Channel | undefined): string | undefined {
	if (channel === undefined) return undefined;
	const { rolloutEnabled, rolloutPercentageBps, rollout_version_info: rollout, version } = channel;
	return rolloutEnabled && rolloutPercentageBps >= 5_000 ? (rollout?.name ?? version?.name) : version?.name;
}

/**
 * @throws {Failure} `rollout_running` before a bundle is uploaded whose rollout the server would
 * refuse
 */
export function refuseSecondRollout(channel: Channel | undefined): void {
	const running = channel?.rollout_version_info?.name;
	if (channel === undefined || running === undefined || !channel.rolloutEnabled) return;
	if (channel.rolloutPercentageBps === 10_000 && channel.rolloutPausedAt === null) return;
	throw new Failure("rollout_running", secondRollout(channel.name, running), EXIT.failure, {
		rollout_version: running,
	});
}

const secondRollout = (channel: string, running: string) =>
	`${running} is rolled out to a part of the devices of ${channel}, and a second rollout would return them to an older bundle. End it first: capstan rollout finish (${running} for every device) or capstan rollout stop. Without --rollout the release ends it.`;

/** @throws {Failure} `invalid_option` */
export function refuseKeptRollout(options: Run["options"], rollout: number | undefined): void {
	if (rollout === undefined || options["keep-rollout"] !== true) return;
	const message =
		"--keep-rollout keeps a running rollout beside a release for every device; leave out --rollout or it.";
	throw usage("invalid_option", message, { field: "keep-rollout" });
}

/** The proposal in the result of a command. */
export const proposalOf = ({ id, url, expiresAt }: Waiting) => ({ id, url, expires_at: expiresAt });

/** The lines and the exit code of a command whose change waits for approval. */
export function endWaiting({ terminal }: Pick<Run, "terminal">, { message, url }: Waiting): ExitCode {
	terminal.line(`${terminal.style("yellow", "Waiting")} ${message}`, `  ${url}`);
	return EXIT.waiting;
}

/** One line if the change ended the rollout of another bundle. */
export const endedLines = (ended: RolloutEnded | undefined): readonly string[] =>
	ended === undefined
		? []
		: [`Ended the rollout of ${ended.version ?? "a deleted bundle"} (${ended.percentage_bps / 100} %).`];

const ASK_EVERY_MS = 5_000;

/**
 * Returns when a promoter approved the proposal.
 * @throws {Failure} `proposal_rejected`, `proposal_closed`, or `approval_timeout` with the exit
 * code of a release that waits
 */
export async function approved(
	{ api }: Server,
	appId: string,
	waiting: Waiting,
	timeoutMs: number,
	pause: (ms: number) => Promise<void> = sleep,
): Promise<void> {
	for (let waitedMs = 0; ; waitedMs += ASK_EVERY_MS) {
		const [proposal] = await api("GET /proposal", { query: { app_id: appId, id: waiting.id } });
		const state = proposal?.state ?? "superseded";
		if (state === "approved") return;
		const details = { proposal_id: waiting.id, url: waiting.url, state };
		if (state === "rejected") {
			const reason = proposal?.comment == null ? "" : `: ${proposal.comment}`;
			throw new Failure(
				"proposal_rejected",
				`The promotion was rejected${reason}. Nothing changed for devices.`,
				EXIT.failure,
				details,
			);
		}
		if (state !== "pending") {
			throw new Failure(
				"proposal_closed",
				`The promotion was ${state}. Release again to propose it again.`,
				EXIT.failure,
				details,
			);
		}
		if (waitedMs >= timeoutMs) {
			throw new Failure(
				"approval_timeout",
				`Nobody decided in time. The promotion still waits: ${waiting.url}`,
				EXIT.waiting,
				details,
			);
		}
		await pause(Math.min(ASK_EVERY_MS, timeoutMs - waitedMs));
	}
}
