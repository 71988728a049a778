/**
 * The way of a release: in steps, every device at once, or a share that a person raises. A way that
 * is not possible stays visible and says why.
 */
import { Button, Checkbox, NativeSelect } from "@mantine/core";
import { type ReactNode, useState } from "react";
import type { Channel } from "../components/channel-badges";
import { NumberField } from "../components/number-field";
import { countOf, countText, percentText } from "../components/size";
import { partlyRolledOut, type Rules, rolloutEffect, stepsText, type Way } from "./release-plan";

const LIMITS_BPS = [100, 200, 500, 1000];

const GATE_VERBS: Readonly<Record<Channel["autoPauseAction"], string>> = {
	pause: "pauses",
	rollback: "rolls back",
	notify: "warns",
};

export function HowField({
	channel,
	version,
	way,
	rules,
	devices,
	newDevices,
	maySet,
	isDisabled,
	errorAt,
	onWay,
	onRules,
}: {
	readonly channel: Channel;
	readonly version: string;
	/** Undefined: nothing is chosen yet. */
	readonly way: Way | undefined;
	readonly rules: Rules;
	/** Devices of the channel; undefined while unknown. */
	readonly devices: number | undefined;
	/** Devices of the channel that were first seen today. */
	readonly newDevices: number;
	/** Whether the user may change the channel's settings, such as its steps. */
	readonly maySet: boolean;
	readonly isDisabled: boolean;
	readonly errorAt: (field: string) => string | undefined;
	readonly onWay: (way: Way) => void;
	readonly onRules: (rules: Partial<Rules>) => void;
}) {
	const [isChanging, setChanging] = useState(false);
	const { name, rolloutSteps, autoPauseAction } = channel;
	const running = partlyRolledOut(channel, version);
	const blocked =
		running === undefined
			? undefined
			: rolloutEffect(channel, { version: version === "" ? "another bundle" : version, way: "steps", percentage: 0 });
	const limit = percentText(rules.limitBps);
	const of = { way, isDisabled, onWay };
	const countsNew = (
		<NewDevices
			isCounted={rules.countsNew}
			young={newDevices}
			all={devices ?? 0}
			onChange={maySet ? (isCounted) => onRules({ countsNew: isCounted }) : undefined}
		/>
	);
	return (
		<fieldset className="release-ways">
			<legend className="release-label">How</legend>
			{maySet || rolloutSteps !== null ? (
				<Choice
					{...of}
					value="steps"
					title={`In steps: ${stepsText(channel)}`}
					isImpossible={blocked !== undefined}
					note={
						blocked ?? (
							<>
								{rolloutSteps === null ? "" : `The habit of ${name}. `}
								Capstan raises the share, and {GATE_VERBS[autoPauseAction]} if more than {limit} of the devices fail.
							</>
						)
					}
				>
					{maySet && way === "steps" ? (
						isChanging ? (
							<NativeSelect
								label="Stop at this failure rate"
								size="xs"
								error={errorAt("autoPauseFailureRateBps")}
								value={String(rules.limitBps)}
								onChange={(event) => onRules({ limitBps: Number(event.currentTarget.value) })}
								data={[...new Set([...LIMITS_BPS, channel.autoPauseFailureRateBps])]
									.sort((left, right) => left - right)
									.map((bps) => ({ value: String(bps), label: percentText(bps) }))}
							/>
						) : (
							<Button size="xs" variant="subtle" onClick={() => setChanging(true)}>
								Change limit
							</Button>
						)
					) : null}
					{way === "steps" && (isChanging || newDevices > 0) ? countsNew : null}
				</Choice>
			) : null}
			<Choice {...of} value="all" title="Every device at once" note={allText(devices, name)} />
			<Choice
				{...of}
				value="share"
				title="To a share of the devices"
				isImpossible={blocked !== undefined}
				note={rolloutSteps === null && !maySet ? (blocked ?? "You raise it.") : "You raise it, in your own time."}
			>
				{way === "share" ? (
					<>
						<NumberField
							label="Share of devices, in %"
							size="xs"
							error={errorAt("rolloutPercentage")}
							required
							min={0}
							max={100}
							decimals={2}
							value={rules.share}
							onChange={(share) => onRules({ share })}
						/>
						{countsNew}
					</>
				) : null}
			</Choice>
		</fieldset>
	);
}

function allText(devices: number | undefined, name: string): string {
	if (devices === undefined) return "At their next update check.";
	return devices === 0
		? `No device of ${name} was seen lately; the next ones get it.`
		: `${countOf(devices, "device")} of ${name}, at their next update check.`;
}

function Choice({
	value,
	title,
	note,
	way,
	isDisabled,
	isImpossible = false,
	onWay,
	children,
}: {
	readonly value: Way;
	readonly title: string;
	readonly note: ReactNode;
	readonly way: Way | undefined;
	readonly isDisabled: boolean;
	readonly isImpossible?: boolean;
	readonly onWay: (way: Way) => void;
	readonly children?: ReactNode;
}) {
	const isChosen = way === value;
	return (
		<div className={`release-way${isChosen ? " is-chosen" : ""}${isImpossible ? " is-impossible" : ""}`}>
			<label>
				<input
					type="radio"
					name="release-way"
					checked={isChosen}
					disabled={isDisabled || isImpossible}
					onChange={() => onWay(value)}
				/>
				<span className="stack">
					<b className="strong">{title}</b>
					<span className="soft small">{note}</span>
				</span>
			</label>
			{children}
		</div>
	);
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
			<span className="soft small">{noticed}They get the bundle but do not count towards rollout health.</span>
		);
	}
	return (
		<Checkbox
			size="xs"
			label="Count new devices towards rollout health"
			description={`${noticed}New devices get the bundle either way. They count only if this is on, because anyone can invent device ids.`}
			checked={isCounted}
			onChange={(event) => onChange(event.currentTarget.checked)}
		/>
	);
}
