/**
 * The apps of an organization with what is live, how many devices they have and what failed; the
 * one problem stands on top.
 */
import { Button, Code, Stack, Text, TextInput } from "@mantine/core";
import { lazy, Suspense, useState } from "react";
import { useLocation } from "wouter";
import { useAsk, useChange, usePage } from "../../api";
import { Answer } from "../../components/answer";
import { useDo } from "../../components/do";
import { formErrors } from "../../components/field-errors";
import { FormDialog } from "../../components/form-dialog";
import { TextLink } from "../../components/link";
import { Empty, Screen } from "../../components/screen";
import { Pager, usePageNumber } from "../../components/table";
import { useOrganizations } from "../../organizations";
import { appPath } from "../../paths";
import { useHeld, useOrganizationMay, useOwnBindings } from "../../permissions";
import type { OrganizationScreenProps } from "../../screen-props";
import { AppList } from "./app-list";
import { DeletedApps } from "./deleted-apps";
import { OwnChannels } from "./own-channels";
import { OfferedApps } from "./transfers";

const LOOK_AGAIN_MS = 30_000;

/** With the drawing of codes, which only the first visit needs. */
const AddSample = lazy(async () => ({ default: (await import("../../components/sample-app")).AddSample }));
const NoAppYet = lazy(async () => ({ default: (await import("./first-run")).NoAppYet }));

export default function Apps({ orgId }: OrganizationScreenProps) {
	const [page, setPage] = usePageNumber();
	const apps = usePage("GET /statistics/apps", { query: { org_id: orgId } }, page, { everyMs: LOOK_AGAIN_MS });
	const organizations = useOrganizations();
	const may = useOrganizationMay(orgId);
	const channels = useOwnChannels(orgId);
	const [isOpen, setOpen] = useState(false);
	const [isLooking, setLooking] = useState(false);
	useDo("sample", () => setLooking(true), may("org.create_app") === true);
	const isEmpty = apps.data?.items.length === 0;
	const addresses = useAsk("GET /service/addresses", {}, { enabled: isEmpty });
	const isLocalRun = addresses.data?.some(({ kind }) => kind === "this_computer") === true;
	const name = organizations.data?.find(({ id }) => id === orgId)?.name;
	useDo("new", () => setOpen(true), may("org.create_app") === true);
	const create = may("org.create_app") === true ? <Button onClick={() => setOpen(true)}>New app</Button> : undefined;
	if (organizations.data !== undefined && name === undefined) {
		return (
			<Screen title="Apps">
				<Empty title="Organization not found">
					It does not exist, or you are not a member. <TextLink to="/organizations">View your organizations</TextLink>
				</Empty>
			</Screen>
		);
	}
	return (
		<Screen title="Apps" note={name} actions={create}>
			{isLooking && !isEmpty ? (
				<Suspense>
					<div className="card">
						<AddSample orgId={orgId} />
					</div>
				</Suspense>
			) : null}
			<Answer query={apps} what="apps">
				{({ items, hasNext }) =>
					items.length === 0 && page === 0 && channels.length > 0 ? null : items.length === 0 && page === 0 ? (
						<Stack gap="md">
							{create === undefined ? (
								<Empty title="No apps yet">Ask an administrator to create one or to give you a role in one.</Empty>
							) : (
								<Suspense>
									<NoAppYet orgId={orgId} create={<Button onClick={() => setOpen(true)}>Create app</Button>} />
								</Suspense>
							)}
							{isLocalRun && create !== undefined ? (
								<Text size="sm" c="dimmed">
									<Code>npm run demo</Code> in a second terminal opens and closes the preview of a pull request here.
								</Text>
							) : null}
						</Stack>
					) : (
						<Stack gap="sm">
							<AppList apps={items} />
							<Pager page={page} hasNext={hasNext} onPage={setPage} />
						</Stack>
					)
				}
			</Answer>
			{channels.length === 0 ? null : <OwnChannels orgId={orgId} bindings={channels} />}
			{may("org.create_app") === true ? <OfferedApps orgId={orgId} /> : null}
			<DeletedApps orgId={orgId} />
			{isOpen ? <CreateApp orgId={orgId} onClose={() => setOpen(false)} /> : null}
		</Screen>
	);
}

/** The user's roles on channels of apps that they do not see. */
function useOwnChannels(orgId: string) {
	const held = useHeld(orgId);
	const bindings = useOwnBindings(orgId, undefined, held?.includes("app.read") === false).data ?? [];
	const seen = new Set(bindings.filter(({ channel }) => channel === null).map(({ app_id }) => app_id));
	return bindings.filter(({ app_id, channel }) => channel !== null && !seen.has(app_id));
}

const ID_ERRORS = ["app_id", "app_id_already_exists"];

function CreateApp({ orgId, onClose }: { readonly orgId: string; readonly onClose: () => void }) {
	const [, navigate] = useLocation();
	const [name, setName] = useState("");
	const [appId, setAppId] = useState("");
	const create = useChange("POST /app", (app) => {
		onClose();
		navigate(appPath(app.app_id));
	});
	const errors = formErrors(create.error, ["name", ...ID_ERRORS]);
	return (
		<FormDialog
			title="New app"
			action="Create app"
			isPending={create.isPending}
			error={errors.rest}
			onSubmit={() => create.mutate({ body: { app_id: appId, name, owner_org: orgId } })}
			onClose={onClose}
		>
			<TextInput
				label="Name"
				error={errors.at("name")}
				required
				data-autofocus
				maxLength={128}
				value={name}
				onChange={(event) => setName(event.currentTarget.value)}
			/>
			<TextInput
				label="App id"
				error={errors.at(...ID_ERRORS)}
				description="The appId of your capacitor.config. It cannot be changed later."
				placeholder="com.example.app"
				required
				autoCapitalize="off"
				spellCheck={false}
				value={appId}
				onChange={(event) => setAppId(event.currentTarget.value)}
			/>
		</FormDialog>
	);
}
