/**
 * Parts of the dialogs that upload a zip: the verdict about the chosen file, the progress of its
 * upload, and why the server refused it. Nothing here sends anything.
 */
import { Button, Progress, Stack, Text } from "@mantine/core";
import { Problem } from "../components/answer";
import { Note } from "../components/card";
import { sizeText } from "../components/size";
import type { FileVerdict } from "./bundle-file";
import type { BundleUpload } from "./bundle-upload";

/** The verdict about an accepted file; a refusal is shown at the field. */
export function ZipVerdict({
	file,
	verdict,
}: {
	readonly file: File | null;
	readonly verdict: FileVerdict | undefined;
}) {
	if (file === null) return null;
	if (verdict === undefined) {
		return (
			<Text size="sm" role="status">
				Checking the zip…
			</Text>
		);
	}
	if (verdict.outcome === "refused" || verdict.call === "unknown") return null;
	if (verdict.call === "found") {
		return <Note tone="ok">The zip opens, has index.html at its top level and calls notifyAppReady().</Note>;
	}
	return (
		<Note tone="warn" title="No call of notifyAppReady() was found" isAlert>
			Devices would roll this bundle back, because it must call CapacitorUpdater.notifyAppReady() after it starts. Add
			the call, build the app again and choose the new zip.
		</Note>
	);
}

export function UploadProgress({ file, upload }: { readonly file: File | null; readonly upload: BundleUpload }) {
	const { phase, sentBytes, isResumed, error } = upload;
	const percent = file === null || file.size === 0 ? 0 : Math.floor((sentBytes / file.size) * 100);
	return (
		<>
			{phase === "hashing" ? (
				<Text size="sm" role="status">
					Computing the checksum…
				</Text>
			) : null}
			{(phase === "sending" || phase === "paused") && file !== null ? (
				<Stack gap={4}>
					<Progress value={percent} aria-label="Uploaded" size="lg" />
					<Text size="sm" role="status">
						{phase === "paused" ? "Paused at " : "Uploading: "}
						{percent} % of {sizeText(file.size)}
					</Text>
				</Stack>
			) : null}
			{isResumed ? <Note tone="info">Resuming an earlier upload of this file.</Note> : null}
			{error === undefined ? null : <UploadProblem error={error} />}
		</>
	);
}

/** The button in the place of the submit button while bytes are sent. */
export function UploadControl({ upload }: { readonly upload: BundleUpload }) {
	return upload.phase === "paused" ? (
		<Button onClick={upload.resume}>Resume upload</Button>
	) : (
		<Button onClick={() => void upload.pause()}>Pause upload</Button>
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
