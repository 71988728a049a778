/**
 * Uploads a bundle from the browser with TUS. The zip is checked when it is chosen, and its SHA-256 is computed here. Choosing the same file
 * for the same version again resumes an interrupted upload, even after a reload.
 */
import { Alert, Button, FileInput, Group, Progress, Stack, Text, TextInput } from "@mantine/core";
import { useQueryClient } from "@tanstack/react-query";
import { useEffect, useRef, useState } from "react";
import { DetailedError, Upload as TusUpload } from "tus-js-client";
import { useLocation } from "wouter";
import { ask } from "../../api";
import { Problem } from "../../components/answer";
import { Dialog } from "../../components/dialog";
import { notify } from "../../components/notify";
import { sizeText } from "../../components/size";
import { bundlePath } from "../../paths";
import { checkBundleFile, type FileVerdict } from "./bundle-file";

/** Two of the server's 8 MiB segments per request. */
const CHUNK_BYTES = 16 * 1024 * 1024;
const RETRY_DELAYS_MS = [500, 2_000, 5_000, 10_000];

type Phase = "choosing" | "hashing" | "sending" | "paused";

/** The bundle was deleted meanwhile, by a person or because its upload expired. */
const isGone = (problem: Error) => problem instanceof DetailedError && problem.originalResponse?.getStatus() === 404;

async function sha256Of(file: File): Promise<string> {
	const digest = await crypto.subtle.digest("SHA-256", await file.arrayBuffer());
	return [...new Uint8Array(digest)].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

export default function Upload({
	appId,
	orgId,
	onClose,
}: {
	readonly appId: string;
	readonly orgId: string;
	readonly onClose: () => void;
}) {
	const [, navigate] = useLocation();
	const client = useQueryClient();
	const [file, setFile] = useState<File | null>(null);
	const verdict = useVerdict(file);
	const [version, setVersion] = useState("");
	const [comment, setComment] = useState("");
	const [phase, setPhase] = useState<Phase>("choosing");
	const [sent, setSent] = useState(0);
	const [isResumed, setResumed] = useState(false);
	const [error, setError] = useState<Error | undefined>();
	const running = useRef<TusUpload | undefined>(undefined);
	const isOpen = useRef(false);
	useEffect(() => {
		isOpen.current = true;
		return () => {
			isOpen.current = false;
			void running.current?.abort();
		};
	}, []);

	const finish = async () => {
		notify(`Bundle ${version} uploaded.`);
		await client.invalidateQueries();
		onClose();
		navigate(bundlePath(appId, version));
	};

	const begin = async (chosen: File) => {
		setError(undefined);
		setPhase("hashing");
		try {
			await send(chosen, await sha256Of(chosen));
		} catch (problem) {
			fail(problem);
		}
	};
	const fail = (problem: unknown) => {
		setError(problem instanceof Error ? problem : new Error(String(problem)));
		setPhase("choosing");
	};

	/** Resumes an earlier upload of the same bytes if its bundle still exists; registers the bundle otherwise. */
	const send = async (chosen: File, checksum: string) => {
		let existed = false;
		const upload = new TusUpload(chosen, {
			endpoint: "/files/upload/attachments",
			chunkSize: CHUNK_BYTES,
			retryDelays: RETRY_DELAYS_MS,
			metadata: { filename: `orgs/${orgId}/apps/${appId}/${version}.zip` },
			// The same bytes for the same version are the same upload.
			fingerprint: async () => `capstan/${appId}/${version}/${checksum}`,
			removeFingerprintOnSuccess: true,
			onUploadUrlAvailable: () => {
				existed = true;
			},
			onProgress: (sentBytes) => setSent(sentBytes),
			onError: (problem) => {
				if (isGone(problem) && existed) {
					// The TUS client has dropped the earlier upload, because it cannot be resumed.
					setResumed(false);
					setSent(0);
					send(chosen, checksum).catch(fail);
					return;
				}
				setError(problem);
				setPhase("paused");
			},
			onSuccess: () => void finish(),
		});
		const [earlier] = await upload.findPreviousUploads();
		if (earlier === undefined) {
			await ask("POST /bundle", {
				body: { app_id: appId, version, checksum, size: chosen.size, ...(comment === "" ? {} : { comment }) },
			});
		} else {
			existed = true;
			upload.resumeFromPreviousUpload(earlier);
			setResumed(true);
		}
		if (!isOpen.current) return;
		running.current = upload;
		setPhase("sending");
		upload.start();
	};
	const pause = async () => {
		await running.current?.abort();
		setPhase("paused");
	};
	const resume = () => {
		setError(undefined);
		setPhase("sending");
		running.current?.start();
	};
	const isBusy = phase !== "choosing";
	const warns = verdict?.outcome === "accepted" && verdict.call === "missing";
	const percent = file === null || file.size === 0 ? 0 : Math.floor((sent / file.size) * 100);
	return (
		<Dialog onClose={onClose} title="Upload bundle" size="lg" closeOnClickOutside={!isBusy}>
			<form
				onSubmit={(event) => {
					event.preventDefault();
					if (file !== null) void begin(file);
				}}
			>
				<Stack>
					<FileInput
						label="Zip of the built web app"
						description="With index.html at the top level."
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
					{warns ? (
						<Alert color="orange" title="No call of notifyAppReady() was found" role="alert">
							Devices would roll this bundle back, because it must call CapacitorUpdater.notifyAppReady() after it
							starts. Add the call, build the app again and choose the new zip.
						</Alert>
					) : null}
					<TextInput
						label="Version"
						description="Semantic version, e.g. 1.4.0. Must be unique."
						required
						disabled={isBusy}
						value={version}
						onChange={(event) => setVersion(event.currentTarget.value)}
					/>
					<TextInput
						label="Comment"
						disabled={isBusy}
						value={comment}
						onChange={(event) => setComment(event.currentTarget.value)}
					/>
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
					{isResumed ? <Alert color="blue">Resuming an earlier upload of this file.</Alert> : null}
					{error === undefined ? null : <UploadProblem error={error} />}
					<Group justify="flex-end">
						<Button variant="default" onClick={onClose}>
							{isBusy ? "Stop upload" : "Cancel"}
						</Button>
						{phase === "sending" ? <Button onClick={() => void pause()}>Pause upload</Button> : null}
						{phase === "paused" ? <Button onClick={resume}>Resume upload</Button> : null}
						{phase === "choosing" || phase === "hashing" ? (
							<Button
								type="submit"
								loading={phase === "hashing"}
								disabled={verdict?.outcome !== "accepted" || version === ""}
							>
								{warns ? "Upload anyway" : "Upload bundle"}
							</Button>
						) : null}
					</Group>
				</Stack>
			</form>
		</Dialog>
	);
}

/** Result of checking the chosen file; undefined while the check runs. */
function useVerdict(file: File | null): FileVerdict | undefined {
	const [checked, setChecked] = useState<{ readonly file: File; readonly verdict: FileVerdict } | undefined>();
	useEffect(() => {
		if (file === null) return;
		const abandoned = new AbortController();
		const keep = (verdict: FileVerdict) => {
			if (!abandoned.signal.aborted) setChecked({ file, verdict });
		};
		checkBundleFile(file, abandoned.signal).then(keep, () =>
			keep({ outcome: "refused", message: "The browser can no longer read this file. Choose it again." }),
		);
		return () => abandoned.abort();
	}, [file]);
	return checked !== undefined && checked.file === file ? checked.verdict : undefined;
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
		<Alert color="red" title="The upload was rejected" role="alert">
			{message}
		</Alert>
	);
}
