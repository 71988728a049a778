/** The settings that a channel's rollouts follow: which devices count, the steps, and when failures stop them. */
import { NativeSelect, NumberInput, Stack, Switch, Text, TextInput } from "@mantine/core";
import { useState } from "react";
import { useChange } from "../api";
import type { Channel } from "../parts/channel-badges";
import { Facts } from "../parts/facts";
import { FormDialog } from "../parts/form";
import { say } from "../parts/say";
import { countOf } from "../parts/size";

type Settings = Pick<
	Channel,
	| "rolloutCountNewDevices"
	| "rolloutDevicesPerNetwork"
	| "rolloutSteps"
	| "rolloutStepMinutes"
	| "rolloutStepMinDevices"
	| "autoPauseEnabled"
	| "autoPauseFailureRateBps"
	| "autoPauseConfidence"
	| "autoPauseMinAttempts"
	| "autoPauseMinFailures"
	| "autoPauseAction"
	| "autoPauseWindowMinutes"
	| "autoPauseCooldownMinutes"
>;

const ACTIONS = [
	{ value: "pause", label: "Pause the rollout" },
	{ value: "rollback", label: "Roll the bundle back" },
	{ value: "notify", label: "Write it to the audit log, and continue" },
];
const CONFIDENCES = [0.8, 0.9, 0.95, 0.99];

const minutesText = (minutes: number) => countOf(minutes, "minute");
/** Without the noise of binary fractions. */
const percentOf = (share: number) => Number((share * 100).toFixed(2));

export function RolloutSettingsList({ channel }: { readonly channel: Channel }) {
	const stops = channel.autoPauseEnabled || channel.rolloutSteps !== null;
	return (
		<details>
			<Text component="summary" size="sm">
				Settings of rollouts on this channel
			</Text>
			<Facts
				facts={[
					["New devices", channel.rolloutCountNewDevices ? "Count" : "Do not count in rollouts that are older"],
					[
						"Devices per network",
						channel.rolloutDevicesPerNetwork === null
							? "All count"
							: `${channel.rolloutDevicesPerNetwork} of each network count`,
					],
					["Steps", channel.rolloutSteps === null ? "You set the share" : `${channel.rolloutSteps.join(", ")} %`],
					[
						"Each step",
						`At least ${minutesText(channel.rolloutStepMinutes)} and ${countOf(channel.rolloutStepMinDevices, "reporting device")}`,
					],
					[
						"Failures",
						stops
							? `Above ${channel.autoPauseFailureRateBps / 100} %: ${ACTIONS.find(({ value }) => value === channel.autoPauseAction)?.label.toLowerCase()}`
							: "Do not stop a rollout that you step yourself",
					],
				]}
			/>
		</details>
	);
}

