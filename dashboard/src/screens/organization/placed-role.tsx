/**
 * Fields for a role on an app or a channel: the place first, because it decides which roles can be
 * chosen. Of members and of groups.
 */
import { NativeSelect } from "@mantine/core";
import { AppSelect, ChannelSelect } from "../../components/place-fields";
import type { AppRecord } from "../../organizations";
import { grantableRoles, useHeld } from "../../permissions";
import { type KnownRole, roleIn, roleOptions, useRoles } from "../../roles";

export interface PlacedRole {
	/** The public id; empty: none is chosen. */
	readonly app: string;
	/** Empty: the whole app. */
	readonly channel: string;
	readonly role: string;
}

export const NO_PLACE: PlacedRole = { app: "", channel: "", role: "" };

const levelOf = ({ channel }: PlacedRole) => (channel === "" ? "app" : "channel");

/** A role of apps is held on an app, one of channels on a channel. */
export const isComplete = (placed: PlacedRole, roles: readonly KnownRole[]): boolean =>
	placed.app !== "" && roleIn(roles, placed.role)?.scopeType === levelOf(placed);

/** The fields of a request that gives the role. */
export const placedBody = ({ app, channel, role }: PlacedRole) => ({
	role_name: role,
	app_id: app,
	...(channel === "" ? {} : { channel }),
});

const APP_ERRORS = ["app_id", "app_not_found"];
const CHANNEL_ERRORS = ["channel", "channel_not_found"];
const ROLE_ERRORS = ["role_name", "permission_denied"];
/** Fields and codes whose errors these inputs show. */
export const PLACE_ERRORS: readonly string[] = [...APP_ERRORS, ...CHANNEL_ERRORS, ...ROLE_ERRORS];

export function PlacedRoleFields({
	orgId,
	apps,
	placed,
	errors,
	onChange,
}: {
	readonly orgId: string;
	readonly apps: readonly AppRecord[];
	readonly placed: PlacedRole;
	readonly errors: { at(...names: readonly string[]): string | undefined };
	readonly onChange: (placed: PlacedRole) => void;
}) {
	const roles = useRoles(orgId);
	const held = useHeld(orgId);
	const { app, channel, role } = placed;
	const choices = app === "" ? [] : grantableRoles(roles, held, levelOf(placed));
	return (
		<>
			<AppSelect
				apps={apps}
				label="App"
				value={app}
				error={errors.at(...APP_ERRORS)}
				onChange={(chosen) => onChange({ app: chosen, channel: "", role: "" })}
			/>
			<ChannelSelect
				appId={app}
				by="name"
				label="Channel"
				value={channel}
				error={errors.at(...CHANNEL_ERRORS)}
				onChange={(chosen) =>
					onChange({ app, channel: chosen, role: (chosen === "") === (channel === "") ? role : "" })
				}
			/>
			<NativeSelect
				label="Role"
				required
				error={errors.at(...ROLE_ERRORS)}
				disabled={app === ""}
				value={role}
				description={roleIn(choices, role)?.description || undefined}
				onChange={(event) => onChange({ app, channel, role: event.currentTarget.value })}
				data={[{ value: "", label: "Choose a role" }, ...roleOptions(choices)]}
			/>
		</>
	);
}
