/** The user's organizations, deleted ones that can be restored, and a form that creates one. */

import { Button, Stack, Text, TextInput } from "@mantine/core";
import { useState } from "react";
import { useLocation } from "wouter";
import { useChange } from "../../api";
import { Answer, Problem } from "../../components/answer";
import { formErrors } from "../../components/field-errors";
import { FormDialog } from "../../components/form-dialog";
import { TextLink } from "../../components/link";
import { notify } from "../../components/notify";
import { Empty, Screen, Section } from "../../components/screen";
import { DataTable, Pager, pageOf, usePageNumber } from "../../components/table";
import { Day, Time } from "../../components/time";
import { useDeletedOrganizations, useOrganizations } from "../../organizations";
import { organizationPath } from "../../paths";
import { useMayCreateOrganizations } from "../../permissions";

export default function Organizations() {
	const organizations = useOrganizations();
	const [requestedPage, setPage] = usePageNumber();
	const [isOpen, setOpen] = useState(false);
	const mayCreate = useMayCreateOrganizations();
	return (
		<Screen
			title="Organizations"
			actions={mayCreate ? <Button onClick={() => setOpen(true)}>New organization</Button> : undefined}
		>
			<Answer query={organizations} what="your organizations">
				{(known) => {
					if (known.length === 0) {
						return <Empty title="No organizations">Ask an administrator of an organization to invite you.</Empty>;
					}
					const { page, items, hasNext } = pageOf(known, requestedPage);
					return (
						<Stack gap="sm">
							<DataTable
								label="Organizations"
								isLinked
								rows={items}
								rowKey={({ id }) => id}
								columns={[
									{ title: "Name", cell: ({ id, name }) => <TextLink to={organizationPath(id)}>{name}</TextLink> },
									{ title: "Created", cell: ({ created_at }) => <Time value={created_at} /> },
								]}
							/>
							<Pager page={page} hasNext={hasNext} onPage={setPage} />
						</Stack>
					);
				}}
			</Answer>
			<Deleted />
			{isOpen ? <CreateOrganization onClose={() => setOpen(false)} /> : null}
		</Screen>
	);
}

/** Renders nothing if no organization is deleted. */
function Deleted() {
	const [page, setPage] = usePageNumber("deleted");
	const deleted = useDeletedOrganizations(page);
	const restore = useChange("POST /organization/restore");
	if (deleted.isError) return <Problem error={deleted.error} onRetry={() => void deleted.refetch()} />;
	if (deleted.data === undefined || (deleted.data.items.length === 0 && page === 0)) return null;
	return (
		<Section title="Deleted organizations">
			<Text size="sm">
				A deleted organization is kept until the date shown, then it is deleted permanently. Until then you can undo it.
			</Text>
			<DataTable
				label="Deleted organizations"
				rows={deleted.data.items}
				rowKey={({ id }) => id}
				columns={[
					{ title: "Name", cell: ({ name }) => name },
					{ title: "Deleted", wideOnly: true, cell: ({ deleted_at }) => <Time value={deleted_at} /> },
					{ title: "Deleted permanently", cell: ({ restorable_until }) => <Day value={restorable_until} /> },
					{
						title: "Actions",
						cell: ({ id, name }) => (
							<Button
								size="xs"
								variant="default"
								aria-label={`Undo the deletion of ${name}`}
								loading={restore.isPending && restore.variables.body.orgId === id}
								onClick={() =>
									restore.mutate({ body: { orgId: id } }, { onSuccess: () => notify(`${name} is restored.`) })
								}
							>
								Undo
							</Button>
						),
					},
				]}
			/>
			<Pager page={page} hasNext={deleted.data.hasNext} onPage={setPage} />
			{restore.isError ? <Problem error={restore.error} /> : null}
		</Section>
	);
}

function CreateOrganization({ onClose }: { readonly onClose: () => void }) {
	const [name, setName] = useState("");
	const [, navigate] = useLocation();
	const create = useChange("PUT /organization", ({ id }) => {
		notify(`Organization ${name} created.`);
		onClose();
		navigate(organizationPath(id));
	});
	const errors = formErrors(create.error, ["name"]);
	return (
		<FormDialog
			title="New organization"
			action="Create organization"
			isPending={create.isPending}
			error={errors.rest}
			onSubmit={() => create.mutate({ body: { name } })}
			onClose={onClose}
		>
			<TextInput
				label="Name"
				error={errors.at("name")}
				required
				maxLength={128}
				data-autofocus
				value={name}
				onChange={(event) => setName(event.currentTarget.value)}
			/>
		</FormDialog>
	);
}
