/**
 * The answer to "how does this bundle do": devices, installs, failures with their interval, and
 * time, each with its population.
 */
import { type AnswerOf, useAsk } from "../../api";
import { Sparkline } from "../../charts/sparkline";
import { Answer } from "../../components/answer";
import { Figures } from "../../components/card";
import { countOf, countText, durationText, shareText } from "../../components/size";
import { failedCountText } from "./bundle-texts";

type Installs = Extract<AnswerOf<"GET /statistics/app/:app_id/installs">, { total: unknown }>;
type Usage = Extract<AnswerOf<"GET /statistics/app/:app_id/bundle_usage">, { datasets: unknown }>;

const RANGE = "last 30 days";

export function BundleFigures({ appId, version }: { readonly appId: string; readonly version: string }) {
	const installs = useAsk("GET /statistics/app/:app_id/installs", { params: { app_id: appId } });
	const usage = useAsk("GET /statistics/app/:app_id/bundle_usage", {
		params: { app_id: appId },
		query: { strict: "true" },
	});
	return (
		<Answer query={usage} what="the devices of the bundle">
			{(used) => (
				<Answer query={installs} what="the installs of the bundle">
					{(installed) => <Shown usage={used as Usage} installs={installed as Installs} version={version} />}
				</Answer>
			)}
		</Answer>
	);
}

function Shown({
	usage: { datasets },
	installs,
	version,
}: {
	readonly usage: Usage;
	readonly installs: Installs;
	readonly version: string;
}) {
	const values = datasets.find(({ label }) => label === version)?.metaCounts ?? [];
	const devices = values.at(-1) ?? 0;
	const all = datasets.reduce((sum, { metaCounts }) => sum + (metaCounts.at(-1) ?? 0), 0);
	const outcome = installs.byBundle.find((each) => each.version === version);
	const { install, fail, timed, p50_ms, p95_ms } = outcome ?? {
		install: 0,
		fail: 0,
		timed: 0,
		p50_ms: null,
		p95_ms: null,
	};
	return (
		<Figures
			figures={[
				{
					label: "Devices today",
					value: (
						<>
							{countText(devices)}
							<Sparkline values={values} label={`Devices on ${version}, ${RANGE}`} />
						</>
					),
					note:
						all === 0 ? "No device reported today" : `${shareText(devices, all)} of ${countText(all)} that reported`,
				},
				{ label: "Installs", value: countText(install), note: RANGE },
				{
					label: "Failed installs",
					value: shareText(fail, install + fail),
					note: failedCountText(install, fail),
				},
				{
					label: "Time to install",
					value: p50_ms === null ? "—" : durationText(p50_ms),
					note:
						p95_ms === null
							? "No timed installs"
							: `Median of ${countOf(timed, "install")}; p95 ${durationText(p95_ms)}`,
				},
			]}
		/>
	);
}
