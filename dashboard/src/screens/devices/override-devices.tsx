/** Sets an override for several devices, or removes theirs. Each device is a request of its own. */
import { NativeSelect } from "@mantine/core";
import { useState } from "react";
import { ask, queryClient } from "../../api";
import { BulkDialog } from "../../components/bulk-dialog";
import type { Channel } from "../../components/channel-badges";
import { countOf } from "../../components/size";
import { VersionInput } from "../../components/version-input";
import { bundleId } from "./device-override";
import type { ListedDevice } from "./device-state";

interface OverrideProps {
	readonly appId: string;
	readonly devices: readonly ListedDevice[];
	readonly onDone: (device: ListedDevice) => void;
	readonly onClose: () => void;
}

const NOUN = ["device", "devices"] as const;

const nameOf = ({ device_id, custom_id }: ListedDevice) => custom_id ?? device_id;
const keyOf = ({ device_id }: ListedDevice) => device_id;

/** The override of the device so far. */
function setText({ override_channel, override_version }: ListedDevice): string {
	const set = [
		...(override_channel === null ? [] : [`the channel ${override_channel}`]),
		...(override_version === null ? [] : [`the bundle ${override_version}`]),
	];
	return set.join(" and ");
}

export function OverrideDevices({
	act,
	channels,
	...props
}: OverrideProps & { readonly act: "set" | "remove"; readonly channels: readonly Channel[] }) {
	return act === "set" ? <SetOverrides {...props} channels={channels} /> : <RemoveOverrides {...props} />;
}

function SetOverrides({
	appId,
	devices,
	channels,
	onDone,
	onClose,
}: OverrideProps & { readonly channels: readonly Channel[] }) {
	const [channel, setChannel] = useState("");
	const [version, setVersion] = useState("");
	// The devices follow one another within the time in which an answer is fresh.
	const knownId = () =>
		queryClient.fetchQuery({ queryKey: ["bundle id", appId, version], queryFn: () => bundleId(appId, version) });
	const act = async ({ device_id }: ListedDevice) =>
		ask("POST /device", {
			body: {
				app_id: appId,
				device_id,
				...(channel === "" ? {} : { channel }),
				...(version === "" ? {} : { version_id: await knownId() }),
			},
		});
	return (
		<BulkDialog
			title={`Set an override for ${countOf(devices.length, ...NOUN)}`}
			action={(count) => `Set override for ${countOf(count, ...NOUN)}`}
			noun={NOUN}
			done="changed"
			isReady={channel !== "" || version !== ""}
			items={devices}
			keyOf={keyOf}
			nameOf={nameOf}
			plan={async (device) => {
				const set = setText(device);
				return set === "" ? "has no override yet." : `has ${set} set.`;
			}}
			act={act}
			onDone={onDone}
			onClose={onClose}
		>
			<NativeSelect
				label="Channel"
				description="An empty field stays unchanged. A bundle takes precedence over a channel."
				data={[{ value: "", label: "Unchanged" }, ...channels.map(({ name }) => ({ value: name, label: name }))]}
				value={channel}
				onChange={(event) => setChannel(event.currentTarget.value)}
			/>
			<VersionInput appId={appId} label="Bundle" isRequired={false} value={version} onChange={setVersion} />
		</BulkDialog>
	);
}

function RemoveOverrides({ appId, devices, onDone, onClose }: OverrideProps) {
	return (
		<BulkDialog
			title={`Remove the overrides of ${countOf(devices.length, ...NOUN)}?`}
			action={(count) => `Remove overrides of ${countOf(count, ...NOUN)}`}
			noun={NOUN}
			done="changed"
			isDestructive
			items={devices}
			keyOf={keyOf}
			nameOf={nameOf}
			plan={async (device) => {
				const set = setText(device);
				return set === "" ? { refusal: "has no override." } : `loses ${set}, and follows its usual channel again.`;
			}}
			act={({ device_id }) => ask("DELETE /device", { query: { app_id: appId, device_id } })}
			onDone={onDone}
			onClose={onClose}
		/>
	);
}
