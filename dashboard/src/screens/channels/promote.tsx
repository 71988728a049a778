/**
 * Promotes a bundle to a channel, for every device or as a staged rollout. Shows first how many
 * devices will change version, which devices the bundle cannot reach, and the effect on a running
 * rollout.
 */

import { Alert, Checkbox, NativeSelect, NumberInput, Radio, Stack, Text } from "@mantine/core";
import { useState } from "react";
import { CapstanError, useAsk, useChange } from "../../api";
import { useChangePreview } from "../../components/change-preview";
import type { Channel } from "../../components/channel-badges";
import { formErrors } from "../../components/field-errors";
import { FormDialog } from "../../components/form-dialog";
import { notifyChannelChange } from "../../components/notify";
import { proposedWay, useChannelDevices } from "../../components/release-plan";
import { countOf, countText } from "../../components/size";
import { VersionInput } from "../../components/version-input";
import { rolloutEffect, type Way } from "../rollouts/rollout-texts";

const STEPS = [1, 5, 25, 100];
const LIMITS_BPS = [100, 200, 500, 1000];
/** A rollout may start, end or be paused while the dialog is open. */
const LOOK_AGAIN_MS = 5_000;

const BUNDLE_ERRORS = [
	"version",
	"rolloutVersion",
	"bundle_not_found",
	"bundle_not_ready",
	"bundle_from_preview",
	"bundle_not_signed",
];

export function Promote({
	appId,
	channel: given,
	version: chosen,
	maySet,
	seesApp = true,
	onClose,
}: {
	readonly appId: string;
	readonly channel: Channel;
	/** Bundle that is filled in. */
	readonly version?: string | undefined;
	/** Whether the user may change the channel's settings, such as rollout steps. */
	readonly maySet: boolean;
	/** False for a role on the channel only: no bundles are suggested and no devices are counted. */
	readonly seesApp?: boolean;
	readonly onClose: () => void;
}) {
	const channel = useCurrent(appId, given);
	const [version, setVersion] = useState(chosen ?? "");
	const [chosenWay, setWay] = useState<Way | undefined>();
	// A role on the channel only may not count its devices.
	const devices = useChannelDevices(appId, seesApp ? channel : undefined);
	const way = chosenWay ?? usualWay(devices, maySet || channel.rolloutSteps !== null);
	const [share, setShare] = useState<number | string>(5);
	const [limit, setLimit] = useState(String(given.autoPauseFailureRateBps));
	const [allowsPreview, setAllowsPreview] = useState(false);
	const [skipsPackages, setSkipsPackages] = useState(false);
	const [countsNew, setCountsNew] = useState(given.rolloutCountNewDevices);
	const change = useChange("POST /channel", (answer) => {
		notifyChannelChange(
			answer,
			way === "all" ? `${version} is now live on ${channel.name}.` : `Rollout of ${version} started.`,
		);
		onClose();
	});

	const errors = formErrors(change.error, [...BUNDLE_ERRORS, "rolloutPercentage", "autoPauseFailureRateBps"]);
	const isRefusedPreview = change.error instanceof CapstanError && change.error.code === "bundle_from_preview";
	const rollout = channel.rollout_version_info?.name;
	const steps = channel.rolloutSteps ?? STEPS;
	const settings = maySet && way !== "all" ? settingsOf(way, steps, Number(limit), countsNew) : {};
	const planned =
		way === "all"
			? { version }
			: {
					rolloutVersion: version,
					rolloutEnabled: true,
					...(way === "share" ? { rolloutPercentage: Number(share) } : {}),
					...settings,
				};
	const body = {
		app_id: appId,
		channel: channel.name,
		...planned,
		...(skipsPackages ? { requireCompatibleBundle: false } : {}),
	};
	const isComplete = version !== "" && (way !== "share" || share !== "");
	const preview = useChangePreview(isComplete && seesApp ? body : null, channel.public);
	const fate = isComplete ? rolloutEffect(channel, { version, way, percentage: Number(share) }) : undefined;
	return (
		<FormDialog
			title={`Promote bundle to ${channel.name}`}
			action={channel.requires_approval ? "Propose promotion" : way === "all" ? "Promote bundle" : "Start rollout"}
			isPending={change.isPending}
			isReady={isComplete && (preview.isReady || !seesApp)}
			error={errors.rest}
			onSubmit={() => change.mutate({ body: { ...body, ...(allowsPreview ? { allow_preview_bundle: true } : {}) } })}
			onClose={onClose}
		>
			<VersionInput
				appId={appId}
				label="Bundle"
				{...(seesApp ? {} : { description: "The version of an uploaded bundle." })}
				suggests={seesApp}
				error={errors.at(...BUNDLE_ERRORS)}
				value={version}
				onChange={setVersion}
			/>
			<Radio.Group label="Devices" value={way} onChange={(value) => setWay(value as Way)}>
				<Stack gap="xs" mt="xs">
					<Radio value="all" label="All devices of the channel, immediately" />
					<Radio value="share" label="A share of the devices, which you increase" />
					{maySet || channel.rolloutSteps !== null ? (
						<Radio
							value="steps"
							label={`Automatic steps of ${stepsText(steps)}`}
							description="Capstan increases the share automatically, and stops if too many devices fail."
						/>
					) : null}
				</Stack>
			</Radio.Group>
			{way === "share" ? (
				<NumberInput
					label="Share of devices, in %"
					error={errors.at("rolloutPercentage")}
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
					label="Stop at this failure rate"
					error={errors.at("autoPauseFailureRateBps")}
					value={limit}
					onChange={(event) => setLimit(event.currentTarget.value)}
					data={[...new Set([...LIMITS_BPS, given.autoPauseFailureRateBps])]
						.sort((left, right) => left - right)
						.map((bps) => ({ value: String(bps), label: `${bps / 100} %` }))}
				/>
			) : null}
			{way !== "all" ? (
				<NewDevices
					isCounted={countsNew}
					young={preview.plan?.first_seen_today ?? 0}
					all={preview.plan?.channel_devices ?? 0}
					onChange={maySet ? setCountsNew : undefined}
				/>
			) : null}
			{version !== "" && version === channel.version?.name ? (
				<Text size="sm">
					{version} is already live on {channel.name}.
				</Text>
			) : null}
			{fate === undefined ? null : (
				<Alert color="orange" title={`${channel.name} has a rollout of ${rollout}`}>
					<Text size="sm">{fate}</Text>
				</Alert>
			)}
			{isRefusedPreview || allowsPreview ? (
				<Checkbox
					label="I checked this bundle of a preview; promote it"
					checked={allowsPreview}
					onChange={(event) => setAllowsPreview(event.currentTarget.checked)}
				/>
			) : null}
			{preview.view}
			{maySet && !channel.requires_approval && (skipsPackages || preview.refusal === "bundle_incompatible") ? (
				<Checkbox
					label="Release it anyway, and turn this rule of the channel off"
					description="Devices whose store build lacks a package fail where the bundle calls it. Turn the rule on again in the settings of the channel."
					checked={skipsPackages}
					onChange={(event) => setSkipsPackages(event.currentTarget.checked)}
				/>
			) : null}
		</FormDialog>
	);
}

