/**
 * How old the shown data is. Data counts as stale after a minute; a click loads it again. Without a
 * network an amber strip says when the page was loaded, and every button that changes something is
 * disabled until the network is back.
 */
import { type QueryClient, useQueryClient } from "@tanstack/react-query";
import { useEffect, useState } from "react";
import { HOUR_MS, MINUTE_MS } from "../../../src/domain/time";
import { Dot } from "../components/badge";
import { Icon } from "../components/icon";
import { useIsOnline } from "../components/online";
import { IconWifiOff } from "../icons";

const TICK_MS = 1_000;
const STALE_MS = 60_000;

const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit" });

function ageText(ageMs: number): string {
	if (ageMs < MINUTE_MS) return `${Math.max(0, Math.floor(ageMs / 1_000))} s`;
	return ageMs < HOUR_MS ? `${Math.floor(ageMs / MINUTE_MS)} min` : `${Math.floor(ageMs / HOUR_MS)} h`;
}

const newestAnswerMs = (client: QueryClient) =>
	Math.max(
		0,
		...client
			.getQueryCache()
			.findAll({ type: "active" })
			.map(({ state }) => state.dataUpdatedAt),
	);

/** When the newest answer on the screen arrived; 0 while nothing has. */
function useLoadedAtMs(): number {
	const client = useQueryClient();
	const [loadedAtMs, setLoadedAtMs] = useState(() => newestAnswerMs(client));
	useEffect(() => {
		const timer = setInterval(() => setLoadedAtMs(newestAnswerMs(client)), TICK_MS);
		return () => clearInterval(timer);
	}, [client]);
	return loadedAtMs;
}

export function Freshness() {
	const client = useQueryClient();
	const loadedAtMs = useLoadedAtMs();
	const isOnline = useIsOnline();
	const [nowMs, setNowMs] = useState(() => Date.now());
	useEffect(() => {
		const timer = setInterval(() => setNowMs(Date.now()), TICK_MS);
		return () => clearInterval(timer);
	}, []);
	if (loadedAtMs === 0) return null;
	const ageMs = nowMs - loadedAtMs;
	const isStale = ageMs >= STALE_MS || !isOnline;
	return (
		<button
			type="button"
			className="freshness"
			title="Load again"
			disabled={!isOnline}
			onClick={() => void client.refetchQueries({ type: "active" })}
		>
			<Dot tone={isStale ? "warn" : "ok"} />
			<span className={isStale ? "t-warn num" : "num"}>{isOnline ? `Updated ${ageText(ageMs)} ago` : "Offline"}</span>
		</button>
	);
}

export function OfflineStrip() {
	const isOnline = useIsOnline();
	const loadedAtMs = useLoadedAtMs();
	return (
		<div role="status">
			{isOnline ? null : (
				<div className="note warn">
					<Icon of={IconWifiOff} />
					<div>
						<strong className="strong">You are offline.</strong>{" "}
						{loadedAtMs === 0
							? "Nothing was loaded yet."
							: `This page shows what was loaded at ${clock.format(loadedAtMs)}. You can change something when the network is back.`}
					</div>
				</div>
			)}
		</div>
	);
}
