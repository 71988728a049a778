/**
 * Connects an app and its CI: the complete configuration and workflows, and whether the first
 * device and the first upload arrived.
 */

import { Screen } from "../../components/screen";
import type { AppScreenProps } from "../../screen-props";
import { ConnectApp } from "./connect-app";
import { ConnectCi } from "./connect-ci";

export default function Connect({ appId, orgId }: AppScreenProps) {
	return (
		<Screen title="Connect" note="Your app checks this server for updates, and your CI uploads them.">
			<ConnectApp appId={appId} />
			<ConnectCi appId={appId} orgId={orgId} />
		</Screen>
	);
}
