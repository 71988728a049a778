/** Usage of an organization and its apps, compared with their quotas. */
import { Group, Progress, Stack, Text } from "@mantine/core";
import type { QuotaName } from "../../../../src/domain/quotas";
import { type AnswerOf, useAsk } from "../../api";
import { Answer } from "../../components/answer";
import { TextLink } from "../../components/link";
import { SettingsFacts } from "../../components/settings-card";
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
	open_uploads_per_organization: "Unfinished uploads",
} satisfies Record<Extract<QuotaName, `${string}_per_organization`>, string>;
/** Share from which the bar becomes a warning. */
const NEARLY_FULL = 0.9;

const amountText = ({ name }: Quota, amount: number) =>
	name.startsWith("storage_bytes") ? sizeText(amount) : countText(amount);
const usedText = (quota: Quota | undefined) =>
	quota === undefined ? "" : `${countText(quota.used)} of ${countText(quota.limit)}`;

export function Usage({ orgId }: { readonly orgId: string }) {
	const usage = useAsk("GET /organization/usage", { query: { orgId } });
	return (
		<SettingsFacts title="Usage" note="Compared with the quotas of this server.">
			<Answer query={usage} what="the usage">
				{({ quotas, apps, more }) => (
					<Stack gap="md">
						<Stack gap="xs">
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
		</SettingsFacts>
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
