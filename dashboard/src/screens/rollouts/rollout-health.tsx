/**
 * The health of a rollout in words and intervals: each judged rate beside its limit and the live
 * bundle, the signals without a limit, and what the next step waits for. An interval says how
 * certain a rate is, so a dot alone never decides.
 */
import { wilsonInterval } from "../../../../src/domain/rollouts/wilson";
import { Badge, type Tone } from "../../components/badge";
import { stateOfRate } from "../../components/health";
import { Icon } from "../../components/icon";
import { countOf, countText, shareText } from "../../components/size";
import { IconAlertTriangle, IconCircleCheck, IconClock, type IconDrawing, IconInfoCircle } from "../../icons";
import { countsText, nextStepText, type RolloutAnswer, rateText, rateTitle } from "./rollout-texts";
import "./rollouts.css";

type Rate = RolloutAnswer["rates"][number];

/** Installs of the live bundle on the channel, to compare with. */
export interface LiveOutcome {
	readonly version: string;
	readonly install: number;
	readonly fail: number;
}

const CONFIDENCE = 0.95;

export function HealthBadge({ rollout }: { readonly rollout: RolloutAnswer }) {
	const { state, rates } = rollout;
	if (state === "paused") return <Badge tone="bad">Paused</Badge>;
	if (state === "off") return <Badge>Off</Badge>;
	const states = rates.map(stateOfRate);
	if (states.includes("above")) return <Badge tone="bad">Failing</Badge>;
	if (states.length === 0 || states.includes("unknown")) return <Badge>Too few reports</Badge>;
	return <Badge tone="ok">Healthy</Badge>;
}

/**
 * One interval for each rate that has a limit; the live bundle stands below the failed installs.
 */
export function RateIntervals({
	rollout,
	live,
}: {
	readonly rollout: RolloutAnswer;
	readonly live: LiveOutcome | undefined;
}) {
	const shown = rollout.rates.filter(({ of }) => of > 0);
	return shown.map((rate) => (
		<Interval
			key={rate.kind}
			rate={rate}
			version={rollout.version ?? "Rollout"}
			live={rate.kind === "failed" ? live : undefined}
			confidence={rollout.health?.confidence ?? CONFIDENCE}
		/>
	));
}

const NAMES: Readonly<Record<Rate["kind"], string>> = {
	failed: "Failed installs",
	crashed: "Crashed or stopped responding",
	errored: "JavaScript errors",
};

interface Bar {
	readonly version: string;
	readonly devices: number;
	readonly of: number;
	readonly lower: number;
	readonly upper: number;
	readonly isRollout: boolean;
}

function Interval({
	rate,
	version,
	live,
	confidence,
}: {
	readonly rate: Rate;
	readonly version: string;
	readonly live: LiveOutcome | undefined;
	readonly confidence: number;
}) {
	const { kind, devices, of, lowerBound, upperBound, limit } = rate;
	const bars: Bar[] = [{ version, devices, of, lower: lowerBound, upper: upperBound, isRollout: true }];
	if (live !== undefined && live.install + live.fail > 0) {
		const all = live.install + live.fail;
		const { lower, upper } = wilsonInterval(live.fail, all, confidence);
		bars.push({ version: live.version, devices: live.fail, of: all, lower, upper, isRollout: false });
	}
	// Wide intervals of few reports end at the edge, so that the limit stays readable.
	const most = Math.max(
		limit * 1.6,
		...bars.map((bar) => Math.max(bar.devices / bar.of, Math.min(bar.upper, limit * 3))),
	);
	const at = (share: number) => `${Math.min(100, (share / Math.max(most, 0.0001)) * 100)}%`;
	const text = bars.map(
		(bar) =>
			`${bar.version}: ${shareText(bar.devices, bar.of)}, between ${rounded(bar.lower)} and ${rounded(bar.upper)}.`,
	);
	return (
		<figure
			className="rates"
			role="img"
			aria-label={`${NAMES[kind]}. ${text.join(" ")} The limit is ${rounded(limit)}.`}
		>
			<figcaption className="small strong">{NAMES[kind]}</figcaption>
			{bars.map((bar) => (
				<div className="rate" key={String(bar.isRollout)}>
					<span className="cut num">{bar.version}</span>
					<svg aria-hidden="true">
						<rect className="zone" x={at(limit)} width="100%" height="100%" />
						<line className="limit" x1={at(limit)} x2={at(limit)} y1="0" y2="100%" />
						<line className="whisker" x1={at(bar.lower)} x2={at(bar.upper)} y1="50%" y2="50%" />
						<circle className={bar.isRollout ? "of-rollout" : "of-live"} cx={at(bar.devices / bar.of)} cy="50%" r="5" />
					</svg>
					<span className="muted num nowrap">
						{shareText(bar.devices, bar.of)} of {countText(bar.of)}
					</span>
				</div>
			))}
			<div className="rate small muted" aria-hidden="true">
				<span />
				<svg aria-hidden="true">
					<text x="0" y="12">
						0 %
					</text>
					<text className="limit-text" x={at(limit)} y="12" textAnchor="middle">
						limit {rounded(limit)}
					</text>
				</svg>
				<span />
			</div>
		</figure>
	);
}

