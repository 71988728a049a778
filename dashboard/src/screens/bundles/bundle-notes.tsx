/** The notes and the link of a bundle, edited in place. */
import { Button, Stack, Textarea, TextInput } from "@mantine/core";
import { useState } from "react";
import { useChange } from "../../api";
import { Problem } from "../../components/answer";
import { Card } from "../../components/card";
import { formErrors } from "../../components/field-errors";
import { Icon } from "../../components/icon";
import { WebLink } from "../../components/link";
import { notify } from "../../components/notify";
import { useUnsaved } from "../../components/unsaved";
import { IconPencil } from "../../icons";
import type { BundleRecord } from "./compare";

const FIELDS = ["comment", "link"] as const;

export function BundleNotes({
	appId,
	bundle,
	mayEdit,
}: {
	readonly appId: string;
	readonly bundle: BundleRecord;
	readonly mayEdit: boolean;
}) {
	const [isEditing, setEditing] = useState(false);
	const { comment, link } = bundle;
	if (isEditing) return <Editor appId={appId} bundle={bundle} onClose={() => setEditing(false)} />;
	if (!mayEdit && comment === null && link === null) return null;
	return (
		<Card
			title="Notes"
			actions={
				mayEdit ? (
					<Button size="xs" variant="default" onClick={() => setEditing(true)} leftSection={<Icon of={IconPencil} />}>
						{comment === null && link === null ? "Add notes" : "Edit notes"}
					</Button>
				) : undefined
			}
		>
			<div className="stack">
				{comment === null ? (
					<span className="muted">No notes yet. They stand beside each release of the bundle.</span>
				) : (
					<p className="bundle-notes">{comment}</p>
				)}
				{link === null ? null : <WebLink address={link} />}
			</div>
		</Card>
	);
}

function Editor({
	appId,
	bundle,
	onClose,
}: {
	readonly appId: string;
	readonly bundle: BundleRecord;
	readonly onClose: () => void;
}) {
	const [comment, setComment] = useState(bundle.comment ?? "");
	const [link, setLink] = useState(bundle.link ?? "");
	const change = useChange("POST /bundle/metadata", () => {
		notify(`Notes of ${bundle.name} saved.`);
		onClose();
	});
	const errors = formErrors(change.error, FIELDS);
	const isChanged = comment !== (bundle.comment ?? "") || link !== (bundle.link ?? "");
	useUnsaved(() => isChanged && !change.isPending);
	return (
		<Card title="Notes">
			<form
				onSubmit={(event) => {
					event.preventDefault();
					change.mutate({ body: { app_id: appId, version: bundle.name, comment: comment.trim(), link: link.trim() } });
				}}
			>
				<Stack gap="sm">
					<Textarea
						label="Notes (optional)"
						description="What is new in this bundle, for the people who release it."
						data-autofocus
						autosize
						minRows={2}
						maxLength={2048}
						value={comment}
						error={errors.at("comment")}
						onChange={(event) => setComment(event.currentTarget.value)}
					/>
					<TextInput
						label="Link (optional)"
						description="E.g. to the commit or the pull request."
						placeholder="https://"
						maxLength={2048}
						value={link}
						error={errors.at("link")}
						onChange={(event) => setLink(event.currentTarget.value)}
					/>
					{errors.rest === null ? null : <Problem error={errors.rest} />}
					<div className="row wrap">
						<Button type="submit" loading={change.isPending}>
							Save notes
						</Button>
						<Button variant="subtle" onClick={onClose}>
							Cancel
						</Button>
					</div>
				</Stack>
			</form>
		</Card>
	);
}
