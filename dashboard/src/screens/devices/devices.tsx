/**
 * The devices of an app in rows with their state: open one by its id, filter the list by custom id,
 * bundle, platform and more, and set or remove the overrides of several.
 */
import { Button, Code, Group, TextInput } from "@mantine/core";
import { useState } from "react";
import { useLocation } from "wouter";
import { ask, useAsk } from "../../api";
import { Answer } from "../../components/answer";
import type { Channel } from "../../components/channel-badges";
import { FilterBar, withCounts } from "../../components/filter-bar";
import { givenFilters, isFiltered, useFilters } from "../../components/filters";
import { Icon } from "../../components/icon";
import { TextLink } from "../../components/link";
import { PLATFORMS, platformName } from "../../components/platforms";
import { Empty, Screen, Section } from "../../components/screen";
import { loadPages, useSelection } from "../../components/selection";
import { countOf, countText } from "../../components/size";
import { type Column, DataTable, Pager, usePageNumber, useSorting } from "../../components/table";
import { Time } from "../../components/time";
import { IconChevronRight } from "../../icons";
import { appPath, devicePath } from "../../paths";
import { useAppMay } from "../../permissions";
import type { AppScreenProps } from "../../screen-props";
import { useChannelFilter } from "./channel-filter";
import { Override } from "./device-override";
import { type ListedDevice, StateBadges, StateDot, statesOf } from "./device-state";
import { OverrideDevices } from "./override-devices";

const FILTERS = ["search", "channel", "version", "platform", "key_id", "seen_from"] as const;
const RARE = [
	{ name: "version", label: "Version" },
	{ name: "key_id", label: "Public key id" },
	{ name: "seen_from", label: "Last seen since (UTC)", type: "date" },
] as const;
const PAGE_SIZE = 50;

const ORDERS = ["last_seen", "name", "version", "platform"] as const;
const isOrder = (by: string): by is (typeof ORDERS)[number] => ORDERS.some((order) => order === by);

export default function Devices({ appId, orgId }: AppScreenProps) {
	const [page, setPage] = usePageNumber();
	const [filters, setFilters] = useFilters(FILTERS);
	const [sorting, sort] = useSorting("last_seen", ["last_seen"]);
	const queryOf = (number: number) => ({
		app_id: appId,
		page: String(number),
		...givenFilters(filters),
		...(isOrder(sorting.by)
			? { sort: sorting.by, order: sorting.isDescending ? ("desc" as const) : ("asc" as const) }
			: {}),
	});
	const devices = useAsk("GET /device?totals=true", { query: queryOf(page) });
	const ofPage = async (number: number) => (await ask("GET /device?totals=true", { query: queryOf(number) })).devices;
	const { channels, filter: channelFilter } = useChannelFilter(appId);
	const may = useAppMay(appId, orgId);
	const selection = useSelection<ListedDevice>(({ device_id }) => device_id);
	const [dialog, setDialog] = useState<"set" | "remove" | undefined>();
	const mayManage = may("app.manage_devices") === true;
	return (
		<Screen title="Devices" note="Devices that checked for updates or sent reports.">
			<FilterBar
				list={`devices ${appId}`}
				filters={filters}
				onFilter={setFilters}
				search={{ name: "search", label: "Find by id" }}
				chips={{
					name: "platform",
					label: "Platform",
					choices: withCounts(PLATFORMS, devices.data?.platforms ?? {}),
				}}
				menus={[channelFilter]}
				more={RARE}
			/>
			<Answer query={devices} what="devices">
				{({ devices: items, total, complete }) =>
					total === 0 && page === 0 ? (
						<Empty title={isFiltered(filters) ? "No matching devices" : "No devices yet"}>
							{isFiltered(filters) ? (
								"Change or clear the filters."
							) : (
								<>
									Point your app to this server and start it:{" "}
									<TextLink to={appPath(appId, "connect")}>connect your app</TextLink>.
								</>
							)}
						</Empty>
					) : (
						<div className="sec">
							<span className="muted num" role="status">
								{complete ? "" : "At least "}
								{countOf(total, "device")}.
								{complete ? "" : " This app has more devices than one list reads; search by id to find a certain one."}
							</span>
							<DataTable
								label="Devices"
								isLinked
								sorting={sorting}
								onSort={sort}
								rows={items}
								rowKey={({ device_id }) => device_id}
								pick={
									mayManage
										? {
												selection,
												nameOf,
												noun: ["device", "devices"],
												all: complete ? { total, load: () => loadPages(total, ofPage) } : undefined,
												acts: (
													<>
														<button type="button" onClick={() => setDialog("set")}>
															Set override…
														</button>
														<button type="button" onClick={() => setDialog("remove")}>
															Remove overrides…
														</button>
													</>
												),
											}
										: undefined
								}
								columns={columnsOf(appId, channels)}
								factsOf={(device) => (
									<>
										<span>{bundleText(device)}</span>
										{device.channel === null ? null : <bdi>{device.channel}</bdi>}
										<span>{systemText(device)}</span>
									</>
								)}
							/>
							<Pager page={page} hasNext={(page + 1) * PAGE_SIZE < total} onPage={setPage} />
						</div>
					)
				}
			</Answer>
			{dialog === undefined ? null : (
				<OverrideDevices
					appId={appId}
					act={dialog}
					devices={selection.rows}
					channels={channels}
					onDone={(device) => selection.drop([device])}
					onClose={() => setDialog(undefined)}
				/>
			)}
			{mayManage ? <FirstOverride appId={appId} /> : null}
			<DeviceKeys appId={appId} onFilter={(key_id) => setFilters({ ...filters, key_id })} />
		</Screen>
	);
}

