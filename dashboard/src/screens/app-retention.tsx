/** How long an app keeps bundles that nothing uses, and how many former bundles each channel can be rolled back to. */
import { Button, Group, NumberInput, Radio, Stack } from "@mantine/core";
import { useState } from "react";
import { type AnswerOf, useChange } from "../api";
import { Problem } from "../parts/answer";
import { Facts } from "../parts/facts";
import { say } from "../parts/say";
import { Section } from "../parts/screen";
import { countOf } from "../parts/size";

type AppRecord = AnswerOf<"GET /app/:app_id">;

const DAY_SECONDS = 86_400;
const USUAL_DAYS = 30;
const MOST_DAYS = 730;
const MOST_KEPT = 50;

/** Whole days as such, others to two decimals. */
const daysOf = (seconds: number) => Math.round((seconds / DAY_SECONDS) * 100) / 100;

export function AppRetention({ app, mayChange }: { readonly app: AppRecord; readonly mayChange: boolean }) {
	return (
		<Section title="Bundle retention">
			{mayChange ? (
				<Fields app={app} />
			) : (
				<Facts
					facts={[
						["Keep unused bundles", app.retention === 0 ? "For ever" : `For ${countOf(daysOf(app.retention), "day")}`],
						["Former bundles kept per channel", String(app.keep_live_bundles)],
					]}
				/>
			)}
		</Section>
	);
}

function Fields({ app }: { readonly app: AppRecord }) {
	const [isForEver, setForEver] = useState(app.retention === 0);
	const [days, setDays] = useState<number | string>(app.retention === 0 ? USUAL_DAYS : daysOf(app.retention));
	const [kept, setKept] = useState<number | string>(app.keep_live_bundles);
	const save = useChange("PUT /app/:app_id", () => say("Bundle retention is changed."));
	const isUnchanged = Number(days) === daysOf(app.retention);
	const seconds = isForEver ? 0 : isUnchanged ? app.retention : Math.round(Number(days) * DAY_SECONDS);
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
					description="A bundle is unused when no channel serves it or can be rolled back to it, and no device was seen running it in this time. The newest bundle always stays."
					value={isForEver ? "ever" : "days"}
					onChange={(value) => setForEver(value === "ever")}
				>
					<Stack gap="xs" mt="xs">
						<Radio value="ever" label="For ever" />
						<Radio value="days" label="For a number of days" />
					</Stack>
				</Radio.Group>
				{isForEver ? null : (
					<NumberInput
						label="Days"
						required
						min={0.01}
						max={MOST_DAYS}
						decimalScale={2}
						value={days}
						onChange={setDays}
					/>
				)}
				<NumberInput
					label="Former bundles kept per channel"
					description="The last bundles that were live before the present one stay, so that the channel can be rolled back to them."
					required
					min={0}
					max={MOST_KEPT}
					allowDecimal={false}
					value={kept}
					onChange={setKept}
				/>
				{save.isError ? <Problem error={save.error} /> : null}
				<Group>
					<Button type="submit" loading={save.isPending} disabled={days === "" || kept === ""}>
						Save retention
					</Button>
				</Group>
			</Stack>
		</form>
	);
}
