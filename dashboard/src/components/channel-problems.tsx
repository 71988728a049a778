/** Settings of a channel that keep every device from its bundle: the problem in one sentence, and a button for each change that solves it. */
import { Button } from "@mantine/core";
import { useChange } from "../api";
import { Problem } from "./answer";
import { Note } from "./card";
import { type Channel, platformsOf } from "./channel-badges";
import { notify } from "./notify";
import { screenWords } from "./screen-words";

type ProblemOf = Channel["misconfigured"][number];
type Settings = Partial<
	Pick<Channel, "ios" | "android" | "electron" | "allow_device" | "allow_emulator" | "allow_prod" | "allow_dev"> & {
		disableAutoUpdate: Channel["disableAutoUpdate"];
	}
>;

interface Remedy {
	readonly action: string;
	readonly settings: Settings;
}

interface Shown {
	readonly title: string;
	readonly text: string;
	readonly remedies: readonly Remedy[];
}

const bundlesOf = ({ version, rollout_version_info }: Channel) =>
	[version, rollout_version_info].flatMap((bundle) => (bundle === null ? [] : [bundle.name])).join(" and ");

function shownProblem(channel: Channel, { code, message }: ProblemOf): Shown {
	const effect = `No device gets ${bundlesOf(channel)} until this changes.`;
	switch (code) {
		case "no_platform":
			return {
				title: "No platform is on",
				text: effect,
				remedies: [
					{ action: "Turn on iOS", settings: { ios: true } },
					{ action: "Turn on Android", settings: { android: true } },
					{ action: "Turn on Electron", settings: { electron: true } },
				],
			};
		case "no_device_kind":
			return {
				title: "Physical devices and emulators are off",
				text: effect,
				remedies: [
					{ action: "Turn on physical devices", settings: { allow_device: true } },
					{ action: "Turn on emulators", settings: { allow_emulator: true } },
				],
			};
		case "no_build_kind":
			return {
				title: "Production builds and development builds are off",
				text: effect,
				remedies: [
					{ action: "Turn on production builds", settings: { allow_prod: true } },
					{ action: "Turn on development builds", settings: { allow_dev: true } },
				],
			};
		case "no_min_update_version":
			return {
				title: "The bundle has no minimum store version",
				text: `This channel offers a bundle by its minimum store version, and ${bundlesOf(channel)} has none. Upload it with one, or allow updates otherwise.`,
				remedies: [{ action: "Allow all but major updates", settings: { disableAutoUpdate: "major" } }],
			};
		case "no_store_build":
			return {
				title: `No store build on ${platformsOf(channel)} takes the bundle`,
				text: screenWords(message),
				remedies: /set disableAutoUpdate to none/i.test(message)
					? [{ action: "Allow all updates", settings: { disableAutoUpdate: "none" } }]
					: [],
			};
		case "name_without_preview_form":
			return { title: "Devices do not reach this preview by its name", text: screenWords(message), remedies: [] };
		case "named_by_many_devices":
			return { title: "Too many devices send the name of this preview", text: screenWords(message), remedies: [] };
	}
}

/** For lists. */
export function ChannelProblemTitles({ channel }: { readonly channel: Channel }) {
	return channel.misconfigured.map((problem) => (
		<div key={problem.code} className="t-bad small">
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
		const { title, text, remedies } = shownProblem(channel, problem);
		return (
			<Note key={problem.code} tone="bad" title={title} isAlert>
				<span>{text}</span>
				{maySet && remedies.length > 0 ? (
					<div className="row wrap">
						{remedies.map(({ action, settings }) => (
							<Button
								key={action}
								size="xs"
								variant="default"
								loading={change.isPending}
								onClick={() => change.mutate({ body: { app_id: appId, channel: channel.name, ...settings } })}
							>
								{action}
							</Button>
						))}
					</div>
				) : null}
				{change.isError ? <Problem error={change.error} /> : null}
			</Note>
		);
	});
}
