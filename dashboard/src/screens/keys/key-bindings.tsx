/**
 * Roles of an API key and their scopes: as text, and as an editor that offers only roles that the
 * user may grant.
 */
import { Button, Group, NativeSelect, Stack, Text } from "@mantine/core";
import { type AnswerOf, useAllPages } from "../../api";
import { InputError } from "../../components/input-error";
import { appText, ChannelSelect } from "../../components/place-fields";
import type { AppRecord } from "../../organizations";
import { grantableRoles, type Held } from "../../permissions";
import { type KnownRole, roleOptions, titleOf } from "../../roles";

export type Binding = AnswerOf<"GET /apikey">[number]["bindings"][number];

export function BindingList({
	bindings,
	apps,
	roles,
	orgId,
}: {
	readonly bindings: readonly Binding[];
	readonly apps: readonly AppRecord[];
	readonly roles: readonly KnownRole[];
	readonly orgId: string;
}) {
	if (bindings.length === 0) return <Text size="sm">No roles</Text>;
	return (
		<Stack gap={2}>
			{bindings.map(({ id, role_name, scope_type, app_id, org_id, channel_id }) => (
				<Text size="sm" key={id}>
					{titleOf(roles, role_name)}
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
	const query = { app_id: appId ?? "", limit: "1000" };
	const channels = useAllPages("GET /channel", { query }, { enabled: appId !== undefined });
	const name = channels.data?.find(({ id }) => id === channelId)?.name;
	if (name !== undefined) return `, channel ${name}`;
	return channels.isSuccess ? ", a deleted channel" : ", one channel";
}

/** One row of the editor. */
export interface Grant {
	readonly id: string;
	/** The app's id in bindings; empty: the whole organization. */
	readonly app: string;
	/** The channel's number; empty: the whole app. */
	readonly channel: string;
	readonly role: string;
}

export const newGrant = (app = "", channel = "", role = ""): Grant => ({ id: crypto.randomUUID(), app, channel, role });

const levelOf = ({ app, channel }: Grant) => (app === "" ? "org" : channel === "" ? "app" : "channel");

export function BindingEditor({
	grants,
	apps,
	roles,
	held,
	error,
	onChange,
}: {
	readonly grants: readonly Grant[];
	readonly apps: readonly AppRecord[];
	readonly roles: readonly KnownRole[];
	/** The user's permissions, which limit the roles that they may grant. */
	readonly held: Held;
	readonly error?: string | undefined;
	readonly onChange: (grants: readonly Grant[]) => void;
}) {
	const change = (id: string, fields: Partial<Grant>) =>
		onChange(grants.map((grant) => (grant.id === id ? { ...grant, ...fields } : grant)));
	return (
		<fieldset className="group">
			<legend>Roles</legend>
			<Stack gap="sm">
				{grants.map((grant, index) => (
					<Group key={grant.id} align="flex-end" gap="sm">
						<NativeSelect
							label={`Scope (${index + 1})`}
							value={grant.app}
							onChange={(event) => change(grant.id, { app: event.currentTarget.value, channel: "", role: "" })}
							data={[
								{ value: "", label: "Whole organization" },
								...apps.map((known) => ({ value: known.id, label: appText(known) })),
							]}
						/>
						{grant.app === "" ? null : (
							<ChannelSelect
								appId={apps.find(({ id }) => id === grant.app)?.app_id}
								by="id"
								label={`Channel (${index + 1})`}
								value={grant.channel}
								onChange={(channel) =>
									change(grant.id, {
										channel,
										...((channel === "") === (grant.channel === "") ? {} : { role: "" }),
									})
								}
							/>
						)}
						<NativeSelect
							label={`Role (${index + 1})`}
							required
							value={grant.role}
							onChange={(event) => change(grant.id, { role: event.currentTarget.value })}
							data={[
								{ value: "", label: "Choose a role" },
								...roleOptions(grantableRoles(roles, held, levelOf(grant))),
							]}
						/>
						{grants.length > 1 ? (
							<Button
								variant="danger"
								aria-label={`Remove role ${index + 1}`}
								onClick={() => onChange(grants.filter(({ id }) => id !== grant.id))}
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
