/**
 * The second column of the release dialog: how many devices change version and from which one, who
 * keeps theirs and why, and what becomes of a running rollout. All counts come from the server's
 * dry run; its rows add up to the devices of the channel.
 */
import type { ReactNode } from "react";
import { EFFECT_DAYS } from "../../../src/domain/defaults";
import { versionText } from "../charts/version-text";
import { Note } from "../components/card";
import { isSameVersion, movesOf, type Plan, titleOf, unreachedOf } from "../components/change-counts";
import { Icon } from "../components/icon";
import { Misfits } from "../components/native-packages";
import { countOf, countText, percentText } from "../components/size";
import { IconDeviceMobile } from "../icons";
import type { Way } from "./release-plan";
import { Remedies } from "./remedy";

const MOST_ROWS = 6;

interface Row {
	readonly name: string;
	readonly devices: number;
	/** Links below the name. */
	readonly remedies?: ReactNode;
}

export function WhoChanges({
	appId,
	plan,
	staged,
	isOld,
	version,
	name,
	way,
	firstShareBps,
	live,
	fate,
}: {
	readonly appId: string;
	/** The plan for every device. */
	readonly plan: Plan;
	/** The plan of the first step, for a release in steps. */
	readonly staged: Plan | undefined;
	/** The numbers are those of the form before the last change. */
	readonly isOld: boolean;
	readonly version: string;
	readonly name: string;
	readonly way: Way | undefined;
	readonly firstShareBps: number;
	readonly live: string | undefined;
	/** The effect on a running rollout. */
	readonly fate: ReactNode;
}) {
	const moves = movesOf(plan);
	const moving = sumOf(moves);
	const gets = sumOf(ofChannel(plan, name).filter(({ before, after }) => isGiven(before, after, version)));
	const others = movesOf({ ...plan, outcomes: plan.outcomes.filter(({ after }) => after.version !== version) });
	const unreached = unreachedOf(plan, name, version);
	const builds = plan.store_builds
		.map(({ version_build, offered }) => ({ name: version_build, devices: offered[version] ?? 0 }))
		.filter(({ devices }) => devices > 0);
	const first = staged === undefined ? undefined : sumOf(movesOf(staged));
	return (
		<div className="release-counts" role="status" aria-busy={isOld}>
			<div className="stack">
				<p className="lead">{leadText(plan)}</p>
				<p className="soft small">{whenText({ way, first, firstShareBps, moving, name, plan })}</p>
			</div>
			{fate}
			{plan.compatibility === null ? null : <Misfits compatibility={plan.compatibility} />}
			<Rows
				title={`Get ${version}, by the version that they run`}
				rows={
					moving === 0
						? []
						: plan.from_versions.map(({ version_name, devices }) => ({ name: runText(version_name), devices }))
				}
			/>
			{builds.length > 1 ? <Rows title={`Get ${version}, by store build`} rows={builds} /> : null}
			<Rows title="Get another bundle" rows={others.map(({ text, devices }) => ({ name: text, devices }))} />
			<Rows
				title="Do not get it"
				rows={unreached.map((group) => ({
					name: group.reason,
					devices: group.devices,
					remedies: <Remedies group={group} at={{ appId, name, version }} />,
				}))}
				sum={{ name: `Devices on ${name}`, devices: plan.channel_devices }}
				between={[
					{ name: `already run ${version}`, devices: upToDate(plan, name) },
					{ name: `are offered ${version} already`, devices: offeredBefore(plan, name, version) },
				]}
			/>
			<Remarks plan={plan} gets={gets} name={name} way={way} live={live} hasRollout={fate !== null} version={version} />
		</div>
	);
}

/** "7,410 of 8,031 devices will change version", of the devices of the channel. */
export function leadText(plan: Plan): string {
	const moving = sumOf(movesOf(plan));
	const population = Math.max(plan.channel_devices, moving) || plan.devices;
	return titleOf(plan.sampled ? plan : { ...plan, devices: population }, moving);
}

type Outcome = Plan["outcomes"][number];

const sumOf = (of: readonly { readonly devices: number }[]) => of.reduce((sum, { devices }) => sum + devices, 0);
const ofChannel = ({ outcomes }: Plan, name: string) => outcomes.filter(({ after }) => after.channel === name);
const isGiven = (before: Outcome["before"], after: Outcome["after"], version: string) =>
	after.outcome === "update" && after.version === version && !isSameVersion(before, after);
const upToDate = (plan: Plan, name: string) =>
	sumOf(ofChannel(plan, name).filter(({ after }) => after.kind === "up_to_date" && !after.pinned));
const offeredBefore = (plan: Plan, name: string, version: string) =>
	sumOf(
		ofChannel(plan, name).filter(
			({ before, after }) => after.outcome === "update" && after.version === version && isSameVersion(before, after),
		),
	);
/** A device may report no version at all. */
const runText = (version: string) => `from ${version === "" ? "an unknown version" : versionText(version)}`;

