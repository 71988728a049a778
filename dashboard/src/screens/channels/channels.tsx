/**
 * The channels of an app in rows: the live bundle, devices and failures of each, previews apart; a
 * form that creates a channel, and the deletion of several previews.
 */
import { Button, Text } from "@mantine/core";
import { useQueries } from "@tanstack/react-query";
import { useState } from "react";
import { useLocation } from "wouter";
import { type AnswerOf, ask, useAllPages, useChange } from "../../api";
import { Answer } from "../../components/answer";
import { Badge } from "../../components/badge";
import { BulkDialog } from "../../components/bulk-dialog";
import { type Channel, platformsOf } from "../../components/channel-badges";
import { ChannelProblemTitles } from "../../components/channel-problems";
import { useDo } from "../../components/do";
import { type Attempts, FailureRate, failedText, useAttempts } from "../../components/failure-rate";
import { runsItText } from "../../components/kept-until";
import { TextLink } from "../../components/link";
import { notify } from "../../components/notify";
import { Empty, Screen, Section } from "../../components/screen";
import { useSelection } from "../../components/selection";
import { countOf, countText, percentText, sizeText } from "../../components/size";
import { type Column, DataTable, Pager, type Pick, pageOf, usePageNumber } from "../../components/table";
import { Time } from "../../components/time";
import { WholeList } from "../../components/whole-list";
import { planChannelDeletion } from "../../dry-runs";
import { appPath, bundlePath, channelPath, devicesPath } from "../../paths";
import { useAppMay } from "../../permissions";
import type { AppScreenProps } from "../../screen-props";
import { ChannelForm, NEW_CHANNEL } from "./channel-form";

type Devices = AnswerOf<"GET /statistics/app/:app_id/channels">[number];

/** The figures beside a channel. */
interface Figures {
	/** Undefined until they are known. */
	readonly devicesOf: (channel: Channel) => Counted | undefined;
	readonly attemptsOf: (channel: Channel) => Attempts | undefined;
}
type Counted = Omit<Devices, "channel_id">;

/** Channels whose devices are counted, the public ones first. */
const MOST_COUNTED = 300;
const COUNTED_AT_ONCE = 50;

function useFigures(appId: string, channels: readonly Channel[]): Figures {
	const sorted = [...channels].sort((one, other) => rankOf(one) - rankOf(other)).slice(0, MOST_COUNTED);
	const parts = Array.from({ length: Math.ceil(sorted.length / COUNTED_AT_ONCE) }, (_, part) =>
		sorted.slice(part * COUNTED_AT_ONCE, (part + 1) * COUNTED_AT_ONCE),
	);
	const answers = useQueries({
		queries: parts.map((part) => {
			const query = { channel_ids: part.map(({ id }) => id).join(",") };
			const request = { params: { app_id: appId }, query };
			return {
				queryKey: ["GET /statistics/app/:app_id/channels", request],
				queryFn: () => ask("GET /statistics/app/:app_id/channels", request),
			};
		}),
	});
	const attempts = useAttempts(appId);
	const counted = new Map(
		answers.flatMap(({ data }) => data ?? []).map(({ channel_id, ...rest }) => [channel_id, rest]),
	);
	return {
		devicesOf: ({ id }) => counted.get(id),
		attemptsOf: ({ name, version }) =>
			attempts(({ byBundleAndChannel }) =>
				byBundleAndChannel.find((row) => row.channel === name && row.version === version?.name),
			),
	};
}

const rankOf = (channel: Channel) => Number(channel.is_preview) * 2 + Number(!channel.public);

export default function Channels({ appId, orgId }: AppScreenProps) {
	const channels = useAllPages("GET /channel", { query: { app_id: appId, limit: "1000" } });
	const figures = useFigures(appId, channels.data ?? []);
	const may = useAppMay(appId, orgId);
	const [isOpen, setOpen] = useState(false);
	useDo("new", () => setOpen(true), may("app.create_channel") === true);
	const create =
		may("app.create_channel") === true ? <Button onClick={() => setOpen(true)}>New channel</Button> : undefined;
	return (
		<Screen title="Channels" note="A channel decides which bundle its devices get." actions={create}>
			<Answer query={channels} what="channels">
				{(all) => {
					const previews = all.filter(({ is_preview }) => is_preview);
					const permanent = all.filter(({ is_preview }) => !is_preview);
					return (
						<>
							{permanent.length === 0 ? (
								<Empty title="No channels yet">
									{create === undefined
										? "Ask an administrator of the app to create one."
										: "A public channel serves every device that did not join another one."}
								</Empty>
							) : (
								<WholeList
									label="Channels"
									noun={["channel", "channels"]}
									isLinked
									rows={permanent}
									rowKey={({ id }) => id}
									textOf={textOf}
									first="name"
									descending={["devices", "changed"]}
									chips={KINDS.filter(({ has }) => permanent.some(has))}
									columns={columnsOf(appId, figures)}
									factsOf={(channel) => factsOf(channel, figures)}
								/>
							)}
							{previews.length === 0 ? null : (
								<Previews
									appId={appId}
									previews={previews}
									figures={figures}
									mayDelete={may("channel.delete") === true}
								/>
							)}
						</>
					);
				}}
			</Answer>
			{isOpen ? <CreateChannel appId={appId} onClose={() => setOpen(false)} /> : null}
		</Screen>
	);
}

