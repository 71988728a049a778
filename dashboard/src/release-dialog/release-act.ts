/**
 * Uploads the zip if there is one, saves the note, and releases. A release that is refused after
 * the upload is repeated without another upload.
 */
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { type AnswerOf, ask, CapstanError } from "../api";
import { formErrors } from "../components/field-errors";
import { notify } from "../components/notify";
import { useBundleUpload } from "../upload/bundle-upload";
import type { ReleaseChoice } from "./release-choice";

export const BUNDLE_ERRORS = [
	"version",
	"rolloutVersion",
	"bundle_not_found",
	"bundle_not_ready",
	"bundle_from_preview",
	"bundle_not_signed",
];
const SHOWN = [...BUNDLE_ERRORS, "rolloutPercentage", "autoPauseFailureRateBps"];

export function useReleaseAct(choice: ReleaseChoice, orgId: string | undefined, onClose: () => void) {
	const client = useQueryClient();
	const { appId, bundle, target, how } = choice;
	const { file, version, changedNote } = bundle;
	const [allowsPreview, setAllowsPreview] = useState(false);
	const release = useMutation<AnswerOf<"POST /channel">, Error>({
		mutationFn: async () => {
			if (changedNote !== undefined) {
				await ask("POST /bundle/metadata", { body: { app_id: appId, version, comment: changedNote } });
			}
			const body = { ...choice.bodyFor(how.way), ...(allowsPreview ? { allow_preview_bundle: true } : {}) };
			return ask("POST /channel", { body });
		},
		onSuccess: async (answer) => {
			notify(doneText(answer.status === "pending_approval", version, target.name, how.isStaged));
			onClose();
			await client.invalidateQueries();
		},
	});
	const upload = useBundleUpload(appId, orgId, () => release.mutate());
	const isUploaded = upload.phase === "done";
	const isUploading = upload.phase !== "choosing" && !isUploaded;
	return {
		upload,
		isUploaded,
		isUploading,
		isBusy: release.isPending || isUploading,
		isReleasing: release.isPending,
		isRefused: release.isError,
		errors: formErrors(release.error, SHOWN),
		asksAboutPreview:
			allowsPreview || (release.error instanceof CapstanError && release.error.code === "bundle_from_preview"),
		allowsPreview,
		setAllowsPreview,
		submit() {
			if (file !== null && !isUploaded) void upload.begin({ file, version, comment: bundle.note.trim() });
			else release.mutate();
		},
	};
}

export type ReleaseAct = ReturnType<typeof useReleaseAct>;

function doneText(isProposed: boolean, version: string, name: string, isStaged: boolean): string {
	if (isProposed)
		return `Proposed the release of ${version} to ${name}. Devices keep what they run until it is approved.`;
	return isStaged ? `Started the release of ${version} to ${name}.` : `Released ${version} to ${name}.`;
}
