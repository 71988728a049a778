/**
 * How long an app keeps unused bundles, and how many former bundles each channel can roll back to.
 */
import { Radio, Stack } from "@mantine/core";
import { useChange } from "../../api";
import { formErrors } from "../../components/field-errors";
import { notify } from "../../components/notify";
import { NumberField } from "../../components/number-field";
import { SettingsCard } from "../../components/settings-card";
import { changeText, useDraft } from "../../components/settings-draft";
import { countOf } from "../../components/size";
import type { AppSettingsProps } from "./device-settings";

const DAY_SECONDS = 86_400;
const USUAL_DAYS = 30;
const MOST_DAYS = 730;
const MOST_KEPT = 50;

/** Days, rounded to two decimals. */
const daysOf = (seconds: number) => Math.round((seconds / DAY_SECONDS) * 100) / 100;
const keptText = (isForever: boolean, days: number | string) =>
	isForever ? "forever" : days === "" ? "for a number of days" : `for ${countOf(Number(days), "day")}`;

export function AppRetention({ app, mayChange }: AppSettingsProps) {
	const isStoredForever = app.retention === 0;
	const { values, changed, set, discard, settle } = useDraft<{
		readonly isForever: boolean;
		readonly days: number | string;
		readonly kept: number | string;
	}>({
		isForever: isStoredForever,
		days: isStoredForever ? USUAL_DAYS : daysOf(app.retention),
		kept: app.keep_live_bundles,
	});
	const save = useChange("PUT /app/:app_id", () => notify("Bundle retention saved."));
	const errors = formErrors(save.error, ["retention", "keep_live_bundles"]);
	const { isForever, days, kept } = values;
	const isOther = changed.isForever !== undefined || (!isForever && changed.days !== undefined);
	const stored = keptText(isStoredForever, daysOf(app.retention));
	return (
		<SettingsCard
			title="Clean-up"
			note="A bundle is unused if no channel serves it or can roll back to it, and no device ran it during this time. The newest bundle is always kept."
			present={`Unused bundles are kept ${stored}. Each channel can roll back to its last ${countOf(app.keep_live_bundles, "former bundle")}.`}
			mayChange={mayChange}
			action="Save retention"
			changes={[
				...(isOther ? [`${stored} → ${keptText(isForever, days)}`] : []),
				...(changed.kept === undefined ? [] : [changeText("former bundles", app.keep_live_bundles, kept)]),
			]}
			isReady={kept !== "" && (isForever || days !== "")}
			isPending={save.isPending}
			error={errors.rest}
			onDiscard={discard}
			onSave={() =>
				save.mutate(
					{
						params: { app_id: app.app_id },
						body: {
							...(isOther ? { retention: isForever ? 0 : Math.round(Number(days) * DAY_SECONDS) } : {}),
							...(changed.kept === undefined ? {} : { keep_live_bundles: Number(kept) }),
						},
					},
					{ onSuccess: () => settle(changed) },
				)
			}
		>
			<Radio.Group
				label="Keep unused bundles"
				value={isForever ? "ever" : "days"}
				onChange={(value) => set({ isForever: value === "ever" })}
			>
				<Stack gap="xs" mt="xs">
					<Radio value="ever" label="Forever" />
					<Radio value="days" label="For a number of days" />
				</Stack>
			</Radio.Group>
			{isForever ? null : (
				<NumberField
					label="Days"
					error={errors.at("retention")}
					min={0.01}
					max={MOST_DAYS}
					decimals={2}
					value={days}
					onChange={(value) => set({ days: value })}
				/>
			)}
			<NumberField
				label="Former bundles to keep per channel"
				error={errors.at("keep_live_bundles")}
				description="Keeps the last bundles that were live before the current one, so that the channel can roll back to them."
				min={0}
				max={MOST_KEPT}
				value={kept}
				onChange={(value) => set({ kept: value })}
			/>
		</SettingsCard>
	);
}
