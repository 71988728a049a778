/** The fields of the release dialog: the bundle or the zip, the channel, the way, and the note. */
import { Checkbox, NativeSelect, Textarea } from "@mantine/core";
import type { Channel } from "../components/channel-badges";
import { countOf, percentText } from "../components/size";
import { BundleField, FileField } from "./bundle-field";
import { HowField } from "./how-field";
import { BUNDLE_ERRORS, type ReleaseAct } from "./release-act";
import type { ReleaseChoice } from "./release-choice";

interface FieldProps {
	readonly choice: ReleaseChoice;
	readonly act: ReleaseAct;
}

/** @param isGiven the page is about a bundle, so this is not the first field to fill in */
export function BundleFields({ choice, act, isGiven }: FieldProps & { readonly isGiven: boolean }) {
	const { appId, seesApp, bundle, target } = choice;
	const error = act.errors.at(...BUNDLE_ERRORS);
	return (
		<>
			{bundle.file === null ? (
				<BundleField
					appId={appId}
					seesApp={seesApp}
					mayUpload={target.rights.mayUpload && seesApp}
					version={bundle.chosen}
					record={bundle.record}
					error={error}
					isDisabled={act.isBusy}
					isFirst={!isGiven}
					onVersion={bundle.setChosen}
					onFile={bundle.take}
				/>
			) : (
				<FileField
					file={bundle.file}
					verdict={bundle.verdict}
					version={bundle.version}
					versionError={
						bundle.isTaken && !act.isUploaded
							? `The app has a bundle ${bundle.version} already. Choose another version.`
							: error
					}
					isDisabled={act.isBusy || act.isUploaded}
					isVersionKnown={bundle.isVersionKnown}
					onVersion={bundle.setTyped}
					onFile={bundle.take}
				/>
			)}
			{act.asksAboutPreview ? (
				<Checkbox
					label="I checked this bundle of a preview; release it"
					checked={act.allowsPreview}
					onChange={(event) => act.setAllowsPreview(event.currentTarget.checked)}
				/>
			) : null}
		</>
	);
}

export function ChannelFields({ choice, act, isFirst }: FieldProps & { readonly isFirst: boolean }) {
	const { bundle, target, how } = choice;
	const { name, channel, channels, devices, known, rights } = target;
	return (
		<>
			<NativeSelect
				label="Channel"
				description={channel === undefined ? undefined : channelText(channel, devices)}
				inputWrapperOrder={["label", "input", "description", "error"]}
				disabled={act.isBusy}
				value={name}
				onChange={(event) => choice.choose(event.currentTarget.value)}
				data={channelChoices(channels, name, rights.mayAnywhere)}
				{...(isFirst ? { "data-autofocus": true } : {})}
			/>
			{channel === undefined ? null : (
				<HowField
					key={name}
					channel={channel}
					version={bundle.version}
					way={how.way}
					rules={how.rules}
					devices={devices}
					newDevices={known?.first_seen_today ?? 0}
					maySet={rights.maySet === true}
					isDisabled={act.isBusy}
					errorAt={(field) => act.errors.at(field)}
					onWay={how.setWay}
					onRules={how.changeRules}
				/>
			)}
		</>
	);
}

export function NoteField({ choice, act, isFirst }: FieldProps & { readonly isFirst: boolean }) {
	const { bundle, target } = choice;
	if (bundle.file === null && (bundle.record === undefined || !target.rights.mayUpload)) return null;
	return (
		<Textarea
			label="Note (optional)"
			description="What is new. Shown beside the bundle's releases, in the history."
			inputWrapperOrder={["label", "input", "description", "error"]}
			autosize
			minRows={1}
			maxRows={6}
			maxLength={2048}
			disabled={act.isBusy || act.isUploaded}
			value={bundle.note}
			onChange={(event) => bundle.setNote(event.currentTarget.value)}
			{...(isFirst ? { "data-autofocus": true } : {})}
		/>
	);
}

/** "8,064 devices · now 2.3.1, and 2.4.0 at 25 %" */
function channelText({ version, rollout_version_info: rollout, ...channel }: Channel, devices: number | undefined) {
	const count = devices === undefined ? "" : `${countOf(devices, "device")} · `;
	const running =
		rollout === null || !channel.rolloutEnabled
			? ""
			: `, and ${rollout.name} at ${percentText(channel.rolloutPercentageBps)}`;
	return `${count}now ${version?.name ?? "the store build"}${running}`;
}

/** Previews stand after the channels of people. */
function channelChoices(channels: readonly Channel[] | undefined, name: string, mayAnywhere: boolean) {
	const all = channels ?? [];
	if (all.length === 0)
		return name === "" ? [] : [{ value: name, label: channels === undefined ? name : `${name} (new)` }];
	const shown = mayAnywhere ? all : all.filter((channel) => channel.name === name);
	const choicesOf = (isPreview: boolean) =>
		shown.filter(({ is_preview }) => is_preview === isPreview).map((channel) => channel.name);
	const previews = choicesOf(true);
	return previews.length === 0 ? choicesOf(false) : [...choicesOf(false), { group: "Previews", items: previews }];
}
