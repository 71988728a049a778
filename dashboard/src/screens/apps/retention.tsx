/**
 * How long an app keeps unused bundles, and how many former bundles each channel can roll back to.
 */

import { Button, Group, NumberInput, Radio, Stack } from "@mantine/core";
import { useState } from "react";
import { type AnswerOf, useChange } from "../../api";
import { Problem } from "../../components/answer";
import { KeyValues } from "../../components/card";
import { formErrors } from "../../components/field-errors";
import { notify } from "../../components/notify";
import { Section } from "../../components/screen";
import { countOf } from "../../components/size";

type AppRecord = AnswerOf<"GET /app/:app_id">;

const DAY_SECONDS = 86_400;
const USUAL_DAYS = 30;
const MOST_DAYS = 730;
const MOST_KEPT = 50;

/** Days, rounded to two decimals. */
const daysOf = (seconds: number) => Math.round((seconds / DAY_SECONDS) * 100) / 100;

export function AppRetention({ app, mayChange }: { readonly app: AppRecord; readonly mayChange: boolean }) {
	return (
		<Section title="Bundle retention">
			{mayChange ? (
				<Fields app={app} />
			) : (
				<KeyValues
					items={[
						["Keep unused bundles", app.retention === 0 ? "Forever" : `For ${countOf(daysOf(app.retention), "day")}`],
						["Former bundles to keep per channel", String(app.keep_live_bundles)],
					]}
				/>
			)}
		</Section>
	);
}

function Fields({ app }: { readonly app: AppRecord }) {
	const [isForever, setForever] = useState(app.retention === 0);
	const [days, setDays] = useState<number | string>(app.retention === 0 ? USUAL_DAYS : daysOf(app.retention));
	const [kept, setKept] = useState<number | string>(app.keep_live_bundles);
	const save = useChange("PUT /app/:app_id", () => notify("Bundle retention saved."));
	const errors = formErrors(save.error, ["retention", "keep_live_bundles"]);
	const isUnchanged = Number(days) === daysOf(app.retention);
	const seconds = isForever ? 0 : isUnchanged ? app.retention : Math.round(Number(days) * DAY_SECONDS);
	return (
		<form
			onSubmit={(event) => {
				event.preventDefault();
				save.mutate({
					params: { app_id: app.app_id },
					body: { retention: seconds, keep_live_bundles: Number(kept) },
				});
			}}
		>
			<Stack maw="32rem">
				<Radio.Group
					label="Keep unused bundles"
					description="A bundle is unused if no channel serves it or can roll back to it, and no device ran it during this time. The newest bundle is always kept."
					value={isForever ? "ever" : "days"}
					onChange={(value) => setForever(value === "ever")}
				>
					<Stack gap="xs" mt="xs">
						<Radio value="ever" label="Forever" />
						<Radio value="days" label="For a number of days" />
					</Stack>
				</Radio.Group>
				{isForever ? null : (
					<NumberInput
						label="Days"
						error={errors.at("retention")}
						required
						min={0.01}
						max={MOST_DAYS}
						decimalScale={2}
						value={days}
						onChange={setDays}
					/>
				)}
				<NumberInput
					label="Former bundles to keep per channel"
					error={errors.at("keep_live_bundles")}
					description="Keeps the last bundles that were live before the current one, so that the channel can roll back to them."
					required
					min={0}
					max={MOST_KEPT}
					allowDecimal={false}
					value={kept}
					onChange={setKept}
				/>
				{errors.rest === null ? null : <Problem error={errors.rest} />}
				<Group>
					<Button type="submit" loading={save.isPending} {...(days === "" || kept === "" ? { disabled: true } : {})}>
						Save retention
					</Button>
				</Group>
			</Stack>
		</form>
	);
}
