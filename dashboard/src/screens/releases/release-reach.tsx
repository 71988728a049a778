/**
 * Who has the release: devices by what became of it, whose rows add up to the bold total. A rollout
 * counts the devices that were offered it. A live release counts the devices of the channel by what
 * their next check would answer.
 */

import { useQuery } from "@tanstack/react-query";
import { EFFECT_DAYS } from "../../../../src/domain/defaults";
import { refusalWords } from "../../../../src/domain/updates/refusals";
import { ask } from "../../api";
import { Answer } from "../../components/answer";
import { Card } from "../../components/card";
import { TextLink } from "../../components/link";
import { countText } from "../../components/size";
import { devicesPath } from "../../paths";
import { nameOf, type Release } from "./release-texts";

interface Row {
	readonly tone: "ro" | "live" | "bad" | "wait" | "none";
	readonly text: string;
	readonly devices: number;
}

export function ReleaseReach({
	appId,
	release,
	isAlone,
}: {
	readonly appId: string;
	readonly release: Release;
	/**
	 * No other bundle is rolled out on the channel, so the answer to a check tells what a device runs.
	 */
	readonly isAlone: boolean;
}) {
	const { devices, state, version } = release;
	const isOpen = state === "off" || state === "rolling_out" || state === "ready_to_finish" || state === "paused";
	const filters = { channel: release.channel.name, ...(version === null ? {} : { version }) };
	const link = version === null ? null : <TextLink to={devicesPath(appId, filters)}>Show devices</TextLink>;
	if (devices !== null && (isOpen || state === "rolled_back")) {
		const rows: Row[] = [
			{ tone: isOpen ? "ro" : "live", text: isOpen ? `run ${version}` : `ran ${version}`, devices: devices.running },
			{ tone: "bad", text: `failed with ${version}`, devices: devices.failed },
			{ tone: "wait", text: "offered, not reported yet", devices: devices.not_reported },
		];
		const total = `Devices that were offered ${version}${devices.complete ? "" : ", as far as recorded"}`;
		return (
			<Card title={isOpen ? "Who has it" : "Who had it"} actions={link}>
				<Tally rows={rows} total={total} sum={devices.offered} />
			</Card>
		);
	}
	if (state !== "live" || !isAlone) return null;
	return <LiveReach appId={appId} release={release} link={link} />;
}

function LiveReach({
	appId,
	release: { channel, version, id },
	link,
}: {
	readonly appId: string;
	readonly release: Release;
	readonly link: React.ReactNode;
}) {
	const reach = useQuery({
		queryKey: ["POST /channel/what_if", "reach", appId, channel.name, id],
		queryFn: () =>
			ask("POST /channel/what_if", {
				body: { app_id: appId, channel: channel.name, version: version ?? "builtin" },
			}),
		retry: false,
	});
	return (
		<Card title="Who has it" actions={link}>
			<Answer query={reach} what="the devices of the channel">
				{({ store_builds: builds, channel_devices: all, sampled }) => {
					const sum = (of: (build: (typeof builds)[number]) => number) =>
						builds.reduce((total, build) => total + of(build), 0);
					const refused = new Map<string, number>();
					for (const build of builds) {
						for (const [error, count] of Object.entries(build.refused)) {
							refused.set(error, (refused.get(error) ?? 0) + count);
						}
					}
					const offered = sum((build) => Object.values(build.offered).reduce((total, count) => total + count, 0));
					const rows: Row[] = [
						{ tone: "live", text: `run ${nameOf(version)}`, devices: sum((build) => build.up_to_date) },
						{ tone: "wait", text: "get it at their next check", devices: offered },
						...[...refused].map(
							([error, count]): Row => ({
								tone: "none",
								text: `cannot get it: ${refusalWords(error)}`,
								devices: count,
							}),
						),
					];
					const known = rows.reduce((total, row) => total + row.devices, 0);
					if (all > known) rows.push({ tone: "none", text: "of rare store builds", devices: all - known });
					return (
						<Tally
							rows={rows}
							total={`Devices on ${channel.name}, seen in ${EFFECT_DAYS} days${sampled ? ", in a sample" : ""}`}
							sum={all}
						/>
					);
				}}
			</Answer>
		</Card>
	);
}

function Tally({ rows, total, sum }: { readonly rows: readonly Row[]; readonly total: string; readonly sum: number }) {
	const shown = rows.filter((row, index) => row.devices > 0 || index === 0);
	let left = 0;
	return (
		<div className="sec">
			{sum === 0 ? null : (
				<svg className="sbar" aria-hidden="true" viewBox="0 0 1000 10" preserveAspectRatio="none">
					{shown.map(({ tone, text, devices }) => {
						const width = (devices / sum) * 1000;
						const x = left;
						left += width;
						return <rect key={text} className={`of-${tone}`} x={x} width={Math.max(0, width - 2)} height="10" />;
					})}
				</svg>
			)}
			<ul className="tally">
				{shown.map(({ tone, text, devices }) => (
					<li key={text}>
						<span className={`sq of-${tone}`} aria-hidden="true" />
						<span>{text}</span>
						<strong className="num strong">{countText(devices)}</strong>
					</li>
				))}
				<li className="sum">
					<span />
					<span>{total}</span>
					<strong className="num strong">{countText(sum)}</strong>
				</li>
			</ul>
		</div>
	);
}