const textOf = ({ name, version, rollout_version_info: rollout }: Channel) =>
	[name, version?.name ?? "", rollout?.name ?? ""].join(" ");

const KINDS = [
	{
		value: "rollout",
		label: "Rolling out",
		has: ({ rollout_version_info, rolloutEnabled }: Channel) => rollout_version_info !== null && rolloutEnabled,
	},
	{ value: "misconfigured", label: "Misconfigured", has: ({ misconfigured }: Channel) => misconfigured.length > 0 },
	{ value: "protected", label: "Protected", has: (channel: Channel) => channel.protected },
];

function columnsOf(appId: string, { devicesOf, attemptsOf }: Figures) {
	return [
		{
			title: "Channel",
			sort: "name",
			// The public channels, which most devices follow, come first.
			value: (channel: Channel) => `${channel.public ? " " : ""}${channel.name}`,
			cell: (channel: Channel) => (
				<span className="named">
					<TextLink to={channelPath(appId, channel.name)}>
						<bdi title={channel.name}>{channel.name}</bdi>
					</TextLink>
					<Facts channel={channel} />
				</span>
			),
		},
		{
			title: "Live bundle",
			sort: "live",
			value: ({ version }: Channel) => version?.name ?? null,
			wideOnly: true as const,
			width: 210,
			cell: ({ version, ...channel }: Channel) => (
				<span className="named">
					{version === null ? (
						<span className="muted">Store build</span>
					) : (
						<TextLink to={bundlePath(appId, version.name)}>{version.name}</TextLink>
					)}
					<Rollout channel={{ ...channel, version }} />
				</span>
			),
		},
		{
			title: "Devices",
			sort: "devices",
			value: (channel: Channel) => devicesOf(channel)?.devices ?? null,
			wideOnly: true as const,
			alignEnd: true as const,
			width: 96,
			cell: (channel: Channel) => {
				const counted = devicesOf(channel);
				if (counted === undefined) return <span className="muted">—</span>;
				if (counted.devices === 0) return "0";
				return <TextLink to={devicesPath(appId, { channel: channel.name })}>{devicesText(counted)}</TextLink>;
			},
		},
		{
			title: "Failed installs",
			wideOnly: true as const,
			alignEnd: true as const,
			width: 140,
			cell: (channel: Channel) => {
				const attempts = attemptsOf(channel);
				if (attempts === undefined || channel.version === null) return <span className="muted">—</span>;
				return <FailureRate attempts={attempts} channel={channel} />;
			},
		},
		{
			title: "Changed",
			sort: "changed",
			value: ({ updated_at }: Channel) => updated_at,
			wideOnly: true as const,
			width: 124,
			cell: ({ updated_at }: Channel) => <Time value={updated_at} />,
		},
	] satisfies readonly (Column<Channel> & { readonly value?: (channel: Channel) => string | number | null })[];
}

const devicesText = ({ devices, more }: Counted) => `${countText(devices)}${more ? "+" : ""}`;

/** Badges for everything that an ordinary channel does not have. */
function Facts({ channel }: { readonly channel: Channel }) {
	return (
		<>
			{channel.public ? <Badge tone="info">Public</Badge> : null}
			{channel.protected ? <Badge>Protected</Badge> : null}
			{channel.allow_device_self_set && !channel.is_preview ? <Badge>Devices can join</Badge> : null}
			{channel.ios && channel.android && channel.electron ? null : <Badge>{platformsOf(channel)}</Badge>}
			{channel.misconfigured.length === 0 ? null : <Badge tone="bad">Misconfigured</Badge>}
			<ChannelProblemTitles channel={channel} />
		</>
	);
}

function Rollout({ channel }: { readonly channel: Channel }) {
	const { rollout_version_info: rollout, rolloutEnabled, rolloutPausedAt, rolloutPercentageBps } = channel;
	if (rollout === null || !rolloutEnabled) return null;
	const share = percentText(rolloutPercentageBps);
	const isPaused = rolloutPausedAt !== null;
	const text = `${rollout.name} ${isPaused ? "paused at" : "at"} ${share}`;
	return (
		<Badge tone={isPaused ? "bad" : "info"} title={text}>
			{text}
		</Badge>
	);
}

