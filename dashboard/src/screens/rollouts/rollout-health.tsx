/**
 * The health of a rollout in words and intervals: each judged rate beside its limit and the live
 * bundle, the signals without a limit, and what the next step waits for. An interval says how
 * certain a rate is, so a dot alone never decides.
 */
import { wilsonInterval } from "../../../../src/domain/rollouts/wilson";
import { Badge, type Tone } from "../../components/badge";
import { stateOfRate } from "../../components/health";
import { Icon } from "../../components/icon";
import { type RateBar, RateChart } from "../../components/rate-chart";
import { countsText, nextStepText, type RolloutAnswer, rateText, rateTitle } from "../../components/rollout-texts";
import { countOf } from "../../components/size";
import { IconAlertTriangle, IconCircleCheck, IconClock, type IconDrawing, IconInfoCircle } from "../../icons";
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

function Interval({
	rate: { kind, devices, limit, ...rate },
	version,
	live,
	confidence,
}: {
	readonly rate: Rate;
	readonly version: string;
	readonly live: LiveOutcome | undefined;
	readonly confidence: number;
}) {
	const bars: RateBar[] = [{ ...rate, version, failed: devices, tone: "ro" }];
	const all = (live?.install ?? 0) + (live?.fail ?? 0);
	if (live !== undefined && all > 0) {
		const { lower, upper } = wilsonInterval(live.fail, all, confidence);
		bars.push({
			version: live.version,
			failed: live.fail,
			of: all,
			lowerBound: lower,
			upperBound: upper,
			tone: "live",
		});
	}
	return (
		<div className="stack">
			<span className="small strong">{NAMES[kind]}</span>
			<RateChart label={NAMES[kind]} bars={bars} limit={limit} population="devices" />
		</div>
	);
}

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
