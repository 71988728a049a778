/**
 * The dialogs that change one channel, for everybody who may, whether they see its app or the
 * channel alone.
 */
import { useChange } from "../../api";
import type { Channel } from "../../components/channel-badges";
import { notify } from "../../components/notify";
import { RollBack } from "../../components/roll-back";
import { ReleaseDialog } from "../../release-dialog";
import { ChannelForm } from "./channel-form";

export type ChannelDialog = "release" | "rollback" | "edit";

export function ChannelDialogs({
	appId,
	channel,
	dialog,
	orgId,
	seesApp = true,
	onClose,
}: {
	readonly appId: string;
	readonly channel: Channel;
	/** The open one. */
	readonly dialog: ChannelDialog;
	readonly orgId: string | undefined;
	readonly seesApp?: boolean;
	readonly onClose: () => void;
}) {
	const edit = useChange("POST /channel", () => {
		notify(`Channel ${channel.name} saved.`);
		onClose();
	});
	if (dialog === "release") {
		return <ReleaseDialog appId={appId} orgId={orgId} channel={channel.name} seesApp={seesApp} onClose={onClose} />;
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
