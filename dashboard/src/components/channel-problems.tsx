/**
 * Settings of a channel that keep every device from its bundle: the problem in one sentence, and a
 * button for each change that solves it.
 */
import { Button } from "@mantine/core";
import { refusalWords } from "../../../src/domain/updates/refusals";
import { useChange } from "../api";
import { Problem } from "./answer";
import { Note } from "./card";
import { type Channel, platformsOf } from "./channel-badges";
import { notify } from "./notify";
import { capital, settingWords } from "./setting-words";

type ProblemOf = Channel["misconfigured"][number];
interface Shown {
	readonly title: string;
	readonly text: string;
}

const bundlesOf = ({ version, rollout_version_info }: Channel) =>
	[version, rollout_version_info].flatMap((bundle) => (bundle === null ? [] : [bundle.name])).join(" and ");

const MOST_NAMED = 3;

function buildsText(builds: readonly string[]): string {
	const others = builds.length - MOST_NAMED;
	return `${builds.slice(0, MOST_NAMED).join(", ")}${others > 0 ? ` and ${others} more` : ""}`;
}

function shownProblem(channel: Channel, problem: ProblemOf): Shown {
	const effect = `No device gets ${bundlesOf(channel)} until this changes.`;
	const reach = "Preview links and overrides of single devices still reach it.";
	switch (problem.code) {
		case "no_platform":
			return { title: "No platform is on", text: effect };
		case "no_device_kind":
			return { title: "Physical devices and emulators are off", text: effect };
		case "no_build_kind":
			return { title: "Production builds and development builds are off", text: effect };
		case "no_min_update_version":
			return {
				title: "The bundle has no minimum store version",
				text: `This channel offers a bundle by its minimum store version, and ${bundlesOf(channel)} has none. Upload it with one, or allow updates otherwise.`,
			};
		case "no_store_build":
			return {
				title: `No store build on ${platformsOf(channel)} takes the bundle`,
				text: `No recent store build (${buildsText(problem.store_builds)}) accepts bundle ${problem.version}: ${refusalWords(problem.refusal ?? "")}. Release a bundle that fits, or ship a store build that does.`,
			};
		case "name_without_preview_form":
			return {
				title: "Devices do not reach this preview by its name",
				text: `The name does not begin with the app's prefix of preview channels, so devices that send it get the public channel. ${reach}`,
			};
		case "named_by_many_devices":
			return {
				title: "Too many devices send the name of this preview",
				text: `More devices than testers send it, so the preview serves no device by its name any more. ${reach} Correct the default channel in the app, or delete the preview and open it again when fewer devices send the name.`,
			};
	}
}

/** For lists. */
export function ChannelProblemTitles({ channel }: { readonly channel: Channel }) {
	return channel.misconfigured.map((problem) => (
		<div key={problem.code} className="t-bad small cut">
			{shownProblem(channel, problem).title}
		</div>
	));
}

export function ChannelProblems({
	appId,
	channel,
	maySet,
}: {
	readonly appId: string;
	readonly channel: Channel;
	readonly maySet: boolean;
}) {
	const change = useChange("POST /channel", () => notify(`Channel ${channel.name} saved.`));
	return channel.misconfigured.map((problem) => {
		const { title, text } = shownProblem(channel, problem);
		return (
			<Note key={problem.code} tone="bad" title={title} isAlert>
				<span>{text}</span>
				{maySet && problem.settings.length > 0 ? (
					<div className="row wrap">
						{problem.settings.map((settings) => (
							<Button
								key={settingWords(settings)}
								size="xs"
								variant="default"
								loading={change.isPending}
								onClick={() => change.mutate({ body: { app_id: appId, channel: channel.name, ...settings } })}
							>
								{capital(settingWords(settings))}
							</Button>
						))}
					</div>
				) : null}
				{change.isError ? <Problem error={change.error} /> : null}
			</Note>
		);
	});
}
