/**
 * Forms of a custom role. A role holds only permissions that its author holds. A change of
 * permissions names all holders with what each gains and loses, and the API keys that are lowered,
 * before it can be sent.
 */
import { Checkbox, NativeSelect, Stack, Textarea, TextInput } from "@mantine/core";
import { useDebouncedValue } from "@mantine/hooks";
import { useState } from "react";
import { permissionText } from "../../../../src/authz/permission-texts";
import { PERMISSIONS_AT } from "../../../../src/authz/permissions";
import { useChange } from "../../api";
import { Answer } from "../../components/answer";
import { formErrors } from "../../components/field-errors";
import { FormDialog } from "../../components/form-dialog";
import { InputError } from "../../components/input-error";
import { notify } from "../../components/notify";
import { LoweredKeys } from "../../components/role-effects";
import { useRoleChangePlan } from "../../dry-runs";
import { type Held, type Permission, useHeld } from "../../permissions";
import { type KnownRole, LEVEL_TEXTS, type ScopeType, useRoles } from "../../roles";
import { Holders } from "./role-holders";

/** Debounce while permissions are chosen. */
const CHOOSING_MS = 350;
const LEVELS: readonly ScopeType[] = ["channel", "app", "org"];
const NAME_ERRORS = ["name", "role_already_exists"];
const PERMISSION_ERRORS = ["permissions", "permission_denied"];
const SHOWN = [...NAME_ERRORS, ...PERMISSION_ERRORS, "title", "description", "scope_type"];

/** `Release manager` becomes `release-manager`. */
const nameFrom = (title: string) =>
	title
		.toLowerCase()
		.replaceAll(/[^a-z0-9]+/g, "-")
		.replaceAll(/^[^a-z]+|-+$/g, "")
		.slice(0, 30);

const GROUPS: readonly (readonly [title: string, prefix: string])[] = [
	["On the organization", "org."],
	["On apps", "app."],
	["On bundles", "bundle."],
	["On channels", "channel."],
];

export function NewRoleForm({ orgId, onClose }: { readonly orgId: string; readonly onClose: () => void }) {
	const held = useHeld(orgId);
	const [title, setTitle] = useState("");
	const [name, setName] = useState<string | undefined>();
	const [description, setDescription] = useState("");
	const [level, setLevel] = useState<ScopeType>("app");
	const [chosen, setChosen] = useState<readonly Permission[]>([]);
	const create = useChange("POST /organization/roles", (role) => {
		notify(`Role ${role.title} created.`);
		onClose();
	});
	const permissions = chosen.filter((permission) => PERMISSIONS_AT[level].includes(permission));
	const shownName = name ?? nameFrom(title);
	const errors = formErrors(create.error, SHOWN);
	return (
		<FormDialog
			title="New role"
			action="Create role"
			isPending={create.isPending}
			isReady={title !== "" && shownName !== "" && permissions.length > 0}
			error={errors.rest}
			onSubmit={() =>
				create.mutate({ body: { orgId, name: shownName, title, description, scope_type: level, permissions } })
			}
			onClose={onClose}
		>
			<TitleInput value={title} error={errors.at("title")} onChange={setTitle} />
			<TextInput
				label="Name for scripts"
				description="Small letters, digits and hyphens. It cannot be changed later."
				required
				maxLength={30}
				autoCapitalize="off"
				spellCheck={false}
				error={errors.at(...NAME_ERRORS)}
				value={shownName}
				onChange={(event) => setName(event.currentTarget.value)}
			/>
			<DescriptionInput value={description} error={errors.at("description")} onChange={setDescription} />
			<NativeSelect
				label="Given on"
				description="Where people and keys get the role. It cannot be changed later."
				error={errors.at("scope_type")}
				value={level}
				onChange={(event) => setLevel(event.currentTarget.value as ScopeType)}
				data={LEVELS.map((value) => ({ value, label: LEVEL_TEXTS[value] }))}
			/>
			<PermissionChoice
				level={level}
				held={held}
				chosen={permissions}
				error={errors.at(...PERMISSION_ERRORS)}
				onChange={setChosen}
			/>
		</FormDialog>
	);
}

