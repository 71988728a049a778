/**
 * The one dialog that releases, from everywhere: a bundle or a zip, a channel, all devices at once
 * or in steps, who changes version, what becomes of a running rollout, and who has to approve. The
 * page that opens it passes what it is about. Nothing is sent before the person releases.
 */
import { Button, Checkbox, NativeSelect, Textarea } from "@mantine/core";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { type DragEvent, useState } from "react";
import { type AnswerOf, ask, CapstanError, usePage } from "../api";
import { Note } from "../components/card";
import { useChangePlan } from "../components/change-preview";
import type { Channel } from "../components/channel-badges";
import { formErrors } from "../components/field-errors";
import { FormDialog } from "../components/form-dialog";
import { Icon } from "../components/icon";
import { notify } from "../components/notify";
import { useIsPhone } from "../components/phone";
import { countOf, percentText } from "../components/size";
import { IconRocket } from "../icons";
import { useBundleUpload, useVerdict } from "../upload/bundle-upload";
import { UploadControl, UploadProgress } from "../upload/zip-parts";
import { Approvers } from "./approvers";
import { BundleField, FileField } from "./bundle-field";
import { HowField } from "./how-field";
import {
	partlyRolledOut,
	proposedChannel,
	proposedVersion,
	type Rules,
	releaseBody,
	rolloutEffect,
	stepsOf,
	usualWay,
	type Way,
} from "./release-plan";
import { useBundle, useChannelDevices, useChannels, useCurrent, useRights } from "./use-release";
import { leadText, NothingChosen, RolloutFate, WhoChanges, WhoMayGetIt } from "./who-changes";
import "./release-dialog.css";

const BUNDLE_ERRORS = [
	"version",
	"rolloutVersion",
	"bundle_not_found",
	"bundle_not_ready",
	"bundle_from_preview",
	"bundle_not_signed",
];
/** A longer name of a channel stands in the text only. */
const TITLE_LETTERS = 24;
const FIRST_SHARE = 5;

export interface ReleaseDialogProps {
	readonly appId: string;
	readonly orgId: string | undefined;
	/** The bundle that the page is about. */
	readonly version?: string | undefined;
	/** The channel that the page is about. */
	readonly channel?: string | undefined;
	/** A zip that was dropped on the page. */
	readonly file?: File | null;
	/** False for a role on the channel only: no bundles are suggested and no devices are counted. */
	readonly seesApp?: boolean;
	readonly onClose: () => void;
}

