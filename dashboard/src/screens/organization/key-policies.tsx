/**
 * The rules that the API keys of an organization meet, with the keys that a change would stop: the
 * server is asked as soon as something changed, and only what it answered can be saved.
 */
import { Switch } from "@mantine/core";
import { MOST_EXPIRATION_DAYS } from "../../../../src/domain/key-policy";
import { type AnswerOf, useChange } from "../../api";
import { Note } from "../../components/card";
import { timeText } from "../../components/dates";
import { formErrors } from "../../components/field-errors";
import { notify } from "../../components/notify";
import { NumberField } from "../../components/number-field";
import { SettingsCard } from "../../components/settings-card";
import { switchText, useDraft } from "../../components/settings-draft";
import { countOf } from "../../components/size";
import { useOrganizationPlan } from "../../dry-runs";

export interface OrganizationSettingsProps {
	readonly organization: Exclude<AnswerOf<"GET /organization">, readonly unknown[]>;
	readonly mayChange: boolean;
}

type Changed = AnswerOf<"POST /organization">;

const HASHED_LABEL = "Never store key secrets";
const EXPIRE_LABEL = "Keys must expire";

const lifetimeText = (days: number | string) =>
	Number(days) === 0 ? "without a longest lifetime" : `within ${countOf(Number(days), "day")}`;

export function KeyPolicies({ organization, mayChange }: OrganizationSettingsProps) {
	const {
		id,
		enforce_hashed_api_keys: isHashed,
		require_apikey_expiration: mustExpire,
		max_apikey_expiration_days: most,
	} = organization;
	const { values, changed, set, discard, settle } = useDraft<{
		readonly enforce_hashed_api_keys: boolean;
		readonly require_apikey_expiration: boolean;
		readonly days: number | string;
	}>({
		enforce_hashed_api_keys: isHashed,
		require_apikey_expiration: mustExpire,
		days: most ?? "",
	});
	const { days, ...switches } = changed;
	const isChanged = Object.keys(changed).length > 0;
	const body = {
		orgId: id,
		...switches,
		...(days === undefined ? {} : { max_apikey_expiration_days: Number(days) }),
	};
	const plan = useOrganizationPlan(isChanged ? body : undefined);
	const save = useChange("POST /organization", () => notify("Policies saved."));
	const errors = formErrors(plan.error ?? save.error, ["max_apikey_expiration_days"]);
	return (
		<SettingsCard
			title="API key policies"
			note="A key that does not meet these policies stops working."
			present={[
				`Key secrets ${isHashed ? "are never stored" : "can be stored"}.`,
				`Keys ${mustExpire ? "must expire" : "may last forever"}, ${lifetimeText(most ?? 0)}.`,
			].join(" ")}
			mayChange={mayChange}
			action="Save policies"
			changes={[
				...(changed.enforce_hashed_api_keys === undefined
					? []
					: [switchText(HASHED_LABEL, changed.enforce_hashed_api_keys)]),
				...(changed.require_apikey_expiration === undefined
					? []
					: [switchText(EXPIRE_LABEL, changed.require_apikey_expiration)]),
				...(days === undefined ? [] : [`${lifetimeText(most ?? 0)} → ${lifetimeText(days)}`]),
			]}
			isReady={plan.data !== undefined && plan.data !== null && !plan.isFetching}
			isPending={save.isPending}
			error={errors.rest}
			onDiscard={discard}
			onSave={() => save.mutate({ body }, { onSuccess: () => settle(changed) })}
		>
			<Switch
				label={HASHED_LABEL}
				description="Keys cannot be revealed after they are created."
				checked={values.enforce_hashed_api_keys}
				onChange={(event) => set({ enforce_hashed_api_keys: event.currentTarget.checked })}
			/>
			<Switch
				label={EXPIRE_LABEL}
				checked={values.require_apikey_expiration}
				onChange={(event) => set({ require_apikey_expiration: event.currentTarget.checked })}
			/>
			<NumberField
				label="Longest key lifetime, in days"
				error={errors.at("max_apikey_expiration_days")}
				description={`At most ${MOST_EXPIRATION_DAYS}. Empty: no limit.`}
				min={1}
				max={MOST_EXPIRATION_DAYS}
				value={values.days}
				onChange={(value) => set({ days: value })}
			/>
			<div role="status">
				{plan.data === undefined || plan.data === null ? null : <StoppedKeys answer={plan.data} />}
			</div>
		</SettingsCard>
	);
}

function StoppedKeys({ answer: { stopped_api_keys, stopped_api_key_count } }: { readonly answer: Changed }) {
	if (stopped_api_key_count === 0) return <Note tone="ok" title="No key will stop working" />;
	return (
		<Note tone="warn" title={`${countOf(stopped_api_key_count, "key")} will stop working`}>
			<ul>
				{stopped_api_keys.map(({ id, name, expires_at }) => (
					<li key={id}>
						<bdi>{name}</bdi>
						{expires_at === null ? ", which never expires" : `, which expires ${timeText(expires_at)}`}
					</li>
				))}
				{stopped_api_key_count > stopped_api_keys.length ? (
					<li>and {stopped_api_key_count - stopped_api_keys.length} more</li>
				) : null}
			</ul>
		</Note>
	);
}
