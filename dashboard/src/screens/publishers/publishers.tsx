/**
 * The CI jobs that an app trusts: list with last use, a form in the words of each provider, and
 * deletion.
 */

import { Button, Code, Menu, NativeSelect, Text, TextInput } from "@mantine/core";
import { useState } from "react";
import { CI_KEY_MINUTES, UNUSED_DAYS } from "../../../../src/domain/defaults";
import { type AnswerOf, useAllPages, useChange } from "../../api";
import { Answer } from "../../components/answer";
import { Badge } from "../../components/badge";
import { CopyChip } from "../../components/copy-chip";
import { formErrors } from "../../components/field-errors";
import { Confirm, FormDialog } from "../../components/form-dialog";
import { Icon } from "../../components/icon";
import { InputError } from "../../components/input-error";
import { notify } from "../../components/notify";
import { optionsOf } from "../../components/options";
import { Empty, Screen } from "../../components/screen";
import { Time } from "../../components/time";
import { WholeList } from "../../components/whole-list";
import { IconDotsVertical, IconTrash } from "../../icons";
import { useAppMay } from "../../permissions";
import type { AppScreenProps } from "../../screen-props";
import {
	PRESET_NAMES,
	PRESETS,
	type Preset,
	type PresetName,
	publisherBody,
	STAGE_NAMES,
	STAGE_TEXTS,
	type Stage,
} from "./publisher-fields";

type Publisher = AnswerOf<"GET /publisher">[number];

export default function Publishers({ appId, orgId }: AppScreenProps) {
	const may = useAppMay(appId, orgId);
	const mayManage = may("app.update_user_roles");
	const publishers = useAllPages("GET /publisher", { query: { app_id: appId } }, { enabled: mayManage === true });
	const [dialog, setDialog] = useState<"add" | Publisher | undefined>();
	const close = () => setDialog(undefined);
	return (
		<Screen
			title="Publishers"
			note={
				<>
					CI jobs that publish without a stored key. <a href="/docs/ci">Set up your CI</a>
				</>
			}
			actions={mayManage === true ? <Button onClick={() => setDialog("add")}>Add publisher</Button> : undefined}
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
							<WholeList
								label="Publishers"
								noun={["publisher", "publishers"]}
								rows={items}
								rowKey={({ id }) => id}
								textOf={({ name, stage, issuer, claims }) => [name, stage, issuer, ...Object.values(claims)].join(" ")}
								first="name"
								descending={["used"]}
								chips={KINDS}
								columns={columns(setDialog)}
							/>
						)
					}
				</Answer>
			)}
			{dialog === "add" ? <AddPublisher appId={appId} onClose={close} /> : null}
			{typeof dialog === "object" ? <DeletePublisher appId={appId} publisher={dialog} onClose={close} /> : null}
		</Screen>
	);
}

const columns = (onDelete: (publisher: Publisher) => void) => [
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
		width: 84,
		cell: ({ stage }: Publisher) => STAGE_NAMES[stage],
	},
	{
		title: "Trusts",
		wideOnly: true as const,
		width: 260,
		cell: ({ issuer, claims }: Publisher) => {
			const facts = Object.entries(claims).map(([claim, text]) => `${claimLabel(claim)} ${text}`);
			const text = [issuer.replace(/^https:\/\//, ""), ...facts].join(", ");
			return (
				<div className="cut" title={text}>
					{text}
				</div>
			);
		},
	},
	{
		title: "Last job",
		sort: "used",
		value: ({ last_used_at }: Publisher) => last_used_at,
		wideOnly: true as const,
		width: 250,
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
					<Menu.Item color="red" leftSection={<Icon of={IconTrash} />} onClick={() => onDelete(publisher)}>
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
	const name = `${repository ?? repository_id ?? "a job"}${run_id === null ? "" : ` run ${run_id}`}`;
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

function AddPublisher({ appId, onClose }: { readonly appId: string; readonly onClose: () => void }) {
	const [name, setName] = useState("");
	const [presetName, setPreset] = useState<PresetName>("github");
	const [stage, setStage] = useState<Stage>("promote");
	const [issuer, setIssuer] = useState("");
	const [texts, setTexts] = useState<Readonly<Record<string, string>>>({});
	const preset: Preset = PRESETS[presetName];
	const add = useChange("POST /publisher", ({ name }) => {
		notify(`Publisher ${name} added. It waits for its first job.`);
		onClose();
	});
	const errors = formErrors(add.error, ["name", "stage", "provider", "issuer", "claims"]);
	return (
		<FormDialog
			title="Add publisher"
			action="Add publisher"
			isPending={add.isPending}
			isReady={
				!preset.fields.some(({ claim, isNumber }) => isNumber === true && /[^\d*]/.test((texts[claim] ?? "").trim()))
			}
			error={errors.rest}
			onClose={onClose}
			onSubmit={() => add.mutate({ body: publisherBody({ appId, name, preset: presetName, stage, issuer, texts }) })}
		>
			<TextInput
				label="Name"
				placeholder="Releases"
				error={errors.at("name")}
				required
				maxLength={128}
				value={name}
				onChange={(event) => setName(event.currentTarget.value)}
			/>
			<NativeSelect
				label="Provider"
				error={errors.at("provider")}
				value={presetName}
				onChange={(event) => setPreset(PRESET_NAMES.find((known) => known === event.currentTarget.value) ?? "github")}
				data={PRESET_NAMES.map((value) => ({ value, label: PRESETS[value].label }))}
			/>
			<NativeSelect
				label="Stage"
				error={errors.at("stage")}
				value={stage}
				onChange={(event) => setStage(event.currentTarget.value as Stage)}
				data={optionsOf(STAGE_TEXTS)}
			/>
			{preset.issuer === undefined ? null : (
				<TextInput
					label={preset.issuer.label}
					placeholder={preset.issuer.placeholder}
					error={errors.at("issuer")}
					required
					value={issuer}
					onChange={(event) => setIssuer(event.currentTarget.value)}
				/>
			)}
			{preset.fields.map(({ claim, label, placeholder, isRequired, isNumber }) => (
				<TextInput
					key={claim}
					label={isRequired === true ? label : `${label} (optional)`}
					placeholder={isRequired === true ? placeholder : `any, or e.g. ${placeholder}`}
					required={isRequired === true}
					error={
						isNumber === true && /[^\d*]/.test((texts[claim] ?? "").trim())
							? `The number of the id, such as ${placeholder}. A name matches no job.`
							: errors.at(`claims.${claim}`)
					}
					value={texts[claim] ?? ""}
					onChange={(event) => {
						const { value } = event.currentTarget;
						setTexts((before) => ({ ...before, [claim]: value }));
					}}
				/>
			))}
			<InputError
				error={preset.fields.some(({ claim }) => errors.at(`claims.${claim}`)) ? undefined : errors.at("claims")}
			/>
			<Text size="sm" c="dimmed">
				Ids stay the same when a repository is renamed. Find them with: <Code>{preset.help}</Code>
			</Text>
		</FormDialog>
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
