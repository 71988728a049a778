/** Points a channel to a bundle: for everybody at once, or for a growing share of its devices. Shows first who would get what. */
import { Alert, Button, NativeSelect, NumberInput, Radio, Stack, Text } from "@mantine/core";
import { useState } from "react";
import { type AnswerOf, useAsk, useChange } from "../api";
import { Answer } from "../parts/answer";
import type { Channel } from "../parts/channel-badges";
import { FormDialog } from "../parts/form";
import { say } from "../parts/say";
import { countOf, countText } from "../parts/size";
import { VersionInput } from "../parts/version-input";

type Way = "everybody" | "share" | "steps";
const STEPS = [1, 5, 25, 100];
const MOST_OUTCOMES = 8;

export function Promote({
	appId,
	channel,
	version: given,
	onClose,
}: {
	readonly appId: string;
	readonly channel: Channel;
	/** Chosen already, to go back to it. */
	readonly version?: string;
	readonly onClose: () => void;
}) {
	const [version, setVersion] = useState(given ?? "");
	const [way, setWay] = useState<Way>("everybody");
	const [share, setShare] = useState<number | string>(5);
	const [limit, setLimit] = useState("500");
	const [asked, setAsked] = useState<string | undefined>();
	const change = useChange("POST /channel", () => {
		say(way === "everybody" ? `${version} is live on ${channel.name}.` : `The rollout of ${version} has begun.`);
		onClose();
	});
	const planned =
		way === "everybody"
			? { version }
			: {
					rolloutVersion: version,
					rolloutEnabled: true,
					...(way === "share"
						? { rolloutPercentage: Number(share), rolloutSteps: null }
						: { rolloutSteps: STEPS, autoPauseFailureRateBps: Number(limit) }),
				};
	const body = { app_id: appId, channel: channel.name, ...planned };
	return (
		<FormDialog
			title={`Promote a bundle to ${channel.name}`}
			action={way === "everybody" ? "Promote" : "Begin the rollout"}
			isPending={change.isPending}
			isReady={version !== ""}
			error={change.error}
			onSubmit={() => change.mutate({ body })}
			onClose={onClose}
		>
			<VersionInput appId={appId} label="Bundle" value={version} onChange={setVersion} />
			<Radio.Group label="Who gets it" value={way} onChange={(value) => setWay(value as Way)}>
				<Stack gap="xs" mt="xs">
					<Radio value="everybody" label="Every device of the channel at once" />
					<Radio value="share" label="A share of the devices, which you raise" />
					<Radio
						value="steps"
						label="In steps of 1, 5, 25 and 100 %, while failures stay rare"
						description="The service raises the share by itself, and stops when too many devices fail."
					/>
				</Stack>
			</Radio.Group>
			{way === "share" ? (
				<NumberInput
					label="Share of the devices, in per cent"
					required
					min={0}
					max={100}
					value={share}
					onChange={setShare}
				/>
			) : null}
			{way === "steps" ? (
				<NativeSelect
					label="Stop when so many devices fail"
					value={limit}
					onChange={(event) => setLimit(event.currentTarget.value)}
					data={[
						{ value: "100", label: "1 %" },
						{ value: "200", label: "2 %" },
						{ value: "500", label: "5 %" },
						{ value: "1000", label: "10 %" },
					]}
				/>
			) : null}
			<Button variant="default" disabled={version === ""} onClick={() => setAsked(JSON.stringify(body))}>
				Show who would get what
			</Button>
			{asked === undefined ? null : <Preview body={JSON.parse(asked)} isCurrent={asked === JSON.stringify(body)} />}
		</FormDialog>
	);
}

type Plan = AnswerOf<"POST /channel/what_if">;

function outcomeText({ outcome, version, error }: Plan["outcomes"][number]["before"]): string {
	if (outcome === "update") return version ?? "an update";
	if (outcome === "builtin") return "the store build";
	return error === null ? "nothing new" : `nothing new (${error.replaceAll("_", " ")})`;
}

function Preview({
	body,
	isCurrent,
}: {
	readonly body: { readonly app_id: string; readonly channel: string };
	/** Whether the form still says what was asked. */
	readonly isCurrent: boolean;
}) {
	const plan = useAsk("POST /channel/what_if", { body });
	return (
		<Answer query={plan} what="what would change">
			{({ devices, changed, sampled, outcomes }) => (
				<Alert
					color={isCurrent ? "blue" : "gray"}
					title={`${countText(changed)} of ${countOf(devices, "device")} would be told something else`}
					role="status"
				>
					<Stack gap={4}>
						{isCurrent ? null : <Text size="sm">This was asked before you changed the form.</Text>}
						<Text size="sm">
							{sampled ? "Of a fair sample of" : "Of"} the devices seen in the last 30 days. Nothing was changed yet.
						</Text>
						{outcomes
							.filter((outcome) => outcome.changed)
							.slice(0, MOST_OUTCOMES)
							.map((outcome) => (
								<Text size="sm" key={JSON.stringify([outcome.before, outcome.after])}>
									{countOf(outcome.devices, "device")}: {outcomeText(outcome.before)} → {outcomeText(outcome.after)}
								</Text>
							))}
					</Stack>
				</Alert>
			)}
		</Answer>
	);
}
