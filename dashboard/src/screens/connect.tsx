/**
 * How an app and its CI are connected to this service: the exact configuration, filled in. It looks by itself whether the first device and the
 * first upload arrived.
 */
import { Alert, Code, Text, TextInput } from "@mantine/core";
import { useState } from "react";
import { useAsk, usePage } from "../api";
import type { AppScreenProps } from "../app";
import { configuration, START } from "../connect-texts";
import { TextLink } from "../parts/link";
import { Screen, Section } from "../parts/screen";
import { CodeBlock } from "../parts/secret";
import { appPath, devicePath } from "../paths";
import { ConnectCi } from "./connect-ci";

const LOOK_AGAIN_MS = 3_000;

export default function Connect({ appId, orgId }: AppScreenProps) {
	return (
		<Screen title="Connect" note="Your app asks this service for updates; your CI uploads them.">
			<ConnectApp appId={appId} />
			<ConnectCi appId={appId} orgId={orgId} />
		</Screen>
	);
}

function ConnectApp({ appId }: { readonly appId: string }) {
	const devices = usePage("GET /device", { query: { app_id: appId } }, 0, { everyMs: LOOK_AGAIN_MS });
	const app = useAsk("GET /app/:app_id", { params: { app_id: appId } });
	const [webDir, setWebDir] = useState("dist");
	const first = devices.data?.items[0];
	return (
		<Section title="1. Your app">
			{first === undefined ? (
				<Alert color="gray" title="Waiting for the first device" role="status">
					This page looks every few seconds. Start the app on a device or in an emulator once this is built in.
				</Alert>
			) : (
				<Alert color="green" title="Your app is connected" role="status">
					A device was seen: <TextLink to={devicePath(appId, first.device_id)}>{first.device_id}</TextLink>
				</Alert>
			)}
			<Text>
				1. Add the plugin: <Code>npm install @capgo/capacitor-updater</Code>
			</Text>
			<TextInput
				label="Folder that your build writes"
				description="Where its index.html is afterwards, e.g. dist, www or build."
				maw="24rem"
				value={webDir}
				onChange={(event) => setWebDir(event.currentTarget.value)}
			/>
			<Text>
				2. Put this into <Code>capacitor.config.json</Code>, and keep what else your app has there:
			</Text>
			<CodeBlock
				label="capacitor.config.json"
				text={configuration({ origin: location.origin, appId, appName: app.data?.name ?? appId, webDir })}
			/>
			<Text>3. Say in your app's first script that it runs:</Text>
			<CodeBlock label="main.ts" text={START} />
			<Text>
				4. Build it into the native app: <Code>npm run build && npx cap sync</Code>
			</Text>
			<Text>
				5. Make a <TextLink to={appPath(appId, "channels")}>public channel</TextLink> and promote a bundle to it.
			</Text>
		</Section>
	);
}