/**
 * In steps, or to a share without the right to set steps, until few devices are known to be on the
 * channel.
 */
function usualWay(devices: number | undefined, maySteps: boolean): Way {
	if (devices !== undefined && proposedWay(devices) === "all") return "all";
	return maySteps ? "steps" : "share";
}

/** The current channel, so that the dialog stays correct while its rollout changes. */
function useCurrent(appId: string, given: Channel): Channel {
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

/**
 * In an app's first days most devices are new, and a rollout that excludes them never gets enough
 * reports.
 */
function NewDevices({
	isCounted,
	young,
	all,
	onChange,
}: {
	readonly isCounted: boolean;
	readonly young: number;
	readonly all: number;
	/** Undefined if the user may not change it. */
	readonly onChange: ((isCounted: boolean) => void) | undefined;
}) {
	const noticed =
		young === 0
			? ""
			: `${countText(young)} of ${countOf(all, "device")} of this channel ${young === 1 ? "was" : "were"} first seen today. `;
	if (onChange === undefined) {
		return noticed === "" || isCounted ? null : (
			<Text size="sm">{noticed}They get the bundle but do not count towards rollout health.</Text>
		);
	}
	return (
		<Checkbox
			label="Count new devices towards rollout health"
			description={`${noticed}Devices that are newer than the rollout always get the bundle, but count only if this is on, because anyone can invent device ids. Turn it on if your app is new.`}
			checked={isCounted}
			onChange={(event) => onChange(event.currentTarget.checked)}
		/>
	);
}
