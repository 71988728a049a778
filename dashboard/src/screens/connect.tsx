/**
 * How an app and its CI are connected to this service: the exact configuration and workflows, filled in. Each section looks by itself whether
 * the first device or the first upload arrived.
 */
import type { AppScreenProps } from "../app";
import { Screen } from "../parts/screen";
import { ConnectApp } from "./connect-app";
import { ConnectCi } from "./connect-ci";

export default function Connect({ appId, orgId }: AppScreenProps) {
	return (
		<Screen title="Connect" note="Your app asks this service for updates; your CI uploads them.">
			<ConnectApp appId={appId} />
			<ConnectCi appId={appId} orgId={orgId} />
		</Screen>
	);
}
