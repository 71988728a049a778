/**
 * Adds or changes a publisher, in the words of its provider. A public repository is found by its
 * name, and trusted by its ids; a publisher whose jobs may come from any branch says so before it is
 * saved.
 */
import { Button, Code, Group, MultiSelect, NativeSelect, Text, TextInput } from "@mantine/core";
import { useState } from "react";
import { useAllPages, useChange } from "../../api";
import { Note } from "../../components/card";
import { formErrors } from "../../components/field-errors";
import { FormDialog } from "../../components/form-dialog";
import { InputError } from "../../components/input-error";
import { notify } from "../../components/notify";
import { optionsOf } from "../../components/options";
import {
	claimsOf,
	enteredIssuer,
	type Field,
	isAnyBranch,
	isReleasing,
	PRESET_NAMES,
	PRESETS,
	type Preset,
	type PresetName,
	type Publisher,
	presetOf,
	STAGE_TEXTS,
	type Stage,
	trustSentence,
} from "./publisher-fields";
import { RepositoryField } from "./repository-field";

const NAMES = ["name", "stage", "provider", "issuer", "claims", "channels"];
const sorted = (claims: Readonly<Record<string, string>>) => JSON.stringify(Object.entries(claims).sort());
const isNoNumber = (text: string | undefined) => /[^\d*]/.test((text ?? "").trim());

export function PublisherForm({
	appId,
	publisher,
	onClose,
}: {
	readonly appId: string;
	/** Undefined: a new one. */
	readonly publisher: Publisher | undefined;
	readonly onClose: () => void;
}) {
	const [name, setName] = useState(publisher?.name ?? "");
	const [presetName, setPreset] = useState<PresetName>("github");
	const [stage, setStage] = useState<Stage>(publisher?.stage ?? "promote");
	const [issuer, setIssuer] = useState("");
	const [texts, setTexts] = useState<Readonly<Record<string, string>>>(publisher?.claims ?? {});
	const [channels, setChannels] = useState<readonly string[]>(publisher?.channels ?? []);
	const [found, setFound] = useState<{ readonly path: string; readonly branch: string | null } | undefined>();
	const preset: Preset = publisher === undefined ? PRESETS[presetName] : presetOf(publisher);
	const { provider } = preset;
	const add = useChange("POST /publisher", ({ name: added }) => {
		notify(`Publisher ${added} added. It waits for its first job.`);
		onClose();
	});
	const change = useChange("PUT /publisher", ({ name: changed }) => {
		notify(`Publisher ${changed} saved. Keys that its jobs had are revoked.`);
		onClose();
	});
	const { error, isPending } = publisher === undefined ? add : change;
	const errors = formErrors(error, NAMES);

	const claims = claimsOf(preset, texts, publisher?.claims ?? {});
	const chosen = isReleasing(stage) && channels.length > 0 ? [...channels].sort() : null;
	const isAny = isAnyBranch(provider, stage, claims);
	const branchField = preset.fields.find(({ label }) => label.startsWith("Branch"));
	const isWrong = preset.fields.some(({ claim, isNumber }) => isNumber === true && isNoNumber(texts[claim]));
	const edit = (claim: string, text: string) => setTexts((before) => ({ ...before, [claim]: text }));
	const changes =
		publisher === undefined ? {} : changesOf(publisher, { name: name.trim(), stage, claims, channels: chosen });
	const isChanged = publisher === undefined || Object.keys(changes).length > 0;

	const submit = () => {
		if (publisher !== undefined) {
			change.mutate({ body: { app_id: appId, id: publisher.id, ...changes } });
			return;
		}
		const named = enteredIssuer(preset, issuer);
		add.mutate({
			body: {
				app_id: appId,
				name,
				provider,
				stage,
				claims,
				...(named === undefined ? {} : { issuer: named }),
				...(chosen === null ? {} : { channels: chosen }),
			},
		});
	};
	const claimFields = { texts, errorAt: errors.at, onText: edit };
	return (
		<FormDialog
			title={publisher === undefined ? "Add publisher" : `Edit ${publisher.name}`}
			action={publisher === undefined ? "Add publisher" : "Save publisher"}
			isPending={isPending}
			isReady={isChanged && !isWrong && !(isAny && isReleasing(stage))}
			error={errors.rest}
			onClose={onClose}
			onSubmit={submit}
		>
			{publisher === undefined ? (
				<NativeSelect
					label="Provider"
					error={errors.at("provider")}
					value={presetName}
					onChange={(event) => {
						setPreset(PRESET_NAMES.find((each) => each === event.currentTarget.value) ?? "github");
						setFound(undefined);
					}}
					data={PRESET_NAMES.map((value) => ({ value, label: PRESETS[value].label }))}
				/>
			) : (
				<Text size="sm">
					Provider: <bdi>{preset.label}</bdi>. Another provider is another publisher.
				</Text>
			)}
			{preset.host === undefined ? null : (
				<RepositoryField
					key={preset.host}
					appId={appId}
					host={preset.host}
					help={preset.help}
					isOther={publisher !== undefined}
					onFound={({ repository, default_branch, claims: ids }) => {
						setTexts((before) => ({ ...before, ...ids }));
						setFound({ path: repository, branch: default_branch });
						setName((before) => (before === "" ? repository : before));
					}}
				/>
			)}
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
			<Group grow preventGrowOverflow={false} align="flex-start">
				<ClaimFields fields={preset.fields.filter((field) => field.isRequired === true)} {...claimFields} />
			</Group>
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
				label="Stage"
				error={errors.at("stage")}
				value={stage}
				onChange={(event) => setStage(event.currentTarget.value as Stage)}
				data={optionsOf(STAGE_TEXTS)}
			/>
			{isReleasing(stage) ? (
				<ChannelsField appId={appId} channels={channels} error={errors.at("channels")} onChannels={setChannels} />
			) : null}
			<ClaimFields fields={preset.fields.filter((field) => field.isRequired !== true)} {...claimFields} />
			{isAny ? (
				<AnyBranch
					stage={stage}
					branch={branchField === undefined ? null : (found?.branch ?? null)}
					onBranch={(branch) => edit(branchField?.claim ?? "", branch)}
				/>
			) : null}
			<InputError
				error={preset.fields.some(({ claim }) => errors.at(`claims.${claim}`)) ? undefined : errors.at("claims")}
			/>
			{preset.help === "" || preset.host !== undefined ? null : (
				<Text size="sm" c="dimmed">
					Ids stay the same when a repository is renamed. Find them with: <Code>{preset.help}</Code>
				</Text>
			)}
			<Text size="sm">
				<bdi>
					{trustSentence({
						provider,
						stage,
						claims,
						channels: chosen,
						repository: found?.path ?? publisher?.last_job?.repository ?? undefined,
					})}
				</bdi>{" "}
				{publisher === undefined ? "" : "Saving revokes the keys that its jobs have now."}
			</Text>
		</FormDialog>
	);
}

