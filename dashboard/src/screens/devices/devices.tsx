/**
 * The devices of an app: open one by its id, or filter the list by custom id, bundle, platform and
 * more.
 */
import { Button, Code, Group, Stack, Text, TextInput } from "@mantine/core";
import { useState } from "react";
import { useLocation } from "wouter";
import { useAsk } from "../../api";
import { Answer } from "../../components/answer";
import { Badge } from "../../components/badge";
import { CopyChip } from "../../components/copy-chip";
import { FilterBar } from "../../components/filter-bar";
import { givenFilters, isFiltered, useFilters } from "../../components/filters";
import { Icon } from "../../components/icon";
import { TextLink } from "../../components/link";
import { Empty, Screen, Section } from "../../components/screen";
import { countOf, countText } from "../../components/size";
import { DataTable, Pager, usePageNumber, useSorting } from "../../components/table";
import { Time } from "../../components/time";
import { IconChevronRight } from "../../icons";
import { appPath, devicePath } from "../../paths";
import type { AppScreenProps } from "../../screen-props";
import { useChannelFilter } from "./channel-filter";
import { PLATFORMS, platformName } from "./platforms";

const FILTERS = ["search", "channel", "version", "platform", "key_id", "seen_from"] as const;
const RARE = [
	{ name: "version", label: "Version" },
	{ name: "key_id", label: "Public key id" },
	{ name: "seen_from", label: "Last seen since (UTC)", type: "date" },
] as const;
const PAGE_SIZE = 50;

const ORDERS = ["last_seen", "name", "version", "platform"] as const;
const isOrder = (by: string): by is (typeof ORDERS)[number] => ORDERS.some((order) => order === by);

export default function Devices({ appId }: AppScreenProps) {
	const [page, setPage] = usePageNumber();
	const [filters, setFilters] = useFilters(FILTERS);
	const channel = useChannelFilter(appId);
	const [sorting, sort] = useSorting("last_seen", ["last_seen"]);
	const query = {
		app_id: appId,
		page: String(page),
		...givenFilters(filters),
		...(isOrder(sorting.by)
			? { sort: sorting.by, order: sorting.isDescending ? ("desc" as const) : ("asc" as const) }
			: {}),
	};
	const devices = useAsk("GET /device?totals=true", { query });
	return (
		<Screen title="Devices" note="Devices that checked for updates or sent reports.">
			<FilterBar
				list={`devices ${appId}`}
				filters={filters}
				onFilter={setFilters}
				search={{ name: "search", label: "Id or custom id contains" }}
				chips={{ name: "platform", label: "Platform", choices: PLATFORMS }}
				menus={[channel]}
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
						<Stack gap="sm">
							<Text size="sm">
								{complete ? "" : "At least "}
								{countOf(total, "device")}.
								{complete ? "" : " This app has more devices than one list reads; search by id to find a certain one."}
							</Text>
							<DataTable
								label="Devices"
								isLinked
								sorting={sorting}
								onSort={sort}
								rows={items}
								rowKey={({ device_id }) => device_id}
								columns={[
									{
										title: "Device",
										sort: "name",
										cell: ({ device_id, custom_id, platform, os_version, override_channel, override_version }) => (
											<Stack gap={4} align="flex-start">
												<TextLink to={devicePath(appId, device_id)}>{custom_id ?? device_id}</TextLink>
												{custom_id === null ? null : <CopyChip value={device_id} />}
												<span className="small muted phone">{`${platformName(platform)} ${os_version ?? ""}`}</span>
												{override_channel === null ? null : <OverrideBadge what="Channel" name={override_channel} />}
												{override_version === null ? null : <OverrideBadge what="Bundle" name={override_version} />}
											</Stack>
										),
									},
									{
										title: "Bundle",
										sort: "version",
										cell: ({ version_name }) => (
											<span className="nowrap">
												{version_name === "builtin" ? "Store build" : (version_name ?? "—")}
											</span>
										),
									},
									{
										title: "Platform",
										sort: "platform",
										wideOnly: true,
										cell: ({ platform, os_version }) => `${platformName(platform)} ${os_version ?? ""}`,
									},
									{
										title: "Channel",
										wideOnly: true,
										cell: ({ channel }) =>
											channel === null ? (
												"—"
											) : (
												<span className="cut cell-name" title={channel}>
													{channel}
												</span>
											),
									},
									{
										title: "Last seen",
										sort: "last_seen",
										cell: ({ last_seen_at }) => (last_seen_at === null ? "Never" : <Time value={last_seen_at} />),
									},
								]}
							/>
							<Pager page={page} hasNext={(page + 1) * PAGE_SIZE < total} onPage={setPage} />
						</Stack>
					)
				}
			</Answer>
			<FindDevice appId={appId} />
			<DeviceKeys appId={appId} onFilter={(key_id) => setFilters({ ...filters, key_id })} />
		</Screen>
	);
}

function OverrideBadge({ what, name }: { readonly what: string; readonly name: string }) {
	return (
		<Badge>
			{what} override: {name}
		</Badge>
	);
}

/**
 * A device that never checked for updates has a page as well, where its override can be set before
 * its first check.
 */
function FindDevice({ appId }: { readonly appId: string }) {
	const [, navigate] = useLocation();
	const [id, setId] = useState("");
	return (
		<details className="fold">
			<summary>
				<Icon of={IconChevronRight} />
				Open a device that is not listed
			</summary>
			<form
				onSubmit={(event) => {
					event.preventDefault();
					navigate(devicePath(appId, id.trim().toLowerCase()));
				}}
			>
				<Group align="flex-end" gap="sm">
					<TextInput
						label="Device id"
						description="Your app gets it from CapacitorUpdater.getDeviceId()."
						placeholder="b5a3f9d2-6a60-4f2e-9a57-9f1f1f5a2d61"
						w="min(100%, 24rem)"
						value={id}
						onChange={(event) => setId(event.currentTarget.value)}
					/>
					<Button type="submit" {...(id.trim() === "" ? { disabled: true } : {})}>
						Open device
					</Button>
				</Group>
			</form>
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
