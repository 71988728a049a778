/** Form to create or edit a channel. */
import { NativeSelect, Stack, Switch, TextInput } from "@mantine/core";
import { useState } from "react";
import {
	ACCEPTANCE_FIELDS,
	DELIVERY_FIELDS,
	FIELD_LABELS,
	type FlagOf,
} from "../../../../src/domain/updates/channel-fields";
import type { Channel } from "../../components/channel-badges";
import { formErrors } from "../../components/field-errors";
import { FormDialog } from "../../components/form-dialog";
import { optionsOf } from "../../components/options";

/** The settings of the form, by their columns; the table says the label and the default of each. */
const SETTINGS = { ...DELIVERY_FIELDS, ...ACCEPTANCE_FIELDS };
type Setting = (typeof SETTINGS)[keyof typeof SETTINGS]["field"];
type Flag = FlagOf<typeof SETTINGS>;
const FIELDS = Object.values(SETTINGS);

const REACH = ["public", "allow_device_self_set"] as const satisfies Flag[];
const PLATFORMS = ["ios", "android", "electron"] as const satisfies Flag[];
const DEVICES = ["allow_prod", "allow_dev", "allow_device", "allow_emulator"] as const satisfies Flag[];
const IN_GROUPS: readonly string[] = [...REACH, ...PLATFORMS, ...DEVICES];
/** Flags that are in no group above, which a new field is. */
const OTHERS = FIELDS.flatMap(({ kind, field }) => (kind === "flag" && !IN_GROUPS.includes(field) ? [field] : []));

const DESCRIPTIONS: { readonly [Field in Flag]?: string } = {
	public:
		"Serves every device of its platforms that did not join another channel. Replaces the public channel of those platforms.",
	allow_device_self_set: "An app can move its own device to this channel.",
	disableAutoUpdateUnderNative: "Devices get no bundle that is older than their store build.",
	requireCompatibleBundle:
		"Refuses bundles that call native packages which the live bundle does not have. Rollbacks are always possible.",
};

export const UPDATE_LIMITS = optionsOf(DELIVERY_FIELDS.disable_auto_update.names);
export const UPDATE_PACKAGES = optionsOf(DELIVERY_FIELDS.update_package.names);

const NAME_ERRORS = ["channel", "channel_name_reserved"];

export type ChannelSettings = Pick<Channel, Setting>;

export const NEW_CHANNEL = Object.fromEntries(
	FIELDS.map((field) => [field.field, field.kind === "flag" ? field.default === 1 : field.default]),
) as ChannelSettings;

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
	const errors = formErrors(error, [...(name === undefined ? NAME_ERRORS : []), ...FIELDS.map(({ field }) => field)]);
	const [values, setValues] = useState(
		() => Object.fromEntries(FIELDS.map(({ field }) => [field, settings[field]])) as ChannelSettings,
	);
	const submit = () => {
		const changed = Object.entries(values).filter(
			([field, value]) => name === undefined || settings[field as keyof ChannelSettings] !== value,
		);
		onSubmit(name ?? newName, Object.fromEntries(changed) as Partial<ChannelSettings>);
	};
	const toggles = (shown: readonly Flag[]) =>
		shown.map((field) => (
			<Switch
				key={field}
				label={FIELD_LABELS[field]}
				description={DESCRIPTIONS[field]}
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
			<Stack gap="sm">{toggles(REACH)}</Stack>
			<fieldset className="group">
				<legend>Platforms</legend>
				<div className="toggles">{toggles(PLATFORMS)}</div>
			</fieldset>
			<fieldset className="group">
				<legend>Devices to serve</legend>
				<div className="toggles">{toggles(DEVICES)}</div>
			</fieldset>
			<NativeSelect
				label={FIELD_LABELS.disableAutoUpdate}
				error={errors.at("disableAutoUpdate")}
				data={UPDATE_LIMITS}
				value={values.disableAutoUpdate}
				onChange={(event) =>
					setValues({ ...values, disableAutoUpdate: event.currentTarget.value as Channel["disableAutoUpdate"] })
				}
			/>
			{toggles(OTHERS)}
			<NativeSelect
				label={FIELD_LABELS.updatePackage}
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
