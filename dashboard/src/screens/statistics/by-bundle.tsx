/**
 * The bundles that devices run and installed in the range: devices, share, installs, failures and
 * times, with the course of the devices.
 */
import { Sparkline } from "../../charts/sparkline";
import { isBundle, versionText } from "../../charts/version-text";
import { Badge } from "../../components/badge";
import { TextLink } from "../../components/link";
import { Empty, Section } from "../../components/screen";
import { countText, durationText, shareText } from "../../components/size";
import { DataTable } from "../../components/table";
import { bundlePath } from "../../paths";
import { type BundleUsage, bundleRows } from "./metrics";
import type { InstallsAnswer } from "./queries";
import { lengthText, type Range } from "./range";

/**
 * Failures above this share of at least 20 installs are marked; the health gate of rollouts has its
 * own limits.
 */
const BAD_SHARE = 0.02;
const TELLING_ATTEMPTS = 20;

export function ByBundle({
	appId,
	usage,
	installs,
	live,
	rollingOut,
	range,
}: {
	readonly appId: string;
	readonly usage: BundleUsage;
	readonly installs: InstallsAnswer;
	readonly live: readonly string[];
	readonly rollingOut: readonly string[];
	readonly range: Range;
}) {
	const rows = bundleRows(usage, installs.byBundle);
	const total = rows.reduce((sum, { devices }) => sum + devices, 0);
	return (
		<Section title="By bundle">
			{rows.length === 0 ? (
				<Empty title="No bundle was installed or reported">Choose more days, or connect a device.</Empty>
			) : (
				<DataTable
					label="Bundles"
					rows={rows}
					rowKey={({ version }) => version}
					isLinked
					columns={[
						{
							title: "Bundle",
							cell: ({ version }) => (
								<span className="row wrap">
									{isBundle(version) ? (
										<TextLink to={bundlePath(appId, version)}>{version}</TextLink>
									) : (
										versionText(version)
									)}
									{live.includes(version) ? <Badge tone="ok">Live</Badge> : null}
									{rollingOut.includes(version) ? <Badge tone="info">Rolling out</Badge> : null}
								</span>
							),
						},
						{ title: "Devices", alignEnd: true, cell: ({ devices }) => countText(devices) },
						{
							title: "Share",
							wideOnly: true,
							cell: ({ devices }) => <Share part={devices} whole={total} />,
						},
						{ title: "Installs", alignEnd: true, cell: ({ install }) => (install === null ? "—" : countText(install)) },
						{
							title: "Failed",
							alignEnd: true,
							cell: ({ install, fail }) => <Failed install={install} fail={fail} />,
						},
						{
							title: "p95",
							alignEnd: true,
							wideOnly: true,
							cell: ({ p95_ms }) => (p95_ms === null ? "—" : durationText(p95_ms)),
						},
						{
							title: "Devices each day",
							alignEnd: true,
							wideOnly: true,
							cell: ({ version, values }) => (
								<Sparkline values={values} label={`Devices on ${versionText(version)}, ${lengthText(range)}`} />
							),
						},
					]}
				/>
			)}
		</Section>
	);
}

function Failed({ install, fail }: { readonly install: number | null; readonly fail: number | null }) {
	if (install === null || fail === null || install + fail === 0) return "—";
	const attempts = install + fail;
	const isBad = attempts >= TELLING_ATTEMPTS && fail / attempts > BAD_SHARE;
	return (
		<span className={isBad ? "t-bad" : undefined} title={`${countText(fail)} of ${countText(attempts)}`}>
			{shareText(fail, attempts)}
		</span>
	);
}

export function Share({ part, whole }: { readonly part: number; readonly whole: number }) {
	return (
		<span className="statistics-share">
			<svg viewBox="0 0 100 1" preserveAspectRatio="none" aria-hidden="true">
				<rect className="is-ground" width="100" height="1" />
				<rect className="is-part" width={whole === 0 ? 0 : (part / whole) * 100} height="1" />
			</svg>
			{shareText(part, whole)}
		</span>
	);
}
