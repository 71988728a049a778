/** Form to create or edit a channel. */
import { NativeSelect, Stack, Switch, TextInput } from "@mantine/core";
import { useState } from "react";
import type { Channel } from "../../components/channel-badges";
import { formErrors } from "../../components/field-errors";
import { FormDialog } from "../../components/form-dialog";

const FLAGS = [
	[
		"public",
		"Public",
		"Serves every device of its platforms that did not join another channel. Replaces the public channel of those platforms.",
	],
	["allow_device_self_set", "Devices can join", "An app can move its own device to this channel."],
	["ios", "iOS", undefined],
	["android", "Android", undefined],
	["electron", "Electron", undefined],
	["allow_prod", "Store builds", undefined],
	["allow_dev", "Development builds", undefined],
	["allow_device", "Real devices", undefined],
	["allow_emulator", "Emulators", undefined],
	[
		"disableAutoUpdateUnderNative",
		"No downgrade below the store build",
		"Devices get no bundle that is older than their store build.",
	],
	[
		"requireCompatibleBundle",
		"Only bundles that fit the store builds",
		"Refuses bundles that call native packages which the live bundle does not have. Rollbacks are always possible.",
	],
] as const;

export const UPDATE_LIMITS = [
	{ value: "none", label: "All updates" },
	{ value: "major", label: "No major updates" },
	{ value: "minor", label: "No minor updates" },
	{ value: "patch", label: "No patch updates" },
	{ value: "version_number", label: "By each bundle's minimum store version" },
];

export const UPDATE_PACKAGES = [
	{ value: "all", label: "Zip and single files" },
	{ value: "zip", label: "Zip only" },
	{ value: "delta", label: "Single files only" },
	{ value: "zip_from_builtin", label: "Zip only, for devices on the store build" },
	{ value: "delta_from_builtin", label: "Single files only, for devices on the store build" },
];

const NAME_ERRORS = ["channel", "channel_name_reserved"];

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
	requireCompatibleBundle: false,
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
	/** Name of the channel to edit; undefined to create one. */
	readonly name?: string;
	readonly settings: ChannelSettings;
	readonly isPending: boolean;
	readonly error: Error | null;
	/** Receives the changed settings, or all of them for a new channel. */
	readonly onSubmit: (name: string, settings: Partial<ChannelSettings>) => void;
	readonly onClose: () => void;
}) {
	const [newName, setName] = useState("");
	const errors = formErrors(error, [
		...(name === undefined ? NAME_ERRORS : []),
		...FLAGS.map(([field]) => field),
		...["disableAutoUpdate", "updatePackage"],
	]);
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
				error={errors.at(field)}
				checked={values[field]}
				onChange={(event) => setValues({ ...values, [field]: event.currentTarget.checked })}
			/>
		));
	return (
		<FormDialog
			title={title}
			action={action}
			isPending={isPending}
			error={errors.rest}
			onSubmit={submit}
			onClose={onClose}
		>
			{name === undefined ? (
				<TextInput
					label="Name"
					error={errors.at(...NAME_ERRORS)}
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
				<legend>Devices to serve</legend>
				<div className="toggles">{toggles(["allow_prod", "allow_dev", "allow_device", "allow_emulator"])}</div>
			</fieldset>
			<NativeSelect
				label="Allowed updates"
				error={errors.at("disableAutoUpdate")}
				data={UPDATE_LIMITS}
				value={values.disableAutoUpdate}
				onChange={(event) =>
					setValues({ ...values, disableAutoUpdate: event.currentTarget.value as Channel["disableAutoUpdate"] })
				}
			/>
			{toggles(["disableAutoUpdateUnderNative", "requireCompatibleBundle"])}
			<NativeSelect
				label="Update format"
				error={errors.at("updatePackage")}
				description="Devices that cannot read single files always get the zip."
				data={UPDATE_PACKAGES}
				value={values.updatePackage}
				onChange={(event) =>
					setValues({ ...values, updatePackage: event.currentTarget.value as Channel["updatePackage"] })
				}
			/>
		</FormDialog>
	);
}
