/**
 * The steps that happen in the app: its configuration for the place where it runs, by one command
 * or by hand.
 */
import { Alert, Code, NativeSelect, Text, TextInput } from "@mantine/core";
import { useState } from "react";
import { type AnswerOf, useAsk } from "../../api";
import { CodeBlock } from "../../components/secret";
import { commandSteps, configuration, IOS_LOCAL_NETWORK, START } from "./connect-texts";

type Address = AnswerOf<"GET /service/addresses">[number];

function placeOf({ kind, url }: Address): string {
	const { host } = new URL(url);
	if (kind === "this_computer") return `iOS simulator or desktop on this computer (${host})`;
	if (kind === "android_emulator") return `Android emulator on this computer (${host})`;
	return kind === "network" ? `Phone or tablet in your network (${host})` : host;
}

interface Server {
	/** The address at which the chosen device reaches this server. */
	readonly origin: string;
	readonly address: Address | undefined;
	readonly addresses: readonly Address[];
	choose(origin: string): void;
}

export function useOrigin(): Server {
	const addresses = useAsk("GET /service/addresses", {}).data ?? [];
	const [chosen, choose] = useState("");
	const address = addresses.find(({ url }) => url === chosen) ?? addresses[0];
	return { origin: address?.url ?? location.origin, address, addresses, choose };
}

interface AppStepProps {
	readonly appId: string;
	readonly server: Server;
}

export function AppUpdater({ appId, server: { origin } }: AppStepProps) {
	return (
		<>
			<CodeBlock label="Terminal" text={commandSteps(origin, appId)} />
			<Text>
				It signs you in, does these steps, and releases the first bundle. Or by hand:{" "}
				<Code>npm install @capgo/capacitor-updater</Code>
			</Text>
		</>
	);
}

export function AppServer({ appId, server: { origin, address, addresses, choose } }: AppStepProps) {
	const app = useAsk("GET /app/:app_id", { params: { app_id: appId } });
	const [webDir, setWebDir] = useState("dist");
	return (
		<>
			{addresses.length > 1 ? (
				<NativeSelect
					label="Device that runs the app"
					description="Each place reaches this computer at a different address."
					value={origin}
					onChange={(event) => choose(event.currentTarget.value)}
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
				value={webDir}
				onChange={(event) => setWebDir(event.currentTarget.value)}
			/>
			<Text>
				Add this to <Code>capacitor.config.json</Code>, and keep your other settings:
			</Text>
			<CodeBlock
				label="capacitor.config.json"
				text={configuration({ origin, appId, appName: app.data?.name ?? appId, webDir })}
			/>
			{origin.startsWith("http:") ? <PlainHttp kind={address?.kind} /> : null}
		</>
	);
}

export function AppStart() {
	return (
		<>
			<Text>In your app's first script:</Text>
			<CodeBlock label="main.ts" text={START} />
			<Text>
				Then sync the native project: <Code>npm run build && npx cap sync</Code>
			</Text>
		</>
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
