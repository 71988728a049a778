/** The release timeline of an app, page by page, and how its entries read. */
import { useInfiniteQuery } from "@tanstack/react-query";
import { releaseSentence, SERVICE_NAME, type SentencePart } from "../../src/domain/words/releases";
import { type AnswerOf, ask } from "./api";
import type { ActorKind } from "./components/avatar";

export type Release = AnswerOf<"GET /app/:app_id/releases">[number];

export interface ReleaseFilters {
	readonly channel?: string;
	readonly kind?: string;
	readonly actor?: string;
}

const LOOK_AGAIN_MS = 15_000;

/** Newest first. Looks again while the page is visible. */
export function useReleases(appId: string, filters: ReleaseFilters = {}, limit = 30) {
	return useInfiniteQuery({
		queryKey: ["GET /app/:app_id/releases", appId, filters, limit],
		initialPageParam: "",
		queryFn: ({ pageParam }) =>
			ask("GET /app/:app_id/releases", {
				params: { app_id: appId },
				query: {
					...filters,
					limit: String(limit),
					...(pageParam === "" ? {} : { before: pageParam }),
				} as { limit: string },
			}),
		getNextPageParam: (page) => (page.length < limit ? undefined : page.at(-1)?.id),
		refetchInterval: LOOK_AGAIN_MS,
	});
}

const PROVIDERS: Readonly<Record<string, string>> = {
	github: "GitHub Actions",
	gitlab: "GitLab CI",
	circleci: "CircleCI",
	buildkite: "Buildkite",
};

interface Acted {
	readonly actor: { readonly type: string; readonly name: string | null };
	readonly ci?: Release["ci"];
}

/** The person or program of a sentence. */
export function actorOf({ actor, ci }: Acted): { readonly name: string; readonly kind: ActorKind } {
	if (actor.type === "system") return { name: SERVICE_NAME, kind: "capstan" };
	if (ci !== null && ci !== undefined) {
		const kind = ci.provider === "github" || ci.provider === "gitlab" ? ci.provider : "ci";
		return { name: PROVIDERS[ci.provider] ?? "CI", kind };
	}
	const isKey = actor.type === "api_key";
	return { name: actor.name ?? (isKey ? "An API key" : "A team member"), kind: isKey ? "key" : "person" };
}

interface Sentenced {
	readonly action: string;
	readonly channel: Release["channel"];
	readonly version: string | null;
	readonly previous_version: string | null;
	readonly rollout_percentage_bps: number | null;
}

/** Without the channel on the page of that channel. */
export function sentenceOf(release: Sentenced, withChannel = true): SentencePart[] {
	return releaseSentence({
		action: release.action,
		channel: withChannel ? { name: release.channel.name, isPreview: release.channel.is_preview } : undefined,
		version: release.version,
		previousVersion: release.previous_version,
		rolloutPercentageBps: release.rollout_percentage_bps,
	});
}
