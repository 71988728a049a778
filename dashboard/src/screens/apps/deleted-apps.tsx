/** Deleted apps of an organization that the user may restore. */
import { Button, Code, Text } from "@mantine/core";
import type { UseQueryResult } from "@tanstack/react-query";
import { type AnswerOf, type Paged, useChange, usePage } from "../../api";
import { Problem } from "../../components/answer";
import { notify } from "../../components/notify";
import { Section } from "../../components/screen";
import { DataTable, Pager, usePageNumber } from "../../components/table";
import { Day, Time } from "../../components/time";

type DeletedApp = Extract<AnswerOf<"GET /app">[number], { readonly restorable_until: string }>;

/** Renders nothing if no app is deleted. */
export function DeletedApps({ orgId }: { readonly orgId: string }) {
	const [page, setPage] = usePageNumber("deleted");
	const deletedApps = usePage("GET /app", { query: { org_id: orgId, deleted: "true" } }, page);
	const deleted = deletedApps as UseQueryResult<Paged<DeletedApp>, Error>;
	const restore = useChange("POST /app/restore");
	if (deleted.isError) return <Problem error={deleted.error} onRetry={() => void deleted.refetch()} />;
	if (deleted.data === undefined || (deleted.data.items.length === 0 && page === 0)) return null;
	return (
		<Section title="Deleted apps">
			<Text size="sm">
				A deleted app is kept until the date shown, then it is deleted permanently. Until then you can undo it. Its app
				id stays reserved for this organization.
			</Text>
			<DataTable
				label="Deleted apps"
				rows={deleted.data.items}
				rowKey={({ id }) => id}
				columns={[
					{ title: "Name", cell: ({ name }) => name },
					{ title: "App id", wideOnly: true, cell: ({ app_id }) => <Code>{app_id}</Code> },
					{ title: "Deleted", wideOnly: true, cell: ({ deleted_at }) => <Time value={deleted_at} /> },
					{ title: "Deleted permanently", cell: ({ restorable_until }) => <Day value={restorable_until} /> },
					{
						title: "Actions",
						cell: ({ id, app_id, name }) => (
							<Button
								size="xs"
								variant="default"
								aria-label={`Undo the deletion of ${name}`}
								loading={restore.isPending && restore.variables.body.id === id}
								onClick={() =>
									restore.mutate({ body: { app_id, id } }, { onSuccess: () => notify(`${name} is restored.`) })
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
