/** Mails about events, which the user chooses for each organization. */
import { Button, Group, Text } from "@mantine/core";
import { useState } from "react";
import type { EventType } from "../../../../src/domain/webhooks/event-types";
import { type AnswerOf, useAsk, useChange } from "../../api";
import { Answer } from "../../components/answer";
import { EventChoice } from "../../components/event-choice";
import { FormDialog } from "../../components/form-dialog";
import { notify } from "../../components/notify";
import { SettingsFacts } from "../../components/settings-card";
import { countOf } from "../../components/size";
import { DataTable } from "../../components/table";

type Organization = AnswerOf<"GET /account/mails">["organizations"][number];

export function EventMails() {
	const mails = useAsk("GET /account/mails", {});
	const [chosen, setChosen] = useState<Organization | undefined>();
	return (
		<SettingsFacts title="Mails about events" note="Each organization has its own choice.">
			<Answer query={mails} what="your mails">
				{({ available, organizations }) => {
					if (!available) return <Text size="sm">This server sends no mail.</Text>;
					if (organizations.length === 0) {
						return <Text size="sm">Administrators of an organization can get mails about its events.</Text>;
					}
					return (
						<DataTable
							label="Mails about events"
							rows={organizations}
							rowKey={({ org_id }) => org_id}
							columns={[
								{ title: "Organization", cell: ({ name }) => name },
								{
									title: "Mails",
									cell: ({ events }) => (
										<span className="whole">
											{events.length === 0 ? "None" : countOf(events.length, "kind of event", "kinds of events")}
										</span>
									),
								},
								{
									title: "Actions",
									cell: (organization) => (
										<Group>
											<Button
												size="xs"
												variant="default"
												aria-label={`Choose mails of ${organization.name}`}
												onClick={() => setChosen(organization)}
											>
												Choose mails
											</Button>
										</Group>
									),
								},
							]}
						/>
					);
				}}
			</Answer>
			{chosen === undefined ? null : <Choose organization={chosen} onClose={() => setChosen(undefined)} />}
		</SettingsFacts>
	);
}

function Choose({ organization, onClose }: { readonly organization: Organization; readonly onClose: () => void }) {
	const [events, setEvents] = useState<readonly EventType[]>(organization.events);
	const save = useChange("PUT /account/mails", () => {
		notify("Mails saved.");
		onClose();
	});
	return (
		<FormDialog
			title={`Mails of ${organization.name}`}
			action="Save mails"
			isPending={save.isPending}
			error={save.error}
			onClose={onClose}
			onSubmit={() => save.mutate({ body: { org_id: organization.org_id, events: [...events] } })}
		>
			<EventChoice label="Send me a mail about" value={events} onChange={setEvents} />
		</FormDialog>
	);
}
