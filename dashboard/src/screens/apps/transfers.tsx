/** Apps that other organizations offer to this one, to accept or decline. */
import { Button, Group, Text } from "@mantine/core";
import { useLocation } from "wouter";
import { useAsk, useChange } from "../../api";
import { Problem } from "../../components/answer";
import { notify } from "../../components/notify";
import { Section } from "../../components/screen";
import { DataTable } from "../../components/table";
import { Day } from "../../components/time";
import { appPath } from "../../paths";

/** Renders nothing if no app is offered. */
export function OfferedApps({ orgId }: { readonly orgId: string }) {
	const [, navigate] = useLocation();
	const offers = useAsk("GET /app/transfer", { query: { orgId } });
	const accept = useChange("POST /app/transfer/accept", ({ app_id }) => {
		notify(`${app_id} now belongs to this organization.`);
		navigate(appPath(app_id));
	});
	const decline = useChange("POST /app/transfer/decline", () => notify("Offer declined."));
	const incoming = offers.data?.filter(({ direction }) => direction === "incoming") ?? [];
	if (incoming.length === 0) return null;
	return (
		<Section title="Offered apps">
			<Text size="sm">Other organizations offer you these apps, with their devices, bundles and history.</Text>
			<DataTable
				label="Offered apps"
				rows={incoming}
				rowKey={({ id }) => id}
				columns={[
					{ title: "App", cell: ({ app_id }) => app_id },
					{ title: "From", cell: ({ from_org_name }) => from_org_name },
					{ title: "Expires", wideOnly: true, cell: ({ expires_at }) => <Day value={expires_at} /> },
					{
						title: "Actions",
						cell: ({ app_id }) => (
							<Group gap="xs">
								<Button
									size="xs"
									aria-label={`Accept ${app_id}`}
									loading={accept.isPending && accept.variables.body.app_id === app_id}
									onClick={() => accept.mutate({ body: { app_id } })}
								>
									Accept
								</Button>
								<Button
									size="xs"
									variant="default"
									aria-label={`Decline ${app_id}`}
									loading={decline.isPending && decline.variables.body.app_id === app_id}
									onClick={() => decline.mutate({ body: { app_id } })}
								>
									Decline
								</Button>
							</Group>
						),
					},
				]}
			/>
			{accept.isError ? <Problem error={accept.error} /> : null}
			{decline.isError ? <Problem error={decline.error} /> : null}
		</Section>
	);
}
