/** The deleted apps of an organization that the reader may bring back. */
import { Button, Code, Text } from "@mantine/core";
import type { UseQueryResult } from "@tanstack/react-query";
import { type AnswerOf, type Paged, useChange, usePage } from "../api";
import { Problem } from "../parts/answer";
import { say } from "../parts/say";
import { Section } from "../parts/screen";
import { DataTable, Pager, usePageNumber } from "../parts/table";
import { Day, Time } from "../parts/time";

type DeletedApp = Extract<AnswerOf<"GET /app">[number], { readonly restorable_until: string }>;

/** Nothing where there are none; the screen is about the others. */
export function DeletedApps({ orgId }: { readonly orgId: string }) {
	const [page, setPage] = usePageNumber("deleted");
	const asked = usePage("GET /app", { query: { org_id: orgId, deleted: "true" } }, page);
	const deleted = asked as UseQueryResult<Paged<DeletedApp>, Error>;
	const restore = useChange("POST /app/restore");
	if (deleted.isError) return <Problem error={deleted.error} onRetry={() => void deleted.refetch()} />;
	if (deleted.data === undefined || (deleted.data.items.length === 0 && page === 0)) return null;
	return (
		<Section title="Deleted apps">
			<Text size="sm">
				An app is kept until the day shown, then it is removed for good. Undo brings it back as it was. Its app id stays
				reserved for this organization.
			</Text>
			<DataTable
				label="Deleted apps"
				rows={deleted.data.items}
				rowKey={({ id }) => id}
				columns={[
					{ title: "Name", cell: ({ name }) => name },
					{ title: "App id", wideOnly: true, cell: ({ app_id }) => <Code>{app_id}</Code> },
					{ title: "Deleted", wideOnly: true, cell: ({ deleted_at }) => <Time value={deleted_at} /> },
					{ title: "Gone on", cell: ({ restorable_until }) => <Day value={restorable_until} /> },
					{
						title: "Change",
						cell: ({ id, app_id, name }) => (
							<Button
								size="xs"
								variant="default"
								aria-label={`Undo the deletion of ${name}`}
								loading={restore.isPending && restore.variables.body.id === id}
								onClick={() =>
									restore.mutate({ body: { app_id, id } }, { onSuccess: () => say(`${name} is back, as it was.`) })
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
