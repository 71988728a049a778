/**
 * Settings for an app's devices: which reports the server stores, who can open previews, and links
 * to the store build.
 */

import { Button, Group, Stack, Switch, Text, TextInput } from "@mantine/core";
import { useState } from "react";
import { type AnswerOf, useChange } from "../../api";
import { Problem } from "../../components/answer";
import { KeyValues } from "../../components/card";
import { formErrors } from "../../components/field-errors";
import { notify } from "../../components/notify";
import { Section } from "../../components/screen";

type AppRecord = AnswerOf<"GET /app/:app_id">;

const SWITCHES = [
	[
		"allow_device_custom_id",
		"Store custom ids of devices",
		"When off, reported ids are not stored, and stored ones are hidden until you turn this on again.",
	],
	[
		"block_provider_infra_requests",
		"Block review networks",
		"Devices in the networks of Google and Apple, where stores review apps, get no updates and are excluded from statistics.",
	],
	[
		"allow_preview",
		"Open preview links by their ids",
		"For QR codes of the Capgo CLI (get-qr). Anyone who has or guesses a link can download a bundle of this app.",
	],
	[
		"preview_prereleases_only",
		"Preview keys upload pre-releases only",
		"Such as 1.4.0-pr.128, so that a preview never uses the version of a release.",
	],
] as const;

const ADDRESSES = [
	["ios_store_url", "App Store address", "https://apps.apple.com/app/id1234567890"],
	["android_store_url", "Google Play address", "https://play.google.com/store/apps/details?id=com.example.app"],
	["icon_url", "Icon address", "https://example.com/icon.png"],
] as const;

type Switches = Pick<AppRecord, (typeof SWITCHES)[number][0]>;
type Addresses = Record<(typeof ADDRESSES)[number][0], string>;

export function DeviceSettings({ app, mayChange }: { readonly app: AppRecord; readonly mayChange: boolean }) {
	return (
		<Section title="Devices and previews">
			{mayChange ? (
				<DeviceFields app={app} />
			) : (
				<KeyValues
					items={[
						...SWITCHES.map(([field, label]) => [label, app[field] ? "On" : "Off"] as const),
						["Prefix of preview channel names", app.preview_channel_prefix] as const,
						...ADDRESSES.map(([field, label]) => [label, app[field] ?? "Not set"] as const),
					]}
				/>
			)}
		</Section>
	);
}

function DeviceFields({ app }: { readonly app: AppRecord }) {
	const [switches, setSwitches] = useState<Switches>(app);
	const [addresses, setAddresses] = useState<Addresses>(() => ({
		ios_store_url: app.ios_store_url ?? "",
		android_store_url: app.android_store_url ?? "",
		icon_url: app.icon_url ?? "",
	}));
	const [prefix, setPrefix] = useState(app.preview_channel_prefix);
	const save = useChange("PUT /app/:app_id", () => notify("App saved."));
	const errors = formErrors(save.error, [
		...SWITCHES.map(([field]) => field),
		...ADDRESSES.map(([field]) => field),
		"preview_channel_prefix",
	]);
	const submit = () =>
		save.mutate({
			params: { app_id: app.app_id },
			body: {
				...Object.fromEntries(SWITCHES.map(([field]) => [field, switches[field]])),
				preview_channel_prefix: prefix.trim() || null,
				...Object.fromEntries(ADDRESSES.map(([field]) => [field, addresses[field].trim() || null])),
			},
		});
	return (
		<form
			onSubmit={(event) => {
				event.preventDefault();
				submit();
			}}
		>
			<Stack maw="32rem">
				{SWITCHES.map(([field, label, description]) => (
					<Switch
						key={field}
						label={label}
						description={description}
						error={errors.at(field)}
						checked={switches[field]}
						onChange={(event) => setSwitches({ ...switches, [field]: event.currentTarget.checked })}
					/>
				))}
				<TextInput
					label="Prefix of preview channel names"
					error={errors.at("preview_channel_prefix")}
					description="Names of preview channels begin with it, and devices reach a preview by its name only then. It ends with a separator. Empty: pr-."
					placeholder="pr-"
					value={prefix}
					onChange={(event) => setPrefix(event.currentTarget.value)}
				/>
				<Text size="sm" c="dimmed">
					The update decision of a device links to the store if it needs a newer store build.
				</Text>
				{ADDRESSES.map(([field, label, placeholder]) => (
					<TextInput
						key={field}
						type="url"
						label={label}
						error={errors.at(field)}
						placeholder={placeholder}
						value={addresses[field]}
						onChange={(event) => setAddresses({ ...addresses, [field]: event.currentTarget.value })}
					/>
				))}
				{errors.rest === null ? null : <Problem error={errors.rest} />}
				<Group>
					<Button type="submit" loading={save.isPending}>
						Save device settings
					</Button>
				</Group>
			</Stack>
		</form>
	);
}
