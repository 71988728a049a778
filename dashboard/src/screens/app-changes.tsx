/** The audit log of one app. */
import type { AppScreenProps } from "../app";
import { AuditLog } from "./audit-log";

export default function AppChanges({ appId }: AppScreenProps) {
	return <AuditLog of={{ appId }} title="Changes" note="Who changed what of the app, newest first." />;
}
