/**
 * The first steps of an app, as a checklist that ticks itself off: create it, add the updater,
 * upload a bundle, release it, see it on a device.
 */
import { Button, SegmentedControl } from "@mantine/core";
import { useQueryClient } from "@tanstack/react-query";
import { type DragEvent, lazy, type ReactNode, Suspense, useEffect, useState } from "react";
import { useAsk } from "../../api";
import { versionText } from "../../charts/version-text";
import { Dot } from "../../components/badge";
import { Card, Note } from "../../components/card";
import { Icon } from "../../components/icon";
import { TextLink } from "../../components/link";
import { platformName } from "../../components/platforms";
import { AddSample } from "../../components/sample-app";
import { CodeBlock } from "../../components/secret";
import { durationText, sizeText } from "../../components/size";
import { Step } from "../../components/steps";
import type { FirstSteps } from "../../first-steps";
import { IconRocket } from "../../icons";
import { appPath, devicePath } from "../../paths";
import { initCommand } from "../connect/connect-texts";
import "./first-run.css";

/** Draws codes, which few first steps need. */
const OpenOnPhone = lazy(() => import("./open-on-phone"));

/** The preselection of the release dialog. */
export interface Releasing {
	readonly file?: File | null;
	readonly version?: string;
}

/** The one that the release dialog proposes as well. */
const FIRST_CHANNEL = "production";

export function FirstStepsCard({
	appId,
	orgId,
	name,
	steps: { bundle, hasRelease, device },
	mayRelease,
	onRelease,
	onClose,
}: {
	readonly appId: string;
	readonly orgId: string;
	readonly name: string;
	readonly steps: FirstSteps;
	readonly mayRelease: boolean;
	/** Opens the release dialog. */
	readonly onRelease: (releasing: Releasing) => void;
	/** For a card that was asked for although every step is done. */
	readonly onClose?: () => void;
}) {
	const [saidSo, setSaidSo] = useState(false);
	const isConnected = device !== undefined || saidSo;
	const stateOf = (isDone: boolean, isNext: boolean) => (isDone ? "done" : isNext ? "now" : "waiting");
	const drop = (event: DragEvent) => {
		event.preventDefault();
		onRelease({ file: event.dataTransfer.files[0] ?? null });
	};
	return (
		<Card
			isPadded={false}
			title="Ship your first live update"
			actions={
				onClose === undefined ? undefined : (
					<Button size="xs" variant="subtle" onClick={onClose}>
						Close
					</Button>
				)
			}
		>
			<ol className="steps" aria-label="First steps">
				<Step number={1} title="Create an app" state="done">
					<span className="said">
						{name} · <span className="mono">{appId}</span>
					</span>
				</Step>
				<Step
					number={2}
					title="Add the updater to your app"
					state={stateOf(isConnected, true)}
					action={
						isConnected ? undefined : (
							<Button size="xs" variant="default" onClick={() => setSaidSo(true)}>
								I did this
							</Button>
						)
					}
				>
					{isConnected ? null : <Updater appId={appId} />}
				</Step>
				<Step
					number={3}
					title="Upload a bundle"
					state={stateOf(bundle !== undefined, isConnected)}
					{...(bundle === undefined && mayRelease ? { onDrop: drop } : {})}
					action={
						bundle === undefined && mayRelease ? (
							<Button leftSection={<Icon of={IconRocket} size="s" />} data-release onClick={() => onRelease({})}>
								Release
							</Button>
						) : undefined
					}
				>
					<span className="said">
						{bundle === undefined
							? "Drop the zip of your build here."
							: `${bundle.name}${bundle.size === null ? "" : `, ${sizeText(bundle.size)}`}`}
					</span>
				</Step>
				<Step
					number={4}
					title="Release it to a channel"
					state={stateOf(hasRelease, bundle !== undefined)}
					action={
						bundle !== undefined && !hasRelease && mayRelease ? (
							<Button data-release onClick={() => onRelease({ version: bundle.name })}>
								Release {bundle.name} to {FIRST_CHANNEL}
							</Button>
						) : undefined
					}
				>
					{hasRelease ? null : (
						<span className="said">The channel {FIRST_CHANNEL} reaches every device of the app.</span>
					)}
				</Step>
				<Step number={5} title="See it on a device" state={stateOf(device !== undefined, hasRelease)}>
					{device === undefined ? (
						<>
							<span className="said" role="status">
								<Dot /> Waiting for the first update check…
							</span>
							{hasRelease && mayRelease ? (
								<Suspense>
									<OpenOnPhone appId={appId} />
								</Suspense>
							) : null}
						</>
					) : (
						<span className="said" role="status">
							<TextLink to={devicePath(appId, device.device_id)}>{device.device_id}</TextLink> runs{" "}
							{versionText(device.version_name ?? "unknown")}.
						</span>
					)}
				</Step>
			</ol>
			{onClose === undefined ? <AddSample orgId={orgId} /> : null}
		</Card>
	);
}

