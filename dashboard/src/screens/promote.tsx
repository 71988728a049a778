/**
 * Points a channel to a bundle: for every device at once, or for a growing share of them. Shows first how many devices will change version,
 * which ones the bundle cannot reach, and what becomes of a rollout that runs.
 */
import { Alert, Checkbox, NativeSelect, NumberInput, Radio, Stack, Text } from "@mantine/core";
import { useState } from "react";
import { useAsk, useChange } from "../api";
import { useChangePreview } from "../parts/change-preview";
import { sayChanged } from "../parts/channel-answer";
import type { Channel } from "../parts/channel-badges";
import { FormDialog } from "../parts/form";
import { countOf, countText } from "../parts/size";
import { VersionInput } from "../parts/version-input";
import { fateOfRollout, type Way } from "../rollout-texts";

const STEPS = [1, 5, 25, 100];
const LIMITS_BPS = [100, 200, 500, 1000];
/** A rollout may start, end or be paused while the dialog is open. */
const LOOK_AGAIN_MS = 5_000;

export function Promote({
	appId,
	channel: given,
	version: chosen,
	maySet,
	onClose,
}: {
	readonly appId: string;
	readonly channel: Channel;
	/** Chosen already, to go back to it. */
	readonly version?: string | undefined;
	/** Whether the reader may change the channel's settings, such as the steps of a rollout. */
	readonly maySet: boolean;
	readonly onClose: () => void;
}) {
	const channel = useNewest(appId, given);
	const [version, setVersion] = useState(chosen ?? "");
	const [way, setWay] = useState<Way>("everybody");
	const [share, setShare] = useState<number | string>(5);
	const [limit, setLimit] = useState(String(given.autoPauseFailureRateBps));
	const [alsoEnds, setAlsoEnds] = useState(false);
	const [countsNew, setCountsNew] = useState(given.rolloutCountNewDevices);
	const change = useChange("POST /channel", (answer) => {
		sayChanged(
			answer,
			way === "everybody" ? `${version} is live on ${channel.name}.` : `The rollout of ${version} has started.`,
		);
		onClose();
	});

	const rollout = channel.rollout_version_info?.name;
	const mayEnd = way === "everybody" && rollout !== undefined && version !== "" && version !== rollout;
	const endsRollout = mayEnd && alsoEnds;
	const steps = channel.rolloutSteps ?? STEPS;
	const settings = maySet && way !== "everybody" ? settingsOf(way, steps, Number(limit), countsNew) : {};
	const planned =
		way === "everybody"
			? { version, ...(endsRollout ? { rollback: true } : {}) }
			: {
					rolloutVersion: version,
					rolloutEnabled: true,
					...(way === "share" ? { rolloutPercentage: Number(share) } : {}),
					...settings,
				};
	const body = { app_id: appId, channel: channel.name, ...planned };
	const isComplete = version !== "" && (way !== "share" || share !== "");
	const preview = useChangePreview(isComplete ? body : null, channel.public);
	const fate = isComplete
		? fateOfRollout(channel, { version, way, percentage: Number(share), endsRollout })
		: undefined;
	return (
		<FormDialog
			title={`Promote a bundle to ${channel.name}`}
			action={channel.requires_approval ? "Propose" : way === "everybody" ? "Promote" : "Start the rollout"}
			isPending={change.isPending}
			isReady={isComplete && preview.isReady}
			error={change.error}
			onSubmit={() => change.mutate({ body })}
			onClose={onClose}
		>
			<VersionInput appId={appId} label="Bundle" value={version} onChange={setVersion} />
			<Radio.Group label="Which devices get it" value={way} onChange={(value) => setWay(value as Way)}>
				<Stack gap="xs" mt="xs">
					<Radio value="everybody" label="Every device of the channel at once" />
					<Radio value="share" label="A share of the devices, which you raise" />
					{maySet || channel.rolloutSteps !== null ? (
						<Radio
							value="steps"
							label={`In steps of ${stepsText(steps)}, while failures stay rare`}
							description="Capstan raises the share by itself, and stops when too many devices fail."
						/>
					) : null}
				</Stack>
			</Radio.Group>
			{way === "share" ? (
				<NumberInput
					label="Share of the devices, in %"
					required
					min={0}
					max={100}
					decimalScale={2}
					value={share}
					onChange={setShare}
				/>
			) : null}
			{way === "steps" && maySet ? (
				<NativeSelect
					label="Stop when so many devices fail"
					value={limit}
					onChange={(event) => setLimit(event.currentTarget.value)}
					data={[...new Set([...LIMITS_BPS, given.autoPauseFailureRateBps])]
						.sort((left, right) => left - right)
						.map((bps) => ({ value: String(bps), label: `${bps / 100} %` }))}
				/>
			) : null}
			{way !== "everybody" ? (
				<NewDevices
					isCounted={countsNew}
					young={preview.plan?.first_seen_today ?? 0}
					all={preview.plan?.channel_devices ?? 0}
					onChange={maySet ? setCountsNew : undefined}
				/>
			) : null}
			{version !== "" && version === channel.version?.name ? (
				<Text size="sm">
					{version} is the live bundle of {channel.name} already.
				</Text>
			) : null}
			{fate === undefined ? null : (
				<Alert color="orange" title={`A rollout of ${rollout} is on ${channel.name}`}>
					<Stack gap="xs">
						<Text size="sm">{fate}</Text>
						{mayEnd ? (
							<Checkbox
								label={`End the rollout of ${rollout} as well`}
								checked={alsoEnds}
								onChange={(event) => setAlsoEnds(event.currentTarget.checked)}
							/>
						) : null}
					</Stack>
				</Alert>
			)}
			{preview.view}
		</FormDialog>
	);
}

/** The channel as it is now: what the dialog says of its rollout must stay true while it is open. */
function useNewest(appId: string, given: Channel): Channel {
	const query = { app_id: appId, channel: given.name };
	const { data } = useAsk("GET /channel", { query }, { everyMs: LOOK_AGAIN_MS });
	return data === undefined || Array.isArray(data) ? given : (data as Channel);
}

function settingsOf(way: Way, steps: readonly number[], limitBps: number, countsNew: boolean) {
	return {
		rolloutCountNewDevices: countsNew,
		...(way === "share" ? { rolloutSteps: null } : { rolloutSteps: [...steps], autoPauseFailureRateBps: limitBps }),
	};
}

function stepsText(steps: readonly number[]): string {
	const [last, ...rest] = [...steps].reverse();
	return rest.length === 0 ? `${last} %` : `${rest.reverse().join(", ")} and ${last} %`;
}

/** On an app's first days most devices are new, and a rollout that does not count them never gets a report. */
function NewDevices({
	isCounted,
	young,
	all,
	onChange,
}: {
	readonly isCounted: boolean;
	readonly young: number;
	readonly all: number;
	/** Undefined where the reader may not change it. */
	readonly onChange: ((isCounted: boolean) => void) | undefined;
}) {
	const noticed =
		young === 0
			? ""
			: `${countText(young)} of ${countOf(all, "device")} of this channel ${young === 1 ? "was" : "were"} first seen today. `;
	if (onChange === undefined) {
		return noticed === "" || isCounted ? null : (
			<Text size="sm">{noticed}They get the bundle, but do not count towards the health of the rollout.</Text>
		);
	}
	return (
		<Checkbox
			label="Count new devices towards the health of the rollout"
			description={`${noticed}Devices that are newer than the rollout get the bundle, but count only with this on, because device ids can be made up. Turn it on when your app is new.`}
			checked={isCounted}
			onChange={(event) => onChange(event.currentTarget.checked)}
		/>
	);
}
