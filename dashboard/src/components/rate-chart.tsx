/**
 * Shares that failed, each as a point with its interval, beside the limit. The scale ends above the
 * longest interval, so that no point and no bound is cut off.
 */
import { countText, roundedShare, shareText } from "./size";
import "./rate-chart.css";

export interface RateBar {
	readonly version: string;
	readonly failed: number;
	readonly of: number;
	readonly lowerBound: number;
	readonly upperBound: number;
	readonly tone: "ro" | "live" | "old";
}

export function RateChart({
	label,
	bars,
	limit,
	population,
}: {
	readonly label: string;
	readonly bars: readonly RateBar[];
	readonly limit: number;
	readonly population: "devices" | "installs";
}) {
	const end = Math.min(1, Math.max(limit * 1.5, ...bars.map(({ upperBound }) => upperBound * 1.2), 0.001));
	const at = (share: number) => `${(share / end) * 100}%`;
	const texts = bars.map(
		({ version, failed, of, lowerBound, upperBound }) =>
			`${version}: ${countText(failed)} of ${countText(of)} ${population} (${shareText(failed, of)}), between ${roundedShare(lowerBound)} and ${roundedShare(upperBound)}.`,
	);
	// The labels of zero, limit and end would touch.
	const hasEnd = limit / end < 0.72;
	const anchor = limit / end < 0.14 ? "start" : "middle";
	return (
		<div className="rates" role="img" aria-label={`${label}. ${texts.join(" ")} The limit is ${roundedShare(limit)}.`}>
			{bars.map(({ version, failed, of, lowerBound, upperBound, tone }) => (
				<div className="rate" key={`${tone} ${version}`}>
					<span className="cut num">{version}</span>
					<svg aria-hidden="true">
						<rect className="zone" x={at(limit)} width={at(end - limit)} height="100%" />
						<line className="limit" x1={at(limit)} x2={at(limit)} y1="0" y2="100%" />
						<line
							className={lowerBound >= limit ? "whisker over" : "whisker"}
							x1={at(lowerBound)}
							x2={at(upperBound)}
							y1="50%"
							y2="50%"
						/>
						<circle className={`pt-${tone}`} cx={at(failed / of)} cy="50%" r="6" />
					</svg>
					<span className="num nowrap r">
						{countText(failed)} of {countText(of)} · {shareText(failed, of)}
					</span>
				</div>
			))}
			<div className="rate small muted" aria-hidden="true">
				<span />
				<svg aria-hidden="true">
					{limit / end < 0.14 ? null : (
						<text x="0" y="12">
							0
						</text>
					)}
					<text className="limit-text" x={at(limit)} y="12" textAnchor={anchor}>
						limit {roundedShare(limit)}
					</text>
					{hasEnd ? (
						<text x="100%" y="12" textAnchor="end">
							{roundedShare(end)}
						</text>
					) : null}
				</svg>
				<span />
			</div>
		</div>
	);
}