/** The command that adds the plugin, for the place where the app runs. */
function Updater({ appId }: { readonly appId: string }) {
	const addresses = useAsk("GET /service/addresses", {});
	const [kind, setKind] = useState("computer");
	const phone = addresses.data?.find((address) => address.kind === "network");
	const emulator = addresses.data?.find((address) => address.kind === "android_emulator");
	const here = addresses.data?.[0]?.url ?? location.origin;
	const origin = kind === "phone" ? (phone?.url ?? here) : kind === "emulator" ? (emulator?.url ?? here) : here;
	const choices = [
		{ value: "computer", label: phone === undefined && emulator === undefined ? "Server" : "This computer" },
		...(phone === undefined ? [] : [{ value: "phone", label: "Phone" }]),
		...(emulator === undefined ? [] : [{ value: "emulator", label: "Emulator" }]),
	];
	return (
		<>
			<span className="said">
				Run this in your project. It adds the plugin and writes this server's address into its configuration.{" "}
				<TextLink to={appPath(appId, "connect")}>Do it by hand</TextLink>
			</span>
			{choices.length > 1 ? (
				<SegmentedControl
					size="xs"
					aria-label="Device that runs the app"
					w="fit-content"
					value={kind}
					onChange={setKind}
					data={choices}
				/>
			) : null}
			<CodeBlock label="Terminal" text={initCommand(origin, appId)} />
			{kind === "phone" && phone?.reachable === false ? (
				<Note tone="warn">Phones cannot reach Capstan yet. Stop it and run npm start -- --lan.</Note>
			) : null}
		</>
	);
}

const FOLLOWED_EVERY_MS = 2_000;

/** The end of the first steps, in place of the checklist: the device, and how fast it was. */
export function FirstDevice({
	appId,
	device,
}: {
	readonly appId: string;
	readonly device: NonNullable<FirstSteps["device"]>;
}) {
	const { device_id, custom_id, platform } = device;
	const story = useAsk("GET /device/events", { query: { app_id: appId, device_id } }, { everyMs: FOLLOWED_EVERY_MS });
	const events = story.data !== undefined && "events" in story.data ? story.data.events : [];
	const install = events.find(({ kind }) => kind === "install");
	// The figures below show the device at once.
	const client = useQueryClient();
	const installId = install?.id;
	useEffect(() => {
		if (installId !== undefined) void client.invalidateQueries();
	}, [client, installId]);
	const name = custom_id ?? `${platformName(platform)} device ${device_id.slice(0, 8)}`;
	return (
		<div role="status">
			<Note tone="ok" title={`${name} ${install === undefined ? "checked for updates" : installText(install, events)}`}>
				<div className="row wrap">
					<span className="grow">
						{install === undefined
							? "It shows here when the update is installed."
							: "Your first live update arrived. The next releases reach every device in the same way."}
					</span>
					<TextLink to={devicePath(appId, device_id)}>View the device</TextLink>
					<TextLink to={appPath(appId, "connect")}>Connect your CI</TextLink>
				</div>
			</Note>
		</div>
	);
}

interface Event {
	readonly kind: string;
	readonly at: string;
	readonly version: string | null;
}

function installText({ at, version }: Event, events: readonly Event[]): string {
	const before = events.filter((event) => event.at <= at);
	const offer = before.find(({ kind }) => kind === "check") ?? before.find(({ kind }) => kind === "first_seen");
	const text = `installed ${versionText(version ?? "unknown")}`;
	return offer === undefined
		? text
		: `${text}, ${durationText(Math.max(1_000, Date.parse(at) - Date.parse(offer.at)))} after the offer`;
}

/** For an organization without apps. */
export function NoAppYet({ orgId, create }: { readonly orgId: string; readonly create: ReactNode }) {
	return (
		<Card isPadded={false} title="Ship your first live update">
			<ol className="steps" aria-label="First steps">
				<Step number={1} title="Create an app" state="now" action={create}>
					<span className="said">You need its app id, such as com.example.app.</span>
				</Step>
				<Step number={2} title="Add the updater to your app" state="waiting" />
				<Step number={3} title="Upload a bundle" state="waiting" />
				<Step number={4} title="Release it to a channel" state="waiting" />
				<Step number={5} title="See it on a device" state="waiting" />
			</ol>
			<AddSample orgId={orgId} />
		</Card>
	);
}
