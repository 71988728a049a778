/**
 * Settings for an app's devices: which reports the server stores, links to the store build, and who
 * can open previews.
 */
import { Switch, TextInput } from "@mantine/core";
import { type AnswerOf, useChange } from "../../api";
import { formErrors } from "../../components/field-errors";
import { notify } from "../../components/notify";
import { SettingsCard } from "../../components/settings-card";
import { changeText, switchText, useDraft } from "../../components/settings-draft";

export type AppRecord = AnswerOf<"GET /app/:app_id">;

export interface AppSettingsProps {
	readonly app: AppRecord;
	readonly mayChange: boolean;
}

const DEVICE_SWITCHES = [
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
] as const;

const ADDRESSES = [
	["ios_store_url", "App Store address", "https://apps.apple.com/app/id1234567890"],
	["android_store_url", "Google Play address", "https://play.google.com/store/apps/details?id=com.example.app"],
] as const;

const PREVIEW_SWITCHES = [
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

export function DeviceSettings({ app, mayChange }: AppSettingsProps) {
	const { values, changed, set, discard, settle } = useDraft({
		allow_device_custom_id: app.allow_device_custom_id,
		block_provider_infra_requests: app.block_provider_infra_requests,
		ios_store_url: app.ios_store_url ?? "",
		android_store_url: app.android_store_url ?? "",
	});
	const save = useChange("PUT /app/:app_id", () => notify("App saved."));
	const errors = formErrors(
		save.error,
		[...DEVICE_SWITCHES, ...ADDRESSES].map(([field]) => field),
	);
	const stores = [
		...(app.ios_store_url === null ? [] : ["the App Store"]),
		...(app.android_store_url === null ? [] : ["Google Play"]),
	];
	const addresses = ADDRESSES.flatMap(([field]) =>
		changed[field] === undefined ? [] : [[field, values[field].trim() || null]],
	);
	return (
		<SettingsCard
			title="Devices"
			note="What the server stores of them, and the store that has a newer build for them."
			present={[
				`Custom ids are ${app.allow_device_custom_id ? "stored" : "not stored"}.`,
				`Review networks get ${app.block_provider_infra_requests ? "no updates" : "updates"}.`,
				stores.length === 0 ? "No store is linked." : `Linked: ${stores.join(" and ")}.`,
			].join(" ")}
			mayChange={mayChange}
			action="Save devices"
			changes={[
				...DEVICE_SWITCHES.flatMap(([field, label]) =>
					changed[field] === undefined ? [] : [switchText(label, values[field])],
				),
				...ADDRESSES.flatMap(([field, label]) => (changed[field] === undefined ? [] : [label])),
			]}
			isPending={save.isPending}
			error={errors.rest}
			onDiscard={discard}
			onSave={() =>
				save.mutate(
					{ params: { app_id: app.app_id }, body: { ...changed, ...Object.fromEntries(addresses) } },
					{ onSuccess: () => settle(changed) },
				)
			}
		>
			{DEVICE_SWITCHES.map(([field, label, description]) => (
				<Switch
					key={field}
					label={label}
					description={description}
					error={errors.at(field)}
					checked={values[field]}
					onChange={(event) => set({ [field]: event.currentTarget.checked })}
				/>
			))}
			<div className="settings-pair">
				{ADDRESSES.map(([field, label, placeholder]) => (
					<TextInput
						key={field}
						type="url"
						label={`${label} (optional)`}
						error={errors.at(field)}
						placeholder={placeholder}
						value={values[field]}
						onChange={(event) => set({ [field]: event.currentTarget.value })}
					/>
				))}
			</div>
		</SettingsCard>
	);
}

export function PreviewSettings({ app, mayChange }: AppSettingsProps) {
	const { values, changed, set, discard, settle } = useDraft({
		allow_preview: app.allow_preview,
		preview_prereleases_only: app.preview_prereleases_only,
		preview_channel_prefix: app.preview_channel_prefix,
	});
	const save = useChange("PUT /app/:app_id", () => notify("App saved."));
	const errors = formErrors(save.error, [...PREVIEW_SWITCHES.map(([field]) => field), "preview_channel_prefix"]);
	const prefix = changed.preview_channel_prefix;
	return (
		<SettingsCard
			title="Previews"
			note="Channels of pull requests, opened with a QR code or a link."
			present={[
				`Names of preview channels begin with ${app.preview_channel_prefix}.`,
				`Links by ids ${app.allow_preview ? "open for anyone" : "do not open"}.`,
				`Preview keys upload ${app.preview_prereleases_only ? "pre-releases only" : "any version"}.`,
			].join(" ")}
			mayChange={mayChange}
			action="Save previews"
			changes={[
				...(prefix === undefined ? [] : [changeText("prefix", app.preview_channel_prefix, prefix)]),
				...PREVIEW_SWITCHES.flatMap(([field, label]) =>
					changed[field] === undefined ? [] : [switchText(label, values[field])],
				),
			]}
			keeps={prefix === undefined ? undefined : "Channels that exist keep their names."}
			isPending={save.isPending}
			error={errors.rest}
			onDiscard={discard}
			onSave={() =>
				save.mutate(
					{
						params: { app_id: app.app_id },
						body: {
							...changed,
							...(prefix === undefined ? {} : { preview_channel_prefix: prefix.trim() || null }),
						},
					},
					{ onSuccess: () => settle(changed) },
				)
			}
		>
			<TextInput
				label="Prefix of preview channel names"
				error={errors.at("preview_channel_prefix")}
				description="Devices reach a preview by its name only then. It ends with a separator. Empty: pr-."
				placeholder="pr-"
				value={values.preview_channel_prefix}
				onChange={(event) => set({ preview_channel_prefix: event.currentTarget.value })}
			/>
			{PREVIEW_SWITCHES.map(([field, label, description]) => (
				<Switch
					key={field}
					label={label}
					description={description}
					error={errors.at(field)}
					checked={values[field]}
					onChange={(event) => set({ [field]: event.currentTarget.checked })}
				/>
			))}
		</SettingsCard>
	);
}
