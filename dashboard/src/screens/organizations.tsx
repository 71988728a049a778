/** Every organization of the reader, and a new one for whoever may make one. */
import { Button, Group, Stack, Text, TextInput } from "@mantine/core";
import { useState } from "react";
import { useLocation } from "wouter";
import { useChange } from "../api";
import { useDeletedOrganizations, useOrganizations } from "../organizations";
import { Answer, Problem } from "../parts/answer";
import { Dialog } from "../parts/dialog";
import { TextLink } from "../parts/link";
import { say } from "../parts/say";
import { Empty, Screen, Section } from "../parts/screen";
import { DataTable, Pager, pageOf, usePageNumber } from "../parts/table";
import { Day, Time } from "../parts/time";
import { organizationPath } from "../paths";
import { useMayCreateOrganizations } from "../permissions";

export default function Organizations() {
	const organizations = useOrganizations();
	const [asked, setPage] = usePageNumber();
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
						return (
							<Empty title="You are in no organization">
								Ask an administrator for an invitation. Whoever administers an organization can make another one.
							</Empty>
						);
					}
					const { page, items, hasNext } = pageOf(known, asked);
					return (
						<Stack gap="sm">
							<DataTable
								label="Organizations"
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

/** Nothing where there are none; the screen is about the others. */
function Deleted() {
	const [page, setPage] = usePageNumber("deleted");
	const deleted = useDeletedOrganizations(page);
	const restore = useChange("POST /organization/restore");
	if (deleted.isError) return <Problem error={deleted.error} onRetry={() => void deleted.refetch()} />;
	if (deleted.data === undefined || (deleted.data.items.length === 0 && page === 0)) return null;
	return (
		<Section title="Deleted organizations">
			<Text size="sm">
				Everything in them is kept until the day that stands here, then it is gone for good. Undo brings it back as it
				was.
			</Text>
			<DataTable
				label="Deleted organizations"
				rows={deleted.data.items}
				rowKey={({ id }) => id}
				columns={[
					{ title: "Name", cell: ({ name }) => name },
					{ title: "Deleted", wideOnly: true, cell: ({ deleted_at }) => <Time value={deleted_at} /> },
					{ title: "Gone on", cell: ({ restorable_until }) => <Day value={restorable_until} /> },
					{
						title: "Change",
						cell: ({ id, name }) => (
							<Button
								size="xs"
								variant="default"
								aria-label={`Undo the deletion of ${name}`}
								loading={restore.isPending && restore.variables.body.orgId === id}
								onClick={() =>
									restore.mutate({ body: { orgId: id } }, { onSuccess: () => say(`${name} is back, as it was.`) })
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
		say(`The organization ${name} is there.`);
		onClose();
		navigate(organizationPath(id));
	});
	return (
		<Dialog onClose={onClose} title="New organization">
			<form
				onSubmit={(event) => {
					event.preventDefault();
					create.mutate({ body: { name } });
				}}
			>
				<Stack>
					<TextInput
						label="Name"
						required
						maxLength={128}
						data-autofocus
						value={name}
						onChange={(event) => setName(event.currentTarget.value)}
					/>
					{create.isError ? <Problem error={create.error} /> : null}
					<Group justify="flex-end">
						<Button type="submit" loading={create.isPending}>
							Create
						</Button>
					</Group>
				</Stack>
			</form>
		</Dialog>
	);
}
