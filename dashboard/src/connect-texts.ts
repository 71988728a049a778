/** The app's configuration that the page "Connect" prints. It works as it stands, with the stock clients. */

export function configuration({
	origin,
	appId,
	appName,
	webDir,
}: {
	readonly origin: string;
	readonly appId: string;
	readonly appName: string;
	/** The folder that the build writes. */
	readonly webDir: string;
}): string {
	const config = {
		appId,
		appName,
		webDir,
		// Development over plain HTTP: npx cap sync lets the Android app use it.
		...(origin.startsWith("http:") ? { server: { cleartext: true } } : {}),
		plugins: {
			CapacitorUpdater: {
				autoUpdate: true,
				localApi: origin,
				localApiFiles: origin,
				updateUrl: `${origin}/updates`,
				statsUrl: `${origin}/stats`,
				channelUrl: `${origin}/channel_self`,
			},
		},
	};
	return JSON.stringify(config, null, 2);
}

/** For Info.plist: plain HTTP within the local network, and the sentence with which iOS asks the person for access to it. */
export const IOS_LOCAL_NETWORK = `<key>NSAppTransportSecurity</key>
<dict>
	<key>NSAllowsLocalNetworking</key>
	<true/>
</dict>
<key>NSLocalNetworkUsageDescription</key>
<string>Loads development updates from your computer.</string>
`;

export const START = `import { CapacitorUpdater } from "@capgo/capacitor-updater";

// Tells that this bundle works; without it the device goes back to the one before.
CapacitorUpdater.notifyAppReady();
`;
