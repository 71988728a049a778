/** The audit log of a whole organization. */
import type { OrganizationScreenProps } from "../app";
import { AuditLog } from "./audit-log";

export default function OrganizationChanges({ orgId }: OrganizationScreenProps) {
	return <AuditLog of={{ orgId }} title="Audit log" note="Who changed what in the organization, newest first." />;
}
