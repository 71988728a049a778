/** History of a channel: which bundle was live when and by whom, with a rollback to each bundle that still exists. */
import { Alert, Button, Group, Stack, Text, TextInput, Timeline } from "@mantine/core";
import { type ReactNode, useState } from "react";
import { type AnswerOf, CapstanError, useChange, usePage } from "../../api";
import { Answer } from "../../components/answer";
import { Badge } from "../../components/badge";
import type { Channel } from "../../components/channel-badges";
import { Confirm } from "../../components/form-dialog";
import { TextLink } from "../../components/link";
import { notify } from "../../components/notify";
import { Empty, Section } from "../../components/screen";
import { countOf, countText } from "../../components/size";
import { Pager, usePageNumber } from "../../components/table";
import { Time } from "../../components/time";
import { type RollbackPlan, useRollbackPlan } from "../../dry-runs";
import { bundlePath } from "../../paths";

type Entry = Extract<AnswerOf<"GET /channel/history">, readonly unknown[]>[number];

const STORE_BUILD = "the store build";
const nameOf = (version: string | null) => version ?? STORE_BUILD;
const shareOf = ({ rollout_percentage_bps }: Entry) => `${(rollout_percentage_bps ?? 0) / 100} %`;

/** E.g. `raised the rollout of 2.4.0 to 25 %`; the version is a link while its bundle exists. */
function sentence(entry: Entry, version: ReactNode): ReactNode {
	const share = shareOf(entry);
	switch (entry.action) {
		case "created":
			return entry.version === null ? "created the channel" : <>created the channel with {version}</>;
		case "promotion":
			return entry.version === null ? <>went to {version}</> : <>released {version} to every device</>;
		case "rollback":
			return (
				<>
					rolled back from {nameOf(entry.previous_version)} to {version}
				</>
			);
		case "rollout_prepared":
			return (
				<>
					prepared a rollout of {version} to {share}
				</>
			);
		case "rollout_started":
			return (
				<>
					started the rollout of {version} at {share}
				</>
			);
		case "rollout_raised":
			return (
				<>
					raised the rollout of {version} to {share}
				</>
			);
		case "rollout_lowered":
			return (
				<>
					lowered the rollout of {version} to {share}
				</>
			);
		case "rollout_stopped":
			return <>turned off the rollout of {version}</>;
		case "rollout_paused":
			return (
				<>
					paused the rollout of {version} at {share}
				</>
			);
		case "rollout_resumed":
			return (
				<>
					resumed the rollout of {version} at {share}
				</>
			);
		case "rollout_finished":
			return <>finished the rollout of {version}, now on every device</>;
		case "rollout_rolled_back":
			return (
				<>
					rolled back the rollout of {version} at {share}
				</>
			);
		case "rollout_replaced":
			return <>replaced the rollout of {version} with another one</>;
	}
}

const whoDid = ({ actor }: Entry) => (actor.type === "system" ? "Capstan" : (actor.name ?? "A team member"));

export function ChannelHistory({
	appId,
	channel,
	mayPromote,
}: {
	readonly appId: string;
	readonly channel: Channel;
	readonly mayPromote: boolean;
}) {
	const [page, setPage] = usePageNumber("history");
	const [target, setTarget] = useState<string | null | undefined>();
	const query = { app_id: appId, channel: channel.name };
	const history = usePage("GET /channel/history", { query }, page);
	return (
		<Section title="History">
			<Answer query={history} what="the history">
				{({ items, hasNext }) =>
					items.length === 0 ? (
						<Empty title="No releases yet" />
					) : (
						<Stack gap="sm">
							<Entries
								appId={appId}
								channel={channel}
								entries={items}
								onRollBack={mayPromote ? setTarget : undefined}
							/>
							<Pager page={page} hasNext={hasNext} onPage={setPage} />
						</Stack>
					)
				}
			</Answer>
			{target === undefined ? null : (
				<RollBack appId={appId} channel={channel} version={target} onClose={() => setTarget(undefined)} />
			)}
		</Section>
	);
}

