/** The settings of a channel, for a new one and for one that is there. */
import { NativeSelect, Stack, Switch, TextInput } from "@mantine/core";
import { useState } from "react";
import type { Channel } from "../parts/channel-badges";
import { FormDialog } from "../parts/form";

const FLAGS = [
	[
		"public",
		"Public",
		"Serves every device of its platforms that chose no other channel. Takes them from the public channel that has them.",
	],
	["allow_device_self_set", "Devices may choose it", "An app may put its device on this channel."],
	["ios", "iOS", undefined],
	["android", "Android", undefined],
	["electron", "Electron", undefined],
	["allow_prod", "Builds from the store", undefined],
	["allow_dev", "Development builds", undefined],
	["allow_device", "Real devices", undefined],
	["allow_emulator", "Emulators", undefined],
	[
		"disableAutoUpdateUnderNative",
		"Never below the store build",
		"A device gets no bundle that is older than the build it was installed with.",
	],
] as const;

export const UPDATE_LIMITS = [
	{ value: "none", label: "Every update" },
	{ value: "major", label: "No new major version" },
	{ value: "minor", label: "No new minor version" },
	{ value: "patch", label: "No new patch version" },
	{ value: "version_number", label: "Only what the bundle itself allows" },
];

export const UPDATE_PACKAGES = [
	{ value: "all", label: "Zip and single files" },
	{ value: "zip", label: "Only the zip" },
	{ value: "delta", label: "Only single files" },
	{ value: "zip_from_builtin", label: "Only the zip, to devices on the store build" },
	{ value: "delta_from_builtin", label: "Only single files, to devices on the store build" },
];

type Flag = (typeof FLAGS)[number][0];
export type ChannelSettings = Pick<Channel, Flag | "disableAutoUpdate" | "updatePackage">;

export const NEW_CHANNEL: ChannelSettings = {
	public: false,
	allow_device_self_set: false,
	ios: true,
	android: true,
	electron: true,
	allow_prod: true,
	allow_dev: true,
	allow_device: true,
	allow_emulator: true,
	disableAutoUpdateUnderNative: true,
	disableAutoUpdate: "major",
	updatePackage: "all",
};

export function ChannelForm({
	title,
	action,
	name,
	settings,
	isPending,
	error,
	onSubmit,
	onClose,
}: {
	readonly title: string;
	readonly action: string;
	/** Of the channel that is there; undefined for a new one. */
	readonly name?: string;
	readonly settings: ChannelSettings;
	readonly isPending: boolean;
	readonly error: Error | null;
	/** Gets the settings that were changed; for a new channel all. */
	readonly onSubmit: (name: string, settings: Partial<ChannelSettings>) => void;
	readonly onClose: () => void;
}) {
	const [newName, setName] = useState("");
	const [values, setValues] = useState<ChannelSettings>(() => ({
		...(Object.fromEntries(FLAGS.map(([field]) => [field, settings[field]])) as Pick<Channel, Flag>),
		disableAutoUpdate: settings.disableAutoUpdate,
		updatePackage: settings.updatePackage,
	}));
	const submit = () => {
		const changed = Object.entries(values).filter(
			([field, value]) => name === undefined || settings[field as keyof ChannelSettings] !== value,
		);
		onSubmit(name ?? newName, Object.fromEntries(changed) as Partial<ChannelSettings>);
	};
	const toggles = (shown: readonly Flag[]) =>
		FLAGS.filter(([field]) => shown.includes(field)).map(([field, label, description]) => (
			<Switch
				key={field}
				label={label}
				description={description}
				checked={values[field]}
				onChange={(event) => setValues({ ...values, [field]: event.currentTarget.checked })}
			/>
		));
	return (
		<FormDialog title={title} action={action} isPending={isPending} error={error} onSubmit={submit} onClose={onClose}>
			{name === undefined ? (
				<TextInput
					label="Name"
					description="Letters, digits, spaces and . _ - / @ +"
					required
					data-autofocus
					maxLength={128}
					value={newName}
					onChange={(event) => setName(event.currentTarget.value)}
				/>
			) : null}
			<Stack gap="sm">{toggles(["public", "allow_device_self_set"])}</Stack>
			<fieldset className="group">
				<legend>Platforms</legend>
				<div className="toggles">{toggles(["ios", "android", "electron"])}</div>
			</fieldset>
			<fieldset className="group">
				<legend>Which devices it serves</legend>
				<div className="toggles">{toggles(["allow_prod", "allow_dev", "allow_device", "allow_emulator"])}</div>
			</fieldset>
			<NativeSelect
				label="Updates that devices take"
				data={UPDATE_LIMITS}
				value={values.disableAutoUpdate}
				onChange={(event) =>
					setValues({ ...values, disableAutoUpdate: event.currentTarget.value as Channel["disableAutoUpdate"] })
				}
			/>
			{toggles(["disableAutoUpdateUnderNative"])}
			<NativeSelect
				label="Form of updates"
				description="A device that cannot read single files gets the zip in any case."
				data={UPDATE_PACKAGES}
				value={values.updatePackage}
				onChange={(event) =>
					setValues({ ...values, updatePackage: event.currentTarget.value as Channel["updatePackage"] })
				}
			/>
		</FormDialog>
	);
}
