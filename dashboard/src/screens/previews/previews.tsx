/** The previews of an app's pull requests: what is open, its page for testers, and closing one. */
import { Anchor, Button, Group, Stack, Text } from "@mantine/core";
import { useState } from "react";
import { type AnswerOf, useAllPages, useChange } from "../../api";
import { Answer } from "../../components/answer";
import { Badge } from "../../components/badge";
import { Confirm } from "../../components/form-dialog";
import { TextLink } from "../../components/link";
import { notify } from "../../components/notify";
import { Empty, Screen } from "../../components/screen";
import { countOf, sizeText } from "../../components/size";
import { Day, Time } from "../../components/time";
import { WholeList } from "../../components/whole-list";
import { appPath, bundlePath, channelPath } from "../../paths";
import { useAppMay } from "../../permissions";
import type { AppScreenProps } from "../../screen-props";

type Preview = AnswerOf<"GET /preview">[number];

const nameOf = ({ repository, number }: Preview) => `${repository}#${number}`;

export default function Previews({ appId, orgId }: AppScreenProps) {
	const previews = useAllPages("GET /preview", { query: { app_id: appId } });
	const may = useAppMay(appId, orgId);
	const mayClose = may("app.create_channel") === true && may("bundle.delete") === true;
	const [closing, setClosing] = useState<Preview>();
	return (
		<Screen
			title="Previews"
			note="A preview is the channel of a pull request, with every bundle that its builds uploaded. It is deleted as a whole."
		>
			<Answer query={previews} what="previews">
				{(items) =>
					items.length === 0 ? (
						<Empty title="No previews yet">
							Connect your CI to open one for each pull request:{" "}
							<TextLink to={appPath(appId, "connect")}>Setup</TextLink>
						</Empty>
					) : (
						<WholeList
							label="Previews"
							noun={["preview", "previews"]}
							textOf={(preview) =>
								[
									preview.title ?? "",
									nameOf(preview),
									preview.version ?? "",
									preview.channel ?? "",
									preview.state,
								].join(" ")
							}
							first="opened"
							rows={items}
							rowKey={({ id }) => id}
							columns={[
								{
									title: "Pull request",
									sort: "name",
									value: (preview) => preview.title ?? nameOf(preview),
									cell: (preview) => (
										<Stack gap={4}>
											<Text size="sm">{preview.title ?? nameOf(preview)}</Text>
											<Group gap="xs">
												<Text size="sm" c="dimmed">
													{nameOf(preview)}
												</Text>
												{preview.state === "closed" ? <Badge>Closed</Badge> : null}
											</Group>
										</Stack>
									),
								},
								{
									title: "Live bundle",
									sort: "version",
									value: ({ version }) => version,
									cell: ({ version }) =>
										version === null ? (
											<Text size="sm" c="dimmed">
												None
											</Text>
										) : (
											<TextLink to={bundlePath(appId, version)}>{version}</TextLink>
										),
								},
								{
									title: "Contents",
									wideOnly: true,
									cell: ({ bundles, size, devices }) =>
										`${countOf(bundles, "bundle")}, ${sizeText(size)}${devices === null ? "" : `, ${countOf(devices, "device")}`}`,
								},
								{
									title: "Ends",
									sort: "ends",
									value: ({ expires_at, closed_at }) => expires_at ?? closed_at,
									wideOnly: true,
									cell: ({ expires_at, closed_at }) =>
										expires_at !== null ? (
											<Day value={expires_at} />
										) : closed_at === null ? null : (
											<Time value={closed_at} />
										),
								},
								{
									title: "Actions",
									cell: (preview) =>
										preview.state === "closed" ? null : (
											<Group gap="xs">
												<Anchor
													size="sm"
													underline="always"
													href={preview.page_url ?? undefined}
													target="_blank"
													rel="noreferrer"
												>
													Page for testers
												</Anchor>
												{preview.channel === null ? null : (
													<TextLink to={channelPath(appId, preview.channel)}>Channel</TextLink>
												)}
												{mayClose ? (
													<Button
														size="xs"
														variant="default"
														aria-label={`Close ${nameOf(preview)}`}
														onClick={() => setClosing(preview)}
													>
														Close
													</Button>
												) : null}
											</Group>
										),
								},
							]}
						/>
					)
				}
			</Answer>
			{closing === undefined ? null : (
				<ClosePreview appId={appId} preview={closing} onClose={() => setClosing(undefined)} />
			)}
		</Screen>
	);
}

function ClosePreview({
	appId,
	preview,
	onClose,
}: {
	readonly appId: string;
	readonly preview: Preview;
	readonly onClose: () => void;
}) {
	const { repository, number, channel, bundles, size, devices } = preview;
	const close = useChange("DELETE /preview", () => {
		notify(`Preview ${nameOf(preview)} closed.`);
		onClose();
	});
	return (
		<Confirm
			title={`Close the preview of ${nameOf(preview)}?`}
			action="Close preview"
			isPending={close.isPending}
			error={close.error}
			onConfirm={() => close.mutate({ query: { app_id: appId, repository, number: String(number) } })}
			onClose={onClose}
		>
			<Text size="sm">
				The channel {channel} and {countOf(bundles, "bundle")} ({sizeText(size)}) are deleted.{" "}
				{devices === 0
					? "No device runs it."
					: `${devices === null ? "Devices that run it" : countOf(devices, "device")} get the public version again.`}
			</Text>
		</Confirm>
	);
}