const nameOf = ({ device_id, custom_id }: ListedDevice) => custom_id ?? device_id;
const bundleText = ({ version_name }: ListedDevice) =>
	version_name === "builtin" ? "Store build" : (version_name ?? "—");
const systemText = ({ platform, os_version }: ListedDevice) => `${platformName(platform)} ${os_version ?? ""}`;

function columnsOf(appId: string, channels: readonly Channel[]): readonly Column<ListedDevice>[] {
	const byName = new Map(channels.map((channel) => [channel.name, channel]));
	return [
		{
			title: "Device",
			sort: "name",
			cell(device) {
				const states = statesOf(device, byName.get(device.channel ?? ""));
				return (
					<span className="named" data-id={device.device_id}>
						<StateDot states={states} />
						<TextLink to={devicePath(appId, device.device_id)}>
							<bdi title={`${nameOf(device)}\n${device.device_id}`}>{nameOf(device)}</bdi>
						</TextLink>
						<StateBadges states={states} />
					</span>
				);
			},
		},
		{
			title: "Bundle",
			sort: "version",
			wideOnly: true,
			width: 112,
			cell: (device) => <Cut text={bundleText(device)} />,
		},
		{
			title: "Store build",
			wideOnly: true,
			width: 96,
			cell: ({ version_build }) => <Cut text={version_build ?? "—"} />,
		},
		{
			title: "Platform",
			sort: "platform",
			wideOnly: true,
			width: 112,
			cell: (device) => <Cut text={systemText(device)} />,
		},
		{
			title: "Channel",
			wideOnly: true,
			width: 140,
			cell: ({ channel, override_channel }) =>
				channel === null ? (
					<span className="muted">—</span>
				) : (
					<div className="cut" title={`${channel}, ${override_channel === null ? "by its last check" : "set by hand"}`}>
						<bdi>{channel}</bdi>
						{override_channel === null ? null : <span className="muted"> · set</span>}
					</div>
				),
		},
		{
			title: "Last seen",
			sort: "last_seen",
			width: 124,
			cell: ({ last_seen_at }) => (last_seen_at === null ? "Never" : <Time value={last_seen_at} />),
		},
	];
}

function Cut({ text }: { readonly text: string }) {
	return (
		<div className="cut" title={text}>
			{text}
		</div>
	);
}

/** A device that never checked for updates is not listed, and its override can be set already. */
function FirstOverride({ appId }: { readonly appId: string }) {
	const [, navigate] = useLocation();
	const [typed, setId] = useState("");
	const id = typed.trim().toLowerCase();
	const [isSetting, setSetting] = useState(false);
	return (
		<details className="fold">
			<summary>
				<Icon of={IconChevronRight} />
				Set an override before the first check of a device
			</summary>
			<form
				onSubmit={(event) => {
					event.preventDefault();
					setSetting(true);
				}}
			>
				<Group align="flex-end" gap="sm">
					<TextInput
						label="Device id"
						description="Your app gets it from CapacitorUpdater.getDeviceId()."
						placeholder="b5a3f9d2-6a60-4f2e-9a57-9f1f1f5a2d61"
						w="min(100%, 24rem)"
						value={typed}
						onChange={(event) => setId(event.currentTarget.value)}
					/>
					<Button type="submit" variant="default" {...(id === "" ? { disabled: true } : {})}>
						Set override…
					</Button>
				</Group>
			</form>
			{isSetting ? (
				<Override
					appId={appId}
					deviceId={id}
					onSet={() => navigate(devicePath(appId, id))}
					onClose={() => setSetting(false)}
				/>
			) : null}
		</details>
	);
}

/** Renders nothing if no device has a public key, which only apps with encrypted bundles need. */
function DeviceKeys({ appId, onFilter }: { readonly appId: string; readonly onFilter: (keyId: string) => void }) {
	const keys = useAsk("GET /device/key", { query: { app_id: appId } });
	if (keys.data === undefined || keys.data.length === 0) return null;
	return (
		<Section title="Public keys on devices">
			<DataTable
				label="Public keys on devices"
				rows={keys.data}
				rowKey={({ key_id }) => key_id}
				columns={[
					{ title: "Key id", cell: ({ key_id }) => <Code>{key_id}</Code> },
					{ title: "Signing key", cell: ({ signing_key }) => signing_key ?? "Not registered" },
					{ title: "Devices", cell: ({ devices, more }) => `${countText(devices)}${more ? " or more" : ""}` },
					{
						title: "Actions",
						cell: ({ key_id }) => (
							<Button size="xs" variant="default" onClick={() => onFilter(key_id)}>
								Show devices with {key_id}
							</Button>
						),
					},
				]}
			/>
		</Section>
	);
}
