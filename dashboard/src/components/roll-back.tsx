/**
 * Rolls a channel back to a bundle that was live on it. Says first how many devices change version,
 * and which keep what they run.
 */

import { Stack, Text, TextInput } from "@mantine/core";
import { useState } from "react";
import { EFFECT_DAYS } from "../../../src/domain/defaults";
import { refusalWords } from "../../../src/domain/updates/refusals";
import { STORE_BUILD } from "../../../src/domain/words/releases";
import { CapstanError, useChange } from "../api";
import { type RollbackPlan, useRollbackPlan } from "../dry-runs";
import { Answer, problemText } from "./answer";
import { Note } from "./card";
import { Confirm } from "./form-dialog";
import { notify, notifyChannelChange, notifyWithUndo } from "./notify";
import { countOf, countText } from "./size";

const nameOf = (version: string | null) => version ?? STORE_BUILD;

const isNotFound = (error: Error | null) => error instanceof CapstanError && error.code === "bundle_not_found";

export function RollBack({
	appId,
	channel,
	version,
	onClose,
}: {
	readonly appId: string;
	readonly channel: string;
	/** Null: the store build. Undefined: the bundle that was live before. */
	readonly version: string | null | undefined;
	readonly onClose: () => void;
}) {
	const [reason, setReason] = useState("");
	const plan = useRollbackPlan(appId, channel, version);
	const target = version === undefined ? plan.data?.version : version;
	const name = target === undefined ? "the bundle before" : nameOf(target);
	const promoteBack = useChange("POST /channel", (answer, { body }) =>
		notifyChannelChange(answer, `${body.version} is live on ${channel} again.`),
	);
	const change = useChange("POST /channel/rollback", ({ version: now, previous_version: before }) => {
		const done = `${channel} rolled back to ${nameOf(now)}.`;
		if (before === null || before === now) notify(done);
		else {
			const undo = () =>
				promoteBack.mutate(
					{ body: { app_id: appId, channel, version: before } },
					{ onError: (error) => notify(`${before} was not released again: ${problemText(error)}`) },
				);
			notifyWithUndo(done, `Undo: release ${before} again`, undo);
		}
		onClose();
	});
	const isDeleted = isNotFound(plan.error) || isNotFound(change.error);
	return (
		<Confirm
			title={`Roll back ${channel} to ${name}?`}
			action={`Roll back to ${name}`}
			isPending={change.isPending}
			isReady={plan.isSuccess && !isDeleted}
			error={isDeleted ? null : change.error}
			onClose={onClose}
			onConfirm={() =>
				change.mutate({
					body: {
						app_id: appId,
						channel: channel,
						version: target ?? "builtin",
						...(reason.trim() === "" ? {} : { reason }),
					},
				})
			}
		>
			{isDeleted ? (
				<Note tone="warn" title={`${name} was deleted`} isAlert>
					Choose another bundle in the history, or release one.
				</Note>
			) : (
				<Answer query={plan} what="the affected devices">
					{(found) => <Plan plan={found} version={found.version} />}
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

function Plan({ plan, version }: { readonly plan: RollbackPlan; readonly version: string | null }) {
	const { devices, devices_changed, sampled, refused, rollout_ended, previous_version } = plan;
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
			<Text size="sm">
				At their next update check, devices get {nameOf(version)}
				{previous_version === version ? "" : ` instead of ${nameOf(previous_version)}`}.
				{previous_version === null || previous_version === version || rollout_ended !== null
					? ""
					: " You can undo this afterwards."}
			</Text>
			{refused?.map(({ error, devices: count }) => (
				<Text size="sm" key={error}>
					{countOf(count, "device")} will keep what they run: {refusalWords(error)}.
				</Text>
			))}
			{devices === null ? null : (
				<Text size="xs" c="dimmed">
					{sampled ? "Counted in a random sample of the devices" : "Counts devices"} seen in the last {EFFECT_DAYS}{" "}
					days.
				</Text>
			)}
		</Stack>
	);
}
