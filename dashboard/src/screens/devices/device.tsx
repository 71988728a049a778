/** One device: which update it gets and why, what happened on it, its reports, and its override. */
import { Alert, Button, List, Stack, Text, TextInput } from "@mantine/core";
import { type ReactNode, useState } from "react";
import { type AnswerOf, ask, CapstanError, useAsk, useChange } from "../../api";
import { Answer, Problem } from "../../components/answer";
import { Card, KeyValues, Note } from "../../components/card";
import { CopyChip } from "../../components/copy-chip";
import { Confirm, FormDialog } from "../../components/form-dialog";
import { Icon } from "../../components/icon";
import { notify } from "../../components/notify";
import { Empty, Screen, Section } from "../../components/screen";
import { screenWords } from "../../components/screen-words";
import { Time } from "../../components/time";
import { Spot, Timeline } from "../../components/timeline";
import { VersionInput } from "../../components/version-input";
import { IconAlertTriangle, IconCheck, IconChevronRight, IconCircleCheck, IconDownload } from "../../icons";
import { useAppMay } from "../../permissions";
import type { AppItemProps } from "../../screen-props";
import { EventItem } from "./event-item";

type Explained = AnswerOf<"GET /device/explain">;
type DeviceRecord = Exclude<AnswerOf<"GET /device">, readonly unknown[]>;

const isUnknown = (error: unknown) => error instanceof CapstanError && error.code === "device_not_found";

export default function Device({ appId, orgId, item }: AppItemProps) {
	const device = useAsk("GET /device", { query: { app_id: appId, device_id: item } });
	const may = useAppMay(appId, orgId);
	const [dialog, setDialog] = useState<"override" | "unset" | undefined>();
	const record = device.data === undefined || Array.isArray(device.data) ? undefined : (device.data as DeviceRecord);
	return (
		<Screen
			title={record?.custom_id ?? "Device"}
			note={<CopyChip value={item} isWhole />}
			actions={
				may("app.manage_devices") === true ? (
					<>
						<Button onClick={() => setDialog("override")}>Set override</Button>
						{record !== undefined && isSet(record) ? (
							<Button variant="default" onClick={() => setDialog("unset")}>
								Remove override
							</Button>
						) : null}
					</>
				) : undefined
			}
		>
			{record === undefined ? null : <Explanation appId={appId} device={record} />}
			{isUnknown(device.error) ? (
				<Alert color="gray" title="This device has not checked for updates yet">
					You can already set an override. It applies from the first check.
				</Alert>
			) : (
				<Answer query={device} what="the device">
					{() =>
						record === undefined ? null : (
							<div className="cols">
								<Story appId={appId} deviceId={item} />
								<Section title="Properties">
									<Record device={record} />
								</Section>
							</div>
						)
					}
				</Answer>
			)}
			{dialog === "override" ? <Override appId={appId} deviceId={item} onClose={() => setDialog(undefined)} /> : null}
			{dialog === "unset" && record !== undefined ? (
				<Unset appId={appId} device={record} onClose={() => setDialog(undefined)} />
			) : null}
		</Screen>
	);
}

const isSet = ({ override_channel, override_version }: DeviceRecord) =>
	override_channel !== null || override_version !== null;

function Record({ device }: { readonly device: DeviceRecord }) {
	const { platform, os_version, version_name, version_build, plugin_version, last_seen_at } = device;
	const { channel, override_channel, override_version } = device;
	return (
		<KeyValues
			items={[
				...customIdItems(device),
				["Current bundle", version_name ?? "—"],
				["Channel", channel ?? "—"],
				["Channel override", override_channel ?? "None"],
				["Bundle override", override_version ?? "None"],
				["Platform", `${platform ?? "—"} ${os_version ?? ""}`],
				["Store build version", version_build ?? "—"],
				["Plugin", plugin_version ?? "—"],
				[
					"Kind",
					device.is_emulator === true ? "Emulator" : device.is_prod === false ? "Development build" : "Store build",
				],
				["Last seen", last_seen_at === null ? "Never" : <Time key="seen" value={last_seen_at} />],
			]}
		/>
	);
}

/** Any device can report any custom id, so its history is shown, which helps to distinguish a copy from the original. */
function customIdItems(device: DeviceRecord): readonly (readonly [string, ReactNode])[] {
	const { custom_id, custom_id_devices, custom_id_first_reported_at, custom_id_last_changed_at } = device;
	if (custom_id === null) return [];
	const others = custom_id_devices - 1;
	const shared =
		others === 0 ? "" : `, reported by ${others >= 9 ? "9 or more" : others} other device${others === 1 ? "" : "s"}`;
	return [
		["Custom id", `${custom_id} (not verified${shared})`],
		...(custom_id_first_reported_at === null
			? []
			: [["Custom id first reported", <Time key="first" value={custom_id_first_reported_at} />] as const]),
		...(custom_id_last_changed_at === null
			? []
			: [["Custom id last changed", <Time key="changed" value={custom_id_last_changed_at} />] as const]),
	];
}

