/**
 * How an app and its CI are connected to this service: the exact configuration, filled in. It looks by itself whether the first device and the
 * first upload arrived.
 */
import { Alert, Code, NativeSelect, Text, TextInput } from "@mantine/core";
import { useState } from "react";
import { useAsk, usePage } from "../api";
import type { AppScreenProps } from "../app";
import { configuration, previewWorkflow, releaseWorkflow, START } from "../connect-texts";
import { ButtonLink, TextLink } from "../parts/link";
import { Screen, Section } from "../parts/screen";
import { CodeBlock } from "../parts/secret";
import { appPath, bundlePath, devicePath, organizationPath } from "../paths";
import { useOrganizationMay } from "../permissions";

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

function ConnectCi({ appId, orgId }: AppScreenProps) {
	const [kind, setKind] = useState("release");
	const [channel, setChannel] = useState("");
	const may = useOrganizationMay(orgId ?? "");
	const bundles = usePage("GET /bundle", { query: { app_id: appId } }, 0, { everyMs: LOOK_AGAIN_MS });
	const channels = usePage("GET /channel", { query: { app_id: appId } }, 0);
	const first = bundles.data?.items[0];
	const names = channels.data?.items.map(({ name }) => name) ?? [];
	const usual = channels.data?.items.find((known) => known.public)?.name ?? names[0] ?? "production";
	const isRelease = kind === "release";
	const role = isRelease ? "App uploader" : "App previews";
	return (
		<Section title="2. Your CI">
			{first === undefined ? (
				<Alert color="gray" title="Waiting for the first upload" role="status">
					This page looks every few seconds. Push once the workflow and its secret are in place.
				</Alert>
			) : (
				<Alert color="green" title="An upload arrived" role="status">
					The newest bundle is <TextLink to={bundlePath(appId, first.name)}>{first.name}</TextLink>
				</Alert>
			)}
			<NativeSelect
				label="What CI does"
				maw="24rem"
				value={kind}
				onChange={(event) => setKind(event.currentTarget.value)}
				data={[
					{ value: "release", label: "Releases every push to main" },
					{ value: "preview", label: "Previews every pull request" },
				]}
			/>
			{isRelease && names.length > 0 ? (
				<NativeSelect
					label="Channel"
					maw="24rem"
					value={channel === "" ? usual : channel}
					onChange={(event) => setChannel(event.currentTarget.value)}
					data={names}
				/>
			) : null}
			<Text>
				1. Make an API key with the role {role} of this app, and keep it as the secret <Code>CAPSTAN_KEY</Code> of your
				repository.
			</Text>
			{orgId !== undefined && may("org.manage_apikeys") === true ? (
				<ButtonLink to={organizationPath(orgId, "keys")} variant="default" w="fit-content">
					Make an API key
				</ButtonLink>
			) : (
				<Text size="sm" c="dimmed">
					Ask an administrator of the organization for the key.
				</Text>
			)}
			<Text>
				2. Keep this as <Code>{isRelease ? ".github/workflows/release.yml" : ".github/workflows/preview.yml"}</Code>:
			</Text>
			<CodeBlock
				label={isRelease ? "release.yml" : "preview.yml"}
				text={
					isRelease
						? releaseWorkflow(__CLI_VERSION__, appId, channel === "" ? usual : channel)
						: previewWorkflow(__CLI_VERSION__, appId)
				}
			/>
		</Section>
	);
}
