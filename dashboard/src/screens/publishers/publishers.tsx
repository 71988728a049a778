/**
 * The CI jobs that an app trusts: list with last use, the form that adds and changes one, and
 * deletion.
 */

import { Button, Menu, Text } from "@mantine/core";
import { useEffect, useState } from "react";
import { CI_KEY_MINUTES, UNUSED_DAYS } from "../../../../src/domain/defaults";
import { useAllPages, useChange } from "../../api";
import { Answer } from "../../components/answer";
import { Badge } from "../../components/badge";
import { Note } from "../../components/card";
import { CopyChip } from "../../components/copy-chip";
import { Confirm } from "../../components/form-dialog";
import { Icon } from "../../components/icon";
import { TextLink } from "../../components/link";
import { notify } from "../../components/notify";
import { Empty, Screen } from "../../components/screen";
import { Time } from "../../components/time";
import { WholeList } from "../../components/whole-list";
import { IconDotsVertical, IconPencil, IconTrash } from "../../icons";
import { appPath } from "../../paths";
import { useAppMay } from "../../permissions";
import type { AppScreenProps } from "../../screen-props";
import {
	isAnyBranch,
	isReleasing,
	PRESETS,
	type Preset,
	type Publisher,
	STAGE_NAMES,
	trustText,
} from "./publisher-fields";
import { PublisherForm } from "./publisher-form";

/** While a publisher waits for its first job, the list looks for it more often. */
const WAITING_EVERY_MS = 5_000;

type Open = { readonly act: "add" } | { readonly act: "edit" | "delete"; readonly publisher: Publisher };

export default function Publishers({ appId, orgId }: AppScreenProps) {
	const may = useAppMay(appId, orgId);
	const mayManage = may("app.update_user_roles");
	const [isWaiting, setWaiting] = useState(false);
	const publishers = useAllPages(
		"GET /publisher",
		{ query: { app_id: appId } },
		{ enabled: mayManage === true, ...(isWaiting ? { everyMs: WAITING_EVERY_MS } : {}) },
	);
	const isAnyWaiting = publishers.data?.some(({ last_used_at }) => last_used_at === null) === true;
	useEffect(() => setWaiting(isAnyWaiting), [isAnyWaiting]);
	const [dialog, setDialog] = useState<Open | undefined>();
	const close = () => setDialog(undefined);
	return (
		<Screen
			title="Publishers"
			note={
				<>
					CI jobs that publish without a stored key. <a href="/docs/ci">Set up your CI</a>
				</>
			}
			actions={
				mayManage === true ? <Button onClick={() => setDialog({ act: "add" })}>Add publisher</Button> : undefined
			}
		>
			{mayManage === false ? (
				<Empty title="Only administrators of the app see its publishers">
					Ask an administrator to add your repository.
				</Empty>
			) : (
				<Answer query={publishers} what="the publishers">
					{(items) =>
						items.length === 0 ? (
							<Empty title="No publishers yet">
								Add a repository, and its jobs exchange their identity token for a key of {CI_KEY_MINUTES} minutes.
							</Empty>
						) : (
							<>
								{isAnyWaiting ? <WaitingNote appId={appId} /> : null}
								<WholeList
									label="Publishers"
									noun={["publisher", "publishers"]}
									rows={items}
									rowKey={({ id }) => id}
									textOf={({ name, stage, issuer, claims, last_job }) =>
										[name, stage, issuer, last_job?.repository ?? "", ...Object.values(claims)].join(" ")
									}
									first="name"
									descending={["used"]}
									chips={KINDS}
									columns={columns(setDialog)}
									factsOf={(publisher) => (
										<>
											<span>{stageText(publisher)}</span>
											<span>{trustOf(publisher)}</span>
										</>
									)}
								/>
							</>
						)
					}
				</Answer>
			)}
			{dialog?.act === "add" ? <PublisherForm appId={appId} publisher={undefined} onClose={close} /> : null}
			{dialog?.act === "edit" ? <PublisherForm appId={appId} publisher={dialog.publisher} onClose={close} /> : null}
			{dialog?.act === "delete" ? <DeletePublisher appId={appId} publisher={dialog.publisher} onClose={close} /> : null}
		</Screen>
	);
}

function WaitingNote({ appId }: { readonly appId: string }) {
	return (
		<Note title="A publisher waits for its first job">
			<span>
				This list shows the job by itself. The <TextLink to={appPath(appId, "connect")}>workflow</TextLink> is on the
				page Setup. A job that is refused prints the claim that differs.
			</span>
		</Note>
	);
}

