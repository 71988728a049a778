/**
 * The table of apps: live bundle, devices with their course, failures and the last release, and
 * above it the rollouts that stopped.
 */
import type { AnswerOf } from "../../api";
import { Sparkline } from "../../charts/sparkline";
import { ApprovalNotes } from "../../components/approval-notes";
import { AppTile } from "../../components/avatar";
import { Badge, Dot, SampleBadge } from "../../components/badge";
import { Note } from "../../components/card";
import { TextLink } from "../../components/link";
import { Sentence } from "../../components/sentence";
import { countText, percentText, shareText } from "../../components/size";
import { DataTable } from "../../components/table";
import { Time } from "../../components/time";
import { appPath, channelPath } from "../../paths";
import { actorOf, sentenceOf } from "../../releases";

type App = AnswerOf<"GET /statistics/apps">[number];

/** Failed installs above it are red. */
const ALARMING = 0.05;

export function AppList({ apps }: { readonly apps: readonly App[] }) {
	return (
		<>
			{apps.map((app) => (
				<ApprovalNotes key={app.app_id} appId={app.app_id} name={app.name} approvals={app.approvals} />
			))}
			{apps.map((app) => (
				<Stopped key={app.app_id} app={app} />
			))}
			<DataTable
				label="Apps"
				isLinked
				rows={apps}
				rowKey={({ app_id }) => app_id}
				columns={[
					{
						title: "App",
						cell: ({ app_id, name, icon_url }) => (
							<div className="row">
								<AppTile appId={app_id} name={name} icon={icon_url} />
								<div className="stack">
									<span>
										<TextLink to={appPath(app_id)}>
											<strong className="strong">{name}</strong>
										</TextLink>{" "}
										<SampleBadge appId={app_id} name={name} />
									</span>
									<span className="mono faint cut" title={app_id}>
										{app_id}
									</span>
								</div>
							</div>
						),
					},
					{ title: "Live", cell: (app) => <Live app={app} /> },
					{
						title: "Devices a day",
						alignEnd: true,
						wideOnly: true,
						cell: ({ devices }) => countText(devices),
					},
					{
						title: "14 days",
						wideOnly: true,
						cell: ({ devices_by_day }) => (
							<Sparkline
								values={devices_by_day}
								label={`Devices of each of the last 14 days, at most ${countText(Math.max(...devices_by_day))}`}
							/>
						),
					},
					{ title: "Failed, 7 days", alignEnd: true, cell: (app) => <Failed app={app} /> },
					{ title: "Last release", wideOnly: true, cell: (app) => <LastRelease app={app} /> },
				]}
			/>
		</>
	);
}

function Stopped({ app: { app_id, name, live } }: { readonly app: App }) {
	if (live?.rollout?.state !== "paused") return null;
	return (
		<Note tone="bad" title={`${name}: the rollout of ${live.rollout.version ?? "a bundle"} is paused`}>
			<span>
				{live.rollout.pause_reason ?? `It is at ${percentText(live.rollout.percentage_bps)}.`}{" "}
				<TextLink to={channelPath(app_id, live.channel)}>Open {live.channel}</TextLink>
			</span>
		</Note>
	);
}

function Live({ app: { live } }: { readonly app: App }) {
	if (live === null) return <span className="faint whole">Nothing yet</span>;
	const { rollout } = live;
	return (
		<div className="row wrap" title={`On ${live.channel}`}>
			<span>{live.version ?? "Store build"}</span>
			{rollout === null || rollout.state === "off" ? null : (
				<Badge tone={rollout.state === "paused" ? "bad" : "info"}>
					{rollout.version} {rollout.state === "paused" ? "paused" : `at ${percentText(rollout.percentage_bps)}`}
				</Badge>
			)}
		</div>
	);
}

function Failed({ app: { install, fail } }: { readonly app: App }) {
	const reports = install + fail;
	if (reports === 0) return <span className="faint">—</span>;
	const isBad = fail / reports >= ALARMING;
	return (
		<span className={isBad ? "t-bad strong" : ""} title={`${countText(fail)} of ${countText(reports)} installs`}>
			{shareText(fail, reports)} <Dot tone={isBad ? "bad" : "ok"} />
		</span>
	);
}

function LastRelease({ app: { app_id, last_release } }: { readonly app: App }) {
	if (last_release === null) return <span className="faint whole">None yet</span>;
	return (
		<div className="stack">
			<span>
				<Sentence who={actorOf(last_release).name} parts={sentenceOf(last_release)} appId={app_id} />
			</span>
			<Time value={last_release.at} />
		</div>
	);
}
