/** The apps of an organization, and a new one. */
import { Button, Code, Group, Stack, TextInput } from "@mantine/core";
import { useInfiniteQuery } from "@tanstack/react-query";
import { useEffect, useState } from "react";
import { useLocation } from "wouter";
import { askPage, useChange } from "../api";
import type { OrganizationScreenProps } from "../app";
import { useOrganizations } from "../organizations";
import { Loading, Problem } from "../parts/answer";
import { Dialog } from "../parts/dialog";
import { TextLink } from "../parts/link";
import { Empty, Screen } from "../parts/screen";
import { DataTable } from "../parts/table";
import { Time } from "../parts/time";
import { appPath } from "../paths";
import { useOrganizationMay } from "../permissions";

const SHOWN_AT_ONCE = 50;

/** The API lists the apps of all organizations; pages are asked for until there is a page's worth of this one's. */
function useAppsOf(orgId: string) {
	const pages = useInfiniteQuery({
		queryKey: ["GET /app", "pages"],
		initialPageParam: 0,
		queryFn: ({ pageParam }) => askPage("GET /app", {}, pageParam),
		getNextPageParam: (last, all) => (last.hasNext ? all.length : undefined),
	});
	const [wanted, setWanted] = useState(SHOWN_AT_ONCE);
	const found = pages.data?.pages.flatMap(({ items }) => items).filter(({ owner_org }) => owner_org === orgId) ?? [];
	const { hasNextPage, isFetching, isError, fetchNextPage } = pages;
	const isShort = found.length < wanted && hasNextPage;
	useEffect(() => {
		if (isShort && !isFetching && !isError) void fetchNextPage();
	}, [isShort, isFetching, isError, fetchNextPage]);
	return {
		pages,
		apps: found.slice(0, wanted),
		isComplete: pages.data !== undefined && !isShort,
		hasMore: found.length > wanted || hasNextPage,
		more: () => setWanted(wanted + SHOWN_AT_ONCE),
	};
}

export default function Apps({ orgId }: OrganizationScreenProps) {
	const { pages, apps, isComplete, hasMore, more } = useAppsOf(orgId);
	const organizations = useOrganizations();
	const may = useOrganizationMay(orgId);
	const [isOpen, setOpen] = useState(false);
	const name = organizations.data?.find(({ id }) => id === orgId)?.name;
	const create = may("org.create_app") === true ? <Button onClick={() => setOpen(true)}>New app</Button> : undefined;
	if (organizations.data !== undefined && name === undefined) {
		return (
			<Screen title="Apps">
				<Empty title="There is no such organization, or you are not in it">
					<TextLink to="/organizations">Choose one of yours</TextLink>, or ask its administrator for an invitation.
				</Empty>
			</Screen>
		);
	}
	return (
		<Screen title="Apps" note={name} actions={create}>
			{pages.isError ? <Problem error={pages.error} onRetry={() => void pages.refetch()} /> : null}
			{!isComplete && apps.length === 0 && !pages.isError ? <Loading what="apps" /> : null}
			{isComplete && apps.length === 0 ? (
				<Empty title="No apps yet">
					{create === undefined
						? "Ask an administrator to make one, or to give you a role at one."
						: "Make one with the id of your Capacitor or Electron app, upload a bundle, and point a channel to it."}
				</Empty>
			) : null}
			{apps.length > 0 ? (
				<DataTable
					label="Apps"
					rows={apps}
					rowKey={({ id }) => id}
					columns={[
						{ title: "Name", cell: (app) => <TextLink to={appPath(app.app_id)}>{app.name}</TextLink> },
						{ title: "App id", cell: ({ app_id }) => <Code>{app_id}</Code> },
						{ title: "Created", wideOnly: true, cell: ({ created_at }) => <Time value={created_at} /> },
					]}
				/>
			) : null}
			{apps.length > 0 && hasMore ? (
				<Group justify="center">
					<Button variant="default" loading={pages.isFetching} onClick={more}>
						Show more apps
					</Button>
				</Group>
			) : null}
			{isOpen ? <CreateApp orgId={orgId} onClose={() => setOpen(false)} /> : null}
		</Screen>
	);
}

function CreateApp({ orgId, onClose }: { readonly orgId: string; readonly onClose: () => void }) {
	const [, navigate] = useLocation();
	const [name, setName] = useState("");
	const [appId, setAppId] = useState("");
	const create = useChange("POST /app", (app) => {
		onClose();
		navigate(appPath(app.app_id, "connect"));
	});
	return (
		<Dialog onClose={onClose} title="New app">
			<form
				onSubmit={(event) => {
					event.preventDefault();
					create.mutate({ body: { app_id: appId, name, owner_org: orgId } });
				}}
			>
				<Stack>
					<TextInput
						label="Name"
						required
						data-autofocus
						maxLength={128}
						value={name}
						onChange={(event) => setName(event.currentTarget.value)}
					/>
					<TextInput
						label="App id"
						description="The appId of your capacitor.config; it cannot be changed later."
						placeholder="com.example.app"
						required
						autoCapitalize="off"
						spellCheck={false}
						value={appId}
						onChange={(event) => setAppId(event.currentTarget.value)}
					/>
					{create.isError ? <Problem error={create.error} /> : null}
					<Group justify="flex-end">
						<Button type="submit" loading={create.isPending}>
							Create app
						</Button>
					</Group>
				</Stack>
			</form>
		</Dialog>
	);
}
