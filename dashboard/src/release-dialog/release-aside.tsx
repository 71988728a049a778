/** Beside the form: who changes version, who does not get the bundle, and what becomes of a rollout. */
import { Checkbox } from "@mantine/core";
import type { Channel } from "../components/channel-badges";
import type { Plans, ReleaseChoice } from "./release-choice";
import { type Rules, stepsOf, type Way } from "./release-plan";
import { NothingChosen, RolloutFate, WhoChanges, WhoMayGetIt } from "./who-changes";

export function ReleaseAside({ choice, plans }: { readonly choice: ReleaseChoice; readonly plans: Plans }) {
	const { bundle, target, how } = choice;
	const { file, version } = bundle;
	const { name, channel, devices, known } = target;
	const { isCounted, preview, whole, shown } = plans;
	const rollout = channel?.rollout_version_info?.name;
	const fate =
		rollout === undefined || version === "" ? null : (
			<RolloutFate name={name} rollout={rollout} effect={choice.effect} />
		);
	const maySkip = target.rights.maySet === true && !choice.needsApproval;
	return (
		<aside className="release-who" aria-label="Who changes version" aria-live="polite">
			{version === "" ? <NothingChosen name={name === "" ? "the channel" : name} /> : null}
			{file !== null && channel !== undefined ? (
				<WhoMayGetIt
					name={name}
					version={version}
					devices={devices}
					builds={(known?.store_builds ?? []).map((build) => ({ name: build.version_build, devices: build.devices }))}
				/>
			) : null}
			{target.isNew ? <p className="soft">Creates the channel {name} for every device of the app.</p> : null}
			{isCounted && preview.refusal !== "rollout_running" ? preview.status : null}
			{shown === undefined ? (
				fate
			) : (
				<WhoChanges
					appId={choice.appId}
					plan={shown}
					staged={how.isStaged ? (preview.plan ?? preview.lastPlan) : undefined}
					isOld={whole.plan === undefined || (how.isStaged && preview.plan === undefined)}
					version={version}
					name={name}
					way={how.way}
					firstShareBps={firstShareOf(how.way, how.rules, channel)}
					live={channel?.version?.name}
					fate={fate}
				/>
			)}
			{maySkip && (how.skipsPackages || preview.refusal === "bundle_incompatible") ? (
				<Checkbox
					label="Release it anyway, and turn this rule of the channel off"
					description="Devices whose store build lacks a package fail where the bundle calls it. Turn the rule on again in the settings of the channel."
					checked={how.skipsPackages}
					onChange={(event) => how.setSkipsPackages(event.currentTarget.checked)}
				/>
			) : null}
		</aside>
	);
}

function firstShareOf(way: Way | undefined, rules: Rules, channel: Channel | undefined): number {
	if (way === "share") return Number(rules.share) * 100;
	return ((channel === undefined ? undefined : stepsOf(channel)[0]) ?? 100) * 100;
}