/** Labels of the rules of an update decision. */
const RULES: Readonly<Record<string, string>> = {
	device: "Device reports enough",
	override_channel: "Channel set for this device",
	override_bundle: "Bundle set for this device",
	default_channel: "Default channel of the device",
	public_channel: "Public channel",
	no_channel: "Has a channel",
	rollout: "Rollout",
	bundle_has_content: "Bundle has files",
	encryption_key: "Encryption key matches",
	already_there: "Runs another bundle",
	disabled_platform: "Platform enabled",
	disable_auto_update_to_major: "Same major version",
	disable_auto_update_to_minor: "Same minor version",
	disable_auto_update_to_patch: "Same patch version",
	disable_auto_update_to_metadata: "Store build is new enough for the bundle",
	disable_auto_update_under_native: "Not older than the store build",
	disable_prod_build: "Production builds allowed",
	disable_dev_build: "Development builds allowed",
	disable_device: "Physical devices allowed",
	disable_emulator: "Emulators allowed",
	already_on_builtin: "Runs a bundle",
	revert_to_builtin: "Plugin can revert to the store build",
	go_home: "Its bundle was deleted",
	store_build: "Store build",
	serve: "Bundle is served",
};

type Step = Explained["trace"][number];

/** A rule that passed without a finding is listed by name only. */
const isSilent = ({ outcome, finding }: Step) => outcome === "passed" && finding === "nothing against it";

function Explanation({ appId, device }: { readonly appId: string; readonly device: DeviceRecord }) {
	const { device_id } = device;
	const explained = useAsk("GET /device/explain", { query: { app_id: appId, device_id } });
	return (
		<Section title="Update decision">
			<Answer query={explained} what="the explanation">
				{({ outcome, answer, because, remedy, trace }) => (
					<Card>
						<Stack>
							<div className="row start">
								<Picture outcome={outcome} answer={answer} />
								<div className="stack grow">
									<strong className="strong">{`${outcomeTitle(outcome, answer)}, because ${because}.`}</strong>
									{isSet(device) ? <SetBy appId={appId} deviceId={device_id} /> : null}
								</div>
							</div>
							{remedy === null ? null : (
								<Note tone={isUpToDate(answer) ? "info" : "warn"} isAlert>
									{screenWords(remedy.message)}
								</Note>
							)}
							<Steps steps={trace.filter((step) => !isSilent(step))} />
							<PassedRules steps={trace.filter(isSilent)} />
						</Stack>
					</Card>
				)}
			</Answer>
		</Section>
	);
}

/** Who set the override, and when, from the device's events; nothing if that is longer ago than events are kept. */
function SetBy({ appId, deviceId }: { readonly appId: string; readonly deviceId: string }) {
	const set = useAsk("GET /device/events", {
		query: { app_id: appId, device_id: deviceId, kind: "override", limit: "1" },
	});
	const [last] = set.data?.events ?? [];
	if (last === undefined || last.by === null) return null;
	return (
		<span className="said">
			{last.by} set the override <Time value={last.at} />.
		</span>
	);
}

/** The screen waits for what the phone does next, so it looks again while it is open. */
const STORY_EVERY_MS = 10_000;

function Story({ appId, deviceId }: { readonly appId: string; readonly deviceId: string }) {
	const query = { app_id: appId, device_id: deviceId, limit: "60" };
	const story = useAsk("GET /device/events", { query }, { everyMs: STORY_EVERY_MS });
	return (
		<Section title="What happened">
			<Answer query={story} what="the events of the device">
				{({ events }) =>
					events.length === 0 ? (
						<Empty title="No events yet">Installs, failures, crashes and changed decisions appear here.</Empty>
					) : (
						<Timeline label="Events of the device">
							{events.map((event) => (
								<EventItem key={event.id} appId={appId} event={event} />
							))}
						</Timeline>
					)
				}
			</Answer>
		</Section>
	);
}

function Steps({ steps }: { readonly steps: readonly Step[] }) {
	return (
		<ol className="rules">
			{steps.map(({ rule, outcome, finding, remedy }) => (
				<li key={rule}>
					<span className={outcome === "passed" ? "t-ok" : outcome === "decided" ? "t-warn" : "dimmed"}>
						<Icon
							of={outcome === "passed" ? IconCircleCheck : outcome === "decided" ? IconAlertTriangle : IconChevronRight}
						/>
					</span>
					<span className="stack">
						<span>
							<strong className="strong">{RULES[rule] ?? rule.replaceAll("_", " ")}</strong>{" "}
							<span className="dimmed">({outcome === "decided" ? "decides" : outcome})</span> {finding}
						</span>
						{outcome === "decided" || remedy === undefined ? null : <span className="dimmed">{remedy}</span>}
					</span>
				</li>
			))}
		</ol>
	);
}

