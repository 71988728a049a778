/**
 * The channels on which the user holds a role without one on their app: the only way to them,
 * because their apps are hidden.
 */
import { Text } from "@mantine/core";
import { TextLink } from "../../components/link";
import { Section } from "../../components/screen";
import { DataTable } from "../../components/table";
import { channelPath } from "../../paths";
import type { OwnBinding } from "../../permissions";
import { titleOf, useRoles } from "../../roles";

export function OwnChannels({ orgId, bindings }: { readonly orgId: string; readonly bindings: readonly OwnBinding[] }) {
	const roles = useRoles(orgId);
	return (
		<Section title="Your channels">
			<Text size="sm" c="dimmed">
				Your roles are for these channels only.
			</Text>
			<DataTable
				label="Your channels"
				isLinked
				rows={bindings}
				rowKey={({ id }) => id}
				columns={[
					{
						title: "Channel",
						cell: ({ app_id, channel }) => <TextLink to={channelPath(app_id, channel ?? "")}>{channel}</TextLink>,
					},
					{ title: "App", cell: ({ app_id }) => <span className="mono">{app_id}</span> },
					{ title: "Role", cell: ({ role_name }) => titleOf(roles, role_name) },
				]}
			/>
		</Section>
	);
}
