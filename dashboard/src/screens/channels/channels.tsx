/** The channels of an app, and a form that creates one. */
import { Button, Stack, Text } from "@mantine/core";
import { useState } from "react";
import { useLocation } from "wouter";
import { useChange, usePage } from "../../api";
import { Answer } from "../../components/answer";
import { ChannelBadges, platformsOf } from "../../components/channel-badges";
import { ChannelProblemTitles } from "../../components/channel-problems";
import { useDo } from "../../components/do";
import { TextLink } from "../../components/link";
import { notify } from "../../components/notify";
import { Empty, Screen } from "../../components/screen";
import { DataTable, Pager, usePageNumber } from "../../components/table";
import { Time } from "../../components/time";
import { bundlePath, channelPath } from "../../paths";
import { useAppMay } from "../../permissions";
import type { AppScreenProps } from "../../screen-props";
import { ChannelForm, NEW_CHANNEL } from "./channel-form";

export default function Channels({ appId, orgId }: AppScreenProps) {
	const [page, setPage] = usePageNumber();
	const channels = usePage("GET /channel", { query: { app_id: appId } }, page);
	const may = useAppMay(appId, orgId);
	const [isOpen, setOpen] = useState(false);
	useDo("new", () => setOpen(true), may("app.create_channel") === true);
	const create =
		may("app.create_channel") === true ? <Button onClick={() => setOpen(true)}>New channel</Button> : undefined;
	return (
		<Screen title="Channels" note="A channel decides which bundle its devices get." actions={create}>
			<Answer query={channels} what="channels">
				{({ items, hasNext }) =>
					items.length === 0 && page === 0 ? (
						<Empty title="No channels yet">
							{create === undefined
								? "Ask an administrator of the app to create one."
								: "A public channel serves every device that did not join another one."}
						</Empty>
					) : (
						<Stack gap="sm">
							<DataTable
								label="Channels"
								isLinked
								rows={items}
								rowKey={({ id }) => id}
								columns={[
									{
										title: "Channel",
										cell: (channel) => (
											<Stack gap={4}>
												<TextLink to={channelPath(appId, channel.name)}>{channel.name}</TextLink>
												<ChannelBadges channel={channel} />
												<ChannelProblemTitles channel={channel} />
											</Stack>
										),
									},
									{
										title: "Live bundle",
										cell: ({ version }) =>
											version === null ? (
												<Text size="sm" c="dimmed">
													None
												</Text>
											) : (
												<TextLink to={bundlePath(appId, version.name)}>{version.name}</TextLink>
											),
									},
									{ title: "Platforms", wideOnly: true, cell: platformsOf },
									{ title: "Changed", wideOnly: true, cell: ({ updated_at }) => <Time value={updated_at} /> },
								]}
							/>
							<Pager page={page} hasNext={hasNext} onPage={setPage} />
						</Stack>
					)
				}
			</Answer>
			{isOpen ? <CreateChannel appId={appId} onClose={() => setOpen(false)} /> : null}
		</Screen>
	);
}

function CreateChannel({ appId, onClose }: { readonly appId: string; readonly onClose: () => void }) {
	const [, navigate] = useLocation();
	const create = useChange("POST /channel", (_, { body }) => {
		notify(`Channel ${body.channel} created.`);
		onClose();
		navigate(channelPath(appId, body.channel));
	});
	return (
		<ChannelForm
			title="New channel"
			action="Create channel"
			settings={NEW_CHANNEL}
			isPending={create.isPending}
			error={create.error}
			onClose={onClose}
			onSubmit={(channel, settings) => create.mutate({ body: { app_id: appId, channel, ...settings } })}
		/>
	);
}
