/**
 * Rotates the secret of an API key, from its page and from its row in the list: the old secret
 * stays valid for a while.
 */
import { NativeSelect, Text } from "@mantine/core";
import { useState } from "react";
import { useChange } from "../../api";
import { FormDialog } from "../../components/form-dialog";
import { covers, useHeldIn, useMayCreateOrganizations } from "../../permissions";
import { isBuiltIn, roleIn, useRolesOf } from "../../roles";
import type { KeyRecord } from "./key-form";

/**
 * Changing a key needs all of its permissions, in every organization, because a new secret grants
 * them all. Revoking needs only those in this organization. Undefined while the roles load.
 */
export function useMayChangeKey(orgId: string, { bindings, global_permissions }: KeyRecord) {
	const orgIds = [...new Set(bindings.map(({ org_id }) => org_id))];
	const held = useHeldIn(orgIds);
	const roles = useRolesOf(
		orgIds.map((id) =>
			bindings.some(({ org_id, role_name }) => org_id === id && !isBuiltIn(role_name)) ? id : undefined,
		),
	);
	const mayCreate = useMayCreateOrganizations();
	const isKnown = !held.includes(undefined) && !roles.includes(undefined);
	// A binding that the service created ends with its parent binding.
	const isCovered = ({ org_id, role_name, parent_binding_id }: KeyRecord["bindings"][number]) => {
		const index = orgIds.indexOf(org_id);
		return parent_binding_id !== null || covers(held[index], roleIn(roles[index] ?? [], role_name));
	};
	return {
		mayChange: isKnown ? bindings.every(isCovered) && (mayCreate || global_permissions.length === 0) : undefined,
		mayRevoke: isKnown ? bindings.filter(({ org_id }) => org_id === orgId).every(isCovered) : undefined,
	};
}

const OVERLAPS = [
	{ value: "3600", label: "1 hour" },
	{ value: "86400", label: "1 day" },
	{ value: "900", label: "15 minutes" },
	{ value: "0", label: "Revoke it immediately: it was lost or stolen" },
];

export function RotateKey({
	record,
	onClose,
	onDone,
}: {
	readonly record: KeyRecord;
	readonly onClose: () => void;
	readonly onDone: (secret: string) => void;
}) {
	const [overlap, setOverlap] = useState("3600");
	const rotate = useChange("PUT /apikey/:id", (answer) => {
		if ("key" in answer) onDone(answer.key);
	});
	return (
		<FormDialog
			title={`Rotate the secret of ${record.name}`}
			action="Rotate secret"
			isPending={rotate.isPending}
			error={rotate.error}
			onSubmit={() =>
				rotate.mutate({ params: { id: record.id }, body: { regenerate: true, overlap_seconds: Number(overlap) } })
			}
			onClose={onClose}
		>
			<Text size="sm">The key keeps its name, its roles and its expiry.</Text>
			<NativeSelect
				label="Keep the old secret valid for"
				data={OVERLAPS}
				value={overlap}
				onChange={(event) => setOverlap(event.currentTarget.value)}
			/>
		</FormDialog>
	);
}
