/** The app configuration on the page "Setup". It works unchanged with the stock clients. */

export function configuration({
	origin,
	appId,
	appName,
	webDir,
}: {
	readonly origin: string;
	readonly appId: string;
	readonly appName: string;
	/** Output folder of the build. */
	readonly webDir: string;
}): string {
	const config = {
		appId,
		appName,
		webDir,
		// Lets the Android app use plain HTTP during development.
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

/**
 * For Info.plist: allows plain HTTP in the local network, with the sentence that iOS shows when it
 * asks for access.
 */
export const IOS_LOCAL_NETWORK = `<key>NSAppTransportSecurity</key>
<dict>
	<key>NSAllowsLocalNetworking</key>
	<true/>
</dict>
<key>NSLocalNetworkUsageDescription</key>
<string>Loads development updates from your computer.</string>
`;

export const START = `import { CapacitorUpdater } from "@capgo/capacitor-updater";

// Confirms that this bundle started. Without this call, the device rolls back to the previous
// bundle.
CapacitorUpdater.notifyAppReady();
`;

/** Sets up a project with the capstan command. The server offers it, so it needs no registry. */
export const initCommand = (origin: string, appId: string) =>
	`npx --yes ${origin}/capstan.tgz init --server ${origin} --app ${appId}`;

/** The capstan command, which does the steps of this page. */
export const commandSteps = (origin: string, appId: string) => `npx --yes ${origin}/capstan.tgz login --server ${origin}
${initCommand(origin, appId)}
npx --yes ${origin}/capstan.tgz release`;

/** Checks the project in which it runs. */
export const doctorCommand = (origin: string) => `npx --yes ${origin}/capstan.tgz doctor`;