export default function ReleaseDialog({
	appId,
	orgId,
	version: givenVersion,
	channel: givenChannel,
	file: givenFile = null,
	seesApp = true,
	onClose,
}: ReleaseDialogProps) {
	const client = useQueryClient();
	const isPhone = useIsPhone();
	const channels = useChannels(appId, givenChannel, seesApp);
	const [chosenName, setName] = useState(givenChannel);
	const name = chosenName ?? (channels === undefined ? "" : proposedChannel(channels));
	const channel = useCurrent(
		appId,
		channels?.find((known) => known.name === name),
	);
	const { mayUpload, mayAnywhere, maySet: maySetHere } = useRights(appId, orgId, channel);
	const maySet = maySetHere === true;

	const [file, setFile] = useState<File | null>(givenFile);
	const verdict = useVerdict(file);
	const bundles = usePage("GET /bundle", { query: { app_id: appId } }, 0, { enabled: seesApp });
	const names = bundles.data?.items.map((bundle) => bundle.name) ?? [];
	const [chosenVersion, setVersion] = useState(givenVersion ?? "");
	const [typedVersion, setTypedVersion] = useState<string | undefined>();
	const version = file === null ? chosenVersion : (typedVersion ?? proposedVersion(names));
	const record = useBundle(appId, chosenVersion, seesApp && file === null && names.includes(chosenVersion));
	const [typedNote, setNote] = useState<string | undefined>();
	const note = typedNote ?? (file === null ? (record?.comment ?? "") : "");

	const { known, isCounting } = useChannelDevices(appId, channel, seesApp);
	const devices = channel === undefined ? 0 : known?.channel_devices;
	const [chosenWay, setWay] = useState<Way | undefined>();
	const preselected =
		channel === undefined || maySetHere === undefined || isCounting
			? undefined
			: usualWay(channel, version, devices, maySet);
	const way = channel === undefined ? "all" : (chosenWay ?? preselected);
	const [changed, setChanged] = useState<Partial<Rules>>({});
	const rules: Rules = {
		share: FIRST_SHARE,
		limitBps: channel?.autoPauseFailureRateBps ?? 0,
		countsNew: channel?.rolloutCountNewDevices ?? false,
		...changed,
	};
	const [allowsPreview, setAllowsPreview] = useState(false);
	const [skipsPackages, setSkipsPackages] = useState(false);
	const choose = (next: string) => {
		setName(next);
		setWay(undefined);
		setChanged({});
		setSkipsPackages(false);
	};

	const isNew = channels !== undefined && channels.length === 0;
	const isAimed = version !== "" && (channel !== undefined || isNew);
	const isComplete = isAimed && way !== undefined && (way !== "share" || rules.share !== "");
	const of = { appId, name, channel };
	const skipping = skipsPackages ? { requireCompatibleBundle: false } : {};
	const body = { ...releaseBody(of, version, way, rules, maySet), ...skipping };
	const counts = seesApp && file === null;
	const isStaged = way === "steps" || way === "share";
	const preview = useChangePlan(isComplete && counts ? body : null, channel?.public ?? true);
	const everybody = { ...releaseBody(of, version, "all", rules, maySet), ...skipping };
	const whole = useChangePlan(isAimed && counts ? everybody : null, false);
	const needsApproval = channel?.requires_approval === true;

	const release = useMutation<AnswerOf<"POST /channel">, Error>({
		mutationFn: async () => {
			if (file === null && record !== undefined && typedNote !== undefined && note.trim() !== (record.comment ?? "")) {
				await ask("POST /bundle/metadata", { body: { app_id: appId, version, comment: note.trim() } });
			}
			return ask("POST /channel", { body: { ...body, ...(allowsPreview ? { allow_preview_bundle: true } : {}) } });
		},
		onSuccess: async (answer) => {
			notify(doneText(answer.status === "pending_approval", version, name, isStaged));
			onClose();
			await client.invalidateQueries();
		},
	});
	const upload = useBundleUpload(appId, orgId, () => release.mutate());
	const isBusy = release.isPending || (upload.phase !== "choosing" && upload.phase !== "done");
	const isUploaded = upload.phase === "done";

	const errors = formErrors(release.error, [...BUNDLE_ERRORS, "rolloutPercentage", "autoPauseFailureRateBps"]);
	const isRefusedPreview = release.error instanceof CapstanError && release.error.code === "bundle_from_preview";
	const isTaken = file !== null && !isUploaded && names.includes(version);
	const rollout = channel?.rollout_version_info?.name;
	const effect =
		channel === undefined || !isComplete || way === undefined
			? undefined
			: rolloutEffect(channel, { version, way, percentage: Number(rules.share) });
	const verb = needsApproval ? "Propose release" : "Release";
	const shownName = name.length > TITLE_LETTERS ? "this channel" : name;
	const title = name === "" ? verb : needsApproval ? `Propose release to ${shownName}` : `Release to ${shownName}`;
	const action = needsApproval || version === "" || name === "" ? verb : `Release ${version} to ${shownName}`;
	const drop = (event: DragEvent) => {
		event.preventDefault();
		const [first] = event.dataTransfer.files;
		if (first !== undefined && mayUpload && !isBusy) take(first);
	};
	const take = (next: File | null) => {
		setFile(next);
		setTypedVersion(undefined);
	};
	const shownPlan = counts && isAimed && preview.refusal === undefined ? (whole.plan ?? whole.lastPlan) : undefined;
	const fate =
		rollout === undefined || version === "" ? null : <RolloutFate name={name} rollout={rollout} effect={effect} />;

	return (
		<FormDialog
			title={title}
			action={action}
			icon={<Icon of={IconRocket} size="s" />}
			isPending={release.isPending || upload.phase === "hashing"}
			isReady={
				isComplete &&
				!isTaken &&
				(file === null ? preview.isReady || !seesApp : verdict?.outcome === "accepted") &&
				(way === "all" || channel === undefined || partlyRolledOut(channel, version) === undefined)
			}
			isDirty={file !== null || (typedNote ?? "").trim() !== ""}
			error={errors.rest}
			onDrop={drop}
			onClose={onClose}
			onSubmit={() => {
				if (file !== null && !isUploaded) void upload.begin({ file, version, comment: note.trim() });
				else release.mutate();
			}}
			{...(isBusy && !release.isPending
				? {
						stop: (
							<Button variant="subtle" disabled={false} onClick={onClose}>
								Stop upload
							</Button>
						),
					}
				: {})}
			{...(upload.phase === "sending" || upload.phase === "paused"
				? { instead: <UploadControl upload={upload} /> }
				: {})}
			footnote={
				<>
					{isPhone && shownPlan !== undefined ? <b className="strong">{leadText(shownPlan)}</b> : null}
					{needsApproval ? (
						<Approvers appId={appId} name={name} />
					) : file !== null && !isUploaded ? (
						<span className="muted small">Uploaded when you release</span>
					) : null}
				</>
			}
			aside={
				<aside className="release-who" aria-label="Who changes version" aria-live="polite">
					{version === "" ? <NothingChosen name={name === "" ? "the channel" : name} /> : null}
					{file !== null && channel !== undefined ? (
						<WhoMayGetIt
							name={name}
							version={version}
							devices={devices}
							builds={(known?.store_builds ?? []).map((build) => ({
								name: build.version_build,
								devices: build.devices,
							}))}
						/>
					) : null}
					{isNew ? <p className="soft">Creates the channel {name} for every device of the app.</p> : null}
					{counts && !(preview.refusal === "rollout_running") ? preview.status : null}
					{shownPlan === undefined ? (
						fate
					) : (
						<WhoChanges
							appId={appId}
							plan={shownPlan}
							staged={isStaged ? (preview.plan ?? preview.lastPlan) : undefined}
							isOld={whole.plan === undefined || (isStaged && preview.plan === undefined)}
							version={version}
							name={name}
							way={way}
							firstShareBps={firstShareOf(way, rules, channel)}
							live={channel?.version?.name}
							fate={fate}
						/>
					)}
					{maySet && !needsApproval && (skipsPackages || preview.refusal === "bundle_incompatible") ? (
						<Checkbox
							label="Release it anyway, and turn this rule of the channel off"
							description="Devices whose store build lacks a package fail where the bundle calls it. Turn the rule on again in the settings of the channel."
							checked={skipsPackages}
							onChange={(event) => setSkipsPackages(event.currentTarget.checked)}
						/>
					) : null}
				</aside>
			}
		>
			{file === null ? (
				<BundleField
					appId={appId}
					seesApp={seesApp}
					mayUpload={mayUpload && seesApp}
					version={chosenVersion}
					record={record}
					error={errors.at(...BUNDLE_ERRORS)}
					isDisabled={isBusy}
					isFirst={givenVersion === undefined}
					onVersion={setVersion}
					onFile={take}
				/>
			) : (
				<FileField
					file={file}
					verdict={verdict}
					version={version}
					versionError={
						isTaken ? `The app has a bundle ${version} already. Choose another version.` : errors.at(...BUNDLE_ERRORS)
					}
					isDisabled={isBusy || isUploaded}
					isVersionKnown={!bundles.isPending}
					onVersion={setTypedVersion}
					onFile={take}
				/>
			)}
			{isRefusedPreview || allowsPreview ? (
				<Checkbox
					label="I checked this bundle of a preview; release it"
					checked={allowsPreview}
					onChange={(event) => setAllowsPreview(event.currentTarget.checked)}
				/>
			) : null}
			<NativeSelect
				label="Channel"
				description={channel === undefined ? undefined : channelText(channel, devices)}
				inputWrapperOrder={["label", "input", "description", "error"]}
				disabled={isBusy}
				value={name}
				onChange={(event) => choose(event.currentTarget.value)}
				data={channelChoices(channels, name, mayAnywhere)}
				{...(givenVersion !== undefined && givenChannel === undefined ? { "data-autofocus": true } : {})}
			/>
			{channel === undefined ? null : (
				<HowField
					key={name}
					channel={channel}
					version={version}
					way={way}
					rules={rules}
					devices={devices}
					newDevices={known?.first_seen_today ?? 0}
					maySet={maySet}
					isDisabled={isBusy}
					errorAt={(field) => errors.at(field)}
					onWay={setWay}
					onRules={(rule) => setChanged({ ...changed, ...rule })}
				/>
			)}
			{file !== null || (record !== undefined && mayUpload) ? (
				<Textarea
					label="Note (optional)"
					description="What is new. Shown beside the bundle's releases, in the history."
					inputWrapperOrder={["label", "input", "description", "error"]}
					autosize
					minRows={1}
					maxRows={6}
					maxLength={2048}
					disabled={isBusy || isUploaded}
					value={note}
					onChange={(event) => setNote(event.currentTarget.value)}
					{...(givenVersion !== undefined && givenChannel !== undefined ? { "data-autofocus": true } : {})}
				/>
			) : null}
			<UploadProgress file={file} upload={upload} />
			{isUploaded && release.isError ? <Note tone="info">{version} is uploaded, but not released yet.</Note> : null}
		</FormDialog>
	);
}

