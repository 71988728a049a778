/** Roles of an API key and their scopes: as text, and as an editor that offers only roles that the user may grant. */
import { Button, Group, NativeSelect, Stack, Text } from "@mantine/core";
import { type AnswerOf, useAllPages } from "../../api";
import { InputError } from "../../components/input-error";
import type { AppRecord } from "../../organizations";
import { grantableRoles, type RoleName, roleText } from "../../permissions";

export type Binding = AnswerOf<"GET /apikey">[number]["bindings"][number];

export function BindingList({
	bindings,
	apps,
	orgId,
}: {
	readonly bindings: readonly Binding[];
	readonly apps: readonly AppRecord[];
	readonly orgId: string;
}) {
	if (bindings.length === 0) return <Text size="sm">No roles</Text>;
	return (
		<Stack gap={2}>
			{bindings.map(({ id, role_name, scope_type, app_id, org_id, channel_id }) => (
				<Text size="sm" key={id}>
					{roleText(role_name)}
					{scope_type === "org"
						? org_id === orgId
							? " of the organization"
							: " of another organization"
						: ` of ${apps.find((app) => app.id === app_id)?.name ?? "an app"}`}
					{channel_id === null ? null : (
						<ChannelName appId={apps.find((app) => app.id === app_id)?.app_id} channelId={channel_id} />
					)}
				</Text>
			))}
		</Stack>
	);
}

/** A role on a channel names it by its number, because names are used again. */
function ChannelName({ appId, channelId }: { readonly appId: string | undefined; readonly channelId: number }) {
	const channels = useAllPages("GET /channel", { query: { app_id: appId ?? "" } }, { enabled: appId !== undefined });
	const name = channels.data?.find(({ id }) => id === channelId)?.name;
	if (name !== undefined) return `, channel ${name}`;
	return channels.isSuccess ? ", a deleted channel" : ", one channel";
}

/** One row of the editor. An empty app means the whole organization. */
export interface Grant {
	readonly id: string;
	readonly app: string;
	readonly role: RoleName | "";
}

export const newGrant = (app = "", role: RoleName | "" = ""): Grant => ({ id: crypto.randomUUID(), app, role });

export function BindingEditor({
	grants,
	apps,
	ownRole,
	error,
	onChange,
}: {
	readonly grants: readonly Grant[];
	readonly apps: readonly AppRecord[];
	/** The user's own role, which limits the roles that they may grant. */
	readonly ownRole: RoleName | null | undefined;
	readonly error?: string | undefined;
	readonly onChange: (grants: readonly Grant[]) => void;
}) {
	const change = (id: string, fields: Partial<Grant>) =>
		onChange(grants.map((grant) => (grant.id === id ? { ...grant, ...fields } : grant)));
	return (
		<fieldset className="group">
			<legend>Roles</legend>
			<Stack gap="sm">
				{grants.map(({ id, app, role }, index) => (
					<Group key={id} align="flex-end" gap="sm">
						<NativeSelect
							label={`Scope (${index + 1})`}
							value={app}
							onChange={(event) => change(id, { app: event.currentTarget.value, role: "" })}
							data={[
								{ value: "", label: "Whole organization" },
								...apps.map((known) => ({ value: known.id, label: `${known.name} (${known.app_id})` })),
							]}
						/>
						<NativeSelect
							label={`Role (${index + 1})`}
							required
							value={role}
							onChange={(event) => change(id, { role: event.currentTarget.value as RoleName | "" })}
							data={[
								{ value: "", label: "Choose a role" },
								...grantableRoles(ownRole, app === "" ? "org" : "app").map((name) => ({
									value: name,
									label: roleText(name),
								})),
							]}
						/>
						{grants.length > 1 ? (
							<Button
								variant="danger"
								aria-label={`Remove role ${index + 1}`}
								onClick={() => onChange(grants.filter((grant) => grant.id !== id))}
							>
								Remove
							</Button>
						) : null}
					</Group>
				))}
				<InputError error={error} />
				<Group>
					<Button variant="default" size="xs" onClick={() => onChange([...grants, newGrant(grants.at(-1)?.app)])}>
						Add role
					</Button>
				</Group>
			</Stack>
		</fieldset>
	);
}
