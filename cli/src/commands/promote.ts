/**
 * `capstan promote` and `capstan rollback`: which of the uploaded bundles a channel serves.
 */
import {
	approved,
	changeChannel,
	endedLines,
	endWaiting,
	existingChannel,
	proposalOf,
	refuseKeptRollout,
	refuseSecondRollout,
	servedBefore,
	servedFields,
} from "../channels";
import { type Command, durationOf, numberOf, text } from "../command";
import { deliveryFields, deliveryOf, showOutcome } from "../delivery";
import { EXIT, usage } from "../failure";
import { RELEASE_STAGES } from "../keyless";
import { reachOf, reportedStoreBuilds } from "../reach";
import { resolve } from "../settings";

export const promote: Command = {
	name: "promote",
	usage: "promote <version>",
	summary: "Make an uploaded bundle live on a channel, for every device or for a share.",
	mostWords: 1,
	options: {
		channel: { type: "string", short: "c", value: "name", help: "Channel; default: the app's upload channel" },
		rollout: { type: "string", value: "percent", help: "Offer it to a share of the devices first" },
		"keep-rollout": { type: "boolean", help: "Keep a running rollout of another bundle" },
		"allow-preview": { type: "boolean", help: "Also a bundle that a preview key uploaded under a release's version" },
		wait: { type: "boolean", help: "Wait until a protected channel's promotion is approved" },
		timeout: { type: "string", value: "time", help: "Longest wait, e.g. 30m (default 1h)" },
	},
	examples: ["capstan promote 1.4.0 --channel production", "capstan promote 1.4.0 --rollout 5"],
	async run(run) {
		const [version] = run.words;
		if (version === undefined)
			throw usage("missing_version", "Name the version: capstan promote 1.4.0. capstan status lists what is live.");
		const rollout = numberOf(run.options, "rollout", 0.01, 100);
		refuseKeptRollout(run.options, rollout);
		const timeoutMs = durationOf(run.options, "timeout", "1h");
		const settings = await resolve(run, RELEASE_STAGES);
		const { server, appId } = settings;
		const app = await server.api("GET /app/:app_id", { params: { app_id: appId } });
		const channel = await existingChannel(server, app, text(run.options, "channel"));
		if (rollout !== undefined) refuseSecondRollout(channel);
		const builds = await reportedStoreBuilds(settings);
		const { waiting, rolloutEnded } = await changeChannel(server, {
			app_id: appId,
			channel: channel.name,
			...servedFields(version, { rollout, keepsRollout: run.options["keep-rollout"] === true }),
			...(run.options["allow-preview"] === true ? { allow_preview_bundle: true } : {}),
		});
		const waits = run.options.wait === true;
		if (waiting !== undefined && waits) {
			run.terminal.note(waiting.message, `  ${waiting.url}`);
			await approved(server, appId, waiting, timeoutMs);
		}
		const isWaiting = waiting !== undefined && !waits;
		const reach = isWaiting ? undefined : await reachOf(settings, channel.name, version, builds);
		const asked = { appId, channel: channel.name, version, before: servedBefore(channel) };
		const delivery = isWaiting ? undefined : await deliveryOf(server, asked);
		run.terminal.result("promote", {
			status: isWaiting ? "waiting_for_approval" : "live",
			app_id: appId,
			channel: channel.name,
			version,
			...(rollout === undefined ? {} : { rollout_percentage: rollout }),
			...(rolloutEnded === undefined ? {} : { rollout_ended: rolloutEnded }),
			...(reach === undefined ? {} : { problems: reach.problems, warnings: reach.remarks }),
			...(delivery === undefined ? {} : deliveryFields(delivery)),
			...(waiting === undefined ? {} : { proposal: proposalOf(waiting) }),
		});
		if (isWaiting) return endWaiting(run, waiting);
		const share = rollout === undefined ? "" : ` for ${rollout} % of its devices`;
		run.terminal.line(
			`${run.terminal.style("green", "Live")} ${appId} ${version} on ${channel.name}${share}`,
			...endedLines(rolloutEnded),
		);
		return showOutcome(run.terminal, { reach, delivery, version, before: asked.before, rollout });
	},
};

export const rollback: Command = {
	name: "rollback",
	usage: "rollback [version]",
	summary: "End the rollout of a channel; without one, return it to the bundle before, or to a named one.",
	mostWords: 1,
	options: {
		channel: { type: "string", short: "c", value: "name", help: "Channel; default: the app's upload channel" },
		reason: { type: "string", value: "text", help: "Reason, for the channel's history" },
		"dry-run": { type: "boolean", help: "Show what would change, and change nothing" },
	},
	examples: ["capstan rollback", "capstan rollback 1.3.0 --channel production --reason 'white screen'"],
	async run(run) {
		const { server, appId } = await resolve(run, RELEASE_STAGES);
		const app = await server.api("GET /app/:app_id", { params: { app_id: appId } });
		const channel = await existingChannel(server, app, text(run.options, "channel"));
		const [version] = run.words;
		const reason = text(run.options, "reason");
		const named = { app_id: appId, channel: channel.name, ...(reason === undefined ? {} : { reason }) };
		const plan = await server.api("POST /channel/rollback", {
			body: { ...named, ...(version === undefined ? {} : { version }), dry_run: true },
		});
		const isDryRun = run.options["dry-run"] === true;
		// Names the bundle, so that a repeated request does not go back another step.
		const done = isDryRun
			? plan
			: await server.api("POST /channel/rollback", { body: { ...named, version: plan.version ?? "builtin" } });
		const ended = plan.rollout_ended;
		run.terminal.result("rollback", {
			status: isDryRun ? "planned" : "live",
			app_id: appId,
			channel: channel.name,
			version: done.version,
			previous_version: plan.previous_version,
			changed: plan.changed,
			rollout_ended: plan.rollout_ended,
			...("devices_changed" in plan ? { devices: plan.devices, devices_changed: plan.devices_changed } : {}),
		});
		const to = plan.version ?? "the store build";
		const devices =
			"devices_changed" in plan && plan.devices_changed !== null
				? ` (${plan.devices_changed} of ${plan.devices} devices change version)`
				: "";
		const from = plan.previous_version ?? "the store build";
		if (!plan.changed) run.terminal.line(`${channel.name} is at ${to} already; nothing changed.`);
		else if (ended !== null && plan.version === plan.previous_version) {
			const rollout = `the rollout of ${ended.version} (${ended.percentage_bps / 100} %)`;
			run.terminal.line(
				isDryRun
					? `Would end ${rollout} on ${channel.name}; its devices return to ${to}${devices}.`
					: `${run.terminal.style("green", "Ended")} ${rollout} on ${channel.name}; its devices return to ${to}${devices}`,
			);
		} else if (isDryRun) run.terminal.line(`Would roll back ${channel.name} from ${from} to ${to}${devices}.`);
		else
			run.terminal.line(
				`${run.terminal.style("green", "Rolled back")} ${channel.name} from ${from} to ${to}${devices}`,
			);
		return EXIT.ok;
	},
};
