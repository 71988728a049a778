/**
 * The live bundle of a channel: who released it and when, how many devices run it, and how it does:
 * failed installs, crashes, errors.
 */
import type { ReactNode } from "react";
import { useAsk } from "../../api";
import { Card, Properties } from "../../components/card";
import type { Channel } from "../../components/channel-badges";
import { TextLink, WebLink } from "../../components/link";
import type { Outcome } from "../../components/release-timeline";
import { countOf, countText, shareText } from "../../components/size";
import { Time, utcDay } from "../../components/time";
import { bundlePath, devicesPath, releasePath } from "../../paths";
import { actorOf, type Release } from "../../releases";

export const HEALTH_DAYS = 7;

/**
 * Devices of the channel that run the bundle; undefined while it is not known, or without the
 * permission to list devices.
 */
function useDevices(appId: string, query: { readonly channel: string; readonly version: string }, enabled: boolean) {
	const seen_from = `${utcDay(-30)}T00:00:00Z`;
	return useAsk("GET /device?totals=true", { query: { app_id: appId, ...query, seen_from } }, { enabled }).data;
}

export function LiveBundle({
	appId,
	channel,
	released,
	outcome,
}: {
	readonly appId: string;
	readonly channel: Channel;
	/** The entry that made it live. */
	readonly released: Release | undefined;
	readonly outcome: Outcome | undefined;
}) {
	const version = channel.version?.name;
	const query = { channel: channel.name, version: version ?? "" };
	const devices = useDevices(appId, query, version !== undefined);
	const health = useAsk(
		"GET /statistics/app/:app_id/health",
		{ params: { app_id: appId }, query: { version: version ?? "", from: utcDay(1 - HEALTH_DAYS), to: utcDay(0) } },
		{ enabled: version !== undefined },
	);
	if (version === undefined) {
		return (
			<Card title="Live bundle">
				<p className="said">None. Devices run their store build.</p>
			</Card>
		);
	}
	const installs = (outcome?.install ?? 0) + (outcome?.fail ?? 0);
	const total = health.data?.total;
	const signals = [
		[total?.crash ?? 0, "crashed"],
		[total?.anr ?? 0, "stopped responding"],
		[total?.js_error ?? 0, "had JavaScript errors"],
	] as const;
	const seen = signals.filter(([count]) => count > 0);
	const items: (readonly [string, ReactNode])[] = [
		...(released === undefined
			? []
			: [
					[
						"Released",
						<span key="by">
							<TextLink to={releasePath(appId, channel.name, released.release_id ?? version)}>
								<Time value={released.at} />
								<span className="sr"> View release</span>
							</TextLink>{" "}
							by {actorOf(released).name}
						</span>,
					] as const,
				]),
		[
			"Failed installs",
			installs === 0
				? `No install reported in ${HEALTH_DAYS} days`
				: `${shareText(outcome?.fail ?? 0, installs)} of ${countText(installs)} in ${HEALTH_DAYS} days`,
		],
		...(total === undefined
			? []
			: [
					[
						"Health",
						seen.length === 0
							? `No crash or error reported in ${HEALTH_DAYS} days`
							: seen.map(([count, text]) => `${countOf(count, "device")} ${text}`).join(", "),
					] as const,
				]),
		...(released?.link === null || released?.link === undefined
			? []
			: [[released.commit === null ? "Link" : "Commit", <WebLink key="link" address={released.link} />] as const]),
	];
	return (
		<Card title="Live bundle">
			<div className="sec">
				<div className="stack">
					<div className="row wrap">
						<strong className="lead">
							<TextLink to={bundlePath(appId, version)}>{version}</TextLink>
						</strong>
						{devices === undefined ? null : (
							<TextLink to={devicesPath(appId, query)}>
								on {devices.complete ? "" : "more than "}
								{countOf(devices.total, "device")}
							</TextLink>
						)}
					</div>
					{released?.notes == null ? null : <div className="said">“{released.notes}”</div>}
				</div>
				<Properties items={items} />
			</div>
		</Card>
	);
}