function PassedRules({ steps }: { readonly steps: readonly Step[] }) {
	return steps.length === 0 ? null : (
		<details className="fold">
			<summary>
				<Icon of={IconChevronRight} />
				{steps.length === 1 ? "1 rule" : `${steps.length} rules`} passed
			</summary>
			<List size="sm" mt="xs">
				{steps.map(({ rule }) => (
					<List.Item key={rule}>{RULES[rule] ?? rule.replaceAll("_", " ")}</List.Item>
				))}
			</List>
		</details>
	);
}

const isUpToDate = (answer: Explained["answer"]) => "kind" in answer && answer.kind === "up_to_date";

function Picture({
	outcome,
	answer,
}: {
	readonly outcome: Explained["outcome"];
	readonly answer: Explained["answer"];
}) {
	if (outcome !== "none") return <Spot icon={IconDownload} tone="info" />;
	return isUpToDate(answer) ? <Spot icon={IconCheck} tone="ok" /> : <Spot icon={IconAlertTriangle} tone="warn" />;
}

function outcomeTitle(outcome: Explained["outcome"], answer: Explained["answer"]): string {
	if (outcome === "builtin") return "At its next check, the device reverts to the store build";
	if (outcome === "update" && "url" in answer) return `At its next check, the device gets ${answer.version}`;
	return "At its next check, the device gets no update";
}

/** The request completes when every isolate answers with the change, so that the next check gets it. */
const WAITING = "Waiting until the change is live everywhere, about four seconds…";

function Override({
	appId,
	deviceId,
	onClose,
}: {
	readonly appId: string;
	readonly deviceId: string;
	readonly onClose: () => void;
}) {
	const [channel, setChannel] = useState("");
	const [version, setVersion] = useState("");
	const [refused, setRefused] = useState<Error | undefined>();
	const done = () => {
		notify("Override set. It applies at the next check.");
		onClose();
	};
	const set = useChange("POST /device", done, { waitsUntilVisible: true });
	const submit = async () => {
		setRefused(undefined);
		try {
			const bundle = version === "" ? undefined : await bundleId(appId, version);
			set.mutate({
				body: {
					app_id: appId,
					device_id: deviceId,
					...(channel === "" ? {} : { channel }),
					...(bundle === undefined ? {} : { version_id: bundle }),
				},
			});
		} catch (error) {
			setRefused(error instanceof Error ? error : new Error(String(error)));
		}
	};
	return (
		<FormDialog
			title="Set an override for this device"
			action="Set override"
			isPending={set.isPending}
			waiting={WAITING}
			isReady={channel !== "" || version !== ""}
			error={set.error}
			onSubmit={() => void submit()}
			onClose={onClose}
		>
			<Text size="sm">Empty fields stay unchanged. A bundle takes precedence over a channel.</Text>
			<TextInput
				label="Channel"
				data-autofocus
				value={channel}
				onChange={(event) => setChannel(event.currentTarget.value)}
			/>
			<VersionInput appId={appId} label="Bundle" isRequired={false} value={version} onChange={setVersion} />
			{refused === undefined ? null : <Problem error={refused} />}
		</FormDialog>
	);
}

async function bundleId(appId: string, version: string): Promise<number> {
	const [bundle] = await ask("GET /bundle", { query: { app_id: appId, version } });
	if (bundle === undefined) {
		throw new CapstanError(
			404,
			"bundle_not_found",
			`Bundle ${version} does not exist. Choose another version.`,
			{},
			"",
		);
	}
	return bundle.id;
}

function Unset({
	appId,
	device,
	onClose,
}: {
	readonly appId: string;
	readonly device: DeviceRecord;
	readonly onClose: () => void;
}) {
	const { override_channel, override_version } = device;
	const done = () => {
		notify("Override removed.");
		onClose();
	};
	const unset = useChange("DELETE /device", done, { waitsUntilVisible: true });
	return (
		<Confirm
			title="Remove the override of this device?"
			action="Remove override"
			isPending={unset.isPending}
			waiting={WAITING}
			error={unset.error}
			onConfirm={() => unset.mutate({ query: { app_id: appId, device_id: device.device_id } })}
			onClose={onClose}
		>
			<Text size="sm">This removes:</Text>
			<ul>
				{override_channel === null ? null : <li>the channel {override_channel}</li>}
				{override_version === null ? null : <li>the bundle {override_version}</li>}
			</ul>
			<Text size="sm">The device follows its usual channel again.</Text>
		</Confirm>
	);
}
