/** What devices reported while they ran a bundle: crashes, hangs, JavaScript errors and launch times of the last 30 days. */
import { useAsk } from "../../api";
import { Answer } from "../../components/answer";
import { DescriptionList } from "../../components/description-list";
import { Section } from "../../components/screen";
import { countOf } from "../../components/size";

export function BundleHealth({ appId, version }: { readonly appId: string; readonly version: string }) {
	const health = useAsk("GET /statistics/app/:app_id/health", { params: { app_id: appId }, query: { version } });
	return (
		<Section title="Health, last 30 days">
			<Answer query={health} what="the bundle's health">
				{({ total }) => {
					const { launches, launch_p50_ms: half, launch_p95_ms: most } = total;
					return (
						<DescriptionList
							items={[
								["Crashes", devices(total.crash)],
								["Stopped responding", devices(total.anr)],
								["JavaScript errors", devices(total.js_error)],
								["Launch timed out", devices(total.launch_timeout)],
								[
									"Time to launch",
									half === null || most === null
										? "No launch reported"
										: `${seconds(half)} for half, ${seconds(most)} for 95 of 100 (${countOf(launches ?? 0, "launch", "launches")} measured)`,
								],
							]}
						/>
					);
				}}
			</Answer>
		</Section>
	);
}

/** Each day counts a device again. */
const devices = (count: number | null) => (count === null || count === 0 ? "None" : countOf(count, "device"));
const seconds = (ms: number) => (ms < 1_000 ? `${ms} ms` : `${(ms / 1_000).toFixed(1)} s`);
