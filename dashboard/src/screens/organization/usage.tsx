/** Usage of an organization and its apps, compared with their quotas. */
import { Group, Progress, Stack, Text } from "@mantine/core";
import { type AnswerOf, useAsk } from "../../api";
import { Answer } from "../../components/answer";
import { TextLink } from "../../components/link";
import { Section } from "../../components/screen";
import { countText, sizeText } from "../../components/size";
import { DataTable } from "../../components/table";
import { appPath } from "../../paths";

type Usage = AnswerOf<"GET /organization/usage">;
type Quota = Usage["quotas"][number];

const LABELS: Readonly<Record<string, string>> = {
	storage_bytes_per_organization: "Storage",
	apps_per_organization: "Apps",
	api_keys_per_organization: "API keys",
	invitations_per_organization: "Open invitations",
};
/** Share from which the bar becomes a warning. */
const NEARLY_FULL = 0.9;

const amountText = ({ name }: Quota, amount: number) =>
	name.startsWith("storage_bytes") ? sizeText(amount) : countText(amount);
const usedText = (quota: Quota | undefined) =>
	quota === undefined ? "" : `${countText(quota.used)} of ${countText(quota.limit)}`;

export function Usage({ orgId }: { readonly orgId: string }) {
	const usage = useAsk("GET /organization/usage", { query: { orgId } });
	return (
		<Section title="Usage">
			<Answer query={usage} what="the usage">
				{({ quotas, apps, more }) => (
					<Stack gap="md">
						<Stack gap="xs" maw="32rem">
							{quotas.map((quota) => (
								<Meter key={quota.name} quota={quota} />
							))}
						</Stack>
						{apps.length === 0 ? null : (
							<DataTable
								label="Usage of apps"
								rows={apps}
								rowKey={({ id }) => id}
								columns={[
									{ title: "App", cell: ({ app_id, name }) => <TextLink to={appPath(app_id)}>{name}</TextLink> },
									{ title: "Storage", cell: ({ storage_bytes }) => sizeText(storage_bytes) },
									{ title: "Channels", wideOnly: true, cell: ({ quotas: [channels] }) => usedText(channels) },
									{ title: "Bundles", wideOnly: true, cell: ({ quotas: [, bundles] }) => usedText(bundles) },
								]}
							/>
						)}
						{more ? (
							<Text size="sm" c="dimmed">
								Shows the apps with the most storage.
							</Text>
						) : null}
					</Stack>
				)}
			</Answer>
		</Section>
	);
}

function Meter({ quota }: { readonly quota: Quota }) {
	const label = LABELS[quota.name] ?? quota.name;
	const share = quota.limit === 0 ? 1 : Math.min(1, quota.used / quota.limit);
	return (
		<div>
			<Group justify="space-between" gap="xs">
				<Text size="sm">{label}</Text>
				<Text size="sm" c="dimmed">
					{amountText(quota, quota.used)} of {amountText(quota, quota.limit)}
				</Text>
			</Group>
			<Progress
				value={Math.round(share * 100)}
				size="sm"
				aria-label={label}
				{...(share >= NEARLY_FULL ? { color: "orange" } : {})}
			/>
		</div>
	);
}
