/**
 * The answers of the API behind the statistics screen, as one query for each screen: the range, the
 * days before it, and releases.
 */
import { keepPreviousData, type UseQueryResult, useQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import type { Marker } from "../../../../src/charts/model";
import { type AnswerOf, ask, CapstanError, useAllPages, useAsk } from "../../api";
import type { BundleUsage, DayFigures, Period } from "./metrics";
import { daysOf, type Range, rangeBefore } from "./range";

export type InstallsAnswer = Extract<AnswerOf<"GET /statistics/app/:app_id/installs">, { total: unknown }>;

export interface AppFigures {
	readonly now: Period;
	readonly before: Period;
	readonly installs: InstallsAnswer;
	readonly usage: BundleUsage;
}

interface DaysQuery {
	readonly from: string;
	readonly to: string;
	readonly noAccumulate?: "true";
}

/**
 * The figures of each day, and the distinct devices of all of them, which the API refuses if there
 * are too many.
 */
async function periodOf(range: Range, load: (query: DaysQuery) => Promise<readonly DayFigures[]>): Promise<Period> {
	const { from, to } = range;
	const [daily, devices] = await Promise.all([
		load({ from, to, noAccumulate: "true" }),
		load({ from, to }).then(
			(items) => items.at(-1)?.mau ?? 0,
			(error: unknown) => {
				if (error instanceof CapstanError && error.code === "invalid_request") return null;
				throw error;
			},
		),
	]);
	return { days: daysOf(range), daily, devices };
}

export function useAppFigures(appId: string, range: Range): UseQueryResult<AppFigures, Error> {
	return useQuery<AppFigures, Error>({
		queryKey: ["app figures", appId, range.from, range.to],
		placeholderData: keepPreviousData,
		queryFn: async () => {
			const params = { app_id: appId };
			const { from, to } = range;
			const load = async (query: DaysQuery) =>
				(await ask("GET /statistics/app/:app_id", {
					params,
					query: { ...query, strict: "true" },
				})) as readonly DayFigures[];
			const [now, before, installs, usage] = await Promise.all([
				periodOf(range, load),
				periodOf(rangeBefore(range), load),
				ask("GET /statistics/app/:app_id/installs", { params, query: { from, to } }) as Promise<InstallsAnswer>,
				ask("GET /statistics/app/:app_id/bundle_usage", {
					params,
					query: { from, to, strict: "true" },
				}) as Promise<BundleUsage>,
			]);
			return { now, before, installs, usage };
		},
	});
}

type Breakdown = Extract<AnswerOf<"GET /statistics/org/:org_id">, { byApp: unknown }>;

export function useOrganizationFigures(
	orgId: string,
	range: Range,
	isByApp: boolean,
): UseQueryResult<{ readonly now: Period; readonly before: Period }, Error> {
	return useQuery({
		queryKey: ["organization figures", orgId, range.from, range.to, isByApp],
		placeholderData: keepPreviousData,
		queryFn: async () => {
			const params = { org_id: orgId };
			const load = async (query: DaysQuery) =>
				(await ask("GET /statistics/org/:org_id", {
					params,
					query: { ...query, strict: "true" },
				})) as readonly DayFigures[];
			const [now, before, split] = await Promise.all([
				periodOf(range, load),
				periodOf(rangeBefore(range), load),
				isByApp
					? (ask("GET /statistics/org/:org_id", {
							params,
							query: { from: range.from, to: range.to, noAccumulate: "true", breakdown: "true", strict: "true" },
						}) as Promise<Breakdown>)
					: undefined,
			]);
			if (split === undefined) return { now, before };
			const byApp = [...Map.groupBy(split.byApp, ({ app_id }) => app_id)].map(([name, daily]) => ({ name, daily }));
			return { now: { ...now, byApp }, before };
		},
	});
}

export interface Releases {
	readonly releases: readonly Marker[];
	/** Live versions of channels that are no previews, and those that roll out. */
	readonly live: readonly string[];
	readonly rollingOut: readonly string[];
}

const NOTHING: Releases = { releases: [], live: [], rollingOut: [] };
const RELEASES = new Set(["created", "promotion", "rollout_started", "rollback"]);

/** Releases to the main channel, for the flags of charts, and what is live now. */
export function useReleases(appId: string): Releases {
	const channels = useAllPages("GET /channel", { query: { app_id: appId } });
	// The public channel with the oldest id is the main one as a rule.
	const main = channels.data
		?.toSorted((one, other) => Number(other.public) - Number(one.public) || one.id - other.id)
		.at(0);
	const released = useAsk(
		"GET /app/:app_id/releases",
		{ params: { app_id: appId }, query: { channel: main?.name ?? "", limit: "100" } },
		{ enabled: main !== undefined },
	);
	return useMemo(() => {
		if (channels.data === undefined) return NOTHING;
		const first = new Map<string, string>();
		for (const { at, version, action } of released.data ?? []) {
			// The list is newest first; the flag of a version is its first release.
			if (version !== null && RELEASES.has(action)) first.set(version, at.slice(0, 10));
		}
		// From old to new: the flag of a day with several names the last one.
		const releases = [...first].map(([label, day]) => ({ label, day })).reverse();
		const live = channels.data.flatMap(({ version }) => (version === null ? [] : [version.name]));
		const rollingOut = channels.data.flatMap(({ rollout_version_info: version, rolloutEnabled }) =>
			version === null || !rolloutEnabled ? [] : [version.name],
		);
		const mainLive = main?.version?.name;
		return {
			releases,
			live: [...new Set(mainLive === undefined ? live : [mainLive, ...live])],
			rollingOut: [...new Set(rollingOut)],
		};
	}, [released.data, channels.data, main]);
}
