/**
 * The one dialog that releases, from everywhere: a bundle or a zip, a channel, all devices at once
 * or in steps, who changes version, what becomes of a running rollout, and who has to approve. The
 * page that opens it passes what it is about. Nothing is sent before the person releases.
 */
import { Button } from "@mantine/core";
import type { DragEvent } from "react";
import { Note } from "../components/card";
import { FormDialog } from "../components/form-dialog";
import { Icon } from "../components/icon";
import { useIsPhone } from "../components/phone";
import { IconRocket } from "../icons";
import { UploadControl, UploadProgress } from "../upload/zip-parts";
import { Approvers } from "./approvers";
import { type ReleaseAct, useReleaseAct } from "./release-act";
import { ReleaseAside } from "./release-aside";
import { type Plans, type ReleaseChoice, type ReleaseSubject, usePlans, useReleaseChoice } from "./release-choice";
import { BundleFields, ChannelFields, NoteField } from "./release-fields";
import { leadText } from "./who-changes";
import "./release-dialog.css";

/** A longer name of a channel stands in the text only. */
const TITLE_LETTERS = 24;

export interface ReleaseDialogProps extends ReleaseSubject {
	readonly onClose: () => void;
}

export default function ReleaseDialog({ onClose, ...subject }: ReleaseDialogProps) {
	const choice = useReleaseChoice(subject);
	const plans = usePlans(choice);
	const act = useReleaseAct(choice, subject.orgId, onClose);
	const { bundle, target } = choice;
	const { upload } = act;
	const isVersionGiven = subject.version !== undefined;
	const isChannelGiven = subject.channel !== undefined;
	const drop = (event: DragEvent) => {
		event.preventDefault();
		const [first] = event.dataTransfer.files;
		if (first !== undefined && target.rights.mayUpload && !act.isBusy) bundle.take(first);
	};
	return (
		<FormDialog
			{...wordsOf(choice)}
			icon={<Icon of={IconRocket} size="s" />}
			isPending={act.isReleasing || upload.phase === "hashing"}
			isReady={isReady(choice, act, plans)}
			isDirty={bundle.isDirty}
			error={act.errors.rest}
			onDrop={drop}
			onClose={onClose}
			onSubmit={act.submit}
			{...(act.isUploading && !act.isReleasing ? { stop: <StopUpload onStop={onClose} /> } : {})}
			{...(upload.phase === "sending" || upload.phase === "paused"
				? { instead: <UploadControl upload={upload} /> }
				: {})}
			footnote={<Footnote choice={choice} plans={plans} isUploaded={act.isUploaded} />}
			aside={<ReleaseAside choice={choice} plans={plans} />}
		>
			<BundleFields choice={choice} act={act} isGiven={isVersionGiven} />
			<ChannelFields choice={choice} act={act} isFirst={isVersionGiven && !isChannelGiven} />
			<NoteField choice={choice} act={act} isFirst={isVersionGiven && isChannelGiven} />
			<UploadProgress file={bundle.file} upload={upload} />
			{act.isUploaded && act.isRefused ? (
				<Note tone="info">{bundle.version} is uploaded, but not released yet.</Note>
			) : null}
		</FormDialog>
	);
}

function isReady(choice: ReleaseChoice, act: ReleaseAct, { preview }: Plans): boolean {
	const { seesApp, bundle, isComplete, isBlocked } = choice;
	if (!isComplete || isBlocked || (bundle.isTaken && !act.isUploaded)) return false;
	return bundle.file === null ? preview.isReady || !seesApp : bundle.verdict?.outcome === "accepted";
}

function wordsOf({ needsApproval, bundle: { version }, target: { name } }: ReleaseChoice) {
	const verb = needsApproval ? "Propose release" : "Release";
	const shown = name.length > TITLE_LETTERS ? "this channel" : name;
	return {
		title: name === "" ? verb : `${verb} to ${shown}`,
		action: needsApproval || version === "" || name === "" ? verb : `Release ${version} to ${shown}`,
	};
}

function StopUpload({ onStop }: { readonly onStop: () => void }) {
	return (
		<Button variant="subtle" disabled={false} onClick={onStop}>
			Stop upload
		</Button>
	);
}

function Footnote({
	choice: { appId, needsApproval, bundle, target },
	plans,
	isUploaded,
}: {
	readonly choice: ReleaseChoice;
	readonly plans: Plans;
	readonly isUploaded: boolean;
}) {
	const isPhone = useIsPhone();
	return (
		<>
			{isPhone && plans.shown !== undefined ? <b className="strong">{leadText(plans.shown)}</b> : null}
			{needsApproval ? (
				<Approvers appId={appId} name={target.name} />
			) : bundle.file !== null && !isUploaded ? (
				<span className="muted small">Uploaded when you release</span>
			) : null}
		</>
	);
}
