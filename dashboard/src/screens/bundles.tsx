/** The bundles of an app, newest first; uploading one, and deleting all that no channel uses. */
import { Badge, Button, Group, Stack, Text } from "@mantine/core";
import { lazy, Suspense, useState } from "react";
import { useChange, usePage } from "../api";
import type { AppScreenProps } from "../app";
import { Answer, Loading } from "../parts/answer";
import { Confirm } from "../parts/confirm";
import { KeptUntil, runningText } from "../parts/kept-until";
import { TextLink } from "../parts/link";
import { say } from "../parts/say";
import { Empty, Screen } from "../parts/screen";
import { countOf, sizeText } from "../parts/size";
import { DataTable, Pager, usePageNumber } from "../parts/table";
import { Time } from "../parts/time";
import { appPath, bundlePath, channelPath } from "../paths";
import { useAppMay } from "../permissions";
import { useBundleDeletionPlan } from "../plans";

const Upload = lazy(() => import("./upload"));

export default function Bundles({ appId, orgId }: AppScreenProps) {
	const [page, setPage] = usePageNumber();
	const bundles = usePage("GET /bundle", { query: { app_id: appId } }, page);
	const may = useAppMay(appId, orgId);
	const [dialog, setDialog] = useState<"upload" | "clean" | undefined>();
	const close = () => setDialog(undefined);
	const mayUpload = may("app.upload_bundle") === true;
	return (
		<Screen
			title="Bundles"
			note="The builds of your app that channels can point to."
			actions={
				<>
					{mayUpload ? <Button onClick={() => setDialog("upload")}>Upload a bundle</Button> : null}
					{may("bundle.delete") === true ? (
						<Button variant="default" onClick={() => setDialog("clean")}>
							Delete unused ones
						</Button>
					) : null}
				</>
			}
		>
			<Answer query={bundles} what="bundles">
				{({ items, hasNext }) =>
					items.length === 0 && page === 0 ? (
						<Empty title="No bundles yet">
							{mayUpload
								? "Upload the zip of your built web app, here or from your CI: "
								: "Whoever may upload can do so here or from CI: "}
							<TextLink to={appPath(appId, "connect")}>connect your CI</TextLink>.
						</Empty>
					) : (
						<Stack gap="sm">
							<DataTable
								label="Bundles"
								rows={items}
								rowKey={({ id }) => id}
								columns={[
									{ title: "Version", cell: ({ name }) => <TextLink to={bundlePath(appId, name)}>{name}</TextLink> },
									{
										title: "Channels",
										cell: ({ channels }) =>
											channels.length === 0 ? (
												<Text size="sm" c="dimmed">
													None
												</Text>
											) : (
												<Group gap={6}>
													{channels.map((channel) => (
														<TextLink key={channel} to={channelPath(appId, channel)}>
															{channel}
														</TextLink>
													))}
												</Group>
											),
									},
									{
										title: "Size",
										wideOnly: true,
										cell: ({ size, checksum, storage_provider }) =>
											storage_provider === "external" ? (
												<Badge variant="light" color="gray" tt="none">
													External
												</Badge>
											) : size === null || checksum === null ? (
												"—"
											) : (
												sizeText(size)
											),
									},
									{
										title: "Key",
										wideOnly: true,
										cell: ({ session_key, key_id, signed_by }) => (
											<Text size="sm" {...(signed_by === null ? { c: "dimmed" } : {})}>
												{signed_by === null
													? session_key === null
														? "Not encrypted"
														: `${key_id ?? "Encrypted"}, not verified`
													: signed_by}
											</Text>
										),
									},
									{ title: "Created", cell: ({ created_at }) => <Time value={created_at} /> },
									{
										title: "Kept until",
										wideOnly: true,
										cell: ({ expires_at }) => <KeptUntil expiresAt={expires_at} />,
									},
								]}
							/>
							<Pager page={page} hasNext={hasNext} onPage={setPage} />
						</Stack>
					)
				}
			</Answer>
			{dialog === "upload" && orgId !== undefined ? (
				<Suspense fallback={<Loading what="the upload" />}>
					<Upload appId={appId} orgId={orgId} onClose={close} />
				</Suspense>
			) : null}
			{dialog === "clean" ? <DeleteUnused appId={appId} onClose={close} /> : null}
		</Screen>
	);
}

const NAMES_SHOWN = 20;

function KeptForRollback({ count }: { readonly count: number }) {
	if (count === 0) return null;
	return (
		<Text size="sm">
			{countOf(count, "more bundle")} {count === 1 ? "stays" : "stay"}, so that channels can be rolled back.
		</Text>
	);
}

/** Names what goes, as the API says it. */
function DeleteUnused({ appId, onClose }: { readonly appId: string; readonly onClose: () => void }) {
	const plan = useBundleDeletionPlan(appId, { all: "true" });
	const remove = useChange("DELETE /bundle", () => {
		say("The unused bundles are deleted.");
		onClose();
	});
	return (
		<Confirm
			title="Delete every unused bundle?"
			action="Delete unused bundles"
			isPending={remove.isPending}
			isReady={plan.data !== undefined && plan.data.removes.bundles > 0}
			error={remove.error}
			onClose={onClose}
			onConfirm={() => remove.mutate({ query: { app_id: appId, all: "true" } })}
		>
			<Answer query={plan} what="the unused bundles">
				{({ removes, bundles, kept_for_rollback }) =>
					removes.bundles === 0 ? (
						<>
							<Text size="sm">Every bundle is in use; there is nothing to delete.</Text>
							<KeptForRollback count={kept_for_rollback} />
						</>
					) : (
						<>
							<Text size="sm">
								{countOf(removes.bundles, "unused bundle")} and {sizeText(removes.bundle_bytes)} of files will be
								deleted. This cannot be undone.
							</Text>
							<Text size="sm">{runningText(removes.devices)}</Text>
							<ul>
								{bundles.slice(0, NAMES_SHOWN).map(({ id, version, devices }) => (
									<li key={id}>
										{version}
										{devices === 0 ? "" : `, on ${countOf(devices, "device")}`}
									</li>
								))}
								{removes.bundles > NAMES_SHOWN ? (
									<li>and {countOf(removes.bundles - NAMES_SHOWN, "more", "more")}</li>
								) : null}
							</ul>
							<KeptForRollback count={kept_for_rollback} />
							{removes.device_overrides === 0 ? null : (
								<Text size="sm">
									What was set by hand for {countOf(removes.device_overrides, "device")} goes too: they follow channels
									again.
								</Text>
							)}
						</>
					)
				}
			</Answer>
		</Confirm>
	);
}
