/** One device: which update it gets and why, what happened on it, its reports, and its override. */

import { Button, List, Stack } from "@mantine/core";
import { type ReactNode, useState } from "react";
import { NO_OBJECTION } from "../../../../src/domain/updates/model";
import { refusalWords } from "../../../../src/domain/updates/refusals";
import { ruleLabel } from "../../../../src/domain/updates/rule-names";
import { type AnswerOf, useAsk } from "../../api";
import { Answer } from "../../components/answer";
import { Card, KeyValues, Note } from "../../components/card";
import { CopyChip } from "../../components/copy-chip";
import { Icon } from "../../components/icon";
import { TextLink } from "../../components/link";
import { Found } from "../../components/missing";
import { platformName } from "../../components/platforms";
import { Empty, Screen, Section } from "../../components/screen";
import { remedyWords } from "../../components/setting-words";
import { Time } from "../../components/time";
import { Spot } from "../../components/timeline";
import { IconAlertTriangle, IconCheck, IconChevronRight, IconCircleCheck, IconDownload } from "../../icons";
import { appPath, bundlePath, channelPath } from "../../paths";
import { useAppMay } from "../../permissions";
import type { AppItemProps } from "../../screen-props";
import { type DeviceRecord, Override, Unset } from "./device-override";
import { EventRows } from "./event-rows";

type Explained = AnswerOf<"GET /device/explain">;

export default function Device({ appId, orgId, item }: AppItemProps) {
	const device = useAsk("GET /device", { query: { app_id: appId, device_id: item } });
	return (
		<Found
			query={device}
			kind="device"
			name={item}
			because="No device with this id has checked for updates or sent a report, and none has an override."
			list={{ to: appPath(appId, "devices"), label: "All devices" }}
		>
			{(answer) =>
				Array.isArray(answer) ? null : <Details appId={appId} orgId={orgId} record={answer as DeviceRecord} />
			}
		</Found>
	);
}

function Details({
	appId,
	orgId,
	record,
}: {
	readonly appId: string;
	readonly orgId: string | undefined;
	readonly record: DeviceRecord;
}) {
	const { device_id: id } = record;
	const may = useAppMay(appId, orgId);
	const [dialog, setDialog] = useState<"override" | "unset" | undefined>();
	return (
		<Screen
			title={record.custom_id ?? "Device"}
			note={<CopyChip value={id} isWhole />}
			actions={
				may("app.manage_devices") === true ? (
					<>
						<Button onClick={() => setDialog("override")}>Set override</Button>
						{isSet(record) ? (
							<Button variant="default" onClick={() => setDialog("unset")}>
								Remove override
							</Button>
						) : null}
					</>
				) : undefined
			}
		>
			<Explanation appId={appId} device={record} />
			<div className="cols">
				<Story appId={appId} deviceId={id} />
				<Section title="Properties">
					<Record appId={appId} device={record} />
				</Section>
			</div>
			{dialog === "override" ? <Override appId={appId} deviceId={id} onClose={() => setDialog(undefined)} /> : null}
			{dialog === "unset" ? <Unset appId={appId} device={record} onClose={() => setDialog(undefined)} /> : null}
		</Screen>
	);
}

const isSet = ({ override_channel, override_version }: DeviceRecord) =>
	override_channel !== null || override_version !== null;

function Record({ appId, device }: { readonly appId: string; readonly device: DeviceRecord }) {
	const { platform, os_version, version_name, version_build, plugin_version, last_seen_at } = device;
	const { channel, override_channel, override_version } = device;
	return (
		<KeyValues
			items={[
				...customIdItems(device),
				[
					"Current bundle",
					version_name === null ? (
						"—"
					) : version_name === "builtin" ? (
						"Store build"
					) : (
						<TextLink key="bundle" to={bundlePath(appId, version_name)}>
							{version_name}
						</TextLink>
					),
				],
				[
					"Channel",
					channel === null ? (
						"—"
					) : (
						<TextLink key="channel" to={channelPath(appId, channel)}>
							{channel}
						</TextLink>
					),
				],
				["Channel override", override_channel ?? "None"],
				["Bundle override", override_version ?? "None"],
				["Platform", `${platformName(platform)} ${os_version ?? ""}`],
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

/**
 * Any device can report any custom id, so its history is shown, which helps to distinguish a copy
 * from the original.
 */
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

type Step = Explained["trace"][number];

/** How the bundle was chosen, which explains the decision even where the rule passed. */
const PATH = ["override_channel", "override_bundle", "default_channel", "public_channel", "rollout"];

const isFolded = ({ rule, outcome }: Step) => outcome !== "decided" && !(outcome === "passed" && PATH.includes(rule));

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
									<strong className="strong">{`${outcomeTitle(outcome, answer)}, because ${reasonOf(answer, because)}.`}</strong>
									{isSet(device) ? <SetBy appId={appId} deviceId={device_id} /> : null}
								</div>
							</div>
							{remedy === null ? null : (
								<Note tone={isUpToDate(answer) ? "info" : "warn"} isAlert>
									<span>{remedyWords(remedy)}</span>
									{remedy.settings === null ? null : (
										<TextLink to={channelPath(appId, remedy.settings.channel)}>
											Open channel {remedy.settings.channel}
										</TextLink>
									)}
								</Note>
							)}
							<Steps steps={trace.filter((step) => !isFolded(step))} isFine={remedy === null || isUpToDate(answer)} />
							<PassedRules steps={trace.filter(isFolded)} />
						</Stack>
					</Card>
				)}
			</Answer>
		</Section>
	);
}

/**
 * The person who set the override, and the time, from the device's events; nothing if that is
 * longer ago than events are kept.
 */
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
						<EventRows label="Events of the device" appId={appId} events={events} />
					)
				}
			</Answer>
		</Section>
	);
}

function Steps({ steps, isFine }: { readonly steps: readonly Step[]; readonly isFine: boolean }) {
	return (
		<ol className="rules">
			{steps.map(({ rule, outcome, finding, remedy, settings }) => (
				<li key={rule}>
					<span className={outcome === "passed" || isFine ? "t-ok" : "t-warn"}>
						<Icon of={outcome === "passed" || isFine ? IconCircleCheck : IconAlertTriangle} />
					</span>
					<span className="stack">
						<span>
							<strong className="strong">{ruleLabel(rule, outcome === "decided")}</strong>{" "}
							<span className="muted">{finding}</span>
						</span>
						{outcome === "decided" || remedy === undefined ? null : (
							<span className="muted">
								{settings === undefined ? remedy : remedyWords({ settings, otherwise: null })}
							</span>
						)}
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
				{steps.map(({ rule, finding }) => (
					<List.Item key={rule} title={rule}>
						{ruleLabel(rule, false)}
						{finding === NO_OBJECTION ? null : <span className="muted">: {finding}</span>}
					</List.Item>
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

/**
 * The reason, after "because"; that of the API names a field of requests if the channel lacks a
 * minimum version.
 */
const reasonOf = (answer: Explained["answer"], because: string) =>
	"error" in answer && answer.error === "misconfigured_channel" ? refusalWords(answer.error) : because;

function outcomeTitle(outcome: Explained["outcome"], answer: Explained["answer"]): string {
	if (outcome === "builtin") return "At its next check, the device reverts to the store build";
	if (outcome === "update" && "url" in answer) return `At its next check, the device gets ${answer.version}`;
	return "At its next check, the device gets no update";
}