export function ChangeRoleForm({
	orgId,
	role,
	onClose,
}: {
	readonly orgId: string;
	readonly role: KnownRole;
	readonly onClose: () => void;
}) {
	const held = useHeld(orgId);
	const roles = useRoles(orgId);
	const [title, setTitle] = useState(role.title);
	const [description, setDescription] = useState(role.description);
	const [permissions, setPermissions] = useState<readonly Permission[]>(role.permissions);
	const isChanged =
		permissions.length !== role.permissions.length || !permissions.every((one) => role.permissions.includes(one));
	const wanted = isChanged && permissions.length > 0 ? [...permissions].sort().join(" ") : "";
	const [counted] = useDebouncedValue(wanted, CHOOSING_MS);
	const plan = useRoleChangePlan(
		orgId,
		role.name,
		counted === "" ? undefined : permissions.filter((one) => counted.split(" ").includes(one)),
	);
	const isPlanned = wanted === "" || (counted === wanted && plan.data != null && !plan.isFetching);
	const change = useChange("PUT /organization/roles", ({ role: changed }) => {
		notify(`Role ${changed.title} saved.`);
		onClose();
	});
	const errors = formErrors(change.error, SHOWN);
	const isOther = isChanged || title !== role.title || description !== role.description;
	return (
		<FormDialog
			title={`Change the role ${role.title}`}
			action="Save role"
			isPending={change.isPending}
			isReady={isOther && title !== "" && permissions.length > 0 && isPlanned}
			error={errors.rest}
			onSubmit={() =>
				change.mutate({
					body: { orgId, name: role.name, title, description, ...(isChanged ? { permissions: [...permissions] } : {}) },
				})
			}
			onClose={onClose}
		>
			<TitleInput value={title} error={errors.at("title")} onChange={setTitle} />
			<DescriptionInput value={description} error={errors.at("description")} onChange={setDescription} />
			<PermissionChoice
				level={role.scopeType}
				held={held}
				chosen={permissions}
				error={errors.at(...PERMISSION_ERRORS)}
				onChange={setPermissions}
			/>
			{wanted === "" ? null : (
				<Answer query={plan} what="the people and keys with this role">
					{(effect) =>
						effect === null ? null : (
							<>
								<Holders holders={effect.holders} count={effect.holder_count} />
								<LoweredKeys keys={effect.lowered_api_keys} roles={roles} />
							</>
						)
					}
				</Answer>
			)}
		</FormDialog>
	);
}

interface TextField {
	readonly value: string;
	readonly error: string | undefined;
	readonly onChange: (value: string) => void;
}

function TitleInput({ value, error, onChange }: TextField) {
	return (
		<TextInput
			label="Title"
			description="As people see it, e.g. Release manager."
			required
			data-autofocus
			maxLength={128}
			error={error}
			value={value}
			onChange={(event) => onChange(event.currentTarget.value)}
		/>
	);
}

function DescriptionInput({ value, error, onChange }: TextField) {
	return (
		<Textarea
			label="Description"
			autosize
			maxLength={500}
			error={error}
			value={value}
			onChange={(event) => onChange(event.currentTarget.value)}
		/>
	);
}

function PermissionChoice({
	level,
	held,
	chosen,
	error,
	onChange,
}: {
	readonly level: ScopeType;
	readonly held: Held;
	readonly chosen: readonly Permission[];
	readonly error: string | undefined;
	readonly onChange: (chosen: readonly Permission[]) => void;
}) {
	return (
		<fieldset className="group">
			<legend>Permissions</legend>
			<Stack gap="md">
				{GROUPS.map(([title, prefix]) => {
					const listed = PERMISSIONS_AT[level].filter((permission) => permission.startsWith(prefix));
					return listed.length === 0 ? null : (
						<Checkbox.Group
							key={prefix}
							label={title}
							value={chosen.filter((permission) => listed.includes(permission))}
							onChange={(values) =>
								onChange(
									PERMISSIONS_AT[level].filter((permission) =>
										listed.includes(permission) ? values.includes(permission) : chosen.includes(permission),
									),
								)
							}
						>
							<Stack gap="xs" mt="xs">
								{listed.map((permission) => (
									<Checkbox
										key={permission}
										value={permission}
										label={permissionText(permission)}
										disabled={held?.includes(permission) !== true}
									/>
								))}
							</Stack>
						</Checkbox.Group>
					);
				})}
				<InputError error={error} />
			</Stack>
		</fieldset>
	);
}