/** Two digits at most. */
const rounded = (share: number) => `${Number((share * 100).toPrecision(2))} %`;

const PICTURES: Readonly<
	Record<"below" | "unknown" | "above", readonly [IconDrawing, Exclude<Tone, "info" | "preview"> | undefined]>
> = {
	below: [IconCircleCheck, "ok"],
	unknown: [IconClock, undefined],
	above: [IconAlertTriangle, "bad"],
};

/** The limits of the gate, the most important first. */
export function Checks({ rollout, nowMs }: { readonly rollout: RolloutAnswer; readonly nowMs: number }) {
	const { rates, devices, state, reason } = rollout;
	const next = nextStepText(rollout, nowMs);
	return (
		<ul className="rules">
			{rates.map((rate) => {
				const [icon, tone] = PICTURES[stateOfRate(rate)];
				return (
					<Check key={rate.kind} icon={icon} tone={tone} title={rateTitle(rate)}>
						{rateText(rate)}
					</Check>
				);
			})}
			<Check icon={IconInfoCircle} title={countsText(devices)}>
				{signalsText(rollout)}
			</Check>
			{state === "running" ? (
				<Check icon={IconClock} title={next ?? reason}>
					{rollout.sampleFull ? "This step has enough devices. Further ones are not counted." : undefined}
				</Check>
			) : null}
		</ul>
	);
}

function Check({
	icon,
	tone,
	title,
	children,
}: {
	readonly icon: IconDrawing;
	readonly tone?: "ok" | "warn" | "bad" | undefined;
	readonly title: string;
	readonly children?: string | undefined;
}) {
	return (
		<li>
			<span className={tone === undefined ? "dimmed" : `t-${tone}`}>
				<Icon of={icon} />
			</span>
			<span className="stack">
				<span className={tone === undefined ? "" : "strong"}>{title}</span>
				{children === undefined ? null : <span className="muted">{children}</span>}
			</span>
		</li>
	);
}

/** Signals without a limit, which decide nothing but are worth a look. */
function signalsText({ signals, rates }: RolloutAnswer): string | undefined {
	const hasLimit = (kind: Rate["kind"]) => rates.some((rate) => rate.kind === kind);
	const parts = [
		...(signals.crashed === 0 || hasLimit("crashed")
			? []
			: [`${countOf(signals.crashed, "device")} crashed or stopped responding`]),
		...(signals.errored === 0 || hasLimit("errored")
			? []
			: [`${countOf(signals.errored, "device")} reported JavaScript errors`]),
	];
	return parts.length === 0 ? undefined : `${parts.join(", ")}. The rollout settings have no limit for this.`;
}
