/** The organizations of the reader, all of them: the switcher and the ways into the dashboard need the whole list. */
import { type UseQueryResult, useQuery } from "@tanstack/react-query";
import { type AnswerOf, askPage, type Paged, usePage } from "./api";

export type Organization = Extract<AnswerOf<"GET /organization">, readonly unknown[]>[number];

const MOST_PAGES = 20;

export function useOrganizations(): UseQueryResult<readonly Organization[], Error> {
	return useQuery<readonly Organization[], Error>({
		queryKey: ["GET /organization", "all"],
		queryFn: async () => {
			const found: Organization[] = [];
			for (let page = 0; page < MOST_PAGES; page++) {
				const { items, hasNext } = await askPage("GET /organization", {}, page);
				found.push(...items);
				if (!hasNext) break;
			}
			return found;
		},
	});
}

export type DeletedOrganization = Extract<Organization, { readonly restorable_until: string }>;

/** A page of the deleted ones that the reader may bring back. */
export function useDeletedOrganizations(page: number) {
	const organizations = usePage("GET /organization", { query: { deleted: "true" } }, page);
	return organizations as UseQueryResult<Paged<DeletedOrganization>, Error>;
}

const LAST = "capstan.organization";

/** The organization that was looked at last, on this browser. */
export function lastOrganization(): string | null {
	try {
		return localStorage.getItem(LAST);
	} catch {
		return null;
	}
}

export function rememberOrganization(id: string): void {
	try {
		localStorage.setItem(LAST, id);
	} catch {
		// A browser that keeps nothing begins with the first organization each time.
	}
}
