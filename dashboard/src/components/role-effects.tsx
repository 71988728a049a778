/**
 * The consequences of a change of roles, from its dry run: permissions that are gained or lost, and
 * API keys that are lowered with them.
 */
import { Text } from "@mantine/core";
import { permissionText } from "../../../src/authz/permission-texts";
import { type KnownRole, titleOf } from "../roles";
import { Note } from "./card";

export function Gained({ permissions, none }: { readonly permissions: readonly string[]; readonly none: string }) {
	return <PermissionNote title="They gain" tone="info" permissions={permissions} none={none} />;
}

export function Lost({ permissions, none }: { readonly permissions: readonly string[]; readonly none: string }) {
	return <PermissionNote title="They lose" tone="warn" permissions={permissions} none={none} />;
}

function PermissionNote({
	title,
	tone,
	permissions,
	none,
}: {
	readonly title: string;
	readonly tone: "info" | "warn";
	readonly permissions: readonly string[];
	/** Shown if there are none. */
	readonly none: string;
}) {
	return (
		<div role="status">
			{permissions.length === 0 ? (
				<Note>{none}</Note>
			) : (
				<Note tone={tone} title={title}>
					<ul>
						{permissions.map((permission) => (
							<li key={permission}>{permissionText(permission)}</li>
						))}
					</ul>
				</Note>
			)}
		</div>
	);
}

interface LoweredKey {
	readonly id: string;
	readonly name: string;
	readonly lost: readonly { readonly role_name: string }[];
}

export function LoweredKeys({
	keys,
	roles,
}: {
	readonly keys: readonly LoweredKey[];
	readonly roles: readonly KnownRole[];
}) {
	if (keys.length === 0) return null;
	return (
		<div>
			<Text size="sm">These API keys lose roles with it:</Text>
			<ul>
				{keys.map(({ id, name, lost }) => (
					<li key={id}>
						{name}: {[...new Set(lost.map(({ role_name }) => titleOf(roles, role_name)))].join(", ")}
					</li>
				))}
			</ul>
		</div>
	);
}
