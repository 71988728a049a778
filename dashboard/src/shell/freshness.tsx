/**
 * How old the shown data is: the age of the oldest answer on the screen, because a figure may be
 * the one that was not asked again. Data counts as stale after a minute; a click loads it again.
 * Without a network an amber strip says when the page was loaded, and every button that changes
 * something is disabled until the network is back.
 */
import { type QueryClient, useQueryClient } from "@tanstack/react-query";
import { useEffect, useState } from "react";
import { HOUR_MS, MINUTE_MS } from "../../../src/domain/time";
import { isLive, mayAnswerLater } from "../api";
import { Dot } from "../components/badge";
import { clockText } from "../components/dates";
import { Icon } from "../components/icon";
import { useIsOnline } from "../components/online";
import { IconWifiOff } from "../icons";

const TICK_MS = 1_000;
const STALE_MS = 60_000;

function ageText(ageMs: number): string {
	if (ageMs < MINUTE_MS) return `${Math.max(0, Math.floor(ageMs / 1_000))} s`;
	return ageMs < HOUR_MS ? `${Math.floor(ageMs / MINUTE_MS)} min` : `${Math.floor(ageMs / HOUR_MS)} h`;
}

/** The answers that the screen shows, or waits for, at a time: they grow older without an event. */
interface Shown {
	readonly nowMs: number;
	/** When the oldest answer arrived; 0 while there is none. */
	readonly oldestMs: number;
	readonly waits: boolean;
	/** The server did not answer one of them, at first or again. */
	readonly failed: boolean;
}

function shownBy(client: QueryClient): Shown {
	const states = client
		.getQueryCache()
		.findAll({ type: "active", predicate: ({ queryKey }) => isLive(queryKey) })
		.map(({ state }) => state);
	const answered = states.filter(({ data }) => data !== undefined).map(({ dataUpdatedAt }) => dataUpdatedAt);
	return {
		nowMs: Date.now(),
		oldestMs: answered.length === 0 ? 0 : Math.min(...answered),
		waits: states.some(({ data, fetchStatus }) => data === undefined && fetchStatus === "fetching"),
		failed: states.some(({ error }) => error !== null && mayAnswerLater(error)),
	};
}

function useShown(): Shown {
	const client = useQueryClient();
	const [shown, setShown] = useState(() => shownBy(client));
	useEffect(() => {
		const timer = setInterval(() => setShown(shownBy(client)), TICK_MS);
		return () => clearInterval(timer);
	}, [client]);
	return shown;
}

export function Freshness() {
	const client = useQueryClient();
	const { oldestMs, waits, failed, nowMs } = useShown();
	const isOnline = useIsOnline();
	if (oldestMs === 0 && !failed) return null;
	const isOld = nowMs - oldestMs >= STALE_MS || !isOnline || failed;
	const text = !isOnline
		? "Offline"
		: failed
			? "Not all is loaded"
			: waits
				? "Loading"
				: `Updated ${ageText(nowMs - oldestMs)} ago`;
	return (
		<button
			type="button"
			className="freshness"
			title={failed ? "A part of this page could not be loaded. Load again" : "Load again"}
			disabled={!isOnline}
			onClick={() => void client.refetchQueries({ type: "active" })}
		>
			<Dot tone={isOld ? "warn" : waits ? "ring" : "ok"} />
			<span className={isOld ? "t-warn num" : "num"}>{text}</span>
		</button>
	);
}

export function OfflineStrip() {
	const isOnline = useIsOnline();
	const { oldestMs } = useShown();
	return (
		<div role="status">
			{isOnline ? null : (
				<div className="note warn">
					<Icon of={IconWifiOff} />
					<div>
						<strong className="strong">You are offline.</strong>{" "}
						{oldestMs === 0
							? "Nothing was loaded yet."
							: `This page shows what was loaded at ${clockText(oldestMs)}. You can change something when the network is back.`}
					</div>
				</div>
			)}
		</div>
	);
}
