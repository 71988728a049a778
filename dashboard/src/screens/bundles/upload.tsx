/**
 * "Upload and release" in one dialog: the zip is checked when it is dropped or chosen, version and
 * channel are proposed, and the text says how many devices get it before anything is sent. Without
 * a channel the bundle is only uploaded.
 */
import { Button, FileInput, Group, Progress, Stack, Text, TextInput } from "@mantine/core";
import { useQueryClient } from "@tanstack/react-query";
import { type DragEvent, useState } from "react";
import { useLocation } from "wouter";
import { ask, useAllPages, usePage } from "../../api";
import { Problem } from "../../components/answer";
import { Note } from "../../components/card";
import { Dialog } from "../../components/dialog";
import { notify, notifyChannelChange } from "../../components/notify";
import {
	proposedChannel,
	proposedVersion,
	proposedWay,
	type ReleasePlan,
	ReleasePlanFields,
	releaseBody,
	useChannelDevices,
} from "../../components/release-plan";
import { sizeText } from "../../components/size";
import { appPath, bundlePath } from "../../paths";
import { useBundleUpload, useVerdict } from "./bundle-upload";

export default function Upload({
	appId,
	orgId,
	mayRelease = true,
	onlyUpload = false,
	file: given = null,
	onClose,
}: {
	readonly appId: string;
	readonly orgId: string | undefined;
	readonly mayRelease?: boolean;
	/** No channel is proposed. */
	readonly onlyUpload?: boolean;
	/** A file that was dropped on the page. */
	readonly file?: File | null;
	readonly onClose: () => void;
}) {
	const [, navigate] = useLocation();
	const client = useQueryClient();
	const [file, setFile] = useState<File | null>(given);
	const verdict = useVerdict(file);
	const bundles = usePage("GET /bundle", { query: { app_id: appId } }, 0);
	const channels = useAllPages("GET /channel", { query: { app_id: appId } });
	const known = channels.data ?? [];
	const [typed, setVersion] = useState<string | undefined>();
	const version = typed ?? (file === null ? "" : proposedVersion(bundles.data?.items.map(({ name }) => name) ?? []));
	const [comment, setComment] = useState("");
	const [chosen, setPlan] = useState<ReleasePlan | undefined>(
		onlyUpload || !mayRelease ? { channel: "", way: undefined } : undefined,
	);
	const plan = chosen ?? { channel: channels.data === undefined ? "" : proposedChannel(known), way: undefined };
	const target = known.find(({ name }) => name === plan.channel);
	const devices = useChannelDevices(appId, target);
	const way = plan.way ?? proposedWay(devices);
	const [releaseError, setReleaseError] = useState<Error | undefined>();
	const [isReleasing, setReleasing] = useState(false);
	const releases = plan.channel !== "";

	const release = async () => {
		setReleaseError(undefined);
		setReleasing(true);
		try {
			const answer = await ask("POST /channel", { body: releaseBody(appId, version, plan.channel, way, known) });
			notifyChannelChange(
				answer,
				way === "all" ? `${version} is now live on ${plan.channel}.` : `Rollout of ${version} started.`,
			);
			await client.invalidateQueries();
			onClose();
			navigate(appPath(appId));
		} catch (problem) {
			setReleaseError(problem instanceof Error ? problem : new Error(String(problem)));
		}
		setReleasing(false);
	};
	const upload = useBundleUpload(appId, orgId, () => {
		if (releases) return void release();
		notify(`Bundle ${version} uploaded.`);
		void client.invalidateQueries();
		onClose();
		navigate(bundlePath(appId, version));
	});
	const { phase, error, sentBytes } = upload;
	const isBusy = phase !== "choosing";
	const warns = verdict?.outcome === "accepted" && verdict.call === "missing";
	const percent = file === null || file.size === 0 ? 0 : Math.floor((sentBytes / file.size) * 100);
	const action = target?.requires_approval === true ? "Propose" : "Release";
	const label = releases ? `${action} ${version} to ${plan.channel}` : warns ? "Upload anyway" : "Upload bundle";
	const drop = (event: DragEvent) => {
		event.preventDefault();
		const [first] = event.dataTransfer.files;
		if (first !== undefined && !isBusy) setFile(first);
	};
	return (
		<Dialog
			onClose={onClose}
			title={onlyUpload || !mayRelease ? "Upload bundle" : "Upload and release"}
			size="lg"
			closeOnClickOutside={!isBusy}
		>
			<form
				onDragOver={(event) => event.preventDefault()}
				onDrop={drop}
				onSubmit={(event) => {
					event.preventDefault();
					if (phase === "done") void release();
					else if (file !== null) void upload.begin({ file, version, comment });
				}}
			>
				<Stack>
					<FileInput
						label="Zip of the built web app"
						description="With index.html at the top level. Drop it here, or choose it."
						placeholder="Choose a file"
						accept=".zip,application/zip"
						required
						disabled={isBusy}
						value={file}
						onChange={setFile}
						error={verdict?.outcome === "refused" ? verdict.message : undefined}
					/>
					{file !== null && verdict === undefined ? (
						<Text size="sm" role="status">
							Checking the zip…
						</Text>
					) : null}
					{verdict?.outcome === "accepted" && verdict.call === "found" ? (
						<Note tone="ok">The zip opens, has index.html at its top level and calls notifyAppReady().</Note>
					) : null}
					{warns ? (
						<Note tone="warn" title="No call of notifyAppReady() was found" isAlert>
							Devices would roll this bundle back, because it must call CapacitorUpdater.notifyAppReady() after it
							starts. Add the call, build the app again and choose the new zip.
						</Note>
					) : null}
					<TextInput
						label="Version"
						description="Semantic version, e.g. 1.4.0. Must be unique."
						required
						// A proposal that arrives while somebody types would mix with it.
						disabled={isBusy || bundles.isPending}
						value={version}
						onChange={(event) => setVersion(event.currentTarget.value)}
					/>
					<TextInput
						label="Comment"
						description="What is new, for the timeline. Optional."
						disabled={isBusy}
						value={comment}
						onChange={(event) => setComment(event.currentTarget.value)}
					/>
					{mayRelease ? (
						<ReleasePlanFields
							plan={plan}
							way={way}
							version={version}
							channels={known}
							devices={devices}
							isDisabled={isBusy}
							onChange={setPlan}
						/>
					) : null}
					{phase === "hashing" ? <Text role="status">Computing the checksum…</Text> : null}
					{(phase === "sending" || phase === "paused") && file !== null ? (
						<Stack gap={4}>
							<Progress value={percent} aria-label="Uploaded" size="lg" />
							<Text size="sm" role="status">
								{phase === "paused" ? "Paused at " : "Uploading: "}
								{percent} % of {sizeText(file.size)}
							</Text>
						</Stack>
					) : null}
					{upload.isResumed ? <Note tone="info">Resuming an earlier upload of this file.</Note> : null}
					{error === undefined ? null : <UploadProblem error={error} />}
					{releaseError === undefined ? null : (
						<>
							<Note tone="info">{version} is uploaded, but not released yet.</Note>
							<Problem error={releaseError} />
						</>
					)}
					<Group justify="flex-end">
						<Button variant="default" onClick={onClose}>
							{isBusy && phase !== "done" ? "Stop upload" : "Cancel"}
						</Button>
						{phase === "sending" ? <Button onClick={() => void upload.pause()}>Pause upload</Button> : null}
						{phase === "paused" ? <Button onClick={upload.resume}>Resume upload</Button> : null}
						{phase === "choosing" || phase === "hashing" || phase === "done" ? (
							<Button
								type="submit"
								loading={phase === "hashing" || isReleasing}
								disabled={verdict?.outcome !== "accepted" || version === "" || channels.isPending}
							>
								{label}
							</Button>
						) : null}
					</Group>
				</Stack>
			</form>
		</Dialog>
	);
}

/** The TUS client's error carries the server's answer. */
function UploadProblem({ error }: { readonly error: Error }) {
	const body =
		"originalResponse" in error ? (error.originalResponse as { getBody(): string } | null)?.getBody() : undefined;
	let message: string | undefined;
	try {
		const answer: unknown = JSON.parse(body ?? "");
		if (typeof answer === "object" && answer !== null && "message" in answer) message = String(answer.message);
	} catch {
		// No answer, or not one of the API.
	}
	if (message === undefined) return <Problem error={error} />;
	return (
		<Note tone="bad" title="The upload was rejected" isAlert>
			{message}
		</Note>
	);
}
