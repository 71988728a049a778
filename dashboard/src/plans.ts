/** What the API says would go, asked before it is done. Asked as queries, because nothing is changed by them. */
import { type UseQueryResult, useQuery } from "@tanstack/react-query";
import { type AnswerOf, ask } from "./api";

function usePlan<Plan>(key: readonly unknown[], queryFn: () => Promise<Plan>): UseQueryResult<Plan, Error> {
	return useQuery<Plan, Error>({ queryKey: ["dry run", ...key], queryFn, staleTime: 0, gcTime: 0, retry: false });
}

export function useRemovalPlan(
	orgId: string,
	email: string,
): UseQueryResult<AnswerOf<"DELETE /organization/members">, Error> {
	return usePlan(["member", orgId, email], () =>
		ask("DELETE /organization/members", { query: { orgId, email, dry_run: "true" } }),
	);
}

export function useOrganizationDeletionPlan(orgId: string): UseQueryResult<AnswerOf<"DELETE /organization">, Error> {
	return usePlan(["organization", orgId], () => ask("DELETE /organization", { query: { orgId, dry_run: "true" } }));
}

export function useAccountDeletionPlan(): UseQueryResult<AnswerOf<"DELETE /account">, Error> {
	return usePlan(["account"], () => ask("DELETE /account", { query: { dry_run: "true" } }));
}
