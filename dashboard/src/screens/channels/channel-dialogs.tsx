/**
 * The dialogs that change one channel, for everybody who may, whether they see its app or the
 * channel alone.
 */
import { useChange } from "../../api";
import type { Channel } from "../../components/channel-badges";
import { notify } from "../../components/notify";
import { RollBack } from "../../components/roll-back";
import { ChannelForm } from "./channel-form";
import { Promote } from "./promote";

export type ChannelDialog = "promote" | "rollback" | "edit";

export function ChannelDialogs({
	appId,
	channel,
	dialog,
	maySet,
	seesApp = true,
	onClose,
}: {
	readonly appId: string;
	readonly channel: Channel;
	/** The open one. */
	readonly dialog: ChannelDialog;
	readonly maySet: boolean;
	readonly seesApp?: boolean;
	readonly onClose: () => void;
}) {
	const edit = useChange("POST /channel", () => {
		notify(`Channel ${channel.name} saved.`);
		onClose();
	});
	if (dialog === "promote") {
		return <Promote appId={appId} channel={channel} maySet={maySet} seesApp={seesApp} onClose={onClose} />;
	}
	if (dialog === "rollback") {
		const isInRollout = channel.rolloutEnabled && channel.rollout_version !== null;
		const version = isInRollout ? (channel.version?.name ?? null) : undefined;
		return <RollBack appId={appId} channel={channel.name} version={version} onClose={onClose} />;
	}
	return (
		<ChannelForm
			title={`Edit ${channel.name}`}
			action="Save channel"
			name={channel.name}
			settings={channel}
			isPending={edit.isPending}
			error={edit.error}
			onClose={onClose}
			onSubmit={(name, settings) => edit.mutate({ body: { app_id: appId, channel: name, ...settings } })}
		/>
	);
}
