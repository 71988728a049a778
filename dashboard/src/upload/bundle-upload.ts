/**
 * Uploads a bundle from the browser with TUS. The SHA-256 is computed here. Sending the same file
 * for the same version again resumes an interrupted upload, even after a reload.
 */
import { useEffect, useRef, useState } from "react";
import { DetailedError, Upload as TusUpload } from "tus-js-client";
import { ask } from "../api";
import { checkBundleFile, type FileVerdict } from "./bundle-file";

/** Two of the server's 8 MiB segments per request. */
const CHUNK_BYTES = 16 * 1024 * 1024;
const RETRY_DELAYS_MS = [500, 2_000, 5_000, 10_000];

type Phase = "choosing" | "hashing" | "sending" | "paused" | "done";

/** The bundle was deleted meanwhile, by a person or because its upload expired. */
const isGone = (problem: Error) => problem instanceof DetailedError && problem.originalResponse?.getStatus() === 404;

async function sha256Of(file: File): Promise<string> {
	const digest = await crypto.subtle.digest("SHA-256", await file.arrayBuffer());
	return [...new Uint8Array(digest)].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

interface BundleToSend {
	readonly file: File;
	readonly version: string;
	readonly comment: string;
}

export function useBundleUpload(appId: string, orgId: string | undefined, onDone: () => void) {
	const [phase, setPhase] = useState<Phase>("choosing");
	const [sentBytes, setSentBytes] = useState(0);
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

	const fail = (problem: unknown) => {
		setError(problem instanceof Error ? problem : new Error(String(problem)));
		setPhase("choosing");
	};

	/**
	 * Resumes an earlier upload of the same bytes if its bundle still exists; registers the bundle
	 * otherwise.
	 */
	const send = async ({ file, version, comment }: BundleToSend, checksum: string) => {
		let existed = false;
		const upload = new TusUpload(file, {
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
			onProgress: (bytes) => setSentBytes(bytes),
			onError: (problem) => {
				if (isGone(problem) && existed) {
					// The TUS client has dropped the earlier upload, because it cannot be resumed.
					setResumed(false);
					setSentBytes(0);
					send({ file, version, comment }, checksum).catch(fail);
					return;
				}
				setError(problem);
				setPhase("paused");
			},
			onSuccess: () => {
				setPhase("done");
				onDone();
			},
		});
		const [earlier] = await upload.findPreviousUploads();
		if (earlier === undefined) {
			await ask("POST /bundle", {
				body: { app_id: appId, version, checksum, size: file.size, ...(comment === "" ? {} : { comment }) },
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

	return {
		phase,
		sentBytes,
		isResumed,
		error,
		async begin(bundle: BundleToSend) {
			setError(undefined);
			setPhase("hashing");
			try {
				await send(bundle, await sha256Of(bundle.file));
			} catch (problem) {
				fail(problem);
			}
		},
		async pause() {
			await running.current?.abort();
			setPhase("paused");
		},
		resume() {
			setError(undefined);
			setPhase("sending");
			running.current?.start();
		},
	};
}

export type BundleUpload = ReturnType<typeof useBundleUpload>;

/** Result of checking the chosen file; undefined while the check runs. */
export function useVerdict(file: File | null): FileVerdict | undefined {
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
