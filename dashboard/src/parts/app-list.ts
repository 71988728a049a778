/** Every app of an organization, for choices of one; the API lists the apps of all organizations a page at a time. */
import { type UseQueryResult, useQuery } from "@tanstack/react-query";
import { type AnswerOf, askPage } from "../api";

export type AppRecord = AnswerOf<"GET /app">[number];

const MOST_PAGES = 20;

export function useAppsOfOrganization(orgId: string): UseQueryResult<readonly AppRecord[], Error> {
	return useQuery<readonly AppRecord[], Error>({
		queryKey: ["GET /app", "all of", orgId],
		queryFn: async () => {
			const found: AppRecord[] = [];
			for (let page = 0; page < MOST_PAGES; page++) {
				const { items, hasNext } = await askPage("GET /app", {}, page);
				found.push(...items.filter(({ owner_org }) => owner_org === orgId));
				if (!hasNext) break;
			}
			return found;
		},
	});
}
