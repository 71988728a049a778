/** The bundles of an app, newest first: upload a bundle, or delete all unused ones. */
import { Button, Group, Stack, Text } from "@mantine/core";
import { lazy, Suspense, useState } from "react";
import { useChange, usePage } from "../../api";
import { Answer, Loading } from "../../components/answer";
import { Badge } from "../../components/badge";
import { useDo } from "../../components/do";
import { Confirm } from "../../components/form-dialog";
import { KeptUntil, runningText } from "../../components/kept-until";
import { TextLink } from "../../components/link";
import { notify } from "../../components/notify";
import { Empty, Screen } from "../../components/screen";
import { countOf, sizeText } from "../../components/size";
import { DataTable, Pager, usePageNumber } from "../../components/table";
import { Time } from "../../components/time";
import { useBundleDeletionPlan } from "../../dry-runs";
import { appPath, bundlePath, channelPath } from "../../paths";
import { useAppMay } from "../../permissions";
import type { AppScreenProps } from "../../screen-props";

const Upload = lazy(() => import("./upload"));

export default function Bundles({ appId, orgId }: AppScreenProps) {
	const [page, setPage] = usePageNumber();
	const bundles = usePage("GET /bundle", { query: { app_id: appId } }, page);
	const may = useAppMay(appId, orgId);
	const [dialog, setDialog] = useState<"upload" | "clean" | undefined>();
	const close = () => setDialog(undefined);
	const mayUpload = may("app.upload_bundle") === true;
	useDo("upload", () => setDialog("upload"), mayUpload);
	return (
		<Screen
			title="Bundles"
			note="Web builds of your app that channels can serve."
			actions={
				<>
					{mayUpload ? <Button onClick={() => setDialog("upload")}>Upload bundle</Button> : null}
					{may("bundle.delete") === true ? (
						<Button variant="danger" onClick={() => setDialog("clean")}>
							Delete unused bundles
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
								? "Upload a zip of your built web app, here or from your CI: "
								: "Nothing is uploaded yet. To upload from CI, "}
							<TextLink to={appPath(appId, "connect")}>connect your CI</TextLink>.
						</Empty>
					) : (
						<Stack gap="sm">
							<DataTable
								label="Bundles"
								isLinked
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
												<Badge>External</Badge>
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
					<Upload appId={appId} orgId={orgId} onlyUpload onClose={close} />
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
			{countOf(count, "more bundle")} {count === 1 ? "is" : "are"} kept, so that channels can roll back.
		</Text>
	);
}

/** Names the bundles that the dry run lists. */
function DeleteUnused({ appId, onClose }: { readonly appId: string; readonly onClose: () => void }) {
	const plan = useBundleDeletionPlan(appId, { all: "true" });
	const remove = useChange("DELETE /bundle", () => {
		notify("Unused bundles deleted.");
		onClose();
	});
	return (
		<Confirm
			title="Delete all unused bundles?"
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
							<Text size="sm">All bundles are in use. There is nothing to delete.</Text>
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
									This also removes the override of {countOf(removes.device_overrides, "device")}, which will follow
									channels again.
								</Text>
							)}
						</>
					)
				}
			</Answer>
		</Confirm>
	);
}
