/** Every app of an organization, for choices of one. */
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
				const { items, hasNext } = await askPage("GET /app", { query: { org_id: orgId } }, page);
				found.push(...items);
				if (!hasNext) break;
			}
			return found;
		},
	});
}