export function RolloutSettings({
	appId,
	channel,
	onClose,
}: {
	readonly appId: string;
	readonly channel: Channel;
	readonly onClose: () => void;
}) {
	const [values, setValues] = useState<Settings>(channel);
	const [steps, setSteps] = useState(channel.rolloutSteps?.join(", ") ?? "");
	const set = (changed: Partial<Settings>) => setValues({ ...values, ...changed });
	const change = useChange("POST /channel", () => {
		say("The rollout settings are changed.");
		onClose();
	});
	const wantedSteps = stepsOf(steps);
	const submit = () => {
		const wanted: Settings = { ...values, rolloutSteps: wantedSteps ?? null };
		const changed = Object.entries(pick(wanted)).filter(
			([name, value]) => JSON.stringify(channel[name as keyof Settings]) !== JSON.stringify(value),
		);
		if (changed.length === 0) onClose();
		else change.mutate({ body: { app_id: appId, channel: channel.name, ...Object.fromEntries(changed) } });
	};
	const number = (name: keyof Settings, label: string, limits: { min: number; max: number }, description?: string) => (
		<NumberInput
			label={label}
			description={description}
			required
			allowDecimal={false}
			clampBehavior="strict"
			{...limits}
			value={Number(values[name])}
			onChange={(value) => (value === "" ? undefined : set({ [name]: Number(value) }))}
		/>
	);
	/** Empty means no limit. */
	const optionalNumber = (name: keyof Settings, label: string, max: number, description: string) => (
		<NumberInput
			label={label}
			description={description}
			placeholder="No limit"
			allowDecimal={false}
			clampBehavior="strict"
			min={1}
			max={max}
			value={values[name] === null ? "" : Number(values[name])}
			onChange={(value) => set({ [name]: value === "" ? null : Number(value) })}
		/>
	);
	return (
		<FormDialog
			title={`Rollout settings of ${channel.name}`}
			action="Save"
			isPending={change.isPending}
			isReady={wantedSteps !== undefined}
			error={change.error}
			onSubmit={submit}
			onClose={onClose}
		>
			<fieldset className="group">
				<legend>Devices that count</legend>
				<Stack gap="sm">
					<Switch
						label="Count new devices"
						description="Devices that are newer than the rollout get the bundle, but do not decide whether it continues, because device ids can be made up. Turn this on when your app is new."
						checked={values.rolloutCountNewDevices}
						onChange={(event) => set({ rolloutCountNewDevices: event.currentTarget.checked })}
					/>
					{optionalNumber(
						"rolloutDevicesPerNetwork",
						"Devices that count per network",
						1_000_000,
						"Raise it, or leave it empty, when many of your devices share one address, such as in an office or a warehouse.",
					)}
				</Stack>
			</fieldset>
			<fieldset className="group">
				<legend>Steps</legend>
				<Stack gap="sm">
					<TextInput
						label="Steps, in %"
						description="Growing shares, such as 1, 5, 25, 100. Empty: you set the share yourself."
						value={steps}
						error={
							wantedSteps === undefined ? "Write growing numbers from 0.01 to 100 with commas between them." : undefined
						}
						onChange={(event) => setSteps(event.currentTarget.value)}
					/>
					{number("rolloutStepMinutes", "Minutes that each step lasts at least", { min: 0, max: 43_200 })}
					{number("rolloutStepMinDevices", "Devices that must report in each step", { min: 1, max: 1_000_000 })}
				</Stack>
			</fieldset>
			<fieldset className="group">
				<legend>Failures</legend>
				<Stack gap="sm">
					<Switch
						label="Failures stop a rollout that you step yourself"
						description="A rollout that takes steps by itself always stops on failures."
						checked={values.autoPauseEnabled}
						onChange={(event) => set({ autoPauseEnabled: event.currentTarget.checked })}
					/>
					<NumberInput
						label="Devices that may fail, in %"
						description="The limit. A low limit needs many reports: about 35 devices for 10 %, 73 for 5 %, 189 for 2 % and 381 for 1 %."
						required
						min={0}
						max={100}
						decimalScale={2}
						clampBehavior="strict"
						value={values.autoPauseFailureRateBps / 100}
						onChange={(value) =>
							value === "" ? undefined : set({ autoPauseFailureRateBps: Math.round(Number(value) * 100) })
						}
					/>
					<NativeSelect
						label="When more fail"
						data={ACTIONS}
						value={values.autoPauseAction}
						onChange={(event) => set({ autoPauseAction: event.currentTarget.value as Settings["autoPauseAction"] })}
					/>
					{number(
						"autoPauseMinAttempts",
						"Devices that must report before failures count",
						{ min: 0, max: 1_000_000 },
						"Nothing is stopped on fewer.",
					)}
					{number("autoPauseMinFailures", "Failures before anything is stopped", { min: 0, max: 1_000_000 })}
					<NativeSelect
						label="Confidence"
						description="How sure Capstan must be that the failure rate is above or below the limit."
						data={[...new Set([...CONFIDENCES, channel.autoPauseConfidence])]
							.sort((left, right) => left - right)
							.map((share) => ({ value: String(share), label: `${percentOf(share)} %` }))}
						value={String(values.autoPauseConfidence)}
						onChange={(event) => set({ autoPauseConfidence: Number(event.currentTarget.value) })}
					/>
					{optionalNumber(
						"autoPauseWindowMinutes",
						"Only reports of the last minutes count",
						10_080,
						"Empty: all reports of the rollout count.",
					)}
					{number(
						"autoPauseCooldownMinutes",
						"Minutes without another stop after one",
						{ min: 0, max: 10_080 },
						"Time for you to look before the rollout can be stopped again.",
					)}
				</Stack>
			</fieldset>
		</FormDialog>
	);
}

/** Null: no steps; undefined: the text says no steps that the API takes. */
function stepsOf(text: string): number[] | null | undefined {
	if (text.trim() === "") return null;
	const steps = text.split(/[,;\s]+/).filter((part) => part !== "" && part !== "%");
	const numbers = steps.map((part) => Number(part.replace(/%$/, "")));
	const isGrowing = numbers.every(
		(step, index) =>
			step > (numbers[index - 1] ?? 0) && step <= 100 && Math.abs(step * 100 - Math.round(step * 100)) < 1e-6,
	);
	return isGrowing ? numbers : undefined;
}

function pick(settings: Settings): Settings {
	return {
		rolloutCountNewDevices: settings.rolloutCountNewDevices,
		rolloutDevicesPerNetwork: settings.rolloutDevicesPerNetwork,
		rolloutSteps: settings.rolloutSteps,
		rolloutStepMinutes: settings.rolloutStepMinutes,
		rolloutStepMinDevices: settings.rolloutStepMinDevices,
		autoPauseEnabled: settings.autoPauseEnabled,
		autoPauseFailureRateBps: settings.autoPauseFailureRateBps,
		autoPauseConfidence: settings.autoPauseConfidence,
		autoPauseMinAttempts: settings.autoPauseMinAttempts,
		autoPauseMinFailures: settings.autoPauseMinFailures,
		autoPauseAction: settings.autoPauseAction,
		autoPauseWindowMinutes: settings.autoPauseWindowMinutes,
		autoPauseCooldownMinutes: settings.autoPauseCooldownMinutes,
	};
}