function whenText(of: {
	readonly way: Way | undefined;
	readonly first: number | undefined;
	readonly firstShareBps: number;
	readonly moving: number;
	readonly name: string;
	readonly plan: Plan;
}): string {
	const { way, first, firstShareBps, moving, name, plan } = of;
	if (plan.channel_devices === 0) return `No device of ${name} was seen lately. The next ones get it.`;
	if (moving === 0) return "Nothing changes for the devices that were seen lately.";
	const share = percentText(firstShareBps);
	if (way === undefined || way === "all" || first === undefined) return "At their next update check.";
	if (plan.sampled) return `The first step is ${share}.`;
	return `${countText(first)} of them in the first step, ${share}.`;
}

/** Rows of counts, the largest first. A sum ends them if there are any. */
function Rows({
	title,
	rows,
	between = [],
	sum,
}: {
	readonly title: string;
	readonly rows: readonly Row[];
	/** Rows that belong to the sum and not to the title. */
	readonly between?: readonly Row[];
	readonly sum?: Row;
}) {
	const also = between.filter(({ devices }) => devices > 0);
	if (rows.length === 0 && (sum === undefined || also.length === 0)) return null;
	const shown = rows.slice(0, MOST_ROWS);
	const rest = sumOf(rows.slice(MOST_ROWS));
	const all: readonly Row[] = [
		...shown,
		...(rest === 0 ? [] : [{ name: `${rows.length - MOST_ROWS} smaller groups`, devices: rest }]),
	];
	return (
		<div className="stack">
			<h3>{title}</h3>
			<ul className="plain release-tally">
				{[...all, ...also].map(({ name, devices, remedies }) => (
					<li key={name}>
						<span className="stack">
							<span>{name}</span>
							{remedies}
						</span>
						<b className="num">{countText(devices)}</b>
					</li>
				))}
				{sum === undefined ? null : (
					<li className="sum">
						<span>{sum.name}</span>
						<b className="num">{countText(sum.devices)}</b>
					</li>
				)}
			</ul>
		</div>
	);
}

function Remarks({
	plan,
	gets,
	name,
	way,
	live,
	hasRollout,
	version,
}: {
	readonly plan: Plan;
	readonly gets: number;
	readonly name: string;
	readonly way: Way | undefined;
	readonly live: string | undefined;
	readonly hasRollout: boolean;
	readonly version: string;
}) {
	const remarks: string[] = [
		plan.sampled
			? `Estimated from ${countOf(plan.devices, "device")}, a random sample of those seen in the last ${EFFECT_DAYS} days.`
			: `Counts devices seen in the last ${EFFECT_DAYS} days.`,
		...(plan.unjudged > 0 ? [`${countOf(plan.unjudged, "device")} reported too little to be included.`] : []),
		...(hasRollout ? [] : [`No rollout runs on ${name}.`]),
		...(live === version ? [`${version} is already live on ${name}.`] : []),
		...(way === "steps" && live !== undefined && live !== version
			? [`${live} stays live until the last step is finished.`]
			: []),
		...((way === "steps" || way === "share") && gets > 0
			? ["Starting the rollout selects its devices, so the numbers of the first step may differ slightly."]
			: []),
	];
	return (
		<div className="stack">
			{remarks.map((remark) => (
				<p className="muted small" key={remark}>
					{remark}
				</p>
			))}
		</div>
	);
}

/** A zip that is not uploaded yet cannot be judged by the server. */
export function WhoMayGetIt({
	name,
	version,
	devices,
	builds,
}: {
	readonly name: string;
	readonly version: string;
	/** Undefined while they are counted. */
	readonly devices: number | undefined;
	readonly builds: readonly Row[];
}) {
	const bundle = version === "" ? "the bundle" : version;
	if (devices === undefined) return <p className="soft small">Counting the devices of {name}…</p>;
	return (
		<div className="release-counts" role="status">
			<div className="stack">
				<p className="lead">
					{devices === 0
						? `No device of ${name} was seen in the last ${EFFECT_DAYS} days`
						: `Up to ${countOf(devices, "device")} of ${name} will change version`}
				</p>
				<p className="soft small">
					{devices === 0
						? `The next ones get ${bundle}.`
						: `The zip is uploaded when you release. Devices whose store build does not take ${bundle} keep what they run.`}
				</p>
			</div>
			{devices === 0 ? null : (
				<Rows title="Devices by store build" rows={builds} sum={{ name: `Devices on ${name}`, devices }} />
			)}
		</div>
	);
}

export function NothingChosen({ name }: { readonly name: string }) {
	return (
		<div className="release-nothing">
			<Icon of={IconDeviceMobile} size="l" />
			<h3>Who gets it</h3>
			<p className="soft small">
				Choose a bundle, and see here which devices of {name} change version, which do not, and why.
			</p>
		</div>
	);
}

/** The effect on a rollout that runs. */
export function RolloutFate({
	name,
	rollout,
	effect,
}: {
	readonly name: string;
	readonly rollout: string | undefined;
	readonly effect: string | undefined;
}) {
	if (rollout === undefined || effect === undefined) return null;
	return (
		<Note tone="warn" title={`${name} has a rollout of ${rollout}`}>
			<span>{effect}</span>
		</Note>
	);
}
