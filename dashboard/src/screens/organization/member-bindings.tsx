/**
 * Roles of a member on single apps and channels: listed, added and removed. A dry run names what
 * the member gains or loses first.
 */
import { Button, Group, Stack, Text } from "@mantine/core";
import { useState } from "react";
import { useChange } from "../../api";
import { Answer } from "../../components/answer";
import { formErrors } from "../../components/field-errors";
import { Confirm, FormDialog } from "../../components/form-dialog";
import { notify } from "../../components/notify";
import { Gained, Lost, LoweredKeys } from "../../components/role-effects";
import { useMemberGrantPlan, useMemberRevocationPlan } from "../../dry-runs";
import type { AppRecord } from "../../organizations";
import type { MemberBinding } from "../../permissions";
import { type KnownRole, titleOf, useRoles } from "../../roles";
import { isComplete, NO_PLACE, PLACE_ERRORS, type PlacedRole, PlacedRoleFields, placedBody } from "./placed-role";

type Placed = Pick<MemberBinding, "role_name" | "app_id" | "channel">;

/** `beta of Example shop` */
export function placeText({ app_id, channel }: Placed, apps: readonly AppRecord[]): string {
	const app = apps.find((known) => known.app_id === app_id)?.name ?? app_id;
	return channel === null ? app : `${channel} of ${app}`;
}

/** `Channel developer on beta of Example shop` */
export const bindingText = (binding: Placed, roles: readonly KnownRole[], apps: readonly AppRecord[]): string =>
	`${titleOf(roles, binding.role_name)} on ${placeText(binding, apps)}`;

/** The role on the organization, and the others below it. */
export function MemberRoles({
	role,
	email,
	bindings,
	roles,
	apps,
	onRemove,
}: {
	readonly role: string;
	readonly email: string;
	readonly bindings: readonly MemberBinding[];
	readonly roles: readonly KnownRole[];
	readonly apps: readonly AppRecord[];
	/** Undefined for readers, and for a role that the user may not take. */
	readonly onRemove: ((binding: MemberBinding) => (() => void) | undefined) | undefined;
}) {
	if (bindings.length === 0) return <span className="nowrap">{role}</span>;
	return (
		<Stack gap={6}>
			<span>{role}</span>
			<ul className="plain sec" aria-label={`Roles of ${email} on apps and channels`}>
				{bindings.map((binding) => {
					const text = bindingText(binding, roles, apps);
					const remove = onRemove?.(binding);
					return (
						<li key={binding.id}>
							<Group gap="xs">
								<Text size="sm" c="dimmed" className="wrap-anywhere">
									{text}
								</Text>
								{remove === undefined ? null : (
									<Button
										size="compact-xs"
										variant="subtle"
										aria-label={`Remove ${text} from ${email}`}
										onClick={remove}
									>
										Remove
									</Button>
								)}
							</Group>
						</li>
					);
				})}
			</ul>
		</Stack>
	);
}

export function AddMemberRole({
	orgId,
	email,
	apps,
	onClose,
}: {
	readonly orgId: string;
	readonly email: string;
	readonly apps: readonly AppRecord[];
	readonly onClose: () => void;
}) {
	const roles = useRoles(orgId);
	const [placed, setPlaced] = useState<PlacedRole>(NO_PLACE);
	const body = isComplete(placed, roles) ? { orgId, email, ...placedBody(placed) } : undefined;
	const plan = useMemberGrantPlan(body);
	const grant = useChange("POST /organization/members/bindings", (binding) => {
		notify(`${email} is now ${bindingText(binding, roles, apps)}.`);
		onClose();
	});
	const errors = formErrors(grant.error ?? plan.error, PLACE_ERRORS);
	return (
		<FormDialog
			title={`Add a role for ${email}`}
			action="Add role"
			isPending={grant.isPending}
			isReady={body !== undefined && plan.data != null}
			error={errors.rest}
			onSubmit={() => {
				if (body !== undefined) grant.mutate({ body });
			}}
			onClose={onClose}
		>
			<PlacedRoleFields orgId={orgId} apps={apps} placed={placed} errors={errors} onChange={setPlaced} />
			{plan.data == null || body === undefined ? null : (
				<Gained permissions={plan.data.gains} none="They hold every permission of this role there already." />
			)}
		</FormDialog>
	);
}

export function RemoveMemberRole({
	orgId,
	binding,
	apps,
	onClose,
}: {
	readonly orgId: string;
	readonly binding: MemberBinding;
	readonly apps: readonly AppRecord[];
	readonly onClose: () => void;
}) {
	const roles = useRoles(orgId);
	const text = bindingText(binding, roles, apps);
	const plan = useMemberRevocationPlan(orgId, binding.id);
	const remove = useChange("DELETE /organization/members/bindings", () => {
		notify(`${binding.email} is no longer ${text}.`);
		onClose();
	});
	return (
		<Confirm
			title={`Remove a role from ${binding.email}?`}
			action="Remove role"
			isPending={remove.isPending}
			isReady={plan.data !== undefined}
			error={remove.error}
			onClose={onClose}
			onConfirm={() => remove.mutate({ query: { orgId, id: binding.id } })}
		>
			<Text size="sm">{text}</Text>
			<Answer query={plan} what="the consequences">
				{({ loses, lowered_api_keys }) => (
					<>
						<Lost
							permissions={loses}
							none="They lose no permission, because another role of theirs gives the same there."
						/>
						<LoweredKeys keys={lowered_api_keys} roles={roles} />
					</>
				)}
			</Answer>
		</Confirm>
	);
}
