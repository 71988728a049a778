/**
 * Reports of devices that ran a bundle: crashes, hangs, JavaScript errors and launch times of the
 * last 30 days.
 */
import { useAsk } from "../../api";
import { Answer } from "../../components/answer";
import { type Figure, Figures } from "../../components/card";
import { Section } from "../../components/screen";
import { countOf, countText } from "../../components/size";

export function BundleHealth({ appId, version }: { readonly appId: string; readonly version: string }) {
	const health = useAsk("GET /statistics/app/:app_id/health", { params: { app_id: appId }, query: { version } });
	return (
		<Section title="Health, last 30 days">
			<Answer query={health} what="the bundle's health">
				{({ total }) => {
					const { launches, launch_p50_ms: half, launch_p95_ms: most } = total;
					return (
						<Figures
							figures={[
								counted("Crashes", total.crash),
								counted("Stopped responding", total.anr),
								counted("JavaScript errors", total.js_error),
								counted("Launch timed out", total.launch_timeout),
								{
									label: "Time to launch",
									value: half === null ? "—" : seconds(half),
									note:
										most === null
											? "no launch reported"
											: `95 of 100 under ${seconds(most)}, ${countOf(launches ?? 0, "launch", "launches")} measured`,
								},
							]}
						/>
					);
				}}
			</Answer>
		</Section>
	);
}

/** Each day counts a device again. */
const counted = (label: string, count: number | null): Figure => ({
	label,
	value: countText(count ?? 0),
	note: count === 1 ? "device" : "devices",
	isBad: (count ?? 0) > 0,
});
const seconds = (ms: number) => (ms < 1_000 ? `${ms} ms` : `${(ms / 1_000).toFixed(1)} s`);
