/** The user's organizations and their apps. */
import type { UseQueryResult } from "@tanstack/react-query";
import { type AnswerOf, type Paged, useAllPages, usePage } from "./api";

export type Organization = Extract<AnswerOf<"GET /organization">, readonly unknown[]>[number];

export type AppRecord = AnswerOf<"GET /app">[number];

export const useOrganizations = () => useAllPages("GET /organization", {});

export const useAppsOfOrganization = (orgId: string) => useAllPages("GET /app", { query: { org_id: orgId } });

type DeletedOrganization = Extract<Organization, { readonly restorable_until: string }>;

/** A page of the deleted organizations that the user may restore. */
export function useDeletedOrganizations(page: number) {
	const organizations = usePage("GET /organization", { query: { deleted: "true" } }, page);
	return organizations as UseQueryResult<Paged<DeletedOrganization>, Error>;
}

const LAST = "capstan.organization";

/** The organization that this browser showed last. */
export function lastOrganization(): string | null {
	try {
		return localStorage.getItem(LAST);
	} catch {
		return null;
	}
}

export function storeLastOrganization(id: string): void {
	try {
		localStorage.setItem(LAST, id);
	} catch {
		// Without storage the dashboard starts with the first organization each time.
	}
}