function firstShareOf(way: Way | undefined, rules: Rules, channel: Channel | undefined): number {
	if (way === "share") return Number(rules.share) * 100;
	return ((channel === undefined ? undefined : stepsOf(channel)[0]) ?? 100) * 100;
}

/** "8,064 devices · now 2.3.1, and 2.4.0 at 25 %" */
function channelText({ version, rollout_version_info: rollout, ...channel }: Channel, devices: number | undefined) {
	const count = devices === undefined ? "" : `${countOf(devices, "device")} · `;
	const running =
		rollout === null || !channel.rolloutEnabled
			? ""
			: `, and ${rollout.name} at ${percentText(channel.rolloutPercentageBps)}`;
	return `${count}now ${version?.name ?? "the store build"}${running}`;
}

/** Previews stand behind the channels of people. */
function channelChoices(channels: readonly Channel[] | undefined, name: string, mayAnywhere: boolean) {
	const all = channels ?? [];
	if (all.length === 0)
		return name === "" ? [] : [{ value: name, label: channels === undefined ? name : `${name} (new)` }];
	const shown = mayAnywhere ? all : all.filter((channel) => channel.name === name);
	const choicesOf = (isPreview: boolean) =>
		shown.filter(({ is_preview }) => is_preview === isPreview).map((channel) => channel.name);
	const previews = choicesOf(true);
	return previews.length === 0 ? choicesOf(false) : [...choicesOf(false), { group: "Previews", items: previews }];
}

function doneText(isProposed: boolean, version: string, name: string, isStaged: boolean): string {
	if (isProposed)
		return `Proposed the release of ${version} to ${name}. Devices keep what they run until it is approved.`;
	return isStaged ? `Started the release of ${version} to ${name}.` : `Released ${version} to ${name}.`;
}
