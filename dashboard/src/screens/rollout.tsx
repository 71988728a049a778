/** A channel's rollout as it goes: its share, what devices reported, what the service will do next, and the ways to stop or finish it. */
import { Button, Group, NumberInput, Paper, Progress, Stack, Text } from "@mantine/core";
import { useState } from "react";
import { useAsk, useChange } from "../api";
import { Answer, Problem } from "../parts/answer";
import { type Channel, percentText } from "../parts/channel-badges";
import { Confirm } from "../parts/confirm";
import { say } from "../parts/say";
import { Section } from "../parts/screen";
import { countText } from "../parts/size";
import { Time } from "../parts/time";

const LOOK_AGAIN_MS = 5_000;

export function Rollout({
	appId,
	channel,
	mayPromote,
}: {
	readonly appId: string;
	readonly channel: Channel;
	readonly mayPromote: boolean;
}) {
	const isThere = channel.rollout_version_info !== null;
	const rollout = useAsk(
		"GET /channel/rollout",
		{ query: { app_id: appId, channel: channel.name } },
		{ everyMs: isThere ? LOOK_AGAIN_MS : false },
	);
	return (
		<Section title="Rollout">
			<Answer query={rollout} what="the rollout">
				{({ state, version, percentageBps, devices, health, reason, next, pauseReason, previous, startedAt }) =>
					state === "none" || version === null ? (
						<Text size="sm" c="dimmed">
							No bundle is being rolled out here.
							{previous === null
								? null
								: ` The last one was ${previous.version}${previous.endedAs === null ? "" : `, ${previous.endedAs.replace("_", " ")}`}.`}
						</Text>
					) : (
						<Paper withBorder p="md">
							<Stack gap="sm">
								<Group justify="space-between">
									<Text fw={600}>
										{version} for {percentText(percentageBps)} of the devices
									</Text>
									<Text size="sm" c="dimmed">
										{state === "paused" ? "Paused" : state === "off" ? "Switched off" : "Running"}
										{startedAt === null ? null : (
											<>
												, begun <Time value={startedAt} />
											</>
										)}
									</Text>
								</Group>
								<Progress
									value={percentageBps / 100}
									aria-label="Share of the devices"
									color={state === "running" ? "blue" : "orange"}
								/>
								<Text size="sm">
									{countText(devices.served)} served, {countText(devices.installed)} installed,{" "}
									{countText(devices.failed)} failed, {countText(devices.silent)} silent
									{health === null || health.failureRate === null
										? null
										: `; ${(health.failureRate * 100).toFixed(1)} % fail, the limit is ${health.limit * 100} %`}
								</Text>
								<Text size="sm" c="dimmed">
									{pauseReason === null || state !== "paused" ? reason : `Paused: ${pauseReason}`}
									{next === null ? null : (
										<>
											{" "}
											Next: {percentText(next.percentageBps)} <Time value={next.at} />
										</>
									)}
								</Text>
								{mayPromote ? (
									<Steering
										appId={appId}
										channel={channel.name}
										version={version}
										stable={channel.version?.name}
										isPaused={state === "paused"}
										percentage={percentageBps / 100}
									/>
								) : null}
							</Stack>
						</Paper>
					)
				}
			</Answer>
		</Section>
	);
}

function Steering({
	appId,
	channel,
	version,
	stable,
	isPaused,
	percentage,
}: {
	readonly appId: string;
	readonly channel: string;
	readonly version: string;
	readonly stable: string | undefined;
	readonly isPaused: boolean;
	readonly percentage: number;
}) {
	const [share, setShare] = useState<number | string>(percentage);
	const [isAsking, setAsking] = useState<"rollback" | "finish" | undefined>();
	const change = useChange("POST /channel", () => {
		say("The rollout is changed.");
		setAsking(undefined);
	});
	const send = (fields: object) => change.mutate({ body: { app_id: appId, channel, ...fields } });
	return (
		<>
			<Group align="flex-end">
				<NumberInput
					label="Share in per cent"
					size="xs"
					w="8rem"
					min={0}
					max={100}
					decimalScale={2}
					value={share}
					onChange={setShare}
				/>
				<Button
					size="xs"
					variant="default"
					disabled={share === "" || Number(share) === percentage}
					onClick={() => send({ rolloutPercentage: Number(share) })}
				>
					Set share
				</Button>
				<Button size="xs" variant="default" onClick={() => send({ rolloutPaused: !isPaused })}>
					{isPaused ? "Resume" : "Pause"}
				</Button>
				<Button size="xs" variant="default" onClick={() => setAsking("finish")}>
					Give it to everybody
				</Button>
				<Button size="xs" color="red" onClick={() => setAsking("rollback")}>
					Roll back
				</Button>
			</Group>
			{change.isError && isAsking === undefined ? <Problem error={change.error} /> : null}
			{isAsking === "rollback" ? (
				<Confirm
					title={`Roll back ${version}?`}
					action="Roll back"
					isPending={change.isPending}
					error={change.error}
					onConfirm={() => send({ rollback: true })}
					onClose={() => setAsking(undefined)}
				>
					<Text size="sm">
						The rollout ends. At their next check, devices that run {version} get{" "}
						{stable === undefined ? "the store build" : stable} again. The bundle stays, and can be rolled out anew.
					</Text>
				</Confirm>
			) : null}
			{isAsking === "finish" ? (
				<Confirm
					title={`Give ${version} to everybody?`}
					action={`Make ${version} live`}
					isPending={change.isPending}
					error={change.error}
					onConfirm={() => send({ promoteToStable: true })}
					onClose={() => setAsking(undefined)}
				>
					<Text size="sm">
						{version} becomes the live bundle of {channel}
						{stable === undefined ? "." : ` in place of ${stable}; you can go back to that one.`}
					</Text>
				</Confirm>
			) : null}
		</>
	);
}
