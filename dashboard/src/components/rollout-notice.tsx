/**
 * Warning of the health gate about a rollout that it only watches (`autoPauseAction: notify`),
 * shown until somebody dismisses it.
 */
import { Alert, Button, Group, Stack, Text } from "@mantine/core";
import { useChange } from "../api";
import { releasePath } from "../paths";
import { useAppMay } from "../permissions";
import { Problem } from "./answer";
import type { Channel } from "./channel-badges";
import { TextLink } from "./link";
import { notify } from "./notify";
import { Time } from "./time";

export function RolloutNotice({
	appId,
	orgId,
	channel,
	isLinked = false,
}: {
	readonly appId: string;
	readonly orgId: string | undefined;
	readonly channel: Channel;
	/** Whether the page of the release is elsewhere. */
	readonly isLinked?: boolean;
}) {
	const may = useAppMay(appId, orgId);
	const dismiss = useChange("POST /channel", () => notify("Warning dismissed."));
	const { rolloutNotice: notice, rollout_version_info: rollout } = channel;
	if (notice === null) return null;
	return (
		<Alert
			color="orange"
			title={`The rollout of ${rollout?.name ?? "a bundle"} on ${channel.name} is failing`}
			role="alert"
		>
			<Stack gap="xs" align="flex-start">
				<Text size="sm">
					{notice.reason} The rollout continues, because this channel only notifies. <Time value={notice.at} />
				</Text>
				{dismiss.isError ? <Problem error={dismiss.error} /> : null}
				<Group gap="sm">
					{isLinked ? (
						<TextLink to={releasePath(appId, channel.name, channel.rollout_release_id ?? rollout?.name ?? null)}>
							View release
						</TextLink>
					) : null}
					{may("channel.promote_bundle") === true ? (
						<Button
							size="xs"
							variant="default"
							loading={dismiss.isPending}
							onClick={() => dismiss.mutate({ body: { app_id: appId, channel: channel.name, rolloutNotice: null } })}
						>
							Dismiss warning
						</Button>
					) : null}
				</Group>
			</Stack>
		</Alert>
	);
}
