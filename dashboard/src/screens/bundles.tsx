/** The bundles of an app, newest first; uploading one, and deleting all that no channel uses. */
import { Badge, Button, Group, Stack, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { lazy, Suspense, useState } from "react";
import { askPage, useChange, usePage } from "../api";
import type { AppScreenProps } from "../app";
import { Answer, Loading } from "../parts/answer";
import { Confirm } from "../parts/confirm";
import { TextLink } from "../parts/link";
import { say } from "../parts/say";
import { Empty, Screen } from "../parts/screen";
import { countOf, sizeText } from "../parts/size";
import { DataTable, Pager, usePageNumber } from "../parts/table";
import { Time } from "../parts/time";
import { appPath, bundlePath, channelPath } from "../paths";
import { useAppMay } from "../permissions";

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
									{ title: "Created", cell: ({ created_at }) => <Time value={created_at} /> },
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

const MOST_PAGES = 20;
const NAMES_SHOWN = 20;

/** Names what goes: the API's own word for it is "every bundle that no channel uses". */
function DeleteUnused({ appId, onClose }: { readonly appId: string; readonly onClose: () => void }) {
	const unused = useQuery({
		queryKey: ["GET /bundle", "unused", appId],
		queryFn: async () => {
			const names: string[] = [];
			let page = 0;
			for (let hasNext = true; hasNext && page < MOST_PAGES; page++) {
				const answer = await askPage("GET /bundle", { query: { app_id: appId } }, page);
				names.push(...answer.items.filter(({ channels }) => channels.length === 0).map(({ name }) => name));
				hasNext = answer.hasNext;
			}
			return { names, isAll: page < MOST_PAGES };
		},
	});
	const remove = useChange("DELETE /bundle", () => {
		say("The unused bundles are deleted.");
		onClose();
	});
	return (
		<Confirm
			title="Delete every unused bundle?"
			action="Delete unused bundles"
			isPending={remove.isPending}
			isReady={unused.data !== undefined && unused.data.names.length > 0}
			error={remove.error}
			onClose={onClose}
			onConfirm={() => remove.mutate({ query: { app_id: appId, all: "true" } })}
		>
			<Answer query={unused} what="the unused bundles">
				{({ names, isAll }) =>
					names.length === 0 ? (
						<Text size="sm">Every bundle is used by a channel; there is nothing to delete.</Text>
					) : (
						<>
							<Text size="sm">
								No channel uses {isAll ? "" : "at least "}
								{countOf(names.length, "bundle")}. They and their files go for good; devices that run one keep it until
								their next check.
							</Text>
							<ul>
								{names.slice(0, NAMES_SHOWN).map((name) => (
									<li key={name}>{name}</li>
								))}
								{names.length > NAMES_SHOWN ? <li>and {names.length - NAMES_SHOWN} more</li> : null}
							</ul>
						</>
					)
				}
			</Answer>
		</Confirm>
	);
}
