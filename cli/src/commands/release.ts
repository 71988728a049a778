/**
 * `capstan release`: a build folder becomes the bundle of a channel. Each step is safe to repeat,
 * and devices see nothing before the last one, so an interrupted release is finished by running the
 * command again.
 */
import { CapstanError } from "../../../src/client/client";
import { readVersion } from "../../../src/domain/updates/version";
import {
	type App,
	approved,
	type Channel,
	changeChannel,
	channelNamed,
	channelsOf,
	defaultChannel,
	endedLines,
	endWaiting,
	FIRST_CHANNEL,
	proposalOf,
	type RolloutEnded,
	refuseKeptRollout,
	refuseSecondRollout,
	servedBefore,
	servedFields,
	unknownChannel,
	type Waiting,
} from "../channels";
import { type Command, durationOf, numberOf, type Run, text, versionOf } from "../command";
import { type Commit, commentOf, commitOf } from "../commit";
import { buildOf, CONTENT_OPTIONS, type Content, contentOf } from "../content";
import { type Delivery, deliveryFields, deliveryOf, showOutcome } from "../delivery";
import { type ExitCode, usage } from "../failure";
import { RELEASE_STAGES } from "../keyless";
import type { Project } from "../project";
import { type Reach, reachOf, refuseBelowAll, reportedStoreBuilds } from "../reach";
import { otherServer, platformOf, resolve, type Settings } from "../settings";
import { counted, sizeText } from "../terminal";
import { type Uploaded, uploadBundle } from "../upload";
import { type KnownVersions, nextVersion } from "../version-choice";

/**
 * Other runs may take the next version at the same time. Each try leaves out twice as many
 * versions.
 */
const MOST_VERSION_TRIES = 12;

export const release: Command = {
	name: "release",
	usage: "release [folder]",
	summary: "Upload a build folder and make it live on a channel. Unchanged files are not uploaded again.",
	mostWords: 1,
	options: {
		channel: { type: "string", short: "c", value: "name", help: "Channel; default: the app's upload channel" },
		bundle: { type: "string", short: "b", value: "version", help: "Version; default: the next patch" },
		rollout: { type: "string", value: "percent", help: "Offer it to a share of the devices first" },
		"keep-rollout": { type: "boolean", help: "Keep a running rollout of another bundle" },
		"create-channel": { type: "boolean", help: "Create the channel if it does not exist" },
		...CONTENT_OPTIONS,
		comment: { type: "string", value: "text", help: "Comment; default: the commit, with branch and author" },
		link: { type: "string", value: "url", help: "Link; default: to the commit" },
		"min-update-version": { type: "string", value: "version", help: "Oldest store build that may get it" },
		wait: { type: "boolean", help: "Wait until a protected channel's promotion is approved" },
		timeout: { type: "string", value: "time", help: "Longest wait, e.g. 30m (default 1h)" },
	},
	examples: ["capstan release", "capstan release dist --channel beta --rollout 10", "capstan release --wait --json"],
	async run(run) {
		const startedMs = Date.now();
		const rollout = numberOf(run.options, "rollout", 0.01, 100);
		refuseKeptRollout(run.options, rollout);
		const timeoutMs = durationOf(run.options, "timeout", "1h");
		versionOf(run.options, "bundle");
		const settings = await resolve(run, RELEASE_STAGES, platformOf(run));
		const { server, project, appId } = settings;
		if (text(run.options, "bundle") === undefined) refuseUnreadable(project);
		const elsewhere = otherServer(project, server.origin);
		if (elsewhere !== undefined) {
			const app = project.config?.path ?? "the app";
			run.terminal.note(
				`${app} names ${elsewhere}, so devices with that configuration get no release of ${server.origin}.`,
			);
		}
		const build = await buildOf(run, project);
		run.terminal.progress(`Asking ${server.origin}`);
		const app = await server.api("GET /app/:app_id", { params: { app_id: appId } });
		const target = await targetOf(run, settings, app);
		if (rollout !== undefined) refuseSecondRollout(target.channel);
		const content = await contentOf(run, project, build, target.channel?.updatePackage ?? "all");
		const [builds, commit] = await Promise.all([reportedStoreBuilds(settings), commitOf(run)]);
		const { version, uploaded } = await bundleOf(run, settings, app, target, content, builds ?? [], commit);
		run.terminal.progress(`Releasing ${version} to ${target.name}`);
		const { waiting, rolloutEnded } = await changeChannel(server, {
			app_id: appId,
			channel: target.name,
			...(target.isFirst ? { public: true } : {}),
			...servedFields(version, { rollout, keepsRollout: run.options["keep-rollout"] === true }),
		});
		if (waiting !== undefined && run.options.wait === true) {
			run.terminal.note(waiting.message, `  ${waiting.url}`);
			await approved(server, appId, waiting, timeoutMs);
		}
		const isWaiting = waiting !== undefined && run.options.wait !== true;
		const reach = isWaiting ? undefined : await reachOf(settings, target.name, version, builds);
		const asked = { appId, channel: target.name, version, before: servedBefore(target.channel) };
		const delivery = isWaiting ? undefined : await deliveryOf(server, asked);
		const done = { ...content, app, target, version, uploaded, rollout, isWaiting, waiting, rolloutEnded, reach };
		return report(run, { ...done, delivery, commit, startedMs });
	},
};