/** The fields of PUT /publisher that differ from the stored ones. */
function changesOf(publisher: Publisher, { name, stage, claims, channels }: Entered) {
	return {
		...(name === publisher.name ? {} : { name }),
		...(stage === publisher.stage ? {} : { stage }),
		...(sorted(claims) === sorted(publisher.claims) ? {} : { claims }),
		...(channels?.join("\n") === publisher.channels?.join("\n") ? {} : { channels: channels ?? ("all" as const) }),
	};
}

interface Entered {
	readonly name: string;
	readonly stage: Stage;
	readonly claims: Readonly<Record<string, string>>;
	/** Null: every channel. */
	readonly channels: string[] | null;
}

function ClaimFields({
	fields,
	texts,
	errorAt,
	onText,
}: {
	readonly fields: readonly Field[];
	readonly texts: Readonly<Record<string, string>>;
	readonly errorAt: (field: string) => string | undefined;
	readonly onText: (claim: string, text: string) => void;
}) {
	return fields.map(({ claim, label, placeholder, isRequired, isNumber }) => (
		<TextInput
			key={claim}
			label={isRequired === true ? label : `${label} (optional)`}
			placeholder={isRequired === true ? placeholder : `any, or e.g. ${placeholder}`}
			required={isRequired === true}
			error={
				isNumber === true && isNoNumber(texts[claim])
					? `The number of the id, such as ${placeholder}. A name matches no job.`
					: errorAt(`claims.${claim}`)
			}
			value={texts[claim] ?? ""}
			onChange={(event) => onText(claim, event.currentTarget.value)}
		/>
	));
}

function ChannelsField({
	appId,
	channels,
	error,
	onChannels,
}: {
	readonly appId: string;
	readonly channels: readonly string[];
	readonly error: string | undefined;
	readonly onChannels: (channels: readonly string[]) => void;
}) {
	const known = useAllPages("GET /channel", { query: { app_id: appId } });
	return (
		<MultiSelect
			label="Channels (optional)"
			description="The jobs release to these alone."
			placeholder={channels.length === 0 ? "Every channel" : ""}
			error={error}
			searchable
			data={[...new Set([...(known.data ?? []).map((channel) => channel.name), ...channels])]}
			value={[...channels]}
			onChange={onChannels}
			maxDropdownHeight={220}
			comboboxProps={{ keepMounted: false }}
		/>
	);
}

function AnyBranch({
	stage,
	branch,
	onBranch,
}: {
	readonly stage: Stage;
	/** The repository's main branch; null if it is not known. */
	readonly branch: string | null;
	readonly onBranch: (branch: string) => void;
}) {
	return (
		<Note tone="warn" title={isReleasing(stage) ? "Any branch may release" : "Any branch may upload"}>
			<Group justify="space-between" wrap="nowrap">
				<span>
					Everybody who can push to the repository can start such a job.{" "}
					{isReleasing(stage) ? "Name a branch, or an environment with reviewers." : "A named branch limits that."}
				</span>
				{branch === null ? null : (
					<Button variant="default" size="xs" miw="fit-content" onClick={() => onBranch(branch)}>
						Use <bdi>{branch}</bdi>
					</Button>
				)}
			</Group>
		</Note>
	);
}
