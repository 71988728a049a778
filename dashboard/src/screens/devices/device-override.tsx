/**
 * The override of a device: the dialog that sets its channel or bundle, and the one that removes
 * them.
 */
import { Text, TextInput } from "@mantine/core";
import { useState } from "react";
import { type AnswerOf, ask, CapstanError, useChange } from "../../api";
import { formErrors } from "../../components/field-errors";
import { Confirm, FormDialog } from "../../components/form-dialog";
import { notify } from "../../components/notify";
import { VersionInput } from "../../components/version-input";

export type DeviceRecord = Exclude<AnswerOf<"GET /device">, readonly unknown[]>;

const CHANNEL_ERRORS = ["channel", "channel_not_found"];
const BUNDLE_ERRORS = [
	"version_id",
	"bundle_not_found",
	"bundle_not_ready",
	"bundle_not_signed",
	"bundle_from_preview",
];

/**
 * The request completes when every isolate answers with the change, so that the next check gets it.
 */
const WAITING = "Waiting until the change is live everywhere, about four seconds…";

export function Override({
	appId,
	deviceId,
	onSet,
	onClose,
}: {
	readonly appId: string;
	readonly deviceId: string;
	readonly onSet?: () => void;
	readonly onClose: () => void;
}) {
	const [channel, setChannel] = useState("");
	const [version, setVersion] = useState("");
	const [refused, setRefused] = useState<Error | undefined>();
	const done = () => {
		notify("Override set. It applies at the next check.");
		onClose();
		onSet?.();
	};
	const set = useChange("POST /device", done, { waitsUntilVisible: true });
	const submit = async () => {
		setRefused(undefined);
		try {
			const bundle = version === "" ? undefined : await bundleId(appId, version);
			set.mutate({
				body: {
					app_id: appId,
					device_id: deviceId,
					...(channel === "" ? {} : { channel }),
					...(bundle === undefined ? {} : { version_id: bundle }),
				},
			});
		} catch (error) {
			setRefused(error instanceof Error ? error : new Error(String(error)));
		}
	};
	const errors = formErrors(refused ?? set.error, [...CHANNEL_ERRORS, ...BUNDLE_ERRORS]);
	return (
		<FormDialog
			title="Set an override for this device"
			action="Set override"
			isPending={set.isPending}
			waiting={WAITING}
			isReady={channel !== "" || version !== ""}
			error={errors.rest}
			onSubmit={() => void submit()}
			onClose={onClose}
		>
			<Text size="sm">Empty fields stay unchanged. A bundle takes precedence over a channel.</Text>
			<TextInput
				label="Channel"
				error={errors.at(...CHANNEL_ERRORS)}
				data-autofocus
				value={channel}
				onChange={(event) => setChannel(event.currentTarget.value)}
			/>
			<VersionInput
				appId={appId}
				label="Bundle"
				isRequired={false}
				error={errors.at(...BUNDLE_ERRORS)}
				value={version}
				onChange={setVersion}
			/>
		</FormDialog>
	);
}

/** @throws {CapstanError} `bundle_not_found` */
export async function bundleId(appId: string, version: string): Promise<number> {
	const [bundle] = await ask("GET /bundle", { query: { app_id: appId, version } });
	if (bundle === undefined) {
		throw new CapstanError(
			404,
			"bundle_not_found",
			`Bundle ${version} does not exist. Choose another version.`,
			{ version },
			"",
		);
	}
	return bundle.id;
}

export function Unset({
	appId,
	device,
	onClose,
}: {
	readonly appId: string;
	readonly device: DeviceRecord;
	readonly onClose: () => void;
}) {
	const { override_channel, override_version } = device;
	const done = () => {
		notify("Override removed.");
		onClose();
	};
	const unset = useChange("DELETE /device", done, { waitsUntilVisible: true });
	return (
		<Confirm
			title="Remove the override of this device?"
			action="Remove override"
			isPending={unset.isPending}
			waiting={WAITING}
			error={unset.error}
			onConfirm={() => unset.mutate({ query: { app_id: appId, device_id: device.device_id } })}
			onClose={onClose}
		>
			<Text size="sm">This removes:</Text>
			<ul>
				{override_channel === null ? null : <li>the channel {override_channel}</li>}
				{override_version === null ? null : <li>the bundle {override_version}</li>}
			</ul>
			<Text size="sm">The device follows its usual channel again.</Text>
		</Confirm>
	);
}