function factsOf(channel: Channel, { devicesOf, attemptsOf }: Figures) {
	const counted = devicesOf(channel);
	const attempts = attemptsOf(channel);
	return (
		<>
			<span>{channel.version?.name ?? "Store build"}</span>
			<Rollout channel={channel} />
			{counted === undefined ? null : (
				<span>{`${devicesText(counted)} ${counted.devices === 1 ? "device" : "devices"}`}</span>
			)}
			{attempts === undefined || attempts.install + attempts.fail === 0 ? null : <span>{failedText(attempts)}</span>}
		</>
	);
}

const NOUN = ["preview", "previews"] as const;

function Previews({
	appId,
	previews,
	figures,
	mayDelete,
}: {
	readonly appId: string;
	readonly previews: readonly Channel[];
	readonly figures: Figures;
	readonly mayDelete: boolean;
}) {
	const requests = useAllPages("GET /preview", { query: { app_id: appId, state: "open" } });
	const titles = new Map(requests.data?.map(({ channel, title }) => [channel, title]));
	const [requested, setPage] = usePageNumber("previews");
	const selection = useSelection<Channel>(({ id }) => id);
	const [isDeleting, setDeleting] = useState(false);
	const { page, items, hasNext } = pageOf(previews, requested);
	const [name, ...others] = columnsOf(appId, figures);
	const pick: Pick<Channel> = {
		selection,
		nameOf: (channel) => channel.name,
		noun: NOUN,
		all: { total: previews.length, load: async () => previews },
		acts: (
			<button type="button" onClick={() => setDeleting(true)}>
				Delete…
			</button>
		),
	};
	if (name === undefined) return null;
	return (
		<Section title="Previews" actions={<TextLink to={appPath(appId, "previews")}>All previews</TextLink>}>
			<DataTable
				label="Preview channels"
				isLinked
				rows={items}
				rowKey={({ id }) => id}
				factsOf={(channel) => factsOf(channel, figures)}
				pick={mayDelete ? pick : undefined}
				columns={[
					{
						title: name.title,
						cell: (channel) => (
							<span className="named">
								<TextLink to={channelPath(appId, channel.name)}>
									<bdi title={channel.name}>{channel.name}</bdi>
								</TextLink>
								<span className="muted small cut">
									<bdi>{titles.get(channel.name)}</bdi>
								</span>
								<Facts channel={channel} />
							</span>
						),
					},
					...others,
				]}
			/>
			<Pager page={page} hasNext={hasNext} onPage={setPage} />
			{isDeleting ? (
				<BulkDialog
					title={`Delete ${countOf(selection.rows.length, ...NOUN)}?`}
					action={(count) => `Delete ${countOf(count, ...NOUN)}`}
					noun={NOUN}
					done="deleted"
					isDestructive
					items={selection.rows}
					keyOf={({ id }) => id}
					nameOf={(channel) => channel.name}
					plan={async (channel) => deletionText(await planChannelDeletion(appId, channel.name))}
					act={(channel) => ask("DELETE /channel", { query: { app_id: appId, channel: channel.name } })}
					onDone={(channel) => selection.drop([channel])}
					onClose={() => setDeleting(false)}
				>
					<Text size="sm">This cannot be undone. Devices of a preview get the public channel again.</Text>
				</BulkDialog>
			) : null}
		</Section>
	);
}

function deletionText({ removes, bundles }: Awaited<ReturnType<typeof planChannelDeletion>>): string {
	if (removes.bundles === 0) return "The channel alone.";
	const devices = bundles.reduce((sum, bundle) => sum + bundle.devices, 0);
	return `With ${countOf(removes.bundles, "bundle")} (${sizeText(removes.bundle_bytes)}); ${runsItText(devices)}.`;
}

function CreateChannel({ appId, onClose }: { readonly appId: string; readonly onClose: () => void }) {
	const [, navigate] = useLocation();
	const create = useChange("POST /channel", (_, { body }) => {
		notify(`Channel ${body.channel} created.`);
		onClose();
		navigate(channelPath(appId, body.channel));
	});
	return (
		<ChannelForm
			title="New channel"
			action="Create channel"
			settings={NEW_CHANNEL}
			isPending={create.isPending}
			error={create.error}
			onClose={onClose}
			onSubmit={(channel, settings) => create.mutate({ body: { app_id: appId, channel, ...settings } })}
		/>
	);
}