const columns = (onOpen: (open: Open) => void) => [
	{
		title: "Name",
		sort: "name",
		value: ({ name }: Publisher) => name,
		cell: (publisher: Publisher) => (
			<span className="named">
				<bdi className="cut" title={publisher.name}>
					{publisher.name}
				</bdi>
				<PublisherState publisher={publisher} />
			</span>
		),
	},
	{
		title: "Stage",
		sort: "stage",
		value: ({ stage }: Publisher) => stage,
		wideOnly: true as const,
		width: 120,
		cell: (publisher: Publisher) => (
			<div className="cut" title={stageText(publisher)}>
				{stageText(publisher)}
			</div>
		),
	},
	{
		title: "Trusts",
		wideOnly: true as const,
		width: 250,
		cell: (publisher: Publisher) => (
			<div
				className={isAnyBranch(publisher.provider, publisher.stage, publisher.claims) ? "cut t-warn" : "cut"}
				title={allClaims(publisher)}
			>
				{trustOf(publisher)}
			</div>
		),
	},
	{
		title: "Last job",
		sort: "used",
		value: ({ last_used_at }: Publisher) => last_used_at,
		wideOnly: true as const,
		width: 200,
		cell: (publisher: Publisher) => <LastUse publisher={publisher} />,
	},
	{
		title: "Actions",
		width: 48,
		cell: (publisher: Publisher) => (
			<Menu position="bottom-end" width={200}>
				<Menu.Target>
					<button type="button" className="btn ghost icon-only sm" aria-label={`More about ${publisher.name}`}>
						<Icon of={IconDotsVertical} />
					</button>
				</Menu.Target>
				<Menu.Dropdown>
					<Menu.Item leftSection={<Icon of={IconPencil} />} onClick={() => onOpen({ act: "edit", publisher })}>
						Edit {publisher.name}
					</Menu.Item>
					<Menu.Item
						color="red"
						leftSection={<Icon of={IconTrash} />}
						onClick={() => onOpen({ act: "delete", publisher })}
					>
						Delete {publisher.name}
					</Menu.Item>
				</Menu.Dropdown>
			</Menu>
		),
	},
];

const KINDS = [
	{ value: "waiting", label: "Waiting for the first job", has: ({ last_used_at }: Publisher) => last_used_at === null },
	{ value: "unused", label: `Not used, ${UNUSED_DAYS} days`, has: ({ unused }: Publisher) => unused },
	{ value: "inactive", label: "Inactive", has: ({ active }: Publisher) => !active },
];

const stageText = ({ stage, channels }: Publisher) =>
	isReleasing(stage) && channels !== null ? `${STAGE_NAMES[stage]} to ${channels.join(", ")}` : STAGE_NAMES[stage];

const trustOf = ({ last_job, ...publisher }: Publisher) =>
	trustText({ ...publisher, repository: last_job?.repository ?? undefined });

/** With the ids, which decide. */
function allClaims({ issuer, claims }: Publisher): string {
	const facts = Object.entries(claims).map(([claim, text]) => `${claimLabel(claim)} ${text}`);
	return [issuer.replace(/^https:\/\//, ""), ...facts].join(", ");
}

function PublisherState({ publisher: { active, unused, last_used_at } }: { readonly publisher: Publisher }) {
	if (!active) return <Badge tone="bad">Inactive</Badge>;
	if (last_used_at === null) return <Badge tone="warn">Waiting for the first job</Badge>;
	return unused ? <Badge tone="warn">Unused for {UNUSED_DAYS} days</Badge> : null;
}

/** The claim as its form calls it. */
const claimLabel = (claim: string) =>
	Object.values(PRESETS)
		.flatMap(({ fields }: Preset) => fields)
		.find((field) => field.claim === claim)?.label ?? claim;

function LastUse({ publisher: { last_used_at, last_job } }: { readonly publisher: Publisher }) {
	if (last_used_at === null) return <>Never</>;
	return (
		<div className="row cut">
			<Time value={last_used_at} />
			{last_job === null ? null : <Job job={last_job} />}
		</div>
	);
}

function Job({
	job: { repository, repository_id, run_id, run_url, commit },
}: {
	readonly job: NonNullable<Publisher["last_job"]>;
}) {
	const name = run_id === null ? (repository ?? repository_id ?? "a job") : `run ${run_id}`;
	return (
		<Text size="xs" c="dimmed" truncate>
			{run_url?.startsWith("https://") ? (
				<a href={run_url} rel="noreferrer">
					{name}
				</a>
			) : (
				name
			)}
			{commit === null ? null : (
				<>
					{" "}
					<CopyChip value={commit} label={commit.slice(0, 7)} />
				</>
			)}
		</Text>
	);
}

function DeletePublisher({
	appId,
	publisher,
	onClose,
}: {
	readonly appId: string;
	readonly publisher: Publisher;
	readonly onClose: () => void;
}) {
	const remove = useChange("DELETE /publisher", () => {
		notify(`Publisher ${publisher.name} deleted.`);
		onClose();
	});
	return (
		<Confirm
			title={`Delete ${publisher.name}?`}
			action="Delete publisher"
			isPending={remove.isPending}
			error={remove.error}
			onConfirm={() => remove.mutate({ query: { app_id: appId, id: publisher.id } })}
			onClose={onClose}
		>
			<Text size="sm">Its jobs get no keys any more, and the keys that they hold end now. Bundles stay.</Text>
		</Confirm>
	);
}