function Entries({
	appId,
	channel,
	entries,
	onRollBack,
}: {
	readonly appId: string;
	readonly channel: Channel;
	readonly entries: readonly Entry[];
	readonly onRollBack: ((version: string | null) => void) | undefined;
}) {
	// One button for each bundle, beside its newest entry.
	const offered = new Map<string | null, number>();
	for (const { id, version, can_roll_back } of entries) {
		if (can_roll_back && !offered.has(version)) offered.set(version, id);
	}
	const live = channel.version?.name ?? null;
	const liveEntry = entries.find(
		({ action, version }) => version === live && (!action.startsWith("rollout_") || action === "rollout_finished"),
	);
	return (
		<Timeline bulletSize={12} lineWidth={2} aria-label={`History of ${channel.name}`}>
			{entries.map((entry) => {
				const { id, at, version, bundle_deleted, reason, actor } = entry;
				const shown =
					version === null || bundle_deleted ? (
						nameOf(version)
					) : (
						<TextLink to={bundlePath(appId, version)}>{version}</TextLink>
					);
				return (
					<Timeline.Item key={id}>
						<Group justify="space-between" align="flex-start" gap="xs">
							<Stack gap={2} className="history-entry">
								<Text size="sm" component="div">
									<strong>{whoDid(entry)}</strong> {sentence(entry, shown)}
									{actor.type === "system" ? " (automatic)" : null}
									{entry.proposed_by === null ? null : `, proposed by ${entry.proposed_by.name ?? "a team member"}`}{" "}
									{id === liveEntry?.id ? <Badge tone="ok">Live</Badge> : null}
								</Text>
								{reason === null ? null : <Text size="sm">{reason}</Text>}
								<Text size="xs" c="dimmed" component="div">
									<Time value={at} />
									{bundle_deleted ? " · Bundle deleted" : null}
								</Text>
							</Stack>
							{onRollBack !== undefined && offered.get(version) === id ? (
								<Button size="xs" variant="default" onClick={() => onRollBack(version)}>
									Roll back to {nameOf(version)}
								</Button>
							) : null}
						</Group>
					</Timeline.Item>
				);
			})}
		</Timeline>
	);
}

const isNotFound = (error: Error | null) => error instanceof CapstanError && error.code === "bundle_not_found";

function RollBack({
	appId,
	channel,
	version,
	onClose,
}: {
	readonly appId: string;
	readonly channel: Channel;
	/** Null: the store build. */
	readonly version: string | null;
	readonly onClose: () => void;
}) {
	const [reason, setReason] = useState("");
	const plan = useRollbackPlan(appId, channel.name, version);
	const change = useChange("POST /channel/rollback", () => {
		notify(`${channel.name} rolled back to ${nameOf(version)}.`);
		onClose();
	});
	const isDeleted = isNotFound(plan.error) || isNotFound(change.error);
	return (
		<Confirm
			title={`Roll back ${channel.name} to ${nameOf(version)}?`}
			action={`Roll back to ${nameOf(version)}`}
			isPending={change.isPending}
			isReady={plan.isSuccess && !isDeleted}
			error={isDeleted ? null : change.error}
			onClose={onClose}
			onConfirm={() =>
				change.mutate({
					body: {
						app_id: appId,
						channel: channel.name,
						version: version ?? "builtin",
						...(reason.trim() === "" ? {} : { reason }),
					},
				})
			}
		>
			{isDeleted ? (
				<Alert color="orange" title={`${nameOf(version)} was deleted`} role="alert">
					Choose another bundle in the history, or promote one.
				</Alert>
			) : (
				<Answer query={plan} what="the affected devices">
					{(found) => <Plan plan={found} version={version} />}
				</Answer>
			)}
			<TextInput
				label="Reason (optional)"
				description="Shown in the history."
				maxLength={256}
				value={reason}
				onChange={(event) => setReason(event.currentTarget.value)}
			/>
		</Confirm>
	);
}

const REFUSALS: Readonly<Record<string, string>> = {
	disable_auto_update_under_native: "the bundle is older than their store build",
	disable_auto_update_to_major: "the bundle has a different major version than their store build",
};

function Plan({ plan, version }: { readonly plan: RollbackPlan; readonly version: string | null }) {
	const { devices, devices_changed, sampled, refused, rollout_ended } = plan;
	return (
		<Stack gap={4}>
			{devices === null || devices_changed === null ? null : (
				<Text fw={600}>
					{countText(devices_changed)} of {countOf(devices, "device")} will change version
				</Text>
			)}
			{rollout_ended === null ? null : (
				<Text size="sm">
					The rollout of {rollout_ended.version} at {rollout_ended.percentage_bps / 100} % ends.
				</Text>
			)}
			{version === null ? <Text size="sm">Devices revert to the store build.</Text> : null}
			{refused?.map(({ error, devices: count }) => (
				<Text size="sm" key={error}>
					{countOf(count, "device")} will keep what they run: {REFUSALS[error] ?? error.replaceAll("_", " ")}.
				</Text>
			))}
			{devices === null ? null : (
				<Text size="xs" c="dimmed">
					{sampled ? "Counted in a random sample of the devices" : "Devices"} seen in the last 30 days, at their next
					update check.
				</Text>
			)}
		</Stack>
	);
}