/**
 * A version below the store builds would reach no device, so a store version that is unknown is not
 * guessed.
 */
function refuseUnreadable({ storeVersions: { unreadable } }: Project): void {
	if (unreadable.length === 0) return;
	const places = unreadable.map(({ file, line }) =>
		line === undefined ? `${file} (names no version)` : `${file}, line ${line}`,
	);
	throw usage(
		"unreadable_store_version",
		`The version of the store build cannot be read: ${places.join("; ")}. Devices refuse a bundle that is older than their store build, so name its version: capstan release --bundle X, where X is above the store build.`,
		{ field: "bundle", unreadable },
	);
}

interface Target {
	readonly name: string;
	/** Undefined if the release creates it. */
	readonly channel: Channel | undefined;
	/** The app has no channel, so this one serves every device. */
	readonly isFirst: boolean;
}

async function targetOf(run: Run, { server }: Settings, app: App): Promise<Target> {
	const name = text(run.options, "channel");
	if (name !== undefined) {
		const channel = await channelNamed(server, app.app_id, name);
		if (channel !== undefined || run.options["create-channel"] === true) return { name, channel, isFirst: false };
	}
	const channels = await channelsOf(server, app.app_id);
	if (channels.length === 0 && (name === undefined || name === FIRST_CHANNEL)) {
		return { name: FIRST_CHANNEL, channel: undefined, isFirst: true };
	}
	const channel = name === undefined ? await defaultChannel(server, app, channels) : undefined;
	if (channel === undefined) {
		const failure = unknownChannel(
			name,
			channels.map((each) => each.name),
		);
		if (name !== undefined) failure.message += " Create it with --create-channel.";
		throw failure;
	}
	return { name: channel.name, channel, isFirst: false };
}

/**
 * Always a new bundle, also if one claims to have this content: anyone who may upload, such as the
 * job of a pull request, sets that claim, and the server does not check it for single files. Files
 * that the server has are not uploaded again.
 */
async function bundleOf(
	run: Run,
	settings: Settings,
	app: App,
	target: Target,
	content: Content,
	builds: readonly string[],
	commit: Commit | undefined,
): Promise<{ readonly version: string; readonly uploaded: Uploaded }> {
	const { server } = settings;
	const named = text(run.options, "bundle");
	const known = await knownVersions(settings, app, target);
	if (named === undefined) refuseBelowAll(nextVersion(known), builds, target.channel);
	for (let tried = 0; ; tried++) {
		const version = named ?? nextVersion(known, 2 ** tried - 1);
		try {
			const progress = (line: string) => run.terminal.progress(line);
			const fields = fieldsOf(run, commit);
			return { version, uploaded: await uploadBundle({ server, app, version, ...content, fields, progress }) };
		} catch (error) {
			const isTaken = error instanceof CapstanError && TAKEN.includes(error.code);
			if (!isTaken || named !== undefined || tried >= MOST_VERSION_TRIES) throw error;
		}
	}
}

/** Another bundle has the version, or had it when devices got it. */
const TAKEN = ["bundle_already_exists", "version_was_used"];

