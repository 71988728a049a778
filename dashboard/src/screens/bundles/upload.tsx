/**
 * Uploads a bundle that no channel serves yet: the zip is checked when it is dropped or chosen, and
 * a version is proposed. The release dialog uploads and releases.
 */
import { Button, FileInput, Group, Stack, TextInput } from "@mantine/core";
import { useQueryClient } from "@tanstack/react-query";
import { type DragEvent, useState } from "react";
import { useLocation } from "wouter";
import { usePage } from "../../api";
import { Dialog, useCloseDialog } from "../../components/dialog";
import { notify } from "../../components/notify";
import { withoutAsking } from "../../components/unsaved";
import { bundlePath } from "../../paths";
import { proposedVersion } from "../../release-dialog/release-plan";
import { useBundleUpload, useVerdict } from "../../upload/bundle-upload";
import { UploadControl, UploadProgress, ZipVerdict } from "../../upload/zip-parts";

export default function Upload({
	appId,
	orgId,
	onClose,
}: {
	readonly appId: string;
	readonly orgId: string | undefined;
	readonly onClose: () => void;
}) {
	const [, navigate] = useLocation();
	const client = useQueryClient();
	const [file, setFile] = useState<File | null>(null);
	const verdict = useVerdict(file);
	const bundles = usePage("GET /bundle", { query: { app_id: appId } }, 0);
	const [typed, setVersion] = useState<string | undefined>();
	const version = typed ?? (file === null ? "" : proposedVersion(bundles.data?.items.map(({ name }) => name) ?? []));
	const [comment, setComment] = useState("");
	const upload = useBundleUpload(appId, orgId, () => {
		notify(`Bundle ${version} uploaded.`);
		void client.invalidateQueries();
		onClose();
		withoutAsking(() => navigate(bundlePath(appId, version)));
	});
	const { phase } = upload;
	const isBusy = phase !== "choosing";
	const warns = verdict?.outcome === "accepted" && verdict.call === "missing";
	const drop = (event: DragEvent) => {
		event.preventDefault();
		const [first] = event.dataTransfer.files;
		if (first !== undefined && !isBusy) setFile(first);
	};
	return (
		<Dialog
			onClose={onClose}
			title="Upload bundle"
			size="lg"
			closeOnClickOutside={!isBusy}
			isDirty={file !== null || comment.trim() !== ""}
		>
			<form
				onDragOver={(event) => event.preventDefault()}
				onDrop={drop}
				onSubmit={(event) => {
					event.preventDefault();
					if (file !== null) void upload.begin({ file, version, comment });
				}}
			>
				<Stack>
					<FileInput
						label="Zip of the built web app"
						description="With index.html at the top level. Drop it here, or choose it."
						placeholder="Choose a file"
						accept=".zip,application/zip"
						data-autofocus
						required
						disabled={isBusy}
						value={file}
						onChange={setFile}
						error={verdict?.outcome === "refused" ? verdict.message : undefined}
					/>
					<ZipVerdict file={file} verdict={verdict} />
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
						label="Note (optional)"
						description="What is new, for the people who release it."
						disabled={isBusy}
						value={comment}
						onChange={(event) => setComment(event.currentTarget.value)}
					/>
					<UploadProgress file={file} upload={upload} />
					<Group justify="flex-end">
						<Cancel onStop={isBusy ? onClose : undefined} />
						{phase === "sending" || phase === "paused" ? (
							<UploadControl upload={upload} />
						) : (
							<Button
								type="submit"
								loading={phase === "hashing"}
								disabled={verdict?.outcome !== "accepted" || version === ""}
							>
								{warns ? "Upload anyway" : "Upload bundle"}
							</Button>
						)}
					</Group>
				</Stack>
			</form>
		</Dialog>
	);
}

/** Stopping an upload needs no question, because choosing the file again resumes it. */
function Cancel({ onStop }: { readonly onStop: (() => void) | undefined }) {
	const close = useCloseDialog();
	return (
		<Button variant="default" disabled={false} onClick={onStop ?? close}>
			{onStop === undefined ? "Cancel" : "Stop upload"}
		</Button>
	);
}
