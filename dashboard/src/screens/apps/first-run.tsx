/**
 * The first steps of an app, as a checklist that ticks itself off: it looks again while the page is visible, so a command in a terminal or a start
 * of the app on a phone shows here within seconds.
 */
import { Button, SegmentedControl } from "@mantine/core";
import type { DragEvent, ReactNode } from "react";
import { useState } from "react";
import { useAsk, usePage } from "../../api";
import { versionText } from "../../charts/version-text";
import { Dot } from "../../components/badge";
import { Card, Note } from "../../components/card";
import { Icon } from "../../components/icon";
import { TextLink } from "../../components/link";
import { CodeBlock } from "../../components/secret";
import { IconCheck, IconUpload } from "../../icons";
import { appPath, devicePath } from "../../paths";
import { initCommand } from "../connect/connect-texts";
import "./first-run.css";

const LOOK_AGAIN_MS = 3_000;

export function Step({
	number,
	title,
	state,
	action,
	children,
}: {
	readonly number: number;
	readonly title: string;
	/** `now` is the next step. */
	readonly state: "done" | "now" | "waiting";
	readonly action?: ReactNode;
	readonly children?: ReactNode;
}) {
	return (
		<li className={`step ${state}`}>
			<span className="step-number">
				{state === "done" ? <Icon of={IconCheck} size="s" /> : number}
				{state === "done" ? <span className="sr">Done</span> : null}
			</span>
			<div className="stack">
				<h3>{title}</h3>
				{children}
			</div>
			{action}
		</li>
	);
}

/** Which device runs what, once the first one checked. */
function useFirstDevice(appId: string) {
	const devices = usePage("GET /device", { query: { app_id: appId } }, 0, { everyMs: LOOK_AGAIN_MS });
	return devices.data?.items[0];
}

export function FirstSteps({
	appId,
	name,
	hasRelease,
	onRelease,
}: {
	readonly appId: string;
	readonly name: string;
	readonly hasRelease: boolean;
	readonly onRelease: (file: File | null) => void;
}) {
	const device = useFirstDevice(appId);
	const [saidSo, setSaidSo] = useState(false);
	const addresses = useAsk("GET /service/addresses", {});
	const [kind, setKind] = useState("computer");
	const phone = addresses.data?.find((address) => address.kind === "network");
	const emulator = addresses.data?.find((address) => address.kind === "android_emulator");
	const here = addresses.data?.[0]?.url ?? location.origin;
	const origin = kind === "phone" ? (phone?.url ?? here) : kind === "emulator" ? (emulator?.url ?? here) : here;
	const isConnected = device !== undefined || saidSo;
	if (hasRelease && device !== undefined) return null;
	const choices = [
		{ value: "computer", label: phone === undefined && emulator === undefined ? "Server" : "This computer" },
		...(phone === undefined ? [] : [{ value: "phone", label: "Phone" }]),
		...(emulator === undefined ? [] : [{ value: "emulator", label: "Emulator" }]),
	];
	const drop = (event: DragEvent) => {
		event.preventDefault();
		onRelease(event.dataTransfer.files[0] ?? null);
	};
	return (
		<Card isPadded={false} title="Ship your first live update">
			<ol className="steps" aria-label="First steps">
				<Step number={1} title="Create an app" state="done">
					<span className="said">
						{name} · <span className="mono">{appId}</span>
					</span>
				</Step>
				<Step
					number={2}
					title="Add the updater to your app"
					state={isConnected ? "done" : "now"}
					action={
						isConnected ? undefined : (
							<Button size="xs" variant="default" onClick={() => setSaidSo(true)}>
								I did this
							</Button>
						)
					}
				>
					{isConnected ? null : (
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
					)}
				</Step>
				<li
					className={`step ${hasRelease ? "done" : isConnected ? "now" : "waiting"}`}
					onDragOver={(event) => event.preventDefault()}
					onDrop={drop}
				>
					<span className="step-number">{hasRelease ? <Icon of={IconCheck} size="s" /> : 3}</span>
					<div className="stack">
						<h3>Release a bundle</h3>
						{hasRelease ? null : (
							<span className="said">
								Drop the zip of your build here. The first release creates the channel production.
							</span>
						)}
					</div>
					{hasRelease ? null : (
						<Button leftSection={<Icon of={IconUpload} size="s" />} onClick={() => onRelease(null)}>
							Upload and release
						</Button>
					)}
				</li>
				<Step
					number={4}
					title="See it on a device"
					state={device === undefined ? (hasRelease ? "now" : "waiting") : "done"}
				>
					{device === undefined ? (
						<span className="said" role="status">
							<Dot /> Waiting for the first update check…
						</span>
					) : (
						<span className="said" role="status">
							<TextLink to={devicePath(appId, device.device_id)}>{device.device_id}</TextLink> runs{" "}
							{versionText(device.version_name ?? "unknown")}.
						</span>
					)}
				</Step>
			</ol>
		</Card>
	);
}

/** For an organization without apps. */
export function NoAppYet({ create }: { readonly create: ReactNode }) {
	return (
		<Card isPadded={false} title="Ship your first live update">
			<ol className="steps" aria-label="First steps">
				<Step number={1} title="Create an app" state="now" action={create}>
					<span className="said">You need its app id, such as com.example.app.</span>
				</Step>
				<Step number={2} title="Add the updater to your app" state="waiting" />
				<Step number={3} title="Release a bundle" state="waiting" />
				<Step number={4} title="See it on a device" state="waiting" />
			</ol>
		</Card>
	);
}
