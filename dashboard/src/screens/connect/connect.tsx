/**
 * The setup of an app in steps that check themselves from what devices and CI reported. Done steps
 * are one line, the next one is open, and each can be opened again.
 */
import { Text } from "@mantine/core";
import type { ReactNode } from "react";
import { useAllPages, useAsk, usePage } from "../../api";
import { versionText } from "../../charts/version-text";
import { Answer } from "../../components/answer";
import { Card, Properties } from "../../components/card";
import { CopyChip } from "../../components/copy-chip";
import { TextLink } from "../../components/link";
import { Screen } from "../../components/screen";
import { CodeBlock } from "../../components/secret";
import { countOf } from "../../components/size";
import { FoldedStep } from "../../components/steps";
import { appPath, bundlePath, devicePath, organizationPath } from "../../paths";
import { useAppMay } from "../../permissions";
import type { AppScreenProps } from "../../screen-props";
import { AppServer, AppStart, AppUpdater, useOrigin } from "./connect-app";
import { ConnectCi } from "./connect-ci";
import { doctorCommand } from "./connect-texts";

const LOOK_AGAIN_MS = 3_000;

export default function Connect({ appId, orgId }: AppScreenProps) {
	const query = { app_id: appId };
	const devices = usePage("GET /device", { query }, 0, { everyMs: LOOK_AGAIN_MS });
	return (
		<Screen title="Setup" note="Your app checks this server for updates, and your CI uploads them.">
			<Answer query={devices} what="the devices">
				{({ items }) => <Setup appId={appId} orgId={orgId} devices={items} />}
			</Answer>
		</Screen>
	);
}

interface SetupStep {
	readonly title: string;
	readonly isDone: boolean;
	/** The finding once the step is done, and its purpose before. */
	readonly line: ReactNode;
	readonly instructions: ReactNode;
}

type Devices = NonNullable<ReturnType<typeof usePage<"GET /device">>["data"]>["items"];

function Setup({ appId, orgId, devices }: AppScreenProps & { readonly devices: Devices }) {
	const may = useAppMay(appId, orgId);
	const query = { app_id: appId };
	const often = { everyMs: LOOK_AGAIN_MS };
	const channels = usePage("GET /channel", { query }, 0, often);
	const bundles = usePage("GET /bundle", { query }, 0, often);
	const publishers = useAllPages(
		"GET /publisher",
		{ query },
		{ ...often, enabled: may("app.update_user_roles") === true },
	);
	const keys = useAsk(
		"GET /organization/signing_key",
		{ query: { orgId: orgId ?? "" } },
		{ enabled: orgId !== undefined },
	);
	const server = useOrigin();

	const [first] = devices;
	const running = devices.find(({ version_name }) => version_name !== null && version_name !== "builtin");
	const released = channels.data?.items.find(
		({ version, rollout_version_info }) => version !== null || rollout_version_info !== null,
	);
	const job = publishers.data?.find(({ last_used_at }) => last_used_at !== null);
	const uploaded = bundles.data?.items.find(({ created_by_key }) => created_by_key !== null);
	const keyCount = keys.data?.length ?? 0;
	const steps: readonly SetupStep[] = [
		{
			title: "Install the updater",
			isDone: first !== undefined,
			line:
				first === undefined
					? "One command does the first three steps in your project."
					: `Version ${first.plugin_version ?? "unknown"} reports from ${first.platform}.`,
			instructions: <AppUpdater appId={appId} server={server} />,
		},
		{
			title: "Point the app at this server",
			isDone: first !== undefined,
			line:
				first === undefined ? (
					"Waiting for the first device. Start the app on one, or in an emulator."
				) : (
					<>
						First device: <TextLink to={devicePath(appId, first.device_id)}>{first.device_id}</TextLink>
					</>
				),
			instructions: <AppServer appId={appId} server={server} />,
		},
		{
			title: "Report that the app started",
			isDone: running !== undefined,
			line:
				running === undefined
					? "Waiting for a device that runs a bundle. Without the report it rolls back."
					: `A device runs ${versionText(running.version_name ?? "")}, so its start was reported.`,
			instructions: <AppStart />,
		},
		{
			title: "Release a bundle",
			isDone: released !== undefined,
			line:
				released === undefined ? (
					"A public channel reaches every device of the app."
				) : (
					<>
						<bdi>{released.name}</bdi> has{" "}
						{versionText((released.version ?? released.rollout_version_info)?.name ?? "")}.
					</>
				),
			instructions: (
				<Text>
					Create a <TextLink to={appPath(appId, "channels")}>public channel</TextLink>,{" "}
					<TextLink to={appPath(appId, "bundles")}>upload a bundle</TextLink> and release it to that channel.
				</Text>
			),
		},
		{
			title: "Release from your CI",
			isDone: job !== undefined || uploaded !== undefined,
			line:
				job !== undefined ? (
					<>
						Jobs of <bdi>{job.name}</bdi> publish without a stored key.
					</>
				) : uploaded === undefined ? (
					"Without a secret. Waiting for the first upload."
				) : (
					<>
						Newest upload with a key: <TextLink to={bundlePath(appId, uploaded.name)}>{uploaded.name}</TextLink>
					</>
				),
			instructions: <ConnectCi appId={appId} orgId={orgId} />,
		},
		{
			title: "Sign your bundles (optional)",
			isDone: keyCount > 0,
			line:
				keyCount > 0
					? `${countOf(keyCount, "public key")} ${keyCount === 1 ? "verifies" : "verify"} them.`
					: "A device then installs only what you signed, even if this server is taken over.",
			instructions: (
				<>
					<CodeBlock label="Terminal" text={`npx --yes @capgo/cli@${__CLI_VERSION__} key create`} />
					<Text>
						The private key stays with you.{" "}
						{orgId === undefined ? null : (
							<>
								Add the public key in the{" "}
								<TextLink to={organizationPath(orgId, "settings")}>organization settings</TextLink>.{" "}
							</>
						)}
						<a href="/docs/encryption">How it works</a>
					</Text>
				</>
			),
		},
	];
	const done = steps.filter(({ isDone }) => isDone).length;
	// A step that opened while the facts load would close the one that somebody is about to open.
	const isLoading =
		may("app.update_user_roles") === undefined ||
		[channels, bundles, publishers, keys].some((query) => query.isLoading);
	const next = isLoading ? -1 : steps.findIndex(({ isDone }) => !isDone);
	return (
		<>
			<p className="said" role="status">
				{done} of {steps.length} done. They check themselves.
			</p>
			<div className="cols">
				<Card isPadded={false}>
					<ol className="steps" aria-label="Setup">
						{steps.map(({ title, isDone, line, instructions }, index) => (
							<FoldedStep
								key={title}
								number={index + 1}
								title={title}
								state={isDone ? "done" : index === next ? "now" : "waiting"}
								line={line}
							>
								{instructions}
							</FoldedStep>
						))}
					</ol>
				</Card>
				<div className="stack setup-aside">
					<Card title="Check a build">
						<div className="stack">
							<span className="said">Reads your project and says what is missing.</span>
							<CodeBlock label="Terminal" text={doctorCommand(server.origin)} />
						</div>
					</Card>
					<Card title="Addresses">
						<Properties
							items={[
								["Updates", <CopyChip key="updates" value={`${server.origin}/updates`} label="/updates" />],
								["Statistics", <CopyChip key="stats" value={`${server.origin}/stats`} label="/stats" />],
								["Channels", <CopyChip key="channels" value={`${server.origin}/channel_self`} label="/channel_self" />],
							]}
						/>
					</Card>
				</div>
			</div>
		</>
	);
}
