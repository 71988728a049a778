/**
 * Rollout settings of a channel: devices that count, steps, and the failure rate that stops a
 * rollout.
 */

import { NativeSelect, Stack, Switch, TextInput } from "@mantine/core";
import { useState } from "react";
import { FIELD_LABELS, ROLLOUT_RULE_FIELDS } from "../../../../src/domain/updates/channel-fields";
import { useChange } from "../../api";
import { KeyValues } from "../../components/card";
import type { Channel } from "../../components/channel-badges";
import { formErrors } from "../../components/field-errors";
import { FormDialog } from "../../components/form-dialog";
import { Icon } from "../../components/icon";
import { notify } from "../../components/notify";
import { NumberField } from "../../components/number-field";
import { optionsOf } from "../../components/options";
import { countOf } from "../../components/size";
import { IconChevronRight } from "../../icons";

type Rule = (typeof ROLLOUT_RULE_FIELDS)[keyof typeof ROLLOUT_RULE_FIELDS];
type Settings = Pick<Channel, Rule["field"]>;
/** Rules that are a number within a range. */
type Counted = Extract<Rule, { readonly range: unknown }>["field"];
type Share = "autoPauseFailureRateBps" | "autoPauseCrashRateBps" | "autoPauseErrorRateBps";

const RULES = Object.values(ROLLOUT_RULE_FIELDS);

/** The least and the greatest value, by field. */
const RANGES = Object.fromEntries(
	RULES.flatMap((rule) => ("range" in rule ? [[rule.field, rule.range]] : [])),
) as Readonly<Record<Counted, readonly [number, number]>>;

const ACTIONS = optionsOf(ROLLOUT_RULE_FIELDS.auto_pause_action.names);
const CONFIDENCES = [0.8, 0.9, 0.95, 0.99];

const minutesText = (minutes: number) => countOf(minutes, "minute");
/** Rounds away floating-point noise. */
const percentOf = (share: number) => Number((share * 100).toFixed(2));

const limitText = (bps: number | null) => (bps === null ? "Never stop a rollout" : `Above ${bps / 100} %: the same`);