async function knownVersions({ server, project }: Settings, app: App, target: Target): Promise<KnownVersions> {
	const query = { app_id: app.app_id };
	const [channels, past, bundles] = await Promise.all([
		channelsOf(server, app.app_id),
		target.channel === undefined
			? []
			: server.api("GET /channel/history", { query: { ...query, channel: target.name } }),
		server.api("GET /bundle", { query }),
	]);
	// A preview key creates private channels only, and never changes those of others.
	const live = channels.filter((channel) => channel.public || channel.name === target.name);
	return {
		current: [
			project.packageVersion,
			...project.storeVersions.versions.map(withoutSuffix),
			...live.flatMap(({ version, rollout_version_info }) => [version?.name, rollout_version_info?.name]),
		].filter((version) => version !== undefined),
		past: past.map(({ version }) => version).filter((version) => version !== null),
		taken: bundles.map(({ name }) => name),
	};
}

/** A store build 3.2.0-beta moves the release as 3.2.0 does. */
function withoutSuffix(text: string): string | undefined {
	const version = readVersion(text);
	return version === null ? undefined : `${version.major}.${version.minor}.${version.patch}`;
}

function fieldsOf(run: Run, commit: Commit | undefined) {
	const comment = text(run.options, "comment") ?? (commit === undefined ? undefined : commentOf(commit));
	const link = text(run.options, "link") ?? commit?.url;
	const least = text(run.options, "min-update-version");
	return {
		...(comment === undefined ? {} : { comment }),
		...(link === undefined ? {} : { link }),
		...(least === undefined ? {} : { min_update_version: least }),
	};
}

interface Released extends Content {
	readonly app: App;
	readonly target: Target;
	readonly version: string;
	readonly uploaded: Uploaded;
	readonly rollout: number | undefined;
	readonly isWaiting: boolean;
	readonly waiting: Waiting | undefined;
	readonly rolloutEnded: RolloutEnded | undefined;
	/** Undefined before the approval. */
	readonly reach: Reach | undefined;
	readonly delivery: Delivery | undefined;
	readonly commit: Commit | undefined;
	readonly startedMs: number;
}

function report(run: Run, released: Released): ExitCode {
	const { app, target, version, build, form, uploaded, rollout, isWaiting, waiting, encryption } = released;
	const { rolloutEnded, reach, delivery, commit, startedMs } = released;
	const { terminal } = run;
	const sent = uploaded.uploadedBytes;
	terminal.result("release", {
		status: isWaiting ? "waiting_for_approval" : "live",
		app_id: app.app_id,
		channel: target.name,
		version,
		package: form,
		encrypted: encryption !== undefined,
		files: build.files.length,
		size_bytes: build.sizeBytes,
		uploaded_files: uploaded.uploadedFiles,
		uploaded_bytes: sent,
		left_out: build.leftOut,
		duration_ms: Date.now() - startedMs,
		...(commit === undefined
			? {}
			: { commit: { hash: commit.commit, branch: commit.branch ?? null, author: commit.author ?? null } }),
		...(delivery === undefined ? {} : deliveryFields(delivery)),
		...(rolloutEnded === undefined ? {} : { rollout_ended: rolloutEnded }),
		...(reach === undefined ? {} : { problems: reach.problems, warnings: reach.remarks }),
		...(rollout === undefined ? {} : { rollout_percentage: rollout }),
		...(waiting === undefined ? {} : { proposal: { ...proposalOf(waiting), approved: !isWaiting } }),
	});
	terminal.line(
		`${counted(build.files.length, "file")}, ${sizeText(build.sizeBytes)}; ${sizeText(sent)} uploaded${encryption === undefined ? "" : ", encrypted"}`,
	);
	if (isWaiting && waiting !== undefined) return endWaiting({ terminal }, waiting);
	const share = rollout === undefined ? "" : ` for ${rollout} % of its devices`;
	terminal.line(
		`${terminal.style("green", "Live")} ${app.app_id} ${terminal.style("bold", version)} on ${target.name}${share}`,
		...endedLines(rolloutEnded),
	);
	if (target.isFirst) terminal.line(`The channel ${target.name} is new and public.`);
	const code = showOutcome(terminal, { reach, delivery, version, before: servedBefore(target.channel), rollout });
	terminal.line(`Done in ${((Date.now() - startedMs) / 1000).toFixed(1)} s.`);
	return code;
}
