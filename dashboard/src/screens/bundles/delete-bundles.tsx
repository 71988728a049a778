/**
 * Deletes bundles: the selected ones that are not in use, or all unused ones. Both name what goes
 * before.
 */
import { Text } from "@mantine/core";
import { type AnswerOf, ask, useChange } from "../../api";
import { Answer } from "../../components/answer";
import { BulkDialog } from "../../components/bulk-dialog";
import { Confirm } from "../../components/form-dialog";
import { runningText, runsItText } from "../../components/kept-until";
import { notify } from "../../components/notify";
import type { Selection } from "../../components/selection";
import { countOf, sizeText } from "../../components/size";
import { planBundleDeletion, useBundleDeletionPlan } from "../../dry-runs";

export type ListedBundle = AnswerOf<"GET /bundle?totals=true">["bundles"][number];

export const NOUN = ["bundle", "bundles"] as const;

/** Deletes the selected bundles, except those that are in use. */
export function DeleteBundles({
	appId,
	selection,
	onClose,
}: {
	readonly appId: string;
	readonly selection: Selection<ListedBundle>;
	readonly onClose: () => void;
}) {
	return (
		<BulkDialog
			title={`Delete ${countOf(selection.rows.length, ...NOUN)}?`}
			action={(count) => `Delete ${countOf(count, ...NOUN)}`}
			noun={NOUN}
			done="deleted"
			isDestructive
			items={selection.rows}
			keyOf={({ id }) => id}
			nameOf={({ name }) => name}
			plan={async ({ name }) => deletionText(await planBundleDeletion(appId, { version: name }))}
			act={({ name }) => ask("DELETE /bundle", { query: { app_id: appId, version: name } })}
			onDone={(bundle) => selection.drop([bundle])}
			onClose={onClose}
		>
			<Text size="sm">This cannot be undone. Devices keep a deleted bundle until a channel offers another one.</Text>
		</BulkDialog>
	);
}

function deletionText({ removes, bundles }: Awaited<ReturnType<typeof planBundleDeletion>>): string {
	const targets = bundles.flatMap(({ rollback_target_of }) => rollback_target_of);
	const parts = [
		...(removes.bundle_bytes === 0 ? [] : [`with ${sizeText(removes.bundle_bytes)} of files`]),
		runsItText(removes.devices),
		...(removes.device_overrides === 0 ? [] : [`${countOf(removes.device_overrides, "override")} ends`]),
		...(targets.length === 0 ? [] : [`${targets.join(", ")} cannot roll back to it any more`]),
	];
	return `${parts.join("; ")}.`;
}

const NAMES_SHOWN = 20;

function KeptForRollback({ count }: { readonly count: number }) {
	if (count === 0) return null;
	return (
		<Text size="sm">
			{countOf(count, "more bundle")} {count === 1 ? "is" : "are"} kept, so that channels can roll back.
		</Text>
	);
}

/** Names the bundles that the dry run lists. */
export function DeleteUnused({ appId, onClose }: { readonly appId: string; readonly onClose: () => void }) {
	const plan = useBundleDeletionPlan(appId, { all: "true" });
	const remove = useChange("DELETE /bundle", () => {
		notify("Unused bundles deleted.");
		onClose();
	});
	return (
		<Confirm
			title="Delete all unused bundles?"
			action="Delete unused bundles"
			isPending={remove.isPending}
			isReady={plan.data !== undefined && plan.data.removes.bundles > 0}
			error={remove.error}
			onClose={onClose}
			onConfirm={() => remove.mutate({ query: { app_id: appId, all: "true" } })}
		>
			<Answer query={plan} what="the unused bundles">
				{({ removes, bundles, kept_for_rollback }) =>
					removes.bundles === 0 ? (
						<>
							<Text size="sm">All bundles are in use. There is nothing to delete.</Text>
							<KeptForRollback count={kept_for_rollback} />
						</>
					) : (
						<>
							<Text size="sm">
								{countOf(removes.bundles, "unused bundle")} and {sizeText(removes.bundle_bytes)} of files will be
								deleted. This cannot be undone.
							</Text>
							<Text size="sm">{runningText(removes.devices)}</Text>
							<ul>
								{bundles.slice(0, NAMES_SHOWN).map(({ id, version, devices }) => (
									<li key={id}>
										{version}
										{devices === 0 ? "" : `, on ${countOf(devices, "device")}`}
									</li>
								))}
								{removes.bundles > NAMES_SHOWN ? (
									<li>and {countOf(removes.bundles - NAMES_SHOWN, "more", "more")}</li>
								) : null}
							</ul>
							<KeptForRollback count={kept_for_rollback} />
							{removes.device_overrides === 0 ? null : (
								<Text size="sm">
									This also removes the override of {countOf(removes.device_overrides, "device")}, which will follow
									channels again.
								</Text>
							)}
						</>
					)
				}
			</Answer>
		</Confirm>
	);
}