export function RolloutSettingsList({ channel }: { readonly channel: Channel }) {
	const stops = channel.autoPauseEnabled || channel.rolloutSteps !== null;
	return (
		<details className="fold">
			<summary>
				<Icon of={IconChevronRight} />
				Rollout settings of this channel
			</summary>
			<KeyValues
				items={[
					["New devices", channel.rolloutCountNewDevices ? "Count" : "Do not count"],
					[
						"Devices per network",
						channel.rolloutDevicesPerNetwork === null ? "No limit" : `${channel.rolloutDevicesPerNetwork} count`,
					],
					["Steps", channel.rolloutSteps === null ? "Manual" : `${channel.rolloutSteps.join(", ")} %`],
					[
						"Each step",
						`At least ${minutesText(channel.rolloutStepMinutes)} and ${countOf(channel.rolloutStepMinDevices, "reporting device")}`,
					],
					[
						"Failures",
						stops
							? `Above ${channel.autoPauseFailureRateBps / 100} %: ${ACTIONS.find(({ value }) => value === channel.autoPauseAction)?.label.toLowerCase()}`
							: "Do not stop a manual rollout",
					],
					["Crashes", stops ? limitText(channel.autoPauseCrashRateBps) : "Do not stop a manual rollout"],
					["JavaScript errors", stops ? limitText(channel.autoPauseErrorRateBps) : "Do not stop a manual rollout"],
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
		notify("Rollout settings saved.");
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
	const errors = formErrors(
		change.error,
		RULES.map(({ field }) => field),
	);
	const fields: Fields = { values, set, errorAt: errors.at };
	return (
		<FormDialog
			title={`Rollout settings of ${channel.name}`}
			action="Save rollout settings"
			isPending={change.isPending}
			isReady={wantedSteps !== undefined}
			error={errors.rest}
			onSubmit={submit}
			onClose={onClose}
		>
			<DevicesThatCount {...fields} />
			<fieldset className="group">
				<legend>Steps</legend>
				<Stack gap="sm">
					<TextInput
						label="Steps, in %"
						description="Increasing shares, such as 1, 5, 25, 100. Empty: you set the share manually."
						value={steps}
						error={
							wantedSteps === undefined
								? "Enter increasing numbers from 0.01 to 100, separated by commas."
								: errors.at("rolloutSteps")
						}
						onChange={(event) => setSteps(event.currentTarget.value)}
					/>
					<Count name="rolloutStepMinutes" required {...fields} />
					<Count name="rolloutStepMinDevices" required {...fields} />
				</Stack>
			</fieldset>
			<Failures confidences={confidencesOf(channel)} {...fields} />
		</FormDialog>
	);
}

interface Fields {
	readonly values: Settings;
	readonly set: (changed: Partial<Settings>) => void;
	readonly errorAt: (field: keyof Settings) => string | undefined;
}

/** A number in the range of its rule. An empty field that is not required means no limit. */
function Count({
	name,
	description,
	required = false,
	values,
	set,
	errorAt,
}: Fields & { readonly name: Counted; readonly description?: string; readonly required?: boolean }) {
	return (
		<NumberField
			label={FIELD_LABELS[name]}
			description={description}
			required={required}
			placeholder={required ? undefined : "No limit"}
			error={errorAt(name)}
			min={RANGES[name][0]}
			max={RANGES[name][1]}
			value={values[name] === null ? "" : Number(values[name])}
			onChange={(value) => {
				if (value !== "") set({ [name]: Number(value) });
				else if (!required) set({ [name]: null });
			}}
		/>
	);
}

/** A share in %, stored in basis points. An empty field that is not required means no limit. */
function Limit({
	name,
	description,
	required = false,
	values,
	set,
	errorAt,
}: Fields & { readonly name: Share; readonly description: string; readonly required?: boolean }) {
	const bps = values[name];
	return (
		<NumberField
			label={`${FIELD_LABELS[name]}, in %`}
			description={description}
			required={required}
			error={errorAt(name)}
			min={required ? 0 : 0.01}
			max={100}
			decimals={2}
			value={bps === null ? "" : bps / 100}
			onChange={(value) => {
				if (value !== "") set({ [name]: Math.round(Number(value) * 100) });
				else if (!required) set({ [name]: null });
			}}
		/>
	);
}

function DevicesThatCount(fields: Fields) {
	const { values, set } = fields;
	return (
		<fieldset className="group">
			<legend>Devices that count</legend>
			<Stack gap="sm">
				<Switch
					label={FIELD_LABELS.rolloutCountNewDevices}
					description="Devices that are newer than the rollout always get the bundle, but count only if this is on, because anyone can invent device ids. Turn it on if your app is new."
					checked={values.rolloutCountNewDevices}
					onChange={(event) => set({ rolloutCountNewDevices: event.currentTarget.checked })}
				/>
				<Count
					name="rolloutDevicesPerNetwork"
					description="Increase it, or leave it empty, if many devices share one address, such as in an office or a warehouse."
					{...fields}
				/>
			</Stack>
		</fieldset>
	);
}

function Failures({ confidences, ...fields }: Fields & { readonly confidences: readonly number[] }) {
	const { values, set, errorAt } = fields;
	return (
		<fieldset className="group">
			<legend>Failures</legend>
			<Stack gap="sm">
				<Switch
					label={FIELD_LABELS.autoPauseEnabled}
					description="Failures always stop a rollout with automatic steps."
					checked={values.autoPauseEnabled}
					onChange={(event) => set({ autoPauseEnabled: event.currentTarget.checked })}
				/>
				<Limit
					name="autoPauseFailureRateBps"
					description="A lower limit needs more reports: about 35 devices for 10 %, 73 for 5 %, 189 for 2 % and 381 for 1 %."
					required
					{...fields}
				/>
				<Limit
					name="autoPauseCrashRateBps"
					description="Devices on which the app crashed or stopped responding. Empty: crashes never stop the rollout."
					{...fields}
				/>
				<Limit
					name="autoPauseErrorRateBps"
					description="Devices with uncaught errors. Healthy apps often have some. Empty: errors never stop the rollout."
					{...fields}
				/>
				<NativeSelect
					label={FIELD_LABELS.autoPauseAction}
					data={ACTIONS}
					error={errorAt("autoPauseAction")}
					value={values.autoPauseAction}
					onChange={(event) => set({ autoPauseAction: event.currentTarget.value as Settings["autoPauseAction"] })}
				/>
				<Count
					name="autoPauseMinAttempts"
					description="With fewer reports, failures never stop the rollout."
					required
					{...fields}
				/>
				<Count name="autoPauseMinFailures" required {...fields} />
				<NativeSelect
					label={FIELD_LABELS.autoPauseConfidence}
					error={errorAt("autoPauseConfidence")}
					description="How certain Capstan must be that the failure rate is above or below the limit."
					data={confidences.map((share) => ({ value: String(share), label: `${percentOf(share)} %` }))}
					value={String(values.autoPauseConfidence)}
					onChange={(event) => set({ autoPauseConfidence: Number(event.currentTarget.value) })}
				/>
				<Count name="autoPauseWindowMinutes" description="Empty: counts all reports of the rollout." {...fields} />
				<Count
					name="autoPauseCooldownMinutes"
					description="Gives you time to investigate after you resume the rollout."
					required
					{...fields}
				/>
			</Stack>
		</fieldset>
	);
}

/** Usual confidences, and the one that the channel has. */
const confidencesOf = ({ autoPauseConfidence }: Channel) =>
	[...new Set([...CONFIDENCES, autoPauseConfidence])].sort((left, right) => left - right);

/** Null: no steps; undefined: the text is not valid. */
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
	return Object.fromEntries(RULES.map(({ field }) => [field, settings[field]])) as Settings;
}
