/**
 * Deletes a custom role. A role in use is deleted only with another role for its holders, and its
 * dry run names them first.
 */
import { NativeSelect, Text } from "@mantine/core";
import { useState } from "react";
import { useChange } from "../../api";
import { Answer } from "../../components/answer";
import { formErrors } from "../../components/field-errors";
import { Confirm } from "../../components/form-dialog";
import { notify } from "../../components/notify";
import { LoweredKeys } from "../../components/role-effects";
import { useRoleDeletionPlan } from "../../dry-runs";
import { grantableRoles, useHeld } from "../../permissions";
import { type KnownRole, roleOptions, useRoles } from "../../roles";
import { Holders } from "./role-holders";

export function DeleteRole({
	orgId,
	role,
	onClose,
}: {
	readonly orgId: string;
	readonly role: KnownRole;
	readonly onClose: () => void;
}) {
	const [replacement, setReplacement] = useState("");
	const held = useHeld(orgId);
	const roles = useRoles(orgId);
	const choices = grantableRoles(roles, held, role.scopeType).filter(({ name }) => name !== role.name);
	const plan = useRoleDeletionPlan(orgId, role.name, replacement);
	const remove = useChange("DELETE /organization/roles", () => {
		notify(`Role ${role.title} deleted.`);
		onClose();
	});
	const holders = plan.data?.holders ?? [];
	const promotes = holders.some(({ type }) => type === "channel");
	const isUsed = (plan.data?.holder_count ?? 0) > 0;
	const errors = formErrors(remove.error ?? plan.error, ["replace_with"]);
	return (
		<Confirm
			title={`Delete the role ${role.title}?`}
			action={replacement === "" ? "Delete role" : "Replace and delete role"}
			isPending={remove.isPending}
			isReady={plan.isSuccess && !plan.isPlaceholderData && !promotes && (!isUsed || replacement !== "")}
			error={errors.rest}
			onClose={onClose}
			onConfirm={() =>
				remove.mutate({
					query: { orgId, name: role.name, ...(replacement === "" ? {} : { replace_with: replacement }) },
				})
			}
		>
			{isUsed ? (
				<NativeSelect
					label="Give its holders this role instead"
					required
					error={errors.at("replace_with")}
					value={replacement}
					onChange={(event) => setReplacement(event.currentTarget.value)}
					data={[{ value: "", label: "Choose a role" }, ...roleOptions(choices)]}
				/>
			) : null}
			<Answer query={plan} what="the people and keys with this role">
				{({ holders: listed, holder_count, lowered_api_keys }) => (
					<>
						<Holders holders={listed} count={holder_count} />
						<LoweredKeys keys={lowered_api_keys} roles={roles} />
					</>
				)}
			</Answer>
			{promotes ? <Text size="sm">Take the role out of the promoters of its protected channels first.</Text> : null}
			<Text size="sm">This cannot be undone.</Text>
		</Confirm>
	);
}
