/**
 * Connects an app: shows its configuration for the place where it runs, and polls until the first
 * device asks for an update.
 */
import { Alert, Code, NativeSelect, Stack, Text, TextInput } from "@mantine/core";
import { useState } from "react";
import { type AnswerOf, useAsk, usePage } from "../../api";
import { Answer } from "../../components/answer";
import { TextLink } from "../../components/link";
import { Section } from "../../components/screen";
import { CodeBlock } from "../../components/secret";
import { appPath, devicePath } from "../../paths";
import { commandSteps, configuration, IOS_LOCAL_NETWORK, START } from "./connect-texts";

const LOOK_AGAIN_MS = 3_000;

type Address = AnswerOf<"GET /service/addresses">[number];

function placeOf({ kind, url }: Address): string {
	const { host } = new URL(url);
	if (kind === "this_computer") return `iOS simulator or desktop on this computer (${host})`;
	if (kind === "android_emulator") return `Android emulator on this computer (${host})`;
	return kind === "network" ? `Phone or tablet in your network (${host})` : host;
}

export function ConnectApp({ appId }: { readonly appId: string }) {
	const addresses = useAsk("GET /service/addresses", {});
	const devices = usePage("GET /device", { query: { app_id: appId } }, 0, { everyMs: LOOK_AGAIN_MS });
	const first = devices.data?.items[0];
	return (
		<Section title="1. Your app">
			{first === undefined ? (
				<Alert color="gray" title="Waiting for the first device" role="status">
					This page updates automatically. Follow the steps, then start the app on a device or in an emulator.
				</Alert>
			) : (
				<Alert color="green" title="Your app is connected" role="status">
					First device: <TextLink to={devicePath(appId, first.device_id)}>{first.device_id}</TextLink>
				</Alert>
			)}
			<Answer query={addresses} what="the server's addresses">
				{(known) => <Steps appId={appId} addresses={known} />}
			</Answer>
		</Section>
	);
}

function Steps({ appId, addresses }: { readonly appId: string; readonly addresses: readonly Address[] }) {
	const app = useAsk("GET /app/:app_id", { params: { app_id: appId } });
	const [webDir, setWebDir] = useState("dist");
	const [chosen, setChosen] = useState("");
	const address = addresses.find(({ url }) => url === chosen) ?? addresses[0];
	const origin = address?.url ?? location.origin;
	const isPlainHttp = origin.startsWith("http:");
	return (
		<Stack gap="sm">
			<Text>The capstan command does these steps in your project, and releases the first bundle:</Text>
			<CodeBlock label="Terminal" text={commandSteps(origin, appId)} />
			<Text>
				1. Or by hand. Add the plugin: <Code>npm install @capgo/capacitor-updater</Code>
			</Text>
			{addresses.length > 1 ? (
				<NativeSelect
					label="Device that runs the app"
					description="Each place reaches this computer at a different address."
					maw="32rem"
					value={origin}
					onChange={(event) => setChosen(event.currentTarget.value)}
					data={addresses.map((each) => ({ value: each.url, label: placeOf(each) }))}
				/>
			) : null}
			{address?.reachable === false ? (
				<Alert color="orange" title="Phones cannot reach Capstan yet" role="status">
					It serves only this computer. Stop it and run <Code>npm start -- --lan</Code>. The phone must be in the same
					network.
				</Alert>
			) : null}
			<TextInput
				label="Build output folder"
				description="The folder with index.html, e.g. dist, www or build."
				maw="24rem"
				value={webDir}
				onChange={(event) => setWebDir(event.currentTarget.value)}
			/>
			<Text>
				2. Add this to <Code>capacitor.config.json</Code>, and keep your other settings:
			</Text>
			<CodeBlock
				label="capacitor.config.json"
				text={configuration({ origin, appId, appName: app.data?.name ?? appId, webDir })}
			/>
			{isPlainHttp ? <PlainHttp kind={address?.kind} /> : null}
			<Text>3. Report in your app's first script that the bundle started:</Text>
			<CodeBlock label="main.ts" text={START} />
			<Text>
				4. Sync the native project: <Code>npm run build && npx cap sync</Code>
			</Text>
			<Text>
				5. Create a <TextLink to={appPath(appId, "channels")}>public channel</TextLink>,{" "}
				<TextLink to={appPath(appId, "bundles")}>upload a bundle</TextLink> and release it to that channel.
			</Text>
		</Stack>
	);
}

/** Android and iOS block plain HTTP unless the app allows it. */
function PlainHttp({ kind }: { readonly kind: Address["kind"] | undefined }) {
	return (
		<>
			<Text size="sm" c="dimmed">
				<Code>server.cleartext</Code> allows plain HTTP on Android. Remove it for releases, which use HTTPS.
			</Text>
			{kind === "android_emulator" ? null : (
				<>
					<Text>
						On iOS, add this to <Code>ios/App/App/Info.plist</Code> for development:
					</Text>
					<CodeBlock label="Info.plist" text={IOS_LOCAL_NETWORK} />
				</>
			)}
		</>
	);
}
